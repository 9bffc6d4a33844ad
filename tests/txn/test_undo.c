/*
 * One thing at a time: records, logs, what is found of them after opening, purge, truncation.
 */
#include "txn/undo_world.h"

static struct sim_disk *disk;
static uint8_t scratch[PAGE_SIZE_MAX];
static struct undo_buffer buffer;

static int setup(void **state)
{
    (void)state;
    mtr_verify_changes(true);
    disk = disk_make();
    undo_world_make(disk);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    undo_world_check();
    undo_world_abandon();
    sim_disk_destroy(disk);
    undo_buffer_free(&buffer);
    mtr_verify_changes(false);
    return 0;
}

static void append(struct undo_log *log, uint64_t number, undo_pointer *pointer)
{
    undo_pointer at = 0;
    ASSERT_OK(append_to(log, &world.mtr, record_make(scratch, number), &at));
    if (pointer != NULL)
        *pointer = at;
}

/* Going back from a pointer there are the records of these numbers, the first one last. */
static void assert_records(undo_pointer pointer, const uint64_t *numbers, unsigned count)
{
    while (count-- > 0) {
        struct span record;
        assert_true(pointer != 0);
        ASSERT_OK(undo_read(undo, pointer, &buffer, &record, &pointer));
        struct span expected = record_make(scratch, numbers[count]);
        assert_int_equal(record.size_bytes, expected.size_bytes);
        assert_memory_equal(record.bytes, expected.bytes, expected.size_bytes);
    }
    assert_true(pointer == 0);
}

static void records_are_read_where_they_were_placed(void **state)
{
    (void)state;
    struct undo_log log;
    undo_pointer pointers[3];
    static const uint64_t numbers[] = {1, 2, 3};
    ASSERT_OK(undo_begin(undo, &world.mtr, 17, &log));
    for (unsigned i = 0; i < 3; i++)
        append(&log, numbers[i], &pointers[i]);
    assert_records(log.last, numbers, 3);
    assert_records(pointers[1], numbers, 2);
    assert_records(pointers[0], numbers, 1);
    assert_int_equal(log.records, 3);
    ASSERT_OK(finish(&log, &world.mtr, UNDO_COMMITTED, 1));
    assert_records(pointers[2], numbers, 3);
}

static void small_logs_share_a_page(void **state)
{
    (void)state;
    struct undo_counters counters;
    for (uint64_t i = 1; i <= 20; i++) {
        struct undo_log log;
        undo_pointer at;
        ASSERT_OK(undo_begin(undo, &world.mtr, i, &log));
        ASSERT_OK(append_to(&log, &world.mtr, span_of("sixteen bytes...", 16), &at));
        ASSERT_OK(finish(&log, &world.mtr, UNDO_COMMITTED, i));
    }
    ASSERT_OK(undo_counters(undo, &counters));
    assert_int_equal(counters.pages, 1);
    assert_int_equal(counters.segments, 1);
    assert_int_equal(counters.segments_in_use, 0);
    assert_int_equal(counters.logs, 20);
    assert_int_equal(counters.records, 20);
    assert_int_equal(counters.record_bytes, 320);
}

static void a_log_without_records_leaves_nothing(void **state)
{
    (void)state;
    struct undo_log log;
    struct undo_counters counters;
    struct undo_finished finished;
    ASSERT_OK(undo_begin(undo, &world.mtr, 5, &log));
    ASSERT_OK(undo_rewind(&log, &world.mtr, 0));
    uint64_t lsn = redo_reserved_lsn(world.redo);
    ASSERT_OK(finish(&log, &world.mtr, UNDO_COMMITTED, 3));
    assert_int_equal(redo_reserved_lsn(world.redo), lsn);
    ASSERT_OK(undo_counters(undo, &counters));
    assert_int_equal(counters.logs, 0);
    assert_int_equal(undo_purge_first(undo, 0, &finished), FIRN_E_NOT_FOUND);
}

static void a_record_that_no_page_takes_is_refused(void **state)
{
    (void)state;
    struct undo_log log;
    ASSERT_OK(undo_begin(undo, &world.mtr, 5, &log));
    size_t most = undo_record_max(PAGE);
    assert_int_equal(undo_make_room(&log, &world.mtr, most + 1), FIRN_E_INVALID);
    ASSERT_TEXT("too large");
    ASSERT_OK(undo_make_room(&log, &world.mtr, most));
    memset(scratch, 1, most);
    for (unsigned i = 0; i < 3; i++) {
        undo_pointer at;
        ASSERT_OK(append_to(&log, &world.mtr, span_of(scratch, most), &at));
    }
    ASSERT_OK(finish(&log, &world.mtr, UNDO_ROLLED_BACK, 1));
}

