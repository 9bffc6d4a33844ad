/*
 * codec.c -- what it costs to write and read rows and keys.
 *
 * Usage: codec [COUNT]. Prints nanoseconds for each operation, the least of a hundred short rounds;
 * rows are hot in the cache, values vary. Short, so that some rounds meet no other work on a busy
 * machine.
 */
#include "base/check.h"
#include "base/clock.h"
#include "base/rng.h"
#include "table/key.h"
#include "table/row.h"

#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 256, ROUNDS = 100, ROOM = 4096, COLUMNS = 10 };

/* Ten columns as TPC-C's order_line has, and an index of three of them. */
static const struct column_spec columns[COLUMNS] = {
    {.name = "o_id", .type = COLUMN_INT},
    {.name = "d_id", .type = COLUMN_TINYINT},
    {.name = "w_id", .type = COLUMN_SMALLINT},
    {.name = "number", .type = COLUMN_TINYINT},
    {.name = "i_id", .type = COLUMN_INT, .is_nullable = true},
    {.name = "supply_w_id", .type = COLUMN_SMALLINT, .is_nullable = true},
    {.name = "delivery", .type = COLUMN_DATETIME, .is_nullable = true},
    {.name = "quantity", .type = COLUMN_TINYINT, .is_nullable = true},
    {.name = "amount", .type = COLUMN_DECIMAL, .precision = 6, .scale = 2, .is_nullable = true},
    {.name = "info",
     .type = COLUMN_CHAR,
     .length = 24,
     .collation = COLLATION_UTF8MB4_BIN,
     .is_nullable = true},
};
static const struct part_spec primary_parts[] = {
    {.column = "w_id"}, {.column = "d_id"}, {.column = "o_id"}, {.column = "number"}};
static const struct part_spec number_parts[] = {
    {.column = "supply_w_id"}, {.column = "i_id"}, {.column = "delivery"}};
static const struct part_spec text_parts[] = {{.column = "info"}};
static const struct index_spec primary = {.parts = primary_parts, .part_count = 4};
static const struct index_spec indexes[] = {
    {.name = "numbers", .parts = number_parts, .part_count = 3},
    {.name = "text", .parts = text_parts, .part_count = 1}};

struct world {
    struct table_schema *schema;
    struct value values[ROWS][COLUMNS];
    uint8_t decimals[ROWS][4];
    uint8_t rows[ROWS][256];
    size_t row_bytes[ROWS];
    uint8_t keys[ROWS][256];
    size_t key_bytes[ROWS];
    uint8_t room[ROOM];
    uint64_t sum; /* of what was read, so that reading cannot be left out */
    size_t bytes; /* of what was written */
};

static void fill_values(struct world *world, struct rng *rng, unsigned r)
{
    struct value *values = world->values[r];
    uint8_t *decimal = world->decimals[r];
    decimal[0] = 0x80;
    decimal[1] = (uint8_t)rng_below(rng, 256);
    decimal[2] = (uint8_t)rng_below(rng, 100);
    values[0] = value_int((int64_t)rng_below(rng, 100000));
    values[1] = value_int((int64_t)rng_below(rng, 10));
    values[2] = value_int((int64_t)rng_below(rng, 1000));
    values[3] = value_int((int64_t)rng_below(rng, 15));
    values[4] = value_int((int64_t)rng_below(rng, 100000));
    values[5] = value_int((int64_t)rng_below(rng, 1000));
    values[6] = value_uint(
        value_datetime(value_date(2024, 1 + (unsigned)rng_below(rng, 12), 3), 12, 30, 1, 0));
    values[7] = value_int(5);
    values[8] = value_bytes(span_of(decimal, 3));
    values[9] = value_bytes(span_of("abcdefghijklmnopqrstuvwx", 20 + rng_below(rng, 5)));
    for (unsigned c = 0; c < COLUMNS; c++)
        ENSURE(value_check(&world->schema->columns[c], &values[c]) == FIRN_OK);
}

static void encode_key(struct world *world, unsigned r, unsigned index, unsigned parts)
{
    struct key_result result;
    ENSURE(key_encode(world->schema, &world->schema->indexes[index], world->values[r], parts,
                      world->room, &result) == FIRN_OK);
    world->bytes = result.size_bytes;
    world->sum += world->room[0];
}

