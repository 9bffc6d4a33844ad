/*
 * Building schemas out of checked drafts.
 */
#include "table/schema.h"
#include "table/draft_internal.h"

#include "base/check.h"
#include "base/memory.h"
#include "page/slotted.h"

enum { ROW_HEAD_BYTES = 2 };

/* A schema under construction: the same memory, to be written. */
struct build {
    struct table_schema schema;
    uint8_t *bytes;
    struct column *columns;
    struct table_index *indexes;
    struct key_part *parts;
    struct foreign_key *foreigns;
    struct row_layout *layouts;
    struct column_place *places;
    uint16_t *storage_order;
    const struct draft *draft;
};

/* ---- Indexes ---- */

static struct key_part make_part(const struct build *build, uint16_t c, uint32_t prefix,
                                 bool is_descending)
{
    const struct column *column = &build->columns[c];
    struct key_part part = {.column = c,
                            .is_descending = is_descending,
                            .is_nullable = column->spec.is_nullable,
                            .prefix = prefix,
                            .codec = column->codec};
    if (part.codec.kind == CODEC_FIXED && prefix > 0)
        part.codec.width = (uint16_t)prefix;
    if (part.codec.kind == CODEC_VARIABLE)
        part.collation =
            column->collation != NULL ? column->collation : collation_find(COLLATION_BINARY);
    part.is_reversible = part.codec.kind != CODEC_FLOAT && part.codec.kind != CODEC_DOUBLE &&
                         (part.collation == NULL || collation_is_reversible(part.collation));
    return part;
}

/* The parts that were declared. */
static void add_declared(struct build *build, struct table_index *index,
                         const struct draft_index *draft_index, struct key_part *parts)
{
    index->name = draft_index->name;
    index->is_unique = draft_index->is_unique;
    index->parts = parts;
    index->declared_count = index->part_count = (uint16_t)draft_index->part_count;
    for (unsigned p = 0; p < draft_index->part_count; p++) {
        const struct draft_part *part = &draft_index->parts[p];
        parts[p] = make_part(build, draft_find_id(build->draft, part->column_id), part->prefix,
                             part->is_descending);
    }
}

/* Behind them, what is missing of the primary key: a part is there if the column is, with the same
   prefix, whatever the direction. */
static void add_primary(const struct table_index *primary, struct table_index *index,
                        struct key_part *parts)
{
    for (unsigned p = 0; p < primary->part_count; p++) {
        const struct key_part *part = &primary->parts[p];
        unsigned here = 0;
        while (here < index->part_count &&
               (parts[here].column != part->column || parts[here].prefix != part->prefix))
            here++;
        if (here == index->part_count)
            parts[index->part_count++] = *part;
        index->primary_parts[p] = (uint8_t)here;
    }
}

static void add_row_id(struct build *build)
{
    uint16_t c = build->schema.column_count;
    build->columns[c] = (struct column){
        .spec = {.name = "(row id)", .type = COLUMN_ROW_ID},
        .id = SCHEMA_NONE,
        .added = 1,
        .codec = {.kind = CODEC_UINT, .second_bytes = 3, .width = build->draft->row_id_bytes}};
    build->parts[0] = make_part(build, c, 0, false);
    build->indexes[0] = (struct table_index){.name = "(row id)",
                                             .is_unique = true,
                                             .declared_count = 1,
                                             .part_count = 1,
                                             .parts = build->parts};
}

static void build_indexes(struct build *build)
{
    const struct draft *draft = build->draft;
    struct key_part *parts = build->parts;
    unsigned first = draft->row_id_bytes != 0 ? 1 : 0;
    if (first == 1) {
        add_row_id(build);
        parts++;
    }
    for (unsigned i = 0; i < draft->index_count; i++) {
        struct table_index *index = &build->indexes[first + i];
        add_declared(build, index, &draft->indexes[i], parts);
        if (first + i > 0)
            add_primary(&build->indexes[0], index, parts);
        parts += index->part_count;
    }
    for (unsigned p = 0; p < build->indexes[0].part_count; p++)
        build->indexes[0].primary_parts[p] = (uint8_t)p;
}

