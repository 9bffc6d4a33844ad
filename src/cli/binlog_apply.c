/*
 * firn binlog apply: carry out the groups of a binary log in an environment, each as one
 * transaction, which also remembers that it has been done.
 */
#include "cli/binlog_internal.h"

#include "base/endian.h"
#include "base/memory.h"
#include "cli/kv_line.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <string.h>

/* The tree that remembers: the log's environment, and the last group that was applied. */
#define APPLIED_TREE "binlog_applied"

struct apply {
    const struct binlog_command_options *options;
    struct store *store;
    struct txn_session *session;
    struct btree *applied;
    bool knows_last; /* the next two are set */
    uint8_t environment[16];
    uint64_t last_group;   /* that the environment has */
    struct span tree_name; /* the tree found last, by its name (a copy) */
    struct btree *tree;
    char name[BINLOG_NAME_MAX + 1];
    uint64_t groups;
    uint64_t skipped;
    uint64_t rows;
};

/* ---- What has been applied before ---- */

static firn_rc read_applied(struct apply *apply, const uint8_t environment[16], uint64_t *number)
{
    struct span payload;
    FIRN_TRY(txn_begin(apply->session, TXN_READ_COMMITTED, true));
    firn_rc rc = txn_get(apply->session, apply->applied, span_of(environment, 16), TXN_LOCK_NONE,
                         TXN_WAIT, &payload);
    if (rc == FIRN_OK && payload.size_bytes != 8)
        rc = rc_raise(FIRN_E_CORRUPT, "the tree " APPLIED_TREE " has a row that makes no sense");
    *number = rc == FIRN_OK ? get_u64(payload.bytes) : 0;
    firn_rc end_rc = txn_commit(apply->session);
    return rc != FIRN_OK && rc != FIRN_E_NOT_FOUND ? rc : end_rc;
}

/* An environment has the groups of its own binary log, as far as that goes. */
static firn_rc find_last(struct apply *apply, const uint8_t environment[16])
{
    if (apply->knows_last && memcmp(apply->environment, environment, 16) == 0)
        return FIRN_OK;
    FIRN_TRY(read_applied(apply, environment, &apply->last_group));
    bool is_own = memcmp(store_environment_id(apply->store), environment, 16) == 0;
    uint64_t own = binlog_last_number(store_binlog(apply->store));
    if (is_own && own > apply->last_group)
        apply->last_group = own;
    memcpy(apply->environment, environment, 16);
    apply->knows_last = true;
    return FIRN_OK;
}

static firn_rc raise_gap(const struct apply *apply, const struct binlog_visit *visit)
{
    return rc_raise(FIRN_E_INVALID,
                    "%s goes on with group %" PRIu64 ", but the environment has only those up to "
                    "%" PRIu64 ": apply the logs before it first",
                    visit->where->path, visit->begin->number, apply->last_group);
}

static firn_rc begin_group(struct apply *apply, const struct binlog_visit *visit, bool *skip)
{
    FIRN_TRY(find_last(apply, visit->where->environment));
    if (visit->begin->number <= apply->last_group) {
        apply->skipped++;
        *skip = true;
        return FIRN_OK;
    }
    bool is_asked_for = apply->options->start_group != 0 || apply->options->start_position != 0 ||
                        apply->options->start_us != 0 || apply->options->start_file != 0;
    if (visit->begin->number > apply->last_group + 1 && apply->last_group != 0 && !is_asked_for)
        return raise_gap(apply, visit);
    return txn_begin(apply->session, TXN_READ_COMMITTED, false);
}

static firn_rc end_group(struct apply *apply, const struct binlog_visit *visit)
{
    uint8_t number[8];
    put_u64(number, visit->begin->number);
    FIRN_TRY(txn_put(apply->session, apply->applied, span_of(apply->environment, 16),
                     span_of(number, sizeof number)));
    FIRN_TRY(txn_commit(apply->session));
    apply->last_group = visit->begin->number;
    apply->groups++;
    return FIRN_OK;
}

/* ---- Rows ---- */

static firn_rc find_tree(struct apply *apply, struct span name)
{
    if (apply->tree != NULL && span_compare(apply->tree_name, name) == 0)
        return FIRN_OK;
    apply->tree = NULL;
    if (name.size_bytes > BINLOG_NAME_MAX)
        return rc_raise(FIRN_E_INVALID, "a tree's name of %zu bytes is too long", name.size_bytes);
    memcpy(apply->name, name.bytes, name.size_bytes);
    apply->name[name.size_bytes] = '\0';
    apply->tree_name = span_of(apply->name, name.size_bytes);
    return store_tree(apply->store, apply->name, STORE_TREE_CREATE | STORE_TREE_VERSIONED,
                      &apply->tree);
}

struct row {
    struct apply *apply;
    const struct binlog_visit *visit;
};

static firn_rc raise_conflict(const struct row *row, const char *found)
{
    const struct binlog_visit *visit = row->visit;
    char key[256];
    size_t shown = visit->event->key.size_bytes;
    shown = shown < 60 ? shown : 60;
    key[kv_format(span_of(visit->event->key.bytes, shown), (uint8_t *)key)] = '\0';
    return rc_raise(FIRN_E_CONFLICT,
                    "the %s at %" PRIu64 " of %s does not fit: in tree %s %s with key \"%s\"; the "
                    "environment is not in the state that the log goes on from (--idempotent "
                    "applies it all the same)",
                    binlog_event_name(visit->event->type), visit->where->offset, visit->where->path,
                    row->apply->name, found, key);
}

