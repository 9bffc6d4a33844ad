/*
 * Limbo: pages that are being written or freed in several mini-transactions, and belong to nobody
 * meanwhile.
 *
 * A tablespace has a register of them, pages of entries. Who needs several mini-transactions claims
 * an entry first; the entry names the pages from the first of these mini-transactions to the last,
 * each of which changes both or neither. So after a crash an entry names exactly what nobody else
 * refers to, and btree_clear_limbo frees it. An entry is written by its owner alone, under the
 * latch of its page, which comes after those of index and blob pages and before the tablespace's.
 */
#include "base/check.h"
#include "base/inject.h"
#include "btree/blob_internal.h"

#include <inttypes.h>

static unsigned entries_of_page(uint32_t page_size_bytes)
{
    return (page_size_bytes - LIMBO_AT_ENTRIES) / LIMBO_ENTRY_BYTES;
}

static size_t entry_at(unsigned index)
{
    return LIMBO_AT_ENTRIES + (size_t)index * LIMBO_ENTRY_BYTES;
}

static void entry_get(const uint8_t *page, unsigned index, struct btree_limbo_entry *entry)
{
    const uint8_t *from = page + entry_at(index);
    *entry = (struct btree_limbo_entry){
        .kind = (enum btree_limbo_kind)get_u32(from),
        .first_page = get_u32(from + 4),
        .page_count = get_u32(from + 8),
        .index_id = get_u64(from + 16),
        .stamp = get_u64(from + 24),
    };
}

static firn_rc raise_damaged(uint32_t space, uint32_t page_no, const char *what)
{
    return rc_raise(FIRN_E_CORRUPT, "page %" PRIu32 " of tablespace %" PRIu32 " %s", page_no, space,
                    what);
}

static firn_rc check_register(uint32_t space, const struct mtr_page *page)
{
    return page_type(page->bytes) == PAGE_TYPE_LIMBO
               ? FIRN_OK
               : raise_damaged(space, page_id_number(page->page_id), "is no register of limbo");
}

/* ---- Claims ---- */

/* Find the register's first page, making it if there is none. */
static firn_rc find_register(struct btree_session *session, uint32_t space, uint32_t *page_no)
{
    struct mtr *mtr = &session->mtr;
    struct mtr_page *page;
    FIRN_TRY(space_limbo(session->base.spaces, NULL, space, page_no));
    if (*page_no != PAGE_NONE)
        return FIRN_OK;
    FIRN_TRY(mtr_begin(mtr, 3 * SPACE_LOG_MAX_BYTES));
    firn_rc rc = space_limbo(session->base.spaces, mtr, space, page_no);
    if (rc == FIRN_OK && *page_no == PAGE_NONE) {
        rc = btree_fresh_page(session, space, BTREE_LIMBO_OWNER, PAGE_NONE, &page);
        if (rc == FIRN_OK) {
            *page_no = page_id_number(page->page_id);
            rc = space_set_limbo(session->base.spaces, mtr, space, *page_no);
            if (rc == FIRN_OK)
                mtr_page_init(mtr, page, PAGE_TYPE_LIMBO);
            else
                btree_return_page(session, BTREE_LIMBO_OWNER, page);
        }
    }
    return btree_give_up(mtr, rc);
}

/* Make a further page of the register, behind a latched one that is full. */
static firn_rc extend_register(struct btree_session *session, uint32_t space, struct mtr_page *last)
{
    struct mtr_page *page;
    uint8_t number[4];
    FIRN_TRY(
        btree_fresh_page(session, space, BTREE_LIMBO_OWNER, page_id_number(last->page_id), &page));
    put_u32(number, page_id_number(page->page_id));
    mtr_page_init(&session->mtr, page, PAGE_TYPE_LIMBO);
    mtr_write(&session->mtr, last, LIMBO_AT_NEXT, span_of(number, sizeof number));
    return FIRN_OK;
}

/* Claim `count` free entries side by side in a latched page. Returns the first one's index, or
 * where the page ends. */
static unsigned claim_in_page(struct btree_session *session, struct mtr_page *page, unsigned count)
{
    uint8_t kind[4];
    unsigned limit = entries_of_page(session->page_size_bytes);
    unsigned free_run = 0;
    unsigned index = 0;
    for (; index < limit && free_run < count; index++)
        free_run = get_u32(page->bytes + entry_at(index)) == BTREE_LIMBO_NONE ? free_run + 1 : 0;
    if (free_run < count)
        return limit;
    put_u32(kind, BTREE_LIMBO_CLAIMED);
    for (unsigned i = 1; i <= count; i++)
        mtr_write(&session->mtr, page, entry_at(index - i), span_of(kind, sizeof kind));
    return index - count;
}

