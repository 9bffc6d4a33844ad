/*
 * Random and fixed work on a simulated disk, cut at any step in any mode, judged by an oracle that
 * knows what may be left. Canaries withhold a sync from the disk that the oracle is told of: if no
 * cut were caught then, the oracle would prove nothing.
 */
#include "base/check.h"
#include "base/rng.h"
#include "io/sim_oracle.h"

enum canary {
    CANARY_NONE,
    CANARY_FILE_SYNC,      /* files are never synced */
    CANARY_DIRECTORY_SYNC, /* directories are not */
    CANARY_SYNC_WRITE,     /* synchronous writes are plain ones */
    CANARY_QUEUE_SYNC,     /* a sync is submitted with the writes it is to cover */
};

struct world {
    struct sim_disk *disk;
    struct io_system *system;
    struct rng rng;
    enum canary canary;
    bool cut; /* the power went during the last operation */
    struct oracle oracle;
};

static struct world world;

/* ---- Operations, on the disk and in the oracle ---- */

static struct oracle_file *file_of(int name)
{
    return &world.oracle.files[world.oracle.live[name]];
}

/* An operation has succeeded, or the power went in it and it is in doubt. */
static void check_power(firn_rc rc)
{
    world.cut = sim_disk_is_cut(world.disk);
    if (!world.cut)
        ASSERT_OK(rc);
    else
        assert_int_equal(rc, FIRN_E_IO);
}

static void do_create(int name)
{
    struct io_file *file;
    firn_rc rc = io_file_open(world.system, IO_CLASS_TABLE, oracle_path(name),
                              IO_OPEN_CREATE | IO_OPEN_EXCLUSIVE, &file);
    if (rc == FIRN_OK)
        ASSERT_OK(io_file_close(file));
    check_power(rc);
    oracle_create(&world.oracle, name);
}

static void do_remove(int name)
{
    check_power(io_remove(world.system, oracle_path(name)));
    oracle_remove(&world.oracle, name);
}

static void do_rename(int from, int to)
{
    check_power(io_rename(world.system, oracle_path(from), oracle_path(to)));
    oracle_rename(&world.oracle, from, to);
}

static void do_sync_directory(bool root)
{
    firn_rc rc = FIRN_OK;
    if (world.canary != CANARY_DIRECTORY_SYNC)
        rc = io_sync_directory(world.system, root ? "/" : "d");
    check_power(rc);
    if (!world.cut)
        oracle_sync_directory(&world.oracle, root);
}

static void random_bytes(uint8_t *bytes, size_t size_bytes)
{
    for (size_t i = 0; i < size_bytes; i++)
        bytes[i] = (uint8_t)(rng_next(&world.rng) | 1);
}

static void do_write(int name, uint64_t offset, size_t size_bytes, bool synchronous)
{
    uint8_t bytes[ORACLE_FILE_BYTES];
    random_bytes(bytes, size_bytes);
    unsigned flags = synchronous && world.canary != CANARY_SYNC_WRITE ? IO_OPEN_DSYNC : 0;
    struct io_file *file = file_open(world.system, oracle_path(name), flags);
    firn_rc rc = io_write(file, bytes, size_bytes, offset);
    ASSERT_OK(io_file_close(file));
    check_power(rc);
    oracle_write(file_of(name), bytes, offset, size_bytes);
    if (synchronous && !world.cut)
        oracle_write_is_synced(file_of(name), offset, size_bytes);
}

static void do_set_size(int name, uint64_t size_bytes)
{
    struct io_file *file = file_open(world.system, oracle_path(name), 0);
    firn_rc rc = io_file_set_size(file, size_bytes);
    ASSERT_OK(io_file_close(file));
    check_power(rc);
    oracle_set_size(file_of(name), size_bytes);
}

static void do_allocate(int name, uint64_t offset, uint64_t size_bytes)
{
    struct io_file *file = file_open(world.system, oracle_path(name), 0);
    firn_rc rc = io_file_allocate(file, offset, size_bytes);
    ASSERT_OK(io_file_close(file));
    check_power(rc);
    if (offset + size_bytes > file_of(name)->live.size_bytes)
        oracle_set_size(file_of(name), offset + size_bytes);
}

static void do_sync(int name, enum io_sync_kind kind)
{
    firn_rc rc = FIRN_OK;
    if (world.canary != CANARY_FILE_SYNC) {
        struct io_file *file = file_open(world.system, oracle_path(name), 0);
        rc = io_sync(file, kind);
        ASSERT_OK(io_file_close(file));
    }
    check_power(rc);
    if (!world.cut)
        oracle_sync(file_of(name));
}

/* ---- Operations through a queue ---- */

enum { BATCH = 4 };