static bool fits(const struct binlog_event *event, const struct span *old, const char **found)
{
    if (event->type == BINLOG_INSERT) {
        *found = "there is already a row";
        return old == NULL;
    }
    *found = old == NULL ? "there is no row" : "there is another payload";
    return old != NULL && span_compare(*old, event->before) == 0;
}

static enum btree_action decide(const struct span *old, struct span *payload, firn_rc *rc,
                                void *context)
{
    const struct row *row = context;
    const struct binlog_event *event = row->visit->event;
    const char *found;
    if (!row->apply->options->idempotent && !fits(event, old, &found)) {
        *rc = raise_conflict(row, found);
        return BTREE_KEEP;
    }
    *payload = event->after;
    return event->type == BINLOG_DELETE ? BTREE_DELETE : BTREE_PUT;
}

static firn_rc apply_row(struct apply *apply, const struct binlog_visit *visit)
{
    struct row row = {apply, visit};
    const char *only = apply->options->tree;
    if (only != NULL && span_compare(visit->tree, span_of_text(only)) != 0)
        return FIRN_OK;
    FIRN_TRY(find_tree(apply, visit->tree));
    FIRN_TRY(txn_change(apply->session, apply->tree, visit->event->key, decide, &row));
    apply->rows++;
    return FIRN_OK;
}

static firn_rc apply_statement(struct apply *apply, const struct binlog_visit *visit)
{
    if (apply->options->ignore_statements)
        return FIRN_OK;
    return rc_raise(FIRN_E_UNSUPPORTED,
                    "%s has a statement at %" PRIu64 ", which has to be carried out by who "
                    "understands it: do that, then go on with --ignore-statements",
                    visit->where->path, visit->where->offset);
}

static firn_rc apply_event(const struct binlog_visit *visit, bool *skip, void *context)
{
    struct apply *apply = context;
    switch (visit->event->type) {
    case BINLOG_BEGIN:
        return begin_group(apply, visit, skip);
    case BINLOG_INSERT:
    case BINLOG_UPDATE:
    case BINLOG_DELETE:
        return apply_row(apply, visit);
    case BINLOG_STATEMENT:
        return apply_statement(apply, visit);
    case BINLOG_COMMIT:
        return end_group(apply, visit);
    case BINLOG_TREE:
    case BINLOG_ROTATE:
    case BINLOG_EVENT_TYPES:
        break;
    }
    return FIRN_OK;
}

/* ---- The whole ---- */

static firn_rc print_summary(const struct apply *apply)
{
    if (!apply->options->json) {
        printf("%" PRIu64 " groups applied (%" PRIu64 " rows), %" PRIu64
               " were there already; the last is %" PRIu64 "\n",
               apply->groups, apply->rows, apply->skipped, apply->last_group);
        return FIRN_OK;
    }
    json_t *object = json_pack("{s:I, s:I, s:I, s:I}", "groups", (json_int_t)apply->groups, "rows",
                               (json_int_t)apply->rows, "skipped", (json_int_t)apply->skipped,
                               "last_group", (json_int_t)apply->last_group);
    bool printed = object != NULL && json_dumpf(object, stdout, JSON_INDENT(2)) == 0;
    json_decref(object);
    if (!printed)
        return rc_raise(FIRN_E_NOMEM, "cannot print the summary");
    putchar('\n');
    return FIRN_OK;
}

static firn_rc apply_to(struct apply *apply, char *const *paths, int count, const atomic_bool *stop)
{
    FIRN_TRY(store_tree(apply->store, APPLIED_TREE,
                        STORE_TREE_CREATE | STORE_TREE_VERSIONED | STORE_TREE_SHARED |
                            STORE_TREE_UNRECORDED,
                        &apply->applied));
    FIRN_TRY(txn_session_open(store_transactions(apply->store), &apply->session));
    firn_rc rc = binlog_walk(apply->options, paths, count, stop, apply_event, apply);
    if (rc == FIRN_OK)
        rc = print_summary(apply);
    txn_session_close(apply->session); /* rolls back what was begun */
    return rc;
}

static void fill_options(const struct binlog_command_options *options, struct store_options *to)
{
    to->create = options->create;
    to->binlog = options->binlog;
    to->binlog_sync = (enum store_binlog_sync)options->binlog_sync;
    to->server_id = (uint32_t)options->server_id;
    to->max_binlog_size_bytes = options->max_binlog_size_bytes;
    to->binlog_cache_size_bytes = options->binlog_cache_size_bytes;
    to->binlog_expire_s = options->binlog_expire_s;
}

firn_rc binlog_apply(const struct binlog_command_options *options, const struct option_words *words,
                     char *const *paths, int count, const atomic_bool *stop)
{
    struct environment environment;
    struct apply apply = {.options = options};
    FIRN_TRY(
        environment_prepare(&options->environment, &binlog_table, words, paths[0], &environment));
    fill_options(options, &environment.options);
    firn_rc rc = environment_open_prepared(&environment);
    if (rc == FIRN_OK) {
        apply.store = environment.store;
        rc = apply_to(&apply, paths + 1, count - 1, stop);
    }
    char text[512] = "";
    if (rc != FIRN_OK)
        snprintf(text, sizeof text, "%s", firn_error_text());
    firn_rc close_rc = environment_close(&environment);
    return rc != FIRN_OK ? rc_raise(rc, "%s", text) : close_rc;
}