static void a_place_stays_until_it_is_taken(void **state)
{
    (void)state;
    struct undo_log log;
    undo_pointer at;
    ASSERT_OK(undo_begin(undo, &world.mtr, 5, &log));
    undo_pointer place = undo_place(&log, 100);
    assert_true(place != 0 && place == undo_place(&log, 100));
    ASSERT_OK(append_to(&log, &world.mtr, span_of(scratch, 100), &at));
    assert_true(at == place);
    assert_true(undo_place(&log, 100) == place + 100 + UNDO_FAR_BYTES - UNDO_POSITION_BYTES + 2);
    ASSERT_OK(finish(&log, &world.mtr, UNDO_COMMITTED, 1));
}

/* ---- Rewinding ---- */

static void what_was_rewound_is_passed_over(void **state)
{
    (void)state;
    struct undo_log log;
    undo_pointer savepoint = 0;
    static const uint64_t kept[] = {1, 2, 5, 6};
    ASSERT_OK(undo_begin(undo, &world.mtr, 8, &log));
    append(&log, 1, NULL);
    append(&log, 2, &savepoint);
    append(&log, 3, NULL);
    append(&log, 4, NULL);
    ASSERT_OK(undo_rewind(&log, &world.mtr, savepoint));
    assert_records(log.last, kept, 2);
    append(&log, 5, NULL);
    append(&log, 6, NULL);
    assert_records(log.last, kept, 4);
    ASSERT_OK(finish(&log, &world.mtr, UNDO_COMMITTED, 1));
    struct undo_finished finished;
    ASSERT_OK(undo_purge_first(undo, 0, &finished));
    assert_records(finished.last, kept, 4);
    undo_purge_leave(undo, 0);
}

static void rewinding_all_leaves_no_record(void **state)
{
    (void)state;
    struct undo_log log;
    static const uint64_t kept[] = {9};
    ASSERT_OK(undo_begin(undo, &world.mtr, 8, &log));
    for (uint64_t i = 1; i < 200; i++)
        append(&log, i, NULL);
    ASSERT_OK(undo_rewind(&log, &world.mtr, 0));
    assert_true(log.last == 0);
    append(&log, 9, NULL);
    assert_records(log.last, kept, 1);
    ASSERT_OK(undo_rewind(&log, &world.mtr, 0));
    ASSERT_OK(finish(&log, &world.mtr, UNDO_ROLLED_BACK, 4));
    struct undo_finished finished;
    ASSERT_OK(undo_purge_first(undo, 0, &finished));
    assert_true(finished.last == 0 && !finished.has_work && finished.number == 4);
    ASSERT_OK(undo_purge_done(undo, &world.mtr, 0));
}

/* A statement is to be undone also when the disk is full. */
static void rewinding_needs_no_room(void **state)
{
    (void)state;
    struct undo_log log;
    struct undo_counters before;
    struct undo_counters after;
    undo_pointer first = 0;
    undo_pointer at;
    uint64_t numbers[] = {1};
    ASSERT_OK(undo_begin(undo, &world.mtr, 8, &log));
    append(&log, 1, &first);
    while (undo_place(&log, 0) != 0)
        ASSERT_OK(append_to(&log, &world.mtr, span_of(NULL, 0), &at));
    ASSERT_OK(undo_counters(undo, &before));
    ASSERT_OK(undo_rewind(&log, &world.mtr, first));
    ASSERT_OK(undo_rewind(&log, &world.mtr, 0));
    ASSERT_OK(undo_counters(undo, &after));
    assert_int_equal(after.pages, before.pages);
    append(&log, 1, NULL);
    assert_records(log.last, numbers, 1);
    ASSERT_OK(finish(&log, &world.mtr, UNDO_COMMITTED, 4));
}

/* ---- After opening ---- */

struct found {
    unsigned count;
    struct undo_unfinished what[8];
    struct undo_log logs[8];
};

