/* A model around a system: bytes go where they would, time is the device's. */
#include "io/model_world.h"

/* ---- Time ---- */

static void single_requests_take_the_devices_time(void **state)
{
    (void)state;
    enum { READS = 100 };
    struct world world = world_open("hdd-7200+capacity=8G");
    struct io_file *file = open_file(world.system, "/t", IO_OPEN_CREATE);
    struct rng rng;
    char block[4096] = {0};
    rng_init(&rng, 1);
    ASSERT_OK(io_file_set_size(file, 8000 * MIB));
    uint64_t start_ns = clock_now(world.clock);
    for (unsigned i = 0; i < READS; i++)
        ASSERT_OK(io_read(file, block, sizeof(block), rng_below(&rng, 8000) * MIB));
    double mean_ms = (double)(clock_now(world.clock) - start_ns) / READS / 1e6;
    assert_true(mean_ms > 10.5 && mean_ms < 13.5);
    ASSERT_OK(io_file_close(file));
    world_close(&world);
}

/* Closed loop of random reads by one queue. @return the virtual time it took */
static uint64_t queue_reads(const char *model, unsigned depth, unsigned count)
{
    struct world world = world_open(model);
    struct io_file *file = open_file(world.system, "/t", IO_OPEN_CREATE);
    struct io_queue *queue = open_queue(world.system, depth);
    struct io_request *requests = memory_zalloc(depth, sizeof(*requests));
    struct io_request **done = memory_zalloc(depth, sizeof(*done));
    char *buffer = memory_zalloc(1, 16384);
    struct rng rng;
    rng_init(&rng, 1);
    ASSERT_OK(io_file_set_size(file, 10000 * MIB));
    uint64_t start_ns = clock_now(world.clock);
    unsigned submitted = 0;
    for (; submitted < depth; submitted++)
        done[submitted] = &requests[submitted];
    unsigned fresh = depth;
    for (unsigned finished = 0; finished < count; finished += fresh) {
        for (unsigned i = 0; i < fresh; i++) {
            done[i]->file = file;
            done[i]->op = IO_OP_READ;
            done[i]->buffer = buffer;
            done[i]->size_bytes = 16384;
            done[i]->offset = rng_below(&rng, 640000) * 16384;
        }
        ASSERT_OK(io_queue_submit(queue, done, fresh));
        fresh = io_queue_reap(queue, 1, depth, done);
        assert_true(fresh > 0);
        for (unsigned i = 0; i < fresh; i++)
            assert_int_equal(done[i]->rc, FIRN_OK);
    }
    uint64_t elapsed_ns = clock_now(world.clock) - start_ns;
    io_queue_close(queue);
    ASSERT_OK(io_file_close(file));
    memory_free(requests);
    memory_free(done);
    memory_free(buffer);
    world_close(&world);
    return elapsed_ns;
}

static void queues_take_the_devices_time_and_it_repeats(void **state)
{
    (void)state;
    uint64_t first_ns = queue_reads("ssd-slc-enterprise", 32, 3000);
    double iops = 3000 / ((double)first_ns / 1e9);
    assert_true(iops > 13500 && iops < 14500);
    assert_int_equal(queue_reads("ssd-slc-enterprise", 32, 3000), first_ns);
    uint64_t alone_ns = queue_reads("ssd-slc-enterprise", 1, 500);
    double alone_us = (double)alone_ns / 500 / 1e3;
    assert_true(alone_us > 250 && alone_us < 290);
}

struct reader {
    struct world *world;
    struct io_file *file;
    uint64_t seed;
    unsigned reads;
    uint64_t waited_ns;
    firn_rc rc;
    pthread_t thread;
};

static void *read_synchronously(void *context)
{
    struct reader *reader = context;
    struct clock *clock = reader->world->clock;
    struct rng rng;
    char *buffer = malloc(16384);
    rng_init(&rng, reader->seed);
    for (unsigned i = 0; i < reader->reads && reader->rc == FIRN_OK; i++) {
        uint64_t start_ns = clock_now(clock);
        reader->rc = io_read(reader->file, buffer, 16384, rng_below(&rng, 640000) * 16384);
        reader->waited_ns += clock_now(clock) - start_ns;
    }
    free(buffer);
    clock_leave(clock);
    return NULL;
}

