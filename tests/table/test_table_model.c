/*
 * Random tables of all types, with random indexes, changed by random transactions, against plain
 * rows in memory: what each call returns, what every cursor shows, in every order, from every
 * place.
 */
#include "table/table_world.h"

#include "table/table_fixture.h"

enum { MODEL_ROWS = 60, OPERATIONS = 260, TABLES = 20 };

struct model {
    unsigned count;
    struct fixture_row rows[MODEL_ROWS];
};

struct play {
    struct world world;
    struct fixture fixture;
    struct table *table;
    struct table_session *writer;
    struct table_session *reader;
    struct model now;
    struct model begun; /* when the writer's transaction began: what is committed */
    struct model saved; /* at the savepoint */
    struct model seen;  /* by the reader's snapshot */
    bool is_writing;
    bool has_savepoint;
    bool is_reading;
    struct txn_savepoint savepoint;
};

/* ---- Rows of the model ---- */

static void copy_row(struct fixture_row *to, const struct fixture_row *from)
{
    *to = *from;
    for (unsigned c = 0; c <= FIXTURE_COLUMNS_MAX; c++)
        if (from->values[c].kind == VALUE_BYTES)
            to->values[c].bytes.bytes =
                to->memory[c] + (from->values[c].bytes.bytes - from->memory[c]);
}

static void copy_model(struct model *to, const struct model *from)
{
    to->count = from->count;
    for (unsigned i = 0; i < from->count; i++)
        copy_row(&to->rows[i], &from->rows[i]);
}

static bool is_same(const struct column *column, const struct value *is, const struct value *was)
{
    uint8_t filled[COLUMN_CHAR_MAX];
    struct span wanted = was->bytes;
    if (is->kind != was->kind)
        return false;
    if (was->kind == VALUE_NULL)
        return true;
    if (was->kind != VALUE_BYTES)
        return column->spec.type == COLUMN_FLOAT ? (float)is->d == (float)was->d : is->u == was->u;
    if (column->spec.type == COLUMN_BINARY)
        wanted = fixture_fill_up(wanted, column->spec.length, filled);
    return span_compare(is->bytes, wanted) == 0;
}

static void assert_row(const struct play *play, const uint64_t *wanted, const struct value *is,
                       const struct fixture_row *was)
{
    const struct table_schema *schema = play->fixture.schema;
    for (unsigned c = 0; c < schema->live_count; c++) {
        if (wanted != NULL && (wanted[c / 64] >> c % 64 & 1) == 0)
            continue;
        if (!is_same(&schema->columns[c], &is[c], &was->values[c]))
            fail_msg("column %s is not what was stored", schema->columns[c].spec.name);
    }
}

static int compare_parts(const struct table_schema *schema, const struct table_index *index,
                         unsigned parts, const struct value *left, const struct value *right)
{
    int order = 0;
    for (unsigned p = 0; p < parts && order == 0; p++) {
        const struct key_part *part = &index->parts[p];
        order = fixture_compare(schema, part, &left[part->column], &right[part->column]);
    }
    return order;
}

/* ---- Duplicates ---- */

static bool collides(const struct table_schema *schema, const struct table_index *index,
                     const struct value *left, const struct value *right)
{
    for (unsigned p = 0; p < index->declared_count; p++)
        if (left[index->parts[p].column].kind == VALUE_NULL)
            return false;
    return compare_parts(schema, index, index->declared_count, left, right) == 0;
}

/* @return the first unique index in which a row collides with another one; -1: none */
static int find_collision(const struct play *play, const struct fixture_row *row, int except)
{
    const struct table_schema *schema = play->fixture.schema;
    for (unsigned i = 0; i < schema->index_count; i++) {
        bool is_hidden = i == 0 && schema->row_id_column != SCHEMA_NONE;
        for (unsigned r = 0; r < play->now.count; r++)
            if (schema->indexes[i].is_unique && !is_hidden && (int)r != except &&
                collides(schema, &schema->indexes[i], row->values, play->now.rows[r].values))
                return (int)i;
    }
    return -1;
}

/* ---- Changes ---- */

static struct span key_of(struct play *play, const struct fixture_row *row)
{
    struct span key = {NULL, 0};
    ASSERT_OK(table_key(play->writer, play->table, row->values, &key));
    return key;
}

/* What the engine drew for the hidden row id: it is the largest. */
static void learn_row_id(struct play *play, struct fixture_row *row)
{
    const struct table_schema *schema = play->fixture.schema;
    struct table_cursor *cursor;
    if (schema->row_id_column == SCHEMA_NONE)
        return;
    ASSERT_OK(
        table_cursor_open(play->writer, play->table, 0, NULL, TXN_LOCK_NONE, TXN_WAIT, &cursor));
    ASSERT_OK(table_cursor_seek(cursor, TABLE_SEEK_LAST, NULL, 0));
    row->values[schema->row_id_column] = table_cursor_row(cursor).values[schema->row_id_column];
    table_cursor_close(cursor);
}

