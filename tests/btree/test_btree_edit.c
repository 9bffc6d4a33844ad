/*
 * Edits: what a decision is shown, companions, heads of large values, chains that are kept, and the
 * key behind.
 */
#include "base/inject.h"
#include "base/memory.h"
#include "btree/btree_fixture.h"

#include "mtr/mtr.h"

enum { HEAD_BYTES = 14, LARGE_BYTES = 5 * PAGE_SIZE_MIN, COMPANION_AT = 64, COMPANION_OWNER = 99 };

static struct world world;
static uint32_t companion_page; /* a plain page of the system tablespace */

static void make_companion_page(void)
{
    struct mtr *mtr = btree_session_mtr(world.session);
    struct mtr_page *page;
    ASSERT_OK(mtr_begin(mtr, 2 * SPACE_LOG_MAX_BYTES));
    ASSERT_OK(space_allocate(world.base.spaces, mtr, SPACE_SYSTEM, COMPANION_OWNER, PAGE_NONE,
                             &companion_page));
    ASSERT_OK(mtr_fix_new(mtr, page_id_of(SPACE_SYSTEM, companion_page), &page));
    mtr_page_init(mtr, page, PAGE_TYPE_BLOB);
    ASSERT_OK(mtr_commit(mtr, NULL));
}

static int setup(void **state)
{
    (void)state;
    mtr_verify_changes(true);
    world_make(&world, &(struct world_options){.pool_pages = 2000});
    btree_set_head(world.tree, HEAD_BYTES);
    make_companion_page();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    world_drop(&world);
    return 0;
}

static void crash(void)
{
    ASSERT_OK(redo_flush(world.base.redo, redo_reserved_lsn(world.base.redo), REDO_FLUSH_SYNC));
    world_die(&world);
    ASSERT_OK(world_recover(&world, 1));
    btree_set_head(world.tree, HEAD_BYTES);
}

/* ---- An edit that does as it is told, and notes what it was shown ---- */

struct script {
    enum btree_action action;
    struct btree_new new;
    firn_rc companion_rc;
    uint8_t *head;       /* the companion writes it; or NULL */
    bool asks_next;      /* decide does */
    bool companion_asks; /* the companion does */

    unsigned decisions;
    unsigned companions;
    bool existed;
    bool was_large;
    uint8_t shown[LARGE_BYTES + 1];
    size_t shown_bytes;
    uint8_t cell[PAGE_SIZE_MIN];
    size_t cell_bytes;
    firn_rc next_rc;
    uint8_t next[PAGE_SIZE_MIN];
    size_t next_bytes;
};

static struct script script;

static void note_old(const struct btree_old *old)
{
    script.existed = old != NULL;
    script.shown_bytes = script.cell_bytes = 0;
    if (old == NULL)
        return;
    script.was_large = old->is_large;
    script.shown_bytes = old->value.size_bytes;
    script.cell_bytes = old->cell.size_bytes;
    memcpy(script.shown, old->value.bytes, old->value.size_bytes);
    memcpy(script.cell, old->cell.bytes, old->cell.size_bytes);
}

static firn_rc ask_next(void)
{
    struct span next;
    firn_rc rc = btree_next_key(world.session, &next);
    script.next_rc = rc;
    script.next_bytes = 0;
    if (rc == FIRN_OK) {
        script.next_bytes = next.size_bytes;
        memcpy(script.next, next.bytes, next.size_bytes);
    }
    return rc == FIRN_E_NOT_FOUND ? FIRN_OK : rc;
}

static enum btree_action decide(const struct btree_old *old, struct btree_new *new, firn_rc *rc,
                                void *context)
{
    (void)context;
    script.decisions++;
    note_old(old);
    *new = script.new;
    if (script.asks_next)
        *rc = ask_next();
    return *rc == FIRN_OK ? script.action : BTREE_KEEP;
}

static firn_rc accompany(struct mtr *mtr, void *context)
{
    (void)context;
    struct mtr_page *page;
    uint8_t count[8];
    script.companions++;
    if (script.companion_asks)
        FIRN_TRY(ask_next());
    FIRN_TRY(mtr_fix(mtr, page_id_of(SPACE_SYSTEM, companion_page), &page));
    if (script.companion_rc != FIRN_OK)
        return script.companion_rc;
    if (script.head != NULL)
        memset(script.head, 'h', HEAD_BYTES);
    put_u64(count, get_u64(page->bytes + COMPANION_AT) + 1);
    mtr_write(mtr, page, COMPANION_AT, span_of(count, sizeof count));
    return FIRN_OK;
}