/* ---- Foreign keys ---- */

static void build_foreigns(struct build *build)
{
    const struct draft *draft = build->draft;
    for (unsigned f = 0; f < draft->foreign_count; f++) {
        const struct draft_foreign *from = &draft->foreigns[f];
        struct foreign_key *to = &build->foreigns[f];
        *to = (struct foreign_key){.name = from->name,
                                   .parent = from->parent,
                                   .column_count = from->column_count,
                                   .on_delete = (enum foreign_action)from->on_delete,
                                   .on_update = (enum foreign_action)from->on_update,
                                   .index = draft_index_of_foreign(draft, from)};
        for (unsigned i = 0; i < from->column_count; i++) {
            to->columns[i] = draft_find_id(draft, from->column_ids[i]);
            to->parent_columns[i] = from->parent_columns[i];
        }
    }
}

/* ---- Layouts of rows ---- */

/* What the primary key has at fixed offsets is read from there: the first parts of fixed size, as
   long as their bytes are what they are in a row, or a number. */
static void place_keys(struct build *build, struct column_place *places)
{
    const struct table_index *primary = &build->indexes[0];
    uint16_t at = 0;
    for (unsigned p = 0; p < primary->part_count; p++) {
        const struct key_part *part = &primary->parts[p];
        if (part->codec.kind == CODEC_VARIABLE || !part->is_reversible || part->prefix > 0 ||
            (part->codec.kind == CODEC_FIXED && part->is_descending))
            break;
        places[part->column] = (struct column_place){.kind = PLACE_KEY,
                                                     .is_descending = part->is_descending,
                                                     .at = at,
                                                     .codec = part->codec};
        at = (uint16_t)(at + part->codec.width);
    }
    build->schema.key_fixed_bytes = at;
}

static bool is_in_version(const struct column *column, unsigned version)
{
    return column->added <= version && (column->dropped == 0 || column->dropped > version);
}

/* Columns lie in the order of their ids, which all versions share: first those of fixed size. */
static void place_columns(struct build *build, unsigned version, bool fixed, unsigned *null_bit,
                          uint16_t *at)
{
    struct row_layout *layout = &build->layouts[version];
    struct column_place *places = build->places + (size_t)version * build->schema.all_count;
    for (unsigned i = 0; i < build->schema.all_count; i++) {
        unsigned c = build->storage_order[i];
        const struct column *column = &build->columns[c];
        struct column_place *place = &places[c];
        if (place->kind != PLACE_ABSENT || !is_in_version(column, version) ||
            (column->codec.kind != CODEC_VARIABLE) != fixed)
            continue;
        if (column->spec.is_nullable) {
            place->null_byte = (uint16_t)(ROW_HEAD_BYTES + *null_bit / 8);
            place->null_mask = (uint8_t)(1U << *null_bit % 8);
            (*null_bit)++;
        }
        place->kind = fixed ? PLACE_FIXED : PLACE_VARIABLE;
        place->at = fixed ? *at : layout->variable_count++;
        place->codec = column->codec;
        *at = (uint16_t)(*at + column->codec.width);
    }
}

static void build_layout(struct build *build, unsigned version)
{
    struct row_layout *layout = &build->layouts[version];
    struct column_place *places = build->places + (size_t)version * build->schema.all_count;
    unsigned nullable = 0;
    unsigned null_bit = 0;
    place_keys(build, places);
    for (unsigned c = 0; c < build->schema.all_count; c++)
        nullable += places[c].kind == PLACE_ABSENT && build->columns[c].spec.is_nullable &&
                    is_in_version(&build->columns[c], version);
    layout->places = places;
    layout->null_bytes = (uint16_t)((nullable + 7) / 8);
    uint16_t at = (uint16_t)(ROW_HEAD_BYTES + layout->null_bytes);
    place_columns(build, version, true, &null_bit, &at);
    layout->fixed_bytes = at;
    place_columns(build, version, false, &null_bit, &at);
}

