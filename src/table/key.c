/*
 * Keys. README.md argues why the bytes order as the values do.
 *
 * Writing goes on in words of 8 bytes as long as the end of the room has not been passed; what lies
 * between that end and the slack's is garbage, and a part that ends there is refused.
 */
#include "table/key.h"
#include "table/codec_internal.h"

#include "page/slotted.h"

enum {
    MARK_NULL = 0,
    MARK_VALUE = 1,

    /* Behind a zero byte of bytes that compare as they are. */
    PLAIN_END = 0x01,
    PLAIN_ZERO = 0xff,

    /* Behind a unit that equals the weight of a space: how what follows the spaces compares with
       more of them. */
    SPACE_BELOW = 1,
    SPACE_END = 2,
    SPACE_ABOVE = 3,

    PARTS_MAX = 2 * SCHEMA_PARTS_MAX,
    WEIGHTS_MAX = PAGE_SIZE_MAX / 16 * 3, /* a longer key than slotted_key_max fits no tree */
};

#define EACH_BYTE(byte) (UINT64_C(0x0101010101010101) * (byte))

/* Not 0 if a byte of the word is `byte`; the lowest bit set then is the top one of the first. */
static inline uint64_t find_byte(uint64_t word, uint8_t byte)
{
    uint64_t zeros = word ^ EACH_BYTE(byte);
    return (zeros - EACH_BYTE(1)) & ~zeros & EACH_BYTE(0x80);
}

/* Copy bytes up to the first that equals `stop`, which is not copied.
   Moves both places on; false if the room's end has been passed. */
static inline bool copy_until(const uint8_t **from, const uint8_t *from_end, uint8_t stop,
                              uint8_t **to, const uint8_t *end)
{
    while (*from < from_end) {
        size_t left = (size_t)(from_end - *from);
        unsigned count = left < 8 ? (unsigned)left : 8;
        uint64_t word = codec_load_le(*from, count);
        uint64_t found = find_byte(word, stop);
        if (count < 8)
            found &= (UINT64_C(1) << (8 * count)) - 1;
        if (*to > end)
            return false;
        put_u64(*to, word);
        if (found != 0) {
            unsigned before = (unsigned)__builtin_ctzll(found) / 8;
            *from += before;
            *to += before;
            return true;
        }
        *from += count;
        *to += count;
    }
    return *to <= end;
}

/* Bytes that compare as they are, the shorter first: the end is below any byte. */
static uint8_t *put_plain(struct span bytes, uint8_t *to, const uint8_t *end)
{
    const uint8_t *from = bytes.bytes;
    const uint8_t *from_end = from + bytes.size_bytes;
    while (copy_until(&from, from_end, 0, &to, end)) {
        *to++ = 0;
        if (from == from_end) {
            *to++ = PLAIN_END;
            return to;
        }
        *to++ = PLAIN_ZERO;
        from++;
    }
    return NULL;
}

/* Weights of one byte, which compare as if spaces followed without end. */
static uint8_t *put_padded_bytes(struct span weights, uint8_t space, uint8_t *to,
                                 const uint8_t *end)
{
    const uint8_t *from = weights.bytes;
    const uint8_t *from_end = from + weights.size_bytes;
    while (from_end > from && from_end[-1] == space)
        from_end--;
    while (copy_until(&from, from_end, space, &to, end)) {
        if (from == from_end) {
            *to++ = space;
            *to++ = SPACE_END;
            return to;
        }
        const uint8_t *next = from;
        while (*next == space)
            next++;
        for (; from < next && to <= end; from++) {
            *to++ = space;
            *to++ = *next < space ? SPACE_BELOW : SPACE_ABOVE;
        }
    }
    return NULL;
}

