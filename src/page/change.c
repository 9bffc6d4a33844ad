/*
 * Records of changes: reading them, and repeating what they say.
 *
 * The bytes of a record come from the log, under its checksum; what they say is judged all the same
 * before the page is touched, so that a wrong record is found where it is and not in what it did.
 */
#include "page/change.h"

#include "base/check.h"
#include "page/slotted_internal.h"
#include "page/undo_page.h"

enum { VARINT_MAX_BYTES = 10 };

size_t change_put_varint(uint8_t *to, uint64_t value)
{
    size_t size = 0;
    for (; value >= 0x80; value >>= 7)
        to[size++] = (uint8_t)(value | 0x80);
    to[size++] = (uint8_t)value;
    return size;
}

bool change_get_varint(struct span *from, uint64_t *value)
{
    uint64_t result = 0;
    size_t limit = from->size_bytes < VARINT_MAX_BYTES ? from->size_bytes : VARINT_MAX_BYTES;
    for (size_t i = 0; i < limit; i++) {
        uint8_t byte = from->bytes[i];
        if (i == VARINT_MAX_BYTES - 1 && byte > 1)
            return false; /* beyond 64 bits */
        result |= (uint64_t)(byte & 0x7f) << (7 * i);
        if (byte < 0x80) {
            *from = span_behind(*from, i + 1);
            *value = result;
            return true;
        }
    }
    return false;
}

/* Take the first bytes of a span. Returns false where it has fewer. */
static bool take(struct span *from, size_t size_bytes, struct span *bytes)
{
    if (from->size_bytes < size_bytes)
        return false;
    *bytes = span_of(from->bytes, size_bytes);
    *from = span_behind(*from, size_bytes);
    return true;
}

static bool take_u8(struct span *from, unsigned *value)
{
    struct span bytes;
    if (!take(from, 1, &bytes))
        return false;
    *value = bytes.bytes[0];
    return true;
}

static bool take_u16(struct span *from, unsigned *value)
{
    struct span bytes;
    if (!take(from, 2, &bytes))
        return false;
    *value = get_u16(bytes.bytes);
    return true;
}

static bool take_u32(struct span *from, uint32_t *value)
{
    struct span bytes;
    if (!take(from, 4, &bytes))
        return false;
    *value = get_u32(bytes.bytes);
    return true;
}

/* Take a span that follows its size. */
static bool take_sized(struct span *from, struct span *bytes)
{
    uint64_t size_bytes;
    return change_get_varint(from, &size_bytes) && size_bytes <= from->size_bytes &&
           take(from, (size_t)size_bytes, bytes);
}

size_t change_put_header(uint8_t *to, enum change_op op, uint64_t page_id,
                         size_t payload_size_bytes)
{
    ASSERT(payload_size_bytes <= UINT32_MAX);
    uint8_t *at = to;
    *at++ = (uint8_t)op;
    at += change_put_varint(at, page_id_space(page_id));
    at += change_put_varint(at, page_id_number(page_id));
    at += change_put_varint(at, payload_size_bytes);
    return (size_t)(at - to);
}

firn_rc change_next(struct span *body, struct change *change)
{
    struct span rest = *body;
    struct span payload;
    unsigned op;
    uint64_t space;
    uint64_t page_no;
    if (rest.size_bytes == 0)
        return FIRN_E_NOT_FOUND;
    if (!take_u8(&rest, &op) || !change_get_varint(&rest, &space) || space > UINT32_MAX ||
        !change_get_varint(&rest, &page_no) || page_no > UINT32_MAX || !take_sized(&rest, &payload))
        return FIRN_E_CORRUPT;
    if (change_op_name((enum change_op)op) == NULL)
        return FIRN_E_CORRUPT;
    *change = (struct change){
        .op = (enum change_op)op,
        .page_id = page_id_of((uint32_t)space, (uint32_t)page_no),
        .payload = payload,
    };
    *body = rest;
    return FIRN_OK;
}

bool change_begins_page(enum change_op op)
{
    return op == CHANGE_INIT || op == CHANGE_INIT_INDEX || op == CHANGE_FREE;
}

size_t change_bounds_bytes(const struct slotted_bounds *bounds)
{
    size_t upper_size = bounds->upper_is_open ? 0 : bounds->upper.size_bytes;
    uint8_t varint[VARINT_MAX_BYTES];
    return change_put_varint(varint, bounds->index_id) + 1 + 1 + 4 + 4 +
           change_put_varint(varint, bounds->lower.size_bytes) + bounds->lower.size_bytes +
           change_put_varint(varint, upper_size) + upper_size;
}