static double threads_iops(unsigned threads, unsigned reads, double *mean_ms)
{
    struct reader readers[64];
    struct world world = world_open("ssd-slc-enterprise");
    struct io_file *file = open_file(world.system, "/t", IO_OPEN_CREATE);
    uint64_t waited_ns = 0;
    ASSERT_OK(io_file_set_size(file, 10000 * MIB));
    for (unsigned i = 0; i < threads; i++)
        clock_join(world.clock);
    uint64_t start_ns = clock_now(world.clock);
    for (unsigned i = 0; i < threads; i++) {
        readers[i] = (struct reader){.world = &world, .file = file, .seed = i, .reads = reads};
        assert_int_equal(pthread_create(&readers[i].thread, NULL, read_synchronously, &readers[i]),
                         0);
    }
    clock_leave(world.clock);
    for (unsigned i = 0; i < threads; i++) {
        pthread_join(readers[i].thread, NULL);
        ASSERT_OK(readers[i].rc);
        waited_ns += readers[i].waited_ns;
    }
    double seconds = (double)(clock_now(world.clock) - start_ns) / 1e9;
    clock_join(world.clock);
    ASSERT_OK(io_file_close(file));
    world_close(&world);
    *mean_ms = (double)waited_ns / (threads * reads) / 1e6;
    return threads * reads / seconds;
}

/* The same as the simulation alone gives, though now the kernel decides which thread runs when. */
static void threads_share_the_device(void **state)
{
    (void)state;
    double mean_ms = 0;
    double one = threads_iops(1, 300, &mean_ms);
    assert_true(one > 3500 && one < 4000);
    double eight = threads_iops(8, 200, &mean_ms);
    assert_true(eight > 13000 && eight < 14500);
    assert_true(mean_ms > 0.53 && mean_ms < 0.62);
    double many = threads_iops(64, 40, &mean_ms);
    assert_true(many > 13000 && many < 14500);
    assert_true(mean_ms > 4 && mean_ms < 4.9);
}

static void real_time_is_never_shorter_than_the_models(void **state)
{
    (void)state;
    struct io_system *system = NULL;
    struct clock *clock = NULL;
    const char *directory = scratch_make();
    char path[300];
    char block[4096] = {0};
    snprintf(path, sizeof(path), "%s/f", directory);
    ASSERT_OK(clock_open_scaled(2, &clock));
    ASSERT_OK(io_system_open(IO_BACKEND_THREADS, clock, &system));
    attach(system, "ssd-x25e");
    struct io_file *file = open_file(system, path, IO_OPEN_CREATE);
    ASSERT_OK(io_file_set_size(file, 10 * sizeof(block)));
    uint64_t start_ns = clock_now(clock);
    /* Flash takes 75 us for each, whatever the host does; a slow one only adds to that. */
    for (unsigned i = 0; i < 10; i++)
        ASSERT_OK(io_read(file, block, sizeof(block), i * sizeof(block)));
    assert_true(clock_now(clock) - start_ns >= 10 * 74 * NS_PER_US);
    ASSERT_OK(io_file_close(file));
    io_system_close(system);
    clock_close(clock);
    scratch_remove(directory);
}

static void reaping_ends_at_its_deadline(void **state)
{
    (void)state;
    struct world world = world_open("hdd-7200+capacity=8G");
    struct io_file *file = open_file(world.system, "/t", IO_OPEN_CREATE);
    struct io_queue *queue = open_queue(world.system, 4);
    char block[4096];
    ASSERT_OK(io_file_set_size(file, 8000 * MIB));
    struct io_request request = {.file = file,
                                 .op = IO_OP_READ,
                                 .buffer = block,
                                 .size_bytes = sizeof(block),
                                 .offset = 7000 * MIB};
    struct io_request *pointer = &request;
    struct io_request *done[4];
    uint64_t start_ns = clock_now(world.clock);
    ASSERT_OK(io_queue_submit(queue, &pointer, 1));
    assert_int_equal(io_queue_reap_until(queue, 1, 4, start_ns + 1000, done), 0);
    assert_int_equal(clock_now(world.clock), start_ns + 1000);
    assert_int_equal(io_queue_reap(queue, 0, 4, done), 0);
    assert_int_equal(io_queue_reap_until(queue, 1, 4, start_ns + NS_PER_S, done), 1);
    assert_ptr_equal(done[0], &request);
    assert_int_equal(request.rc, FIRN_OK);
    assert_int_equal(request.done_ns, clock_now(world.clock));
    assert_true(request.done_ns > start_ns + 2 * NS_PER_MS);
    io_queue_close(queue);
    ASSERT_OK(io_file_close(file));
    world_close(&world);
}

