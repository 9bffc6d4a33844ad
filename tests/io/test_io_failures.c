/* What a failure does: short transfers, interruptions, errors, syncs, the disk that is full. */
#include "io/scripted.h"

enum { PAGE = 1024, PAGES = 32 };

static unsigned char buffers[PAGES][PAGE] __attribute__((aligned(4096)));
static struct io_request requests[PAGES];

/* Tests that hold for single requests and for queues alike run through this. */
static firn_rc run_one(const struct scripted *scripted, bool queued, enum io_op op, void *buffer,
                       uint32_t size_bytes, uint64_t offset)
{
    if (queued) {
        requests[0] = (struct io_request){.file = scripted->file,
                                          .op = op,
                                          .size_bytes = size_bytes,
                                          .buffer = buffer,
                                          .offset = offset};
        scripted_run(scripted, requests, 1);
        assert_ptr_equal(requests[0].buffer, buffer);
        assert_int_equal(requests[0].offset, offset);
        assert_int_equal(requests[0].size_bytes, size_bytes);
        return io_request_raise(&requests[0]);
    }
    switch (op) {
    case IO_OP_READ:
        return io_read(scripted->file, buffer, size_bytes, offset);
    case IO_OP_WRITE:
        return io_write(scripted->file, buffer, size_bytes, offset);
    default:
        return io_sync(scripted->file, op == IO_OP_SYNC_ALL ? IO_SYNC_ALL : IO_SYNC_DATA);
    }
}

#define FOR_BOTH_WAYS for (int queued = 0; queued < 2; queued++)

static void short_transfers_are_continued(void **state)
{
    (void)state;
    FOR_BOTH_WAYS
    {
        struct scripted scripted = scripted_open(0, 4, 1 << 20);
        scripted.script->answers[0] = 100;
        scripted.script->answers[1] = 1;
        scripted.script->answer_count = 2;
        for (unsigned i = 0; i < PAGE; i++)
            buffers[0][i] = (unsigned char)(i * 7);
        ASSERT_OK(run_one(&scripted, queued, IO_OP_WRITE, buffers[0], PAGE, 50));
        assert_memory_equal(scripted.script->opened->bytes + 50, buffers[0], PAGE);
        assert_int_equal(scripted.script->log_count, 3);
        assert_int_equal(scripted.script->log[1].offset, 150);
        assert_int_equal(scripted.script->log[2].offset, 151);
        assert_int_equal(scripted.script->log[2].size_bytes, PAGE - 101);

        scripted.script->log_count = 0;
        ASSERT_OK(run_one(&scripted, queued, IO_OP_READ, buffers[1], PAGE, 50));
        assert_memory_equal(buffers[1], buffers[0], PAGE);
        const struct io_counters *counters = scripted_counters(scripted.system);
        assert_int_equal(counters->continued, 4);
        assert_int_equal(counters->reads, 1);
        assert_int_equal(counters->bytes_read, PAGE);
        scripted_close(&scripted);
    }
}

static void a_direct_transfer_goes_on_at_a_blocks_start(void **state)
{
    (void)state;
    FOR_BOTH_WAYS
    {
        struct scripted scripted = scripted_open(IO_OPEN_DIRECT, 4, 0);
        scripted.script->answers[0] = 700;
        scripted.script->answer_count = 1;
        ASSERT_OK(run_one(&scripted, queued, IO_OP_READ, buffers[0], 2 * PAGE, 512));
        assert_int_equal(scripted.script->log[1].offset, 1024);
        assert_int_equal(scripted.script->log[1].size_bytes, 2 * PAGE - 512);
        scripted_close(&scripted);
    }
}

