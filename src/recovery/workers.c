#include "recovery/recovery_internal.h"

#include "base/check.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { TICK_NS = 100000000 };

/* With the mutex. The first failure counts; what is left of the batch is not begun. */
static void note_failure(struct workers *workers, firn_rc rc)
{
    if (rc == FIRN_OK || workers->rc != FIRN_OK)
        return;
    workers->rc = rc;
    snprintf(workers->error, sizeof(workers->error), "%s", firn_error_text());
    workers->next_part = workers->batch->part_count;
}

/* With the mutex, which is let go meanwhile. @return false if there was no part to apply */
static bool apply_part(struct workers *workers, struct applier *applier)
{
    const struct batch *batch = workers->batch;
    if (batch == NULL || workers->next_part == batch->part_count)
        return false;
    unsigned number = workers->next_part++;
    if (batch->downward)
        number = batch->part_count - 1 - number;
    workers->busy++;
    pthread_mutex_unlock(&workers->mutex);
    firn_rc rc = applier_run(applier, &batch->parts[number], batch->downward);
    pthread_mutex_lock(&workers->mutex);
    note_failure(workers, rc);
    workers->busy--;
    return true;
}

static bool is_finished(const struct workers *workers)
{
    return workers->batch == NULL ||
           (workers->busy == 0 && workers->next_part == workers->batch->part_count);
}

/* Each worker takes the first applier that nobody has. */
static void *work(void *context)
{
    struct workers *workers = context;
    pthread_mutex_lock(&workers->mutex);
    struct applier *applier = &workers->appliers[workers->started++];
    while (!workers->stop) {
        if (apply_part(workers, applier)) {
            if (is_finished(workers))
                pthread_cond_signal(&workers->finished);
        } else {
            pthread_cond_wait(&workers->given, &workers->mutex);
        }
    }
    pthread_mutex_unlock(&workers->mutex);
    return NULL;
}

firn_rc workers_open(struct workers *workers, const struct recovery_options *options,
                     uint64_t oldest_lsn, struct torn_pages *torn)
{
    memset(workers, 0, sizeof(*workers));
    unsigned wanted = options->threads < THREADS_MAX ? options->threads : THREADS_MAX;
    for (unsigned i = 0; i < THREADS_MAX; i++) {
        workers->appliers[i].options = options;
        workers->appliers[i].torn = torn;
        workers->appliers[i].oldest_lsn = oldest_lsn;
    }
    pthread_mutex_init(&workers->mutex, NULL);
    pthread_cond_init(&workers->given, NULL);
    pthread_cond_init(&workers->finished, NULL);
    while (wanted > 1 && workers->thread_count < wanted) {
        int error = pthread_create(&workers->threads[workers->thread_count], NULL, work, workers);
        if (error != 0) {
            workers_close(workers);
            return rc_raise_errno(error, "cannot start a thread for recovery");
        }
        workers->thread_count++;
    }
    return FIRN_OK;
}

void workers_close(struct workers *workers)
{
    pthread_mutex_lock(&workers->mutex);
    workers->stop = true;
    pthread_cond_broadcast(&workers->given);
    pthread_mutex_unlock(&workers->mutex);
    for (unsigned i = 0; i < workers->thread_count; i++)
        pthread_join(workers->threads[i], NULL);
    for (unsigned i = 0; i < THREADS_MAX; i++)
        applier_free(&workers->appliers[i]);
    pthread_cond_destroy(&workers->finished);
    pthread_cond_destroy(&workers->given);
    pthread_mutex_destroy(&workers->mutex);
}

void workers_give(struct workers *workers, const struct batch *batch)
{
    pthread_mutex_lock(&workers->mutex);
    ASSERT(workers->batch == NULL);
    workers->batch = batch;
    workers->next_part = 0;
    if (workers->thread_count > 0)
        pthread_cond_broadcast(&workers->given);
    else
        while (apply_part(workers, &workers->appliers[0]))
            ;
    pthread_mutex_unlock(&workers->mutex);
}

firn_rc workers_wait(struct workers *workers, workers_wait_function *meanwhile, void *context)
{
    pthread_mutex_lock(&workers->mutex);
    while (!is_finished(workers)) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += TICK_NS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&workers->finished, &workers->mutex, &until);
        pthread_mutex_unlock(&workers->mutex);
        meanwhile(context);
        pthread_mutex_lock(&workers->mutex);
    }
    workers->batch = NULL;
    firn_rc rc = workers->rc;
    pthread_mutex_unlock(&workers->mutex);
    return rc == FIRN_OK ? FIRN_OK : rc_raise(rc, "%s", workers->error);
}