struct batch {
    struct io_request requests[BATCH + 1]; /* the last one a sync */
    struct io_request *pointers[BATCH + 1];
    uint8_t bytes[BATCH][SECTOR];
};

/* Writes of a sector each into one file, at every other sector. */
static void batch_prepare(struct batch *batch, struct io_file *file)
{
    memset(batch, 0, sizeof(*batch));
    for (unsigned i = 0; i <= BATCH; i++) {
        batch->requests[i].file = file;
        batch->pointers[i] = &batch->requests[i];
        if (i == BATCH) {
            batch->requests[i].op = IO_OP_SYNC_DATA;
            break;
        }
        random_bytes(batch->bytes[i], SECTOR);
        batch->requests[i].op = IO_OP_WRITE;
        batch->requests[i].buffer = batch->bytes[i];
        batch->requests[i].size_bytes = SECTOR;
        batch->requests[i].offset = (uint64_t)i * 2 * SECTOR;
    }
}

static void batch_tell(const struct batch *batch, int name)
{
    for (unsigned i = 0; i < BATCH; i++)
        oracle_write(file_of(name), batch->bytes[i], batch->requests[i].offset, SECTOR);
}

/* Write by a queue and sync by it when all is reaped. Or cut the power before all is. */
static void do_batch(int name, unsigned reap_count, bool cut_then, enum sim_cut cut, uint64_t seed)
{
    struct io_file *file = file_open(world.system, oracle_path(name), 0);
    struct io_queue *queue = queue_open(world.system, BATCH + 1, 0);
    struct batch batch;
    struct io_request *done[BATCH + 1];
    bool together = world.canary == CANARY_QUEUE_SYNC && !cut_then;
    batch_prepare(&batch, file);
    ASSERT_OK(io_queue_submit(queue, batch.pointers, BATCH + (unsigned)together));
    if (cut_then) {
        io_queue_reap(queue, reap_count, BATCH, done);
        sim_disk_cut(world.disk, cut, seed);
    }
    io_queue_reap(queue, BATCH + (unsigned)together, BATCH + 1, done);
    if (!cut_then && !together) {
        ASSERT_OK(io_queue_submit(queue, &batch.pointers[BATCH], 1));
        io_queue_reap(queue, 1, 1, done);
    }
    batch_tell(&batch, name);
    world.cut = sim_disk_is_cut(world.disk);
    if (!world.cut) {
        ASSERT_OK(batch.requests[BATCH].rc);
        oracle_sync(file_of(name));
    }
    io_queue_close(queue);
    ASSERT_OK(io_file_close(file));
}

/* ---- Judging ---- */

static bool system_is_legal(struct io_system *system, enum sim_cut cut, bool adopt)
{
    struct oracle_found found;
    oracle_found_load(&found, system);
    bool legal = oracle_is_legal(&world.oracle, &found, cut);
    if (adopt)
        oracle_adopt(&world.oracle, &found);
    oracle_found_free(&found);
    return legal;
}

/* Cut a clone in some way and judge it. */
static bool clone_is_legal(enum sim_cut cut, uint64_t seed)
{
    struct sim_disk *clone = sim_disk_clone(world.disk);
    sim_disk_cut(clone, cut, seed);
    sim_disk_restore(clone);
    struct io_system *system = disk_open(clone, seed);
    bool legal = system_is_legal(system, cut, false);
    io_system_close(system);
    sim_disk_destroy(clone);
    return legal;
}

/* After a cut: turn the power on again, judge, and take what is left for given. */
static bool restored_is_legal(enum sim_cut cut, uint64_t seed)
{
    io_system_close(world.system);
    sim_disk_restore(world.disk);
    world.system = disk_open(world.disk, seed);
    world.cut = false;
    return system_is_legal(world.system, cut, true);
}

static void world_open(uint64_t seed, enum canary canary)
{
    world.disk = disk_make();
    world.system = disk_open(world.disk, seed);
    world.canary = canary;
    world.cut = false;
    rng_init(&world.rng, seed);
    oracle_init(&world.oracle);
    ASSERT_OK(io_make_directory(world.system, "d"));
    ASSERT_OK(io_sync_directory(world.system, "/"));
}

static void world_close(void)
{
    io_system_close(world.system);
    sim_disk_destroy(world.disk);
}

/* ---- Random work ---- */

static unsigned draw(unsigned bound)
{
    return (unsigned)rng_below(&world.rng, bound);
}

