/*
 * script.h -- sessions that act by a written interleaving, and statements that wait in it.
 *
 * A script is steps between semicolons: "T1 put 1 11; T2 get 1 as a; T1 commit". Each session has a
 * thread of its own, so a statement that waits for a lock does so in earnest; that it waits is read
 * from the locks (its owner is queued and nobody has told it anything), never guessed by sleeping.
 * While a session waits its further steps are put off, and follow as soon as it goes on, before the
 * next step of the script: as if two people typed at two terminals.
 *
 *   get K, share K, lock K     read a row; FOR SHARE; FOR UPDATE
 *   scan A B, share-scan A B, lock-scan A B, and back-... of each: the rows from A to B
 *   where M                    all rows whose value is a multiple of M
 *   put K V, insert K V, add K D, delete K, delete-where V
 *   savepoint, back            ROLLBACK TO SAVEPOINT
 *   commit, rollback, read-only (before the first statement)
 *   goes on                    nothing: "=>" says how what it waited for has ended, or: waits
 *   purge, cancel              of the machinery: no statements
 *
 * Behind a statement: nowait, skip (SKIP LOCKED), limit (wait no time at all); "as a" keeps what it
 * returned, and "a+1" is a value made of that; "=> 10" is what it must return: a value, rows as
 * "1:10,2:20", ok, none, exists, conflict, deadlock, busy, limit, cancelled, or waits.
 *
 * After conflict and deadlock the session rolls back, as an application has to.
 */
#ifndef FIRN_TESTS_TXN_SCRIPT_H
#define FIRN_TESTS_TXN_SCRIPT_H

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

/* ---- Who waits; in the script's thread ---- */

static inline bool script_is_done(struct actor *actor)
{
    pthread_mutex_lock(&actor->mutex);
    bool is_done = actor->is_done;
    pthread_mutex_unlock(&actor->mutex);
    return is_done;
}

static inline bool script_is_queued(struct actor *actor)
{
    struct lock_owner *locks = atomic_load(&actor->locks);
    if (locks == NULL || actor->given->no_time)
        return false;
    uint32_t word = atomic_load_explicit(&locks->word, memory_order_acquire);
    return word == WAIT_QUEUED || word == WAIT_ASLEEP;
}

static inline void script_collect(struct actor *actor)
{
    struct script *script = actor->script;
    const struct script_step *step = actor->given;
    actor->is_busy = false;
    script->had_conflict |= strcmp(actor->result, "conflict") == 0;
    script->deadlocks += strcmp(actor->result, "deadlock") == 0;
    if (step->label != '\0')
        memcpy(script->labels[step->label - 'a'], actor->result, sizeof actor->result);
}

/* One look at all sessions with something to do. @return false when nothing moves any more: each of
 * them is queued, and whoever was chosen to give up in a deadlock has done so.
 *
 * The order matters. A wait is entered with its lock's partition held, and the counters go through
 * all partitions: so a wait that was seen in an owner's word is wholly counted, with the deadlock
 * that it may have closed. */
static inline bool script_look(struct script *script)
{
    struct txn_counters now;
    for (unsigned i = 0; i < SCRIPT_ACTORS; i++) {
        struct actor *actor = &script->actors[i];
        if (!actor->is_busy)
            continue;
        if (script_is_done(actor)) {
            script_collect(actor);
            return true;
        }
        if (!script_is_queued(actor))
            return true;
        script->has_waited = true;
    }
    txn_counters(store_transactions(script->world->store), &now);
    return now.deadlocks - script->deadlocks_before != script->deadlocks;
}

static inline void script_settle(struct script *script)
{
    while (script_look(script))
        clock_pause(clock_real(), 20 * NS_PER_US);
}

static inline void script_expect(const struct script_step *step, const char *what)
{
    if (step->expected[0] != '\0' && strcmp(step->expected, what) != 0)
        fail_msg("%s\n    but: %s", step->text, what);
}

static inline void script_start(struct actor *actor, const struct script_step *step)
{
    actor->is_busy = true;
    actor->given = step;
    pthread_mutex_lock(&actor->mutex);
    actor->is_done = false;
    actor->step = step;
    pthread_cond_signal(&actor->wake);
    pthread_mutex_unlock(&actor->mutex);
    script_settle(actor->script);
    script_expect(step, actor->is_busy ? "waits" : actor->result);
}

