/*
 * Schemas: what a table may be, what is said about what it may not be, and that its bytes say it
 * all.
 */
#include "table/schema.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/memory.h"
#include "repeat.h"
#include "table/table_fixture.h"

/* A sound table, of which each case below spoils something. */
struct sound {
    struct column_spec columns[5];
    struct part_spec primary_parts[2];
    struct index_spec primary;
    struct part_spec parts[2][3];
    struct index_spec indexes[2];
    const char *foreign_columns[2];
    const char *parent_columns[2];
    struct foreign_spec foreigns[2];
    struct table_spec spec;
};

static void make_sound(struct sound *t)
{
    *t = (struct sound){
        .columns = {{.name = "id", .type = COLUMN_INT, .is_autoincrement = true},
                    {.name = "name",
                     .type = COLUMN_VARCHAR,
                     .length = 100,
                     .collation = COLLATION_UTF8MB4_BIN,
                     .is_nullable = true},
                    {.name = "price",
                     .type = COLUMN_DECIMAL,
                     .precision = 10,
                     .scale = 2,
                     .default_kind = COLUMN_DEFAULT_CONSTANT,
                     .default_value = value_bytes(span_of("\x80\x00\x00\x07\x00", 5))},
                    {.name = "owner", .type = COLUMN_INT, .is_nullable = true},
                    {.name = "notes", .type = COLUMN_TEXT, .collation = COLLATION_LATIN1_BIN}},
        .primary_parts = {{.column = "id"}},
        .primary = {.parts = t->primary_parts, .part_count = 1},
        .parts = {{{.column = "owner"}, {.column = "name", .prefix = 10, .is_descending = true}},
                  {{.column = "notes", .prefix = 20}}},
        .indexes = {{.name = "by_owner", .parts = t->parts[0], .part_count = 2},
                    {.name = "by_notes", .is_unique = true, .parts = t->parts[1], .part_count = 1}},
        .foreign_columns = {"owner", "name"},
        .parent_columns = {"id", "name"},
        .foreigns = {{.name = "fk",
                      .columns = t->foreign_columns,
                      .parent = "people",
                      .parent_columns = t->parent_columns,
                      .column_count = 1,
                      .on_delete = FOREIGN_SET_NULL,
                      .on_update = FOREIGN_CASCADE}},
        .spec = {.name = "things",
                 .columns = t->columns,
                 .column_count = 5,
                 .primary = &t->primary,
                 .indexes = t->indexes,
                 .index_count = 2,
                 .foreigns = t->foreigns,
                 .foreign_count = 1}};
}

static void refused(const struct sound *t, const char *sentence)
{
    struct table_schema *schema = (struct table_schema *)t;
    assert_int_equal(schema_create(&t->spec, FIXTURE_PAGE_BYTES, &schema), FIRN_E_INVALID);
    assert_string_equal(firn_error_text(), sentence);
    assert_ptr_equal(schema, t);
}

/* Spoil a sound table by a statement, and see what is said. */
#define SPOILED(statement, sentence)                                                               \
    do {                                                                                           \
        struct sound t;                                                                            \
        make_sound(&t);                                                                            \
        statement;                                                                                 \
        refused(&t, sentence);                                                                     \
    } while (0)

