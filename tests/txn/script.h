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

#include "script_actor.h"

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