/* Steps that were put off, of sessions that have gone on. */
static inline void script_catch_up(struct script *script)
{
    for (unsigned i = 0; i < SCRIPT_ACTORS; i++) {
        struct actor *actor = &script->actors[i];
        if (actor->is_busy || actor->put_off_count == 0)
            continue;
        const struct script_step *step = actor->put_off[0];
        actor->put_off_count--;
        memmove(&actor->put_off[0], &actor->put_off[1],
                actor->put_off_count * sizeof actor->put_off[0]);
        if (!actor->is_over)
            script_start(actor, step);
        i = UINT_MAX; /* from the first again */
    }
}

static inline void script_take(struct script *script, const struct script_step *step)
{
    struct actor *actor = step->actor;
    if (script_is(step, "purge")) {
        ASSERT_OK(txn_tick(store_transactions(script->world->store)));
    } else if (script_is(step, "cancel")) {
        txn_session_cancel(actor->session);
        script_settle(script);
    } else if (script_is(step, "goes")) {
        script_expect(step, actor->is_busy ? "waits" : actor->result);
    } else if (actor->is_busy) {
        if (script->is_strict)
            fail_msg("%s\n    the session waits, and can do nothing", step->text);
        actor->put_off[actor->put_off_count++] = step;
    } else if (!actor->is_over || script->is_strict) {
        actor->is_over = false;
        script_start(actor, step);
    }
    script_catch_up(script);
}

/* ---- Reading a script ---- */

static inline void script_read_words(struct script_step *step, char *words)
{
    char *rest;
    char *word = strtok_r(words, " \n", &rest);
    for (; word != NULL; word = strtok_r(NULL, " \n", &rest)) {
        if (strcmp(word, "as") == 0)
            step->label = strtok_r(NULL, " \n", &rest)[0];
        else if (strcmp(word, "=>") == 0)
            snprintf(step->expected, sizeof step->expected, "%s", strtok_r(NULL, " \n", &rest));
        else if (strcmp(word, "nowait") == 0)
            step->wait = TXN_NOWAIT;
        else if (strcmp(word, "skip") == 0)
            step->wait = TXN_SKIP_LOCKED;
        else if (strcmp(word, "limit") == 0)
            step->no_time = true;
        else
            snprintf(step->words[step->count++], sizeof step->words[0], "%s", word);
    }
}

static inline void script_read_step(struct script *script, const char *text, size_t size_bytes)
{
    char copy[SCRIPT_TEXT], name[24];
    int used = 0;
    unsigned number;
    while (size_bytes > 0 && (*text == ' ' || *text == '\n')) {
        text++;
        size_bytes--;
    }
    if (size_bytes == 0)
        return;
    assert_true(size_bytes < sizeof copy && script->step_count < SCRIPT_STEPS_MAX);
    struct script_step *step = &script->steps[script->step_count++];
    memcpy(copy, text, size_bytes);
    copy[size_bytes] = '\0';
    *step = (struct script_step){.wait = TXN_WAIT};
    snprintf(step->text, sizeof step->text, "%s", copy);
    if (sscanf(copy, "T%u %23s%n", &number, name, &used) != 2 || number < 1 ||
        number > SCRIPT_ACTORS)
        fail_msg("no step: %s", copy);
    step->actor = &script->actors[number - 1];
    for (size_t i = 0; i < ARRAY_COUNT(script_verbs); i++)
        if (strcmp(script_verbs[i].name, name) == 0)
            step->verb = &script_verbs[i];
    if (step->verb == NULL)
        fail_msg("no such statement: %s", copy);
    script_read_words(step, copy + used);
}

static inline void script_read(struct script *script, const char *text)
{
    while (*text != '\0') {
        size_t size_bytes = strcspn(text, ";");
        script_read_step(script, text, size_bytes);
        text += size_bytes + (text[size_bytes] == ';');
    }
}

/* ---- A run ---- */

/** Make a script's memory, for free(). It is not on the stack, for the threads of one that has
 * failed go on. */
static inline struct script *script_new(void)
{
    return calloc(1, sizeof(struct script));
}

static inline void script_begin(struct script *script, struct world *world, struct btree *tree)
{
    struct txn_counters now;
    script->world = world;
    script->tree = tree;
    txn_counters(store_transactions(world->store), &now);
    script->deadlocks_before = now.deadlocks;
    for (unsigned i = 0; i < SCRIPT_ACTORS; i++) {
        struct actor *actor = &script->actors[i];
        actor->script = script;
        actor->number = i + 1;
        ASSERT_OK(txn_session_open(store_transactions(world->store), &actor->session));
        pthread_mutex_init(&actor->mutex, NULL);
        pthread_cond_init(&actor->wake, NULL);
        assert_int_equal(pthread_create(&actor->thread, NULL, script_actor_main, actor), 0);
    }
}

