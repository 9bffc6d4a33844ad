/*
 * The binary log of a store: what is in it, files, large groups, prepared transactions, bad input.
 */
#include "binlog_world.h"

struct fixture {
    struct bin_world bin;
    struct sim_disk *disk;
};

static struct fixture *begin(uint64_t seed)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    fixture->disk = disk_make();
    bin_init(&fixture->bin, fixture->disk, seed);
    return fixture;
}

static struct fixture *begin_open(uint64_t seed)
{
    struct fixture *fixture = begin(seed);
    ASSERT_OK(bin_open(&fixture->bin));
    return fixture;
}

static void end(struct fixture *fixture)
{
    if (fixture->bin.world.store != NULL)
        ASSERT_OK(bin_close(&fixture->bin));
    world_end(&fixture->bin.world);
    sim_disk_destroy(fixture->disk);
    free(fixture);
}

static void assert_right(struct fixture *fixture)
{
    const char *wrong = bin_wrong(&fixture->bin);
    if (wrong != NULL)
        fail_msg("%s", wrong);
}

static void put(struct fixture *fixture, const char *key, size_t payload_bytes)
{
    struct bin_world *bin = &fixture->bin;
    uint8_t *payload = calloc(1, payload_bytes + 1);
    memset(payload, key[0], payload_bytes);
    ASSERT_OK(
        txn_put(bin->session, bin->trees[0], span_of_text(key), span_of(payload, payload_bytes)));
    free(payload);
}

static void commit_put_of(struct fixture *fixture, const char *key, size_t payload_bytes)
{
    ASSERT_OK(txn_begin(fixture->bin.session, TXN_READ_COMMITTED, false));
    put(fixture, key, payload_bytes);
    ASSERT_OK(txn_commit(fixture->bin.session));
}

static uint64_t last_number(struct fixture *fixture)
{
    return binlog_last_number(store_binlog(fixture->bin.world.store));
}

/* ---- What is in it ---- */

static void random_transactions_in_both_ways(void **state)
{
    (void)state;
    uint64_t seed = test_seed(1);
    for (unsigned run = 0; run < test_runs(4); run++) {
        struct fixture *fixture = begin(seed + run);
        fixture->bin.world.options.binlog_sync =
            run % 2 == 0 ? STORE_BINLOG_TOGETHER : STORE_BINLOG_SEPARATE;
        ASSERT_OK(bin_open(&fixture->bin));
        for (unsigned part = 0; part < 6; part++) {
            ASSERT_OK(bin_work(&fixture->bin, 40));
            assert_right(fixture);
            ASSERT_OK(bin_close(&fixture->bin));
            ASSERT_OK(bin_open(&fixture->bin));
            assert_right(fixture);
        }
        end(fixture);
    }
}

static void nothing_is_written_about_nothing(void **state)
{
    (void)state;
    struct fixture *fixture = begin_open(1);
    struct txn_session *session = fixture->bin.session;
    struct txn_savepoint savepoint;
    ASSERT_OK(txn_begin(session, TXN_READ_COMMITTED, false));
    ASSERT_OK(txn_commit(session));
    ASSERT_OK(txn_begin(session, TXN_READ_COMMITTED, false));
    assert_int_equal(txn_delete(session, fixture->bin.trees[0], span_of_text("x")),
                     FIRN_E_NOT_FOUND);
    put(fixture, "y", 10);
    ASSERT_OK(txn_rollback(session));
    ASSERT_OK(txn_begin(session, TXN_READ_COMMITTED, false));
    ASSERT_OK(txn_savepoint(session, &savepoint));
    put(fixture, "z", 10);
    ASSERT_OK(txn_rollback_to(session, &savepoint));
    ASSERT_OK(txn_commit(session));
    assert_int_equal(last_number(fixture), 0);
    commit_put_of(fixture, "a", 5);
    assert_int_equal(last_number(fixture), 1);
    assert_right(fixture);
    end(fixture);
}