static firn_rc keep(const struct undo_unfinished *found, const struct undo_log *log, void *context)
{
    struct found *all = context;
    all->what[all->count] = *found;
    all->logs[all->count++] = *log;
    return FIRN_OK;
}

static void reopen(struct found *found)
{
    undo_world_reopen(disk);
    *found = (struct found){0};
    ASSERT_OK(undo_each_unfinished(undo, keep, found));
}

static void what_has_not_ended_is_found_after_opening(void **state)
{
    (void)state;
    struct undo_log logs[3];
    struct found found;
    static const uint64_t numbers[] = {1, 2, 3, 4};
    for (unsigned i = 0; i < 3; i++) {
        ASSERT_OK(undo_begin(undo, &world.mtr, 100 + i, &logs[i]));
        for (unsigned k = 0; k < 4; k++)
            append(&logs[i], numbers[k], NULL);
    }
    struct span xid = span_of("a name\0with a zero", 18);
    ASSERT_OK(mark(&logs[1], &world.mtr, UNDO_PREPARED, 0, xid));
    ASSERT_OK(finish(&logs[2], &world.mtr, UNDO_COMMITTED, 77));
    reopen(&found);
    assert_int_equal(found.count, 2);
    assert_int_equal(undo_last_number(undo), 77);
    for (unsigned i = 0; i < 2; i++) {
        bool prepared = found.what[i].txn_id == 101;
        assert_true(prepared || found.what[i].txn_id == 100);
        assert_int_equal(found.what[i].state, prepared ? UNDO_PREPARED : UNDO_ACTIVE);
        assert_int_equal(found.what[i].xid_bytes, prepared ? xid.size_bytes : 0);
        assert_memory_equal(found.what[i].xid, xid.bytes, found.what[i].xid_bytes);
        assert_records(found.logs[i].last, numbers, 4);
        ASSERT_OK(
            finish(&found.logs[i], &world.mtr, prepared ? UNDO_COMMITTED : UNDO_ROLLED_BACK, 78));
    }
    reopen(&found);
    assert_int_equal(found.count, 0);
    assert_int_equal(undo_last_number(undo), 78);
}

/* It has only read, and is to be found after a crash all the same. */
static void a_log_without_records_can_be_prepared(void **state)
{
    (void)state;
    struct undo_log log;
    struct found found;
    ASSERT_OK(undo_begin(undo, &world.mtr, 9, &log));
    assert_false(log.is_written);
    ASSERT_OK(mark(&log, &world.mtr, UNDO_PREPARED, 0, span_of("reader", 6)));
    assert_true(log.is_written);
    reopen(&found);
    assert_int_equal(found.count, 1);
    assert_int_equal(found.what[0].state, UNDO_PREPARED);
    assert_memory_equal(found.what[0].xid, "reader", 6);
    assert_true(found.logs[0].last == 0);
    ASSERT_OK(finish(&found.logs[0], &world.mtr, UNDO_COMMITTED, 1));
    reopen(&found);
    assert_int_equal(found.count, 0);
}

/* Half undone it must not be committed: it comes back as active. */
static void a_prepared_log_that_is_rolled_back_comes_back_active(void **state)
{
    (void)state;
    struct undo_log log;
    struct found found;
    undo_pointer first = 0;
    static const uint64_t numbers[] = {1, 2};
    ASSERT_OK(undo_begin(undo, &world.mtr, 9, &log));
    append(&log, 1, &first);
    append(&log, 2, NULL);
    ASSERT_OK(mark(&log, &world.mtr, UNDO_PREPARED, 0, span_of("x", 1)));
    reopen(&found);
    assert_int_equal(found.what[0].state, UNDO_PREPARED);
    ASSERT_OK(mark(&found.logs[0], &world.mtr, UNDO_ACTIVE, 0, span_of(NULL, 0)));
    reopen(&found);
    assert_int_equal(found.what[0].state, UNDO_ACTIVE);
    assert_records(found.logs[0].last, numbers, 2);
    ASSERT_OK(undo_rewind(&found.logs[0], &world.mtr, first));
    reopen(&found);
    assert_records(found.logs[0].last, numbers, 1);
    ASSERT_OK(finish(&found.logs[0], &world.mtr, UNDO_ROLLED_BACK, 1));
}

