/*
 * table_fixture.h -- random tables, random rows for them, and an order of values that is written
 * apart from the codecs: what keys are held against.
 *
 * Values come from few, nasty ones (bounds, zeros, spaces, prefixes of each other), so that equal
 * and nearly equal ones meet often.
 */
#ifndef FIRN_TESTS_TABLE_FIXTURE_H
#define FIRN_TESTS_TABLE_FIXTURE_H

#include "base/check.h"
#include "base/rng.h"
#include "table/decimal.h"
#include "table/key.h"
#include "table/row.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    FIXTURE_COLUMNS_MAX = 24,
    FIXTURE_VALUE_BYTES = 96,
    FIXTURE_PAGE_BYTES = 16384,

    FIXTURE_TWO_BYTES = 3001,  /* weights of two bytes, PAD SPACE, case-insensitive */
    FIXTURE_TWO_LEVELS = 3002, /* case-insensitive, then by bytes; PAD SPACE */
    FIXTURE_NO_PAD = 3003,     /* case-insensitive, NO PAD */
    FIXTURE_WIDE = 3004,       /* two bytes a character, compared as bytes, PAD SPACE */
};

/* ---- Collations ---- */

static inline uint8_t fixture_upper(uint8_t byte)
{
    return byte >= 'a' && byte <= 'z' ? (uint8_t)(byte - 32) : byte;
}

static inline size_t fixture_weights(const struct collation *collation, struct span text,
                                     unsigned level, uint8_t *to, size_t capacity_bytes)
{
    size_t size = 0;
    for (size_t i = 0; i < text.size_bytes; i++) {
        if (collation->number == FIXTURE_TWO_BYTES && ++size <= capacity_bytes)
            to[size - 1] = text.bytes[i] >= 'x' ? 1 : 0; /* both bytes of a weight count */
        if (++size <= capacity_bytes)
            to[size - 1] = level == 0 ? fixture_upper(text.bytes[i]) : text.bytes[i];
    }
    return size;
}

static inline size_t fixture_wide_prefix(const struct collation *collation, struct span text,
                                         size_t characters)
{
    (void)collation;
    return text.size_bytes / 2 > characters ? 2 * characters : text.size_bytes;
}

static inline bool fixture_wide_is_text(const struct collation *collation, struct span bytes)
{
    (void)collation;
    return bytes.size_bytes % 2 == 0;
}

static inline void fixture_register(void)
{
    static const struct collation made[] = {
        {.number = FIXTURE_TWO_BYTES,
         .name = "test_two_bytes",
         .character_bytes_max = 1,
         .levels = 1,
         .space_bytes = 2,
         .space = {{0, ' '}},
         .weights = fixture_weights},
        {.number = FIXTURE_TWO_LEVELS,
         .name = "test_two_levels",
         .character_bytes_max = 1,
         .levels = 2,
         .space_bytes = 1,
         .space = {{' '}, {' '}},
         .weights = fixture_weights},
        {.number = FIXTURE_NO_PAD,
         .name = "test_no_pad",
         .character_bytes_max = 1,
         .levels = 1,
         .weights = fixture_weights},
        {.number = FIXTURE_WIDE,
         .name = "test_wide",
         .character_bytes_max = 2,
         .levels = 1,
         .space_bytes = 2,
         .space = {{0, ' '}},
         .blank_bytes = 2,
         .blank = {0, ' '},
         .prefix = fixture_wide_prefix,
         .is_text = fixture_wide_is_text},
    };
    for (size_t i = 0; i < ARRAY_COUNT(made); i++)
        ENSURE(collation_register(&made[i]) == FIRN_OK);
}

/* ---- Random tables ---- */

struct fixture {
    struct rng rng;
    struct table_spec spec;
    struct column_spec columns[FIXTURE_COLUMNS_MAX];
    char names[FIXTURE_COLUMNS_MAX][16];
    struct index_spec primary;
    struct index_spec indexes[3];
    struct part_spec parts[4][4];
    char index_names[3][16];
    struct table_schema *schema;
};

static inline bool fixture_one_in(struct fixture *fixture, unsigned many)
{
    return rng_below(&fixture->rng, many) == 0;
}

static inline uint32_t fixture_pick(struct fixture *fixture, uint32_t low, uint32_t high)
{
    return low + (uint32_t)rng_below(&fixture->rng, high - low + 1);
}

