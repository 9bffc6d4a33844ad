/*
 * script_actor.h -- a session of a script, its thread, and what it can do there. See script.h.
 */
#ifndef FIRN_TESTS_TXN_SCRIPT_ACTOR_H
#define FIRN_TESTS_TXN_SCRIPT_ACTOR_H

#include "store/store_world.h"

#include "txn/lock_table_internal.h"
#include "txn/txn_internal.h"

#include <limits.h>
#include <pthread.h>

enum {
    SCRIPT_ACTORS = 4,
    SCRIPT_STEPS_MAX = 48,
    SCRIPT_TEXT = 96,
    SCRIPT_LABELS = 26,
};

struct actor;

/** A step that was read from the script. */
struct script_step {
    struct actor *actor;
    const struct script_verb *verb;
    char text[SCRIPT_TEXT]; /* as it was written */
    char words[4][16];      /* what stands behind the verb, modifiers excluded */
    unsigned count;
    enum txn_wait wait;
    bool no_time; /* the limit of its wait is 0 */
    char label;
    char expected[40];
};

struct script_verb {
    const char *name;
    void (*act)(struct actor *actor, const struct script_step *step);
    enum txn_lock lock;
    bool backward;
};

/** A session and its thread. */
struct actor {
    struct script *script;
    unsigned number;
    struct txn_session *session;
    struct txn_savepoint savepoint;
    bool read_only;
    bool is_over; /* it has committed or given up: later steps are passed over */
    bool has_committed;
    char result[SCRIPT_TEXT];
    _Atomic(struct lock_owner *)
        locks; /* of its transaction; the memory stays as long as it does */

    pthread_t thread;
    pthread_mutex_t mutex; /* step, is_done, stops */
    pthread_cond_t wake;
    const struct script_step *step;
    bool is_done;
    bool stops;

    /* The script's thread alone. */
    bool is_busy; /* a step has been given to it and not been collected */
    const struct script_step *given;
    const struct script_step *put_off[SCRIPT_STEPS_MAX];
    unsigned put_off_count;
};

/** A run of a script. */
struct script {
    struct world *world;
    struct btree *tree;
    enum txn_isolation isolation;
    bool autocommit; /* a broken layer: each statement is a transaction, so there is no isolation */
    bool is_strict;  /* a step for a session that waits is a mistake in the script */
    struct actor actors[SCRIPT_ACTORS];
    struct script_step steps[SCRIPT_STEPS_MAX];
    unsigned step_count;
    char labels[SCRIPT_LABELS][SCRIPT_TEXT];
    char final[SCRIPT_TEXT]; /* the rows at the end */

    /* What happened. */
    bool has_waited;
    bool had_conflict;
    uint64_t deadlocks_before;
    uint64_t deadlocks; /* collected */
};

/* ---- Rows: keys are numbers below 1000, values 64-bit numbers ---- */

static inline struct span script_key(long key, char text[8])
{
    return span_of(text, (size_t)snprintf(text, 8, "%03ld", key));
}

static inline long script_key_number(struct span key)
{
    char text[8] = "";
    memcpy(text, key.bytes, key.size_bytes < 7 ? key.size_bytes : 7);
    return strtol(text, NULL, 10);
}

static inline int64_t script_value(struct span payload)
{
    return payload.size_bytes == 8 ? (int64_t)get_u64(payload.bytes) : INT64_MIN;
}

/* ---- Statements; in the actor's thread ---- */

static inline const char *script_outcome(firn_rc rc)
{
    switch (rc) {
    case FIRN_OK:
        return "ok";
    case FIRN_E_NOT_FOUND:
        return "none";
    case FIRN_E_EXISTS:
        return "exists";
    case FIRN_E_CONFLICT:
        return "conflict";
    case FIRN_E_DEADLOCK:
        return "deadlock";
    case FIRN_E_BUSY:
        return "busy";
    case FIRN_E_LOCK_WAIT:
        return "limit";
    case FIRN_E_CANCELLED:
        return "cancelled";
    default:
        return firn_rc_text(rc);
    }
}

static inline void script_say(struct actor *actor, firn_rc rc)
{
    snprintf(actor->result, sizeof actor->result, "%s", script_outcome(rc));
}

static inline void act_get(struct actor *actor, const struct script_step *step)
{
    char key[8];
    struct span payload;
    firn_rc rc = txn_get(actor->session, actor->script->tree,
                         script_key(strtol(step->words[0], NULL, 10), key), step->verb->lock,
                         step->wait, &payload);
    script_say(actor, rc);
    if (rc == FIRN_OK)
        snprintf(actor->result, sizeof actor->result, "%lld", (long long)script_value(payload));
}

/* Append "1:10" to the result. */
static inline void script_show(struct actor *actor, long key, int64_t value)
{
    size_t used = strlen(actor->result);
    snprintf(actor->result + used, sizeof actor->result - used, "%s%ld:%lld", used > 0 ? "," : "",
             key, (long long)value);
}

/** What a scan does with each row. @return how to go on */
typedef firn_rc script_row(struct actor *actor, long key, int64_t value, long wanted);

