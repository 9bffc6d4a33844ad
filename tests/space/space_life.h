/*
 * space_life.h -- a life of tablespaces, made, filled, emptied, shortened, dropped, made again
 * under the same name, and what of it may be found when it was interrupted.
 */
#ifndef FIRN_TESTS_SPACE_SPACE_LIFE_H
#define FIRN_TESTS_SPACE_SPACE_LIFE_H

#include "space/page_model.h"

enum { PAGE = 4096, TABLES = 3, TABLE_PAGES = 1024 };

/** What may be found after a cut. */
enum certainty { NO, YES, MAYBE };

struct table {
    enum certainty exists;
    uint32_t id;
    enum certainty pages[TABLE_PAGES];
};

static struct world world;
static struct table tables[TABLES];

static inline const char *name_of(unsigned table)
{
    static const char *const names[TABLES] = {"a", "b", "c"};
    return names[table];
}

/* ---- What is done ---- */

static inline firn_rc create(unsigned table)
{
    memset(&tables[table], 0, sizeof tables[table]);
    tables[table].exists = MAYBE;
    FIRN_TRY(
        space_create(world.set, &world.mtr, IO_CLASS_TABLE, name_of(table), &tables[table].id));
    tables[table].exists = YES;
    return FIRN_OK;
}

static inline firn_rc drop(unsigned table)
{
    tables[table].exists = MAYBE;
    FIRN_TRY(space_drop(world.set, &world.mtr, tables[table].id));
    tables[table].exists = NO;
    return FIRN_OK;
}

static inline firn_rc try_init_page(uint32_t space, uint32_t page_no, uint64_t owner)
{
    struct mtr_page *page;
    struct slotted_bounds bounds = {
        .index_id = owner, .prev = PAGE_NONE, .next = PAGE_NONE, .upper_is_open = true};
    FIRN_TRY(mtr_fix_new(&world.mtr, page_id_of(space, page_no), &page));
    mtr_index_init(&world.mtr, page, &bounds);
    return FIRN_OK;
}

/** An index's page in one mini-transaction, not durable yet. */
static inline firn_rc allocate(unsigned table)
{
    uint32_t page_no;
    uint32_t space = tables[table].id;
    FIRN_TRY(space_prepare(world.set, space, 1));
    FIRN_TRY(mtr_begin(&world.mtr, 4096));
    firn_rc rc = space_allocate(world.set, &world.mtr, space, 7, PAGE_NONE, &page_no);
    if (rc != FIRN_OK) {
        mtr_abandon(&world.mtr);
        return rc;
    }
    rc = try_init_page(space, page_no, 7);
    if (rc != FIRN_OK) {
        space_unallocate(world.set, &world.mtr, space, 7, page_no, 1);
        mtr_commit(&world.mtr, NULL);
        return rc;
    }
    tables[table].pages[page_no] = MAYBE;
    return mtr_commit(&world.mtr, NULL);
}

static inline firn_rc give_back(unsigned table, uint32_t page_no)
{
    struct mtr_page *page;
    FIRN_TRY(mtr_begin(&world.mtr, 4096));
    firn_rc rc = mtr_fix(&world.mtr, page_id_of(tables[table].id, page_no), &page);
    if (rc == FIRN_OK)
        rc = space_free(world.set, &world.mtr, page, 7);
    if (rc != FIRN_OK) {
        mtr_abandon(&world.mtr);
        return rc;
    }
    tables[table].pages[page_no] = MAYBE;
    return mtr_commit(&world.mtr, NULL);
}

/** Make a table's allocations durable, and with that certain. @param pages  the ones there are */
static inline firn_rc acknowledge(unsigned table, unsigned first, unsigned end, enum certainty now)
{
    FIRN_TRY(redo_flush(world.redo, redo_reserved_lsn(world.redo), REDO_FLUSH_SYNC));
    for (unsigned i = first; i < end; i++)
        if (tables[table].pages[i] == MAYBE)
            tables[table].pages[i] = now;
    return FIRN_OK;
}

