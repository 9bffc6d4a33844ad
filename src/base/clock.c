#include "base/clock.h"

#include "base/check.h"
#include "base/futex.h"
#include "base/memory.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>

/* The kernel wakes a sleeper this late at worst on an idle processor; the rest is spun. */
enum { SPIN_NS = 30000 };

enum clock_kind { CLOCK_KIND_REAL, CLOCK_KIND_SCALED, CLOCK_KIND_VIRTUAL };

/* Each has a condition of its own: an advance wakes those it releases, not everybody who waits. */
struct clock_waiter {
    uint64_t deadline_ns;   /* UINT64_MAX: none */
    _Atomic uint32_t *word; /* by whose address it can be woken; NULL: not at all */
    struct clock_waiter *next;
    bool woken;
    pthread_cond_t released;
};

struct clock {
    enum clock_kind kind;
    double scale;
    uint64_t start_ns; /* scaled: the real time at which it showed 0 */

    /* Virtual only, under the mutex. Time passes when `waiting` reaches `participants`. */
    pthread_mutex_t mutex;
    _Atomic uint64_t now_ns;
    unsigned participants;
    unsigned waiting;
    struct clock_waiter *waiters; /* not yet woken */
};

static struct clock real_clock = {.kind = CLOCK_KIND_REAL, .scale = 1};
struct clock *const clock_real_pointer = &real_clock;
_Thread_local struct clock *clock_joined_pointer;

struct clock *clock_real(void)
{
    return &real_clock;
}