static inline firn_rc row_show(struct actor *actor, long key, int64_t value, long wanted)
{
    (void)wanted;
    script_show(actor, key, value);
    return FIRN_OK;
}

static inline firn_rc row_show_multiple(struct actor *actor, long key, int64_t value, long wanted)
{
    if (value % wanted == 0)
        script_show(actor, key, value);
    return FIRN_OK;
}

static inline firn_rc row_delete(struct actor *actor, long key, int64_t value, long wanted)
{
    char text[8];
    if (value != wanted)
        return FIRN_OK;
    return txn_delete(actor->session, actor->script->tree, script_key(key, text));
}

static inline firn_rc script_walk(struct actor *actor, const struct script_step *step,
                                  struct txn_cursor *cursor, long from, long to, script_row *row,
                                  long wanted)
{
    char text[8];
    bool backward = step->verb->backward;
    struct span edge = script_key(backward ? to : from, text);
    firn_rc rc =
        txn_cursor_seek(cursor, backward ? BTREE_SEEK_AT_OR_BEFORE : BTREE_SEEK_AT_OR_AFTER, edge);
    for (; rc == FIRN_OK; rc = backward ? txn_cursor_prev(cursor) : txn_cursor_next(cursor)) {
        struct span payload;
        long key = script_key_number(txn_cursor_key(cursor));
        if (backward ? key < from : key > to)
            return FIRN_OK;
        FIRN_TRY(txn_cursor_payload(cursor, &payload));
        FIRN_TRY(row(actor, key, script_value(payload), wanted));
    }
    return rc == FIRN_E_NOT_FOUND ? FIRN_OK : rc;
}

static inline void script_scan(struct actor *actor, const struct script_step *step, long from,
                               long to, script_row *row, long wanted)
{
    struct txn_cursor *cursor;
    actor->result[0] = '\0';
    firn_rc rc =
        txn_cursor_open(actor->session, actor->script->tree, step->verb->lock, step->wait, &cursor);
    if (rc == FIRN_OK) {
        rc = script_walk(actor, step, cursor, from, to, row, wanted);
        txn_cursor_close(cursor);
    }
    if (rc != FIRN_OK)
        script_say(actor, rc);
    else if (actor->result[0] == '\0')
        script_say(actor, FIRN_E_NOT_FOUND);
}

static inline void act_scan(struct actor *actor, const struct script_step *step)
{
    script_scan(actor, step, strtol(step->words[0], NULL, 10), strtol(step->words[1], NULL, 10),
                row_show, 0);
}

static inline void act_where(struct actor *actor, const struct script_step *step)
{
    script_scan(actor, step, 0, 999, row_show_multiple, strtol(step->words[0], NULL, 10));
}

static inline void act_delete_where(struct actor *actor, const struct script_step *step)
{
    script_scan(actor, step, 0, 999, row_delete, strtol(step->words[0], NULL, 10));
    if (strcmp(actor->result, "none") == 0)
        script_say(actor, FIRN_OK);
}

/* "11", or "a+1": what a statement returned before, and something. */
static inline int64_t script_number(const struct script *script, const char *word)
{
    if (word[0] < 'a' || word[0] > 'z')
        return strtol(word, NULL, 10);
    return strtol(script->labels[word[0] - 'a'], NULL, 10) + strtol(word + 1, NULL, 10);
}

static inline void act_write(struct actor *actor, const struct script_step *step)
{
    char key[8];
    uint8_t value[8];
    struct span name = script_key(strtol(step->words[0], NULL, 10), key);
    bool inserts = strcmp(step->verb->name, "insert") == 0;
    put_u64(value, (uint64_t)script_number(actor->script, step->words[1]));
    script_say(actor, inserts ? txn_insert(actor->session, actor->script->tree, name,
                                           span_of(value, sizeof value))
                              : txn_put(actor->session, actor->script->tree, name,
                                        span_of(value, sizeof value)));
}

static inline void act_delete(struct actor *actor, const struct script_step *step)
{
    char key[8];
    script_say(actor, txn_delete(actor->session, actor->script->tree,
                                 script_key(strtol(step->words[0], NULL, 10), key)));
}

struct script_addition {
    int64_t difference;
    uint8_t value[8];
};

/* As UPDATE does: where there is no row, nothing is changed. */
static inline enum btree_action script_add(const struct span *old, struct span *payload,
                                           firn_rc *rc, void *context)
{
    struct script_addition *addition = context;
    (void)rc;
    if (old == NULL)
        return BTREE_KEEP;
    put_u64(addition->value, (uint64_t)(script_value(*old) + addition->difference));
    *payload = span_of(addition->value, sizeof addition->value);
    return BTREE_PUT;
}

static inline void act_add(struct actor *actor, const struct script_step *step)
{
    char key[8];
    struct script_addition addition = {.difference = strtol(step->words[1], NULL, 10)};
    script_say(actor, txn_change(actor->session, actor->script->tree,
                                 script_key(strtol(step->words[0], NULL, 10), key), script_add,
                                 &addition));
}

static inline void act_savepoint(struct actor *actor, const struct script_step *step)
{
    (void)step;
    script_say(actor, txn_savepoint(actor->session, &actor->savepoint));
}

