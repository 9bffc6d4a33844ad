/* Random batches against plain byte arrays, for every backend: whatever is merged, held, split or
   reordered, each request moves its own bytes and is answered once. */
#include "base/memory.h"
#include "base/rng.h"
#include "io/fault.h"
#include "io/support.h"

#include <errno.h>

enum {
    FILES = 2,
    UNIT_BYTES = 4096, /* a multiple of every device's block */
    UNITS = 192,       /* of a file */
    BATCH_MAX = 96,
    ROUNDS = 60,
};

struct model {
    struct io_file *files[FILES];
    unsigned char *bytes[FILES];
    struct io_queue *queue;
    struct rng rng;
    struct io_request requests[BATCH_MAX];
    unsigned count;
    bool used[FILES][UNITS];
    unsigned char *buffers; /* a unit of buffer for each unit of file */
    uint64_t reads, writes, syncs;
};

static unsigned char *buffer_of(struct model *model, unsigned file, unsigned unit)
{
    return model->buffers + ((size_t)file * UNITS + unit) * UNIT_BYTES;
}

/* Add a request for units nobody in this batch uses yet; buffers lie as the file does, or not. */
static void add_transfer(struct model *model, enum io_op op, unsigned file, unsigned unit,
                         unsigned units)
{
    for (unsigned i = unit; i < unit + units; i++)
        if (i >= UNITS || model->used[file][i])
            return;
    for (unsigned i = unit; i < unit + units; i++)
        model->used[file][i] = true;
    struct io_request *request = &model->requests[model->count++];
    *request = (struct io_request){
        .file = model->files[file],
        .op = op,
        .size_bytes = units * UNIT_BYTES,
        .buffer = buffer_of(model, file, unit),
        .offset = (uint64_t)unit * UNIT_BYTES,
        .user = request,
    };
    unsigned char *buffer = request->buffer;
    for (size_t i = 0; i < request->size_bytes; i += 8) {
        uint64_t word = op == IO_OP_WRITE ? rng_next(&model->rng) : UINT64_C(0xee);
        memcpy(buffer + i, &word, 8);
    }
    if (op == IO_OP_WRITE)
        memcpy(model->bytes[file] + request->offset, buffer, request->size_bytes);
}

static void add_run(struct model *model)
{
    enum io_op op = rng_below(&model->rng, 2) ? IO_OP_READ : IO_OP_WRITE;
    unsigned file = (unsigned)rng_below(&model->rng, FILES);
    unsigned unit = (unsigned)rng_below(&model->rng, UNITS);
    unsigned length = (unsigned)rng_below(&model->rng, 12) + 1;
    while (length-- > 0 && model->count < BATCH_MAX) {
        unsigned units = (unsigned)rng_below(&model->rng, 3) + 1;
        add_transfer(model, op, file, unit, units);
        unit += units;
    }
}

static void make_batch(struct model *model)
{
    memset(model->used, 0, sizeof(model->used));
    model->count = 0;
    unsigned runs = (unsigned)rng_below(&model->rng, 10) + 1;
    while (runs-- > 0 && model->count < BATCH_MAX)
        add_run(model);
    if (rng_below(&model->rng, 8) == 0 && model->count < BATCH_MAX) {
        struct io_request *request = &model->requests[model->count++];
        *request = (struct io_request){
            .file = model->files[rng_below(&model->rng, FILES)],
            .op = rng_below(&model->rng, 2) ? IO_OP_SYNC_ALL : IO_OP_SYNC_DATA,
            .user = request,
        };
    }
}

static void check_request(struct model *model, struct io_request *request)
{
    assert_ptr_equal(request->user, request);
    request->user = NULL; /* answered once */
    assert_int_equal(io_request_raise(request), FIRN_OK);
    assert_true(request->done_ns >= request->submit_ns);
    unsigned file = request->file == model->files[1];
    switch (request->op) {
    case IO_OP_READ:
        model->reads++;
        assert_memory_equal(request->buffer, model->bytes[file] + request->offset,
                            request->size_bytes);
        break;
    case IO_OP_WRITE:
        model->writes++;
        break;
    default:
        model->syncs++;
    }
}

