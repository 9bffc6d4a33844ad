/*
 * Isolation, anomaly by anomaly: scripted interleavings, each run at each level, and what came of
 * it.
 *
 * The interleavings are those of Martin Kleppmann's Hermitage and of the papers it draws on (Adya,
 * Liskov, O'Neil; Berenson et al.; Fekete et al.; Bailis et al.; Cerone, Bernardi, Gotsman), in
 * steps that this layer has. What a level promises is asserted here; what it does beyond that, and
 * how, is found and held against the table in docs/isolation.md, which FIRN_WRITE_DOCS=1 writes
 * anew.
 *
 * A judge that cannot fail is none, so each script also runs over a layer without isolation, where
 * each statement is a transaction by itself: there each anomaly must be seen.
 */
#include "script.h"

/** The weakest level that must not let it happen. */
enum promise {
    FROM_READ_COMMITTED = TXN_READ_COMMITTED,
    FROM_REPEATABLE_READ = TXN_REPEATABLE_READ,
    FROM_SERIALIZABLE = TXN_SERIALIZABLE,
};

struct anomaly {
    const char *name;
    const char *title;
    enum promise promise;
    const char *steps; /* on the rows 1:10,2:20 */
    /* When it has happened: all of these, or ("|") all of those. "T1": T1 has committed; "a=10":
     * what was read as a; "final=1:10": the rows at the end; != for the contrary. */
    const char *seen;
};

static const struct anomaly anomalies[] = {
    {"G0", "write cycle (dirty write)", FROM_READ_COMMITTED,
     "T1 put 1 11; T2 put 1 12; T2 put 2 22; T2 commit; T1 put 2 21; T1 commit",
     "T1 T2 final!=1:11,2:21 final!=1:12,2:22"},
    {"G1a", "aborted read (dirty read)", FROM_READ_COMMITTED,
     "T1 put 1 101; T2 get 1 as a; T1 rollback; T2 get 1 as b; T2 commit", "a=101 | b=101"},
    {"G1b", "intermediate read", FROM_READ_COMMITTED,
     "T1 put 1 101; T2 get 1 as a; T1 put 1 11; T1 commit; T2 get 1 as b; T2 commit",
     "a=101 | b=101"},
    {"G1c", "circular information flow", FROM_READ_COMMITTED,
     "T1 put 1 11; T2 put 2 22; T1 get 2 as a; T2 get 1 as b; T1 commit; T2 commit",
     "T1 T2 a=22 b=11"},
    {"OTV", "observed transaction vanishes", FROM_READ_COMMITTED,
     "T1 put 1 11; T1 put 2 19; T2 put 1 12; T1 commit; T3 get 1 as a; T3 get 2 as b; T2 put 2 18; "
     "T2 commit; T3 get 2 as c; T3 get 1 as d; T3 commit",
     "a=11 b=20 | a=12 b=19 | a=12 b=20 | b=18 c=19 | c=18 d=11 | c=18 d=10 | c=19 d=10"},
    {"P2", "unrepeatable read", FROM_REPEATABLE_READ,
     "T1 get 1 as a; T2 put 1 11; T2 commit; T1 get 1 as b; T1 commit", "T1 T2 a=10 b=11"},
    {"P3", "phantom", FROM_REPEATABLE_READ,
     "T1 scan 1 9 as a; T2 insert 3 30; T2 commit; T1 scan 1 9 as b; T1 commit",
     "T1 T2 a=1:10,2:20 b=1:10,2:20,3:30"},
    {"PMP", "predicate-many-preceders, reading", FROM_REPEATABLE_READ,
     "T1 where 30 as a; T2 insert 3 30; T2 commit; T1 where 3 as b; T1 commit",
     "T1 T2 a=none b=3:30"},
    {"PMP-w", "predicate-many-preceders, writing", FROM_REPEATABLE_READ,
     "T1 add 1 10; T2 delete-where 20; T1 add 2 10; T1 commit; T2 commit",
     "T1 T2 final!=1:20 final!=2:30"},
    {"P4", "lost update", FROM_REPEATABLE_READ,
     "T1 get 1 as a; T2 get 1 as b; T1 put 1 a+1; T2 put 1 b+1; T1 commit; T2 commit",
     "T1 T2 final!=1:12,2:20"},
    {"P4-add", "lost update, read and written in one step", FROM_READ_COMMITTED,
     "T1 add 1 1; T2 add 1 1; T1 commit; T2 commit", "T1 T2 final!=1:12,2:20"},
    {"P4C", "lost update under FOR UPDATE (cursor lost update)", FROM_READ_COMMITTED,
     "T1 lock 1 as a; T2 lock 1 as b; T1 put 1 a+1; T1 commit; T2 put 1 b+1; T2 commit",
     "T1 T2 final!=1:12,2:20"},
    {"G-single", "read skew", FROM_REPEATABLE_READ,
     "T1 get 1 as a; T2 put 1 12; T2 put 2 18; T2 commit; T1 get 2 as b; T1 commit",
     "T1 T2 a=10 b=18"},
    {"G-single-p", "read skew by predicates", FROM_REPEATABLE_READ,
     "T1 where 5 as a; T2 put 1 12; T2 commit; T1 where 3 as b; T1 commit", "T1 T2 b=1:12"},
    {"G-single-w", "read skew, and writing by a predicate", FROM_REPEATABLE_READ,
     "T1 get 1 as a; T2 put 1 12; T2 put 2 18; T2 commit; T1 delete-where 20; T1 commit",
     "T1 T2 a=10 final=1:12,2:18"},
    {"Fractured", "fractured read", FROM_REPEATABLE_READ,
     "T2 get 1 as a; T1 put 1 11; T1 put 2 21; T1 commit; T2 get 2 as b; T2 commit",
     "T1 T2 a=10 b=21 | a=11 b=20"},
    {"Fork", "long fork", FROM_REPEATABLE_READ,
     "T3 get 2 as a; T4 get 1 as b; T1 put 1 11; T2 put 2 21; T1 commit; T3 get 1 as c; T2 commit; "
     "T4 get 2 as d; T3 commit; T4 commit",
     "T1 T2 T3 T4 a=20 b=10 c=11 d=21"},
    {"G2-item", "write skew", FROM_SERIALIZABLE,
     "T1 get 1; T1 get 2 as a; T2 get 1 as b; T2 get 2; T1 put 1 11; T2 put 2 21; T1 commit; "
     "T2 commit",
     "T1 T2 a=20 b=10"},
    {"G2", "write skew by a predicate", FROM_SERIALIZABLE,
     "T1 where 3 as a; T2 where 3 as b; T1 insert 3 30; T2 insert 4 42; T1 commit; T2 commit",
     "T1 T2 a=none b=none"},
    {"G2-none", "write skew over rows that are not there", FROM_SERIALIZABLE,
     "T1 get 3 as a; T2 get 4 as b; T1 insert 4 40; T2 insert 3 30; T1 commit; T2 commit",
     "T1 T2 a=none b=none"},
    {"G2-delete", "write skew over deletes that found nothing", FROM_SERIALIZABLE,
     "T1 delete 3 as a; T2 delete 4 as b; T1 insert 4 40; T2 insert 3 30; T1 commit; T2 commit",
     "T1 T2 a=none b=none"},
    {"G2-insert", "write skew over inserts that found a row", FROM_SERIALIZABLE,
     "T1 insert 1 0 as a; T2 insert 2 0 as b; T1 delete 2; T2 delete 1; T1 commit; T2 commit",
     "T1 T2 a=exists b=exists"},
    {"Fekete", "a reader sees what no order explains", FROM_SERIALIZABLE,
     "T1 get 2 as a; T2 put 2 25; T2 commit; T3 read-only; T3 get 1 as b; T3 get 2 as c; T3 "
     "commit; "
     "T1 put 1 0; T1 commit",
     "T1 T2 T3 a=20 b=10 c=25"},
};

