/*
 * undo_world.h -- undo tablespaces in an environment on a simulated disk, and what their tests
 * share.
 */
#ifndef FIRN_TESTS_TXN_UNDO_WORLD_H
#define FIRN_TESTS_TXN_UNDO_WORLD_H

#include "space/space_fixture.h"

#include "base/rng.h"
#include "txn/undo_internal.h"

enum { PAGE = 4096, TABLESPACES = 2 };

static struct world world;
static struct undo_set *undo;

static inline firn_rc undo_world_open_set(bool create, unsigned tablespaces)
{
    struct undo_options options = {
        .spaces = world.set, .pool = world.pool, .tablespaces = tablespaces, .create = create};
    return undo_open(&options, &world.mtr, &undo);
}

/** Make an environment with undo tablespaces, open. */
static inline void undo_world_make(struct sim_disk *disk)
{
    world_make(&world, disk, PAGE);
    ASSERT_OK(undo_world_open_set(true, TABLESPACES));
}

/** Open what is there, and recover. */
static inline firn_rc undo_world_open(struct sim_disk *disk, uint64_t seed)
{
    FIRN_TRY(world_open(&world, disk, PAGE, seed));
    return undo_world_open_set(false, TABLESPACES);
}

/** Close everything but the disk, without flushing. */
static inline void undo_world_abandon(void)
{
    undo_close(undo);
    undo = NULL;
    world_abandon(&world);
}

/** Make all that has been done durable in the log, close everything and open it again. */
static inline void undo_world_reopen(struct sim_disk *disk)
{
    ASSERT_OK(redo_flush(world.redo, redo_reserved_lsn(world.redo), REDO_FLUSH_SYNC));
    undo_world_abandon();
    ASSERT_OK(undo_world_open(disk, 7));
}

/* ---- Judging ---- */

struct seen {
    uint64_t pages;
    uint64_t owned;
};

static inline void undo_world_problem(const char *problem, void *context)
{
    (void)context;
    print_error("%s\n", problem);
}

static inline void undo_world_finding(const struct finding *finding, void *context)
{
    undo_world_problem(finding->text, context);
}

static inline void undo_world_seen(uint32_t space, uint32_t page_no, void *context)
{
    (void)space;
    (void)page_no;
    ((struct seen *)context)->pages++;
}

static inline firn_rc count_owned(uint32_t page_no, uint64_t owner, void *context)
{
    (void)page_no;
    assert_true(owner == UNDO_OWNER || owner == 0);
    ((struct seen *)context)->owned += owner == UNDO_OWNER;
    return FIRN_OK;
}

static inline firn_rc count_pages(const struct space_info *info, void *context)
{
    if (info->class != IO_CLASS_UNDO)
        return FIRN_OK;
    ASSERT_OK(space_check(world.set, info->space, undo_world_finding, NULL));
    return space_each_page(world.set, info->space, count_owned, context);
}

/** Everything is sound, each allocated page is a segment's or a directory, counters are right. */
static inline void undo_world_check(void)
{
    struct seen seen = {0};
    struct undo_counters counters;
    struct undo_check_visitor visitor = {
        .problem = undo_world_problem, .seen = undo_world_seen, .context = &seen};
    ASSERT_OK(undo_check(undo, &visitor));
    ASSERT_OK(space_each(world.set, count_pages, &seen));
    ASSERT_OK(undo_counters(undo, &counters));
    assert_int_equal(seen.pages, seen.owned);
    assert_int_equal(seen.pages, counters.pages + TABLESPACES);
}

/* ---- Records that follow from a number ---- */

/** @return the size of the n-th record: most are short, some fill a page; 8 at least. */
static inline size_t record_size(uint64_t number)
{
    struct rng rng;
    rng_init(&rng, number);
    uint64_t kind = rng_below(&rng, 100);
    if (kind < 80)
        return 8 + rng_below(&rng, 150);
    return kind < 98 ? 8 + rng_below(&rng, 1500) : undo_record_max(PAGE) - rng_below(&rng, 20);
}

/** Make the n-th record, which begins with its number. @param bytes  room for a page */
static inline struct span record_make(uint8_t *bytes, uint64_t number)
{
    struct rng rng;
    size_t size = record_size(number);
    rng_init(&rng, number + 1000003);
    put_u64(bytes, number);
    for (size_t i = 8; i < size; i++)
        bytes[i] = (uint8_t)rng_next(&rng);
    return span_of(bytes, size);
}

/** Append a record as a transaction does: room, place, append in a mini-transaction. */
static inline firn_rc append_to(struct undo_log *log, struct mtr *mtr, struct span record,
                                undo_pointer *pointer)
{
    FIRN_TRY(undo_make_room(log, mtr, record.size_bytes));
    undo_pointer place = undo_place(log, record.size_bytes);
    assert_true(place != 0);
    FIRN_TRY(mtr_begin(mtr, undo_append_log_bytes(record.size_bytes)));
    firn_rc rc = undo_append(log, mtr, record);
    if (rc != FIRN_OK) {
        mtr_abandon(mtr);
        return rc;
    }
    assert_true(log->last == place);
    *pointer = place;
    return mtr_commit(mtr, NULL);
}

/** Mark a log in a mini-transaction of its own. */
static inline firn_rc mark(struct undo_log *log, struct mtr *mtr, enum undo_state state,
                           uint64_t number, struct span xid)
{
    if (state == UNDO_PREPARED)
        FIRN_TRY(undo_make_room(log, mtr, UNDO_XID_MAX));
    FIRN_TRY(mtr_begin(mtr, UNDO_HEADER_LOG_BYTES));
    firn_rc rc = undo_latch_header(log, mtr);
    if (rc == FIRN_OK)
        rc = undo_mark(log, mtr, state, number, xid);
    if (rc != FIRN_OK) {
        mtr_abandon(mtr);
        return rc;
    }
    return mtr_commit(mtr, NULL);
}

static inline firn_rc finish(struct undo_log *log, struct mtr *mtr, enum undo_state state,
                             uint64_t number)
{
    FIRN_TRY(mark(log, mtr, state, number, span_of(NULL, 0)));
    undo_end(log);
    return FIRN_OK;
}

#endif