static void reading_past_the_end_is_short(void **state)
{
    (void)state;
    FOR_BOTH_WAYS
    {
        for (unsigned direct = 0; direct < 2; direct++) {
            struct scripted scripted = scripted_open(direct ? IO_OPEN_DIRECT : 0, 4, 0);
            ASSERT_OK(io_file_set_size(scripted.file, 5000));
            assert_int_equal(run_one(&scripted, queued, IO_OP_READ, buffers[0], 2 * PAGE, 4096),
                             FIRN_E_SHORT);
            ASSERT_TEXT("cannot read 2048 bytes at offset 4096 of dir/t.ibd: the file ends before");
            assert_int_equal(run_one(&scripted, queued, IO_OP_READ, buffers[0], PAGE, 1 << 20),
                             FIRN_E_SHORT);
            assert_int_equal(scripted_counters(scripted.system)->failed, 2);
            scripted_close(&scripted);
        }
    }
}

static void interrupted_requests_are_repeated(void **state)
{
    (void)state;
    static const int64_t interruptions[] = {-EINTR, -EAGAIN};
    FOR_BOTH_WAYS
    {
        for (unsigned i = 0; i < 2; i++) {
            struct scripted scripted = scripted_open(0, 4, 0);
            for (unsigned j = 0; j < 5; j++)
                scripted.script->answers[j] = interruptions[i];
            scripted.script->answer_count = 5;
            ASSERT_OK(run_one(&scripted, queued, IO_OP_WRITE, buffers[0], PAGE, 0));
            assert_int_equal(scripted.script->log_count, 6);
            scripted_close(&scripted);
        }
    }
}

static void an_interruption_without_end_is_a_failure(void **state)
{
    (void)state;
    FOR_BOTH_WAYS
    {
        struct scripted scripted = scripted_open(0, 4, 0);
        scripted.script->answer_after = -EINTR;
        assert_int_equal(run_one(&scripted, queued, IO_OP_READ, buffers[0], PAGE, 0), FIRN_E_IO);
        assert_true(scripted.script->log_count > 100);
        scripted_close(&scripted);
    }
}

static void an_error_names_operation_file_and_offset(void **state)
{
    (void)state;
    static const struct {
        int error;
        firn_rc rc;
        const char *text;
    } cases[] = {
        {EIO, FIRN_E_IO, "of dir/t.ibd: Input/output error; the kernel's log"},
        {ENOSPC, FIRN_E_NOSPACE, "of dir/t.ibd: No space left on device; free some space"},
        {EDQUOT, FIRN_E_NOSPACE, "of dir/t.ibd: Disk quota exceeded; "},
    };
    FOR_BOTH_WAYS
    {
        for (unsigned i = 0; i < 3; i++) {
            struct scripted scripted = scripted_open(0, 4, 0);
            scripted.script->answer_after = -cases[i].error;
            assert_int_equal(run_one(&scripted, queued, IO_OP_WRITE, buffers[0], PAGE, 32768),
                             cases[i].rc);
            ASSERT_TEXT("cannot write 1024 bytes at offset 32768 ");
            ASSERT_TEXT(cases[i].text);
            const struct io_counters *counters = scripted_counters(scripted.system);
            assert_int_equal(counters->failed, 1);
            assert_int_equal(counters->writes, 0);
            assert_int_equal(counters->write_ns.count, 0);
            scripted_close(&scripted);
        }
    }
}

static void a_bad_page_fails_only_its_own_request(void **state)
{
    (void)state;
    struct scripted scripted = scripted_open(0, 4, 1 << 20);
    scripted.script->has_bad_offset = true;
    scripted.script->bad_offset = 17 * PAGE + 5;
    for (unsigned i = 0; i < PAGES; i++)
        requests[i] = (struct io_request){.file = scripted.file,
                                          .op = IO_OP_READ,
                                          .size_bytes = PAGE,
                                          .buffer = buffers[i],
                                          .offset = (uint64_t)i * PAGE};
    scripted_run(&scripted, requests, PAGES);
    for (unsigned i = 0; i < PAGES; i++)
        assert_int_equal(requests[i].rc, i == 17 ? FIRN_E_IO : FIRN_OK);
    assert_int_equal(io_request_raise(&requests[17]), FIRN_E_IO);
    ASSERT_TEXT("cannot read 1024 bytes at offset 17408 of dir/t.ibd");
    assert_int_equal(scripted_counters(scripted.system)->failed, 1);
    assert_int_equal(scripted_counters(scripted.system)->merged, 0);
    scripted_close(&scripted);
}