static void statements_stand_among_rows(void **state)
{
    (void)state;
    struct fixture *fixture = begin_open(1);
    struct replay replay;
    ASSERT_OK(txn_begin(fixture->bin.session, TXN_READ_COMMITTED, false));
    ASSERT_OK(txn_record_text(fixture->bin.session, span_of_text("CREATE TABLE t (a INT)")));
    put(fixture, "a", 10);
    ASSERT_OK(txn_commit(fixture->bin.session));
    ASSERT_OK(txn_begin(fixture->bin.session, TXN_READ_COMMITTED, false));
    ASSERT_OK(txn_record_text(fixture->bin.session, span_of_text("DROP TABLE t")));
    ASSERT_OK(txn_commit(fixture->bin.session)); /* without a row */
    assert_right(fixture);
    assert_null(replay_log(fixture->bin.world.system, "db", &replay));
    assert_int_equal(replay.groups, 2);
    assert_int_equal(replay.statements, 2);
    replay_free(&replay);
    end(fixture);
}

static void a_tree_may_stay_out_of_it(void **state)
{
    (void)state;
    struct fixture *fixture = begin_open(1);
    struct bin_world *bin = &fixture->bin;
    for (unsigned life = 0; life < 2; life++) {
        struct btree *tree;
        ASSERT_OK(store_tree(bin->world.store, "quiet",
                             STORE_TREE_CREATE | STORE_TREE_VERSIONED | STORE_TREE_UNRECORDED,
                             &tree));
        ASSERT_OK(txn_begin(bin->session, TXN_READ_COMMITTED, false));
        ASSERT_OK(txn_put(bin->session, tree, span_of_text("k"), span_of_text("v")));
        ASSERT_OK(txn_commit(bin->session));
        assert_int_equal(last_number(fixture), 0);
        ASSERT_OK(bin_close(bin));
        ASSERT_OK(bin_open(bin));
    }
    end(fixture);
}

static void without_binlog_there_is_none(void **state)
{
    (void)state;
    struct fixture *fixture = begin(1);
    struct replay replay;
    fixture->bin.world.options.binlog = false;
    ASSERT_OK(bin_open(&fixture->bin));
    ASSERT_OK(bin_work(&fixture->bin, 20));
    assert_null(replay_log(fixture->bin.world.system, "db", &replay));
    assert_int_equal(replay.groups, 0);
    end(fixture);
}

/* ---- Large groups ---- */

static void large_transactions_go_by_a_file(void **state)
{
    (void)state;
    for (int mode = 0; mode < 2; mode++) {
        struct fixture *fixture = begin(1);
        struct bin_world *bin = &fixture->bin;
        struct binlog_counters counters;
        char text[32];
        bin->world.options.binlog_sync = (enum store_binlog_sync)mode;
        bin->world.options.buffer_pool_size_bytes = 8 << 20;
        ASSERT_OK(bin_open(bin));
        struct txn_savepoint savepoint;
        ASSERT_OK(txn_begin(bin->session, TXN_READ_COMMITTED, false));
        for (unsigned i = 0; i < BIN_KEYS; i++) {
            ASSERT_OK(txn_put(bin->session, bin->trees[1], bin_key(i, text),
                              span_of(bin->payload, 1500)));
            if (i == 9)
                ASSERT_OK(txn_savepoint(bin->session, &savepoint));
            if (i == 20)
                ASSERT_OK(txn_rollback_to(bin->session, &savepoint)); /* it is in the file */
        }
        ASSERT_OK(txn_commit(bin->session));
        assert_right(fixture);
        binlog_counters(store_binlog(bin->world.store), &counters);
        assert_int_equal(counters.spilled, 1);
        assert_int_equal(counters.groups, 1);
        commit_put_of(fixture, "one row larger than what a frame takes along", 1100000);
        assert_right(fixture);
        binlog_counters(store_binlog(bin->world.store), &counters);
        assert_int_equal(counters.spilled, 2);
        end(fixture);
    }
}

static firn_rc note_group_file(const char *name, void *context)
{
    *(unsigned *)context += strncmp(name, "binlog_group.", 13) == 0;
    return FIRN_OK;
}

static unsigned group_files(struct fixture *fixture)
{
    unsigned count = 0;
    ASSERT_OK(io_list(fixture->bin.world.system, "db", note_group_file, &count));
    return count;
}