/* The oracle's room is limited: sync when it gets short. @return true if it had to */
static bool make_room(int name)
{
    if (world.oracle.change_count >= ORACLE_CHANGES - 1) {
        do_sync_directory(true);
        if (!world.cut)
            do_sync_directory(false);
        return true;
    }
    if (world.oracle.live[name] == ORACLE_NO_FILE)
        return false;
    const struct oracle_file *file = file_of(name);
    bool full = file->size_count >= ORACLE_VERSIONS - BATCH;
    for (unsigned i = 0; i < ORACLE_SECTORS; i++)
        full |= file->version_count[i] >= ORACLE_VERSIONS - 2;
    if (full)
        do_sync(name, IO_SYNC_ALL);
    return full;
}

static void do_something_with_bytes(int name)
{
    uint64_t offset = draw(ORACLE_FILE_BYTES - 1);
    size_t size_bytes = 1 + draw((unsigned)(ORACLE_FILE_BYTES - offset));
    switch (draw(8)) {
    case 0:
        do_sync(name, draw(2) ? IO_SYNC_DATA : IO_SYNC_ALL);
        break;
    case 1:
        do_set_size(name, draw(ORACLE_FILE_BYTES + 1));
        break;
    case 2:
        do_allocate(name, offset, size_bytes);
        break;
    case 3:
        do_write(name, offset, size_bytes, true);
        break;
    case 4:
        do_batch(name, BATCH, false, SIM_CUT_KEEP, 0);
        break;
    default:
        do_write(name, offset, size_bytes, false);
    }
}

static void do_something(void)
{
    int name = (int)draw(ORACLE_NAMES);
    if (make_room(name))
        return;
    if (draw(8) == 0) {
        do_sync_directory(draw(2));
    } else if (world.oracle.live[name] == ORACLE_NO_FILE) {
        do_create(name);
    } else if (draw(8) == 0) {
        do_remove(name);
    } else if (draw(5) == 0) {
        do_rename(name, (int)draw(ORACLE_NAMES));
    } else {
        do_something_with_bytes(name);
    }
}

/* Work for a while with clones cut on the way, then lose power. @return false if a cut was illegal
 */
static bool work_and_lose_power(void)
{
    enum sim_cut cut = all_cuts[draw(4)];
    uint64_t seed = rng_next(&world.rng);
    if (draw(2))
        sim_disk_cut_after(world.disk, 1 + draw(40), cut, seed);
    for (unsigned i = draw(40); i > 0 && !world.cut; i--) {
        if (world.oracle.file_count == ORACLE_FILES)
            break;
        do_something();
        if (!world.cut && draw(4) == 0 && !clone_is_legal(all_cuts[draw(4)], rng_next(&world.rng)))
            return false;
    }
    int name = (int)draw(ORACLE_NAMES);
    if (!world.cut && world.oracle.live[name] != ORACLE_NO_FILE && !make_room(name) && !world.cut) {
        sim_disk_cut_after(world.disk, 0, cut, seed);
        do_batch(name, draw(BATCH + 1), true, cut, seed);
    }
    sim_disk_cut(world.disk, cut, seed);
    return restored_is_legal(cut, seed);
}

/* @return false if some cut left what it must not */
static bool random_work_is_legal(uint64_t seed, enum canary canary)
{
    world_open(seed, canary);
    bool legal = true;
    for (unsigned i = 0; i < 6 && legal; i++)
        legal = work_and_lose_power();
    world_close();
    return legal;
}

static void random_work_survives_every_cut(void **state)
{
    (void)state;
    uint64_t seed = test_seed((uint64_t)getpid());
    unsigned runs = test_runs(200);
    for (unsigned i = 0; i < runs; i++) {
        if (!random_work_is_legal(seed + i, CANARY_NONE)) {
            print_error("run with FIRN_TEST_SEED=%llu\n", (unsigned long long)(seed + i));
            fail();
        }
    }
}

static void a_withheld_sync_is_caught(void **state)
{
    (void)state;
    static const enum canary canaries[] = {CANARY_FILE_SYNC, CANARY_DIRECTORY_SYNC,
                                           CANARY_SYNC_WRITE, CANARY_QUEUE_SYNC};
    for (unsigned i = 0; i < ARRAY_COUNT(canaries); i++) {
        unsigned caught = 0;
        for (uint64_t seed = 0; seed < 50; seed++)
            caught += !random_work_is_legal(seed, canaries[i]);
        assert_true(caught > 5);
    }
}

/* ---- Fixed work ---- */

/* Every kind of operation, in the patterns that engines use: preallocate, append, replace by
   rename, rotate, move to another directory. */
enum verb { CREATE, WRITE, DSYNC, SIZE, ALLOCATE, SYNC, RENAME, REMOVE, DIRECTORY, QUEUE };

