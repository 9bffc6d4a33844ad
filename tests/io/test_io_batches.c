/* What a batch becomes on its way down: merging, the depth, refusals, deadlines. */
#include "io/scripted.h"

enum { PAGE = 1024, PAGES = 64 };

static unsigned char buffers[PAGES][PAGE];
static struct io_request requests[PAGES];

/* Pages of a file, one request each, with buffers that lie side by side or one apart. */
static void fill(const struct scripted *scripted, enum io_op op, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        memset(buffers[i], (int)i + 1, PAGE);
        requests[i] = (struct io_request){.file = scripted->file,
                                          .op = op,
                                          .size_bytes = PAGE,
                                          .buffer = buffers[i],
                                          .offset = (uint64_t)i * PAGE};
    }
}

static void adjacent_pages_become_one_system_request(void **state)
{
    (void)state;
    struct scripted scripted = scripted_open(0, 32, 1 << 20);
    fill(&scripted, IO_OP_WRITE, PAGES);
    for (unsigned i = 0; i < PAGES; i += 2) { /* out of order, and the buffers apart */
        struct io_request swapped = requests[i];
        requests[i] = requests[PAGES - 1 - i];
        requests[PAGES - 1 - i] = swapped;
        requests[i].buffer = buffers[i];
        requests[PAGES - 1 - i].buffer = buffers[PAGES - 1 - i];
    }
    scripted_run(&scripted, requests, PAGES);
    assert_int_equal(scripted.script->log_count, 1);
    assert_int_equal(scripted.script->log[0].size_bytes, PAGES * PAGE);
    assert_true(scripted.script->log[0].vector_count > 1);
    for (unsigned i = 0; i < PAGES; i++) {
        assert_int_equal(requests[i].rc, FIRN_OK);
        assert_int_equal(requests[i].size_bytes, PAGE);
        assert_memory_equal(scripted.script->opened->bytes + requests[i].offset, requests[i].buffer,
                            PAGE);
    }
    const struct io_counters *counters = scripted_counters(scripted.system);
    assert_int_equal(counters->writes, PAGES);
    assert_int_equal(counters->merged, PAGES - 1);
    assert_int_equal(counters->bytes_written, PAGES * PAGE);
    scripted_close(&scripted);
}

static void buffers_side_by_side_need_one_vector(void **state)
{
    (void)state;
    struct scripted scripted = scripted_open(0, 32, 1 << 20);
    fill(&scripted, IO_OP_READ, PAGES);
    scripted_run(&scripted, requests, PAGES);
    assert_int_equal(scripted.script->log_count, 1);
    assert_int_equal(scripted.script->log[0].vector_count, 1);
    scripted_close(&scripted);
}

static void merging_stops_at_its_limit(void **state)
{
    (void)state;
    struct scripted scripted = scripted_open(0, 32, 10 * PAGE + PAGE / 2);
    fill(&scripted, IO_OP_READ, PAGES);
    scripted_run(&scripted, requests, PAGES);
    assert_int_equal(scripted.script->log_count, 7);
    for (unsigned i = 0; i < 6; i++)
        assert_int_equal(scripted.script->log[i].size_bytes, 10 * PAGE);
    assert_int_equal(scripted.script->log[6].size_bytes, 4 * PAGE);
    scripted_close(&scripted);
}

static void what_is_not_adjacent_travels_alone(void **state)
{
    (void)state;
    struct scripted scripted = scripted_open(0, 32, 1 << 20);
    struct io_file *other;
    ASSERT_OK(io_file_open(scripted.system, IO_CLASS_UNDO, "other", 0, &other));
    fill(&scripted, IO_OP_READ, 6);
    requests[1].op = IO_OP_WRITE;      /* another operation */
    requests[3].file = other;          /* another file */
    requests[5].offset = 5 * PAGE + 1; /* a gap */
    scripted_run(&scripted, requests, 6);
    assert_int_equal(scripted.script->log_count, 6);
    assert_int_equal(scripted_counters(scripted.system)->merged, 0);
    ASSERT_OK(io_file_close(other));
    scripted_close(&scripted);
}

static void syncs_are_never_merged(void **state)
{
    (void)state;
    struct scripted scripted = scripted_open(0, 32, 1 << 20);
    for (unsigned i = 0; i < 3; i++)
        requests[i] = (struct io_request){.file = scripted.file, .op = IO_OP_SYNC_DATA};
    scripted_run(&scripted, requests, 3);
    assert_int_equal(scripted.script->log_count, 3);
    assert_int_equal(scripted_counters(scripted.system)->syncs, 3);
    scripted_close(&scripted);
}