static void a_long_log_is_found_by_its_tail(void **state)
{
    (void)state;
    struct undo_log log;
    struct found found;
    uint64_t numbers[300];
    ASSERT_OK(undo_begin(undo, &world.mtr, 9, &log));
    for (unsigned i = 0; i < 300; i++)
        append(&log, numbers[i] = 1000 + i, NULL);
    ASSERT_OK(undo_segment_count(undo) == 1 ? FIRN_OK : FIRN_E_INVALID);
    /* Its last page is empty. */
    ASSERT_OK(undo_make_room(&log, &world.mtr, undo_record_max(PAGE)));
    reopen(&found);
    assert_int_equal(found.count, 1);
    assert_records(found.logs[0].last, numbers, 300);
    ASSERT_OK(finish(&found.logs[0], &world.mtr, UNDO_COMMITTED, 1));
    reopen(&found);
    assert_int_equal(found.count, 0);
}

/* The header says where the log ended; a page that is added before or after changes nothing. */
static void a_rewind_is_found_behind_empty_pages(void **state)
{
    (void)state;
    for (unsigned when = 0; when < 3; when++) {
        struct undo_log log;
        struct found found;
        undo_pointer first = 0;
        static const uint64_t numbers[] = {1, 2};
        size_t most = undo_record_max(PAGE);
        ASSERT_OK(undo_begin(undo, &world.mtr, 9 + when, &log));
        append(&log, 1, &first);
        append(&log, 2, NULL);
        if (when == 1)
            ASSERT_OK(undo_make_room(&log, &world.mtr, most));
        ASSERT_OK(undo_rewind(&log, &world.mtr, first));
        if (when == 2)
            ASSERT_OK(undo_make_room(&log, &world.mtr, most));
        reopen(&found);
        assert_int_equal(found.count, 1);
        assert_records(found.logs[0].last, numbers, 1);
        append(&found.logs[0], 2, NULL);
        reopen(&found);
        assert_records(found.logs[0].last, numbers, 2);
        ASSERT_OK(finish(&found.logs[0], &world.mtr, UNDO_COMMITTED, 1));
    }
}

static void ids_begin_above_all_that_were_covered(void **state)
{
    (void)state;
    struct found found;
    assert_int_equal(undo_first_id(undo), 1);
    uint64_t lsn = redo_reserved_lsn(world.redo);
    ASSERT_OK(undo_cover_id(undo, &world.mtr, 1));
    assert_true(redo_reserved_lsn(world.redo) > lsn);
    lsn = redo_reserved_lsn(world.redo);
    for (uint64_t id = 2; id < 60000; id++)
        ASSERT_OK(undo_cover_id(undo, &world.mtr, id));
    assert_int_equal(redo_reserved_lsn(world.redo), lsn);
    reopen(&found);
    assert_true(undo_first_id(undo) >= 60000 && undo_first_id(undo) < 140000);
    uint64_t id = undo_first_id(undo);
    ASSERT_OK(undo_cover_id(undo, &world.mtr, id));
    reopen(&found);
    assert_true(undo_first_id(undo) > id);
}

/* ---- Purge ---- */

/* Purge all that has ended. */
static unsigned purge_all(void)
{
    unsigned count = 0;
    for (unsigned i = 0; i < undo_segment_count(undo); i++) {
        struct undo_finished finished;
        firn_rc rc;
        while ((rc = undo_purge_first(undo, i, &finished)) == FIRN_OK) {
            ASSERT_OK(undo_purge_done(undo, &world.mtr, i));
            count++;
        }
        assert_int_equal(rc, FIRN_E_NOT_FOUND);
    }
    return count;
}

static void commit_logs(uint64_t from, uint64_t to)
{
    for (uint64_t i = from; i <= to; i++) {
        struct undo_log log;
        ASSERT_OK(undo_begin(undo, &world.mtr, i, &log));
        append(&log, i, NULL);
        log.has_work = i % 2 == 0;
        ASSERT_OK(finish(&log, &world.mtr, UNDO_COMMITTED, i));
    }
}

static void purge_sees_logs_in_their_order(void **state)
{
    (void)state;
    commit_logs(1, 100);
    for (uint64_t i = 1; i <= 100; i++) {
        struct undo_finished finished;
        ASSERT_OK(undo_purge_first(undo, 0, &finished));
        assert_int_equal(undo_purge_first(undo, 0, &finished), FIRN_E_BUSY);
        assert_int_equal(finished.txn_id, i);
        assert_int_equal(finished.number, i);
        assert_int_equal(finished.has_work, i % 2 == 0);
        assert_records(finished.last, &i, 1);
        ASSERT_OK(undo_purge_done(undo, &world.mtr, 0));
    }
    struct undo_counters counters;
    ASSERT_OK(undo_counters(undo, &counters));
    assert_int_equal(counters.logs, 0);
    assert_int_equal(counters.pages, 1);
}