static inline firn_rc fill(unsigned table, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        FIRN_TRY(allocate(table));
    return acknowledge(table, 0, TABLE_PAGES, YES);
}

/** Give back what lies from a page on. */
static inline firn_rc empty(unsigned table, uint32_t from)
{
    for (uint32_t page_no = from; page_no < TABLE_PAGES; page_no++)
        if (tables[table].pages[page_no] == YES)
            FIRN_TRY(give_back(table, page_no));
    return acknowledge(table, from, TABLE_PAGES, NO);
}

static inline firn_rc checkpoint(void)
{
    FIRN_TRY(buffer_flush(world.pool, UINT64_MAX));
    return redo_checkpoint(world.redo, buffer_clean_lsn(world.pool));
}

static inline firn_rc live(void)
{
    uint64_t pages;
    FIRN_TRY(create(0));
    FIRN_TRY(fill(0, 3));
    FIRN_TRY(create(1));
    FIRN_TRY(fill(1, 40));
    FIRN_TRY(checkpoint());
    FIRN_TRY(drop(0));
    FIRN_TRY(create(0));
    FIRN_TRY(fill(1, 60));
    FIRN_TRY(fill(0, 5));
    FIRN_TRY(empty(1, 20));
    FIRN_TRY(space_shrink(world.set, &world.mtr, tables[1].id, &pages));
    FIRN_TRY(create(2));
    FIRN_TRY(fill(1, 30));
    FIRN_TRY(drop(1));
    FIRN_TRY(create(1));
    FIRN_TRY(checkpoint());
    FIRN_TRY(fill(2, 10));
    FIRN_TRY(drop(2));
    FIRN_TRY(checkpoint());
    return fill(1, 20);
}

/* ---- What is found ---- */

struct found {
    const struct table *table;
    bool pages[TABLE_PAGES];
};

static inline firn_rc note_page(uint32_t page_no, uint64_t owner, void *context)
{
    struct found *found = context;
    assert_true(page_no < TABLE_PAGES);
    assert_true(owner == 7 || (owner == 0 && page_no < 2));
    if (owner != 0)
        found->pages[page_no] = true;
    return FIRN_OK;
}

static inline void check_space(uint32_t space)
{
    unsigned problems = 0;
    firn_rc rc = space_check(world.set, space, model_problem, &problems);
    assert_int_equal(problems, 0);
    ASSERT_OK(rc);
}

static inline void check_table(unsigned number)
{
    const struct table *table = &tables[number];
    struct found found = {.table = table};
    uint32_t id;
    firn_rc rc = space_find(world.set, name_of(number), &id);
    if (rc != FIRN_OK) {
        assert_int_equal(rc, FIRN_E_NOT_FOUND);
        assert_int_not_equal(table->exists, YES);
        return;
    }
    assert_int_not_equal(table->exists, NO);
    check_space(id);
    ASSERT_OK(space_each_page(world.set, id, note_page, &found));
    /* Of a table half dropped the pages do not matter, only that they agree. */
    for (unsigned i = 0; table->exists == YES && i < TABLE_PAGES; i++)
        if (table->pages[i] != MAYBE)
            assert_int_equal(found.pages[i], table->pages[i] == YES);
}

static inline void check_world(void)
{
    check_space(SPACE_SYSTEM);
    for (unsigned i = 0; i < TABLES; i++)
        check_table(i);
}

/** It must be possible to go on. */
static inline void go_on(void)
{
    uint32_t id;
    for (unsigned i = 0; i < TABLES; i++)
        if (space_find(world.set, name_of(i), &id) == FIRN_OK)
            ASSERT_OK(space_drop(world.set, &world.mtr, id));
    for (unsigned i = 0; i < TABLES; i++) {
        ASSERT_OK(create(i));
        ASSERT_OK(fill(i, 3));
    }
    check_world();
}

#endif