static uint64_t companion_count(void)
{
    struct buffer_frame *frame;
    ASSERT_OK(buffer_fix(world.base.pool, page_id_of(SPACE_SYSTEM, companion_page), BUFFER_SHARED,
                         BUFFER_HINT_NORMAL, &frame));
    uint64_t count = get_u64(buffer_page(world.base.pool, frame) + COMPANION_AT);
    buffer_unfix(world.base.pool, frame, BUFFER_SHARED);
    return count;
}

static struct btree_edit the_edit(void)
{
    return (struct btree_edit){
        .decide = decide, .companion = accompany, .companion_log_bytes = mtr_cost(8)};
}

static firn_rc edit_as(uint64_t number, const struct btree_edit *edit)
{
    uint8_t key[WORLD_KEY_BYTES];
    script.decisions = script.companions = 0;
    return btree_edit(world.session, world.tree, world_key(key, number), edit, NULL);
}

/* Put a value that follows from number and version. */
static firn_rc put_as(uint64_t number, size_t size_bytes, uint64_t version, struct btree_edit edit)
{
    uint8_t *value = malloc(size_bytes + 1);
    script.action = BTREE_PUT;
    script.new = (struct btree_new){.value = world_value(value, size_bytes, number, version)};
    firn_rc rc = edit_as(number, &edit);
    free(value);
    return rc;
}

static void expect(uint64_t number, size_t size_bytes, uint64_t version)
{
    uint8_t key[WORLD_KEY_BYTES];
    uint8_t *value = malloc(size_bytes + 1);
    struct span found;
    ASSERT_OK(btree_get(world.session, world.tree, world_key(key, number), &found));
    assert_span_equal(found, world_value(value, size_bytes, number, version));
    free(value);
}

static void expect_none(uint64_t number)
{
    uint8_t key[WORLD_KEY_BYTES];
    struct span found;
    assert_int_equal(btree_get(world.session, world.tree, world_key(key, number), &found),
                     FIRN_E_NOT_FOUND);
}

/* ---- Companions ---- */

static void a_companion_goes_with_every_change(void **state)
{
    (void)state;
    struct btree_shape shape;
    uint64_t puts = 0;
    for (uint64_t i = 0; i < 500; i++, puts++) { /* with splits */
        ASSERT_OK(put_as(i * 37 % 500, i % 50 == 0 ? LARGE_BYTES : 300, 1, the_edit()));
        assert_int_equal(script.companions, 1);
    }
    script.action = BTREE_KEEP;
    struct btree_edit edit = the_edit();
    ASSERT_OK(edit_as(3, &edit));
    assert_int_equal(script.companions, 0);
    script.action = BTREE_DELETE;
    ASSERT_OK(edit_as(1000, &edit));
    assert_int_equal(script.companions, 0);
    ASSERT_OK(edit_as(3, &edit));
    assert_int_equal(script.companions, 1);
    assert_int_equal(companion_count(), puts + 1);
    crash();
    assert_int_equal(companion_count(), puts + 1);
    world_check(&world, &shape);
    assert_int_equal(shape.rows, 499);
}

static void what_a_companion_refuses_does_not_happen(void **state)
{
    (void)state;
    struct btree_shape shape;
    for (uint64_t i = 0; i < 60; i++)
        ASSERT_OK(put_as(2 * i, i % 20 == 0 ? LARGE_BYTES : 300, 1, the_edit()));
    unsigned pages = world_tree_pages(&world);
    uint64_t count = companion_count();
    script.companion_rc = FIRN_E_LOCK_WAIT;
    for (uint64_t i = 0; i < 60; i++) { /* some of these would split */
        assert_int_equal(put_as(2 * i + 1, 300, 1, the_edit()), FIRN_E_LOCK_WAIT);
        assert_int_equal(script.companions, 1);
        expect_none(2 * i + 1);
        assert_int_equal(put_as(2 * i + 1, LARGE_BYTES, 1, the_edit()), FIRN_E_LOCK_WAIT);
        expect_none(2 * i + 1);
        assert_int_equal(put_as(2 * i, 700, 2, the_edit()), FIRN_E_LOCK_WAIT);
        assert_int_equal(put_as(2 * i, LARGE_BYTES, 2, the_edit()), FIRN_E_LOCK_WAIT);
        script.action = BTREE_DELETE;
        struct btree_edit edit = the_edit();
        assert_int_equal(edit_as(2 * i, &edit), FIRN_E_LOCK_WAIT);
        expect(2 * i, i % 20 == 0 ? LARGE_BYTES : 300, 1);
    }
    script.companion_rc = FIRN_OK;
    assert_int_equal(companion_count(), count);
    assert_int_equal(world_tree_pages(&world), pages);
    world_check(&world, &shape);
    assert_int_equal(shape.rows, 60);
}

