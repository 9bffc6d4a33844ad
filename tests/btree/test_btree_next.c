/*
 * The key behind, beside splits, merges and others' changes. A shadow of the tree, which keys there
 * are, is kept by companions: with the leaves between a key and the one behind it latched, shadow
 * and tree must agree about that one, at every moment that a companion, a decision or a look sees.
 */
#include "btree/btree_model.h"

#include "mtr/mtr.h"

#include <pthread.h>
#include <sched.h>

enum { THREADS = 4, NUMBERS_MAX = 4000, NONE = NUMBERS_MAX };

struct shared {
    struct world world;
    unsigned numbers;
    unsigned operations;
    pthread_mutex_t mutex;
    bool shadow[NUMBERS_MAX];
};

struct worker {
    struct shared *shared;
    struct btree_session *session;
    struct rng rng;
    uint64_t number; /* of the key of the operation under way */
    enum btree_action action;
    struct span new_value;
    bool decision_asks;
    uint64_t asked;
    uint8_t *value;
};

/* Ask for the key behind, and compare. @param change  the shadow as well */
static firn_rc compare(struct worker *worker, bool change)
{
    struct shared *shared = worker->shared;
    struct span next;
    uint64_t found = NONE;
    firn_rc rc = btree_next_key(worker->session, &next);
    if (rc != FIRN_OK && rc != FIRN_E_NOT_FOUND)
        return rc;
    if (rc == FIRN_OK) {
        assert_int_equal(next.size_bytes, WORLD_KEY_BYTES);
        found = be64toh(get_u64(next.bytes + 4));
    }
    sched_yield(); /* let others at what is not latched */
    pthread_mutex_lock(&shared->mutex);
    uint64_t expected = worker->number + 1;
    while (expected < shared->numbers && !shared->shadow[expected])
        expected++;
    if (change)
        shared->shadow[worker->number] = worker->action == BTREE_PUT;
    pthread_mutex_unlock(&shared->mutex);
    assert_int_equal(found, expected < shared->numbers ? expected : NONE);
    worker->asked++;
    return FIRN_OK;
}

static enum btree_action decide(const struct btree_old *old, struct btree_new *new, firn_rc *rc,
                                void *context)
{
    struct worker *worker = context;
    if (worker->decision_asks)
        *rc = compare(worker, false);
    if (*rc != FIRN_OK)
        return BTREE_KEEP;
    assert_int_equal(old != NULL, worker->shared->shadow[worker->number]);
    new->value = worker->new_value;
    return worker->action;
}

static firn_rc accompany(struct mtr *mtr, void *context)
{
    (void)mtr;
    return compare(context, true);
}

static firn_rc look(const struct btree_old *old, void *context)
{
    struct worker *worker = context;
    assert_int_equal(old != NULL, worker->shared->shadow[worker->number]);
    return compare(worker, false);
}

static void *work(void *context)
{
    struct worker *worker = context;
    struct shared *shared = worker->shared;
    uint8_t key[WORLD_KEY_BYTES];
    for (unsigned i = 0; i < shared->operations; i++) {
        uint64_t what = rng_below(&worker->rng, 100);
        uint64_t puts = i < shared->operations / 2 ? 45 : 20;
        worker->number = rng_below(&worker->rng, shared->numbers);
        worker->action = what < puts ? BTREE_PUT : BTREE_DELETE;
        worker->decision_asks = rng_below(&worker->rng, 2) == 0;
        size_t size = random_value_bytes(&worker->rng, shared->world.options.page_size_bytes);
        worker->new_value = world_value(worker->value, size, worker->number, i);
        struct btree_edit edit = {.decide = decide, .companion = accompany, .context = worker};
        struct span name = world_key(key, worker->number);
        if (what < 70)
            ASSERT_OK(btree_edit(worker->session, shared->world.tree, name, &edit, NULL));
        else
            ASSERT_OK(btree_inspect(worker->session, shared->world.tree, name, look, worker));
    }
    return NULL;
}

static void run_threads(unsigned pool_pages, unsigned numbers, unsigned operations, uint64_t seed)
{
    struct shared shared = {.numbers = numbers, .operations = operations};
    struct worker workers[THREADS];
    pthread_t threads[THREADS];
    struct btree_shape shape;
    struct btree_counters counters;
    uint64_t asked = 0;
    uint64_t rows = 0;
    world_make(&shared.world, &(struct world_options){.pool_pages = pool_pages});
    btree_set_head(shared.world.tree, 14);
    pthread_mutex_init(&shared.mutex, NULL);
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.shared = &shared, .value = malloc(41 * PAGE_SIZE_MIN)};
        rng_init(&workers[i].rng, seed * THREADS + i);
        ASSERT_OK(btree_session_open(&shared.world.base, &workers[i].session));
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        asked += workers[i].asked;
        btree_session_close(workers[i].session);
        free(workers[i].value);
    }
    world_check(&shared.world, &shape);
    for (unsigned i = 0; i < numbers; i++)
        rows += shared.shadow[i];
    assert_int_equal(shape.rows, rows);
    btree_counters(shared.world.tree, &counters);
    print_message("# asked %lu splits %lu merges %lu\n", asked, counters.splits, counters.merges);
    assert_true(asked > operations);
    pthread_mutex_destroy(&shared.mutex);
    world_drop(&shared.world);
}

static void tree_and_shadow_agree(void **state)
{
    (void)state;
    uint64_t seed = test_seed(1);
    for (unsigned run = 0; run < test_runs(1); run++) {
        run_threads(2000, 1200, 8000, seed + run);
        run_threads(2000, 40, 6000, seed + run);
    }
}

static void also_when_pages_come_and_go(void **state)
{
    (void)state;
    uint64_t seed = test_seed(2);
    for (unsigned run = 0; run < test_runs(1); run++)
        run_threads(160, 1200, 5000, seed + run);
}

int main(void)
{
    mtr_verify_changes(true);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tree_and_shadow_agree),
        cmocka_unit_test(also_when_pages_come_and_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