/* Submit in shuffled order, in up to three parts, reaping some in between. */
static void run_batch(struct model *model)
{
    struct io_request *order[BATCH_MAX];
    struct io_request *reaped[BATCH_MAX];
    for (unsigned i = 0; i < model->count; i++)
        order[i] = &model->requests[i];
    if (rng_below(&model->rng, 3) != 0)
        for (unsigned i = model->count; i > 1; i--) {
            unsigned j = (unsigned)rng_below(&model->rng, i);
            struct io_request *swapped = order[j];
            order[j] = order[i - 1];
            order[i - 1] = swapped;
        }
    unsigned submitted = 0;
    unsigned answered = 0;
    while (answered < model->count) {
        unsigned left = model->count - submitted;
        if (left > 0) {
            unsigned part = 1 + (unsigned)rng_below(&model->rng, left);
            ASSERT_OK(io_queue_submit(model->queue, order + submitted, part));
            submitted += part;
        }
        unsigned max = 1 + (unsigned)rng_below(&model->rng, BATCH_MAX - 1);
        unsigned min = (unsigned)rng_below(&model->rng, max + 1);
        unsigned pending = io_queue_pending(model->queue);
        assert_int_equal(pending, submitted - answered);
        unsigned count = io_queue_reap(model->queue, min, max, reaped);
        assert_true(count <= max);
        assert_true(count >= (min < pending ? min : pending));
        for (unsigned i = 0; i < count; i++)
            check_request(model, reaped[i]);
        answered += count;
    }
    assert_int_equal(io_queue_reap(model->queue, 1, BATCH_MAX, reaped), 0);
}

static void check_counters(struct io_system *system, const struct model *model)
{
    static struct io_counters counters;
    io_system_counters(system, IO_CLASS_COUNT, &counters);
    assert_int_equal(counters.reads, model->reads);
    assert_int_equal(counters.writes, model->writes);
    assert_int_equal(counters.syncs, model->syncs);
    assert_int_equal(counters.failed, 0);
    assert_int_equal(counters.read_ns.count, model->reads);
}

/* All that a kernel may answer without meaning a failure. */
static void make_unreliable(struct io_system *system, uint64_t seed)
{
    static const struct fault_plan plans[] = {
        {.kind = FAULT_ERROR, .targets = FAULT_ALL, .probability = 0.05, .error = EINTR},
        {.kind = FAULT_ERROR,
         .targets = FAULT_READS | FAULT_WRITES,
         .probability = 0.05,
         .error = EAGAIN},
        {.kind = FAULT_SHORT, .targets = FAULT_READS | FAULT_WRITES, .probability = 0.2},
        {.kind = FAULT_SLOW,
         .targets = FAULT_ALL - FAULT_METADATA,
         .probability = 0.05,
         .delay_ns = 50 * NS_PER_US},
    };
    struct fault_injector *injector;
    ASSERT_OK(fault_attach(system, seed, &injector));
    fault_set_plans(injector, plans, 4);
}

static void open_files(struct io_system *system, struct model *model, const char *directory,
                       unsigned flags)
{
    model->buffers = memory_alloc_aligned((size_t)FILES * UNITS * UNIT_BYTES, UNIT_BYTES);
    for (unsigned i = 0; i < FILES; i++) {
        char path[300];
        snprintf(path, sizeof(path), "%s/file%u", directory, i);
        model->bytes[i] = memory_zalloc(UNITS, UNIT_BYTES);
        ASSERT_OK(io_file_open(system, i == 0 ? IO_CLASS_TABLE : IO_CLASS_REDO, path,
                               IO_OPEN_CREATE | IO_OPEN_TRUNCATE | flags, &model->files[i]));
        ASSERT_OK(io_file_allocate(model->files[i], 0, (uint64_t)UNITS * UNIT_BYTES));
    }
}

