/*
 * table_world.h -- a store with tables on a simulated disk.
 */
#ifndef FIRN_TESTS_TABLE_WORLD_H
#define FIRN_TESTS_TABLE_WORLD_H

#include "store/store_world.h"

#include "table/table.h"

static inline void table_world_init(struct world *world, struct sim_disk *disk, uint64_t seed,
                                    uint32_t page_size_bytes)
{
    world_init(world, disk, seed);
    world->options.page_size_bytes = page_size_bytes;
    world->options.buffer_pool_size_bytes = 4 << 20;
}

static inline firn_rc table_world_open(struct world *world)
{
    return store_open(&world->options, &world->store, NULL);
}

static inline struct table_set *tables_of(const struct world *world)
{
    return store_tables(world->store);
}

/** Close the store and open it again. */
static inline void table_world_reopen(struct world *world)
{
    ASSERT_OK(store_close(world->store));
    world->store = NULL;
    ASSERT_OK(table_world_open(world));
}

static inline void table_world_close(struct world *world)
{
    if (world->store != NULL)
        ASSERT_OK(store_close(world->store));
    world->store = NULL;
    world_end(world);
    sim_disk_destroy(world->disk);
}

/** Check a table. @return NULL, or what is wrong; valid until the next call */
static inline const char *table_wrong(struct table_set *set, const char *name)
{
    static char text[512];
    struct table_check_result result;
    struct table_session *session;
    struct table *table;
    text[0] = '\0';
    if (table_open(set, name, &table) != FIRN_OK)
        return firn_error_text();
    firn_rc rc = table_session_open(set, &session);
    if (rc == FIRN_OK) {
        rc = table_check(session, table, world_problem, text, &result);
        table_session_close(session);
    }
    table_close(table);
    if (rc == FIRN_OK)
        return NULL;
    return text[0] != '\0' ? text : firn_error_text();
}

/** How many trees there are, and how many there ought to be. */
struct tree_count {
    struct table_set *set;
    unsigned found;
    unsigned wanted;
};

static inline firn_rc count_tree(const struct store_tree_info *info, struct btree *tree,
                                 void *context)
{
    struct tree_count *count = context;
    (void)tree;
    count->found++;
    count->wanted += strcmp(info->name, "firn.dictionary") == 0;
    return FIRN_OK;
}

static inline firn_rc count_table_trees(const char *name, void *context)
{
    struct tree_count *count = context;
    struct table *table;
    FIRN_TRY(table_open(count->set, name, &table));
    count->wanted += table_schema(table)->index_count;
    table_close(table);
    return FIRN_OK;
}

/** Are there just the trees of the tables that are there? What is left of others is damage that no
 * check sees. @return NULL, or what is wrong */
static inline const char *trees_wrong(struct world *world)
{
    struct tree_count count = {.set = tables_of(world)};
    if (store_each_tree(world->store, count_tree, &count) != FIRN_OK ||
        table_each(count.set, count_table_trees, &count) != FIRN_OK)
        return firn_error_text();
    return count.found == count.wanted ? NULL : "there are trees of no table";
}

/** Check the store, its trees, and one table or none. @return NULL, or what is wrong */
static inline const char *table_world_wrong(struct world *world, const char *name)
{
    static char text[512];
    struct store_check_result result;
    text[0] = '\0';
    if (store_check(world->store, 1, world_problem, text, NULL, &result) != FIRN_OK)
        return text[0] != '\0' ? text : firn_error_text();
    const char *wrong = trees_wrong(world);
    if (wrong == NULL && name != NULL)
        wrong = table_wrong(tables_of(world), name);
    return wrong;
}

/** Name columns by number in a set of them. */
static inline void set_column(uint64_t set[ROW_SET_WORDS], unsigned column)
{
    set[column / 64] |= UINT64_C(1) << column % 64;
}

#endif
