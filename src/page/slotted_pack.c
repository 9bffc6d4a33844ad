/*
 * Cells on their way from page to page: packed, with whole keys, so that neither page's prefix
 * matters. Each key is written as what it adds to the one before, so that a page of long keys that
 * have nearly everything in common does not become a run of many times its size.
 */
#include "base/check.h"
#include "page/slotted_internal.h"

enum {
    PACKED_AT_SHARED = 0, /* u16, bytes that the key has in common with the one before */
    PACKED_AT_REST = 2,   /* u16, size of the rest of the key */
    PACKED_AT_VALUE = 4,  /* u16, value size and external bit; the rest and the value follow */
};
_Static_assert(SLOTTED_PACKED_BYTES == PACKED_AT_VALUE + SLOTTED_VALUE_AT, "packed cell");

/* Write a packed cell; its key is `shared` bytes of the one before and the rest. */
static size_t put_packed(uint8_t *to, size_t shared, struct span rest, struct span value,
                         unsigned flags)
{
    put_u16(to + PACKED_AT_SHARED, (uint16_t)shared);
    put_u16(to + PACKED_AT_REST, (uint16_t)rest.size_bytes);
    return PACKED_AT_VALUE + cell_put(to + PACKED_AT_VALUE, rest, value, flags);
}

size_t slotted_pack_cell(struct span before, struct span key, struct span value, unsigned flags,
                         uint8_t *packed)
{
    ASSERT(key.size_bytes <= UINT16_MAX && value.size_bytes < CELL_EXTERNAL);
    size_t shared = span_shared(before, key);
    return put_packed(packed, shared, span_behind(key, shared), value, flags);
}

size_t slotted_packed_bytes(const uint8_t *page, uint32_t page_size_bytes, unsigned from,
                            unsigned to)
{
    size_t bytes = from < to ? get_u16(page + AT_PREFIX) : 0;
    struct span before = span_of(NULL, 0);
    for (unsigned slot = from; slot < to; slot++) {
        struct slotted_cell cell;
        ENSURE(slotted_cell(page, page_size_bytes, slot, &cell));
        bytes += SLOTTED_PACKED_BYTES + cell.suffix.size_bytes + cell.value.size_bytes -
                 span_shared(before, cell.suffix);
        before = cell.suffix;
    }
    return bytes;
}

size_t slotted_pack(const uint8_t *page, uint32_t page_size_bytes, unsigned from, unsigned to,
                    uint8_t *packed)
{
    uint8_t first_key[SLOTTED_KEY_MAX];
    uint8_t *at = packed;
    struct span before = span_of(NULL, 0);
    for (unsigned slot = from; slot < to; slot++) {
        struct slotted_cell cell;
        ENSURE(slotted_cell(page, page_size_bytes, slot, &cell));
        size_t shared = span_shared(before, cell.suffix);
        struct span rest = span_behind(cell.suffix, shared);
        before = cell.suffix;
        if (slot == from)
            rest = span_of(first_key, slotted_copy_key(page, page_size_bytes, slot, first_key));
        else
            shared += get_u16(page + AT_PREFIX);
        at += put_packed(at, shared, rest, cell.value, cell.flags);
    }
    return (size_t)(at - packed);
}

/* Reads a packed run: the key is put together in a place of its own. */
struct unpacker {
    struct span packed; /* what is left */
    unsigned count;     /* cells read */
    size_t shared;      /* by the key and the one before it */
    size_t key_size;
    struct span value;
    unsigned flags;
    uint8_t key[SLOTTED_KEY_MAX];
};

static void unpack_begin(struct unpacker *unpacker, struct span packed)
{
    unpacker->packed = packed;
    unpacker->count = 0;
    unpacker->key_size = 0;
}

/* Read the next cell. Returns false at the end, and, something being left then, where it makes no
 * sense: bytes missing, a key too long or not above the one before. */
static bool unpack_next(struct unpacker *unpacker)
{
    if (unpacker->packed.size_bytes < SLOTTED_PACKED_BYTES)
        return false;
    const uint8_t *at = unpacker->packed.bytes;
    size_t shared = get_u16(at + PACKED_AT_SHARED);
    size_t rest_size = get_u16(at + PACKED_AT_REST);
    size_t value_bits = get_u16(at + PACKED_AT_VALUE);
    size_t value_size = value_bits & ~(size_t)CELL_EXTERNAL;
    struct span rest = span_of(at + SLOTTED_PACKED_BYTES, rest_size);
    struct span tail = span_behind(span_of(unpacker->key, unpacker->key_size), shared);
    if (SLOTTED_PACKED_BYTES + rest_size + value_size > unpacker->packed.size_bytes ||
        shared > unpacker->key_size || shared + rest_size > sizeof(unpacker->key) ||
        (unpacker->count > 0 && span_compare(tail, rest) >= 0))
        return false;
    memcpy(unpacker->key + shared, rest.bytes, rest_size);
    unpacker->count++;
    unpacker->shared = shared;
    unpacker->key_size = shared + rest_size;
    unpacker->value = span_of(rest.bytes + rest_size, value_size);
    unpacker->flags = value_bits & CELL_EXTERNAL ? SLOTTED_EXTERNAL : 0;
    unpacker->packed = span_behind(unpacker->packed, SLOTTED_PACKED_BYTES + rest_size + value_size);
    return true;
}

