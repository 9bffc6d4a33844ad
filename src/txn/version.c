/*
 * Versions as bytes: undo records of changes, and going back by them.
 *
 * Record: flags u8, index id varint, key size varint, key; if there was an old version its head (14
 * bytes), then as a delta front and back as varints and the middle, else the rest of the cell.
 */
#include "txn/version_internal.h"

#include "base/memory.h"

enum {
    RECORD_HAD_OLD = 1,
    RECORD_OLD_IS_LARGE = 2,
    RECORD_IS_DELTA = 4,
    RECORD_FREES_OLD = 8,
    RECORD_DELETES = 16,
    RECORD_FLAGS = 31,
    VARINT_BYTES = 10,
};

size_t undo_change_bytes(size_t key_bytes, size_t old_cell_bytes)
{
    return 1 + 4 * VARINT_BYTES + key_bytes + old_cell_bytes;
}

static size_t put_bytes(uint8_t *to, struct span bytes)
{
    if (bytes.size_bytes > 0)
        memcpy(to, bytes.bytes, bytes.size_bytes);
    return bytes.size_bytes;
}

/* How much of two byte strings is the same at their beginnings, and behind that at their ends. */
static void common_ends(struct span left, struct span right, size_t *front, size_t *back)
{
    size_t limit = left.size_bytes < right.size_bytes ? left.size_bytes : right.size_bytes;
    size_t at = 0;
    while (at + 8 <= limit && get_u64(left.bytes + at) == get_u64(right.bytes + at))
        at += 8;
    while (at < limit && left.bytes[at] == right.bytes[at])
        at++;
    size_t end = 0;
    while (end < limit - at &&
           left.bytes[left.size_bytes - 1 - end] == right.bytes[right.size_bytes - 1 - end])
        end++;
    *front = at;
    *back = end;
}

static size_t put_old(uint8_t *to, struct span old, const struct span *newer, uint8_t *flags)
{
    struct span rest = span_of(old.bytes + TXN_HEAD_BYTES, old.size_bytes - TXN_HEAD_BYTES);
    size_t size = put_bytes(to, span_of(old.bytes, TXN_HEAD_BYTES));
    size_t front = 0, back = 0;
    if (newer != NULL)
        common_ends(rest, *newer, &front, &back);
    if (front + back <= 2) /* two numbers would cost what they save */
        return size + put_bytes(to + size, rest);
    *flags |= RECORD_IS_DELTA;
    size += change_put_varint(to + size, front);
    size += change_put_varint(to + size, back);
    return size + put_bytes(to + size, span_of(rest.bytes + front, rest.size_bytes - front - back));
}

size_t undo_change_put(uint8_t *to, const struct undo_change *change, struct span old,
                       const struct span *newer)
{
    uint8_t flags = (uint8_t)((change->had_old ? RECORD_HAD_OLD : 0) |
                              (change->old_is_large ? RECORD_OLD_IS_LARGE : 0) |
                              (change->deletes ? RECORD_DELETES : 0) |
                              (change->frees_old ? RECORD_FREES_OLD : 0));
    size_t size = 1;
    size += change_put_varint(to + size, change->index_id);
    size += change_put_varint(to + size, change->key.size_bytes);
    size += put_bytes(to + size, change->key);
    if (change->had_old)
        size += put_old(to + size, old, newer, &flags);
    to[0] = flags;
    return size;
}

static bool get_size(struct span *from, size_t *size)
{
    uint64_t value;
    if (!change_get_varint(from, &value) || value > PAGE_SIZE_MAX)
        return false;
    *size = (size_t)value;
    return true;
}

static bool take(struct span *from, size_t size_bytes, struct span *bytes)
{
    if (from->size_bytes < size_bytes)
        return false;
    *bytes = span_of(from->bytes, size_bytes);
    *from = span_of(from->bytes + size_bytes, from->size_bytes - size_bytes);
    return true;
}