static void a_merged_request_that_comes_back_short_is_finished_singly(void **state)
{
    (void)state;
    struct scripted scripted = scripted_open(0, 4, 1 << 20);
    scripted.script->answers[0] = 4 * PAGE + 100;
    scripted.script->answer_count = 1;
    for (unsigned i = 0; i < 8; i++) {
        memset(buffers[i], (int)(i + 65), PAGE);
        requests[i] = (struct io_request){.file = scripted.file,
                                          .op = IO_OP_WRITE,
                                          .size_bytes = PAGE,
                                          .buffer = buffers[i],
                                          .offset = (uint64_t)i * PAGE};
    }
    scripted_run(&scripted, requests, 8);
    for (unsigned i = 0; i < 8; i++)
        assert_int_equal(requests[i].rc, FIRN_OK);
    assert_memory_equal(scripted.script->opened->bytes, buffers, 8 * PAGE);
    assert_int_equal(scripted.script->log_count, 1 + 4);
    const struct io_counters *counters = scripted_counters(scripted.system);
    assert_int_equal(counters->merged, 3);
    assert_int_equal(counters->continued, 1);
    assert_int_equal(counters->writes, 8);
    scripted_close(&scripted);
}

static void a_merged_read_at_the_end_of_a_file_splits_there(void **state)
{
    (void)state;
    struct scripted scripted = scripted_open(0, 4, 1 << 20);
    ASSERT_OK(io_file_set_size(scripted.file, 2 * PAGE + 10));
    for (unsigned i = 0; i < 5; i++)
        requests[i] = (struct io_request){.file = scripted.file,
                                          .op = IO_OP_READ,
                                          .size_bytes = PAGE,
                                          .buffer = buffers[i],
                                          .offset = (uint64_t)i * PAGE};
    scripted_run(&scripted, requests, 5);
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(requests[i].rc, i < 2 ? FIRN_OK : FIRN_E_SHORT);
    scripted_close(&scripted);
}

static void an_interrupted_merged_request_is_repeated_whole(void **state)
{
    (void)state;
    struct scripted scripted = scripted_open(0, 1, 1 << 20);
    scripted.script->answers[0] = -EINTR;
    scripted.script->answers[1] = -EAGAIN;
    scripted.script->answer_count = 2;
    for (unsigned i = 0; i < 4; i++)
        requests[i] = (struct io_request){.file = scripted.file,
                                          .op = IO_OP_READ,
                                          .size_bytes = PAGE,
                                          .buffer = buffers[i],
                                          .offset = (uint64_t)i * PAGE};
    scripted_run(&scripted, requests, 4);
    assert_int_equal(scripted.script->log_count, 3);
    assert_int_equal(scripted_counters(scripted.system)->merged, 3);
    scripted_close(&scripted);
}

/* ---- Syncs ---- */

static void a_failed_sync_is_never_repeated(void **state)
{
    (void)state;
    FOR_BOTH_WAYS
    {
        struct scripted scripted = scripted_open(0, 4, 0);
        scripted.script->answers[0] = -EIO;
        scripted.script->answer_count = 1; /* a second one would succeed */
        assert_int_equal(run_one(&scripted, queued, IO_OP_SYNC_DATA, NULL, 0, 0), FIRN_E_IO);
        ASSERT_TEXT("cannot sync dir/t.ibd: Input/output error");
        for (int again = 0; again < 2; again++) {
            assert_int_equal(run_one(&scripted, again, IO_OP_SYNC_ALL, NULL, 0, 0), FIRN_E_STOPPED);
            ASSERT_TEXT("an earlier sync of it failed");
        }
        assert_int_equal(scripted.script->log_count, 1);
        assert_int_equal(scripted_counters(scripted.system)->syncs, 0);
        assert_int_equal(scripted_counters(scripted.system)->failed, 3);
        scripted_close(&scripted);
    }
}

