/*
 * history_load.h -- random transactions by threads, written down as they go (history.h).
 *
 * The lists in use move on: each is begun by whoever appends first, so there are always keys that
 * are about to come, for scans to miss. Between them rows come and go that mean nothing, so that
 * there are deleted rows and rolled back ones, and purge moves gaps.
 */
#ifndef FIRN_TESTS_TXN_HISTORY_LOAD_H
#define FIRN_TESTS_TXN_HISTORY_LOAD_H

#include "store/store_world.h"

#include "txn/history.h"

#include <pthread.h>
#include <sched.h>

enum {
    SESSIONS = 5,
    REGISTERS = 4,
    WINDOW = 6,       /* lists in use at a time */
    TXNS_A_LIST = 10, /* by which the window moves on */
    OPS_MAX = 6,
    ELEMENTS_MAX = 1000,
    PAD_BYTES = 1200, /* some lists are large values */
    LIST_BYTES = PAD_BYTES + 8 * ELEMENTS_MAX,
};

/** What is broken, for the judge to find. */
enum broken {
    BROKEN_NOTHING,
    BROKEN_DIRTY_READS,  /* reads take what is in the tree */
    BROKEN_NO_SNAPSHOT,  /* each read sees what is committed by then */
    BROKEN_WEAKER_LEVEL, /* transactions run under a weaker level than they are judged by */
    BROKEN_ATOMICITY,    /* now and then a transaction is committed half way */
    BROKEN_LOST_SYNC,    /* the log is not synced at commit */
};

struct field {
    struct world world;
    struct btree *tree;
    struct history history;
    enum txn_isolation isolation;
    enum history_level judged;
    enum broken broken;
    bool may_lose_power;
    unsigned round;
    unsigned txns_a_session;
    atomic_uint progress; /* transactions begun */
    atomic_uint given_up; /* because others were in the way */
    atomic_bool is_over;
};

struct worker {
    struct field *field;
    struct history_log *log;
    struct txn_session *session;
    struct txn_session *other; /* of the broken layer that reads outside its transaction */
    struct rng rng;
    unsigned number;
    int64_t next_value;
    bool read_only;
    bool is_gone; /* the power is */
    bool has_failed;
    char wrong[256];
    uint8_t bytes[LIST_BYTES];
    int64_t elements[ELEMENTS_MAX];
    char key[32];
};

/* ---- Rows ---- */

static inline struct span list_key(const struct field *field, unsigned list, char text[32])
{
    return span_of(text, (size_t)snprintf(text, 32, "%03u/l%05u", field->round, list));
}

static inline struct span register_key(const struct field *field, unsigned number, char text[32])
{
    return span_of(text, (size_t)snprintf(text, 32, "%03u/r%05u", field->round, number));
}

/* Behind a list, before the next one. */
static inline struct span ghost_key(const struct field *field, unsigned list, unsigned number,
                                    char text[32])
{
    return span_of(text, (size_t)snprintf(text, 32, "%03u/l%05ug%u", field->round, list, number));
}

static inline size_t pad_of(unsigned list)
{
    return list % 5 == 0 ? PAD_BYTES : 0;
}

/* @return how many elements; SIZE_MAX: it is no list */
static inline size_t read_elements(unsigned list, struct span payload, int64_t *elements)
{
    size_t pad = pad_of(list);
    if (payload.size_bytes < pad || (payload.size_bytes - pad) % 8 != 0 ||
        payload.size_bytes > LIST_BYTES)
        return SIZE_MAX;
    size_t count = (payload.size_bytes - pad) / 8;
    for (size_t i = 0; i < count; i++)
        elements[i] = (int64_t)get_u64(payload.bytes + pad + 8 * i);
    return count;
}

static inline firn_rc give_reason(struct worker *worker, const char *wrong)
{
    if (!worker->has_failed)
        snprintf(worker->wrong, sizeof worker->wrong, "%s (%s)", wrong, firn_error_text());
    worker->has_failed = true;
    return FIRN_E_CORRUPT;
}

static inline unsigned pick_list(struct worker *worker)
{
    unsigned base = atomic_load(&worker->field->progress) / TXNS_A_LIST;
    return REGISTERS + base + (unsigned)rng_below(&worker->rng, WINDOW);
}

/* ---- Reading ---- */

/* A statement begins: later reads see what is committed by now, under read committed. */
static inline firn_rc begin_statement(struct worker *worker)
{
    history_statement(worker->log);
    return txn_statement(worker->session);
}