static void impossible_columns_are_refused(void **state)
{
    (void)state;
    SPOILED(t.spec.column_count = 0, "table things, PRIMARY: there is no column id");
    SPOILED((t.spec.column_count = 0, t.spec.primary = NULL, t.spec.index_count = 0,
             t.spec.foreign_count = 0),
            "table things: a table has at least one column");
    SPOILED(t.spec.column_count = 1018, "table things: 1018 columns are more than 1017");
    SPOILED(t.columns[2].name = "", "a column's name has 1 to 192 bytes of UTF-8 without control "
                                    "characters");
    SPOILED(t.columns[2].name = "NAME", "table things: there are two columns NAME");
    SPOILED(t.columns[3].type = (enum column_type)77, "column owner: there is no type 77");
    SPOILED(t.columns[3].type = COLUMN_ROW_ID, "column owner: there is no type 21");
    SPOILED(t.columns[3].length = 11, "column owner, int: the type has no length");
    SPOILED(t.columns[3].scale = 2, "column owner, int: only decimals have a precision and scale");
    SPOILED(t.columns[3].second_digits = 2,
            "column owner, int(2): only time, datetime and timestamp have digits of a second");
    SPOILED(t.columns[1].is_unsigned = true, "column name, varchar(100): only numbers can be "
                                             "unsigned");
    SPOILED(t.columns[3].collation = 46,
            "column owner, int: only char, varchar and text have a collation");
    SPOILED(t.columns[1].collation = 4000, "column name: there is no collation 4000; register it "
                                           "before tables are opened");
    SPOILED(t.columns[1].length = 16384,
            "column name, varchar(16384): the length is at most as many characters as make 65535 "
            "bytes; for more there are blob and text");
    SPOILED(t.columns[2].precision = 66, "column price, decimal(66,2): a decimal has 1 to 65 "
                                         "digits, of them at most 38 behind the point");
    SPOILED(t.columns[2].scale = 11, "column price, decimal(10,11): a decimal has 1 to 65 "
                                     "digits, of them at most 38 behind the point");
    SPOILED(t.columns[0].is_nullable = true, "column id, int: an autoincrement column is an "
                                             "integer, not null, without a default");
    SPOILED(t.columns[3].default_kind = COLUMN_DEFAULT_NOW,
            "column owner, int: only datetime and timestamp can have the present as default");
    SPOILED(t.columns[2].default_value = value_bytes(span_of("x", 1)),
            "column price, decimal(10,2): the bytes are no packed decimal of that precision and "
            "scale");
    SPOILED(t.columns[2].default_value = value_null(),
            "column price: a constant default is not NULL; that is what a column without a default "
            "has");
    SPOILED((t.columns[3].is_autoincrement = true, t.columns[3].is_nullable = false,
             t.spec.foreign_count = 0),
            "table things: only one column can be autoincrement");
    SPOILED((t.primary_parts[0].column = "price"),
            "table things: the autoincrement column id is to be the first of an index");
    SPOILED(t.spec.name = "", "a table's name has 1 to 1023 bytes of UTF-8 without control "
                              "characters");
}

static void impossible_indexes_are_refused(void **state)
{
    (void)state;
    SPOILED(t.indexes[0].name = "PRIMARY",
            "table things: only the primary key can be called PRIMARY");
    SPOILED(t.indexes[0].name = "By_Notes", "table things: there are two indexes by_notes");
    SPOILED(t.indexes[0].name = NULL, "table things: an index needs a name");
    SPOILED(t.indexes[0].part_count = 0,
            "table things, index by_owner: an index has 1 to 16 columns, not 0");
    SPOILED(t.parts[0][1].column = "nobody", "table things, by_owner: there is no column nobody");
    SPOILED(t.parts[0][1].column = "owner",
            "table things, index by_owner, column owner: only texts and bytes have prefixes");
    SPOILED((t.parts[0][1] = t.parts[0][0]),
            "table things, index by_owner, column owner: it is there twice");
    SPOILED(t.parts[1][0].prefix = 0,
            "table things, index by_notes, column notes: of a blob or text only a prefix can be "
            "indexed; say how long");
    SPOILED(t.parts[0][1].prefix = 101,
            "table things, index by_owner, column name: the prefix is longer than the column");
    SPOILED(t.parts[1][0].prefix = 3073,
            "table things, index by_notes: keys of 3073 bytes are longer than the 3072 that pages "
            "of 16384 bytes take; index shorter prefixes");
    SPOILED((t.primary_parts[1].column = "owner", t.primary.part_count = 2),
            "table things, index PRIMARY, column owner: a column of the primary key takes no NULL");
    SPOILED(t.spec.row_id_bytes = 6, "table things: a hidden row id has 6 or 8 bytes, and there is "
                                     "none beside a primary key");
    SPOILED((t.spec.primary = NULL, t.spec.row_id_bytes = 7),
            "table things: a hidden row id has 6 or 8 bytes, and there is none beside a primary "
            "key");
    SPOILED(t.spec.index_count = 64, "table things: 64 secondary indexes are more than 63");
}