static void insert(struct play *play)
{
    struct fixture_row row;
    if (play->now.count == MODEL_ROWS)
        return;
    memset(&row, 0, sizeof row);
    fixture_fill(&play->fixture, &row);
    int collision = find_collision(play, &row, -1);
    firn_rc rc = table_insert(play->writer, play->table, row.values, NULL, NULL);
    if (collision >= 0) {
        assert_int_equal(rc, FIRN_E_EXISTS);
        assert_int_equal(table_session_duplicate(play->writer), collision);
        return;
    }
    ASSERT_OK(rc);
    learn_row_id(play, &row);
    copy_row(&play->now.rows[play->now.count++], &row);
}

static void update(struct play *play)
{
    const struct table_schema *schema = play->fixture.schema;
    struct fixture *fixture = &play->fixture;
    struct fixture_row row;
    uint64_t changed[ROW_SET_WORDS] = {0};
    if (play->now.count == 0)
        return;
    unsigned place = (unsigned)rng_below(&fixture->rng, play->now.count);
    copy_row(&row, &play->now.rows[place]);
    bool many = fixture_one_in(fixture, 4);
    for (unsigned c = 0; c < schema->column_count; c++) {
        if (!fixture_one_in(fixture, many ? 2 : 6))
            continue;
        set_column(changed, c);
        fixture_value(fixture, &schema->columns[c], row.memory[c], &row.values[c]);
    }
    int collision = find_collision(play, &row, (int)place);
    struct span key = key_of(play, &play->now.rows[place]);
    firn_rc rc = table_update(play->writer, play->table, key, row.values, changed);
    if (collision >= 0) {
        assert_int_equal(rc, FIRN_E_EXISTS);
        assert_int_equal(table_session_duplicate(play->writer), collision);
        return;
    }
    ASSERT_OK(rc);
    copy_row(&play->now.rows[place], &row);
}

static void remove_row(struct play *play)
{
    if (play->now.count == 0)
        return;
    unsigned place = (unsigned)rng_below(&play->fixture.rng, play->now.count);
    struct span key = key_of(play, &play->now.rows[place]);
    ASSERT_OK(table_delete(play->writer, play->table, key));
    assert_int_equal(table_delete(play->writer, play->table, key), FIRN_E_NOT_FOUND);
    play->now.count--;
    copy_row(&play->now.rows[place], &play->now.rows[play->now.count]);
}

/* ---- Reading ---- */

static const struct table_schema *sort_schema;
static const struct table_index *sort_index;

static int compare_for_sort(const void *left, const void *right)
{
    const struct fixture_row *const *a = left;
    const struct fixture_row *const *b = right;
    return compare_parts(sort_schema, sort_index, sort_index->part_count, (*a)->values,
                         (*b)->values);
}

static void sort_rows(const struct play *play, const struct model *model, unsigned index,
                      const struct fixture_row *sorted[MODEL_ROWS])
{
    sort_schema = play->fixture.schema;
    sort_index = &sort_schema->indexes[index];
    for (unsigned r = 0; r < model->count; r++)
        sorted[r] = &model->rows[r];
    qsort(sorted, model->count, sizeof(const struct fixture_row *), compare_for_sort);
}

/* Some columns; sometimes those that the index has itself, sometimes all. */
static const uint64_t *choose_wanted(struct play *play, unsigned index,
                                     uint64_t wanted[ROW_SET_WORDS])
{
    const struct table_schema *schema = play->fixture.schema;
    memset(wanted, 0, ROW_SET_WORDS * sizeof *wanted);
    switch (rng_below(&play->fixture.rng, 3)) {
    case 0:
        return NULL;
    case 1:
        for (unsigned p = 0; p < schema->indexes[index].part_count; p++)
            if (schema->indexes[index].parts[p].is_reversible &&
                schema->indexes[index].parts[p].prefix == 0)
                set_column(wanted, schema->indexes[index].parts[p].column);
        return wanted;
    default:
        for (unsigned c = 0; c < schema->live_count; c++)
            if (fixture_one_in(&play->fixture, 3))
                set_column(wanted, c);
        return wanted;
    }
}

