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
    uint64_t deadline_ns; /* UINT64_MAX: none */
    const void *place;    /* by which it can be woken; NULL: not at all */
    uint32_t who;
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
    struct clock_waiter *waiters; /* not yet woken; the first waits for longest */
    struct clock *next;           /* of virtual_clocks */
};

static struct clock real_clock = {.kind = CLOCK_KIND_REAL, .scale = 1};
struct clock *const clock_real_pointer = &real_clock;
_Thread_local struct clock *clock_joined_pointer;

/* Who wakes by a place need not know the sleeper's clock. */
static pthread_mutex_t clocks_mutex = PTHREAD_MUTEX_INITIALIZER; /* before clocks' own */
static struct clock *virtual_clocks;
_Atomic uint32_t clock_parked_count;

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
    FIRN_TRY(clock_open(CLOCK_KIND_VIRTUAL, 0, clock));
    pthread_mutex_lock(&clocks_mutex);
    (*clock)->next = virtual_clocks;
    virtual_clocks = *clock;
    pthread_mutex_unlock(&clocks_mutex);
    return FIRN_OK;
}

static void forget_virtual(struct clock *clock)
{
    pthread_mutex_lock(&clocks_mutex);
    struct clock **link = &virtual_clocks;
    while (*link != clock)
        link = &(*link)->next;
    *link = clock->next;
    pthread_mutex_unlock(&clocks_mutex);
}

void clock_close(struct clock *clock)
{
    if (clock == NULL || clock == &real_clock)
        return;
    ASSERT(clock->waiting == 0);
    if (clock_joined_pointer == clock)
        clock_joined_pointer = NULL;
    if (clock->kind == CLOCK_KIND_VIRTUAL)
        forget_virtual(clock);
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

static void append_waiter(struct clock *clock, struct clock_waiter *waiter)
{
    struct clock_waiter **link = &clock->waiters;
    while (*link != NULL)
        link = &(*link)->next;
    *link = waiter;
    clock->waiting++;
}

/* With the clock's mutex. Returns at once when the deadline has come. */
static void virtual_sleep(struct clock *clock, struct clock_waiter *waiter)
{
    if (atomic_load_explicit(&clock->now_ns, memory_order_relaxed) >= waiter->deadline_ns)
        return;
    pthread_cond_init(&waiter->released, NULL);
    append_waiter(clock, waiter);
    virtual_advance(clock);
    while (!waiter->woken)
        pthread_cond_wait(&waiter->released, &clock->mutex);
    pthread_cond_destroy(&waiter->released);
}

static void virtual_wait(struct clock *clock, uint64_t deadline_ns)
{
    struct clock_waiter waiter = {.deadline_ns = deadline_ns};
    clock_joined_pointer = clock; /* also if somebody else has joined for this thread */
    pthread_mutex_lock(&clock->mutex);
    virtual_sleep(clock, &waiter);
    pthread_mutex_unlock(&clock->mutex);
}

void clock_park(struct clock *clock, const void *place, uint32_t who, uint64_t deadline_ns,
                clock_must *must, void *context)
{
    struct clock_waiter waiter = {.deadline_ns = deadline_ns, .place = place, .who = who};
    ASSERT(clock->kind == CLOCK_KIND_VIRTUAL && place != NULL);
    clock_joined_pointer = clock;
    pthread_mutex_lock(&clock->mutex);
    /* Pairs with clock_parks. */
    atomic_fetch_add_explicit(&clock_parked_count, 1, memory_order_seq_cst);
    if (must(context))
        virtual_sleep(clock, &waiter);
    atomic_fetch_sub_explicit(&clock_parked_count, 1, memory_order_relaxed);
    pthread_mutex_unlock(&clock->mutex);
}

static unsigned unpark_on(struct clock *clock, const void *place, uint32_t who, unsigned count)
{
    unsigned woken = 0;
    pthread_mutex_lock(&clock->mutex);
    struct clock_waiter **link = &clock->waiters;
    while (*link != NULL && woken < count) {
        if ((*link)->place == place && ((*link)->who & who) != 0) {
            virtual_release(clock, link);
            woken++;
        } else {
            link = &(*link)->next;
        }
    }
    pthread_mutex_unlock(&clock->mutex);
    return woken;
}

unsigned clock_unpark(const void *place, uint32_t who, unsigned count)
{
    unsigned woken = 0;
    pthread_mutex_lock(&clocks_mutex);
    for (struct clock *clock = virtual_clocks; clock != NULL && woken < count; clock = clock->next)
        woken += unpark_on(clock, place, who, count - woken);
    pthread_mutex_unlock(&clocks_mutex);
    return woken;
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
        virtual_wait(clock, deadline_ns);
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
        futex_park(clock, word, seen, FUTEX_ALL, deadline_ns);
        return;
    }
    struct timespec until = to_timespec(to_real(clock, deadline_ns));
    futex_wait_until(word, seen, deadline_ns == UINT64_MAX ? NULL : &until);
}

void clock_pause(struct clock *clock, uint64_t wait_ns)
{
    if (clock->kind == CLOCK_KIND_VIRTUAL) {
        virtual_wait(clock, clock_now(clock) + wait_ns);
        return;
    }
    struct timespec wait = to_timespec((uint64_t)((double)wait_ns / clock->scale));
    nanosleep(&wait, NULL);
}