/* The same for weights in units of any size. */
static uint8_t *put_padded_units(struct span weights, const uint8_t *space, size_t unit,
                                 uint8_t *to, const uint8_t *end)
{
    const uint8_t *from = weights.bytes;
    const uint8_t *from_end = from + weights.size_bytes;
    ENSURE(weights.size_bytes % unit == 0);
    while (from_end > from && memcmp(from_end - unit, space, unit) == 0)
        from_end -= unit;
    for (; from < from_end && to <= end; from += unit) {
        memcpy(to, from, unit);
        to += unit;
        if (memcmp(from, space, unit) != 0)
            continue;
        const uint8_t *next = from + unit;
        while (memcmp(next, space, unit) == 0)
            next += unit;
        *to++ = memcmp(next, space, unit) < 0 ? SPACE_BELOW : SPACE_ABOVE;
    }
    if (from < from_end || to > end)
        return NULL;
    memcpy(to, space, unit);
    to += unit;
    *to++ = SPACE_END;
    return to;
}

static uint8_t *put_level(const struct collation *collation, unsigned level, struct span weights,
                          uint8_t *to, const uint8_t *end)
{
    if (collation->space_bytes == 0)
        return put_plain(weights, to, end);
    if (collation->space_bytes == 1)
        return put_padded_bytes(weights, collation->space[level][0], to, end);
    return put_padded_units(weights, collation->space[level], collation->space_bytes, to, end);
}

/* Not inlined: only collations with weights are to pay for the room on the stack. */
static __attribute__((noinline)) uint8_t *put_weights(const struct collation *collation,
                                                      struct span text, uint8_t *to,
                                                      const uint8_t *end)
{
    uint8_t weights[WEIGHTS_MAX];
    for (unsigned level = 0; level < collation->levels && to != NULL; level++) {
        size_t size = collation->weights(collation, text, level, weights, sizeof weights);
        if (size > sizeof weights)
            return NULL;
        to = put_level(collation, level, span_of(weights, size), to, end);
    }
    return to;
}

static uint8_t *put_variable(const struct key_part *part, struct span bytes, uint8_t *to,
                             const uint8_t *end)
{
    const struct collation *collation = part->collation;
    if (bytes.size_bytes == 0)
        bytes = span_of("", 0); /* NULL, which an empty span may be, has no end */
    if (part->prefix > 0 && bytes.size_bytes > part->prefix)
        bytes.size_bytes = collation->prefix != NULL
                               ? collation->prefix(collation, bytes, part->prefix)
                               : part->prefix;
    if (collation->weights != NULL)
        return put_weights(collation, bytes, to, end);
    return put_level(collation, 0, bytes, to, end);
}

/* The bits of a floating number, changed so that they order as numbers: all of a negative one are
   flipped, of others the sign. Both zeros are one; what is no number is one, and last. */
static inline uint64_t order_floating(uint64_t bits, double number, unsigned width)
{
    uint64_t sign = UINT64_C(1) << (8 * width - 1);
    if (number == 0)
        return sign;
    if (number != number)
        return UINT64_MAX;
    return bits & sign ? ~bits : bits | sign;
}

static inline uint64_t ordered_number(const struct column_codec *codec, const struct value *value)
{
    uint64_t number = codec_number_of(codec, value);
    if (codec->kind == CODEC_FLOAT || codec->kind == CODEC_DOUBLE)
        return order_floating(number, value->d, codec->width);
    return codec_flip_sign(codec, number);
}

static inline uint8_t *put_value(const struct key_part *part, const struct value *value,
                                 uint8_t *to, const uint8_t *end)
{
    const struct column_codec *codec = &part->codec;
    if (codec->kind == CODEC_VARIABLE)
        return put_variable(part, value->bytes, to, end);
    if (codec->width > end - to)
        return NULL;
    if (codec->kind == CODEC_FIXED) {
        struct span bytes = value->bytes;
        if (bytes.size_bytes > codec->width)
            bytes.size_bytes = codec->width;
        codec_store_fixed(to, bytes, codec->width);
    } else {
        codec_store_be(to, ordered_number(codec, value), codec->width);
    }
    return to + codec->width;
}

static void complement(uint8_t *from, const uint8_t *to)
{
    for (; from < to; from++)
        *from = (uint8_t) ~*from;
}

