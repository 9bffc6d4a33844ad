/*
 * Looking at the present under repeatable read, as foreign keys do: reads that lock see what was
 * committed since the snapshot, changes of it are conflicts all the same.
 */
#include "txn_world.h"

static void changes_of_what_the_snapshot_lacks_are_conflicts(void **state)
{
    (void)state;
    struct sim_disk *disk;
    struct world world;
    struct btree *tree;
    struct txn_session *reader, *writer;
    struct span payload, key = span_of_text("k");
    ASSERT_OK(sim_disk_create(&(struct sim_disk_options){.sector_bytes = 512}, &disk));
    world_init(&world, disk, 1);
    ASSERT_OK(world_open(&world));
    ASSERT_OK(store_tree(world.store, "v", STORE_TREE_CREATE | STORE_TREE_VERSIONED, &tree));
    ASSERT_OK(txn_session_open(store_transactions(world.store), &reader));
    ASSERT_OK(txn_session_open(store_transactions(world.store), &writer));
    ASSERT_OK(txn_begin(reader, TXN_REPEATABLE_READ, false));
    ASSERT_OK(txn_take_snapshot(reader));
    ASSERT_OK(txn_begin(writer, TXN_REPEATABLE_READ, false));
    ASSERT_OK(txn_put(writer, tree, key, span_of_text("new")));
    ASSERT_OK(txn_commit(writer));

    assert_int_equal(txn_get(reader, tree, key, TXN_LOCK_SHARED, TXN_WAIT, &payload),
                     FIRN_E_CONFLICT);
    txn_session_see_present(reader, true);
    ASSERT_OK(txn_get(reader, tree, key, TXN_LOCK_SHARED, TXN_WAIT, &payload));
    assert_int_equal(span_compare(payload, span_of_text("new")), 0);
    assert_int_equal(txn_put(reader, tree, key, span_of_text("mine")), FIRN_E_CONFLICT);
    assert_int_equal(txn_delete(reader, tree, key), FIRN_E_CONFLICT);
    txn_session_see_present(reader, false);
    assert_int_equal(txn_get(reader, tree, key, TXN_LOCK_NONE, TXN_WAIT, &payload),
                     FIRN_E_NOT_FOUND);
    ASSERT_OK(txn_rollback(reader));

    txn_session_close(reader);
    txn_session_close(writer);
    world_end(&world);
    sim_disk_destroy(disk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changes_of_what_the_snapshot_lacks_are_conflicts),
    };
    return cmocka_run_group_tests_name("txn_present", tests, world_quiet, NULL);
}