static inline firn_rc read_dirty(struct worker *worker, struct span key, struct span *payload)
{
    FIRN_TRY(btree_get(txn_session_btree(worker->session), worker->field->tree, key, payload));
    *payload = span_of(payload->bytes + TXN_HEAD_BYTES, payload->size_bytes - TXN_HEAD_BYTES);
    return FIRN_OK;
}

static inline firn_rc read_now(struct worker *worker, struct span key, struct span *payload)
{
    FIRN_TRY(txn_begin(worker->other, TXN_READ_COMMITTED, true));
    firn_rc rc = txn_get(worker->other, worker->field->tree, key, TXN_LOCK_NONE, TXN_WAIT, payload);
    (void)txn_commit(worker->other);
    return rc;
}

static inline firn_rc read_row(struct worker *worker, struct span key, enum txn_lock lock,
                               struct span *payload)
{
    if (worker->field->broken == BROKEN_DIRTY_READS)
        return read_dirty(worker, key, payload);
    if (worker->field->broken == BROKEN_NO_SNAPSHOT && txn_id(worker->session) == 0)
        return read_now(worker, key, payload);
    return txn_get(worker->session, worker->field->tree, key, lock,
                   rng_below(&worker->rng, 8) == 0 ? TXN_NOWAIT : TXN_WAIT, payload);
}

static inline enum txn_lock pick_lock(struct worker *worker)
{
    unsigned dice = (unsigned)rng_below(&worker->rng, 10);
    return worker->read_only || dice < 8 ? TXN_LOCK_NONE
           : dice == 8                   ? TXN_LOCK_SHARED
                                         : TXN_LOCK_EXCLUSIVE;
}

static inline firn_rc get_list(struct worker *worker, unsigned list, enum txn_lock lock,
                               size_t *count)
{
    struct span payload;
    FIRN_TRY(begin_statement(worker));
    firn_rc rc = read_row(worker, list_key(worker->field, list, worker->key), lock, &payload);
    if (rc != FIRN_OK && rc != FIRN_E_NOT_FOUND)
        return rc;
    *count = rc == FIRN_OK ? read_elements(list, payload, worker->elements) : 0;
    if (*count == SIZE_MAX)
        return give_reason(worker, "a row that is no list");
    history_list(worker->log, list, worker->elements, *count);
    return FIRN_OK;
}

static inline firn_rc do_read_list(struct worker *worker)
{
    size_t count;
    return get_list(worker, pick_list(worker), pick_lock(worker), &count);
}

static inline firn_rc get_register(struct worker *worker, unsigned number, enum txn_lock lock,
                                   int64_t *value)
{
    struct span payload;
    FIRN_TRY(begin_statement(worker));
    firn_rc rc = read_row(worker, register_key(worker->field, number, worker->key), lock, &payload);
    if (rc != FIRN_OK && rc != FIRN_E_NOT_FOUND)
        return rc;
    *value = rc == FIRN_OK ? (int64_t)get_u64(payload.bytes) : 0;
    history_value(worker->log, number, *value);
    return FIRN_OK;
}

static inline firn_rc do_read_register(struct worker *worker)
{
    int64_t value;
    return get_register(worker, (unsigned)rng_below(&worker->rng, REGISTERS), pick_lock(worker),
                        &value);
}

/* ---- Scans: of a range, each list that is there, and that the others are not ---- */

struct scan {
    unsigned first, last;
    size_t counts[WINDOW];
    bool is_there[WINDOW];
    int64_t elements[WINDOW][ELEMENTS_MAX];
};

static inline firn_rc scan_row(struct worker *worker, struct scan *scan, struct txn_cursor *cursor,
                               bool *is_in_range)
{
    struct span payload, key = txn_cursor_key(cursor);
    char text[32] = "";
    unsigned round, list;
    memcpy(text, key.bytes, key.size_bytes < sizeof text - 1 ? key.size_bytes : sizeof text - 1);
    *is_in_range = sscanf(text, "%u/l%u", &round, &list) == 2 && round == worker->field->round &&
                   list >= scan->first && list <= scan->last;
    if (!*is_in_range || strchr(text, 'g') != NULL)
        return FIRN_OK;
    FIRN_TRY(txn_cursor_payload(cursor, &payload));
    size_t count = read_elements(list, payload, scan->elements[list - scan->first]);
    if (count == SIZE_MAX)
        return give_reason(worker, "a row that is no list");
    if (scan->is_there[list - scan->first])
        return give_reason(worker, "a scan met a row twice");
    scan->counts[list - scan->first] = count;
    scan->is_there[list - scan->first] = true;
    return FIRN_OK;
}