static void check_and_close_files(struct model *model)
{
    for (unsigned i = 0; i < FILES; i++) {
        ASSERT_OK(io_read(model->files[i], model->buffers, (size_t)UNITS * UNIT_BYTES, 0));
        assert_memory_equal(model->buffers, model->bytes[i], (size_t)UNITS * UNIT_BYTES);
        ASSERT_OK(io_file_close(model->files[i]));
        memory_free(model->bytes[i]);
    }
    memory_free(model->buffers);
}

/* Run the model over a system, which is closed then. */
static void run_model(struct io_system *system, const char *directory, unsigned flags,
                      unsigned depth, uint32_t merge_max_bytes, uint64_t seed)
{
    static struct model model;
    memset(&model, 0, sizeof(model));
    rng_init(&model.rng, seed);
    open_files(system, &model, directory, flags);
    struct io_queue_options options = {.depth = depth, .merge_max_bytes = merge_max_bytes};
    ASSERT_OK(io_queue_open(system, &options, &model.queue));
    for (unsigned i = 0; i < ROUNDS; i++) {
        make_batch(&model);
        run_batch(&model);
    }
    check_counters(system, &model);
    io_queue_close(model.queue);
    check_counters(system, &model);
    check_and_close_files(&model);
    io_system_close(system);
}

static const unsigned depths[] = {1, 3, 32, 128};
static const uint32_t merges[] = {0, 32 << 10, 1 << 20};

static void random_batches_match_the_model(void **state)
{
    (void)state;
    uint64_t seed = test_seed((uint64_t)getpid());
    const char *directory = scratch_make();
    for (unsigned b = 0; b < 3; b++)
        for (unsigned d = 0; d < 4; d++)
            for (unsigned m = 0; m < 3; m++) {
                struct io_system *system;
                ASSERT_OK(io_system_open(moving_backends[b], clock_real(), &system));
                run_model(system, directory, (b + d + m) % 2 ? IO_OPEN_DIRECT : 0, depths[d],
                          merges[m], seed + b * 100 + d * 10 + m);
            }
    scratch_remove(directory);
}

static void short_slow_and_interrupted_requests_change_nothing(void **state)
{
    (void)state;
    uint64_t seed = test_seed((uint64_t)getpid()) + 1000;
    const char *directory = scratch_make();
    for (unsigned b = 0; b < 3; b++)
        for (unsigned d = 0; d < 4; d++) {
            struct io_system *system;
            ASSERT_OK(io_system_open(moving_backends[b], clock_real(), &system));
            make_unreliable(system, seed + d);
            run_model(system, directory, d % 2 ? IO_OPEN_DIRECT : 0, depths[d], merges[(b + d) % 3],
                      seed + b * 100 + d);
        }
    scratch_remove(directory);
}

static void a_simulated_disk_is_as_good(void **state)
{
    (void)state;
    uint64_t seed = test_seed((uint64_t)getpid()) + 2000;
    for (unsigned d = 0; d < 4; d++) {
        static const struct sim_disk_options options = {.sector_bytes = 512};
        struct io_system *system;
        struct sim_disk *disk;
        ASSERT_OK(sim_disk_create(&options, &disk));
        ASSERT_OK(sim_disk_open_system(disk, clock_real(), seed, &system));
        ASSERT_OK(io_make_directory(system, "d"));
        if (d % 2)
            make_unreliable(system, seed);
        run_model(system, "d", IO_OPEN_DIRECT, depths[d], merges[d % 3], seed + d);
        sim_disk_destroy(disk);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_batches_match_the_model),
        cmocka_unit_test(short_slow_and_interrupted_requests_change_nothing),
        cmocka_unit_test(a_simulated_disk_is_as_good),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
