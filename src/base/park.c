#include "base/check.h"
#include "base/futex.h"

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

void futex_park(struct clock *clock, _Atomic uint32_t *word, uint32_t seen, uint32_t who,
                uint64_t deadline_ns)
{
    clock_park(clock, word, who, deadline_ns, is_as_seen,
               &(struct sight){.word = word, .seen = seen});
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
        clock_park(clock_joined(), lock, UINT32_MAX, UINT64_MAX, must_park, &attempt);
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