static void a_companion_may_write_the_head(void **state)
{
    (void)state;
    uint8_t value[LARGE_BYTES];
    uint8_t expected[LARGE_BYTES];
    uint8_t key[WORLD_KEY_BYTES];
    struct span found;
    static const size_t sizes[] = {HEAD_BYTES, 100, LARGE_BYTES};
    for (unsigned i = 0; i < ARRAY_COUNT(sizes); i++)
        for (uint64_t number = 0; number < 40; number++) { /* some split */
            world_value(expected, sizes[i], number, i);
            memcpy(value, expected, sizes[i]);
            memset(expected, 'h', HEAD_BYTES);
            script.action = BTREE_PUT;
            script.new = (struct btree_new){.value = span_of(value, sizes[i])};
            script.head = value;
            struct btree_edit edit = the_edit();
            ASSERT_OK(edit_as(number, &edit));
            script.head = NULL;
            ASSERT_OK(btree_get(world.session, world.tree, world_key(key, number), &found));
            assert_span_equal(found, span_of(expected, sizes[i]));
        }
}

/* ---- Heads and cells ---- */

static void a_decision_sees_the_head_or_the_whole(void **state)
{
    (void)state;
    uint8_t value[LARGE_BYTES];
    uint8_t key[WORLD_KEY_BYTES];
    struct btree_old row;
    struct btree_cursor *cursor;
    struct span whole = world_value(value, LARGE_BYTES, 1, 1);
    struct btree_edit edit = the_edit();
    ASSERT_OK(put_as(1, LARGE_BYTES, 1, edit));
    assert_false(script.existed);
    script.action = BTREE_KEEP;
    ASSERT_OK(edit_as(1, &edit));
    assert_true(script.existed && script.was_large);
    assert_span_equal(span_of(script.shown, script.shown_bytes), span_of(value, HEAD_BYTES));
    assert_int_equal(script.cell_bytes, HEAD_BYTES + 24);
    edit.wants_old = true;
    ASSERT_OK(edit_as(1, &edit));
    assert_span_equal(span_of(script.shown, script.shown_bytes), whole);

    ASSERT_OK(btree_get_cell(world.session, world.tree, world_key(key, 1), &row));
    assert_true(row.is_large);
    assert_span_equal(row.value, span_of(value, HEAD_BYTES));
    assert_span_equal(row.cell, span_of(script.cell, script.cell_bytes));
    ASSERT_OK(btree_cursor_open(&world.base, world.tree, &cursor));
    ASSERT_OK(btree_cursor_seek(cursor, BTREE_SEEK_FIRST, span_of(NULL, 0)));
    ASSERT_OK(btree_cursor_cell(cursor, &row));
    assert_true(row.is_large);
    assert_span_equal(row.cell, span_of(script.cell, script.cell_bytes));
    struct span found;
    ASSERT_OK(btree_cursor_value(cursor, &found));
    assert_span_equal(found, whole);
    btree_cursor_close(cursor);

    ASSERT_OK(put_as(1, 100, 2, the_edit()));
    ASSERT_OK(btree_get_cell(world.session, world.tree, world_key(key, 1), &row));
    assert_false(row.is_large);
    assert_span_equal(row.value, world_value(value, 100, 1, 2));
    assert_span_equal(row.cell, row.value);
    assert_int_equal(btree_get_cell(world.session, world.tree, world_key(key, 2), &row),
                     FIRN_E_NOT_FOUND);
}