static void impossible_foreign_keys_are_refused(void **state)
{
    (void)state;
    SPOILED(t.foreign_columns[0] = "price",
            "table things, foreign key fk, column price: it takes no NULL, which the action would "
            "set");
    SPOILED((t.foreign_columns[0] = "price", t.foreigns[0].on_delete = FOREIGN_CASCADE),
            "table things, foreign key fk: it needs an index that begins with its columns in their "
            "order, without prefixes");
    SPOILED(t.foreigns[0].column_count = 2,
            "table things, foreign key fk: it needs an index that begins with its columns in their "
            "order, without prefixes");
    SPOILED(t.foreigns[0].on_delete = (enum foreign_action)9,
            "table things, foreign key fk: there is no such action");
    SPOILED(t.foreign_columns[0] = "nobody", "table things, fk: there is no column nobody");
    SPOILED(t.foreigns[0].parent = NULL, "table things: the name of a foreign key's parent has 1 "
                                         "to 1023 bytes of UTF-8 without control characters");
    SPOILED(t.parent_columns[0] = "", "table things: the name of a foreign key's parent column has "
                                      "1 to 192 bytes of UTF-8 without control characters");
    SPOILED((t.foreigns[1] = t.foreigns[0], t.spec.foreign_count = 2),
            "table things: there are two foreign keys fk");
    SPOILED(t.foreigns[0].column_count = 0,
            "table things, fk: a foreign key has 1 to 16 columns, not 0");
}

static void too_many_fixed_bytes_are_refused(void **state)
{
    (void)state;
    static struct column_spec columns[SCHEMA_COLUMNS_MAX];
    static char names[SCHEMA_COLUMNS_MAX][16];
    struct table_spec spec = {
        .name = "wide", .columns = columns, .column_count = SCHEMA_COLUMNS_MAX};
    struct table_schema *schema = NULL;
    for (unsigned c = 0; c < SCHEMA_COLUMNS_MAX; c++) {
        snprintf(names[c], sizeof names[c], "c%u", c);
        columns[c] = (struct column_spec){.name = names[c], .type = COLUMN_BINARY, .length = 64};
    }
    assert_int_equal(schema_create(&spec, FIXTURE_PAGE_BYTES, &schema), FIRN_OK);
    assert_int_equal(schema->layouts[1].fixed_bytes, 2 + 64 * SCHEMA_COLUMNS_MAX);
    schema_free(schema);
    for (unsigned c = 0; c < SCHEMA_COLUMNS_MAX; c++)
        columns[c].length = 65;
    assert_int_equal(schema_create(&spec, FIXTURE_PAGE_BYTES, &schema), FIRN_E_INVALID);
    assert_string_equal(firn_error_text(),
                        "table wide: the columns of fixed size have 66235 bytes together, more "
                        "than 65535; make some variable");
}

/* All that can be asked of a schema, as text. */
static void describe(const struct table_schema *schema, char *text, size_t size)
{
    char type[COLUMN_TYPE_TEXT_BYTES];
    FILE *out = fmemopen(text, size, "w");
    assert_non_null(out);
    fprintf(out, "%s v%u %u/%u/%u id%u auto%u\n", schema->name, schema->row_version,
            schema->column_count, schema->live_count, schema->all_count, schema->row_id_column,
            schema->auto_column);
    for (unsigned c = 0; c < schema->all_count; c++) {
        const struct column *column = &schema->columns[c];
        fprintf(out, "%s %s null%d collation%u #%u +%u -%u default%d:%d:%zx\n", column->spec.name,
                column_type_text(&column->spec, type), column->spec.is_nullable,
                column->spec.collation, column->id, column->added, column->dropped,
                column->spec.default_kind, column->spec.default_value.kind,
                column->spec.default_value.kind == VALUE_BYTES
                    ? column->spec.default_value.bytes.size_bytes
                    : (size_t)column->spec.default_value.u);
    }
    for (unsigned i = 0; i < schema->index_count; i++) {
        const struct table_index *index = &schema->indexes[i];
        fprintf(out, "%s u%d %u:", index->name, index->is_unique, index->declared_count);
        for (unsigned p = 0; p < index->part_count; p++)
            fprintf(out, " %u(%u)%s", index->parts[p].column, index->parts[p].prefix,
                    index->parts[p].is_descending ? "d" : "");
        fprintf(out, "\n");
    }
    for (unsigned f = 0; f < schema->foreign_count; f++) {
        const struct foreign_key *key = &schema->foreigns[f];
        fprintf(out, "%s > %s %d %d i%u:", key->name, key->parent, key->on_delete, key->on_update,
                key->index);
        for (unsigned i = 0; i < key->column_count; i++)
            fprintf(out, " %u=%s", key->columns[i], key->parent_columns[i]);
        fprintf(out, "\n");
    }
    fclose(out);
}