static inline firn_rc scan_rows(struct worker *worker, struct scan *scan, struct txn_cursor *cursor)
{
    bool forward = rng_below(&worker->rng, 2) == 0, is_in_range = true;
    char edge[32];
    list_key(worker->field, forward ? scan->first : scan->last, edge);
    if (!forward)
        strcat(edge, "z"); /* behind the last one's ghosts */
    firn_rc rc = txn_cursor_seek(cursor, forward ? BTREE_SEEK_AT_OR_AFTER : BTREE_SEEK_AT_OR_BEFORE,
                                 span_of_text(edge));
    while (rc == FIRN_OK) {
        FIRN_TRY(scan_row(worker, scan, cursor, &is_in_range));
        if (!is_in_range)
            break;
        if (rng_below(&worker->rng, 4) == 0)
            sched_yield();
        rc = forward ? txn_cursor_next(cursor) : txn_cursor_prev(cursor);
    }
    return rc == FIRN_E_NOT_FOUND ? FIRN_OK : rc;
}

/* Rows that a scan locks are each as of when they were locked; so under read committed such a scan
 * promises no one moment. */
static inline firn_rc do_scan(struct worker *worker)
{
    static _Thread_local struct scan scan;
    struct txn_cursor *cursor;
    enum txn_lock lock =
        worker->field->isolation == TXN_READ_COMMITTED ? TXN_LOCK_NONE : pick_lock(worker);
    enum txn_wait wait = rng_below(&worker->rng, 3) == 0 ? TXN_SKIP_LOCKED : TXN_WAIT;
    if (worker->field->broken == BROKEN_DIRTY_READS || worker->field->broken == BROKEN_NO_SNAPSHOT)
        return do_read_list(worker);
    scan.first = pick_list(worker);
    scan.last = scan.first + (unsigned)rng_below(&worker->rng, WINDOW);
    memset(scan.counts, 0, sizeof scan.counts);
    memset(scan.is_there, 0, sizeof scan.is_there);
    FIRN_TRY(begin_statement(worker));
    FIRN_TRY(txn_cursor_open(worker->session, worker->field->tree, lock, wait, &cursor));
    firn_rc rc = scan_rows(worker, &scan, cursor);
    txn_cursor_close(cursor);
    /* A row that was skipped is not one that is not there. */
    for (unsigned i = 0; rc == FIRN_OK && i <= scan.last - scan.first; i++)
        if (scan.is_there[i] || wait != TXN_SKIP_LOCKED)
            history_list(worker->log, scan.first + i, scan.elements[i], scan.counts[i]);
    return rc;
}

/* ---- Writing ---- */

struct addition {
    struct worker *worker;
    unsigned list;
    int64_t value;
};

static inline struct span put_element(struct worker *worker, unsigned list, const struct span *old,
                                      int64_t value)
{
    size_t size_bytes = pad_of(list);
    memset(worker->bytes, 'p', size_bytes);
    if (old != NULL) {
        memcpy(worker->bytes, old->bytes, old->size_bytes);
        size_bytes = old->size_bytes;
    }
    ENSURE(size_bytes + 8 <= sizeof worker->bytes);
    put_u64(worker->bytes + size_bytes, (uint64_t)value);
    return span_of(worker->bytes, size_bytes + 8);
}

static inline enum btree_action add_element(const struct span *old, struct span *payload,
                                            firn_rc *rc, void *context)
{
    struct addition *addition = context;
    (void)rc;
    *payload = put_element(addition->worker, addition->list, old, addition->value);
    return BTREE_PUT;
}

static inline int64_t new_value(struct worker *worker)
{
    return (int64_t)(worker->number + 1) * 1000000 + ++worker->next_value;
}

static inline firn_rc do_append(struct worker *worker)
{
    struct addition addition = {worker, pick_list(worker), new_value(worker)};
    FIRN_TRY(begin_statement(worker));
    FIRN_TRY(txn_change(worker->session, worker->field->tree,
                        list_key(worker->field, addition.list, worker->key), add_element,
                        &addition));
    history_append(worker->log, addition.list, addition.value);
    return FIRN_OK;
}

/* A change that comes to nothing is a look. */
struct look {
    struct worker *worker;
    unsigned list;
    size_t count;
};