static void a_head_is_changed_without_its_chain(void **state)
{
    (void)state;
    struct btree_shape shape;
    uint8_t value[LARGE_BYTES];
    uint8_t key[WORLD_KEY_BYTES];
    uint8_t cell[64];
    struct span found;
    struct btree_edit edit = the_edit();
    ASSERT_OK(put_as(1, LARGE_BYTES, 1, edit));
    unsigned pages = world_tree_pages(&world);
    for (unsigned keeps = 0; keeps < 2; keeps++) {
        script.action = BTREE_KEEP;
        ASSERT_OK(edit_as(1, &edit));
        memcpy(cell, script.cell, script.cell_bytes);
        memset(cell, 'A' + (int)keeps, HEAD_BYTES);
        script.action = BTREE_PUT;
        script.new = (struct btree_new){.value = span_of(cell, script.cell_bytes), .is_cell = true};
        edit.keeps_chain = keeps;
        ASSERT_OK(edit_as(1, &edit));
        assert_int_equal(script.decisions, 1); /* nothing was needed beside the leaf */
        world_value(value, LARGE_BYTES, 1, 1);
        memset(value, 'A' + (int)keeps, HEAD_BYTES);
        ASSERT_OK(btree_get(world.session, world.tree, world_key(key, 1), &found));
        assert_span_equal(found, span_of(value, LARGE_BYTES));
        assert_int_equal(world_tree_pages(&world), pages);
    }
    script.new.value.size_bytes--;
    assert_int_equal(edit_as(1, &edit), FIRN_E_INVALID);
    crash();
    world_check(&world, &shape);
    assert_int_equal(shape.value_bytes, LARGE_BYTES);
    edit.keeps_chain = false;
    script.action = BTREE_DELETE;
    ASSERT_OK(edit_as(1, &edit));
    assert_int_equal(world_tree_pages(&world), 1);
}

static void a_build_leaves_heads_in_leaves(void **state)
{
    (void)state;
    struct btree_build *build;
    uint8_t value[LARGE_BYTES];
    uint8_t key[WORLD_KEY_BYTES];
    struct btree_old row;
    struct btree_shape shape;
    ASSERT_OK(btree_build_begin(world.session, world.tree, 90, &build));
    for (uint64_t i = 0; i < 100; i++)
        ASSERT_OK(btree_build_add(build, world_key(key, i),
                                  world_value(value, i % 3 == 0 ? LARGE_BYTES : 200, i, 1)));
    ASSERT_OK(btree_build_finish(build, NULL));
    world_check(&world, &shape);
    for (uint64_t i = 0; i < 100; i++)
        expect(i, i % 3 == 0 ? LARGE_BYTES : 200, 1);
    ASSERT_OK(btree_get_cell(world.session, world.tree, world_key(key, 3), &row));
    assert_true(row.is_large);
    world_value(value, LARGE_BYTES, 3, 1);
    assert_span_equal(row.value, span_of(value, HEAD_BYTES));
}

/* ---- Kept chains ---- */

static unsigned chain_pages(struct span cell)
{
    atomic_uint pages = 0;
    ASSERT_OK(btree_chain_pages(world.tree, cell, world_count_seen, &pages));
    return pages;
}

static void check_with_kept(struct span cell)
{
    struct btree_shape shape;
    atomic_uint pages = 0;
    struct btree_check_options options = {
        .threads = 1, .report = world_problem, .seen = world_count_seen, .context = &pages};
    ASSERT_OK(btree_check(world.tree, &options, &shape));
    assert_int_equal(pages + chain_pages(cell), world_tree_pages(&world));
}

/* Replace version 1 of row 1, keeping its chain. @param cell  the old cell */
static struct span replace_and_keep(size_t new_bytes, uint8_t *cell)
{
    struct btree_edit edit = the_edit();
    ASSERT_OK(put_as(1, LARGE_BYTES, 1, edit));
    edit.keeps_chain = true;
    ASSERT_OK(put_as(1, new_bytes, 2, edit));
    assert_true(script.was_large);
    memcpy(cell, script.cell, script.cell_bytes);
    return span_of(cell, script.cell_bytes);
}

static void expect_kept(struct span cell, uint64_t version)
{
    uint8_t value[LARGE_BYTES];
    struct span found;
    ASSERT_OK(btree_read_kept(world.session, world.tree, cell, &found));
    assert_span_equal(found, world_value(value, LARGE_BYTES, 1, version));
}