static void judge_bytes(const struct table_schema *schema)
{
    static char before[65536];
    static char after[65536];
    struct table_schema *read = NULL;
    memset(before, 0, sizeof before);
    memset(after, 0, sizeof after);
    describe(schema, before, sizeof before);
    assert_int_equal(schema_decode(schema->bytes, schema->page_size_bytes, &read), FIRN_OK);
    describe(read, after, sizeof after);
    assert_string_equal(after, before);
    assert_int_equal(span_compare(read->bytes, schema->bytes), 0);
    schema_free(read);
}

static void a_schema_is_what_was_described(void **state)
{
    (void)state;
    static char text[4096];
    struct sound t;
    struct table_schema *schema = NULL;
    make_sound(&t);
    assert_int_equal(schema_create(&t.spec, FIXTURE_PAGE_BYTES, &schema), FIRN_OK);
    describe(schema, text, sizeof text);
    assert_string_equal(text, "things v1 5/5/5 id65535 auto0\n"
                              "id int null0 collation0 #0 +1 -0 default0:0:0\n"
                              "name varchar(100) null1 collation46 #1 +1 -0 default0:0:0\n"
                              "price decimal(10,2) null0 collation0 #2 +1 -0 default1:4:5\n"
                              "owner int null1 collation0 #3 +1 -0 default0:0:0\n"
                              "notes text null0 collation47 #4 +1 -0 default0:0:0\n"
                              "PRIMARY u1 1: 0(0)\n"
                              "by_owner u0 2: 3(0) 1(10)d 0(0)\n"
                              "by_notes u1 1: 4(20) 0(0)\n"
                              "fk > people 3 2 i1: 3=id\n");
    judge_bytes(schema);
    assert_int_equal(schema_find_column(schema, "OWNER"), 3);
    assert_int_equal(schema_find_column(schema, "nobody"), SCHEMA_NONE);
    assert_int_equal(schema_find_index(schema, "By_owner"), 1);
    schema_free(schema);
}

static void any_schema_is_read_as_it_was_written(void **state)
{
    (void)state;
    struct fixture fixture;
    rng_init(&fixture.rng, test_seed(1));
    for (unsigned t = 0; t < test_runs(300); t++) {
        fixture_make(&fixture, fixture_pick(&fixture, 1, FIXTURE_COLUMNS_MAX));
        judge_bytes(fixture.schema);
        schema_free(fixture.schema);
    }
}

/* Whatever is cut off or turned over, bytes are a schema or are refused by name of the damage. */
static void damaged_descriptions_are_refused(void **state)
{
    (void)state;
    struct sound t;
    struct table_schema *schema = NULL;
    struct table_schema *read = NULL;
    make_sound(&t);
    assert_int_equal(schema_create(&t.spec, FIXTURE_PAGE_BYTES, &schema), FIRN_OK);
    for (size_t size = 0; size < schema->bytes.size_bytes; size++)
        assert_int_equal(
            schema_decode(span_of(schema->bytes.bytes, size), FIXTURE_PAGE_BYTES, &read),
            FIRN_E_CORRUPT);
    uint8_t *bytes = malloc(schema->bytes.size_bytes);
    assert_non_null(bytes);
    for (size_t bit = 0; bit < 8 * schema->bytes.size_bytes; bit++) {
        memcpy(bytes, schema->bytes.bytes, schema->bytes.size_bytes);
        bytes[bit / 8] ^= (uint8_t)(1U << bit % 8);
        firn_rc rc =
            schema_decode(span_of(bytes, schema->bytes.size_bytes), FIXTURE_PAGE_BYTES, &read);
        if (rc == FIRN_OK)
            schema_free(read);
        else
            assert_true(rc == FIRN_E_CORRUPT || (rc == FIRN_E_UNSUPPORTED && bit < 16));
    }
    free(bytes);
    schema_free(schema);
}