static inline enum btree_action look_at_elements(const struct span *old, struct span *payload,
                                                 firn_rc *rc, void *context)
{
    struct look *look = context;
    (void)payload;
    (void)rc;
    look->count = old != NULL ? read_elements(look->list, *old, look->worker->elements) : 0;
    return BTREE_KEEP;
}

static inline firn_rc do_look(struct worker *worker)
{
    struct look look = {.worker = worker, .list = pick_list(worker)};
    FIRN_TRY(begin_statement(worker));
    FIRN_TRY(txn_change(worker->session, worker->field->tree,
                        list_key(worker->field, look.list, worker->key), look_at_elements, &look));
    if (look.count == SIZE_MAX)
        return give_reason(worker, "a row that is no list");
    history_list(worker->log, look.list, worker->elements, look.count);
    return FIRN_OK;
}

/* Read a list, and put it back with something added. What was read has to be locked where the level
 * does not see to it that nobody else changes it. */
static inline firn_rc do_put_list(struct worker *worker)
{
    unsigned list = pick_list(worker);
    size_t count;
    int64_t value = new_value(worker);
    bool must_lock = worker->field->isolation == TXN_READ_COMMITTED;
    FIRN_TRY(get_list(worker, list, must_lock ? TXN_LOCK_EXCLUSIVE : TXN_LOCK_NONE, &count));
    if (count == 0 && must_lock)
        return FIRN_OK; /* what is not there is not locked */
    size_t pad = pad_of(list);
    memset(worker->bytes, 'p', pad);
    for (size_t i = 0; i < count; i++)
        put_u64(worker->bytes + pad + 8 * i, (uint64_t)worker->elements[i]);
    put_u64(worker->bytes + pad + 8 * count, (uint64_t)value);
    FIRN_TRY(begin_statement(worker));
    FIRN_TRY(txn_put(worker->session, worker->field->tree,
                     list_key(worker->field, list, worker->key),
                     span_of(worker->bytes, pad + 8 * count + 8)));
    history_append(worker->log, list, value);
    return FIRN_OK;
}

struct replacement {
    int64_t replaced;
    uint8_t bytes[8];
};

static inline enum btree_action replace_value(const struct span *old, struct span *payload,
                                              firn_rc *rc, void *context)
{
    struct replacement *replacement = context;
    (void)rc;
    replacement->replaced = old != NULL ? (int64_t)get_u64(old->bytes) : 0;
    *payload = span_of(replacement->bytes, sizeof replacement->bytes);
    return BTREE_PUT;
}

static inline firn_rc write_register(struct worker *worker, unsigned number)
{
    struct replacement replacement;
    int64_t value = new_value(worker);
    put_u64(replacement.bytes, (uint64_t)value);
    FIRN_TRY(begin_statement(worker));
    FIRN_TRY(txn_change(worker->session, worker->field->tree,
                        register_key(worker->field, number, worker->key), replace_value,
                        &replacement));
    history_write(worker->log, number, value, replacement.replaced);
    return FIRN_OK;
}

static inline firn_rc do_write_register(struct worker *worker)
{
    return write_register(worker, (unsigned)rng_below(&worker->rng, REGISTERS));
}

/* As an application does that computes the new value from the old one. */
static inline firn_rc do_update_register(struct worker *worker)
{
    int64_t value;
    unsigned number = (unsigned)rng_below(&worker->rng, REGISTERS);
    FIRN_TRY(get_register(worker, number, pick_lock(worker), &value));
    sched_yield();
    return write_register(worker, number);
}

/* A row that nobody asks for comes, and goes. */
static inline firn_rc do_ghost(struct worker *worker)
{
    struct span key = ghost_key(worker->field, pick_list(worker), worker->number, worker->key);
    firn_rc rc = txn_insert(worker->session, worker->field->tree, key, span_of_text("ghost"));
    if (rc == FIRN_E_EXISTS || (rc == FIRN_OK && rng_below(&worker->rng, 2) == 0))
        rc = txn_delete(worker->session, worker->field->tree, key);
    return rc;
}

typedef firn_rc operation(struct worker *worker);

static inline firn_rc do_something(struct worker *worker)
{
    static operation *const reads[] = {do_read_list, do_scan, do_read_register};
    static operation *const all[] = {
        do_append,         do_append,          do_append, do_read_list, do_read_list,     do_scan,
        do_write_register, do_update_register, do_ghost,  do_put_list,  do_read_register, do_look,
    };
    if (worker->read_only)
        return reads[rng_below(&worker->rng, ARRAY_COUNT(reads))](worker);
    return all[rng_below(&worker->rng, ARRAY_COUNT(all))](worker);
}

