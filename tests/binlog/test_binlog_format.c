/*
 * The binary log's bytes: what is written is read, what is damaged is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "binlog/format_internal.h"
#include "repeat.h"

enum { EVENT_MAX = 4096 };

static void assert_span(struct span got, const char *wanted)
{
    assert_int_equal(span_compare(got, span_of_text(wanted)), 0);
}

static size_t put_row(uint8_t *to, const char *key, const char *before, const char *after)
{
    struct span b = span_of_text(before != NULL ? before : "");
    struct span a = span_of_text(after != NULL ? after : "");
    const struct span *old = before != NULL ? &b : NULL;
    const struct span *new = after != NULL ? &a : NULL;
    size_t size = (size_t)row_event_bytes(300, span_of_text(key), old, new);
    row_event_put(to, size, 300, span_of_text(key), old, new);
    return size;
}

static void rows_are_read_as_written(void **state)
{
    (void)state;
    uint8_t bytes[EVENT_MAX];
    struct binlog_event event;
    size_t size = put_row(bytes, "k", NULL, "new");
    assert_true(binlog_event_get(span_of(bytes, size), &event));
    assert_int_equal(event.type, BINLOG_INSERT);
    assert_int_equal(event.tree_id, 300);
    assert_span(event.key, "k");
    assert_span(event.after, "new");
    size = put_row(bytes, "", "old", "");
    assert_true(binlog_event_get(span_of(bytes, size), &event));
    assert_int_equal(event.type, BINLOG_UPDATE);
    assert_span(event.key, "");
    assert_span(event.before, "old");
    assert_span(event.after, "");
    size = put_row(bytes, "kk", "old", NULL);
    assert_true(binlog_event_get(span_of(bytes, size), &event));
    assert_int_equal(event.type, BINLOG_DELETE);
    assert_span(event.before, "old");
}

static void what_frames_a_group_is_read_as_written(void **state)
{
    (void)state;
    uint8_t bytes[BEGIN_BYTES];
    struct binlog_event event, begin = {.server_id = 7,
                                        .position = 1234567890123,
                                        .number = 42,
                                        .time_us = 1700000000000001,
                                        .txn_id = 99,
                                        .group_bytes = 1 << 20};
    begin_put(bytes, &begin);
    assert_true(binlog_event_get(span_of(bytes, BEGIN_BYTES), &event));
    assert_int_equal(event.type, BINLOG_BEGIN);
    assert_int_equal(event.server_id, 7);
    assert_int_equal(event.position, begin.position);
    assert_int_equal(event.number, 42);
    assert_int_equal(event.time_us, begin.time_us);
    assert_int_equal(event.txn_id, 99);
    assert_int_equal(event.group_bytes, 1 << 20);
    begin.digest = 5;
    begin.events = 3;
    commit_put(bytes, &begin);
    assert_true(binlog_event_get(span_of(bytes, COMMIT_BYTES), &event));
    assert_int_equal(event.type, BINLOG_COMMIT);
    assert_int_equal(event.digest, 5);
    assert_int_equal(event.events, 3);
    assert_int_equal(event.time_us, begin.time_us);
    rotate_put(bytes, 77, 8);
    assert_true(binlog_event_get(span_of(bytes, ROTATE_BYTES), &event));
    assert_int_equal(event.type, BINLOG_ROTATE);
    assert_int_equal(event.position, 77);
    assert_int_equal(event.number, 8);
}

static void each_changed_bit_is_seen(void **state)
{
    (void)state;
    uint8_t bytes[EVENT_MAX];
    struct binlog_event event;
    size_t size = put_row(bytes, "a key", "a payload", "another one");
    for (size_t i = 0; i < size * 8; i++) {
        bytes[i / 8] ^= (uint8_t)(1 << i % 8);
        assert_false(binlog_event_get(span_of(bytes, size), &event));
        bytes[i / 8] ^= (uint8_t)(1 << i % 8);
    }
    for (size_t i = 0; i < size; i++)
        assert_false(binlog_event_get(span_of(bytes, i), &event));
    assert_true(binlog_event_get(span_of(bytes, size), &event));
}

/* Sound in their checksum, and yet no events: nothing is read beyond the end. */
static void sound_nonsense_is_refused(void **state)
{
    (void)state;
    uint64_t seed = test_seed(1);
    struct rng rng;
    struct binlog_event event;
    rng_init(&rng, seed);
    for (unsigned i = 0; i < 20000 * test_runs(1); i++) {
        size_t size = EVENT_HEADER_BYTES + rng_below(&rng, 60);
        uint8_t *bytes = malloc(size);
        for (size_t j = 0; j < size; j++)
            bytes[j] = (uint8_t)rng_next(&rng);
        event_seal(bytes, size, (enum binlog_event_type)rng_below(&rng, 12));
        if (binlog_event_get(span_of(bytes, size), &event) && event.type >= BINLOG_TREE &&
            event.type <= BINLOG_STATEMENT)
            assert_true(event.key.size_bytes + event.before.size_bytes + event.after.size_bytes +
                            event.name.size_bytes + event.text.size_bytes <
                        size);
        free(bytes);
    }
}

