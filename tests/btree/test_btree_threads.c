/*
 * Many threads on one tree. Each owns the keys of a class, interleaved with the others' in every
 * leaf, so what it finds of its own must be exactly what it left there; all of them count up the
 * same few counters, which must come to the sum.
 */
#include "btree/btree_model.h"

#include "mtr/mtr.h"

#include <pthread.h>

enum { THREADS = 4, COUNTERS = 3, KEY_BYTES = 16 };

struct shared {
    struct world world;
    pthread_barrier_t barrier;
    unsigned operations;
    unsigned universe; /* keys of each class */
    uint64_t seed;
};

struct worker {
    struct shared *shared;
    struct btree_session *session;
    struct btree_cursor *cursor;
    struct model model;
    struct rng rng;
    unsigned class;
    uint64_t counted[COUNTERS];
    uint64_t numbers;
    uint8_t *value;
    uint8_t key[KEY_BYTES];
};

static struct span class_key(struct worker *worker)
{
    memcpy(worker->key, "row:", 4);
    put_u64(worker->key + 4, htobe64(rng_below(&worker->rng, worker->shared->universe)));
    put_u32(worker->key + 12, htobe32(worker->class));
    return span_of(worker->key, KEY_BYTES);
}

static unsigned class_of(struct span key)
{
    return be32toh(get_u32(key.bytes + 12));
}

static struct span entry_value(struct worker *worker, size_t at)
{
    const struct model_entry *entry = &worker->model.entries[at];
    return world_value(worker->value, entry->value_bytes, entry->number, worker->class);
}

static void work_put(struct worker *worker)
{
    struct span key = class_key(worker);
    uint64_t number = worker->numbers++;
    size_t size = random_value_bytes(&worker->rng, worker->shared->world.options.page_size_bytes);
    ASSERT_OK(btree_put(worker->session, worker->shared->world.tree, key,
                        world_value(worker->value, size, number, worker->class), NULL));
    model_put(&worker->model, key, number, size);
}

static void work_delete(struct worker *worker)
{
    struct span key = class_key(worker);
    bool found;
    size_t at = model_find(&worker->model, key, &found);
    firn_rc rc = btree_delete(worker->session, worker->shared->world.tree, key, NULL);
    assert_int_equal(rc, found ? FIRN_OK : FIRN_E_NOT_FOUND);
    if (found)
        model_delete(&worker->model, at);
}

static void work_get(struct worker *worker)
{
    struct span key = class_key(worker);
    struct span value;
    bool found;
    size_t at = model_find(&worker->model, key, &found);
    firn_rc rc = btree_get(worker->session, worker->shared->world.tree, key, &value);
    assert_int_equal(rc, found ? FIRN_OK : FIRN_E_NOT_FOUND);
    if (found)
        assert_span_equal(value, entry_value(worker, at));
}

static enum btree_action count_up(const struct btree_old *old, struct btree_new *new, firn_rc *rc,
                                  void *context)
{
    uint8_t *bytes = context;
    (void)rc;
    put_u64(bytes, old == NULL ? 1 : get_u64(old->value.bytes) + 1);
    new->value = span_of(bytes, 8);
    return BTREE_PUT;
}

static void work_count(struct worker *worker)
{
    uint8_t bytes[8];
    unsigned which = (unsigned)rng_below(&worker->rng, COUNTERS);
    uint8_t key[1] = {(uint8_t)(which * 100)}; /* before, among and behind the rows */
    struct btree_edit edit = {.decide = count_up, .context = bytes};
    ASSERT_OK(
        btree_edit(worker->session, worker->shared->world.tree, span_of(key, 1), &edit, NULL));
    worker->counted[which]++;
}

/* Scan a part of the tree; of this class's keys just those of the model must show. */
static void work_scan(struct worker *worker, unsigned rows)
{
    struct btree_cursor *cursor = worker->cursor;
    bool forward = rng_below(&worker->rng, 2) == 0;
    bool found;
    struct span start = class_key(worker);
    size_t at = model_find(&worker->model, start, &found);
    if (!forward)
        at -= !found;
    uint8_t before[KEY_BYTES];
    size_t before_bytes = 0;
    firn_rc rc = btree_cursor_seek(
        cursor, forward ? BTREE_SEEK_AT_OR_AFTER : BTREE_SEEK_AT_OR_BEFORE, start);
    for (; rc == FIRN_OK && rows > 0; rows--) {
        struct span key = btree_cursor_key(cursor);
        int order = span_compare(span_of(before, before_bytes), key);
        assert_true(before_bytes == 0 || (forward ? order < 0 : order > 0));
        memcpy(before, key.bytes, key.size_bytes);
        before_bytes = key.size_bytes;
        if (key.size_bytes == KEY_BYTES && class_of(key) == worker->class) {
            struct span value;
            assert_true(at < worker->model.count);
            assert_span_equal(key, model_key(&worker->model, at));
            ASSERT_OK(btree_cursor_value(cursor, &value));
            assert_span_equal(value, entry_value(worker, at));
            at = forward ? at + 1 : at - 1;
        }
        rc = forward ? btree_cursor_next(cursor) : btree_cursor_prev(cursor);
    }
    if (rc != FIRN_OK) {
        assert_int_equal(rc, FIRN_E_NOT_FOUND);
        assert_true(forward ? at == worker->model.count : at == (size_t)-1);
    }
}

