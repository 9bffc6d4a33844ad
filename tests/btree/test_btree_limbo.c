/*
 * The register of limbo: it grows as it must, and a crash gives back what was claimed.
 */
#include "btree/blob_internal.h"
#include "btree/btree_fixture.h"

#include "mtr/mtr.h"

enum { CLAIMS = 300, TOGETHER = 20 };

static struct world world;

static int setup(void **state)
{
    (void)state;
    mtr_verify_changes(true);
    world_make(&world, &(struct world_options){.pool_pages = 500});
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    world_drop(&world);
    return 0;
}

static unsigned register_pages(void)
{
    atomic_uint pages = 0;
    ASSERT_OK(btree_each_limbo_page(&world.base, world.space, world_count_seen, &pages));
    return pages;
}

static void crash(void)
{
    ASSERT_OK(redo_flush(world.base.redo, redo_reserved_lsn(world.base.redo), REDO_FLUSH_SYNC));
    world_die(&world);
    ASSERT_OK(world_recover(&world, 1));
}

static void a_register_without_room_gets_another_page(void **state)
{
    (void)state;
    struct btree_claim claims[CLAIMS];
    struct btree_shape shape;
    assert_int_equal(register_pages(), 0);
    for (unsigned i = 0; i < CLAIMS; i++) {
        ASSERT_OK(btree_claim(world.session, world.space, 1, &claims[i]));
        for (unsigned j = 0; j < i; j++)
            assert_false(claims[j].frame == claims[i].frame && claims[j].index == claims[i].index);
    }
    unsigned pages = register_pages();
    assert_int_equal(pages, 3); /* of 127 entries each */
    for (unsigned i = 0; i < CLAIMS; i++)
        ASSERT_OK(btree_claim_end(world.session, &claims[i], 1));
    for (unsigned i = 0; i < CLAIMS; i++)
        ASSERT_OK(btree_claim(world.session, world.space, 1, &claims[i]));
    assert_int_equal(register_pages(), pages);
    for (unsigned i = 0; i < CLAIMS; i++)
        ASSERT_OK(btree_claim_end(world.session, &claims[i], 1));
    world_check(&world, &shape);
}

static void entries_claimed_together_stand_together(void **state)
{
    (void)state;
    struct btree_claim single;
    struct btree_claim claims[8];
    unsigned entries = (PAGE_SIZE_MIN - LIMBO_AT_ENTRIES) / LIMBO_ENTRY_BYTES;
    ASSERT_OK(btree_claim(world.session, world.space, 1, &single));
    for (unsigned i = 0; i < 8; i++) {
        ASSERT_OK(btree_claim(world.session, world.space, TOGETHER, &claims[i]));
        assert_true(claims[i].index + TOGETHER <= entries);
        assert_false(claims[i].frame == single.frame && claims[i].index <= single.index);
    }
    assert_int_equal(register_pages(), 2);
    ASSERT_OK(btree_claim_end(world.session, &single, 1));
    for (unsigned i = 0; i < 8; i++)
        ASSERT_OK(btree_claim_end(world.session, &claims[i], TOGETHER));
}

static void a_crash_frees_chains_that_nobody_refers_to(void **state)
{
    (void)state;
    enum { BYTES = 40 * PAGE_SIZE_MIN };
    uint8_t *value = malloc(BYTES);
    struct btree_claim claim;
    struct btree_reference reference;
    struct btree_shape shape;
    uint32_t tail = PAGE_NONE;
    ASSERT_OK(btree_claim(world.session, world.space, 1, &claim));
    ASSERT_OK(btree_chain_write(world.session, world.tree, world_value(value, BYTES, 1, 1), &claim,
                                0, &tail, &reference));
    assert_true(world_tree_pages(&world) > 40);
    btree_claim_drop(world.session, &claim);
    crash();
    assert_int_equal(world_tree_pages(&world), 1);
    world_check(&world, &shape);
    /* Nothing is left claimed either. */
    for (unsigned i = 0; i < 127; i++) {
        ASSERT_OK(btree_claim(world.session, world.space, 1, &claim));
        btree_claim_drop(world.session, &claim);
    }
    assert_int_equal(register_pages(), 1);
    crash();
    ASSERT_OK(btree_claim(world.session, world.space, 127, &claim));
    assert_int_equal(register_pages(), 1);
    ASSERT_OK(btree_claim_end(world.session, &claim, 127));
    free(value);
}

/* Freeing it twice would give the pages of others away. */
static void a_kept_chain_in_limbo_is_not_freed_again(void **state)
{
    (void)state;
    enum { BYTES = 10 * PAGE_SIZE_MIN };
    uint8_t *value = malloc(BYTES);
    uint8_t bytes[BTREE_CELL_MAX_BYTES];
    struct btree_claim claim;
    struct btree_reference reference;
    struct btree_shape shape;
    uint32_t tail = PAGE_NONE;
    ASSERT_OK(btree_claim(world.session, world.space, 1, &claim));
    struct span whole = world_value(value, BYTES, 1, 1);
    ASSERT_OK(btree_chain_write(world.session, world.tree, whole, &claim, 0, &tail, &reference));
    btree_claim_drop(world.session, &claim);
    struct span cell = btree_cell_put(world.tree, whole, &reference, bytes);
    unsigned pages = world_tree_pages(&world);
    ASSERT_OK(btree_free_kept(world.session, world.tree, cell));
    assert_int_equal(world_tree_pages(&world), pages);
    crash();
    assert_int_equal(world_tree_pages(&world), 1);
    world_check(&world, &shape);
    free(value);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_register_without_room_gets_another_page, setup, teardown),
        cmocka_unit_test_setup_teardown(entries_claimed_together_stand_together, setup, teardown),
        cmocka_unit_test_setup_teardown(a_crash_frees_chains_that_nobody_refers_to, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_kept_chain_in_limbo_is_not_freed_again, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