/* Try one page of the register; *page_no goes on to the next if it has no room. */
static firn_rc claim_step(struct btree_session *session, uint32_t space, unsigned count,
                          uint32_t *page_no, struct btree_claim *claim)
{
    struct mtr *mtr = &session->mtr;
    struct buffer_frame *frame;
    struct mtr_page *page;
    uint64_t page_id = page_id_of(space, *page_no);
    FIRN_TRY(buffer_fix(session->base.pool, page_id, BUFFER_PIN, BUFFER_HINT_NORMAL, &frame));
    firn_rc rc = mtr_begin(mtr, count * btree_claim_cost() + 3 * SPACE_LOG_MAX_BYTES);
    if (rc == FIRN_OK) {
        rc = mtr_fix(mtr, page_id, &page);
        if (rc == FIRN_OK)
            rc = check_register(space, page);
        if (rc == FIRN_OK) {
            unsigned index = claim_in_page(session, page, count);
            if (index < entries_of_page(session->page_size_bytes))
                *claim = (struct btree_claim){.frame = frame, .index = index};
            else if (get_u32(page->bytes + LIMBO_AT_NEXT) == 0)
                rc = extend_register(session, space, page);
            *page_no = get_u32(page->bytes + LIMBO_AT_NEXT);
        }
        rc = btree_give_up(mtr, rc);
    }
    if (rc != FIRN_OK || claim->frame == NULL) {
        *claim = (struct btree_claim){.frame = NULL};
        buffer_unfix(session->base.pool, frame, BUFFER_PIN);
    }
    return rc;
}

firn_rc btree_claim(struct btree_session *session, uint32_t space, unsigned count,
                    struct btree_claim *claim)
{
    uint32_t page_no;
    FIRN_TRY(find_register(session, space, &page_no));
    *claim = (struct btree_claim){.frame = NULL};
    while (claim->frame == NULL)
        FIRN_TRY(claim_step(session, space, count, &page_no, claim));
    return FIRN_OK;
}

firn_rc btree_claim_lock(struct btree_session *session, struct btree_claim *claim)
{
    return mtr_fix(&session->mtr, buffer_page_id(claim->frame), &claim->page);
}

void btree_claim_set(struct btree_session *session, struct btree_claim *claim, unsigned which,
                     const struct btree_limbo_entry *entry)
{
    uint8_t bytes[LIMBO_ENTRY_BYTES] = {0};
    put_u32(bytes, entry->kind);
    put_u32(bytes + 4, entry->first_page);
    put_u32(bytes + 8, entry->page_count);
    put_u64(bytes + 16, entry->index_id);
    put_u64(bytes + 24, entry->stamp);
    mtr_write(&session->mtr, claim->page, entry_at(claim->index + which),
              span_of(bytes, sizeof bytes));
}

void btree_limbo_name(const struct btree *tree, struct span cell, struct btree_limbo_entry *entry)
{
    struct btree_reference reference;
    btree_reference_get(cell, &reference);
    *entry = (struct btree_limbo_entry){
        .kind = BTREE_LIMBO_CHAIN,
        .first_page = reference.first_page,
        .page_count = reference.page_count,
        .index_id = tree->index_id,
        .stamp = reference.stamp,
    };
}

void btree_claim_drop(struct btree_session *session, struct btree_claim *claim)
{
    if (claim->frame != NULL)
        buffer_unfix(session->base.pool, claim->frame, BUFFER_PIN);
    claim->frame = NULL;
}

/* ---- Freeing: a page in a mini-transaction, so that it happens or not ---- */

/* What is being freed, and where that is noted. */
struct freeing {
    struct btree_session *session;
    struct btree_claim *claim;
    unsigned which;
    uint32_t space;
    struct btree_limbo_entry entry;
};

static struct mtr *freeing_mtr(const struct freeing *freeing)
{
    return &freeing->session->mtr;
}

/* Latch a page that is to be freed. */
static firn_rc lock_page(struct freeing *freeing, uint32_t page_no, enum page_type type,
                         struct mtr_page **page)
{
    FIRN_TRY(mtr_fix(freeing_mtr(freeing), page_id_of(freeing->space, page_no), page));
    const uint8_t *bytes = (*page)->bytes;
    uint64_t index_id =
        type == PAGE_TYPE_BLOB ? get_u64(bytes + BLOB_AT_INDEX_ID) : slotted_index_id(bytes);
    if (page_type(bytes) == type && index_id == freeing->entry.index_id)
        return FIRN_OK;
    return raise_damaged(freeing->space, page_no,
                         "is not what is to be freed there: check the environment");
}

