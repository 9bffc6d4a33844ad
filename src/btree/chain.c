/*
 * Large values: chains of blob pages.
 *
 * A chain's bytes never change while it is referred to. Each of its pages says which chain it is of
 * (first page and stamp) and where in the value its bytes stand, so a reader needs no latch on the
 * leaf: it gets the value that its reference meant, or sees that the chain is gone.
 */
#include "base/check.h"
#include "base/inject.h"
#include "btree/blob_internal.h"

struct span btree_cell_put(const struct btree *tree, struct span value,
                           const struct btree_reference *reference, uint8_t *to)
{
    uint8_t *at = to + tree->head_bytes;
    memcpy(to, value.bytes, tree->head_bytes);
    put_u32(at, reference->first_page);
    put_u32(at + 4, reference->page_count);
    put_u64(at + 8, reference->size_bytes);
    put_u64(at + 16, reference->stamp);
    return span_of(to, tree->head_bytes + BTREE_REFERENCE_BYTES);
}

void btree_reference_get(struct span cell, struct btree_reference *reference)
{
    static const uint8_t nothing[BTREE_REFERENCE_BYTES];
    const uint8_t *from = cell.size_bytes >= BTREE_REFERENCE_BYTES
                              ? cell.bytes + cell.size_bytes - BTREE_REFERENCE_BYTES
                              : nothing;
    *reference = (struct btree_reference){
        .first_page = get_u32(from),
        .page_count = get_u32(from + 4),
        .size_bytes = get_u64(from + 8),
        .stamp = get_u64(from + 16),
    };
}

bool btree_reference_equals(const struct btree_reference *left, const struct btree_reference *right)
{
    return left->first_page == right->first_page && left->page_count == right->page_count &&
           left->size_bytes == right->size_bytes && left->stamp == right->stamp;
}

bool btree_cell_is_sound(const struct btree *tree, struct span cell)
{
    uint64_t capacity = blob_capacity(tree->page_size_bytes);
    struct btree_reference reference;
    btree_reference_get(cell, &reference);
    return cell.size_bytes == tree->head_bytes + BTREE_REFERENCE_BYTES &&
           reference.page_count != 0 && reference.size_bytes <= reference.page_count * capacity &&
           reference.size_bytes > (reference.page_count - 1) * capacity;
}

/* How many bytes the page has that holds them from a position on. */
static size_t bytes_at(const struct btree *tree, const struct btree_reference *reference,
                       uint64_t position)
{
    uint64_t left = reference->size_bytes - position;
    size_t capacity = blob_capacity(tree->page_size_bytes);
    return left < capacity ? (size_t)left : capacity;
}

bool btree_chain_has(const struct btree *tree, const struct btree_reference *reference,
                     uint64_t position, const uint8_t *page)
{
    return page_type(page) == PAGE_TYPE_BLOB &&
           get_u64(page + BLOB_AT_INDEX_ID) == tree->index_id &&
           get_u64(page + BLOB_AT_STAMP) == reference->stamp &&
           get_u32(page + BLOB_AT_FIRST) == reference->first_page &&
           get_u64(page + BLOB_AT_POSITION) == position &&
           get_u32(page + BLOB_AT_LENGTH) == bytes_at(tree, reference, position);
}

/* ---- Reading ---- */

/* Where a read of a chain is. */
struct chain_reader {
    struct btree *tree;
    const struct btree_reference *reference;
    uint8_t *to;
    uint64_t position;
    uint32_t page_no;
    uint32_t ahead; /* pages behind page_no that have been asked for already */
};

/* Ask for the pages that follow in the file, before they are waited for one by one. */
static void read_ahead(struct chain_reader *reader, uint32_t run)
{
    uint64_t page_ids[BLOB_STEP_PAGES];
    unsigned count = 0;
    if (reader->ahead > 0) {
        reader->ahead--;
        return;
    }
    for (; count < BLOB_STEP_PAGES && count < run; count++)
        page_ids[count] = page_id_of(reader->tree->space, reader->page_no + 1 + count);
    if (count > 1)
        buffer_prefetch(reader->tree->base.pool, page_ids, count);
    reader->ahead = count;
}

/* Take a page's bytes. Returns false if it is not the page that the reference leads to. */
static bool take_page(struct chain_reader *reader, const uint8_t *page)
{
    if (!btree_chain_has(reader->tree, reader->reference, reader->position, page))
        return false;
    size_t size_bytes = bytes_at(reader->tree, reader->reference, reader->position);
    memcpy(reader->to + reader->position, page + BLOB_AT_DATA, size_bytes);
    reader->position += size_bytes;
    return true;
}