/* Walk from where the cursor stands, or from nowhere, over the rows that ought to come. */
static void assert_walk(const struct play *play, struct table_cursor *cursor, firn_rc rc,
                        const uint64_t *wanted, const struct fixture_row *const *sorted, int from,
                        int end)
{
    int step = from <= end ? 1 : -1;
    for (int r = from; r != end; r += step) {
        if (rc != FIRN_OK)
            fail_msg("row %d of %d to %d: %d %s", r, from, end, rc, firn_error_text());
        assert_row(play, wanted, table_cursor_row(cursor).values, sorted[r]);
        rc = step > 0 ? table_cursor_next(cursor) : table_cursor_prev(cursor);
    }
    assert_int_equal(rc, FIRN_E_NOT_FOUND);
}

static void assert_scan(struct play *play, struct table_session *session, const struct model *model,
                        unsigned index, enum txn_lock lock)
{
    const struct fixture_row *sorted[MODEL_ROWS];
    uint64_t words[ROW_SET_WORDS];
    struct table_cursor *cursor;
    const uint64_t *wanted = choose_wanted(play, index, words);
    int count = (int)model->count;
    sort_rows(play, model, index, sorted);
    ASSERT_OK(table_cursor_open(session, play->table, index, wanted, lock, TXN_WAIT, &cursor));
    firn_rc rc = table_cursor_seek(cursor, TABLE_SEEK_FIRST, NULL, 0);
    assert_walk(play, cursor, rc, wanted, sorted, 0, count);
    rc = table_cursor_seek(cursor, TABLE_SEEK_LAST, NULL, 0);
    if (count == 0)
        assert_int_equal(rc, FIRN_E_NOT_FOUND);
    else
        assert_walk(play, cursor, rc, wanted, sorted, count - 1, -1);
    table_cursor_close(cursor);
}

/* The place of the first row that is not before a probe, or is behind it. */
static int place_of(const struct play *play, const struct model *model, unsigned index,
                    const struct fixture_row *const *sorted, const struct value *probe,
                    unsigned parts, bool behind)
{
    const struct table_schema *schema = play->fixture.schema;
    int place = 0;
    while (place < (int)model->count) {
        int order =
            compare_parts(schema, &schema->indexes[index], parts, sorted[place]->values, probe);
        if (behind ? order > 0 : order >= 0)
            break;
        place++;
    }
    return place;
}

/* A row of the model, or any other one. */
static void choose_probe(struct play *play, struct fixture_row *probe)
{
    struct fixture *fixture = &play->fixture;
    memset(probe, 0, sizeof *probe);
    fixture_fill(fixture, probe);
    if (play->now.count > 0 && !fixture_one_in(fixture, 3))
        copy_row(probe, &play->now.rows[rng_below(&fixture->rng, play->now.count)]);
}

static unsigned choose_parts(struct play *play, unsigned index)
{
    const struct table_index *chosen = &play->fixture.schema->indexes[index];
    bool is_split = chosen->is_unique && index > 0;
    return fixture_pick(&play->fixture, 1, is_split ? chosen->declared_count : chosen->part_count);
}

static void assert_seek(struct play *play, unsigned index)
{
    const struct fixture_row *sorted[MODEL_ROWS];
    struct fixture_row probe;
    uint64_t words[ROW_SET_WORDS];
    struct table_cursor *cursor;
    const uint64_t *wanted = choose_wanted(play, index, words);
    unsigned parts = choose_parts(play, index);
    enum table_seek seek =
        (enum table_seek)fixture_pick(&play->fixture, TABLE_SEEK_EXACT, TABLE_SEEK_BEFORE);
    choose_probe(play, &probe);
    sort_rows(play, &play->now, index, sorted);
    int count = (int)play->now.count;
    int first = place_of(play, &play->now, index, sorted, probe.values, parts, false);
    int behind = place_of(play, &play->now, index, sorted, probe.values, parts, true);
    bool backward = seek == TABLE_SEEK_EXACT_LAST || seek == TABLE_SEEK_AT_OR_BEFORE ||
                    seek == TABLE_SEEK_BEFORE;
    int place = seek == TABLE_SEEK_AFTER                                     ? behind
                : seek == TABLE_SEEK_BEFORE                                  ? first - 1
                : seek == TABLE_SEEK_EXACT || seek == TABLE_SEEK_AT_OR_AFTER ? first
                                                                             : behind - 1;
    if ((seek == TABLE_SEEK_EXACT || seek == TABLE_SEEK_EXACT_LAST) && first == behind)
        place = -1;
    ASSERT_OK(table_cursor_open(play->writer, play->table, index, wanted, TXN_LOCK_NONE, TXN_WAIT,
                                &cursor));
    firn_rc rc = table_cursor_seek(cursor, seek, probe.values, parts);
    if (place < 0 || place == count)
        assert_int_equal(rc, FIRN_E_NOT_FOUND);
    else
        assert_walk(play, cursor, rc, wanted, sorted, place, backward ? -1 : count);
    table_cursor_close(cursor);
}