static void encode_primary(struct world *world, unsigned r)
{
    encode_key(world, r, 0, 4);
}

static void encode_numbers(struct world *world, unsigned r)
{
    encode_key(world, r, 1, 3);
}

static void encode_text(struct world *world, unsigned r)
{
    encode_key(world, r, 2, 1);
}

static void encode_row(struct world *world, unsigned r)
{
    size_t size = 0;
    ENSURE(row_size(world->schema, world->values[r], &size) == FIRN_OK);
    world->bytes = row_encode(world->schema, world->values[r], world->room);
    world->sum += world->room[4];
}

static void check_values(struct world *world, unsigned r)
{
    for (unsigned c = 0; c < COLUMNS; c++)
        ENSURE(value_check(&world->schema->columns[c], &world->values[r][c]) == FIRN_OK);
}

static void open_row(const struct world *world, unsigned r, struct row_view *view)
{
    ENSURE(row_open(world->schema, span_of(world->keys[r], world->key_bytes[r]),
                    span_of(world->rows[r], world->row_bytes[r]), view) == FIRN_OK);
}

static void read_nothing(struct world *world, unsigned r)
{
    struct row_view view;
    open_row(world, r, &view);
    world->sum += view.row.size_bytes;
}

/* Each column by itself, to be divided by their number. */
static void read_columns(struct world *world, unsigned r)
{
    struct row_view view;
    open_row(world, r, &view);
    for (unsigned c = 0; c < COLUMNS; c++) {
        struct value value;
        ENSURE(row_read(&view, c, &value) == FIRN_OK);
        world->sum += value.u;
    }
}

static void read_set(struct world *world, unsigned r)
{
    static const uint64_t wanted[ROW_SET_WORDS] = {1 << 4 | 1 << 6 | 1 << 9};
    struct value values[COLUMNS];
    struct row_view view;
    open_row(world, r, &view);
    ENSURE(row_read_set(&view, wanted, values) == FIRN_OK);
    world->sum += values[4].u;
}

static double measure(struct world *world, uint64_t count,
                      void operation(struct world *world, unsigned r))
{
    double least = 1e9;
    for (unsigned round = 0; round < ROUNDS; round++) {
        uint64_t begin = clock_now(clock_real());
        for (uint64_t i = 0; i < count; i++)
            operation(world, (unsigned)(i % ROWS));
        double each = (double)(clock_now(clock_real()) - begin) / (double)count;
        least = each < least ? each : least;
    }
    return least;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*operation)(struct world *world, unsigned r);
        unsigned divisor;
    } operations[] = {
        {"check 10 values", check_values, 1},
        {"encode a row of 10 columns, with its size", encode_row, 1},
        {"open a row", read_nothing, 1},
        {"read a column, opening a tenth of a row", read_columns, COLUMNS},
        {"open a row and read a set of 3 columns", read_set, 1},
        {"encode a primary key of 4 integers", encode_primary, 1},
        {"encode 3 columns that take NULL, 2 integers and a datetime", encode_numbers, 1},
        {"encode a text of 20 to 24 bytes", encode_text, 1}};
    static struct world world;
    uint64_t count = argc > 1 ? strtoull(argv[1], NULL, 10) : 20000;
    struct table_spec spec = {.name = "order_line",
                              .columns = columns,
                              .column_count = COLUMNS,
                              .primary = &primary,
                              .indexes = indexes,
                              .index_count = 2};
    struct rng rng;
    rng_init(&rng, 1);
    ENSURE(count > 0 && schema_create(&spec, 16384, &world.schema) == FIRN_OK);
    for (unsigned r = 0; r < ROWS; r++) {
        fill_values(&world, &rng, r);
        encode_primary(&world, r);
        world.key_bytes[r] = world.bytes;
        memcpy(world.keys[r], world.room, world.bytes);
        encode_row(&world, r);
        world.row_bytes[r] = world.bytes;
        memcpy(world.rows[r], world.room, world.bytes);
    }
    for (size_t i = 0; i < ARRAY_COUNT(operations); i++)
        printf("%8.1f ns  %s\n",
               measure(&world, count, operations[i].operation) / operations[i].divisor,
               operations[i].name);
    printf("(%llx)\n", (unsigned long long)world.sum);
    schema_free(world.schema);
    return 0;
}