/* Write a span behind its size. */
static size_t put_sized(uint8_t *to, struct span bytes)
{
    size_t size = change_put_varint(to, bytes.size_bytes);
    if (bytes.size_bytes > 0)
        memcpy(to + size, bytes.bytes, bytes.size_bytes);
    return size + bytes.size_bytes;
}

size_t change_put_bounds(uint8_t *to, const struct slotted_bounds *bounds)
{
    uint8_t *at = to;
    at += change_put_varint(at, bounds->index_id);
    *at++ = (uint8_t)bounds->level;
    *at++ = bounds->upper_is_open ? FLAG_UPPER_IS_OPEN : 0;
    put_u32(at, bounds->prev);
    put_u32(at + 4, bounds->next);
    at += 8;
    at += put_sized(at, bounds->lower);
    at += put_sized(at, bounds->upper_is_open ? span_of(NULL, 0) : bounds->upper);
    return (size_t)(at - to);
}

static bool take_bounds(struct span *from, struct slotted_bounds *bounds)
{
    unsigned level;
    unsigned flags;
    if (!change_get_varint(from, &bounds->index_id) || !take_u8(from, &level) ||
        !take_u8(from, &flags) || !take_u32(from, &bounds->prev) ||
        !take_u32(from, &bounds->next) || !take_sized(from, &bounds->lower) ||
        !take_sized(from, &bounds->upper))
        return false;
    bounds->level = (uint16_t)level;
    bounds->upper_is_open = flags & FLAG_UPPER_IS_OPEN;
    return flags <= FLAG_UPPER_IS_OPEN && !(bounds->upper_is_open && bounds->upper.size_bytes > 0);
}

/* Each of these repeats one operation; it returns false, the page untouched, if it makes no sense.
 * The payload is theirs up to its end. */
typedef bool change_function(uint8_t *page, uint32_t page_size_bytes, const struct change *change);

static bool apply_init(uint8_t *page, uint32_t page_size_bytes, const struct change *change)
{
    struct span payload = change->payload;
    unsigned type;
    if (!take_u16(&payload, &type) || payload.size_bytes != 0 || type >= PAGE_TYPE_COUNT ||
        type == PAGE_TYPE_INDEX)
        return false;
    page_init(page, page_size_bytes, change->page_id, (enum page_type)type);
    return true;
}

static bool apply_init_index(uint8_t *page, uint32_t page_size_bytes, const struct change *change)
{
    struct span payload = change->payload;
    struct slotted_bounds bounds;
    if (!take_bounds(&payload, &bounds) || payload.size_bytes != 0 ||
        !bounds_are_sound(page_size_bytes, &bounds))
        return false;
    slotted_init(page, page_size_bytes, change->page_id, &bounds);
    return true;
}

/* Index pages have changes of their own: bytes written there could break what those rely on. */
static bool apply_write(uint8_t *page, uint32_t page_size_bytes, const struct change *change)
{
    struct span payload = change->payload;
    unsigned offset;
    if (page_type(page) == PAGE_TYPE_INDEX || !take_u16(&payload, &offset) ||
        offset < PAGE_HEADER_BYTES || offset + payload.size_bytes > page_size_bytes)
        return false;
    memcpy(page + offset, payload.bytes, payload.size_bytes);
    return true;
}

static bool apply_insert(uint8_t *page, uint32_t page_size_bytes, const struct change *change)
{
    struct span value = change->payload;
    struct span suffix;
    unsigned slot;
    unsigned flags;
    if (!take_u16(&value, &slot) || !take_u8(&value, &flags) || !take_sized(&value, &suffix))
        return false;
    size_t key_size = get_u16(page + AT_PREFIX) + suffix.size_bytes;
    if (slot > slotted_count(page) ||
        !cell_is_allowed(page, page_size_bytes, key_size, value.size_bytes, flags) ||
        slotted_cost(page, key_size, value.size_bytes) >
            slotted_free_bytes(page, page_size_bytes) ||
        !suffix_belongs(page, page_size_bytes, slot, suffix))
        return false;
    slotted_insert_suffix(page, page_size_bytes, slot, suffix, value, flags);
    return true;
}

static bool apply_delete(uint8_t *page, uint32_t page_size_bytes, const struct change *change)
{
    struct span payload = change->payload;
    unsigned slot;
    if (!take_u16(&payload, &slot) || payload.size_bytes != 0 || slot >= slotted_count(page))
        return false;
    slotted_delete(page, page_size_bytes, slot);
    return true;
}