static void assert_range(struct play *play, unsigned index)
{
    const struct fixture_row *sorted[MODEL_ROWS];
    struct fixture_row low;
    struct fixture_row high;
    struct table_cursor *cursor;
    unsigned low_parts = choose_parts(play, index);
    unsigned high_parts = choose_parts(play, index);
    bool with_low = fixture_one_in(&play->fixture, 2);
    bool with_high = fixture_one_in(&play->fixture, 2);
    choose_probe(play, &low);
    choose_probe(play, &high);
    sort_rows(play, &play->now, index, sorted);
    int first = place_of(play, &play->now, index, sorted, low.values, low_parts, !with_low);
    int end = place_of(play, &play->now, index, sorted, high.values, high_parts, with_high);
    ASSERT_OK(table_cursor_open(play->writer, play->table, index, NULL, TXN_LOCK_NONE, TXN_WAIT,
                                &cursor));
    ASSERT_OK(table_cursor_set_lower(cursor, low.values, low_parts, with_low));
    ASSERT_OK(table_cursor_set_upper(cursor, high.values, high_parts, with_high));
    firn_rc rc = table_cursor_seek(cursor, TABLE_SEEK_FIRST, NULL, 0);
    if (first >= end) {
        assert_int_equal(rc, FIRN_E_NOT_FOUND);
        assert_int_equal(table_cursor_seek(cursor, TABLE_SEEK_LAST, NULL, 0), FIRN_E_NOT_FOUND);
    } else {
        assert_walk(play, cursor, rc, NULL, sorted, first, end);
        rc = table_cursor_seek(cursor, TABLE_SEEK_LAST, NULL, 0);
        assert_walk(play, cursor, rc, NULL, sorted, end - 1, first - 1);
    }
    table_cursor_close(cursor);
}

static void assert_get(struct play *play)
{
    const struct table_schema *schema = play->fixture.schema;
    unsigned index = (unsigned)rng_below(&play->fixture.rng, schema->index_count);
    const struct table_index *unique = &schema->indexes[index];
    struct fixture_row probe;
    uint64_t words[ROW_SET_WORDS];
    struct table_row row;
    choose_probe(play, &probe);
    if (!unique->is_unique)
        return;
    for (unsigned p = 0; p < unique->declared_count; p++)
        if (probe.values[unique->parts[p].column].kind == VALUE_NULL)
            return;
    const uint64_t *wanted = choose_wanted(play, index, words);
    enum txn_lock lock = (enum txn_lock)rng_below(&play->fixture.rng, 3);
    firn_rc rc =
        table_get(play->writer, play->table, index, probe.values, wanted, lock, TXN_WAIT, &row);
    for (unsigned r = 0; r < play->now.count; r++)
        if (collides(schema, unique, probe.values, play->now.rows[r].values)) {
            ASSERT_OK(rc);
            assert_row(play, wanted, row.values, &play->now.rows[r]);
            return;
        }
    assert_int_equal(rc, FIRN_E_NOT_FOUND);
}

static void look(struct play *play)
{
    const struct table_schema *schema = play->fixture.schema;
    unsigned index = (unsigned)rng_below(&play->fixture.rng, schema->index_count);
    switch (rng_below(&play->fixture.rng, 4)) {
    case 0:
        assert_scan(play, play->writer, &play->now, index,
                    (enum txn_lock)rng_below(&play->fixture.rng, 3));
        break;
    case 1:
        assert_range(play, index);
        break;
    case 2:
        assert_get(play);
        break;
    default:
        assert_seek(play, index);
        break;
    }
}

/* ---- Transactions ---- */

static void begin(struct play *play)
{
    enum txn_isolation isolation =
        (enum txn_isolation)fixture_pick(&play->fixture, TXN_READ_COMMITTED, TXN_SERIALIZABLE);
    ASSERT_OK(txn_begin(table_session_txn(play->writer), isolation, false));
    copy_model(&play->begun, &play->now);
    play->is_writing = true;
    play->has_savepoint = false;
}

static void end(struct play *play)
{
    struct txn_session *txn = table_session_txn(play->writer);
    if (!play->is_writing)
        return;
    if (fixture_one_in(&play->fixture, 3)) {
        ASSERT_OK(txn_rollback(txn));
        copy_model(&play->now, &play->begun);
    } else {
        ASSERT_OK(txn_commit(txn));
    }
    play->is_writing = false;
    if (fixture_one_in(&play->fixture, 2))
        ASSERT_OK(store_tick(play->world.store)); /* purge */
}