static void a_kept_chain_is_read_and_freed(void **state)
{
    (void)state;
    static const size_t sizes[] = {100, LARGE_BYTES};
    for (unsigned i = 0; i < ARRAY_COUNT(sizes); i++) {
        uint8_t bytes[64];
        atomic_uint seen = 0;
        struct btree_shape shape;
        struct span found;
        struct span cell = replace_and_keep(sizes[i], bytes);
        expect(1, sizes[i], 2);
        expect_kept(cell, 1);
        check_with_kept(cell);
        crash();
        expect_kept(cell, 1);
        check_with_kept(cell);
        ASSERT_OK(btree_free_kept(world.session, world.tree, cell));
        world_check(&world, &shape);
        assert_int_equal(btree_read_kept(world.session, world.tree, cell, &found),
                         FIRN_E_NOT_FOUND);
        assert_int_equal(btree_chain_pages(world.tree, cell, world_count_seen, &seen),
                         FIRN_E_CORRUPT);
        /* Again, at once, behind others who have the pages, and after a crash. */
        ASSERT_OK(btree_free_kept(world.session, world.tree, cell));
        ASSERT_OK(put_as(2, LARGE_BYTES, 1, the_edit()));
        ASSERT_OK(btree_free_kept(world.session, world.tree, cell));
        crash();
        ASSERT_OK(btree_free_kept(world.session, world.tree, cell));
        expect(2, LARGE_BYTES, 1);
        world_check(&world, &shape);
        ASSERT_OK(btree_delete(world.session, world.tree, world_key(bytes, 2), NULL));
    }
    assert_int_equal(btree_free_kept(world.session, world.tree, span_of("no cell", 7)),
                     FIRN_E_INVALID);
}

static void a_kept_chain_is_put_back(void **state)
{
    (void)state;
    static const size_t sizes[] = {100, LARGE_BYTES};
    for (unsigned i = 0; i < ARRAY_COUNT(sizes); i++) {
        uint8_t bytes[64];
        struct btree_shape shape;
        struct span cell = replace_and_keep(sizes[i], bytes);
        struct btree_edit edit = the_edit();
        script.action = BTREE_PUT;
        script.new = (struct btree_new){.value = cell, .is_cell = true};
        ASSERT_OK(edit_as(1, &edit));
        expect(1, LARGE_BYTES, 1);
        world_check(&world, &shape); /* the newer chain is gone */
        crash();
        expect(1, LARGE_BYTES, 1);
        world_check(&world, &shape);
    }
}

/* Freed pages that the file has lost and got again are zeros: nobody's. */
static void a_chain_whose_pages_left_the_file_is_gone(void **state)
{
    (void)state;
    uint8_t bytes[64];
    uint64_t given_back;
    for (uint64_t i = 10; i < 100; i++) /* so that there is something to give back */
        ASSERT_OK(put_as(i, LARGE_BYTES, 1, the_edit()));
    struct span cell = replace_and_keep(100, bytes);
    ASSERT_OK(btree_free_kept(world.session, world.tree, cell));
    for (uint64_t i = 10; i < 100; i++)
        ASSERT_OK(btree_delete(world.session, world.tree, world_key(bytes + 48, i), NULL));
    ASSERT_OK(space_shrink(world.base.spaces, btree_session_mtr(world.session), world.space,
                           &given_back));
    assert_true(given_back > 0);
    ASSERT_OK(btree_free_kept(world.session, world.tree, cell));
}

/* ---- The key behind ---- */

static firn_rc look(const struct btree_old *old, void *context)
{
    (void)context;
    note_old(old);
    return ask_next();
}

/* Of rows with even numbers, look at a number and expect the one behind it. */
static void expect_next(uint64_t number, uint64_t next, uint64_t end)
{
    uint8_t key[WORLD_KEY_BYTES];
    ASSERT_OK(btree_inspect(world.session, world.tree, world_key(key, number), look, NULL));
    if (next >= end) {
        assert_int_equal(script.next_rc, FIRN_E_NOT_FOUND);
        return;
    }
    assert_int_equal(script.next_rc, FIRN_OK);
    assert_span_equal(span_of(script.next, script.next_bytes), world_key(key, next));
}