static inline void fixture_column(struct fixture *fixture, unsigned number)
{
    static const uint32_t collations[] = {
        COLLATION_BINARY,  COLLATION_UTF8MB4_BIN, COLLATION_LATIN1_BIN, COLLATION_ASCII_GENERAL_CI,
        FIXTURE_TWO_BYTES, FIXTURE_TWO_LEVELS,    FIXTURE_NO_PAD,       FIXTURE_WIDE};
    struct column_spec *spec = &fixture->columns[number];
    snprintf(fixture->names[number], sizeof fixture->names[number], "c%u", number);
    *spec = (struct column_spec){
        .name = fixture->names[number],
        .type = (enum column_type)fixture_pick(fixture, COLUMN_TINYINT, COLUMN_YEAR),
        .is_nullable = fixture_one_in(fixture, 3)};
    switch (spec->type) {
    case COLUMN_DECIMAL:
        spec->precision =
            (uint8_t)(fixture_one_in(fixture, 2) ? fixture_pick(fixture, 1, 12)
                                                 : fixture_pick(fixture, 1, DECIMAL_PRECISION_MAX));
        spec->scale = (uint8_t)fixture_pick(
            fixture, 0, spec->precision < DECIMAL_SCALE_MAX ? spec->precision : DECIMAL_SCALE_MAX);
        break;
    case COLUMN_CHAR:
    case COLUMN_VARCHAR:
    case COLUMN_TEXT:
        spec->collation = collations[rng_below(&fixture->rng, ARRAY_COUNT(collations))];
        spec->length = fixture_pick(fixture, spec->type == COLUMN_TEXT ? 1 : 0, 20);
        break;
    case COLUMN_BINARY:
    case COLUMN_VARBINARY:
    case COLUMN_BLOB:
        spec->length = fixture_pick(fixture, spec->type == COLUMN_BLOB ? 1 : 0, 20);
        break;
    case COLUMN_BIT:
        spec->length = fixture_pick(fixture, 1, 64);
        break;
    case COLUMN_TIME:
    case COLUMN_DATETIME:
    case COLUMN_TIMESTAMP:
        spec->second_digits = (uint8_t)fixture_pick(fixture, 0, 6);
        break;
    default:
        break;
    }
    if (spec->type <= COLUMN_DECIMAL)
        spec->is_unsigned = fixture_one_in(fixture, 3);
}

/* An index of one to four columns, each once. */
static inline struct index_spec fixture_index(struct fixture *fixture, struct part_spec *parts,
                                              bool is_primary)
{
    struct index_spec index = {.parts = parts};
    unsigned wanted = fixture_pick(fixture, 1, 4);
    for (unsigned tries = 0; tries < 40 && index.part_count < wanted; tries++) {
        unsigned c = (unsigned)rng_below(&fixture->rng, fixture->spec.column_count);
        struct column_spec *spec = &fixture->columns[c];
        bool is_there = false;
        for (unsigned p = 0; p < index.part_count; p++)
            is_there |= parts[p].column == spec->name;
        if (is_there)
            continue;
        bool has_prefix =
            spec->type >= COLUMN_BINARY && spec->type <= COLUMN_TEXT && spec->length > 0;
        bool needs_prefix = spec->type == COLUMN_BLOB || spec->type == COLUMN_TEXT;
        struct part_spec *part = &parts[index.part_count++];
        *part =
            (struct part_spec){.column = spec->name, .is_descending = fixture_one_in(fixture, 3)};
        if (needs_prefix || (has_prefix && fixture_one_in(fixture, 3)))
            part->prefix = fixture_pick(fixture, 1, spec->length);
        if (is_primary)
            spec->is_nullable = false;
    }
    index.is_unique = is_primary || fixture_one_in(fixture, 2);
    return index;
}

