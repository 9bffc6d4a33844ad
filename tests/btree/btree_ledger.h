/*
 * btree_ledger.h -- a tree whose changes are accompanied by those of one plain page of another
 * tablespace, the ledger, as undo pages accompany rows.
 *
 * The ledger counts the changes, so it tells how far the tree must have come: both changed, or
 * neither. And it keeps cells of large values that the tree let go of, to be put back, or freed.
 */
#ifndef FIRN_TESTS_BTREE_BTREE_LEDGER_H
#define FIRN_TESTS_BTREE_BTREE_LEDGER_H

#include "btree/btree_model.h"

#include "mtr/mtr.h"

enum {
    LEDGER_HEAD_BYTES = 14,
    LEDGER_OWNER = 99,
    LEDGER_AT_COUNT = 64,
    LEDGER_AT_NOTES = 128,
    LEDGER_NOTES = 16,
    LEDGER_CELL_BYTES = LEDGER_HEAD_BYTES + 24,
    LEDGER_VALUE_MAX = 20 * PAGE_SIZE_MIN,
};

enum note_state { NOTE_FREE, NOTE_KEPT, NOTE_BEING_FREED };

/** What the ledger notes of a kept cell. */
struct note {
    uint32_t state;
    uint8_t cell[LEDGER_CELL_BYTES];
    uint64_t key;
    uint64_t number; /* of the value, as the model has it */
    uint64_t value_bytes;
};

struct ledger {
    struct world world;
    struct model model;
    struct rng rng;
    uint32_t page;
    uint64_t count; /* changes that have succeeded */
    uint64_t numbers;
    unsigned universe;
    uint8_t *value;
};

/** One operation; it may be tried more than once. */
struct ledger_operation {
    enum { LEDGER_PUT, LEDGER_DELETE, LEDGER_MARK, LEDGER_PUT_BACK, LEDGER_PURGE } what;
    uint64_t key;
    uint64_t number;
    size_t value_bytes;
    bool keeps;
    unsigned note; /* to be written, put back or purged */

    /* While it is carried out. */
    struct ledger *ledger;
    struct btree_session *session;
    struct note kept; /* what stands in the ledger, or is to be written */
    bool writes_note;
    uint8_t cell[LEDGER_CELL_BYTES];
};

/* A value's number has, above 32 bits, what its head was overwritten with; 0: nothing. */
static inline struct span ledger_value(uint8_t *value, size_t size_bytes, uint64_t number)
{
    world_value(value, size_bytes, number & UINT32_MAX, 0);
    if (number >> 32 != 0)
        memset(value, (int)(number >> 32), LEDGER_HEAD_BYTES);
    return span_of(value, size_bytes);
}

static inline struct span ledger_key(uint8_t key[WORLD_KEY_BYTES], uint64_t number)
{
    return world_key(key, number);
}

static inline uint64_t ledger_page_id(const struct ledger *ledger)
{
    return page_id_of(SPACE_SYSTEM, ledger->page);
}

static inline size_t note_at(unsigned note)
{
    return LEDGER_AT_NOTES + note * sizeof(struct note);
}

/** Read what the ledger says now. */
static inline uint64_t ledger_read(struct ledger *ledger, struct note notes[LEDGER_NOTES])
{
    struct buffer_pool *pool = ledger->world.base.pool;
    struct buffer_frame *frame;
    ASSERT_OK(buffer_fix(pool, ledger_page_id(ledger), BUFFER_SHARED, BUFFER_HINT_NORMAL, &frame));
    const uint8_t *page = buffer_page(pool, frame);
    uint64_t count = get_u64(page + LEDGER_AT_COUNT);
    memcpy(notes, page + LEDGER_AT_NOTES, LEDGER_NOTES * sizeof(struct note));
    buffer_unfix(pool, frame, BUFFER_SHARED);
    return count;
}

