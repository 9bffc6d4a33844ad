/*
 * lock_fixture.h -- a table of locks and some owners. To be included behind <cmocka.h>.
 */
#ifndef FIRN_TESTS_LOCK_FIXTURE_H
#define FIRN_TESTS_LOCK_FIXTURE_H

#include "txn/lock_table_internal.h"

#include "base/memory.h"

#define ASSERT_OK(call) assert_int_equal(call, FIRN_OK)

enum { TEST_INDEX = 7 };

static inline struct lock_table *table_open_with(struct clock *clock, uint64_t memory_bytes,
                                                 bool deadlock_detect)
{
    struct lock_table *table = NULL;
    struct lock_options options = {clock, memory_bytes, deadlock_detect};
    ASSERT_OK(lock_table_open(&options, &table));
    return table;
}

static inline struct lock_table *table_open(void)
{
    return table_open_with(clock_real(), UINT64_C(1) << 20, true);
}

static inline struct lock_request request_of(const char *key, enum lock_part part,
                                             enum lock_mode mode)
{
    struct lock_request request = {.index_id = TEST_INDEX, .part = part, .mode = mode};
    if (key == NULL)
        request.is_supremum = true;
    else
        request.key = span_of_text(key);
    return request;
}

static inline enum lock_answer ask(struct lock_owner *owner, const char *key, enum lock_part part,
                                   enum lock_mode mode)
{
    struct lock_request request = request_of(key, part, mode);
    enum lock_answer answer = (enum lock_answer)99;
    ASSERT_OK(lock_request(owner, &request, true, &answer));
    return answer;
}

/* @return true if an owner's wait is over, so that lock_wait does not wait */
static inline bool is_told(struct lock_owner *owner)
{
    return atomic_load(&owner->word) > WAIT_ASLEEP;
}

static inline void owners_begin(struct lock_owner *owners, size_t count, struct lock_table *table)
{
    for (size_t i = 0; i < count; i++) {
        lock_owner_init(&owners[i], table);
        owners[i].id = i + 1;
        owners[i].weight = 100;
    }
}

/* Ends waits, too. */
static inline void owners_end(struct lock_owner *owners, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (owners[i].waiting != NULL)
            (void)lock_wait(&owners[i], 0);
    for (size_t i = 0; i < count; i++) {
        lock_release_all(&owners[i]);
        lock_owner_free(&owners[i]);
    }
}

#endif