/* @return where the part ends; NULL if that is behind the room's end */
static inline uint8_t *put_part(const struct key_part *part, const struct value *value, uint8_t *to,
                                const uint8_t *end)
{
    uint8_t *begin = to;
    bool is_null = value->kind == VALUE_NULL;
    ASSERT(part->is_nullable || !is_null);
    if (part->is_nullable) {
        if (to >= end)
            return NULL;
        *to++ = is_null ? MARK_NULL : MARK_VALUE;
    }
    if (!is_null)
        to = put_value(part, value, to, end);
    if (part->is_descending && to != NULL)
        complement(begin, to);
    return to != NULL && to <= end ? to : NULL;
}

firn_rc key_encode(const struct table_schema *schema, const struct table_index *index,
                   const struct value *values, unsigned part_count, uint8_t *to,
                   struct key_result *result)
{
    const uint8_t *end = to + schema->key_bytes_max;
    uint8_t *at = to;
    struct key_result made = {0};
    ASSERT(part_count <= index->part_count);
    for (unsigned p = 0; p < part_count; p++) {
        const struct value *value = &values[index->parts[p].column];
        at = put_part(&index->parts[p], value, at, end);
        if (at == NULL)
            return rc_raise(FIRN_E_INVALID,
                            "table %s, index %s: the key would have more than %u bytes in the "
                            "tree; index shorter prefixes, or use larger pages",
                            schema->name, index->name, schema->key_bytes_max);
        if (p < index->declared_count) {
            made.declared_bytes = (size_t)(at - to);
            made.has_null |= value->kind == VALUE_NULL;
        }
    }
    made.size_bytes = (size_t)(at - to);
    *result = made;
    return FIRN_OK;
}

/* ---- Reading ---- */

/* The end of plain bytes, behind their mark; NULL if there is none. */
static const uint8_t *skip_plain(const uint8_t *from, const uint8_t *end, uint8_t flip)
{
    while (from + 1 < end) {
        if (*from++ != flip)
            continue;
        uint8_t mark = *from++ ^ flip;
        if (mark == PLAIN_END)
            return from;
        if (mark != PLAIN_ZERO)
            return NULL;
    }
    return NULL;
}

static const uint8_t *skip_padded(const struct collation *collation, unsigned level,
                                  const uint8_t *from, const uint8_t *end, uint8_t flip)
{
    size_t unit = collation->space_bytes;
    uint8_t space[COLLATION_SPACE_BYTES_MAX];
    for (size_t i = 0; i < unit; i++)
        space[i] = collation->space[level][i] ^ flip;
    while ((size_t)(end - from) > unit) {
        bool is_space = memcmp(from, space, unit) == 0;
        from += unit;
        if (!is_space)
            continue;
        uint8_t mark = *from++ ^ flip;
        if (mark == SPACE_END)
            return from;
        if (mark != SPACE_BELOW && mark != SPACE_ABOVE)
            return NULL;
    }
    return NULL;
}

static const uint8_t *skip_variable(const struct key_part *part, const uint8_t *from,
                                    const uint8_t *end, uint8_t flip)
{
    const struct collation *collation = part->collation;
    for (unsigned level = 0; level < collation->levels && from != NULL; level++)
        from = collation->space_bytes == 0 ? skip_plain(from, end, flip)
                                           : skip_padded(collation, level, from, end, flip);
    return from;
}

/* A part in a key: from behind the mark of NULL to its end. */
struct part_place {
    const uint8_t *from;
    const uint8_t *end;
    bool is_null;
};

static bool find_part(const struct key_part *part, const uint8_t *from, const uint8_t *end,
                      struct part_place *place)
{
    uint8_t flip = part->is_descending ? 0xff : 0;
    *place = (struct part_place){from, from, false};
    if (part->is_nullable) {
        if (from == end || (*from ^ flip) > MARK_VALUE)
            return false;
        place->is_null = (*from++ ^ flip) == MARK_NULL;
        place->from = place->end = from;
        if (place->is_null)
            return true;
    }
    if (part->codec.kind == CODEC_VARIABLE)
        place->end = skip_variable(part, from, end, flip);
    else
        place->end = part->codec.width <= end - from ? from + part->codec.width : NULL;
    return place->end != NULL;
}