/* A schema that outlives memory shortages: each allocation fails once. */
static void each_allocation_may_fail(void **state)
{
    (void)state;
    struct sound t;
    struct table_schema *schema = NULL;
    struct table_schema *altered = NULL;
    struct column_spec added = {.name = "more", .type = COLUMN_INT, .is_nullable = true};
    firn_rc rc = FIRN_E_NOMEM;
    unsigned failures = 0;
    make_sound(&t);
    for (long k = 0; rc == FIRN_E_NOMEM; k++, failures++) {
        memory_fail_after(k);
        rc = schema_create(&t.spec, FIXTURE_PAGE_BYTES, &schema);
    }
    memory_fail_after(-1);
    assert_int_equal(rc, FIRN_OK);
    rc = FIRN_E_NOMEM;
    for (long k = 0; rc == FIRN_E_NOMEM; k++, failures++) {
        memory_fail_after(k);
        rc = schema_add_column(schema, &added, 0, NULL, &altered);
    }
    memory_fail_after(-1);
    assert_int_equal(rc, FIRN_OK);
    assert_true(failures > 20);
    schema_free(schema);
    schema_free(altered);
}

static void indexes_come_and_go(void **state)
{
    (void)state;
    struct sound t;
    struct table_schema *schema = NULL;
    struct table_schema *altered = NULL;
    struct part_spec part = {.column = "PRICE", .is_descending = true};
    struct index_spec index = {.name = "by_price", .parts = &part, .part_count = 1};
    make_sound(&t);
    assert_int_equal(schema_create(&t.spec, FIXTURE_PAGE_BYTES, &schema), FIRN_OK);
    assert_int_equal(schema_add_index(schema, &index, &altered), FIRN_OK);
    assert_int_equal(schema_find_index(altered, "by_price"), 3);
    assert_true(altered->indexes[3].parts[0].is_descending);
    assert_int_equal(altered->row_version, schema->row_version);
    judge_bytes(altered);
    schema_free(schema);
    schema = altered;
    assert_int_equal(schema_add_index(schema, &index, &altered), FIRN_E_INVALID);
    assert_int_equal(schema_drop_index(schema, "by_notes", &altered), FIRN_OK);
    schema_free(schema);
    schema = altered;
    assert_int_equal(schema_find_index(schema, "by_price"), 2);
    assert_int_equal(schema_drop_index(schema, "by_notes", &altered), FIRN_E_NOT_FOUND);
    assert_int_equal(schema_drop_index(schema, "primary", &altered), FIRN_E_INVALID);
    assert_int_equal(schema_drop_index(schema, "by_owner", &altered), FIRN_E_INVALID);
    assert_string_equal(firn_error_text(),
                        "table things, foreign key fk: it needs an index that begins with its "
                        "columns in their order, without prefixes");
    schema_free(schema);
}

static void foreign_keys_come_and_go(void **state)
{
    (void)state;
    static const char *const columns[] = {"owner"};
    static const char *const parent_columns[] = {"number"};
    struct foreign_spec more = {.name = "more",
                                .columns = columns,
                                .parent = "rooms",
                                .parent_columns = parent_columns,
                                .column_count = 1,
                                .on_update = FOREIGN_NO_ACTION};
    struct sound t;
    struct table_schema *schema = NULL;
    struct table_schema *altered = NULL;
    make_sound(&t);
    assert_int_equal(schema_create(&t.spec, FIXTURE_PAGE_BYTES, &schema), FIRN_OK);
    assert_int_equal(schema_add_foreign(schema, &more, &altered), FIRN_OK);
    schema_free(schema);
    schema = altered;
    assert_int_equal(schema->foreign_count, 2);
    assert_int_equal(schema_find_foreign(schema, "MORE"), 1);
    assert_string_equal(schema->foreigns[1].parent, "rooms");
    judge_bytes(schema);
    assert_int_equal(schema_add_foreign(schema, &more, &altered), FIRN_E_INVALID);
    assert_int_equal(schema_drop_foreign(schema, "fk", &altered), FIRN_OK);
    schema_free(schema);
    schema = altered;
    assert_int_equal(schema_find_foreign(schema, "more"), 0);
    assert_int_equal(schema_drop_foreign(schema, "fk", &altered), FIRN_E_NOT_FOUND);
    assert_int_equal(schema_drop_foreign(schema, "more", &altered), FIRN_OK);
    schema_free(schema);
    schema = altered;
    assert_int_equal(schema_drop_index(schema, "by_owner", &altered), FIRN_OK);
    schema_free(altered);
    schema_free(schema);
}