static firn_rc free_page(struct freeing *freeing, struct mtr_page *page)
{
    return space_free(freeing->session->base.spaces, freeing_mtr(freeing), page,
                      freeing->entry.index_id);
}

/* Note what is left, in the mini-transaction that frees the rest. */
static void note_entry(struct freeing *freeing)
{
    if (freeing->entry.first_page == PAGE_NONE || freeing->entry.page_count == 0)
        freeing->entry = (struct btree_limbo_entry){.kind = BTREE_LIMBO_CLAIMED};
    btree_claim_set(freeing->session, freeing->claim, freeing->which, &freeing->entry);
}

static firn_rc step_of_chain(struct freeing *freeing)
{
    struct btree_limbo_entry *entry = &freeing->entry;
    struct mtr_page *page;
    FIRN_TRY(lock_page(freeing, entry->first_page, PAGE_TYPE_BLOB, &page));
    FIRN_TRY(btree_claim_lock(freeing->session, freeing->claim));
    uint32_t next = get_u32(page->bytes + BLOB_AT_NEXT);
    FIRN_TRY(free_page(freeing, page));
    entry->first_page = next;
    if (entry->page_count != BTREE_LIMBO_TO_END)
        entry->page_count--;
    note_entry(freeing);
    return FIRN_OK;
}

static firn_rc step_of_level(struct freeing *freeing)
{
    struct mtr_page *node;
    FIRN_TRY(lock_page(freeing, freeing->entry.first_page, PAGE_TYPE_INDEX, &node));
    FIRN_TRY(btree_claim_lock(freeing->session, freeing->claim));
    uint32_t next = slotted_next(node->bytes);
    FIRN_TRY(free_page(freeing, node));
    freeing->entry.first_page = next;
    note_entry(freeing);
    return FIRN_OK;
}

static firn_rc free_step(struct freeing *freeing)
{
    struct mtr *mtr = freeing_mtr(freeing);
    FIRN_TRY(
        mtr_begin(mtr, SPACE_LOG_MAX_BYTES + btree_claim_cost() + mtr_cost(BTREE_REFERENCE_BYTES)));
    firn_rc rc =
        freeing->entry.kind == BTREE_LIMBO_CHAIN ? step_of_chain(freeing) : step_of_level(freeing);
    if (rc == FIRN_OK)
        return mtr_commit(mtr, NULL);
    mtr_abandon(mtr);
    return rc;
}

/* Read an entry, which its owner alone changes. */
static firn_rc read_entry(struct freeing *freeing)
{
    struct buffer_pool *pool = freeing->session->base.pool;
    struct buffer_frame *frame = freeing->claim->frame;
    buffer_latch(pool, frame, BUFFER_SHARED);
    entry_get(buffer_page(pool, frame), freeing->claim->index + freeing->which, &freeing->entry);
    buffer_unlatch(pool, frame, BUFFER_SHARED);
    if (freeing->entry.kind <= BTREE_LIMBO_LEVEL)
        return FIRN_OK;
    return raise_damaged(freeing->space, page_id_number(buffer_page_id(frame)),
                         "has an unknown entry in the register of limbo");
}

firn_rc btree_claim_free_pages(struct btree_session *session, struct btree_claim *claim,
                               unsigned which)
{
    struct freeing freeing = {.session = session,
                              .claim = claim,
                              .which = which,
                              .space = page_id_space(buffer_page_id(claim->frame))};
    FIRN_TRY(read_entry(&freeing));
    while (freeing.entry.kind == BTREE_LIMBO_CHAIN || freeing.entry.kind == BTREE_LIMBO_LEVEL) {
        INJECT("btree-limbo-step");
        FIRN_TRY(free_step(&freeing));
    }
    return FIRN_OK;
}

/* Give an entry back that names nothing any more. */
static firn_rc give_back(struct btree_session *session, struct btree_claim *claim, unsigned which)
{
    static const struct btree_limbo_entry none = {.kind = BTREE_LIMBO_NONE};
    FIRN_TRY(mtr_begin(&session->mtr, btree_claim_cost()));
    firn_rc rc = btree_claim_lock(session, claim);
    if (rc != FIRN_OK) {
        mtr_abandon(&session->mtr);
        return rc;
    }
    btree_claim_set(session, claim, which, &none);
    return mtr_commit(&session->mtr, NULL);
}