static inline void script_stop(struct actor *actor)
{
    pthread_mutex_lock(&actor->mutex);
    actor->stops = true;
    pthread_cond_signal(&actor->wake);
    pthread_mutex_unlock(&actor->mutex);
    pthread_join(actor->thread, NULL);
    pthread_mutex_destroy(&actor->mutex);
    pthread_cond_destroy(&actor->wake);
    txn_session_close(actor->session);
}

/* The rows as whoever comes next sees them. */
static inline void script_read_final(struct script *script)
{
    static const struct script_verb verb = {"scan", act_scan, TXN_LOCK_NONE, false};
    struct script_step step = {.verb = &verb, .words = {"0", "999"}};
    struct actor reader = {.script = script};
    ASSERT_OK(txn_session_open(store_transactions(script->world->store), &reader.session));
    ASSERT_OK(txn_begin(reader.session, TXN_READ_COMMITTED, true));
    act_scan(&reader, &step);
    memcpy(script->final, reader.result, sizeof reader.result);
    txn_session_close(reader.session);
}

static inline void script_end(struct script *script)
{
    for (unsigned i = 0; i < SCRIPT_ACTORS; i++)
        if (script->actors[i].is_busy)
            fail_msg("T%u waits for ever: %s", i + 1, script->actors[i].given->text);
    for (unsigned i = 0; i < SCRIPT_ACTORS; i++)
        script_stop(&script->actors[i]);
    script_read_final(script);
}

/** Carry out a script that has been begun, from beginning to end. */
static inline void script_run(struct script *script, const char *text)
{
    script_read(script, text);
    for (unsigned i = 0; i < script->step_count; i++)
        script_take(script, &script->steps[i]);
    script_end(script);
}

/* ---- A world for scripts ---- */

static inline void script_open_world(struct world *world, struct btree **tree)
{
    struct sim_disk *disk = disk_make();
    world_init(world, disk, 1);
    ASSERT_OK(world_open(world));
    ASSERT_OK(store_tree(world->store, "rows", STORE_TREE_CREATE | STORE_TREE_VERSIONED, tree));
}

static inline void script_close_world(struct world *world)
{
    struct store_check_result result;
    char text[512] = "";
    ASSERT_OK(txn_tick(store_transactions(world->store)));
    firn_rc rc = store_check(world->store, 1, world_problem, text, NULL, &result);
    if (rc != FIRN_OK)
        fail_msg("%s", text[0] != '\0' ? text : firn_error_text());
    world_end(world);
    sim_disk_destroy(world->disk);
}

/** Make the rows what a text says: "1:10,2:20". What else is there is deleted, and purged. */
static inline void script_set_rows(struct world *world, struct btree *tree, const char *rows)
{
    struct txn_session *session;
    struct txn_cursor *cursor;
    struct txn_set *set = store_transactions(world->store);
    char text[8];
    uint8_t value[8];
    ASSERT_OK(txn_session_open(set, &session));
    ASSERT_OK(txn_begin(session, TXN_READ_COMMITTED, false));
    ASSERT_OK(txn_cursor_open(session, tree, TXN_LOCK_NONE, TXN_WAIT, &cursor));
    firn_rc rc = txn_cursor_seek(cursor, BTREE_SEEK_FIRST, span_of(NULL, 0));
    for (; rc == FIRN_OK; rc = txn_cursor_next(cursor))
        ASSERT_OK(
            txn_delete(session, tree, script_key(script_key_number(txn_cursor_key(cursor)), text)));
    assert_int_equal(rc, FIRN_E_NOT_FOUND);
    txn_cursor_close(cursor);
    ASSERT_OK(txn_commit(session));
    ASSERT_OK(txn_tick(set));
    ASSERT_OK(txn_begin(session, TXN_READ_COMMITTED, false));
    while (*rows != '\0') {
        char *rest;
        long key = strtol(rows, &rest, 10);
        put_u64(value, strtoull(rest + 1, &rest, 10));
        ASSERT_OK(txn_put(session, tree, script_key(key, text), span_of(value, sizeof value)));
        rows = *rest == ',' ? rest + 1 : rest;
    }
    ASSERT_OK(txn_commit(session));
    txn_session_close(session);
    ASSERT_OK(txn_tick(set));
}

#endif