static firn_rc refuse_key(const struct table_schema *schema, const struct table_index *index,
                          struct span key)
{
    return rc_raise(FIRN_E_CORRUPT,
                    "table %s, index %s: a key of %zu bytes is damaged; run firn check",
                    schema->name, index->name, key.size_bytes);
}

/* All parts of a whole key. */
static firn_rc find_parts(const struct table_schema *schema, const struct table_index *index,
                          struct span key, struct part_place places[PARTS_MAX])
{
    const uint8_t *at = key.bytes;
    const uint8_t *end = at + key.size_bytes;
    for (unsigned p = 0; p < index->part_count; p++) {
        if (!find_part(&index->parts[p], at, end, &places[p]))
            return refuse_key(schema, index, key);
        at = places[p].end;
    }
    return at == end ? FIRN_OK : refuse_key(schema, index, key);
}

firn_rc key_check(const struct table_schema *schema, const struct table_index *index,
                  struct span key)
{
    struct part_place places[PARTS_MAX];
    return find_parts(schema, index, key, places);
}

firn_rc key_primary_of(const struct table_schema *schema, const struct table_index *index,
                       struct span key, uint8_t *to, size_t *size_bytes)
{
    struct part_place places[PARTS_MAX];
    const struct table_index *primary = &schema->indexes[0];
    size_t size = 0;
    FIRN_TRY(find_parts(schema, index, key, places));
    for (unsigned p = 0; p < primary->part_count; p++) {
        unsigned here = index->primary_parts[p];
        size_t part_size = (size_t)(places[here].end - places[here].from);
        if (part_size > schema->key_bytes_max - size)
            return refuse_key(schema, index, key);
        memcpy(to + size, places[here].from, part_size);
        if (index->parts[here].is_descending != primary->parts[p].is_descending)
            complement(to + size, to + size + part_size);
        size += part_size;
    }
    *size_bytes = size;
    return FIRN_OK;
}

/* Bytes as they were before put_plain, without the marks. @return how many */
static size_t get_plain(const struct part_place *place, uint8_t flip, uint8_t *room)
{
    const uint8_t *end = place->end - 2;
    size_t size = 0;
    for (const uint8_t *from = place->from; from < end; from++) {
        room[size] = *from ^ flip;
        if (room[size++] == 0)
            from++; /* its mark */
    }
    return size;
}

/* @return how many bytes of the room were used */
static size_t get_part(const struct key_part *part, const struct part_place *place, uint8_t *room,
                       struct value *value)
{
    size_t size = (size_t)(place->end - place->from);
    if (place->is_null) {
        *value = value_null();
        return 0;
    }
    if (part->codec.kind == CODEC_VARIABLE) {
        size = get_plain(place, part->is_descending ? 0xff : 0, room);
        *value = value_bytes(span_of(room, size));
        return size;
    }
    if (part->codec.kind != CODEC_FIXED) {
        codec_load_key(&part->codec, place->from, part->is_descending, value);
        return 0;
    }
    if (!part->is_descending) {
        *value = value_bytes(span_of(place->from, size));
        return 0;
    }
    memcpy(room, place->from, size);
    complement(room, room + size);
    *value = value_bytes(span_of(room, size));
    return size;
}

firn_rc key_read(const struct table_schema *schema, const struct table_index *index,
                 struct span key, uint64_t wanted, uint8_t *room, struct value *values)
{
    const uint8_t *at = key.bytes;
    const uint8_t *end = at + key.size_bytes;
    for (unsigned p = 0; p < index->part_count && wanted >> p != 0; p++) {
        struct part_place place;
        const struct key_part *part = &index->parts[p];
        if (!find_part(part, at, end, &place))
            return refuse_key(schema, index, key);
        at = place.end;
        if ((wanted >> p & 1) == 0)
            continue;
        ENSURE(part->is_reversible);
        room += get_part(part, &place, room, &values[part->column]);
    }
    return FIRN_OK;
}

size_t key_after(uint8_t *key, size_t size_bytes)
{
    while (size_bytes > 0 && key[size_bytes - 1] == UINT8_MAX)
        size_bytes--;
    if (size_bytes > 0)
        key[size_bytes - 1]++;
    return size_bytes;
}