static void save_or_go_back(struct play *play)
{
    struct txn_session *txn = table_session_txn(play->writer);
    if (!play->has_savepoint) {
        ASSERT_OK(txn_savepoint(txn, &play->savepoint));
        copy_model(&play->saved, &play->now);
        play->has_savepoint = true;
    } else {
        ASSERT_OK(txn_rollback_to(txn, &play->savepoint));
        copy_model(&play->now, &play->saved);
        play->has_savepoint = false;
    }
}

/* Another session sees what was committed when it began, however long ago. */
static void read_old(struct play *play)
{
    struct txn_session *txn = table_session_txn(play->reader);
    if (!play->is_reading) {
        ASSERT_OK(txn_begin(txn, TXN_REPEATABLE_READ, true));
        ASSERT_OK(txn_take_snapshot(txn));
        copy_model(&play->seen, play->is_writing ? &play->begun : &play->now);
        play->is_reading = true;
        return;
    }
    for (unsigned i = 0; i < play->fixture.schema->index_count; i++)
        assert_scan(play, play->reader, &play->seen, i, TXN_LOCK_NONE);
    if (fixture_one_in(&play->fixture, 2)) {
        ASSERT_OK(txn_commit(txn));
        play->is_reading = false;
    }
}

static void step(struct play *play)
{
    unsigned dice = (unsigned)rng_below(&play->fixture.rng, 100);
    if (!play->is_writing)
        begin(play);
    if (dice < 40)
        insert(play);
    else if (dice < 60)
        update(play);
    else if (dice < 72)
        remove_row(play);
    else if (dice < 86)
        look(play);
    else if (dice < 90)
        save_or_go_back(play);
    else if (dice < 94)
        read_old(play);
    else
        end(play);
}

/* ---- The play ---- */

static void open_table(struct play *play)
{
    ASSERT_OK(table_open(tables_of(&play->world), "t", &play->table));
    ASSERT_OK(table_session_open(tables_of(&play->world), &play->writer));
    ASSERT_OK(table_session_open(tables_of(&play->world), &play->reader));
}

static void close_table(struct play *play)
{
    table_session_close(play->writer);
    table_session_close(play->reader);
    table_close(play->table);
    if (play->is_writing)
        copy_model(&play->now, &play->begun);
    play->is_writing = false;
    play->is_reading = false;
}

static void assert_all(struct play *play)
{
    const char *wrong = table_world_wrong(&play->world, "t");
    if (wrong != NULL)
        fail_msg("%s", wrong);
    ASSERT_OK(txn_begin(table_session_txn(play->writer), TXN_READ_COMMITTED, true));
    for (unsigned i = 0; i < play->fixture.schema->index_count; i++)
        assert_scan(play, play->writer, &play->now, i, TXN_LOCK_NONE);
    ASSERT_OK(txn_commit(table_session_txn(play->writer)));
}

static void play_table(uint64_t seed)
{
    struct play *play = calloc(1, sizeof *play);
    table_world_init(&play->world, disk_make(), seed, FIXTURE_PAGE_BYTES);
    rng_init(&play->fixture.rng, seed);
    fixture_make(&play->fixture, fixture_pick(&play->fixture, 1, 12));
    ASSERT_OK(table_world_open(&play->world));
    ASSERT_OK(table_create(tables_of(&play->world), &play->fixture.spec,
                           fixture_one_in(&play->fixture, 3) ? TABLE_SYSTEM : TABLE_OWN_FILE));
    open_table(play);
    for (unsigned i = 0; i < OPERATIONS; i++)
        step(play);
    close_table(play);
    table_world_reopen(&play->world);
    open_table(play);
    assert_all(play);
    for (unsigned i = 0; i < OPERATIONS / 4; i++)
        step(play);
    close_table(play);
    ASSERT_OK(table_drop(tables_of(&play->world), "t"));
    const char *wrong = table_world_wrong(&play->world, NULL);
    if (wrong != NULL)
        fail_msg("%s", wrong);
    table_world_close(&play->world);
    schema_free(play->fixture.schema);
    free(play);
}

static void tables_do_what_plain_rows_do(void **state)
{
    (void)state;
    uint64_t seed = test_seed(1);
    unsigned runs = test_runs(TABLES);
    fixture_register();
    for (unsigned i = 0; i < runs; i++) {
        print_message("# table %llu\n", (unsigned long long)(seed + i));
        play_table(seed + i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_do_what_plain_rows_do),
    };
    return cmocka_run_group_tests(tests, world_quiet, NULL);
}