static inline void act_back(struct actor *actor, const struct script_step *step)
{
    (void)step;
    script_say(actor, txn_rollback_to(actor->session, &actor->savepoint));
}

static inline void act_commit(struct actor *actor, const struct script_step *step)
{
    (void)step;
    firn_rc rc = txn_commit(actor->session);
    actor->has_committed = rc == FIRN_OK;
    actor->is_over = true;
    script_say(actor, rc);
}

static inline void act_rollback(struct actor *actor, const struct script_step *step)
{
    (void)step;
    actor->is_over = true;
    script_say(actor, txn_rollback(actor->session));
}

static inline void act_read_only(struct actor *actor, const struct script_step *step)
{
    (void)step;
    actor->read_only = true;
    script_say(actor, FIRN_OK);
}

static inline void act_nothing(struct actor *actor, const struct script_step *step)
{
    (void)actor;
    (void)step;
}

static const struct script_verb script_verbs[] = {
    {"get", act_get, TXN_LOCK_NONE, false},
    {"share", act_get, TXN_LOCK_SHARED, false},
    {"lock", act_get, TXN_LOCK_EXCLUSIVE, false},
    {"scan", act_scan, TXN_LOCK_NONE, false},
    {"share-scan", act_scan, TXN_LOCK_SHARED, false},
    {"lock-scan", act_scan, TXN_LOCK_EXCLUSIVE, false},
    {"back-scan", act_scan, TXN_LOCK_NONE, true},
    {"back-share-scan", act_scan, TXN_LOCK_SHARED, true},
    {"back-lock-scan", act_scan, TXN_LOCK_EXCLUSIVE, true},
    {"where", act_where, TXN_LOCK_NONE, false},
    {"put", act_write, TXN_LOCK_NONE, false},
    {"insert", act_write, TXN_LOCK_NONE, false},
    {"add", act_add, TXN_LOCK_NONE, false},
    {"delete", act_delete, TXN_LOCK_NONE, false},
    {"delete-where", act_delete_where, TXN_LOCK_EXCLUSIVE, false},
    {"savepoint", act_savepoint, TXN_LOCK_NONE, false},
    {"back", act_back, TXN_LOCK_NONE, false},
    {"commit", act_commit, TXN_LOCK_NONE, false},
    {"rollback", act_rollback, TXN_LOCK_NONE, false},
    {"read-only", act_read_only, TXN_LOCK_NONE, false},
    {"goes", act_nothing, TXN_LOCK_NONE, false},
    {"purge", act_nothing, TXN_LOCK_NONE, false},
    {"cancel", act_nothing, TXN_LOCK_NONE, false},
};

static inline bool script_is(const struct script_step *step, const char *verb)
{
    return strcmp(step->verb->name, verb) == 0;
}

static inline bool script_ends(const struct script_step *step)
{
    return script_is(step, "commit") || script_is(step, "rollback");
}

/* The broken layer: nothing lasts longer than its statement. */
static inline void script_perform_alone(struct actor *actor, const struct script_step *step)
{
    actor->has_committed = actor->has_committed || script_is(step, "commit");
    script_say(actor, FIRN_OK);
    if (script_ends(step) || script_is(step, "read-only"))
        return;
    script_say(actor, txn_begin(actor->session, TXN_READ_COMMITTED, false));
    step->verb->act(actor, step);
    (void)txn_commit(actor->session);
}

static inline void script_perform(struct actor *actor, const struct script_step *step)
{
    struct script *script = actor->script;
    if (script->autocommit) {
        script_perform_alone(actor, step);
        return;
    }
    if (!txn_is_open(actor->session) && !script_is(step, "read-only")) {
        firn_rc rc = txn_begin(actor->session, script->isolation, actor->read_only);
        if (rc != FIRN_OK) {
            script_say(actor, rc);
            return;
        }
        atomic_store(&actor->locks, &actor->session->txn->locks);
    }
    if (txn_is_open(actor->session))
        (void)txn_statement(actor->session);
    txn_session_set_lock_wait(actor->session, step->no_time ? 0 : UINT64_MAX);
    step->verb->act(actor, step);
    if (strcmp(actor->result, "conflict") == 0 || strcmp(actor->result, "deadlock") == 0) {
        (void)txn_rollback(actor->session);
        actor->is_over = true;
    }
    if (atomic_load(&actor->locks) != NULL) /* a limit that is over leaves it as it was */
        atomic_store(&atomic_load(&actor->locks)->word, WAIT_NONE);
}

static inline void *script_actor_main(void *context)
{
    struct actor *actor = context;
    pthread_mutex_lock(&actor->mutex);
    while (!actor->stops) {
        const struct script_step *step = actor->step;
        if (step == NULL) {
            pthread_cond_wait(&actor->wake, &actor->mutex);
            continue;
        }
        pthread_mutex_unlock(&actor->mutex);
        script_perform(actor, step);
        pthread_mutex_lock(&actor->mutex);
        actor->step = NULL;
        actor->is_done = true;
    }
    pthread_mutex_unlock(&actor->mutex);
    return NULL;
}

#endif