static void a_failed_sync_stops_only_its_file(void **state)
{
    (void)state;
    struct scripted scripted = scripted_open(0, 4, 0);
    scripted.script->answers[0] = -EIO;
    scripted.script->answer_count = 1;
    struct io_file *other;
    ASSERT_OK(io_file_open(scripted.system, IO_CLASS_REDO, "other", 0, &other));
    assert_int_equal(io_sync(scripted.file, IO_SYNC_DATA), FIRN_E_IO);
    ASSERT_OK(io_sync(other, IO_SYNC_DATA));
    ASSERT_OK(io_read(scripted.file, buffers, PAGE, 0));
    ASSERT_OK(io_file_close(other));
    scripted_close(&scripted);
}

static void syncs_held_or_under_way_fail_with_the_one_that_failed(void **state)
{
    (void)state;
    struct scripted scripted = scripted_open(0, 2, 0);
    scripted.script->answers[0] = -EIO; /* the second is under way with it, the others are held */
    scripted.script->answer_count = 1;
    for (unsigned i = 0; i < 5; i++)
        requests[i] = (struct io_request){.file = scripted.file, .op = IO_OP_SYNC_DATA};
    scripted_run(&scripted, requests, 5);
    assert_int_equal(requests[0].rc, FIRN_E_IO);
    for (unsigned i = 1; i < 5; i++)
        assert_int_equal(requests[i].rc, FIRN_E_STOPPED);
    assert_int_equal(scripted.script->log_count, 2);
    scripted_close(&scripted);
}

static void an_interrupted_sync_is_repeated(void **state)
{
    (void)state;
    FOR_BOTH_WAYS
    {
        struct scripted scripted = scripted_open(0, 4, 0);
        scripted.script->answers[0] = -EINTR;
        scripted.script->answer_count = 1;
        ASSERT_OK(run_one(&scripted, queued, IO_OP_SYNC_ALL, NULL, 0, 0));
        assert_int_equal(scripted.script->log_count, 2);
        scripted_close(&scripted);
    }
}

static void a_failed_directory_sync_is_never_repeated(void **state)
{
    (void)state;
    struct scripted scripted = scripted_open(0, 4, 0);
    scripted.script->sync_directory_answer = -ENOENT; /* not reached: nothing was lost */
    assert_int_equal(io_sync_directory(scripted.system, "dir"), FIRN_E_NOT_FOUND);
    scripted.script->sync_directory_answer = 0;
    ASSERT_OK(io_sync_directory(scripted.system, "dir"));
    scripted.script->sync_directory_answer = -EIO;
    assert_int_equal(io_sync_directory(scripted.system, "dir"), FIRN_E_IO);
    ASSERT_TEXT("cannot sync the directory dir: Input/output error");
    scripted.script->sync_directory_answer = 0;
    assert_int_equal(io_sync_directory(scripted.system, "dir"), FIRN_E_STOPPED);
    assert_int_equal(scripted.script->directory_syncs, 3);
    scripted_close(&scripted);
}

/* ---- Requests that cannot be ---- */

static void misaligned_direct_requests_say_what_is_needed(void **state)
{
    (void)state;
    FOR_BOTH_WAYS
    {
        struct scripted scripted = scripted_open(IO_OPEN_DIRECT, 4, 0);
        assert_int_equal(io_file_alignment(scripted.file), 512);
        assert_int_equal(run_one(&scripted, queued, IO_OP_READ, buffers[0], PAGE, 100),
                         FIRN_E_INVALID);
        ASSERT_TEXT("cannot read 1024 bytes at offset 100 of dir/t.ibd");
        ASSERT_TEXT("multiples of 512");
        assert_int_equal(run_one(&scripted, queued, IO_OP_WRITE, buffers[0], 100, 0),
                         FIRN_E_INVALID);
        assert_int_equal(run_one(&scripted, queued, IO_OP_WRITE, buffers[0] + 8, PAGE, 0),
                         FIRN_E_INVALID);
        assert_int_equal(scripted.script->log_count, 0);
        scripted_close(&scripted);
    }
}