/* Make a table of so many columns, a primary key or none, and up to three secondary indexes. */
static inline void fixture_make(struct fixture *fixture, unsigned columns)
{
    struct table_spec *spec = &fixture->spec;
    *spec = (struct table_spec){.name = "t", .columns = fixture->columns, .column_count = columns};
    for (unsigned c = 0; c < columns; c++)
        fixture_column(fixture, c);
    if (!fixture_one_in(fixture, 4)) {
        fixture->primary = fixture_index(fixture, fixture->parts[3], true);
        spec->primary = &fixture->primary;
    } else {
        spec->row_id_bytes = fixture_one_in(fixture, 2) ? 6 : 8;
    }
    spec->indexes = fixture->indexes;
    spec->index_count = fixture_pick(fixture, 0, 3);
    for (unsigned i = 0; i < spec->index_count; i++) {
        snprintf(fixture->index_names[i], sizeof fixture->index_names[i], "i%u", i);
        fixture->indexes[i] = fixture_index(fixture, fixture->parts[i], false);
        fixture->indexes[i].name = fixture->index_names[i];
    }
    fixture->schema = NULL;
    firn_rc rc = schema_create(spec, FIXTURE_PAGE_BYTES, &fixture->schema);
    if (rc != FIRN_OK)
        fprintf(stderr, "%s\n", firn_error_text());
    ENSURE(rc == FIRN_OK);
}

/* ---- Random values ---- */

static inline uint64_t fixture_number(struct fixture *fixture, unsigned bits)
{
    uint64_t most = UINT64_MAX >> (64 - bits);
    switch (rng_below(&fixture->rng, 6)) {
    case 0:
        return 0;
    case 1:
        return most;
    case 2:
        return (most / 2 + rng_below(&fixture->rng, 3)) & most;
    case 3:
        return (255 + rng_below(&fixture->rng, 3)) & most;
    default:
        return rng_next(&fixture->rng) & most;
    }
}

static inline double fixture_floating(struct fixture *fixture, const struct column_spec *spec)
{
    static const double nasty[] = {0.0, -0.0, 1.0, -1.0, 0.1, 1e-300, -1e-300, 3e38, -3e38, 1e30};
    double number = nasty[rng_below(&fixture->rng, ARRAY_COUNT(nasty))];
    if (fixture_one_in(fixture, 3))
        number = (rng_unit(&fixture->rng) - 0.5) * 1e6;
    return spec->is_unsigned && number < 0 ? -number : number;
}

static inline size_t fixture_digits(struct fixture *fixture, const struct column_spec *spec,
                                    char *text)
{
    unsigned whole = (unsigned)rng_below(&fixture->rng, spec->precision - spec->scale + 1U);
    unsigned part = (unsigned)rng_below(&fixture->rng, spec->scale + 1U);
    static const char digits[] = "0000199";
    size_t size = 0;
    if (!spec->is_unsigned && fixture_one_in(fixture, 2))
        text[size++] = '-';
    if (whole == 0)
        text[size++] = '0';
    for (unsigned i = 0; i < whole; i++)
        text[size++] = digits[rng_below(&fixture->rng, sizeof digits - 1)];
    text[size++] = '.';
    for (unsigned i = 0; i < part; i++)
        text[size++] = digits[rng_below(&fixture->rng, sizeof digits - 1)];
    return size;
}