static void what_is_prepared_keeps_its_events(void **state)
{
    (void)state;
    for (unsigned commits = 0; commits < 2; commits++) {
        struct fixture *fixture = begin_open(1);
        struct bin_world *bin = &fixture->bin;
        struct span xid = span_of_text("xid");
        ASSERT_OK(txn_begin(bin->session, TXN_READ_COMMITTED, false));
        put(fixture, "a", 100);
        ASSERT_OK(txn_prepare(bin->session, xid));
        assert_int_equal(group_files(fixture), 1);
        commit_put_of(fixture, "b", 100);
        if (commits == 0) {
            ASSERT_OK(bin_close(bin));
        } else {
            sim_disk_cut(fixture->disk, SIM_CUT_DROP, 1);
            bin_abandon(bin);
            world_restore(&bin->world, 1);
        }
        ASSERT_OK(bin_open(bin));
        assert_int_equal(group_files(fixture), 1);
        ASSERT_OK(commits ? txn_commit_prepared(bin->session, xid)
                          : txn_rollback_prepared(bin->session, xid));
        assert_int_equal(last_number(fixture), 1 + commits);
        assert_right(fixture);
        assert_int_equal(group_files(fixture), 0);
        end(fixture);
    }
}

/* ---- Files ---- */

static struct binlog_where end_of_log(struct fixture *fixture)
{
    struct binlog_reader *reader;
    struct binlog_event event;
    struct binlog_where where;
    firn_rc rc;
    struct binlog_reader_options options = {
        .system = fixture->bin.world.system, .path = "db", .is_directory = true};
    ASSERT_OK(binlog_flush(store_binlog(fixture->bin.world.store)));
    ASSERT_OK(binlog_reader_open(&options, &reader));
    while ((rc = binlog_reader_next(reader, &event)) == FIRN_OK)
        continue;
    assert_int_equal(rc, FIRN_E_NOT_FOUND);
    binlog_reader_where(reader, &where);
    binlog_reader_close(reader);
    where.path = NULL;
    return where;
}

static void files_end_at_their_limit(void **state)
{
    (void)state;
    struct fixture *fixture = begin_open(1);
    for (unsigned i = 0; i < 10; i++)
        commit_put_of(fixture, "a", 3000 + i); /* with the payload before: 6 KiB */
    assert_right(fixture);
    assert_int_equal(end_of_log(fixture).file, 2);
    commit_put_of(fixture, "larger than a file", 100000);
    assert_int_equal(end_of_log(fixture).file, 3);
    binlog_rotate(store_binlog(fixture->bin.world.store));
    commit_put_of(fixture, "b", 10);
    assert_int_equal(end_of_log(fixture).file, 4);
    assert_right(fixture);
    end(fixture);
}

static void old_files_are_removed(void **state)
{
    (void)state;
    struct fixture *fixture = begin(1);
    struct binlog_reader *reader;
    struct binlog_event event;
    fixture->bin.world.options.binlog_expire_s = 10; /* a look at the clock is a second */
    ASSERT_OK(bin_open(&fixture->bin));
    for (unsigned i = 0; i < 30; i++) {
        binlog_rotate(store_binlog(fixture->bin.world.store));
        commit_put_of(fixture, "a", 10);
    }
    ASSERT_OK(binlog_flush(store_binlog(fixture->bin.world.store)));
    struct binlog_reader_options options = {
        .system = fixture->bin.world.system, .path = "db", .is_directory = true};
    ASSERT_OK(binlog_reader_open(&options, &reader));
    ASSERT_OK(binlog_reader_next(reader, &event));
    assert_int_equal(event.number, 30 - 10); /* one file is kept for the first group within */
    binlog_reader_close(reader);
    ASSERT_OK(binlog_purge(store_binlog(fixture->bin.world.store), 30));
    ASSERT_OK(binlog_reader_open(&options, &reader));
    ASSERT_OK(binlog_reader_next(reader, &event));
    assert_int_equal(event.number, 30);
    binlog_reader_close(reader);
    assert_int_equal(binlog_purge(store_binlog(fixture->bin.world.store), 31), FIRN_E_INVALID);
    ASSERT_OK(bin_close(&fixture->bin));
    ASSERT_OK(bin_open(&fixture->bin));
    commit_put_of(fixture, "a", 10);
    assert_int_equal(last_number(fixture), 31);
    end(fixture);
}