/* Ids are the numbers below the count of columns; the hidden row id, which has none, comes last. */
static void order_by_id(struct build *build)
{
    for (unsigned c = 0; c < build->schema.all_count; c++)
        if (c != build->schema.row_id_column)
            build->storage_order[build->columns[c].id] = (uint16_t)c;
        else
            build->storage_order[build->draft->column_count] = (uint16_t)c;
}

/* Of the columns by id, those of the current layout, fixed ones first, for whoever writes rows. */
static void order_for_writing(struct build *build)
{
    struct table_schema *schema = &build->schema;
    const struct column_place *places = build->layouts[schema->row_version].places;
    uint16_t by_id[SCHEMA_COLUMNS_MAX + 1];
    unsigned count = 0;
    memcpy(by_id, build->storage_order, schema->all_count * sizeof *by_id);
    for (unsigned kind = PLACE_FIXED; kind <= PLACE_VARIABLE; kind++) {
        for (unsigned i = 0; i < schema->all_count; i++)
            if (places[by_id[i]].kind == kind)
                build->storage_order[count++] = by_id[i];
        if (kind == PLACE_FIXED)
            schema->fixed_count = (uint16_t)count;
    }
}

static void build_layouts(struct build *build)
{
    order_by_id(build);
    for (unsigned version = 1; version <= build->schema.row_version; version++)
        build_layout(build, version);
    order_for_writing(build);
}

/* ---- The whole ---- */

static void build_columns(struct build *build)
{
    const struct draft *draft = build->draft;
    struct table_schema *schema = &build->schema;
    unsigned hidden = draft->row_id_bytes != 0 ? 1 : 0;
    unsigned live = 0;
    while (live < draft->column_count && draft->columns[live].dropped == 0)
        live++;
    schema->column_count = (uint16_t)live;
    schema->live_count = (uint16_t)(live + hidden);
    schema->all_count = (uint16_t)(draft->column_count + hidden);
    schema->row_id_column = hidden ? schema->column_count : SCHEMA_NONE;
    schema->auto_column = SCHEMA_NONE;
    for (unsigned c = 0; c < draft->column_count; c++) {
        build->columns[c < live ? c : c + hidden] = draft->columns[c];
        if (c < live && draft->columns[c].spec.is_autoincrement)
            schema->auto_column = (uint16_t)c;
    }
}

/* Each array has room for one more element, so that none is empty. */
static bool allocate(struct build *build)
{
    const struct draft *draft = build->draft;
    size_t columns = draft->column_count + 1;
    build->columns = memory_zalloc(columns, sizeof *build->columns);
    build->indexes = memory_zalloc(draft->index_count + 1, sizeof *build->indexes);
    build->parts =
        memory_zalloc((draft->index_count + 1) * 2 * SCHEMA_PARTS_MAX, sizeof *build->parts);
    build->foreigns = memory_zalloc(draft->foreign_count + 1, sizeof *build->foreigns);
    build->layouts = memory_zalloc(draft->row_version + 1U, sizeof *build->layouts);
    build->places = memory_zalloc((draft->row_version + 1U) * columns, sizeof *build->places);
    build->storage_order = memory_zalloc(columns, sizeof *build->storage_order);
    return build->columns != NULL && build->indexes != NULL && build->parts != NULL &&
           build->foreigns != NULL && build->layouts != NULL && build->places != NULL &&
           build->storage_order != NULL;
}

static void build_free(struct build *build)
{
    memory_free(build->bytes);
    memory_free(build->columns);
    memory_free(build->indexes);
    memory_free(build->parts);
    memory_free(build->foreigns);
    memory_free(build->layouts);
    memory_free(build->places);
    memory_free(build->storage_order);
    memory_free(build);
}

void schema_free(struct table_schema *schema)
{
    if (schema != NULL)
        build_free((struct build *)schema);
}