/* ---- Judging ---- */

static const char *text_of(const struct script *script, const char *name)
{
    return strcmp(name, "final") == 0 ? script->final : script->labels[name[0] - 'a'];
}

static bool is_true(const struct script *script, char *term)
{
    char *sign = strpbrk(term, "!=");
    if (term[0] == 'T' && sign == NULL)
        return script->actors[term[1] - '1'].has_committed;
    bool is_unequal = *sign == '!';
    const char *wanted = sign + 1 + is_unequal;
    *sign = '\0';
    return (strcmp(text_of(script, term), wanted) == 0) != is_unequal;
}

/* Has the anomaly been seen? */
static bool has_happened(const struct script *script, const char *condition)
{
    char copy[256], *rest;
    bool all = true;
    snprintf(copy, sizeof copy, "%s", condition);
    for (char *term = strtok_r(copy, " ", &rest); term != NULL; term = strtok_r(NULL, " ", &rest)) {
        if (strcmp(term, "|") != 0)
            all = is_true(script, term) && all;
        else if (all)
            return true;
        else
            all = true;
    }
    return all;
}

/* A cell of the table. */
static void describe(const struct script *script, bool happened, char *text, size_t size_bytes)
{
    if (happened) {
        snprintf(text, size_bytes, "**allowed**");
        return;
    }
    const char *how = script->had_conflict    ? "conflict"
                      : script->deadlocks > 0 ? "deadlock"
                      : script->has_waited    ? "waits"
                                              : "not seen";
    snprintf(text, size_bytes, "%s%s",
             script->has_waited && script->had_conflict ? "waits, then " : "", how);
}

static bool run_anomaly(struct world *world, struct btree *tree, const struct anomaly *anomaly,
                        enum txn_isolation isolation, bool autocommit, char *cell,
                        size_t size_bytes)
{
    struct script *script = script_new();
    script_set_rows(world, tree, "1:10,2:20");
    script_begin(script, world, tree);
    script->isolation = isolation;
    script->autocommit = autocommit;
    script_run(script, anomaly->steps);
    bool happened = has_happened(script, anomaly->seen);
    describe(script, happened, cell, size_bytes);
    free(script);
    return happened;
}