static inline void ledger_write(struct mtr *mtr, struct mtr_page *page, unsigned note,
                                const struct note *content)
{
    uint8_t count[8];
    put_u64(count, get_u64(page->bytes + LEDGER_AT_COUNT) + 1);
    mtr_write(mtr, page, LEDGER_AT_COUNT, span_of(count, sizeof(count)));
    if (content != NULL)
        mtr_write(mtr, page, note_at(note), span_of(content, sizeof(*content)));
}

enum { LEDGER_LOG_BYTES = 2 * (64 + sizeof(struct note)) };

/** Change the ledger alone. */
static inline firn_rc ledger_set(struct ledger_operation *operation, enum note_state state)
{
    struct mtr *mtr = btree_session_mtr(operation->session);
    struct mtr_page *page;
    FIRN_TRY(mtr_begin(mtr, LEDGER_LOG_BYTES));
    firn_rc rc = mtr_fix(mtr, ledger_page_id(operation->ledger), &page);
    if (rc != FIRN_OK) {
        mtr_abandon(mtr);
        return rc;
    }
    operation->kept.state = state;
    ledger_write(mtr, page, operation->note, &operation->kept);
    return mtr_commit(mtr, NULL);
}

/* ---- Edits ---- */

static inline enum btree_action ledger_decide(const struct btree_old *old, struct btree_new *new,
                                              firn_rc *rc, void *context)
{
    struct ledger_operation *operation = context;
    (void)rc;
    operation->writes_note = false;
    switch (operation->what) {
    case LEDGER_MARK:
        if (old == NULL || !old->is_large)
            return BTREE_KEEP;
        memcpy(operation->cell, old->cell.bytes, LEDGER_CELL_BYTES);
        memset(operation->cell, (int)(operation->number >> 32), LEDGER_HEAD_BYTES);
        *new = (struct btree_new){span_of(operation->cell, LEDGER_CELL_BYTES), true};
        return BTREE_PUT;
    case LEDGER_PUT_BACK:
        *new = (struct btree_new){span_of(operation->kept.cell, LEDGER_CELL_BYTES), true};
        operation->writes_note = true;
        return BTREE_PUT;
    default:
        if (operation->keeps && old != NULL && old->is_large) {
            memcpy(operation->kept.cell, old->cell.bytes, LEDGER_CELL_BYTES);
            operation->kept.state = NOTE_KEPT;
            operation->writes_note = true;
        }
        new->value =
            ledger_value(operation->ledger->value, operation->value_bytes, operation->number);
        return operation->what == LEDGER_PUT ? BTREE_PUT : BTREE_DELETE;
    }
}

static inline firn_rc ledger_accompany(struct mtr *mtr, void *context)
{
    struct ledger_operation *operation = context;
    struct mtr_page *page;
    FIRN_TRY(mtr_fix(mtr, ledger_page_id(operation->ledger), &page));
    ledger_write(mtr, page, operation->note, operation->writes_note ? &operation->kept : NULL);
    return FIRN_OK;
}

static inline firn_rc ledger_edit(struct ledger_operation *operation)
{
    struct ledger *ledger = operation->ledger;
    uint8_t key[WORLD_KEY_BYTES];
    struct btree_edit edit = {.decide = ledger_decide,
                              .companion = ledger_accompany,
                              .companion_log_bytes = LEDGER_LOG_BYTES,
                              .keeps_chain = operation->keeps,
                              .context = operation};
    return btree_edit(operation->session, ledger->world.tree, ledger_key(key, operation->key),
                      &edit, NULL);
}

/** Free the chain of a note, twice at times: it does no harm. */
static inline firn_rc ledger_purge(struct ledger_operation *operation)
{
    struct btree *tree = operation->ledger->world.tree;
    struct span cell = span_of(operation->kept.cell, LEDGER_CELL_BYTES);
    if (operation->kept.state == NOTE_KEPT)
        FIRN_TRY(ledger_set(operation, NOTE_BEING_FREED));
    FIRN_TRY(btree_free_kept(operation->session, tree, cell));
    if (operation->number % 2 == 0)
        FIRN_TRY(btree_free_kept(operation->session, tree, cell));
    return ledger_set(operation, NOTE_FREE);
}

