/*
 * version_internal.h -- a key's present version, as its value says, and the versions before it.
 *
 * A value in a tree: transaction id (6 bytes), roll pointer with two flags in its top bits (8
 * bytes), payload. FORMAT.md.
 */
#ifndef FIRN_TXN_VERSION_INTERNAL_H
#define FIRN_TXN_VERSION_INTERNAL_H

#include "txn/txn.h"
#include "txn/undo_internal.h"

/** What a value's head says. */
struct version {
    uint64_t txn_id;
    undo_pointer roll; /* the record of what was there before */
    bool is_deleted;
    bool is_first; /* there was nothing before */
};

/** Read a head. @return false if the value is too short to have one */
static inline bool version_get(struct span value, struct version *version)
{
    if (value.size_bytes < TXN_HEAD_BYTES)
        return false;
    uint64_t low = get_u64(value.bytes);
    uint64_t word = get_u64(value.bytes + 6);
    version->txn_id = low & ((UINT64_C(1) << 48) - 1);
    version->is_deleted = word >> 63;
    version->is_first = word >> 62 & 1;
    version->roll = word & ((UINT64_C(1) << 62) - 1);
    return true;
}

/** Write a head. @param to  room for TXN_HEAD_BYTES */
static inline void version_put(uint8_t *to, const struct version *version)
{
    uint64_t word =
        version->roll | (uint64_t)version->is_deleted << 63 | (uint64_t)version->is_first << 62;
    put_u32(to, (uint32_t)version->txn_id);
    put_u16(to + 4, (uint16_t)(version->txn_id >> 32));
    put_u64(to + 6, word);
}

/** What an undo record says: what was there under a key before its transaction changed it. Spans
 * point into the record. */
struct undo_change {
    uint64_t index_id;
    struct span key;
    bool had_old;
    struct version old;
    bool old_is_large;  /* the cell ends with a reference */
    bool is_delta;      /* `bytes` stand between what the newer cell begins and ends with */
    bool deletes;       /* the newer version is a deleted one: purge takes the key away */
    bool frees_old;     /* the old cell's chain is referred to by nobody else once this is purged */
    size_t front_bytes; /* of a delta: of the newer cell, behind the head */
    size_t back_bytes;
    struct span bytes; /* the old cell behind its head, or the delta's middle */
};

/** @return bytes that a record takes at most for a key and an old cell. */
size_t undo_change_bytes(size_t key_bytes, size_t old_cell_bytes);

/**
 * Write a record.
 *
 * @param change  index, key, had_old, old_is_large, deletes and frees_old are used
 * @param old     the cell that is there, head included; ignored unless had_old
 * @param newer   what will stand behind the head in its place; NULL when that is not known: the
 *                old cell is kept whole then
 * @param to      room for undo_change_bytes
 * @return its size
 */
size_t undo_change_put(uint8_t *to, const struct undo_change *change, struct span old,
                       const struct span *newer);

/** Read a record. FIRN_E_CORRUPT, without an error text, if it makes no sense. */
firn_rc undo_change_get(struct span record, struct undo_change *change);

/** A version's cell that is being worked out from the newer one; zeroed at first. */
struct version_cell {
    uint8_t *bytes;
    size_t size_bytes;
    size_t capacity_bytes;
    bool is_large;
};
void version_cell_free(struct version_cell *cell);

/** Make room for so many bytes; what is there stays. FIRN_E_NOMEM */
firn_rc version_cell_reserve(struct version_cell *cell, size_t size_bytes);

/** Take a copy of a cell. FIRN_E_NOMEM */
firn_rc version_cell_set(struct version_cell *cell, struct span bytes, bool is_large);

/** Make the old cell that a record keeps whole: no delta. FIRN_E_CORRUPT, without an error text, if
 * it does not; FIRN_E_NOMEM */
firn_rc version_cell_of_record(struct version_cell *cell, const struct undo_change *change);

/** Go from a newer version's cell to the one before it. FIRN_E_CORRUPT, without an error text, when
 * they do not belong together; FIRN_E_NOMEM */
firn_rc version_cell_undo(struct version_cell *cell, const struct undo_change *change);

#endif