static const struct {
    enum verb verb;
    int name;
    int other; /* a name, an offset, a size */
    int size_bytes;
} fixed_work[] = {
    {CREATE, 0, 0, 0},    {ALLOCATE, 0, 0, 2048}, {SYNC, 0, 0, 0},      {DIRECTORY, 1, 0, 0},
    {WRITE, 0, 0, 1000},  {WRITE, 0, 1000, 600},  {SYNC, 0, 0, 0},      {WRITE, 0, 300, 1024},
    {CREATE, 1, 0, 0},    {WRITE, 1, 0, 1536},    {SYNC, 1, 0, 0},      {RENAME, 1, 0, 0},
    {DIRECTORY, 1, 0, 0}, {CREATE, 4, 0, 0},      {DSYNC, 4, 0, 700},   {DIRECTORY, 0, 0, 0},
    {DSYNC, 4, 700, 700}, {WRITE, 4, 1400, 700},  {SIZE, 4, 900, 0},    {SIZE, 4, 3000, 0},
    {QUEUE, 4, 0, 0},     {RENAME, 4, 5, 0},      {CREATE, 4, 0, 0},    {WRITE, 4, 0, 100},
    {DIRECTORY, 0, 0, 0}, {REMOVE, 5, 0, 0},      {RENAME, 0, 6, 0},    {WRITE, 6, 0, 4096},
    {CREATE, 0, 0, 0},    {DIRECTORY, 1, 0, 0},   {SYNC, 6, 0, 0},      {RENAME, 6, 0, 0},
    {SIZE, 0, 0, 0},      {WRITE, 0, 100, 100},   {DIRECTORY, 1, 0, 0}, {REMOVE, 0, 0, 0},
};

static void do_fixed(unsigned i)
{
    int name = fixed_work[i].name;
    int other = fixed_work[i].other;
    size_t size_bytes = (size_t)fixed_work[i].size_bytes;
    switch (fixed_work[i].verb) {
    case CREATE:
        do_create(name);
        break;
    case WRITE:
    case DSYNC:
        do_write(name, (uint64_t)other, size_bytes, fixed_work[i].verb == DSYNC);
        break;
    case SIZE:
        do_set_size(name, (uint64_t)other);
        break;
    case ALLOCATE:
        do_allocate(name, (uint64_t)other, size_bytes);
        break;
    case SYNC:
        do_sync(name, IO_SYNC_DATA);
        break;
    case RENAME:
        do_rename(name, other);
        break;
    case REMOVE:
        do_remove(name);
        break;
    case DIRECTORY:
        do_sync_directory(name == 1);
        break;
    case QUEUE:
        do_batch(name, BATCH, false, SIM_CUT_KEEP, 0);
        break;
    }
}

/* @return false if it was cut and what is left is illegal; *done when the work ended before */
static bool fixed_work_is_legal(uint64_t step, enum sim_cut cut, uint64_t seed, enum canary canary,
                                bool *done)
{
    world_open(1, canary);
    sim_disk_cut_after(world.disk, step, cut, seed);
    for (unsigned i = 0; i < ARRAY_COUNT(fixed_work) && !world.cut; i++)
        do_fixed(i);
    *done = !world.cut;
    bool legal = *done || restored_is_legal(cut, seed);
    world_close();
    return legal;
}

/* Cut at each step in each mode, and in those that depend on chance in several ways. @return how
   many cuts were illegal; *cuts is how many there were */
static unsigned cut_fixed_work(enum canary canary, unsigned *cuts)
{
    unsigned illegal = 0;
    for (unsigned mode = 0; mode < ARRAY_COUNT(all_cuts); mode++) {
        bool by_chance = all_cuts[mode] == SIM_CUT_REORDER || all_cuts[mode] == SIM_CUT_TEAR;
        bool done = false;
        for (uint64_t step = 1; !done; step++)
            for (uint64_t seed = 0; seed < (by_chance ? 12 : 1) && !done; seed++) {
                illegal += !fixed_work_is_legal(step, all_cuts[mode], seed, canary, &done);
                *cuts += !done;
            }
    }
    return illegal;
}

static void fixed_work_survives_a_cut_at_each_step(void **state)
{
    (void)state;
    unsigned cuts = 0;
    assert_int_equal(cut_fixed_work(CANARY_NONE, &cuts), 0);
    print_message("# %u cuts\n", cuts);
    assert_true(cuts >= 1000);
    assert_true(cut_fixed_work(CANARY_FILE_SYNC, &cuts) > 0);
    assert_true(cut_fixed_work(CANARY_DIRECTORY_SYNC, &cuts) > 0);
    assert_true(cut_fixed_work(CANARY_SYNC_WRITE, &cuts) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_work_survives_every_cut),
        cmocka_unit_test(a_withheld_sync_is_caught),
        cmocka_unit_test(fixed_work_survives_a_cut_at_each_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