static void without_merging_each_request_is_a_system_request(void **state)
{
    (void)state;
    struct scripted scripted = scripted_open(0, 8, 0);
    fill(&scripted, IO_OP_READ, PAGES);
    scripted_run(&scripted, requests, PAGES);
    assert_int_equal(scripted.script->log_count, PAGES);
    assert_int_equal(scripted.script->under_way_max, 8);
    scripted_close(&scripted);
}

static void requests_of_different_batches_are_not_merged(void **state)
{
    (void)state;
    struct scripted scripted = scripted_open(0, 1, 1 << 20);
    fill(&scripted, IO_OP_READ, 4);
    struct io_request *pointers[4];
    for (unsigned i = 0; i < 4; i++) {
        pointers[0] = &requests[i];
        ASSERT_OK(io_queue_submit(scripted.queue, pointers, 1));
    }
    assert_int_equal(io_queue_reap(scripted.queue, 4, 4, pointers), 4);
    assert_int_equal(scripted.script->log_count, 4);
    scripted_close(&scripted);
}

static void without_memory_a_run_travels_one_by_one(void **state)
{
    (void)state;
    struct scripted scripted = scripted_open(0, 4, 1 << 20);
    fill(&scripted, IO_OP_WRITE, 1);
    scripted_run(&scripted, requests, 1); /* its counters exist from here on */
    fill(&scripted, IO_OP_WRITE, PAGES);
    memory_fail_after(0);
    scripted_run(&scripted, requests, PAGES);
    memory_fail_after(-1);
    assert_true(scripted.script->log_count > 2);
    for (unsigned i = 0; i < PAGES; i++)
        assert_int_equal(requests[i].rc, FIRN_OK);
    scripted_close(&scripted);
}

static void an_offer_taken_in_part_is_offered_again(void **state)
{
    (void)state;
    struct scripted scripted = scripted_open(0, 8, 2 * PAGE);
    scripted.script->take_at_most = 1;
    scripted.script->take_limits = 20;
    fill(&scripted, IO_OP_READ, PAGES);
    scripted_run(&scripted, requests, PAGES);
    assert_int_equal(scripted.script->log_count, PAGES / 2);
    scripted_close(&scripted);
}

static void an_offer_refused_for_now_is_made_again(void **state)
{
    (void)state;
    static const int refusals[] = {0, -EAGAIN, -EINTR};
    for (unsigned i = 0; i < 3; i++) {
        struct scripted scripted = scripted_open(0, 8, 0);
        scripted.script->take_at_most = refusals[i];
        scripted.script->take_limits = 3;
        fill(&scripted, IO_OP_READ, 2);
        scripted_run(&scripted, requests, 2);
        assert_int_equal(requests[0].rc, FIRN_OK);
        scripted_close(&scripted);
    }
}

static void an_offer_that_cannot_be_made_fails_its_requests(void **state)
{
    (void)state;
    struct scripted scripted = scripted_open(0, 8, 1 << 20);
    scripted.script->take_at_most = -EBADF;
    scripted.script->take_limits = 1000;
    fill(&scripted, IO_OP_READ, 4);
    scripted_run(&scripted, requests, 4);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(requests[i].rc, FIRN_E_IO);
        assert_int_equal(requests[i].error, EBADF);
    }
    assert_int_equal(scripted_counters(scripted.system)->failed, 4);
    scripted_close(&scripted);
}

static void a_kernel_that_never_takes_a_request_fails_it_in_the_end(void **state)
{
    (void)state;
    struct scripted scripted = scripted_open(0, 8, 0);
    scripted.script->take_at_most = 0;
    scripted.script->take_limits = UINT32_MAX;
    fill(&scripted, IO_OP_READ, 1);
    scripted_run(&scripted, requests, 1);
    assert_int_equal(requests[0].error, EAGAIN);
    scripted_close(&scripted);
}

static void reaping_ends_at_its_deadline(void **state)
{
    (void)state;
    struct scripted scripted = scripted_open(0, 8, 0);
    struct io_request *pointers[8];
    fill(&scripted, IO_OP_READ, 2);
    pointers[0] = &requests[0];
    pointers[1] = &requests[1];
    scripted.script->holds = true;
    ASSERT_OK(io_queue_submit(scripted.queue, pointers, 2));
    assert_int_equal(io_queue_reap(scripted.queue, 0, 8, pointers), 0);
    uint64_t deadline_ns = clock_now(clock_real()) + 5 * NS_PER_MS;
    assert_int_equal(io_queue_reap_until(scripted.queue, 1, 8, deadline_ns, pointers), 0);
    assert_true(clock_now(clock_real()) >= deadline_ns);
    assert_int_equal(io_queue_pending(scripted.queue), 2);
    scripted.script->holds = false;
    assert_int_equal(io_queue_reap_until(scripted.queue, 2, 8, deadline_ns, pointers), 2);
    scripted_close(&scripted);
}