firn_rc undo_change_get(struct span record, struct undo_change *change)
{
    struct span first, head;
    size_t key_bytes;
    *change = (struct undo_change){.index_id = 0};
    if (!take(&record, 1, &first) || !change_get_varint(&record, &change->index_id) ||
        !get_size(&record, &key_bytes) || !take(&record, key_bytes, &change->key))
        return FIRN_E_CORRUPT;
    unsigned flags = first.bytes[0];
    change->had_old = flags & RECORD_HAD_OLD;
    change->old_is_large = flags & RECORD_OLD_IS_LARGE;
    change->is_delta = flags & RECORD_IS_DELTA;
    change->frees_old = flags & RECORD_FREES_OLD;
    change->deletes = flags & RECORD_DELETES;
    if (flags > RECORD_FLAGS || (!change->had_old && flags != 0) ||
        (!change->had_old && record.size_bytes != 0))
        return FIRN_E_CORRUPT;
    if (!change->had_old)
        return FIRN_OK;
    if (!take(&record, TXN_HEAD_BYTES, &head) || !version_get(head, &change->old))
        return FIRN_E_CORRUPT;
    if (change->is_delta &&
        (!get_size(&record, &change->front_bytes) || !get_size(&record, &change->back_bytes)))
        return FIRN_E_CORRUPT;
    change->bytes = record;
    return FIRN_OK;
}

/* ---- Cells ---- */

void version_cell_free(struct version_cell *cell)
{
    memory_free(cell->bytes);
    *cell = (struct version_cell){.bytes = NULL};
}

firn_rc version_cell_reserve(struct version_cell *cell, size_t size_bytes)
{
    if (size_bytes <= cell->capacity_bytes)
        return FIRN_OK;
    size_t capacity_bytes = cell->capacity_bytes == 0 ? 512 : cell->capacity_bytes;
    while (capacity_bytes < size_bytes)
        capacity_bytes *= 2;
    uint8_t *bytes = memory_alloc(capacity_bytes);
    if (bytes == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for an older version of a row of %zu bytes",
                        size_bytes);
    if (cell->size_bytes > 0)
        memcpy(bytes, cell->bytes, cell->size_bytes);
    memory_free(cell->bytes);
    cell->bytes = bytes;
    cell->capacity_bytes = capacity_bytes;
    return FIRN_OK;
}

firn_rc version_cell_set(struct version_cell *cell, struct span bytes, bool is_large)
{
    cell->size_bytes = 0;
    FIRN_TRY(version_cell_reserve(cell, bytes.size_bytes));
    if (bytes.size_bytes > 0) /* the empty key */
        memcpy(cell->bytes, bytes.bytes, bytes.size_bytes);
    cell->size_bytes = bytes.size_bytes;
    cell->is_large = is_large;
    return FIRN_OK;
}

firn_rc version_cell_undo(struct version_cell *cell, const struct undo_change *change)
{
    size_t newer_bytes = cell->size_bytes - TXN_HEAD_BYTES;
    size_t kept_bytes = change->front_bytes + change->back_bytes;
    if (!change->had_old || cell->size_bytes < TXN_HEAD_BYTES ||
        (change->is_delta && kept_bytes > newer_bytes))
        return FIRN_E_CORRUPT;
    if (!change->is_delta)
        kept_bytes = 0;
    size_t size_bytes = TXN_HEAD_BYTES + kept_bytes + change->bytes.size_bytes;
    FIRN_TRY(version_cell_reserve(cell, size_bytes));
    if (change->is_delta) /* the end moves first, so that the middle does not overwrite it */
        memmove(cell->bytes + size_bytes - change->back_bytes,
                cell->bytes + cell->size_bytes - change->back_bytes, change->back_bytes);
    if (change->bytes.size_bytes > 0)
        memcpy(cell->bytes + TXN_HEAD_BYTES + change->front_bytes, change->bytes.bytes,
               change->bytes.size_bytes);
    version_put(cell->bytes, &change->old);
    cell->size_bytes = size_bytes;
    cell->is_large = change->old_is_large;
    return FIRN_OK;
}

firn_rc version_cell_of_record(struct version_cell *cell, const struct undo_change *change)
{
    cell->size_bytes = 0;
    if (!change->had_old || change->is_delta)
        return FIRN_E_CORRUPT;
    FIRN_TRY(version_cell_reserve(cell, TXN_HEAD_BYTES + change->bytes.size_bytes));
    version_put(cell->bytes, &change->old);
    memcpy(cell->bytes + TXN_HEAD_BYTES, change->bytes.bytes, change->bytes.size_bytes);
    cell->size_bytes = TXN_HEAD_BYTES + change->bytes.size_bytes;
    cell->is_large = change->old_is_large;
    return FIRN_OK;
}