static struct span unpacked_key(const struct unpacker *unpacker)
{
    return span_of(unpacker->key, unpacker->key_size);
}

static struct span unpacked_suffix(const struct unpacker *unpacker, const uint8_t *page)
{
    return span_behind(unpacked_key(unpacker), get_u16(page + AT_PREFIX));
}

/* Judge the cell that has been read for a page. Only a run's first key can be below the lower fence
 * or the page's last, only its last above the upper fence. */
static bool judge_cell(const struct unpacker *unpacker, const uint8_t *page,
                       uint32_t page_size_bytes)
{
    if (!cell_is_allowed(page, page_size_bytes, unpacker->key_size, unpacker->value.size_bytes,
                         unpacker->flags))
        return false;
    return unpacker->count > 1 || (slotted_covers(page, page_size_bytes, unpacked_key(unpacker)) &&
                                   suffix_belongs(page, page_size_bytes, slotted_count(page),
                                                  unpacked_suffix(unpacker, page)));
}

/* What a run comes to on the page that it goes to. */
struct packed_sum {
    size_t heap_bytes;
    size_t slots_bytes;
    size_t shared; /* by its keys, but for an inner node's first */
};

/* Judge a whole run before any of it is taken; the unpacker stays at its last cell. */
static bool judge_packed(struct unpacker *unpacker, const uint8_t *page, uint32_t page_size_bytes,
                         struct packed_sum *sum)
{
    unsigned slot = slotted_count(page);
    size_t free_bytes = slotted_free_bytes(page, page_size_bytes);
    *sum = (struct packed_sum){.shared = SIZE_MAX};
    for (; unpack_next(unpacker); slot++) {
        if (!judge_cell(unpacker, page, page_size_bytes))
            return false;
        sum->slots_bytes += SLOTTED_SLOT_BYTES;
        sum->heap_bytes += SLOTTED_VALUE_AT + unpacked_suffix(unpacker, page).size_bytes +
                           unpacker->value.size_bytes;
        if (sum->heap_bytes + sum->slots_bytes > free_bytes)
            return false;
        if (slot == first_headed(page) || sum->shared == SIZE_MAX)
            sum->shared = unpacker->key_size;
        else if (unpacker->shared < sum->shared)
            sum->shared = unpacker->shared;
    }
    return unpacker->packed.size_bytes == 0 &&
           (unpacker->count == 0 || slotted_covers(page, page_size_bytes, unpacked_key(unpacker)));
}

/* Let the page's heads be good for the run, whose last cell has been read. */
static void admit_run(uint8_t *page, uint32_t page_size_bytes, const struct unpacker *unpacker,
                      size_t shared)
{
    size_t prefix_size = get_u16(page + AT_PREFIX);
    heads_admit(page, page_size_bytes, unpacked_suffix(unpacker, page),
                shared > prefix_size ? shared - prefix_size : 0);
}

firn_rc slotted_append_packed(uint8_t *page, uint32_t page_size_bytes, struct span packed)
{
    struct packed_sum sum;
    struct unpacker unpacker;
    unpack_begin(&unpacker, packed);
    if (!judge_packed(&unpacker, page, page_size_bytes, &sum))
        return FIRN_E_CORRUPT;
    if (unpacker.count == 0)
        return FIRN_OK;
    if (room_between(page) < sum.heap_bytes + sum.slots_bytes)
        slotted_compact(page, page_size_bytes);
    admit_run(page, page_size_bytes, &unpacker, sum.shared);
    unsigned slot = slotted_count(page);
    uint32_t at = get_u32(page + AT_HEAP_BEGIN) - (uint32_t)sum.heap_bytes;
    put_u32(page + AT_HEAP_BEGIN, at);
    for (unpack_begin(&unpacker, packed); unpack_next(&unpacker); slot++) {
        struct span suffix = unpacked_suffix(&unpacker, page);
        slot_put(page, slot, at, suffix);
        at += (uint32_t)cell_put(page + at, suffix, unpacker.value, unpacker.flags);
    }
    put_u16(page + AT_COUNT, (uint16_t)slot);
    put_u16(page + AT_LAST_SLOT, (uint16_t)(slot - 1));
    put_u16(page + AT_RUN, 0);
    return FIRN_OK;
}