static void digests_do_not_depend_on_pieces(void **state)
{
    (void)state;
    uint8_t bytes[EVENT_MAX];
    struct digest whole = {.at = 0};
    struct rng rng;
    rng_init(&rng, test_seed(2));
    size_t size = put_row(bytes, "one", NULL, "1");
    size += put_row(bytes + size, "two", "1", "22");
    event_seal(bytes + size, EVENT_HEADER_BYTES, BINLOG_STATEMENT);
    size += EVENT_HEADER_BYTES;
    size += put_row(bytes + size, "three", "22", NULL);
    digest_add(&whole, span_of(bytes, size));
    assert_true(digest_is_whole(&whole));
    assert_int_equal(whole.events, 4);
    for (unsigned i = 0; i < 300; i++) {
        struct digest pieces = {.at = 0};
        for (size_t at = 0; at < size;) {
            size_t step = 1 + rng_below(&rng, i % 30 + 1);
            step = step < size - at ? step : size - at;
            digest_add(&pieces, span_of(bytes + at, step));
            at += step;
        }
        assert_true(digest_is_whole(&pieces));
        assert_int_equal(pieces.checksum, whole.checksum);
        assert_int_equal(pieces.events, 4);
    }
    for (size_t i = 0; i < size * 8; i++) {
        struct digest damaged = {.at = 0};
        bytes[i / 8] ^= (uint8_t)(1 << i % 8);
        digest_add(&damaged, span_of(bytes, size));
        assert_false(digest_is_whole(&damaged));
        bytes[i / 8] ^= (uint8_t)(1 << i % 8);
    }
}

static void records_are_read_as_written(void **state)
{
    (void)state;
    uint8_t bytes[RECORD_BYTES + 10] = {0};
    struct span events;
    struct group_place place, wanted = {.kind = RECORD_INLINE,
                                        .server_id = 3,
                                        .file = 12,
                                        .offset = 64,
                                        .number = 5,
                                        .time_us = 6,
                                        .txn_id = 7,
                                        .rotate_offset = 800,
                                        .events_bytes = 10};
    record_put(bytes, &wanted);
    assert_true(record_get(span_of(bytes, sizeof bytes), &place, &events));
    assert_int_equal(place.kind, wanted.kind);
    assert_int_equal(place.server_id, wanted.server_id);
    assert_int_equal(place.file, wanted.file);
    assert_int_equal(place.offset, wanted.offset);
    assert_int_equal(place.number, wanted.number);
    assert_int_equal(place.time_us, wanted.time_us);
    assert_int_equal(place.txn_id, wanted.txn_id);
    assert_int_equal(place.rotate_offset, wanted.rotate_offset);
    assert_int_equal(place.events_bytes, wanted.events_bytes);
    assert_int_equal(events.size_bytes, 10);
    assert_int_equal(group_end(&place), 64 + BEGIN_BYTES + COMMIT_BYTES + 10);
    assert_false(record_get(span_of(bytes, sizeof bytes - 1), &place, &events));
    assert_false(record_get(span_of(bytes, RECORD_BYTES - 1), &place, &events));
    wanted.kind = RECORD_FILE;
    record_put(bytes, &wanted);
    assert_true(record_get(span_of(bytes, RECORD_BYTES), &place, &events));
    wanted.file = 0;
    record_put(bytes, &wanted);
    assert_false(record_get(span_of(bytes, RECORD_BYTES), &place, &events));
}

static void headers_tell_newer_from_damaged(void **state)
{
    (void)state;
    uint8_t bytes[FILE_HEADER_BYTES];
    struct file_header header = {.file = 3, .first_number = 4, .first_time_us = 5, .server_id = 6};
    struct file_header got;
    file_header_put(bytes, &header);
    assert_int_equal(file_header_get(bytes, &got), FIRN_OK);
    assert_memory_equal(got.environment, header.environment, sizeof got.environment);
    assert_int_equal(got.file, header.file);
    assert_int_equal(got.first_number, header.first_number);
    assert_int_equal(got.first_time_us, header.first_time_us);
    assert_int_equal(got.server_id, header.server_id);
    bytes[40] ^= 1;
    assert_int_equal(file_header_get(bytes, &got), FIRN_E_CORRUPT);
    bytes[40] ^= 1;
    bytes[12] = 2;
    assert_int_equal(file_header_get(bytes, &got), FIRN_E_UNSUPPORTED);
    bytes[0] = 'X';
    assert_int_equal(file_header_get(bytes, &got), FIRN_E_INVALID);
}

static void only_own_names_are_names(void **state)
{
    (void)state;
    char name[FILE_NAME_BYTES];
    assert_string_equal(file_name(1, name), "binlog.000001");
    assert_int_equal(file_number_of("binlog.000001"), 1);
    assert_int_equal(file_number_of("binlog.1234567"), 1234567);
    assert_int_equal(file_number_of("binlog.01"), 0);
    assert_int_equal(file_number_of("binlog.000001x"), 0);
    assert_int_equal(file_number_of("binlog.index"), 0);
    assert_int_equal(group_file_txn("binlog_group.17"), 17);
    assert_int_equal(group_file_txn("binlog_group.017"), 0);
    assert_int_equal(group_file_txn("binlog.000017"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_read_as_written),
        cmocka_unit_test(what_frames_a_group_is_read_as_written),
        cmocka_unit_test(each_changed_bit_is_seen),
        cmocka_unit_test(sound_nonsense_is_refused),
        cmocka_unit_test(digests_do_not_depend_on_pieces),
        cmocka_unit_test(records_are_read_as_written),
        cmocka_unit_test(headers_tell_newer_from_damaged),
        cmocka_unit_test(only_own_names_are_names),
    };
    return cmocka_run_group_tests_name("binlog_format", tests, NULL, NULL);
}