/* Take the page that the reader has come to, and go on to the next. */
static firn_rc read_page(struct chain_reader *reader)
{
    struct btree *tree = reader->tree;
    struct buffer_pool *pool = tree->base.pool;
    struct buffer_frame *frame;
    firn_rc rc = buffer_fix(pool, page_id_of(tree->space, reader->page_no), BUFFER_SHARED,
                            BUFFER_HINT_NORMAL, &frame);
    if (rc != FIRN_OK)
        return btree_missing_page(tree, reader->page_no, rc);
    const uint8_t *page = buffer_page(pool, frame);
    bool good = take_page(reader, page);
    uint32_t next = get_u32(page + BLOB_AT_NEXT);
    uint32_t run = get_u32(page + BLOB_AT_RUN);
    buffer_unfix(pool, frame, BUFFER_SHARED);
    if (!good)
        return BTREE_AGAIN;
    INJECT("btree-chain-page-read");
    read_ahead(reader, run);
    reader->page_no = next;
    return FIRN_OK;
}

firn_rc btree_chain_read(struct btree *tree, struct span cell, struct btree_bytes *value,
                         size_t *size_bytes)
{
    struct btree_reference reference;
    if (!btree_cell_is_sound(tree, cell))
        return BTREE_AGAIN;
    btree_reference_get(cell, &reference);
    FIRN_TRY(btree_bytes_reserve(value, tree->head_bytes + reference.size_bytes));
    memcpy(value->bytes, cell.bytes, tree->head_bytes);
    struct chain_reader reader = {.tree = tree,
                                  .reference = &reference,
                                  .to = value->bytes + tree->head_bytes,
                                  .page_no = reference.first_page};
    for (uint32_t i = 0; i < reference.page_count; i++)
        FIRN_TRY(read_page(&reader));
    *size_bytes = tree->head_bytes + reference.size_bytes;
    return FIRN_OK;
}

firn_rc btree_chain_read_seen(struct btree *tree, struct span cell, struct btree_bytes *value,
                              size_t *size_bytes, struct btree_chain_failure *failure)
{
    struct btree_reference reference;
    btree_reference_get(cell, &reference);
    /* Seen before and after a read that failed: it was referred to all the while. */
    if (failure->rc != FIRN_OK && btree_reference_equals(&reference, &failure->reference))
        return failure->rc != BTREE_AGAIN
                   ? failure->rc
                   : btree_raise_corrupt(tree, reference.first_page,
                                         "begins a large value that is not whole");
    firn_rc rc = btree_chain_read(tree, cell, value, size_bytes);
    if (rc == FIRN_OK || rc == FIRN_E_NOMEM)
        return rc;
    *failure = (struct btree_chain_failure){rc, reference};
    return BTREE_AGAIN;
}

/* ---- Writing ---- */

struct chain_writer {
    struct btree_session *session;
    struct btree *tree;
    struct btree_claim *claim;
    unsigned which;
    struct span value; /* without its head */
    struct btree_reference reference;
    uint32_t written; /* pages */
    uint32_t tail;    /* the page that the next one is linked to, or PAGE_NONE */
};

/* Initialise a fresh page of the chain and fill it. */
static void fill_page(struct chain_writer *writer, struct mtr_page *page, uint32_t run)
{
    struct mtr *mtr = &writer->session->mtr;
    size_t capacity = blob_capacity(writer->tree->page_size_bytes);
    size_t position = writer->written * capacity;
    size_t left = writer->value.size_bytes - position;
    size_t length = left < capacity ? left : capacity;
    uint32_t page_no = page_id_number(page->page_id);
    uint8_t header[BLOB_AT_DATA];
    put_u64(header + BLOB_AT_INDEX_ID, writer->tree->index_id);
    put_u64(header + BLOB_AT_STAMP, writer->reference.stamp);
    put_u64(header + BLOB_AT_POSITION, position);
    put_u32(header + BLOB_AT_LENGTH, (uint32_t)length);
    put_u32(header + BLOB_AT_NEXT, run > 0 ? page_no + 1 : PAGE_NONE);
    put_u32(header + BLOB_AT_FIRST, writer->reference.first_page);
    put_u32(header + BLOB_AT_RUN, run);
    mtr_page_init(mtr, page, PAGE_TYPE_BLOB);
    mtr_write(mtr, page, BLOB_AT_INDEX_ID,
              span_of(header + BLOB_AT_INDEX_ID, BLOB_AT_DATA - BLOB_AT_INDEX_ID));
    mtr_write(mtr, page, BLOB_AT_DATA, span_of(writer->value.bytes + position, length));
    writer->written++;
    writer->tail = page_no;
}