static firn_rc clock_open(enum clock_kind kind, double scale, struct clock **clock)
{
    struct clock *made = memory_zalloc(1, sizeof(*made));
    if (made == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for a clock");
    made->kind = kind;
    made->scale = scale;
    made->start_ns = clock_now(&real_clock);
    pthread_mutex_init(&made->mutex, NULL);
    *clock = made;
    return FIRN_OK;
}

firn_rc clock_open_scaled(double scale, struct clock **clock)
{
    if (!(scale > 0) || isinf(scale))
        return rc_raise(FIRN_E_INVALID, "a time scale must be a number above 0");
    return clock_open(CLOCK_KIND_SCALED, scale, clock);
}

firn_rc clock_open_virtual(struct clock **clock)
{
    return clock_open(CLOCK_KIND_VIRTUAL, 0, clock);
}

void clock_close(struct clock *clock)
{
    if (clock == NULL || clock == &real_clock)
        return;
    ASSERT(clock->waiting == 0);
    if (clock_joined_pointer == clock)
        clock_joined_pointer = NULL;
    pthread_mutex_destroy(&clock->mutex);
    memory_free(clock);
}

bool clock_is_virtual(const struct clock *clock)
{
    return clock->kind == CLOCK_KIND_VIRTUAL;
}

double clock_scale(const struct clock *clock)
{
    return clock->scale;
}

uint64_t clock_now_slow(struct clock *clock)
{
    if (clock->kind == CLOCK_KIND_VIRTUAL)
        return atomic_load_explicit(&clock->now_ns, memory_order_acquire);
    uint64_t elapsed_ns = clock_now(&real_clock) - clock->start_ns;
    return (uint64_t)((double)elapsed_ns * clock->scale);
}

/* Released threads count as working from now on, not from when they get to run. */
static void virtual_release(struct clock *clock, struct clock_waiter **link)
{
    struct clock_waiter *waiter = *link;
    *link = waiter->next;
    clock->waiting--;
    waiter->woken = true;
    pthread_cond_signal(&waiter->released);
}

/* Jump to the earliest deadline and wake everybody it releases, if nobody is left working. */
static void virtual_advance(struct clock *clock)
{
    if (clock->waiting < clock->participants)
        return;
    uint64_t earliest = UINT64_MAX;
    for (struct clock_waiter *w = clock->waiters; w != NULL; w = w->next)
        if (w->deadline_ns < earliest)
            earliest = w->deadline_ns;
    if (earliest == UINT64_MAX)
        return;
    atomic_store_explicit(&clock->now_ns, earliest, memory_order_release);
    struct clock_waiter **link = &clock->waiters;
    while (*link != NULL)
        if ((*link)->deadline_ns == earliest)
            virtual_release(clock, link);
        else
            link = &(*link)->next;
}

void clock_join(struct clock *clock)
{
    if (clock->kind != CLOCK_KIND_VIRTUAL)
        return;
    pthread_mutex_lock(&clock->mutex);
    clock->participants++;
    pthread_mutex_unlock(&clock->mutex);
    clock_joined_pointer = clock;
}

void clock_leave(struct clock *clock)
{
    if (clock->kind != CLOCK_KIND_VIRTUAL)
        return;
    pthread_mutex_lock(&clock->mutex);
    ASSERT(clock->participants > 0);
    clock->participants--;
    virtual_advance(clock);
    pthread_mutex_unlock(&clock->mutex);
    clock_joined_pointer = NULL;
}

void clock_block(struct clock *clock)
{
    if (clock->kind != CLOCK_KIND_VIRTUAL)
        return;
    pthread_mutex_lock(&clock->mutex);
    clock->waiting++;
    virtual_advance(clock);
    pthread_mutex_unlock(&clock->mutex);
}

void clock_unblock(struct clock *clock)
{
    if (clock->kind != CLOCK_KIND_VIRTUAL)
        return;
    pthread_mutex_lock(&clock->mutex);
    ASSERT(clock->waiting > 0);
    clock->waiting--;
    pthread_mutex_unlock(&clock->mutex);
}

/* Wait for the deadline, or for virtual_wake if there is a word and as long as it is `seen`. */
static void virtual_wait(struct clock *clock, uint64_t deadline_ns, _Atomic uint32_t *word,
                         uint32_t seen)
{
    clock_joined_pointer = clock; /* also if somebody else has joined for this thread */
    pthread_mutex_lock(&clock->mutex);
    if (atomic_load_explicit(&clock->now_ns, memory_order_relaxed) < deadline_ns &&
        (word == NULL || atomic_load_explicit(word, memory_order_acquire) == seen)) {
        struct clock_waiter waiter = {
            .deadline_ns = deadline_ns, .word = word, .next = clock->waiters};
        pthread_cond_init(&waiter.released, NULL);
        clock->waiters = &waiter;
        clock->waiting++;
        virtual_advance(clock);
        while (!waiter.woken)
            pthread_cond_wait(&waiter.released, &clock->mutex);
        pthread_cond_destroy(&waiter.released);
    }
    pthread_mutex_unlock(&clock->mutex);
}

static void virtual_wake(struct clock *clock, _Atomic uint32_t *word, int count)
{
    pthread_mutex_lock(&clock->mutex);
    struct clock_waiter **link = &clock->waiters;
    while (*link != NULL && count > 0)
        if ((*link)->word == word) {
            virtual_release(clock, link);
            count--;
        } else {
            link = &(*link)->next;
        }
    pthread_mutex_unlock(&clock->mutex);
}

/* The default timer slack of 50 us would round every short sleep up. */
static void sharpen_timers(void)
{
    static _Thread_local bool done;
    if (!done)
        prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    done = true;
}

/* @return the real time at which a real or scaled clock shows this one */
static uint64_t to_real(const struct clock *clock, uint64_t time_ns)
{
    if (clock->kind == CLOCK_KIND_REAL)
        return time_ns;
    double real_ns = (double)time_ns / clock->scale + (double)clock->start_ns;
    return real_ns < (double)INT64_MAX ? (uint64_t)real_ns : INT64_MAX;
}

static struct timespec to_timespec(uint64_t time_ns)
{
    return (struct timespec){.tv_sec = (time_t)(time_ns / NS_PER_S),
                             .tv_nsec = (long)(time_ns % NS_PER_S)};
}

void clock_wait_until(struct clock *clock, uint64_t deadline_ns)
{
    if (clock->kind == CLOCK_KIND_VIRTUAL) {
        virtual_wait(clock, deadline_ns, NULL, 0);
        return;
    }
    if (clock_now(clock) >= deadline_ns)
        return;
    sharpen_timers();
    uint64_t real_ns = to_real(clock, deadline_ns);
    if (real_ns > SPIN_NS) {
        struct timespec until = to_timespec(real_ns - SPIN_NS);
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) != 0)
            ;
    }
    while (clock_now(clock) < deadline_ns)
        sched_yield();
}

void clock_sleep(struct clock *clock, _Atomic uint32_t *word, uint32_t seen, uint64_t deadline_ns)
{
    if (clock->kind == CLOCK_KIND_VIRTUAL) {
        virtual_wait(clock, deadline_ns, word, seen);
        return;
    }
    struct timespec until = to_timespec(to_real(clock, deadline_ns));
    futex_wait_until(word, seen, deadline_ns == UINT64_MAX ? NULL : &until);
}

void clock_wake(struct clock *clock, _Atomic uint32_t *word, int count)
{
    if (clock->kind == CLOCK_KIND_VIRTUAL)
        virtual_wake(clock, word, count);
    else
        (void)futex_wake(word, count);
}

void clock_pause(struct clock *clock, uint64_t wait_ns)
{
    if (clock->kind == CLOCK_KIND_VIRTUAL) {
        virtual_wait(clock, clock_now(clock) + wait_ns, NULL, 0);
        return;
    }
    struct timespec wait = to_timespec((uint64_t)((double)wait_ns / clock->scale));
    nanosleep(&wait, NULL);
}