static void impossible_requests_are_refused_before_they_start(void **state)
{
    (void)state;
    FOR_BOTH_WAYS
    {
        struct scripted scripted = scripted_open(IO_OPEN_READ_ONLY, 4, 0);
        assert_int_equal(run_one(&scripted, queued, IO_OP_READ, buffers[0], 0, 0), FIRN_E_INVALID);
        ASSERT_TEXT("0 bytes");
        assert_int_equal(run_one(&scripted, queued, IO_OP_READ, buffers[0], PAGE, INT64_MAX),
                         FIRN_E_INVALID);
        ASSERT_TEXT("no file reaches that far");
        assert_int_equal(run_one(&scripted, queued, IO_OP_WRITE, buffers[0], PAGE, 0),
                         FIRN_E_PERMISSION);
        ASSERT_TEXT("opened read-only");
        assert_int_equal(io_file_set_size(scripted.file, 0), FIRN_E_PERMISSION);
        assert_int_equal(io_file_allocate(scripted.file, 0, 1), FIRN_E_PERMISSION);
        assert_int_equal(scripted.script->log_count, 0);
        scripted_close(&scripted);
    }
}

static void a_refused_request_leaves_its_batch_alone(void **state)
{
    (void)state;
    struct scripted scripted = scripted_open(IO_OPEN_DIRECT, 4, 1 << 20);
    for (unsigned i = 0; i < 3; i++)
        requests[i] = (struct io_request){.file = scripted.file,
                                          .op = IO_OP_READ,
                                          .size_bytes = PAGE,
                                          .buffer = buffers[i],
                                          .offset = (uint64_t)i * PAGE};
    requests[1].size_bytes = 3;
    scripted_run(&scripted, requests, 3);
    assert_int_equal(requests[0].rc, FIRN_OK);
    assert_int_equal(requests[1].rc, FIRN_E_INVALID);
    assert_int_equal(requests[2].rc, FIRN_OK);
    scripted_close(&scripted);
}

static void refused_direct_io_warns_once(void **state)
{
    (void)state;
    struct scripted scripted = scripted_open(0, 4, 0);
    struct io_file *files[2];
    scripted.script->refuses_direct = true;
    captured_start();
    for (unsigned i = 0; i < 2; i++) {
        ASSERT_OK(io_file_open(scripted.system, IO_CLASS_TABLE, "x", IO_OPEN_DIRECT, &files[i]));
        assert_false(io_file_is_direct(files[i]));
        assert_int_equal(io_file_alignment(files[i]), 1);
    }
    captured_stop();
    assert_int_equal(captured.count, 1);
    assert_non_null(strstr(captured.text, "refuses direct I/O"));
    for (unsigned i = 0; i < 2; i++)
        ASSERT_OK(io_file_close(files[i]));
    scripted_close(&scripted);
}

/* ---- Allocation ---- */

static void where_nothing_can_be_allocated_zeros_are_written(void **state)
{
    (void)state;
    static const int refusals[] = {-EOPNOTSUPP, -ENOSYS, -EINVAL};
    for (unsigned i = 0; i < 3; i++) {
        for (unsigned direct = 0; direct < 2; direct++) {
            struct scripted scripted = scripted_open(direct ? IO_OPEN_DIRECT : 0, 4, 0);
            struct script_file *file = scripted.script->opened;
            uint64_t size_bytes;
            memset(file->bytes, 0xaa, SCRIPT_FILE_BYTES); /* what an old life left beyond the end */
            file->size_bytes = 1000;
            scripted.script->allocate_answer = refusals[i];
            scripted.script->answers[0] = 512; /* half-way: continued */
            scripted.script->answer_count = 1;
            ASSERT_OK(io_file_allocate(scripted.file, 500, 9001));
            ASSERT_OK(io_file_size(scripted.file, &size_bytes));
            assert_int_equal(size_bytes, 9501);
            for (unsigned j = 0; j < 1000; j++)
                assert_int_equal(file->bytes[j], 0xaa);
            for (unsigned j = direct ? 1024 : 1000; j < 9501; j++)
                assert_int_equal(file->bytes[j], 0);
            assert_int_equal(scripted_counters(scripted.system)->writes, 0);
            scripted_close(&scripted);
        }
    }
}