static void names_can_be_changed(void **state)
{
    (void)state;
    struct sound t;
    struct table_schema *schema = NULL;
    struct table_schema *altered = NULL;
    make_sound(&t);
    assert_int_equal(schema_create(&t.spec, FIXTURE_PAGE_BYTES, &schema), FIRN_OK);
    assert_int_equal(schema_rename(schema, "db/stuff", &altered), FIRN_OK);
    assert_string_equal(altered->name, "db/stuff");
    schema_free(schema);
    schema = altered;
    assert_int_equal(schema_rename(schema, "", &altered), FIRN_E_INVALID);
    assert_int_equal(schema_rename_column(schema, "Owner", "keeper", &altered), FIRN_OK);
    schema_free(schema);
    schema = altered;
    assert_int_equal(schema_find_column(schema, "keeper"), 3);
    assert_int_equal(schema->indexes[1].parts[0].column, 3);
    assert_int_equal(schema->row_version, 1);
    judge_bytes(schema);
    assert_int_equal(schema_rename_column(schema, "owner", "x", &altered), FIRN_E_NOT_FOUND);
    assert_int_equal(schema_rename_column(schema, "keeper", "ID", &altered), FIRN_E_INVALID);
    assert_string_equal(firn_error_text(), "table db/stuff: there are two columns ID");
    assert_int_equal(schema_rename_column(schema, "keeper", "KEEPER", &altered), FIRN_OK);
    schema_free(altered);
    schema_free(schema);
}

static void columns_that_are_needed_stay(void **state)
{
    (void)state;
    struct sound t;
    struct table_schema *schema = NULL;
    struct table_schema *altered = NULL;
    struct column_spec added = {.name = "extra", .type = COLUMN_INT};
    make_sound(&t);
    assert_int_equal(schema_create(&t.spec, FIXTURE_PAGE_BYTES, &schema), FIRN_OK);
    assert_int_equal(schema_drop_column(schema, "owner", &altered), FIRN_E_INVALID);
    assert_string_equal(firn_error_text(), "table things: column owner is a part of index "
                                           "by_owner; drop that first");
    assert_int_equal(schema_drop_column(schema, "nobody", &altered), FIRN_E_NOT_FOUND);
    assert_int_equal(schema_add_column(schema, &added, 0, NULL, &altered), FIRN_E_INVALID);
    assert_string_equal(firn_error_text(), "column extra, int: it has no default value and takes "
                                           "no NULL; give a value");
    added.is_nullable = true;
    assert_int_equal(schema_add_column(schema, &added, 6, NULL, &altered), FIRN_E_INVALID);
    assert_int_equal(schema_add_column(schema, &added, 1, NULL, &altered), FIRN_OK);
    assert_int_equal(altered->foreigns[0].columns[0], 4); /* it has moved */
    judge_bytes(altered);
    schema_free(altered);
    schema_free(schema);
}

static void versions_end(void **state)
{
    (void)state;
    struct column_spec columns[] = {{.name = "a", .type = COLUMN_INT},
                                    {.name = "b", .type = COLUMN_INT, .is_nullable = true}};
    struct table_spec spec = {.name = "t", .columns = columns, .column_count = 1};
    struct table_schema *schema = NULL;
    struct table_schema *altered = NULL;
    firn_rc rc = FIRN_OK;
    unsigned steps = 0;
    assert_int_equal(schema_create(&spec, FIXTURE_PAGE_BYTES, &schema), FIRN_OK);
    for (; rc == FIRN_OK; steps++) {
        rc = steps % 2 == 0 ? schema_add_column(schema, &columns[1], 1, NULL, &altered)
                            : schema_drop_column(schema, "b", &altered);
        if (rc == FIRN_OK) {
            schema_free(schema);
            schema = altered;
        }
    }
    assert_int_equal(rc, FIRN_E_INVALID);
    assert_string_equal(firn_error_text(), "table t: its rows have had 255 layouts; build the "
                                           "table anew before it gets another one");
    assert_int_equal(steps, SCHEMA_VERSIONS_MAX);
    judge_bytes(schema);
    schema_free(schema);
}

/* ---- Collations ---- */