/** Draw an operation that makes sense now. */
static inline void ledger_draw(struct ledger *ledger, unsigned puts,
                               struct ledger_operation *operation)
{
    static const size_t most[] = {100, 100, 700, 800, 3 * PAGE_SIZE_MIN, LEDGER_VALUE_MAX};
    struct rng *rng = &ledger->rng;
    struct note notes[LEDGER_NOTES];
    unsigned note = (unsigned)rng_below(rng, LEDGER_NOTES);
    uint64_t what = rng_below(rng, 100);
    ledger_read(ledger, notes);
    *operation = (struct ledger_operation){.ledger = ledger, .note = note};
    operation->key = rng_below(rng, ledger->universe);
    operation->number = ledger->numbers++;
    operation->value_bytes = rng_below(rng, most[rng_below(rng, ARRAY_COUNT(most))]);
    operation->what = what < puts ? LEDGER_PUT : what < 80 ? LEDGER_DELETE : LEDGER_MARK;
    if (notes[note].state == NOTE_FREE) {
        operation->keeps = operation->what != LEDGER_MARK && rng_below(rng, 4) != 0;
    } else if (what % 2 == 0) {
        operation->what =
            notes[note].state == NOTE_KEPT && what % 4 == 0 ? LEDGER_PUT_BACK : LEDGER_PURGE;
        operation->kept = notes[note];
    }
    if (operation->what == LEDGER_MARK)
        operation->number = 1 + rng_below(rng, 255);
    if (operation->what == LEDGER_MARK)
        operation->number <<= 32;
    if (operation->keeps) { /* what is there now */
        uint8_t key[WORLD_KEY_BYTES];
        bool found;
        size_t at = model_find(&ledger->model, ledger_key(key, operation->key), &found);
        operation->kept.key = operation->key;
        operation->kept.number = found ? ledger->model.entries[at].number : 0;
        operation->kept.value_bytes = found ? ledger->model.entries[at].value_bytes : 0;
    }
    if (operation->what == LEDGER_PUT_BACK) {
        operation->key = operation->kept.key;
        operation->number = operation->kept.number;
        operation->value_bytes = operation->kept.value_bytes;
        operation->kept.state = NOTE_FREE;
    }
}

static inline firn_rc ledger_try(struct ledger_operation *operation, struct btree_session *session)
{
    operation->session = session;
    return operation->what == LEDGER_PURGE ? ledger_purge(operation) : ledger_edit(operation);
}

/** Do to the model what the operation does to the tree. */
static inline void ledger_follow(const struct ledger_operation *operation)
{
    struct model *model = &operation->ledger->model;
    uint8_t bytes[WORLD_KEY_BYTES];
    struct span key = ledger_key(bytes, operation->key);
    bool found;
    size_t at = model_find(model, key, &found);
    switch (operation->what) {
    case LEDGER_PUT:
    case LEDGER_PUT_BACK:
        model_put(model, key, operation->number, operation->value_bytes);
        break;
    case LEDGER_DELETE:
        if (found)
            model_delete(model, at);
        break;
    case LEDGER_MARK:
        if (found &&
            key.size_bytes + model->entries[at].value_bytes > slotted_cell_max(PAGE_SIZE_MIN))
            model->entries[at].number =
                operation->number | (model->entries[at].number & UINT32_MAX);
        break;
    case LEDGER_PURGE:
        break;
    }
}

/* ---- Making, judging ---- */

static inline void ledger_open(struct ledger *ledger)
{
    btree_set_head(ledger->world.tree, LEDGER_HEAD_BYTES);
}

