#include "base/check.h"
#include "base/futex.h"

struct sleeper {
    const void *place;
    uint32_t who;
    struct clock *clock;
    bool woken;
    pthread_cond_t moved;
    struct sleeper *next;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* protects the list; before clocks' */
static struct sleeper *sleepers;                          /* the first is parked for longest */

_Atomic uint32_t park_count;

static void append(struct sleeper *sleeper)
{
    struct sleeper **link = &sleepers;
    while (*link != NULL)
        link = &(*link)->next;
    *link = sleeper;
}

void park(const void *place, uint32_t who, park_must *must, void *context)
{
    struct sleeper self = {.place = place, .who = who, .clock = clock_joined()};
    ASSERT(self.clock != NULL);
    pthread_mutex_lock(&mutex);
    /* Pairs with park_is_used. */
    atomic_fetch_add_explicit(&park_count, 1, memory_order_seq_cst);
    if (must(context)) {
        pthread_cond_init(&self.moved, NULL);
        append(&self);
        clock_block(self.clock);
        while (!self.woken)
            pthread_cond_wait(&self.moved, &mutex);
        pthread_cond_destroy(&self.moved);
    }
    atomic_fetch_sub_explicit(&park_count, 1, memory_order_relaxed);
    pthread_mutex_unlock(&mutex);
}

unsigned unpark(const void *place, uint32_t who, unsigned count)
{
    unsigned woken = 0;
    pthread_mutex_lock(&mutex);
    struct sleeper **link = &sleepers;
    while (*link != NULL && woken < count) {
        struct sleeper *sleeper = *link;
        if (sleeper->place != place || (sleeper->who & who) == 0) {
            link = &sleeper->next;
            continue;
        }
        *link = sleeper->next;
        sleeper->woken = true;
        clock_unblock(sleeper->clock);
        pthread_cond_signal(&sleeper->moved);
        woken++;
    }
    pthread_mutex_unlock(&mutex);
    return woken;
}

/* ---- Futexes ---- */

struct sight {
    _Atomic uint32_t *word;
    uint32_t seen;
};

static bool is_as_seen(void *context)
{
    const struct sight *sight = context;
    return atomic_load_explicit(sight->word, memory_order_seq_cst) == sight->seen;
}

void futex_park(_Atomic uint32_t *word, uint32_t seen, uint32_t who)
{
    park(word, who, is_as_seen, &(struct sight){.word = word, .seen = seen});
}

/* ---- Locks: tried, and parked at while somebody else holds them ---- */

struct attempt {
    int (*try)(void *lock);
    void *lock;
    bool held;
};

static bool must_park(void *context)
{
    struct attempt *attempt = context;
    attempt->held = attempt->try(attempt->lock) == 0;
    return !attempt->held;
}

static void take(int (*try)(void *lock), void *lock)
{
    struct attempt attempt = {.try = try, .lock = lock, .held = try(lock) == 0};
    while (!attempt.held)
        park(lock, UINT32_MAX, must_park, &attempt);
}

static int try_mutex(void *lock)
{
    return pthread_mutex_trylock(lock);
}

static int try_shared(void *lock)
{
    return pthread_rwlock_tryrdlock(lock);
}

static int try_exclusive(void *lock)
{
    return pthread_rwlock_trywrlock(lock);
}

void park_take(pthread_mutex_t *lock)
{
    take(try_mutex, lock);
}

void park_take_shared(pthread_rwlock_t *lock)
{
    take(try_shared, lock);
}

void park_take_exclusive(pthread_rwlock_t *lock)
{
    take(try_exclusive, lock);
}