static void impossible_collations_are_refused(void **state)
{
    (void)state;
    struct collation good = {.number = 3100, .name = "good", .character_bytes_max = 1, .levels = 1};
    static const struct collation there = {
        .number = 3101, .name = "there", .character_bytes_max = 1, .levels = 1};
    struct collation bad = good;
    bad.number = 4096;
    assert_int_equal(collation_register(&bad), FIRN_E_INVALID);
    bad = good;
    bad.name = NULL;
    assert_int_equal(collation_register(&bad), FIRN_E_INVALID);
    bad = good;
    bad.levels = 2; /* without weights */
    assert_int_equal(collation_register(&bad), FIRN_E_INVALID);
    bad = good;
    bad.space_bytes = 5;
    assert_int_equal(collation_register(&bad), FIRN_E_INVALID);
    bad = good;
    bad.blank_bytes = 5;
    assert_int_equal(collation_register(&bad), FIRN_E_INVALID);
    bad = good;
    bad.space_bytes = 2; /* of texts that may be cut anywhere */
    assert_int_equal(collation_register(&bad), FIRN_E_INVALID);
    bad = good;
    bad.number = COLLATION_BINARY;
    assert_int_equal(collation_register(&bad), FIRN_E_EXISTS);
    assert_int_equal(collation_register(&there), FIRN_OK);
    assert_int_equal(collation_register(&there), FIRN_OK);
    bad = there;
    assert_int_equal(collation_register(&bad), FIRN_E_EXISTS);
    assert_ptr_equal(collation_find(3101), &there);
    assert_null(collation_find(3102));
    assert_null(collation_find(UINT32_MAX));
    assert_null(collation_find(0));
}

/* The bounds of Unicode's table 3-7, and just beyond them. */
static void utf8_is_what_unicode_says(void **state)
{
    (void)state;
    const struct collation *utf8 = collation_find(COLLATION_UTF8MB4_BIN);
    static const struct {
        const char *bytes;
        bool is_text;
    } cases[] = {{"", true},
                 {"\x7f", true},
                 {"\xc2\x80", true},
                 {"\xdf\xbf", true},
                 {"\xe0\xa0\x80", true},
                 {"\xed\x9f\xbf", true},
                 {"\xee\x80\x80", true},
                 {"\xf0\x90\x80\x80", true},
                 {"\xf4\x8f\xbf\xbf", true},
                 {"\x80", false},
                 {"\xc1\xbf", false},
                 {"\xe0\x9f\xbf", false},
                 {"\xed\xa0\x80", false},
                 {"\xf0\x8f\xbf\xbf", false},
                 {"\xf4\x90\x80\x80", false},
                 {"\xf5\x80\x80\x80", false},
                 {"\xe2\x82", false},
                 {"\xe2\x82(", false}};
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++)
        assert_int_equal(utf8->is_text(utf8, span_of_text(cases[i].bytes)), cases[i].is_text);
    struct span text = span_of_text("a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\xff"
                                    "b");
    static const size_t ends[] = {0, 1, 3, 6, 10, 11, 12, 12};
    for (size_t n = 0; n < ARRAY_COUNT(ends); n++)
        assert_int_equal(utf8->prefix(utf8, text, n), ends[n]);
}

static int register_collations(void **state)
{
    (void)state;
    fixture_register();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(impossible_columns_are_refused),
        cmocka_unit_test(impossible_indexes_are_refused),
        cmocka_unit_test(impossible_foreign_keys_are_refused),
        cmocka_unit_test(too_many_fixed_bytes_are_refused),
        cmocka_unit_test(a_schema_is_what_was_described),
        cmocka_unit_test(any_schema_is_read_as_it_was_written),
        cmocka_unit_test(damaged_descriptions_are_refused),
        cmocka_unit_test(each_allocation_may_fail),
        cmocka_unit_test(indexes_come_and_go),
        cmocka_unit_test(foreign_keys_come_and_go),
        cmocka_unit_test(names_can_be_changed),
        cmocka_unit_test(columns_that_are_needed_stay),
        cmocka_unit_test(versions_end),
        cmocka_unit_test(impossible_collations_are_refused),
        cmocka_unit_test(utf8_is_what_unicode_says),
    };
    return cmocka_run_group_tests(tests, register_collations, NULL);
}