static void allocating_inside_a_file_writes_nothing(void **state)
{
    (void)state;
    struct scripted scripted = scripted_open(0, 4, 0);
    scripted.script->allocate_answer = -EOPNOTSUPP;
    ASSERT_OK(io_file_allocate(scripted.file, 100, 1000));
    ASSERT_OK(io_file_allocate(scripted.file, 1 << 20, 0));
    assert_int_equal(scripted.script->log_count, 0);
    scripted_close(&scripted);
}

static void a_full_disk_leaves_the_size_as_it_was(void **state)
{
    (void)state;
    static const int answers[] = {-ENOSPC, -EDQUOT, -EOPNOTSUPP};
    for (unsigned i = 0; i < 3; i++) {
        struct scripted scripted = scripted_open(0, 4, 0);
        uint64_t size_bytes;
        ASSERT_OK(io_file_set_size(scripted.file, 2000));
        scripted.script->allocate_answer = answers[i];
        scripted.script->allocate_grows_bytes = answers[i] == -EOPNOTSUPP ? 0 : 3000;
        scripted.script->answers[0] = 700; /* zeros: some fit, then the disk is full */
        scripted.script->answer_count = 1;
        scripted.script->answer_after = -ENOSPC;
        assert_int_equal(io_file_allocate(scripted.file, 0, 100000), FIRN_E_NOSPACE);
        ASSERT_TEXT("cannot allocate 100000 bytes at offset 0 of dir/t.ibd: ");
        ASSERT_OK(io_file_size(scripted.file, &size_bytes));
        assert_int_equal(size_bytes, 2000);
        scripted_close(&scripted);
    }
}

static void an_allocation_past_all_sizes_is_refused(void **state)
{
    (void)state;
    struct scripted scripted = scripted_open(0, 4, 0);
    assert_int_equal(io_file_allocate(scripted.file, UINT64_MAX, 2), FIRN_E_NOSPACE);
    assert_int_equal(io_file_allocate(scripted.file, 1, INT64_MAX), FIRN_E_NOSPACE);
    assert_int_equal(io_file_set_size(scripted.file, UINT64_MAX), FIRN_E_NOSPACE);
    scripted_close(&scripted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_transfers_are_continued),
        cmocka_unit_test(a_direct_transfer_goes_on_at_a_blocks_start),
        cmocka_unit_test(reading_past_the_end_is_short),
        cmocka_unit_test(interrupted_requests_are_repeated),
        cmocka_unit_test(an_interruption_without_end_is_a_failure),
        cmocka_unit_test(an_error_names_operation_file_and_offset),
        cmocka_unit_test(a_bad_page_fails_only_its_own_request),
        cmocka_unit_test(a_merged_request_that_comes_back_short_is_finished_singly),
        cmocka_unit_test(a_merged_read_at_the_end_of_a_file_splits_there),
        cmocka_unit_test(an_interrupted_merged_request_is_repeated_whole),
        cmocka_unit_test(a_failed_sync_is_never_repeated),
        cmocka_unit_test(a_failed_sync_stops_only_its_file),
        cmocka_unit_test(syncs_held_or_under_way_fail_with_the_one_that_failed),
        cmocka_unit_test(an_interrupted_sync_is_repeated),
        cmocka_unit_test(a_failed_directory_sync_is_never_repeated),
        cmocka_unit_test(misaligned_direct_requests_say_what_is_needed),
        cmocka_unit_test(impossible_requests_are_refused_before_they_start),
        cmocka_unit_test(a_refused_request_leaves_its_batch_alone),
        cmocka_unit_test(refused_direct_io_warns_once),
        cmocka_unit_test(where_nothing_can_be_allocated_zeros_are_written),
        cmocka_unit_test(allocating_inside_a_file_writes_nothing),
        cmocka_unit_test(a_full_disk_leaves_the_size_as_it_was),
        cmocka_unit_test(an_allocation_past_all_sizes_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