/* The slower of the two decides. */
static void a_slow_system_below_is_waited_for(void **state)
{
    (void)state;
    static const struct fault_plan slow = {
        .kind = FAULT_SLOW, .targets = FAULT_READS, .first = 1, .every = 1, .delay_ns = NS_PER_S};
    struct world world = world_open(NULL);
    struct fault_injector *injector = NULL;
    ASSERT_OK(fault_attach(world.system, 1, &injector));
    attach(world.system, "nvme");
    struct io_file *file = open_file(world.system, "/t", IO_OPEN_CREATE);
    struct io_queue *queue = open_queue(world.system, 4);
    char block[4096] = {0};
    ASSERT_OK(io_write(file, block, sizeof(block), 0));
    fault_set_plans(injector, &slow, 1);
    uint64_t start_ns = clock_now(world.clock);
    ASSERT_OK(io_read(file, block, sizeof(block), 0));
    assert_true(clock_now(world.clock) - start_ns >= NS_PER_S);

    struct io_request request = {
        .file = file, .op = IO_OP_READ, .buffer = block, .size_bytes = sizeof(block)};
    struct io_request *pointer = &request;
    struct io_request *done[1];
    start_ns = clock_now(world.clock);
    ASSERT_OK(io_queue_submit(queue, &pointer, 1));
    assert_int_equal(io_queue_reap(queue, 1, 1, done), 1);
    assert_true(clock_now(world.clock) - start_ns >= NS_PER_S);
    io_queue_close(queue);
    ASSERT_OK(io_file_close(file));
    world_close(&world);
}

/* ---- Durability ---- */

static void syncs_cost_time_and_are_not_passed_on(void **state)
{
    (void)state;
    struct world world = world_open("hdd-7200");
    struct io_file *file = open_file(world.system, "/t", IO_OPEN_CREATE);
    struct io_queue *queue = open_queue(world.system, 4);
    char block[4096] = {0};
    uint64_t steps = sim_disk_steps(world.disk);
    ASSERT_OK(io_write(file, block, sizeof(block), 0));
    assert_int_equal(sim_disk_steps(world.disk), steps + 1);
    uint64_t start_ns = clock_now(world.clock);
    ASSERT_OK(io_sync(file, IO_SYNC_DATA));
    uint64_t sync_ns = clock_now(world.clock) - start_ns;
    assert_true(sync_ns > NS_PER_MS && sync_ns < 30 * NS_PER_MS);

    ASSERT_OK(io_write(file, block, sizeof(block), 8192));
    struct io_request request = {.file = file, .op = IO_OP_SYNC_ALL};
    struct io_request *pointer = &request;
    struct io_request *done[1];
    start_ns = clock_now(world.clock);
    ASSERT_OK(io_queue_submit(queue, &pointer, 1));
    assert_int_equal(io_queue_reap(queue, 1, 1, done), 1);
    assert_int_equal(request.rc, FIRN_OK);
    sync_ns = clock_now(world.clock) - start_ns;
    assert_true(sync_ns > NS_PER_MS / 2 && sync_ns < 30 * NS_PER_MS);

    start_ns = clock_now(world.clock);
    ASSERT_OK(io_sync_directory(world.system, "/"));
    assert_true(clock_now(world.clock) > start_ns);
    assert_int_equal(sim_disk_steps(world.disk), steps + 2);
    io_queue_close(queue);
    ASSERT_OK(io_file_close(file));
    world_close(&world);
}

static void durable_writes_pay_for_a_flush(void **state)
{
    (void)state;
    static const unsigned flags[] = {0, IO_OPEN_DSYNC, IO_OPEN_SYNC};
    struct world world = world_open("hdd-7200");
    double mean_ms[3];
    for (unsigned f = 0; f < 3; f++) {
        struct io_file *file = open_file(world.system, "/t", IO_OPEN_CREATE | flags[f]);
        struct io_queue *queue = open_queue(world.system, 4);
        char block[4096] = {0};
        uint64_t start_ns = clock_now(world.clock);
        for (unsigned i = 0; i < 20; i++) {
            struct io_request request = {.file = file,
                                         .op = IO_OP_WRITE,
                                         .buffer = block,
                                         .size_bytes = sizeof(block),
                                         .offset = i * MIB};
            struct io_request *pointer = &request;
            struct io_request *done[1];
            ASSERT_OK(io_write(file, block, sizeof(block), (i + 100) * MIB));
            ASSERT_OK(io_queue_submit(queue, &pointer, 1));
            assert_int_equal(io_queue_reap(queue, 1, 1, done), 1);
            assert_int_equal(request.rc, FIRN_OK);
        }
        mean_ms[f] = (double)(clock_now(world.clock) - start_ns) / 40 / 1e6;
        io_queue_close(queue);
        ASSERT_OK(io_file_close(file));
    }
    assert_true(mean_ms[0] < 0.2);
    assert_true(mean_ms[1] > 3 && mean_ms[1] < 13);
    assert_true(mean_ms[2] > 3 && mean_ms[2] < 13);
    world_close(&world);
}