/* Bytes, or a text of the collation, of at most so many characters. */
static inline size_t fixture_text(struct fixture *fixture, uint32_t collation, uint32_t length,
                                  uint8_t *to)
{
    static const char *const utf8[] = {
        "a", "A", " ", "\t", "!", "b", "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
    static const uint8_t bytes[] = {0, 1, 2, 3, ' ', ' ', ' ', 'a', 'A', 'x', 0x7f, 0xff};
    uint32_t count = (uint32_t)rng_below(&fixture->rng, length + 1U);
    size_t size = 0;
    if (fixture_one_in(fixture, 2) && count > 3)
        count = 3;
    for (uint32_t i = 0; i < count; i++) {
        if (collation == COLLATION_UTF8MB4_BIN) {
            const char *character = utf8[rng_below(&fixture->rng, ARRAY_COUNT(utf8))];
            memcpy(to + size, character, strlen(character));
            size += strlen(character);
        } else if (collation == FIXTURE_WIDE) {
            to[size++] = fixture_one_in(fixture, 4) ? ' ' : 0;
            to[size++] = bytes[rng_below(&fixture->rng, ARRAY_COUNT(bytes))];
        } else {
            unsigned most = collation == COLLATION_ASCII_GENERAL_CI ? ARRAY_COUNT(bytes) - 1
                                                                    : ARRAY_COUNT(bytes);
            to[size++] = bytes[rng_below(&fixture->rng, most)];
        }
    }
    return size;
}

static inline uint64_t fixture_moment(struct fixture *fixture, const struct column_spec *spec)
{
    static const uint32_t units[] = {1000000, 100000, 10000, 1000, 100, 10, 1};
    uint32_t unit = units[spec->second_digits];
    uint64_t parts = rng_below(&fixture->rng, 1000000) / unit * unit;
    uint64_t date = value_date(fixture_pick(fixture, 0, 9999), fixture_pick(fixture, 0, 12),
                               fixture_pick(fixture, 0, 31));
    switch (spec->type) {
    case COLUMN_DATE:
        return date;
    case COLUMN_YEAR:
        return fixture_one_in(fixture, 5) ? 0 : fixture_pick(fixture, 1901, 2155);
    case COLUMN_TIMESTAMP:
        return fixture_number(fixture, 32) * 1000000 + parts;
    case COLUMN_TIME:
        return rng_below(&fixture->rng, 3020400) * 1000000 + parts;
    default:
        return value_datetime(date, fixture_pick(fixture, 0, 23), fixture_pick(fixture, 0, 59),
                              fixture_pick(fixture, 0, 59), (unsigned)parts);
    }
}

/* Make a value that is checked; its bytes come to lie in memory of FIXTURE_VALUE_BYTES. */
static inline void fixture_value(struct fixture *fixture, const struct column *column,
                                 uint8_t *memory, struct value *value)
{
    const struct column_spec *spec = &column->spec;
    char text[FIXTURE_VALUE_BYTES];
    size_t size;
    if (spec->is_nullable && fixture_one_in(fixture, 4)) {
        *value = value_null();
        return;
    }
    switch (spec->type) {
    case COLUMN_FLOAT:
    case COLUMN_DOUBLE:
        *value = value_double(fixture_floating(fixture, spec));
        break;
    case COLUMN_DECIMAL:
        size = fixture_digits(fixture, spec, text);
        ENSURE(decimal_parse(span_of(text, size), spec->precision, spec->scale, memory) ==
               DECIMAL_READ);
        *value = value_bytes(span_of(memory, decimal_bytes(spec->precision, spec->scale)));
        break;
    case COLUMN_TIME: {
        int64_t moment = (int64_t)fixture_moment(fixture, spec);
        *value = value_int(fixture_one_in(fixture, 2) ? -moment : moment);
        break;
    }
    case COLUMN_DATE:
    case COLUMN_DATETIME:
    case COLUMN_TIMESTAMP:
    case COLUMN_YEAR:
        *value = value_uint(fixture_moment(fixture, spec));
        break;
    case COLUMN_ROW_ID:
        *value = value_uint(fixture_number(fixture, 8U * column->codec.width));
        break;
    case COLUMN_BIT:
        *value = value_uint(fixture_number(fixture, spec->length));
        break;
    default:
        if (column_is_integer(spec)) {
            uint64_t number = fixture_number(fixture, 8U * column->codec.width);
            unsigned shift = 64U - 8U * column->codec.width;
            *value = spec->is_unsigned ? value_uint(number)
                                       : value_int((int64_t)(number << shift) >> shift);
            break;
        }
        size = fixture_text(fixture, spec->collation, spec->length, memory);
        if ((spec->type == COLUMN_BLOB || spec->type == COLUMN_TEXT) && size > spec->length)
            size = 0; /* their length is in bytes */
        *value = value_bytes(span_of(memory, size));
    }
    firn_rc rc = value_check(column, value);
    if (rc != FIRN_OK)
        fprintf(stderr, "%s\n", firn_error_text());
    ENSURE(rc == FIRN_OK);
}

/* A row: values by column, and their bytes. */
struct fixture_row {
    struct value values[FIXTURE_COLUMNS_MAX + 1];
    uint8_t memory[FIXTURE_COLUMNS_MAX + 1][FIXTURE_VALUE_BYTES];
};

static inline void fixture_fill(struct fixture *fixture, struct fixture_row *row)
{
    for (unsigned c = 0; c < fixture->schema->live_count; c++)
        fixture_value(fixture, &fixture->schema->columns[c], row->memory[c], &row->values[c]);
}

/* ---- The order of values ---- */

static inline int fixture_sign(int64_t number)
{
    return (number > 0) - (number < 0);
}

/* As decimal texts: sign, size of the whole part, digits. */
static inline int fixture_compare_decimals(const struct column_spec *spec, struct span left,
                                           struct span right)
{
    char a[DECIMAL_TEXT_BYTES + 1];
    char b[DECIMAL_TEXT_BYTES + 1];
    a[decimal_print(left.bytes, spec->precision, spec->scale, a)] = '\0';
    b[decimal_print(right.bytes, spec->precision, spec->scale, b)] = '\0';
    bool is_negative = a[0] == '-';
    if (is_negative != (b[0] == '-'))
        return is_negative ? -1 : 1;
    int order = fixture_sign((int64_t)strlen(a) - (int64_t)strlen(b));
    if (order == 0)
        order = fixture_sign(strcmp(a, b));
    return is_negative ? -order : order;
}

/* The n-th weight of a text on a level, past its end that of a space or, with NO PAD, nothing. */
static inline int fixture_weight(uint32_t collation, struct span text, size_t n, unsigned level)
{
    bool pads = collation != COLLATION_BINARY && collation != FIXTURE_NO_PAD;
    bool folds = collation == COLLATION_ASCII_GENERAL_CI || collation > 3000;
    if (collation == FIXTURE_WIDE)
        return 2 * n < text.size_bytes ? text.bytes[2 * n] << 8 | text.bytes[2 * n + 1] : ' ';
    if (n >= text.size_bytes)
        return pads ? ' ' : -1;
    uint8_t byte = text.bytes[n];
    if (collation == FIXTURE_TWO_BYTES && byte >= 'x')
        return 256 + fixture_upper(byte);
    return folds && level == 0 ? fixture_upper(byte) : byte;
}

static inline int fixture_compare_texts(uint32_t collation, struct span left, struct span right)
{
    size_t most = left.size_bytes > right.size_bytes ? left.size_bytes : right.size_bytes;
    for (unsigned level = 0; level < (collation == FIXTURE_TWO_LEVELS ? 2 : 1); level++)
        for (size_t n = 0; n < most; n++) {
            int a = fixture_weight(collation, left, n, level);
            int b = fixture_weight(collation, right, n, level);
            if (a != b)
                return a < b ? -1 : 1;
        }
    return 0;
}

/* So many characters of a text, or bytes. */
static inline struct span fixture_prefix(uint32_t collation, struct span text, uint32_t count)
{
    size_t size = 0;
    if (count == 0)
        return text;
    if (collation == FIXTURE_WIDE)
        return span_of(text.bytes, fixture_wide_prefix(NULL, text, count));
    while (count > 0 && size < text.size_bytes) {
        size++;
        while (collation == COLLATION_UTF8MB4_BIN && size < text.size_bytes &&
               (text.bytes[size] & 0xc0) == 0x80)
            size++;
        count--;
    }
    return span_of(text.bytes, size);
}

/* Short binaries are filled with zeros. */
static inline struct span fixture_fill_up(struct span bytes, uint32_t length, uint8_t *room)
{
    memset(room, 0, length);
    memcpy(room, bytes.bytes, bytes.size_bytes);
    return span_of(room, length);
}

/* Compare a part of two rows as SQL does; NULL first; descending ones the other way round. */
static inline int fixture_compare(const struct table_schema *schema, const struct key_part *part,
                                  const struct value *left, const struct value *right)
{
    const struct column_spec *spec = &schema->columns[part->column].spec;
    uint32_t collation = spec->collation != 0 ? spec->collation : COLLATION_BINARY;
    uint8_t room[2][256];
    int order;
    if (left->kind == VALUE_NULL || right->kind == VALUE_NULL) {
        order = (left->kind != VALUE_NULL) - (right->kind != VALUE_NULL);
    } else if (left->kind == VALUE_INT) {
        order = (left->i > right->i) - (left->i < right->i);
    } else if (left->kind == VALUE_UINT) {
        order = (left->u > right->u) - (left->u < right->u);
    } else if (spec->type == COLUMN_FLOAT) {
        order = ((float)left->d > (float)right->d) - ((float)left->d < (float)right->d);
    } else if (left->kind == VALUE_DOUBLE) {
        order = (left->d > right->d) - (left->d < right->d);
    } else if (spec->type == COLUMN_DECIMAL) {
        order = fixture_compare_decimals(spec, left->bytes, right->bytes);
    } else {
        struct span a = left->bytes;
        struct span b = right->bytes;
        if (spec->type == COLUMN_BINARY) {
            a = fixture_fill_up(a, spec->length, room[0]);
            b = fixture_fill_up(b, spec->length, room[1]);
        }
        order = fixture_compare_texts(collation, fixture_prefix(collation, a, part->prefix),
                                      fixture_prefix(collation, b, part->prefix));
    }
    return part->is_descending ? -order : order;
}

#endif