static void purge_stops_at_what_has_not_ended(void **state)
{
    (void)state;
    struct undo_log log;
    commit_logs(1, 5);
    ASSERT_OK(undo_begin(undo, &world.mtr, 6, &log));
    append(&log, 6, NULL);
    assert_int_equal(purge_all(), 5);
    ASSERT_OK(finish(&log, &world.mtr, UNDO_COMMITTED, 6));
    assert_int_equal(purge_all(), 1);
}

static void history_is_counted_when_it_is_opened(void **state)
{
    (void)state;
    struct found found;
    struct undo_counters before;
    struct undo_counters after;
    struct undo_log log;
    commit_logs(1, 100);
    ASSERT_OK(undo_begin(undo, &world.mtr, 101, &log));
    append(&log, 6, NULL);
    ASSERT_OK(undo_counters(undo, &before));
    reopen(&found);
    ASSERT_OK(undo_counters(undo, &after));
    assert_int_equal(after.logs, 100);
    assert_int_equal(after.pages, before.pages);
    assert_int_equal(after.segments_in_use, 1);
    assert_int_equal(purge_all(), 100);
    /* Those on the page that is left are seen once more. */
    reopen(&found);
    ASSERT_OK(undo_counters(undo, &after));
    assert_true(after.logs < 60);
    assert_int_equal(purge_all(), after.logs);
    assert_int_equal(undo_last_number(undo), 100);
}

static void truncation_gives_the_files_back(void **state)
{
    (void)state;
    struct undo_counters before;
    struct undo_counters after;
    struct found found;
    struct undo_log logs[40];
    uint64_t pages;
    for (unsigned i = 0; i < 40; i++) {
        ASSERT_OK(undo_begin(undo, &world.mtr, i + 1, &logs[i]));
        for (uint64_t k = 0; k < 60; k++)
            append(&logs[i], k, NULL);
    }
    for (unsigned i = 0; i < 40; i++)
        ASSERT_OK(finish(&logs[i], &world.mtr, UNDO_COMMITTED, i + 1));
    ASSERT_OK(undo_counters(undo, &before));
    assert_int_equal(before.segments, 40);
    ASSERT_OK(undo_truncate(undo, &world.mtr, before.file_bytes, &pages));
    assert_int_equal(pages, 0);
    assert_int_equal(purge_all(), 40);
    ASSERT_OK(undo_truncate(undo, &world.mtr, 0, &pages));
    ASSERT_OK(undo_counters(undo, &after));
    assert_true(pages > 0 && after.file_bytes == before.file_bytes - pages * PAGE);
    assert_int_equal(after.segments, 0);
    assert_int_equal(after.pages, 0);
    assert_true(after.file_bytes <= 2 * 16 * PAGE);
    undo_world_check();
    /* Numbers are remembered, though no log says them any more; and it goes on. */
    reopen(&found);
    assert_int_equal(undo_last_number(undo), 40);
    commit_logs(41, 50);
    assert_int_equal(purge_all(), 10);
    assert_int_equal(undo_last_number(undo), 40); /* as opened */
}

static void numbers_outlive_the_only_page_that_says_them(void **state)
{
    (void)state;
    struct undo_log log;
    struct found found;
    undo_pointer at;
    uint64_t pages;
    ASSERT_OK(undo_begin(undo, &world.mtr, 1, &log));
    ASSERT_OK(append_to(&log, &world.mtr, span_of("small", 5), &at));
    ASSERT_OK(finish(&log, &world.mtr, UNDO_COMMITTED, 12345));
    assert_int_equal(purge_all(), 1);
    ASSERT_OK(undo_truncate(undo, &world.mtr, 0, &pages));
    assert_int_equal(undo_segment_count(undo), 1); /* a place without a segment */
    assert_int_equal(purge_all(), 0);
    reopen(&found);
    assert_int_equal(undo_segment_count(undo), 0);
    assert_int_equal(undo_last_number(undo), 12345);
}

/* ---- Limits and wrong files ---- */