static void the_key_behind_is_told(void **state)
{
    (void)state;
    enum { ROWS = 600 };
    struct btree_shape shape;
    expect_next(5, 1, 0); /* of an empty tree */
    assert_false(script.existed);
    for (uint64_t i = 0; i < ROWS; i++)
        ASSERT_OK(put_as(2 * i, i % 100 == 7 ? LARGE_BYTES : 200, 1, the_edit()));
    world_check(&world, &shape);
    assert_true(shape.leaf_pages > 10);
    for (uint64_t i = 0; i < ROWS; i++) {
        expect_next(2 * i, 2 * i + 2, 2 * ROWS);
        assert_true(script.existed);
        assert_int_equal(script.was_large, i % 100 == 7);
        assert_int_equal(script.shown_bytes, i % 100 == 7 ? HEAD_BYTES : 200);
        expect_next(2 * i + 1, 2 * i + 2, 2 * ROWS);
        assert_false(script.existed);
    }
    struct span next;
    assert_int_equal(btree_next_key(world.session, &next), FIRN_E_MISUSE);
    assert_int_equal(
        btree_inspect(world.session, world.tree, span_of(script.cell, 2000), look, NULL),
        FIRN_E_INVALID);
}

/* Leaves become empty and stay, because merging them finds no memory. */
static void empty_leaves_are_stepped_over(void **state)
{
    (void)state;
    enum { ROWS = 600, LEFT = 20 };
    struct btree_session *session;
    uint8_t key[WORLD_KEY_BYTES];
    struct btree_shape before;
    struct btree_shape after;
    for (uint64_t i = 0; i < ROWS; i++)
        ASSERT_OK(put_as(2 * i, 200, 1, the_edit()));
    world_check(&world, &before);
    ASSERT_OK(btree_session_open(&world.base, &session));
    assert_int_equal(btree_delete(session, world.tree, world_key(key, 1), NULL), FIRN_E_NOT_FOUND);
    for (uint64_t i = LEFT; i < ROWS - LEFT; i++) {
        memory_fail_after(0);
        ASSERT_OK(btree_delete(session, world.tree, world_key(key, 2 * i), NULL));
        memory_fail_after(-1);
    }
    btree_session_close(session);
    world_check(&world, &after);
    assert_int_equal(after.leaf_pages, before.leaf_pages);
    for (uint64_t i = 0; i < LEFT - 1; i++)
        expect_next(2 * i, 2 * i + 2, 2 * ROWS);
    for (uint64_t i = LEFT - 1; i < ROWS - LEFT; i += 7)
        expect_next(2 * i, 2 * (ROWS - LEFT), 2 * ROWS);
    script.asks_next = true; /* an edit too */
    ASSERT_OK(put_as(2 * LEFT, 200, 1, the_edit()));
    script.asks_next = false;
    assert_span_equal(span_of(script.next, script.next_bytes), world_key(key, 2 * (ROWS - LEFT)));
    script.companion_asks = true;
    ASSERT_OK(put_as(2 * LEFT + 1, LARGE_BYTES, 1, the_edit()));
    script.companion_asks = false;
    assert_span_equal(span_of(script.next, script.next_bytes), world_key(key, 2 * (ROWS - LEFT)));
}

static void make_large_tree_in_small_pool(uint64_t rows)
{
    world_drop(&world);
    world_make(&world, &(struct world_options){.pool_pages = 64});
    btree_set_head(world.tree, HEAD_BYTES);
    make_companion_page();
    for (uint64_t i = 0; i < rows; i++)
        ASSERT_OK(put_as(2 * i, 200, 1, the_edit()));
}

static void a_leaf_that_has_to_be_read_is_read(void **state)
{
    (void)state;
    enum { ROWS = 3000 };
    make_large_tree_in_small_pool(ROWS);
    for (uint64_t i = 0; i < ROWS; i++) {
        uint64_t at = i * 1009 % ROWS;
        expect_next(2 * at, 2 * at + 2, 2 * ROWS);
    }
}

/* Whatever the change needs besides: room, a chain, the end of an old one. */
static void a_companion_is_told_the_key_behind(void **state)
{
    (void)state;
    enum { ROWS = 2000 };
    static const size_t sizes[] = {200, 200, 700, LARGE_BYTES};
    uint8_t key[WORLD_KEY_BYTES];
    struct btree_shape shape;
    make_large_tree_in_small_pool(ROWS);
    script.companion_asks = true;
    for (uint64_t i = 0; i < 2 * ROWS; i++) {
        uint64_t at = i * 1009 % ROWS;
        ASSERT_OK(put_as(2 * at + 1, sizes[at % 4], i, the_edit()));
        if (at + 1 == ROWS)
            assert_int_equal(script.next_rc, FIRN_E_NOT_FOUND);
        else
            assert_span_equal(span_of(script.next, script.next_bytes), world_key(key, 2 * at + 2));
    }
    script.action = BTREE_DELETE;
    for (uint64_t at = 0; at < ROWS; at++) {
        struct btree_edit edit = the_edit();
        ASSERT_OK(edit_as(2 * at + 1, &edit));
        if (at + 1 < ROWS)
            assert_span_equal(span_of(script.next, script.next_bytes), world_key(key, 2 * at + 2));
    }
    script.companion_asks = false;
    world_check(&world, &shape);
    assert_int_equal(shape.rows, ROWS);
}