/* ---- Failures ---- */

static void failures_below_come_through(void **state)
{
    (void)state;
    static const struct fault_plan plans[] = {
        {.kind = FAULT_ERROR, .targets = FAULT_WRITES, .first = 2, .error = EIO},
        {.kind = FAULT_SHORT, .targets = FAULT_READS, .first = 1, .every = 2},
    };
    struct world world = world_open(NULL);
    struct fault_injector *injector = NULL;
    ASSERT_OK(fault_attach(world.system, 1, &injector));
    attach(world.system, "nvme");
    struct io_file *file = open_file(world.system, "/t", IO_OPEN_CREATE);
    char block[8192] = "bytes";
    fault_set_plans(injector, plans, 2);
    ASSERT_OK(io_write(file, block, sizeof(block), 0));
    assert_int_equal(io_write(file, block, sizeof(block), 0), FIRN_E_IO);
    memset(block, 0, sizeof(block));
    ASSERT_OK(io_read(file, block, sizeof(block), 0));
    assert_string_equal(block, "bytes");
    ASSERT_OK(io_file_close(file));
    world_close(&world);
}

static void without_memory_nothing_is_left_behind(void **state)
{
    (void)state;
    struct model_spec spec;
    ASSERT_OK(model_find("ssd-x25e:raid5x3", &spec));
    unsigned failures = 0;
    for (long k = 0;; k++) {
        struct world world = world_open(NULL);
        struct io_file *file = NULL;
        struct io_queue *queue = NULL;
        struct io_queue_options options = {.depth = 4};
        char block[4096] = {0};
        struct io_request request = {
            .op = IO_OP_WRITE, .buffer = block, .size_bytes = sizeof(block)};
        struct io_request *pointer = &request;
        struct io_request *done[1];
        memory_fail_after(k);
        firn_rc rc = model_attach(world.system, &spec);
        if (rc == FIRN_OK)
            rc = io_file_open(world.system, IO_CLASS_TABLE, "/t", IO_OPEN_CREATE, &file);
        if (rc == FIRN_OK)
            rc = io_queue_open(world.system, &options, &queue);
        if (rc == FIRN_OK) {
            request.file = file;
            rc = io_queue_submit(queue, &pointer, 1);
        }
        if (rc == FIRN_OK) {
            assert_int_equal(io_queue_reap(queue, 1, 1, done), 1);
            rc = request.rc;
        }
        memory_fail_after(-1);
        io_queue_close(queue);
        if (file != NULL)
            ASSERT_OK(io_file_close(file));
        world_close(&world);
        if (rc == FIRN_OK)
            break;
        assert_int_equal(rc, FIRN_E_NOMEM);
        failures++;
    }
    assert_true(failures > 10);
}

/* ---- Random use ---- */

enum { BLOCKS = 256, USERS = 4 };

struct user {
    struct clock *clock;
    struct io_system *system;
    char path[300];
    uint64_t seed;
    unsigned rounds;
    bool good;
    pthread_t thread;
};

static void fill(uint64_t *block, uint64_t stamp)
{
    for (unsigned i = 0; i < 4096 / 8; i++)
        block[i] = stamp * 1000 + i;
}

static bool is_filled(const uint64_t *block, uint64_t stamp)
{
    for (unsigned i = 0; i < 4096 / 8; i++)
        if (block[i] != (stamp == 0 ? 0 : stamp * 1000 + i))
            return false;
    return true;
}

/* One batch of blocks, all different, written or read; every answer is looked at. */
static bool use_batch(struct io_queue *queue, struct io_file *file, struct rng *rng,
                      uint64_t *stamps, uint64_t *memory)
{
    struct io_request requests[16];
    struct io_request *pointers[16];
    unsigned count = 1 + (unsigned)rng_below(rng, 16);
    uint64_t first = rng_below(rng, BLOCKS / 16) * 16;
    bool good = true;
    for (unsigned i = 0; i < count; i++) {
        bool write = rng_below(rng, 2) == 0;
        requests[i] = (struct io_request){.file = file,
                                          .op = write ? IO_OP_WRITE : IO_OP_READ,
                                          .buffer = memory + i * 512,
                                          .size_bytes = 4096,
                                          .offset = (first + i) * 4096,
                                          .user = &stamps[first + i]};
        if (write)
            fill(requests[i].buffer, ++stamps[first + i]);
        pointers[i] = &requests[i];
    }
    good = io_queue_submit(queue, pointers, count) == FIRN_OK;
    for (unsigned got = 0; good && got < count;) {
        struct io_request *done[16];
        unsigned fresh = io_queue_reap(queue, 1, 16, done);
        for (unsigned i = 0; i < fresh; i++)
            good = good && done[i]->rc == FIRN_OK &&
                   is_filled(done[i]->buffer, *(uint64_t *)done[i]->user);
        got += fresh;
    }
    return good;
}