/* Some operations that come to nothing. */
static inline firn_rc do_and_undo(struct worker *worker)
{
    struct txn_savepoint savepoint;
    uint32_t place = history_savepoint(worker->log);
    FIRN_TRY(txn_savepoint(worker->session, &savepoint));
    for (unsigned i = 1 + (unsigned)rng_below(&worker->rng, 3); i > 0; i--)
        FIRN_TRY(do_something(worker));
    FIRN_TRY(txn_rollback_to(worker->session, &savepoint));
    history_undo(worker->log, place);
    return FIRN_OK;
}

/* ---- Transactions ---- */

static inline bool is_contention(firn_rc rc)
{
    return rc == FIRN_E_DEADLOCK || rc == FIRN_E_CONFLICT || rc == FIRN_E_BUSY ||
           rc == FIRN_E_LOCK_WAIT;
}

static inline firn_rc do_operations(struct worker *worker)
{
    for (unsigned i = 1 + (unsigned)rng_below(&worker->rng, OPS_MAX); i > 0; i--) {
        bool undoes = !worker->read_only && rng_below(&worker->rng, 12) == 0;
        FIRN_TRY(undoes ? do_and_undo(worker) : do_something(worker));
        if (worker->field->broken == BROKEN_ATOMICITY && rng_below(&worker->rng, 4) == 0) {
            FIRN_TRY(txn_commit(worker->session));
            FIRN_TRY(txn_begin(worker->session, worker->field->isolation, worker->read_only));
        }
        if (rng_below(&worker->rng, 2) == 0)
            sched_yield();
    }
    return FIRN_OK;
}

/* In one step or in two. */
static inline firn_rc commit(struct worker *worker)
{
    char xid[32];
    if (rng_below(&worker->rng, 10) > 0)
        return txn_commit(worker->session);
    struct span name = span_of(
        xid, (size_t)snprintf(xid, sizeof xid, "%u/%u", worker->field->round, worker->number));
    FIRN_TRY(txn_prepare(worker->session, name));
    sched_yield();
    return txn_commit_prepared(worker->session, name);
}

static inline void give_up(struct worker *worker, firn_rc rc)
{
    bool was_in_the_way = is_contention(rc);
    history_end(worker->log, HISTORY_ABORTED);
    if (was_in_the_way)
        atomic_fetch_add(&worker->field->given_up, 1);
    rc = txn_rollback(worker->session);
    if (was_in_the_way && rc == FIRN_OK)
        return;
    worker->is_gone = true;
    if (!worker->field->may_lose_power)
        (void)give_reason(worker, "a transaction failed");
}

static inline void run_txn(struct worker *worker)
{
    struct field *field = worker->field;
    atomic_fetch_add(&field->progress, 1);
    worker->read_only = rng_below(&worker->rng, 5) == 0;
    if (txn_begin(worker->session, field->isolation, worker->read_only) != FIRN_OK) {
        (void)give_reason(worker, "a transaction could not begin");
        return;
    }
    history_begin(worker->log);
    firn_rc rc = do_operations(worker);
    if (rc == FIRN_OK && rng_below(&worker->rng, 12) == 0) { /* the user has thought better of it */
        history_end(worker->log, HISTORY_ABORTED);
        worker->is_gone = txn_rollback(worker->session) != FIRN_OK;
        return;
    }
    if (rc != FIRN_OK) {
        give_up(worker, rc);
        return;
    }
    rc = commit(worker);
    history_end(worker->log, rc == FIRN_OK ? HISTORY_COMMITTED : HISTORY_IN_DOUBT);
    worker->is_gone = rc != FIRN_OK;
    if (rc != FIRN_OK && !field->may_lose_power)
        (void)give_reason(worker, "a commit failed");
}

static inline void *worker_main(void *context)
{
    struct worker *worker = context;
    struct txn_set *set = store_transactions(worker->field->world.store);
    if (txn_session_open(set, &worker->session) != FIRN_OK ||
        txn_session_open(set, &worker->other) != FIRN_OK)
        (void)give_reason(worker, "no session");
    else if (worker->field->may_lose_power) /* whoever cannot roll back keeps his locks */
        txn_session_set_lock_wait(worker->session, 300 * NS_PER_MS);
    for (unsigned i = 0;
         i < worker->field->txns_a_session && !worker->has_failed && !worker->is_gone; i++)
        run_txn(worker);
    txn_session_close(worker->other);
    txn_session_close(worker->session);
    return NULL;
}

#endif