static void fill(struct build *build)
{
    const struct draft *draft = build->draft;
    struct table_schema *schema = &build->schema;
    schema->name = draft->name;
    schema->row_version = draft->row_version;
    schema->index_count = (uint16_t)(draft->index_count + (draft->row_id_bytes != 0));
    schema->foreign_count = (uint16_t)draft->foreign_count;
    schema->page_size_bytes = draft->page_size_bytes;
    schema->key_bytes_max = (uint32_t)slotted_key_max(draft->page_size_bytes);
    schema->columns = build->columns;
    schema->indexes = build->indexes;
    schema->foreigns = build->foreigns;
    schema->layouts = build->layouts;
    schema->storage_order = build->storage_order;
    build_columns(build);
    build_indexes(build);
    build_foreigns(build);
    build_layouts(build);
    build->draft = NULL;
}

static firn_rc no_memory(void)
{
    return rc_raise(FIRN_E_NOMEM, "there is no memory for the description of a table");
}

/* Build from bytes of one's own, which become the schema's; they are freed on failure. */
static firn_rc build_from(uint8_t *bytes, size_t size_bytes, uint32_t page_size_bytes,
                          struct table_schema **schema)
{
    struct draft draft = {0};
    struct build *build = memory_zalloc(1, sizeof *build);
    firn_rc rc;
    if (build == NULL) {
        memory_free(bytes);
        return no_memory();
    }
    build->bytes = bytes;
    build->schema.bytes = span_of(bytes, size_bytes);
    FIRN_TRY_GOTO(draft_decode(build->schema.bytes, page_size_bytes, &draft), failed);
    rc = draft_check(&draft);
    if (rc == FIRN_E_INVALID)
        rc = rc_raise(FIRN_E_CORRUPT, "the description of a table is damaged: %s",
                      firn_error_text());
    FIRN_TRY_GOTO(rc, failed);
    build->draft = &draft;
    if (!allocate(build)) {
        rc = no_memory();
        goto failed;
    }
    fill(build);
    draft_free(&draft);
    *schema = &build->schema;
    return FIRN_OK;
failed:
    draft_free(&draft);
    build_free(build);
    return rc;
}

firn_rc draft_finish(struct draft *draft, struct table_schema **schema)
{
    FIRN_TRY(draft_check(draft));
    size_t size = draft_bytes(draft);
    uint8_t *bytes = memory_alloc(size + 8);
    if (bytes == NULL)
        return no_memory();
    draft_encode(draft, bytes);
    return build_from(bytes, size, draft->page_size_bytes, schema);
}

firn_rc schema_decode(struct span bytes, uint32_t page_size_bytes, struct table_schema **schema)
{
    uint8_t *copy = memory_alloc(bytes.size_bytes + 8);
    if (copy == NULL)
        return no_memory();
    if (bytes.size_bytes > 0)
        memcpy(copy, bytes.bytes, bytes.size_bytes);
    return build_from(copy, bytes.size_bytes, page_size_bytes, schema);
}

firn_rc schema_create(const struct table_spec *spec, uint32_t page_size_bytes,
                      struct table_schema **schema)
{
    struct draft draft;
    firn_rc rc = draft_from_spec(spec, page_size_bytes, &draft);
    if (rc == FIRN_OK)
        rc = draft_finish(&draft, schema);
    draft_free(&draft);
    return rc;
}

uint16_t schema_find_column(const struct table_schema *schema, const char *name)
{
    for (uint16_t c = 0; c < schema->column_count; c++)
        if (draft_names_equal(schema->columns[c].spec.name, name))
            return c;
    return SCHEMA_NONE;
}

uint16_t schema_find_index(const struct table_schema *schema, const char *name)
{
    for (uint16_t i = 0; i < schema->index_count; i++)
        if (draft_names_equal(schema->indexes[i].name, name))
            return i;
    return SCHEMA_NONE;
}

uint16_t schema_find_foreign(const struct table_schema *schema, const char *name)
{
    for (uint16_t f = 0; f < schema->foreign_count; f++)
        if (draft_names_equal(schema->foreigns[f].name, name))
            return f;
    return SCHEMA_NONE;
}