static void reading_begins_anywhere(void **state)
{
    (void)state;
    struct fixture *fixture = begin_open(5);
    struct binlog_reader_options options = {
        .system = fixture->bin.world.system, .path = "db", .is_directory = true};
    struct binlog_reader *reader;
    struct binlog_event event, first;
    struct binlog_where where;
    firn_rc rc;
    ASSERT_OK(bin_work(&fixture->bin, 60));
    ASSERT_OK(binlog_flush(store_binlog(fixture->bin.world.store)));
    ASSERT_OK(binlog_reader_open(&options, &reader));
    while ((rc = binlog_reader_next(reader, &event)) == FIRN_OK) {
        if (event.type != BINLOG_BEGIN)
            continue;
        struct binlog_reader *other;
        struct binlog_reader_options from = options;
        binlog_reader_where(reader, &where);
        from.start_file = where.file;
        from.start_position = where.offset;
        ASSERT_OK(binlog_reader_open(&from, &other));
        ASSERT_OK(binlog_reader_next(other, &first));
        assert_int_equal(first.number, event.number);
        binlog_reader_close(other);
        from.start_position++;
        assert_int_equal(binlog_reader_open(&from, &other), FIRN_E_INVALID);
        from = options;
        from.start_time_us = event.time_us;
        ASSERT_OK(binlog_reader_open(&from, &other));
        ASSERT_OK(binlog_reader_next(other, &first));
        assert_int_equal(first.number, event.number);
        binlog_reader_close(other);
        from = options;
        from.start_number = event.number;
        ASSERT_OK(binlog_reader_open(&from, &other));
        ASSERT_OK(binlog_reader_next(other, &first));
        assert_int_equal(first.number, event.number);
        binlog_reader_close(other);
    }
    assert_int_equal(rc, FIRN_E_NOT_FOUND);
    binlog_reader_close(reader);
    end(fixture);
}

/* ---- Bad input ---- */

static struct io_file *open_log_file(struct fixture *fixture, const char *name)
{
    struct io_file *file;
    char path[64];
    snprintf(path, sizeof path, "db/%s", name);
    ASSERT_OK(io_file_open(fixture->bin.world.system, IO_CLASS_BINLOG, path, 0, &file));
    return file;
}

static void flip(struct fixture *fixture, const char *name, uint64_t offset, uint8_t mask)
{
    struct io_file *file = open_log_file(fixture, name);
    uint8_t byte;
    ASSERT_OK(io_read(file, &byte, 1, offset));
    byte ^= mask;
    ASSERT_OK(io_write(file, &byte, 1, offset));
    ASSERT_OK(io_file_close(file));
}

static const char *replay_text(struct fixture *fixture, struct replay *replay)
{
    const char *wrong = replay_log(fixture->bin.world.system, "db", replay);
    replay_free(replay);
    return wrong;
}

static struct fixture *with_three_files(void)
{
    struct fixture *fixture = begin_open(1);
    for (unsigned i = 0; i < 9; i++) {
        if (i % 3 == 0)
            binlog_rotate(store_binlog(fixture->bin.world.store));
        commit_put_of(fixture, "a", 60);
    }
    assert_int_equal(end_of_log(fixture).file, 3);
    ASSERT_OK(bin_close(&fixture->bin));
    return fixture;
}

static void each_flipped_byte_is_seen(void **state)
{
    (void)state;
    struct fixture *fixture = with_three_files();
    static const char *const names[] = {"binlog.000001", "binlog.000002", "binlog.000003"};
    struct replay replay;
    for (unsigned i = 0; i < ARRAY_COUNT(names); i++) {
        uint64_t size;
        struct io_file *file = open_log_file(fixture, names[i]);
        ASSERT_OK(io_file_size(file, &size));
        ASSERT_OK(io_file_close(file));
        for (uint64_t at = 0; at < size; at++) {
            flip(fixture, names[i], at, (uint8_t)(1 << at % 8));
            const char *wrong = replay_log(fixture->bin.world.system, "db", &replay);
            /* The last event of the last file: nothing is behind it that would tell it from a group
               that was not written to its end. */
            bool is_tail = i == 2 && replay.groups == 8 && replay.tail_bytes != 0;
            replay_free(&replay);
            if (wrong == NULL && !is_tail)
                fail_msg("byte %llu of %s", (unsigned long long)at, names[i]);
            flip(fixture, names[i], at, (uint8_t)(1 << at % 8));
        }
    }
    assert_null(replay_text(fixture, &replay));
    end(fixture);
}