static void segments_are_limited_with_a_clear_error(void **state)
{
    (void)state;
    unsigned limit = TABLESPACES * undo_directory_slots(PAGE);
    struct undo_log *logs = calloc(limit + 1, sizeof *logs);
    for (unsigned i = 0; i < limit; i++)
        ASSERT_OK(undo_begin(undo, &world.mtr, i + 1, &logs[i]));
    assert_int_equal(undo_begin(undo, &world.mtr, limit + 1, &logs[limit]), FIRN_E_BUSY);
    ASSERT_TEXT("all 504 undo segments of 2 tablespaces are in use");
    undo_end(&logs[7]);
    ASSERT_OK(undo_begin(undo, &world.mtr, limit + 1, &logs[7]));
    for (unsigned i = 0; i < limit; i++)
        undo_end(&logs[i]);
    free(logs);
}

static void a_wrong_pointer_is_told(void **state)
{
    (void)state;
    struct undo_log log;
    struct span record;
    undo_pointer at = 0;
    ASSERT_OK(undo_begin(undo, &world.mtr, 1, &log));
    append(&log, 1, &at);
    const undo_pointer wrong[] = {0,
                                  at + 1,
                                  log.header,
                                  at ^ UINT64_C(0x10000),
                                  at + (UINT64_C(7) << 48),
                                  at + (UINT64_C(9999) << 16)};
    for (unsigned i = 0; i < ARRAY_COUNT(wrong); i++) {
        assert_int_equal(undo_read(undo, wrong[i], &buffer, &record, NULL), FIRN_E_CORRUPT);
        ASSERT_TEXT("leads to no record");
    }
    ASSERT_OK(finish(&log, &world.mtr, UNDO_COMMITTED, 1));
}

static void tablespaces_may_be_added_and_none_may_be_missing(void **state)
{
    (void)state;
    struct found found;
    uint32_t id;
    undo_close(undo);
    undo = NULL;
    ASSERT_OK(undo_world_open_set(false, 4));
    ASSERT_OK(space_find(world.set, "undo_004", &id));
    undo_close(undo);
    undo = NULL;
    assert_int_equal(undo_world_open_set(false, 0), FIRN_E_INVALID);
    assert_int_equal(undo_world_open_set(false, 128), FIRN_E_INVALID);
    /* None goes, whatever the option says. */
    ASSERT_OK(undo_world_open_set(false, 1));
    undo_close(undo);
    undo = NULL;
    ASSERT_OK(space_drop(world.set, &world.mtr, id));
    assert_int_equal(undo_world_open_set(false, 4), FIRN_E_CORRUPT);
    ASSERT_TEXT("undo_004 is missing");
    ASSERT_OK(space_find(world.set, "undo_001", &id));
    ASSERT_OK(space_drop(world.set, &world.mtr, id));
    assert_int_equal(undo_world_open_set(true, 4), FIRN_E_CORRUPT);
    ASSERT_TEXT("undo_001 is missing");
    /* A new world for the teardown. */
    world_abandon(&world);
    sim_disk_destroy(disk);
    disk = disk_make();
    undo_world_make(disk);
    reopen(&found);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(records_are_read_where_they_were_placed),
        TEST(small_logs_share_a_page),
        TEST(a_log_without_records_leaves_nothing),
        TEST(a_record_that_no_page_takes_is_refused),
        TEST(a_place_stays_until_it_is_taken),
        TEST(what_was_rewound_is_passed_over),
        TEST(rewinding_all_leaves_no_record),
        TEST(rewinding_needs_no_room),
        TEST(what_has_not_ended_is_found_after_opening),
        TEST(a_log_without_records_can_be_prepared),
        TEST(a_prepared_log_that_is_rolled_back_comes_back_active),
        TEST(a_long_log_is_found_by_its_tail),
        TEST(a_rewind_is_found_behind_empty_pages),
        TEST(ids_begin_above_all_that_were_covered),
        TEST(purge_sees_logs_in_their_order),
        TEST(purge_stops_at_what_has_not_ended),
        TEST(history_is_counted_when_it_is_opened),
        TEST(truncation_gives_the_files_back),
        TEST(numbers_outlive_the_only_page_that_says_them),
        TEST(segments_are_limited_with_a_clear_error),
        TEST(a_wrong_pointer_is_told),
        TEST(tablespaces_may_be_added_and_none_may_be_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