/* ---- The table ---- */

enum { TABLE_BYTES = 16384, LEVELS = 3 };

static const char *const level_names[LEVELS] = {"read committed", "repeatable read",
                                                "serializable"};

static void make_table(char *table)
{
    struct world world;
    struct btree *tree;
    char cell[64];
    size_t used = (size_t)snprintf(table, TABLE_BYTES,
                                   "| | anomaly | read committed | repeatable read | serializable "
                                   "|\n|---|---|---|---|---|\n");
    script_open_world(&world, &tree);
    for (size_t i = 0; i < ARRAY_COUNT(anomalies); i++) {
        used += (size_t)snprintf(table + used, TABLE_BYTES - used, "| %s | %s |", anomalies[i].name,
                                 anomalies[i].title);
        for (int level = 0; level < LEVELS; level++) {
            bool happened = run_anomaly(&world, tree, &anomalies[i], (enum txn_isolation)level,
                                        false, cell, sizeof cell);
            if (happened && level >= (int)anomalies[i].promise)
                fail_msg("%s (%s) happens under %s: %s", anomalies[i].name, anomalies[i].title,
                         level_names[level], anomalies[i].steps);
            used += (size_t)snprintf(table + used, TABLE_BYTES - used, " %s |", cell);
        }
        used += (size_t)snprintf(table + used, TABLE_BYTES - used, "\n");
    }
    script_close_world(&world);
}

/* ---- The scripts, for the page ---- */

static void make_scripts(char *text)
{
    size_t used = 0;
    for (size_t i = 0; i < ARRAY_COUNT(anomalies); i++)
        used += (size_t)snprintf(text + used, TABLE_BYTES - used,
                                 "- **%s**: `%s`. It has happened if `%s`.\n", anomalies[i].name,
                                 anomalies[i].steps, anomalies[i].seen);
}

/* ---- The page ---- */

static char *read_page(void)
{
    FILE *file = fopen(ISOLATION_PAGE, "r");
    if (file == NULL)
        fail_msg("cannot open %s", ISOLATION_PAGE);
    char *page = calloc(1, 4 * TABLE_BYTES);
    size_t size_bytes = fread(page, 1, 4 * TABLE_BYTES - 1, file);
    fclose(file);
    assert_true(size_bytes > 0 && size_bytes < 4 * TABLE_BYTES - 1);
    return page;
}

static void write_page(const char *page)
{
    FILE *file = fopen(ISOLATION_PAGE, "w");
    assert_non_null(file);
    assert_int_equal(fputs(page, file) < 0, 0);
    assert_int_equal(fclose(file), 0);
}

/* Put a text between two marks of a page, in place of what is there. */
static char *replace(const char *page, const char *name, const char *text)
{
    char begin[80], end[80];
    snprintf(begin, sizeof begin, "<!-- %s: written by tests/txn/test_txn_isolation.c -->\n", name);
    snprintf(end, sizeof end, "<!-- end of %s -->", name);
    const char *from = strstr(page, begin);
    const char *to = strstr(page, end);
    if (from == NULL || to == NULL || to < from)
        fail_msg("%s has no place for %s", ISOLATION_PAGE, name);
    char *made = calloc(1, strlen(page) + strlen(text) + 1);
    from += strlen(begin);
    sprintf(made, "%.*s%s%s", (int)(from - page), page, text, to);
    return made;
}

static void test_each_level_keeps_its_promises_as_the_page_says(void **state)
{
    (void)state;
    char *table = calloc(1, TABLE_BYTES);
    char *scripts = calloc(1, TABLE_BYTES);
    char *page = read_page();
    make_table(table);
    make_scripts(scripts);
    char *with_table = replace(page, "table", table);
    char *made = replace(with_table, "scripts", scripts);
    if (getenv("FIRN_WRITE_DOCS") != NULL)
        write_page(made);
    else if (strcmp(made, page) != 0)
        fail_msg("docs/isolation.md does not say what was found (FIRN_WRITE_DOCS=1 writes it):\n%s",
                 table);
    free(table);
    free(scripts);
    free(page);
    free(with_table);
    free(made);
}

static void test_each_anomaly_is_seen_where_there_is_no_isolation(void **state)
{
    (void)state;
    struct world world;
    struct btree *tree;
    char cell[64];
    script_open_world(&world, &tree);
    for (size_t i = 0; i < ARRAY_COUNT(anomalies); i++) {
        /* One step of the store is one step in the broken layer, too. */
        bool cannot = strcmp(anomalies[i].name, "P4-add") == 0;
        if (run_anomaly(&world, tree, &anomalies[i], TXN_READ_COMMITTED, true, cell, sizeof cell) ==
            cannot)
            fail_msg("%s (%s) is %s", anomalies[i].name, anomalies[i].title,
                     cannot ? "seen" : "not seen");
    }
    script_close_world(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_level_keeps_its_promises_as_the_page_says),
        cmocka_unit_test(test_each_anomaly_is_seen_where_there_is_no_isolation),
    };
    return cmocka_run_group_tests_name("txn_isolation", tests, world_quiet, NULL);
}