static inline void ledger_make(struct ledger *ledger, const struct world_options *options,
                               unsigned universe, uint64_t seed)
{
    *ledger = (struct ledger){.universe = universe, .value = malloc(LEDGER_VALUE_MAX)};
    rng_init(&ledger->rng, seed);
    world_make(&ledger->world, options);
    ledger_open(ledger);
    struct mtr *mtr = btree_session_mtr(ledger->world.session);
    struct mtr_page *page;
    ASSERT_OK(mtr_begin(mtr, 2 * SPACE_LOG_MAX_BYTES));
    ASSERT_OK(space_allocate(ledger->world.base.spaces, mtr, SPACE_SYSTEM, LEDGER_OWNER, PAGE_NONE,
                             &ledger->page));
    ASSERT_OK(mtr_fix_new(mtr, ledger_page_id(ledger), &page));
    mtr_page_init(mtr, page, PAGE_TYPE_BLOB);
    ASSERT_OK(mtr_commit(mtr, NULL));
}

static inline void ledger_end(struct ledger *ledger)
{
    model_free(&ledger->model);
    free(ledger->value);
    world_drop(&ledger->world);
}

/** Purge what was being purged when the power went; it may be gone already. */
static inline void ledger_resume(struct ledger *ledger)
{
    struct note notes[LEDGER_NOTES];
    ledger_read(ledger, notes);
    for (unsigned i = 0; i < LEDGER_NOTES; i++) {
        struct ledger_operation purge = {
            .what = LEDGER_PURGE, .ledger = ledger, .note = i, .kept = notes[i]};
        if (notes[i].state == NOTE_BEING_FREED)
            ASSERT_OK(ledger_try(&purge, ledger->world.session));
    }
}

/** Judge tree, kept cells, and that there are no other pages. Nothing is being purged. */
static inline void ledger_check(struct ledger *ledger, struct btree_shape *shape)
{
    struct world *world = &ledger->world;
    atomic_uint pages = 0;
    struct note notes[LEDGER_NOTES];
    struct btree_check_options options = {
        .threads = 1, .report = world_problem, .seen = world_count_seen, .context = &pages};
    ASSERT_OK(btree_check(world->tree, &options, shape));
    ASSERT_OK(space_check(world->base.spaces, world->space, world_problem, NULL));
    ledger_read(ledger, notes);
    for (unsigned i = 0; i < LEDGER_NOTES; i++) {
        struct span value;
        struct span cell = span_of(notes[i].cell, LEDGER_CELL_BYTES);
        if (notes[i].state == NOTE_FREE)
            continue;
        assert_int_equal(notes[i].state, NOTE_KEPT);
        ASSERT_OK(btree_chain_pages(world->tree, cell, world_count_seen, &pages));
        ASSERT_OK(btree_read_kept(world->session, world->tree, cell, &value));
        assert_span_equal(value,
                          ledger_value(ledger->value, notes[i].value_bytes, notes[i].number));
    }
    assert_int_equal(pages, world_tree_pages(world));
}

/** Is the tree's content the model's? */
static inline bool ledger_content_is_right(struct ledger *ledger)
{
    struct btree_cursor *cursor;
    struct span value;
    bool right = true;
    size_t at = 0;
    ASSERT_OK(btree_cursor_open(&ledger->world.base, ledger->world.tree, &cursor));
    firn_rc rc = btree_cursor_seek(cursor, BTREE_SEEK_FIRST, span_of(NULL, 0));
    for (; rc == FIRN_OK && right; at++, rc = btree_cursor_next(cursor)) {
        right = at < ledger->model.count &&
                span_compare(btree_cursor_key(cursor), model_key(&ledger->model, at)) == 0;
        if (!right)
            break;
        const struct model_entry *entry = &ledger->model.entries[at];
        ASSERT_OK(btree_cursor_value(cursor, &value));
        right = span_compare(value,
                             ledger_value(ledger->value, entry->value_bytes, entry->number)) == 0;
    }
    btree_cursor_close(cursor);
    return right && at == ledger->model.count;
}

#endif