/* ---- A decision about the key behind, when the leaf is left before it is carried out ---- */

static struct btree_session *other;
static uint64_t to_insert; /* by somebody else, when the leaf has been left */

static void insert_at_point(const char *point, void *context)
{
    uint8_t key[WORLD_KEY_BYTES];
    if (to_insert == 0 || strcmp(point, (const char *)context) != 0)
        return;
    uint64_t number = to_insert;
    to_insert = 0;
    ASSERT_OK(btree_put(other, world.tree, world_key(key, number), span_of("x", 1), NULL));
}

static void run_left_between(const char *point, size_t new_bytes)
{
    enum { GAP = 1000 };
    uint8_t key[WORLD_KEY_BYTES];
    unsigned disturbed = 0;
    ASSERT_OK(btree_session_open(&world.base, &other));
    for (uint64_t i = 0; i < 100; i++)
        ASSERT_OK(
            btree_put(other, world.tree, world_key(key, GAP * i), span_of(script.cell, 500), NULL));
    inject_set(insert_at_point, (void *)(uintptr_t)point);
    script.asks_next = true;
    for (uint64_t i = 0; i < 100; i++) {
        uint64_t between = to_insert = GAP * i + 7;
        ASSERT_OK(put_as(GAP * i + 1, new_bytes, 1, the_edit()));
        assert_int_equal(script.companions, 1);
        if (to_insert != 0 && i == 99) {
            assert_int_equal(script.next_rc, FIRN_E_NOT_FOUND);
        } else {
            uint64_t next = to_insert == 0 ? between : GAP * (i + 1);
            assert_span_equal(span_of(script.next, script.next_bytes), world_key(key, next));
        }
        disturbed += to_insert == 0;
        to_insert = 0;
    }
    inject_set(NULL, NULL);
    script.asks_next = false;
    print_message("# %s: %u between\n", point, disturbed);
#ifndef NDEBUG
    assert_true(disturbed > 5);
#endif
    struct btree_shape shape;
    world_check(&world, &shape);
    btree_session_close(other);
}

static void a_decision_about_the_key_behind_is_made_with_the_leaf_latched(void **state)
{
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); /* views are latches here: one thread cannot change what it looks at */
#endif
    run_left_between("btree-split-before-latches", 500);
}

static void also_when_a_chain_is_written_meanwhile(void **state)
{
    (void)state;
    run_left_between("btree-limbo-step", LARGE_BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_companion_goes_with_every_change, setup, teardown),
        cmocka_unit_test_setup_teardown(what_a_companion_refuses_does_not_happen, setup, teardown),
        cmocka_unit_test_setup_teardown(a_companion_may_write_the_head, setup, teardown),
        cmocka_unit_test_setup_teardown(a_decision_sees_the_head_or_the_whole, setup, teardown),
        cmocka_unit_test_setup_teardown(a_head_is_changed_without_its_chain, setup, teardown),
        cmocka_unit_test_setup_teardown(a_build_leaves_heads_in_leaves, setup, teardown),
        cmocka_unit_test_setup_teardown(a_kept_chain_is_read_and_freed, setup, teardown),
        cmocka_unit_test_setup_teardown(a_kept_chain_is_put_back, setup, teardown),
        cmocka_unit_test_setup_teardown(a_chain_whose_pages_left_the_file_is_gone, setup, teardown),
        cmocka_unit_test_setup_teardown(the_key_behind_is_told, setup, teardown),
        cmocka_unit_test_setup_teardown(empty_leaves_are_stepped_over, setup, teardown),
        cmocka_unit_test_setup_teardown(a_leaf_that_has_to_be_read_is_read, setup, teardown),
        cmocka_unit_test_setup_teardown(a_companion_is_told_the_key_behind, setup, teardown),
        cmocka_unit_test_setup_teardown(
            a_decision_about_the_key_behind_is_made_with_the_leaf_latched, setup, teardown),
        cmocka_unit_test_setup_teardown(also_when_a_chain_is_written_meanwhile, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