static void what_is_reaped_beyond_the_room_comes_with_the_next_call(void **state)
{
    (void)state;
    struct scripted scripted = scripted_open(0, 8, 1 << 20);
    struct io_request *pointers[PAGES];
    fill(&scripted, IO_OP_READ, 10);
    for (unsigned i = 0; i < 10; i++)
        pointers[i] = &requests[i];
    ASSERT_OK(io_queue_submit(scripted.queue, pointers, 10));
    assert_int_equal(io_queue_reap(scripted.queue, 1, 4, pointers), 4);
    assert_int_equal(io_queue_pending(scripted.queue), 6);
    assert_int_equal(io_queue_reap(scripted.queue, 0, 4, pointers), 4);
    assert_int_equal(io_queue_reap(scripted.queue, 3, 4, pointers), 2);
    assert_int_equal(io_queue_reap(scripted.queue, 1, 1, pointers), 0);
    scripted_close(&scripted);
}

static void closing_a_queue_gives_back_what_was_held(void **state)
{
    (void)state;
    struct scripted scripted = scripted_open(0, 2, 4 * PAGE);
    struct io_request *pointers[PAGES];
    fill(&scripted, IO_OP_WRITE, PAGES);
    for (unsigned i = 0; i < PAGES; i++)
        pointers[i] = &requests[i];
    ASSERT_OK(io_queue_submit(scripted.queue, pointers, PAGES));
    scripted_close(&scripted); /* what the sanitizers say of it counts */
}

static void counters_of_closed_queues_are_kept(void **state)
{
    (void)state;
    struct scripted scripted = scripted_open(0, 4, 0);
    struct io_file *undo;
    ASSERT_OK(io_file_open(scripted.system, IO_CLASS_UNDO, "undo", 0, &undo));
    struct io_queue_options options = {.depth = 4};
    for (unsigned round = 0; round < 3; round++) {
        struct scripted other = scripted;
        ASSERT_OK(io_queue_open(scripted.system, &options, &other.queue));
        fill(&other, IO_OP_READ, 5);
        requests[4].file = undo;
        scripted_run(&other, requests, 5);
        scripted_run(&scripted, requests, 1);
        io_queue_close(other.queue);
    }
    ASSERT_OK(io_read(scripted.file, buffers, PAGE, 0));
    static struct io_counters counters;
    io_system_counters(scripted.system, IO_CLASS_TABLE, &counters);
    assert_int_equal(counters.reads, 3 * 4 + 3 + 1);
    io_system_counters(scripted.system, IO_CLASS_UNDO, &counters);
    assert_int_equal(counters.reads, 3);
    assert_int_equal(counters.bytes_read, 3 * PAGE);
    io_system_counters(scripted.system, IO_CLASS_COUNT, &counters);
    assert_int_equal(counters.reads, 19);
    assert_int_equal(counters.read_ns.count, 19);
    ASSERT_OK(io_file_close(undo));
    scripted_close(&scripted);
}

static void a_queue_depth_has_its_bounds(void **state)
{
    (void)state;
    struct scripted scripted = scripted_open(0, 1, 0);
    struct io_queue *queue = NULL;
    static const unsigned bad[] = {0, 4097};
    for (unsigned i = 0; i < 2; i++) {
        struct io_queue_options options = {.depth = bad[i]};
        assert_int_equal(io_queue_open(scripted.system, &options, &queue), FIRN_E_INVALID);
        ASSERT_TEXT("1 to 4096");
        assert_null(queue);
    }
    scripted_close(&scripted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adjacent_pages_become_one_system_request),
        cmocka_unit_test(buffers_side_by_side_need_one_vector),
        cmocka_unit_test(merging_stops_at_its_limit),
        cmocka_unit_test(what_is_not_adjacent_travels_alone),
        cmocka_unit_test(syncs_are_never_merged),
        cmocka_unit_test(without_merging_each_request_is_a_system_request),
        cmocka_unit_test(requests_of_different_batches_are_not_merged),
        cmocka_unit_test(without_memory_a_run_travels_one_by_one),
        cmocka_unit_test(an_offer_taken_in_part_is_offered_again),
        cmocka_unit_test(an_offer_refused_for_now_is_made_again),
        cmocka_unit_test(an_offer_that_cannot_be_made_fails_its_requests),
        cmocka_unit_test(a_kernel_that_never_takes_a_request_fails_it_in_the_end),
        cmocka_unit_test(reaping_ends_at_its_deadline),
        cmocka_unit_test(what_is_reaped_beyond_the_room_comes_with_the_next_call),
        cmocka_unit_test(closing_a_queue_gives_back_what_was_held),
        cmocka_unit_test(counters_of_closed_queues_are_kept),
        cmocka_unit_test(a_queue_depth_has_its_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