static void *work(void *context)
{
    struct worker *worker = context;
    struct shared *shared = worker->shared;
    pthread_barrier_wait(&shared->barrier);
    for (unsigned i = 0; i < shared->operations; i++) {
        unsigned puts = i < shared->operations / 2 ? 55 : 20;
        unsigned what = (unsigned)rng_below(&worker->rng, 100);
        if (what < puts)
            work_put(worker);
        else if (what < 75)
            work_delete(worker);
        else if (what < 90)
            work_get(worker);
        else if (what < 97)
            work_count(worker);
        else
            work_scan(worker, 400);
    }
    if (pthread_barrier_wait(&shared->barrier) == PTHREAD_BARRIER_SERIAL_THREAD) {
        struct btree_shape shape;
        world_check(&shared->world, &shape);
    }
    pthread_barrier_wait(&shared->barrier);
    work_scan(worker, UINT32_MAX);
    while (worker->model.count > 0) {
        size_t at = rng_below(&worker->rng, worker->model.count);
        ASSERT_OK(
            btree_delete(worker->session, shared->world.tree, model_key(&worker->model, at), NULL));
        model_delete(&worker->model, at);
    }
    return NULL;
}

static void worker_begin(struct worker *worker, struct shared *shared, unsigned class)
{
    *worker = (struct worker){.shared = shared, .class = class};
    rng_init(&worker->rng, shared->seed * THREADS + class);
    worker->value = malloc(41 * (size_t)shared->world.options.page_size_bytes);
    ASSERT_OK(btree_session_open(&shared->world.base, &worker->session));
    ASSERT_OK(btree_cursor_open(&shared->world.base, shared->world.tree, &worker->cursor));
}

static void worker_end(struct worker *worker)
{
    btree_cursor_close(worker->cursor);
    btree_session_close(worker->session);
    model_free(&worker->model);
    free(worker->value);
}

static void check_counters(struct shared *shared, const struct worker *workers)
{
    for (unsigned which = 0; which < COUNTERS; which++) {
        uint8_t key[1] = {(uint8_t)(which * 100)};
        uint64_t sum = 0;
        struct span value;
        for (unsigned i = 0; i < THREADS; i++)
            sum += workers[i].counted[which];
        ASSERT_OK(btree_get(shared->world.session, shared->world.tree, span_of(key, 1), &value));
        assert_int_equal(get_u64(value.bytes), sum);
        ASSERT_OK(btree_delete(shared->world.session, shared->world.tree, span_of(key, 1), NULL));
    }
}

static void run_threads(uint32_t page_size_bytes, unsigned pool_pages, unsigned universe,
                        unsigned operations, uint64_t seed)
{
    struct shared shared = {.operations = operations, .universe = universe, .seed = seed};
    struct worker workers[THREADS];
    pthread_t threads[THREADS];
    world_make(&shared.world, &(struct world_options){.page_size_bytes = page_size_bytes,
                                                      .pool_pages = pool_pages});
    pthread_barrier_init(&shared.barrier, NULL, THREADS);
    for (unsigned i = 0; i < THREADS; i++) {
        worker_begin(&workers[i], &shared, i);
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    check_counters(&shared, workers);
    struct btree_counters counters;
    btree_counters(shared.world.tree, &counters);
    print_message("# splits %lu merges %lu restarts %lu latched %lu\n", counters.splits,
                  counters.merges, counters.restarts, counters.latched_reads);
    struct btree_shape shape;
    world_check(&shared.world, &shape);
    assert_int_equal(world_tree_pages(&shared.world), 1);
    for (unsigned i = 0; i < THREADS; i++)
        worker_end(&workers[i]);
    pthread_barrier_destroy(&shared.barrier);
    world_drop(&shared.world);
}

static void each_thread_finds_what_it_left(void **state)
{
    (void)state;
    uint64_t seed = test_seed(1);
    for (unsigned run = 0, runs = test_runs(1); run < runs; run++) {
        run_threads(PAGE_SIZE_MIN, 2000, 300, 3000, seed + run);
        run_threads(PAGE_SIZE_DEFAULT, 1000, 1000, 2000, seed + run);
    }
}

static void few_keys_make_threads_meet_in_every_leaf(void **state)
{
    (void)state;
    uint64_t seed = test_seed(2);
    for (unsigned run = 0, runs = test_runs(1); run < runs; run++)
        run_threads(PAGE_SIZE_MIN, 2000, 10, 5000, seed + run);
}

static void pages_come_and_go_beside_them(void **state)
{
    (void)state;
    uint64_t seed = test_seed(3);
    for (unsigned run = 0, runs = test_runs(1); run < runs; run++)
        run_threads(PAGE_SIZE_MIN, 160, 400, 2500, seed + run);
}

int main(void)
{
    mtr_verify_changes(true);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_thread_finds_what_it_left),
        cmocka_unit_test(few_keys_make_threads_meet_in_every_leaf),
        cmocka_unit_test(pages_come_and_go_beside_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