static void *use_randomly(void *context)
{
    struct user *user = context;
    struct io_file *file = NULL;
    struct io_queue *queue = NULL;
    struct io_queue_options options = {.depth = 8, .merge_max_bytes = 32768};
    uint64_t stamps[BLOCKS] = {0};
    uint64_t *memory = memory_alloc_aligned(16 * 4096, 4096);
    struct rng rng;
    rng_init(&rng, user->seed);
    unsigned flags = IO_OPEN_CREATE | IO_OPEN_DIRECT | (user->seed % 2 ? IO_OPEN_DSYNC : 0);
    bool good = io_file_open(user->system, IO_CLASS_TABLE, user->path, flags, &file) == FIRN_OK &&
                io_file_allocate(file, 0, BLOCKS * 4096) == FIRN_OK &&
                io_queue_open(user->system, &options, &queue) == FIRN_OK;
    for (unsigned i = 0; good && i < user->rounds; i++) {
        uint64_t kind = rng_below(&rng, 4);
        uint64_t block = rng_below(&rng, BLOCKS);
        if (kind < 2) {
            good = use_batch(queue, file, &rng, stamps, memory);
        } else if (kind == 2) {
            fill(memory, ++stamps[block]);
            good = io_write(file, memory, 4096, block * 4096) == FIRN_OK &&
                   io_sync(file, IO_SYNC_DATA) == FIRN_OK;
        } else {
            good = io_read(file, memory, 4096, block * 4096) == FIRN_OK &&
                   is_filled(memory, stamps[block]);
            clock_wait_until(user->clock, clock_now(user->clock) + rng_below(&rng, 100000));
        }
    }
    if (!good)
        print_error("%s\n", firn_error_text());
    io_queue_close(queue);
    if (file != NULL)
        io_file_close(file);
    memory_free(memory);
    user->good = good;
    clock_leave(user->clock);
    return NULL;
}

static void many_users(struct io_system *system, struct clock *clock, const char *directory,
                       uint64_t seed, unsigned rounds)
{
    struct user users[USERS];
    for (unsigned i = 0; i < USERS; i++)
        clock_join(clock);
    for (unsigned i = 0; i < USERS; i++) {
        users[i] =
            (struct user){.clock = clock, .system = system, .seed = seed + i, .rounds = rounds};
        snprintf(users[i].path, sizeof(users[i].path), "%s/%u", directory, i);
        assert_int_equal(pthread_create(&users[i].thread, NULL, use_randomly, &users[i]), 0);
    }
    for (unsigned i = 0; i < USERS; i++) {
        pthread_join(users[i].thread, NULL);
        assert_true(users[i].good);
    }
}

/* Threads with queues and single requests on one device, in virtual and in real time, over every
   backend; what was written is read. */
static void bytes_arrive_whatever_the_time(void **state)
{
    (void)state;
    uint64_t seed = test_seed((uint64_t)getpid());
    for (unsigned b = 0; b < 3; b++)
        for (unsigned kind = 0; kind < 2; kind++) {
            struct io_system *system = NULL;
            struct clock *clock = clock_real();
            const char *directory = scratch_make();
            if (kind == 0)
                ASSERT_OK(clock_open_virtual(&clock));
            ASSERT_OK(io_system_open(moving_backends[b], clock, &system));
            attach(system, kind == 0 ? "hdd-7200:raid5x4" : "nvme");
            many_users(system, clock, directory, seed + b, kind == 0 ? 60 : 40);
            io_system_close(system);
            clock_close(clock);
            scratch_remove(directory);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(single_requests_take_the_devices_time),
        cmocka_unit_test(queues_take_the_devices_time_and_it_repeats),
        cmocka_unit_test(threads_share_the_device),
        cmocka_unit_test(real_time_is_never_shorter_than_the_models),
        cmocka_unit_test(reaping_ends_at_its_deadline),
        cmocka_unit_test(a_slow_system_below_is_waited_for),
        cmocka_unit_test(syncs_cost_time_and_are_not_passed_on),
        cmocka_unit_test(durable_writes_pay_for_a_flush),
        cmocka_unit_test(failures_below_come_through),
        cmocka_unit_test(without_memory_nothing_is_left_behind),
        cmocka_unit_test(bytes_arrive_whatever_the_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
