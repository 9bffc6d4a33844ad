/*
 * Races of those who wait for the log, made to happen: threads stop at injection points until the
 * test lets them go on.
 */
#include "base/inject.h"
#include "redo/redo_support.h"

#include <pthread.h>
#include <time.h>

enum {
    HOLDER, /* has reserved its frame's place and not published it: the hole */
    LATE,   /* wants what lies above, and has read the number of a group that closes meanwhile */
    LEADER, /* is the writer while LATE falls asleep */
    THREADS,
    PATIENCE_S = 20, /* only a failure takes so long */
};

/* A thread, and the point where it is to stop next. */
struct actor {
    pthread_t thread;
    struct redo *redo;
    const char *stop;   /* under the mutex, as the rest: NULL for nowhere */
    const char *at;     /* where it stands, NULL while it runs */
    const char *passes; /* a point to note, without stopping */
    bool has_passed;
    bool has_ended;
    firn_rc rc;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;
static struct actor actors[THREADS];
static _Thread_local struct actor *self;

static void reached(const char *point, void *context)
{
    (void)context;
    if (self == NULL)
        return;
    pthread_mutex_lock(&mutex);
    if (self->passes != NULL && strcmp(point, self->passes) == 0)
        self->has_passed = true;
    if (self->stop != NULL && strcmp(point, self->stop) == 0)
        self->at = self->stop;
    pthread_cond_broadcast(&moved);
    while (self->at != NULL)
        pthread_cond_wait(&moved, &mutex);
    pthread_mutex_unlock(&mutex);
}

static void *append_and_flush(void *context)
{
    static uint64_t number;
    self = context;
    uint64_t end_lsn;
    self->rc = log_append(self->redo, __atomic_fetch_add(&number, 1, __ATOMIC_RELAXED), &end_lsn);
    if (self->rc == FIRN_OK && self != &actors[HOLDER])
        self->rc = redo_flush(self->redo, end_lsn, REDO_FLUSH_SYNC);
    pthread_mutex_lock(&mutex);
    self->has_ended = true;
    pthread_cond_broadcast(&moved);
    pthread_mutex_unlock(&mutex);
    return NULL;
}

/* Wait until something has become true of a thread. */
static void await(const struct actor *actor, const bool *is_true, const char *what)
{
    struct timespec until;
    int error = 0;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S;
    pthread_mutex_lock(&mutex);
    while (!*is_true && error == 0)
        error = pthread_cond_timedwait(&moved, &mutex, &until);
    bool came = *is_true;
    pthread_mutex_unlock(&mutex);
    if (!came)
        fail_msg("thread %d: %s", (int)(actor - actors), what);
}

/* Start a thread and wait until it stands at a point, or has ended if there is none. */
static void start(struct redo *redo, int number, const char *stop)
{
    struct actor *actor = &actors[number];
    *actor = (struct actor){.redo = redo, .stop = stop, .passes = stop};
    assert_int_equal(pthread_create(&actor->thread, NULL, append_and_flush, actor), 0);
    await(actor, stop != NULL ? &actor->has_passed : &actor->has_ended, "does not come there");
}

/* Let a thread go on, and note when it passes a point. */
static void let_go(int number, const char *passes)
{
    pthread_mutex_lock(&mutex);
    struct actor *actor = &actors[number];
    actor->stop = actor->at = NULL;
    actor->passes = passes;
    actor->has_passed = false;
    pthread_cond_broadcast(&moved);
    pthread_mutex_unlock(&mutex);
}

/* Who read a group's number, and then its word when the group had been closed and woken already,
   must not sleep on it: nobody would wake that group again. */
static void nobody_sleeps_on_a_group_that_was_closed_before(void **state)
{
    (void)state;
    if (!test_has_injection())
        skip();
    struct log log;
    struct log_content content;
    log_make(&log);
    log_start(&log, &content);
    inject_set(reached, NULL);
    uint64_t first_lsn;
    ASSERT_OK(log_append(log.redo, 0, &first_lsn));
    start(log.redo, HOLDER, "redo-before-publish");
    start(log.redo, LATE, "redo-group-chosen");
    /* The group that LATE has chosen is closed and woken, and what LATE wants is not written. */
    ASSERT_OK(redo_flush(log.redo, first_lsn, REDO_FLUSH_SYNC));
    start(log.redo, LEADER, "redo-group-closed");
    let_go(LATE, "redo-group-sleeps");
    await(&actors[LATE], &actors[LATE].has_passed, "does not wait while another one writes");
    let_go(HOLDER, NULL);
    await(&actors[HOLDER], &actors[HOLDER].has_ended, "does not publish");
    let_go(LEADER, NULL);
    await(&actors[LEADER], &actors[LEADER].has_ended, "does not write");
    await(&actors[LATE], &actors[LATE].has_ended, "sleeps although its frame is durable");
    for (int i = HOLDER; i < THREADS; i++) {
        pthread_join(actors[i].thread, NULL);
        ASSERT_OK(actors[i].rc);
    }
    inject_set(NULL, NULL);
    log_destroy(&log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_sleeps_on_a_group_that_was_closed_before),
    };
    return cmocka_run_group_tests_name("redo_race", tests, NULL, NULL);
}