static bool apply_update(uint8_t *page, uint32_t page_size_bytes, const struct change *change)
{
    struct span value = change->payload;
    struct slotted_cell cell;
    unsigned slot;
    unsigned flags;
    if (!take_u16(&value, &slot) || !take_u8(&value, &flags) ||
        !slotted_cell(page, page_size_bytes, slot, &cell))
        return false;
    if (!cell_is_allowed(page, page_size_bytes, get_u16(page + AT_PREFIX) + cell.suffix.size_bytes,
                         value.size_bytes, flags) ||
        !slotted_can_update(page, page_size_bytes, slot, value.size_bytes))
        return false;
    slotted_update(page, page_size_bytes, slot, value, flags);
    return true;
}

static bool apply_patch(uint8_t *page, uint32_t page_size_bytes, const struct change *change)
{
    struct span bytes = change->payload;
    struct slotted_cell cell;
    unsigned slot;
    unsigned offset;
    if (!take_u16(&bytes, &slot) || !take_u16(&bytes, &offset) ||
        !slotted_cell(page, page_size_bytes, slot, &cell) ||
        offset + bytes.size_bytes > cell.value.size_bytes)
        return false;
    slotted_patch(page, page_size_bytes, slot, offset, bytes);
    return true;
}

static bool apply_rebuild(uint8_t *page, uint32_t page_size_bytes, const struct change *change)
{
    struct span payload = change->payload;
    struct slotted_bounds bounds;
    unsigned from;
    unsigned to;
    if (!take_u16(&payload, &from) || !take_u16(&payload, &to) || !take_bounds(&payload, &bounds) ||
        payload.size_bytes != 0 || !slotted_can_rebuild(page, page_size_bytes, from, to, &bounds))
        return false;
    slotted_rebuild(page, page_size_bytes, from, to, &bounds);
    return true;
}

static bool apply_append(uint8_t *page, uint32_t page_size_bytes, const struct change *change)
{
    return slotted_append_packed(page, page_size_bytes, change->payload) == FIRN_OK;
}

static bool apply_siblings(uint8_t *page, uint32_t page_size_bytes, const struct change *change)
{
    (void)page_size_bytes;
    struct span payload = change->payload;
    uint32_t prev;
    uint32_t next;
    if (!take_u32(&payload, &prev) || !take_u32(&payload, &next) || payload.size_bytes != 0)
        return false;
    slotted_set_prev(page, prev);
    slotted_set_next(page, next);
    return true;
}

static bool apply_free(uint8_t *page, uint32_t page_size_bytes, const struct change *change)
{
    if (change->payload.size_bytes != 0)
        return false;
    page_init(page, page_size_bytes, change->page_id, PAGE_TYPE_FREE);
    return true;
}

static bool apply_undo_append(uint8_t *page, uint32_t page_size_bytes, const struct change *change)
{
    return page_type(page) == PAGE_TYPE_UNDO &&
           undo_page_append(page, page_size_bytes, change->payload);
}

/* What there is, and what it may be done to. */
static const struct {
    const char *name;
    change_function *apply; /* NULL: not about the bytes of a page */
    bool needs_index;       /* the page must be an index page already */
} operations[CHANGE_LAST] = {
    [CHANGE_INIT] = {"init", apply_init, false},
    [CHANGE_INIT_INDEX] = {"init-index", apply_init_index, false},
    [CHANGE_WRITE] = {"write", apply_write, false},
    [CHANGE_INSERT] = {"insert", apply_insert, true},
    [CHANGE_DELETE] = {"delete", apply_delete, true},
    [CHANGE_UPDATE] = {"update", apply_update, true},
    [CHANGE_PATCH] = {"patch", apply_patch, true},
    [CHANGE_REBUILD] = {"rebuild", apply_rebuild, true},
    [CHANGE_APPEND] = {"append", apply_append, true},
    [CHANGE_SIBLINGS] = {"siblings", apply_siblings, true},
    [CHANGE_FREE] = {"free", apply_free, false},
    [CHANGE_UNDO_APPEND] = {"undo-append", apply_undo_append, false},
    [CHANGE_SPACE_CREATE] = {"space-create", NULL, false},
    [CHANGE_SPACE_DROP] = {"space-drop", NULL, false},
    [CHANGE_BINLOG] = {"binlog", NULL, false},
};

firn_rc change_apply(uint8_t *page, uint32_t page_size_bytes, const struct change *change)
{
    if ((unsigned)change->op >= CHANGE_LAST || operations[change->op].apply == NULL)
        return FIRN_E_CORRUPT;
    if (operations[change->op].needs_index && page_type(page) != PAGE_TYPE_INDEX)
        return FIRN_E_CORRUPT;
    return operations[change->op].apply(page, page_size_bytes, change) ? FIRN_OK : FIRN_E_CORRUPT;
}

const char *change_op_name(enum change_op op)
{
    return (unsigned)op < CHANGE_LAST ? operations[op].name : NULL;
}