firn_rc btree_claim_end(struct btree_session *session, struct btree_claim *claim, unsigned count)
{
    firn_rc rc = FIRN_OK;
    for (unsigned which = 0; claim->frame != NULL && which < count && rc == FIRN_OK; which++) {
        rc = btree_claim_free_pages(session, claim, which);
        if (rc == FIRN_OK)
            rc = give_back(session, claim, which);
    }
    btree_claim_drop(session, claim);
    return rc;
}

/* ---- After a crash ---- */

/* Copy the kinds of a register page's entries, and what page comes next. */
static firn_rc clear_register_page(struct btree_session *session, uint32_t space, uint32_t *page_no)
{
    struct buffer_pool *pool = session->base.pool;
    struct buffer_frame *frame;
    FIRN_TRY(buffer_fix(pool, page_id_of(space, *page_no), BUFFER_PIN, BUFFER_HINT_NORMAL, &frame));
    const uint8_t *page = buffer_page(pool, frame);
    firn_rc rc = FIRN_OK;
    if (page_type(page) != PAGE_TYPE_LIMBO)
        rc = raise_damaged(space, *page_no, "is no register of limbo");
    for (unsigned i = 0; i < entries_of_page(session->page_size_bytes) && rc == FIRN_OK; i++) {
        struct btree_claim claim = {.frame = frame, .index = i};
        if (get_u32(page + entry_at(i)) == BTREE_LIMBO_NONE)
            continue;
        rc = btree_claim_free_pages(session, &claim, 0);
        if (rc == FIRN_OK)
            rc = give_back(session, &claim, 0);
    }
    *page_no = get_u32(page + LIMBO_AT_NEXT);
    buffer_unfix(pool, frame, BUFFER_PIN);
    return rc;
}

firn_rc btree_clear_limbo(struct btree_session *session, uint32_t space)
{
    uint32_t page_no;
    FIRN_TRY(space_limbo(session->base.spaces, NULL, space, &page_no));
    while (page_no != PAGE_NONE && page_no != 0)
        FIRN_TRY(clear_register_page(session, space, &page_no));
    return FIRN_OK;
}

static bool page_names(const uint8_t *page, uint32_t page_size_bytes, uint64_t index_id,
                       const struct btree_reference *reference)
{
    for (unsigned i = 0; i < entries_of_page(page_size_bytes); i++) {
        struct btree_limbo_entry entry;
        entry_get(page, i, &entry);
        if (entry.kind == BTREE_LIMBO_CHAIN && entry.index_id == index_id &&
            entry.first_page == reference->first_page && entry.stamp == reference->stamp)
            return true;
    }
    return false;
}

firn_rc btree_limbo_has(struct btree *tree, const struct btree_reference *reference, bool *has)
{
    const struct btree_base *base = &tree->base;
    uint32_t page_no;
    FIRN_TRY(space_limbo(base->spaces, NULL, tree->space, &page_no));
    *has = false;
    while (page_no != PAGE_NONE && page_no != 0 && !*has) {
        struct buffer_frame *frame;
        FIRN_TRY(buffer_fix(base->pool, page_id_of(tree->space, page_no), BUFFER_SHARED,
                            BUFFER_HINT_NORMAL, &frame));
        const uint8_t *page = buffer_page(base->pool, frame);
        *has = page_names(page, tree->page_size_bytes, tree->index_id, reference);
        page_no = get_u32(page + LIMBO_AT_NEXT);
        buffer_unfix(base->pool, frame, BUFFER_SHARED);
    }
    return FIRN_OK;
}

firn_rc btree_each_limbo_page(const struct btree_base *base, uint32_t space, btree_page_seen *seen,
                              void *context)
{
    uint32_t page_no;
    FIRN_TRY(space_limbo(base->spaces, NULL, space, &page_no));
    while (page_no != PAGE_NONE && page_no != 0) {
        struct buffer_frame *frame;
        FIRN_TRY(buffer_fix(base->pool, page_id_of(space, page_no), BUFFER_SHARED,
                            BUFFER_HINT_NORMAL, &frame));
        seen(page_no, context);
        page_no = get_u32(buffer_page(base->pool, frame) + LIMBO_AT_NEXT);
        buffer_unfix(base->pool, frame, BUFFER_SHARED);
    }
    return FIRN_OK;
}