static void truncation_is_told_from_damage(void **state)
{
    (void)state;
    struct fixture *fixture = with_three_files();
    struct replay replay;
    uint64_t size;
    struct io_file *file = open_log_file(fixture, "binlog.000003");
    ASSERT_OK(io_file_size(file, &size));
    ASSERT_OK(io_file_set_size(file, size - 1));
    assert_null(replay_log(fixture->bin.world.system, "db", &replay));
    assert_int_equal(replay.groups, 8);
    assert_true(replay.tail_bytes > 0);
    replay_free(&replay);
    /* The environment was closed: that no crash leaves. */
    assert_int_equal(bin_open(&fixture->bin), FIRN_E_CORRUPT);
    assert_non_null(strstr(firn_error_text(), "binlog.000003 does not end with a whole group"));
    ASSERT_OK(io_file_close(file));
    file = open_log_file(fixture, "binlog.000002");
    ASSERT_OK(io_file_size(file, &size));
    ASSERT_OK(io_file_set_size(file, size - 1));
    ASSERT_OK(io_file_close(file));
    assert_non_null(strstr(replay_text(fixture, &replay), "binlog.000002 is truncated"));
    end(fixture);
}

static void missing_and_swapped_files_are_refused(void **state)
{
    (void)state;
    struct fixture *fixture = with_three_files();
    struct io_system *system = fixture->bin.world.system;
    struct replay replay;
    ASSERT_OK(io_rename(system, "db/binlog.000002", "db/elsewhere"));
    assert_non_null(strstr(replay_text(fixture, &replay), "binlog.000002, but it is missing"));
    ASSERT_OK(io_rename(system, "db/binlog.000001", "db/binlog.000002"));
    ASSERT_OK(io_rename(system, "db/elsewhere", "db/binlog.000001"));
    assert_non_null(strstr(replay_text(fixture, &replay), "says that it is file 2"));
    ASSERT_OK(io_rename(system, "db/binlog.index", "db/elsewhere"));
    assert_int_equal(bin_open(&fixture->bin), FIRN_E_CORRUPT);
    assert_non_null(strstr(firn_error_text(), "but no binlog.index"));
    struct binlog_reader *reader;
    struct binlog_reader_options options = {.system = system, .path = "db/firn.env"};
    assert_int_equal(binlog_reader_open(&options, &reader), FIRN_E_INVALID);
    assert_non_null(strstr(firn_error_text(), "is no binary log of firn"));
    end(fixture);
}

static void options_out_of_range_are_refused(void **state)
{
    (void)state;
    struct fixture *fixture = begin(1);
    struct store_options *options = &fixture->bin.world.options;
    options->max_binlog_size_bytes = 100;
    assert_int_equal(bin_open(&fixture->bin), FIRN_E_INVALID);
    options->max_binlog_size_bytes = 1 << 20;
    options->binlog_cache_size_bytes = BINLOG_CACHE_MAX_BYTES + 1;
    assert_int_equal(bin_open(&fixture->bin), FIRN_E_INVALID);
    options->binlog_cache_size_bytes = BINLOG_CACHE_MAX_BYTES;
    options->server_id = 0;
    assert_int_equal(bin_open(&fixture->bin), FIRN_E_INVALID);
    end(fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_transactions_in_both_ways),
        cmocka_unit_test(nothing_is_written_about_nothing),
        cmocka_unit_test(statements_stand_among_rows),
        cmocka_unit_test(a_tree_may_stay_out_of_it),
        cmocka_unit_test(without_binlog_there_is_none),
        cmocka_unit_test(large_transactions_go_by_a_file),
        cmocka_unit_test(what_is_prepared_keeps_its_events),
        cmocka_unit_test(files_end_at_their_limit),
        cmocka_unit_test(old_files_are_removed),
        cmocka_unit_test(reading_begins_anywhere),
        cmocka_unit_test(each_flipped_byte_is_seen),
        cmocka_unit_test(truncation_is_told_from_damage),
        cmocka_unit_test(missing_and_swapped_files_are_refused),
        cmocka_unit_test(options_out_of_range_are_refused),
    };
    return cmocka_run_group_tests_name("binlog", tests, world_quiet, NULL);
}