/* Latch what refers to the pages to come: the page before them, or the register. */
static firn_rc lock_referrer(struct chain_writer *writer, struct mtr_page **tail)
{
    if (writer->tail == PAGE_NONE)
        return btree_claim_lock(writer->session, writer->claim);
    return mtr_fix(&writer->session->mtr, page_id_of(writer->tree->space, writer->tail), tail);
}

static void refer_to(struct chain_writer *writer, struct mtr_page *tail, uint32_t first)
{
    if (tail != NULL) {
        uint8_t number[4];
        put_u32(number, first);
        mtr_write(&writer->session->mtr, tail, BLOB_AT_NEXT, span_of(number, sizeof number));
        return;
    }
    struct btree_limbo_entry entry = {
        .kind = BTREE_LIMBO_CHAIN,
        .first_page = first,
        .page_count = BTREE_LIMBO_TO_END,
        .index_id = writer->tree->index_id,
        .stamp = writer->reference.stamp,
    };
    btree_claim_set(writer->session, writer->claim, writer->which, &entry);
}

/* Write the next pages of a chain in one mini-transaction. */
static firn_rc write_step(struct chain_writer *writer)
{
    struct btree_session *session = writer->session;
    struct mtr_page *pages[BLOB_STEP_PAGES];
    struct mtr_page *tail = NULL;
    uint32_t got = 0;
    uint32_t wanted = writer->reference.page_count - writer->written;
    if (wanted > BLOB_STEP_PAGES)
        wanted = BLOB_STEP_PAGES;
    btree_grow_ahead(session, writer->tree->space, wanted);
    FIRN_TRY(mtr_begin(&session->mtr, wanted * (2 * mtr_cost(session->page_size_bytes)) +
                                          2 * SPACE_LOG_MAX_BYTES + btree_claim_cost()));
    firn_rc rc = lock_referrer(writer, &tail);
    uint32_t near = writer->tail != PAGE_NONE ? writer->tail : writer->tree->root_page;
    if (rc == FIRN_OK)
        rc = btree_fresh_run(session, writer->tree->space, writer->tree->index_id, near, wanted,
                             pages, &got);
    if (rc != FIRN_OK)
        return btree_give_up(&session->mtr, rc);
    uint32_t first = page_id_number(pages[0]->page_id);
    if (writer->written == 0) {
        /* Read after the allocation: who had these pages before has a stamp below it. */
        writer->reference.first_page = first;
        writer->reference.stamp = redo_reserved_lsn(session->base.redo);
    }
    refer_to(writer, tail, first);
    for (uint32_t i = 0; i < got; i++)
        fill_page(writer, pages[i], got - 1 - i);
    return mtr_commit(&session->mtr, NULL);
}

firn_rc btree_chain_write(struct btree_session *session, struct btree *tree, struct span value,
                          struct btree_claim *claim, unsigned which, uint32_t *tail,
                          struct btree_reference *reference)
{
    size_t capacity = blob_capacity(tree->page_size_bytes);
    if (value.size_bytes > UINT32_MAX)
        return rc_raise(FIRN_E_INVALID, "a value of %zu bytes is too large: 4 GiB less one at most",
                        value.size_bytes);
    ENSURE(value.size_bytes > tree->head_bytes);
    value = span_of(value.bytes + tree->head_bytes, value.size_bytes - tree->head_bytes);
    struct chain_writer writer = {
        .session = session,
        .tree = tree,
        .claim = claim,
        .which = which,
        .value = value,
        .reference = {.page_count = (uint32_t)((value.size_bytes + capacity - 1) / capacity),
                      .size_bytes = value.size_bytes},
        .tail = *tail,
    };
    while (writer.written < writer.reference.page_count) {
        FIRN_TRY(write_step(&writer));
        INJECT("btree-limbo-step");
    }
    *tail = writer.tail;
    *reference = writer.reference;
    return FIRN_OK;
}
