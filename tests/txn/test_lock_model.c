/*
 * Locks against a model: a list of all that is held and waited for, searched from end to end after
 * each step. Who is granted when must agree exactly. Who gives up must have been in a cycle; and
 * somebody can always go on.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "txn/lock_fixture.h"

#include "base/rng.h"
#include "repeat.h"

#include <string.h>

enum { OWNERS = 7, ENTRIES_MAX = 4000, STEPS = 4000 };

/* NULL is the supremum; the last one stands for the whole index. */
static const char *const names[] = {"a", "b", NULL, "whole"};
enum { NAMES = ARRAY_COUNT(names), WHOLE_NAME = NAMES - 1, SUPREMUM_NAME = NAMES - 2 };

struct entry {
    unsigned owner;
    unsigned name;
    enum lock_part part;
    enum lock_mode mode;
    bool is_granted;
    bool jumps;
    uint64_t serial;   /* of its owner's locks the latest goes first */
    bool is_requested; /* not entered for its owner by somebody else */
};

struct model {
    struct lock_table *table;
    struct lock_owner owners[OWNERS];
    struct entry entries[ENTRIES_MAX]; /* oldest first */
    size_t count;
    uint64_t serial;
    bool reaches[OWNERS][OWNERS]; /* before the step: waits, by whatever detour */
};

static struct model model;

/* ---- The model ---- */

static bool modes_conflict(enum lock_mode left, enum lock_mode right)
{
    if (left == LOCK_EXCLUSIVE || right == LOCK_EXCLUSIVE)
        return true;
    return (left == LOCK_SHARED && right == LOCK_IX) || (left == LOCK_IX && right == LOCK_SHARED);
}

/* Does `second` have to wait for `first`? */
static bool waits_for(const struct entry *second, const struct entry *first)
{
    if (first->name != second->name || first->owner == second->owner)
        return false;
    bool first_gap = first->part == LOCK_GAP || first->part == LOCK_NEXT_KEY;
    bool first_row = first->part == LOCK_ROW || first->part == LOCK_NEXT_KEY;
    switch (second->part) {
    case LOCK_GAP:
        return false;
    case LOCK_INSERT:
        return first_gap;
    case LOCK_WHOLE:
        return modes_conflict(first->mode, second->mode);
    default:
        return first_row && modes_conflict(first->mode, second->mode);
    }
}

/* Earlier ones that conflict are in the way whether granted or not, granted ones wherever they
 * stand. */
static bool is_in_the_way(size_t other, size_t waiting)
{
    const struct entry *first = &model.entries[other];
    const struct entry *second = &model.entries[waiting];
    if (other == waiting || !waits_for(second, first))
        return false;
    return first->is_granted || (other < waiting && !second->jumps);
}

static bool is_blocked(size_t waiting)
{
    for (size_t i = 0; i < model.count; i++)
        if (is_in_the_way(i, waiting))
            return true;
    return false;
}

static void put(size_t place, struct entry entry)
{
    assert_true(model.count < ENTRIES_MAX);
    memmove(&model.entries[place + 1], &model.entries[place],
            (model.count - place) * sizeof(entry));
    entry.serial = model.serial++;
    model.entries[place] = entry;
    model.count++;
}

static void take_out(size_t place)
{
    model.count--;
    memmove(&model.entries[place], &model.entries[place + 1],
            (model.count - place) * sizeof(struct entry));
}

/* @return the place of what an owner waits for */
static size_t waiting_place(unsigned owner)
{
    for (size_t i = 0; i < model.count; i++)
        if (model.entries[i].owner == owner && !model.entries[i].is_granted)
            return i;
    fail_msg("owner %u waits, but for nothing", owner);
    return 0;
}

static bool covers(enum lock_mode held, enum lock_mode wanted)
{
    return held == wanted || held == LOCK_EXCLUSIVE || wanted == LOCK_IS;
}

/* What is left of a request. @return false: nothing */
static bool reduce(struct entry *wanted)
{
    bool row = wanted->part == LOCK_ROW || wanted->part == LOCK_NEXT_KEY;
    bool gap = wanted->part == LOCK_GAP || wanted->part == LOCK_NEXT_KEY;
    bool has_row = false;
    if (wanted->part == LOCK_INSERT)
        return true;
    for (size_t i = 0; i < model.count; i++) {
        const struct entry *held = &model.entries[i];
        if (held->owner != wanted->owner || held->name != wanted->name || !held->is_granted)
            continue;
        if (wanted->part == LOCK_WHOLE) {
            if (covers(held->mode, wanted->mode))
                return false;
            wanted->jumps = true;
            continue;
        }
        if (held->part != LOCK_GAP) {
            has_row = true;
            row &= !covers(held->mode, wanted->mode);
        }
        if (held->part != LOCK_ROW)
            gap = false;
    }
    if (wanted->part == LOCK_WHOLE)
        return true;
    wanted->part = (enum lock_part)((row ? LOCK_ROW : 0) | (gap ? LOCK_GAP : 0));
    wanted->jumps = row && has_row;
    return row || gap;
}

/* Who waits for whom, in the end. */
static void note_who_reaches_whom(void)
{
    memset(model.reaches, 0, sizeof(model.reaches));
    for (size_t i = 0; i < model.count; i++)
        for (size_t k = 0; k < model.count && !model.entries[i].is_granted; k++)
            if (is_in_the_way(k, i))
                model.reaches[model.entries[i].owner][model.entries[k].owner] = true;
    for (unsigned via = 0; via < OWNERS; via++)
        for (unsigned from = 0; from < OWNERS; from++)
            for (unsigned to = 0; to < OWNERS; to++)
                model.reaches[from][to] |= model.reaches[from][via] && model.reaches[via][to];
}

/* ---- Both ---- */

static struct lock_request request_for(const struct entry *wanted)
{
    struct lock_request request = request_of(wanted->name == WHOLE_NAME ? "" : names[wanted->name],
                                             wanted->part, wanted->mode);
    return request;
}

static bool grant_in_model(void)
{
    bool any = false;
    for (size_t i = 0; i < model.count; i++) {
        struct entry *entry = &model.entries[i];
        if (entry->is_granted || atomic_load(&model.owners[entry->owner].word) == WAIT_VICTIM ||
            is_blocked(i))
            continue;
        entry->is_granted = true;
        any = true;
        if (atomic_load(&model.owners[entry->owner].word) != WAIT_GRANTED)
            fail_msg("transaction %u is not granted what nobody else holds", entry->owner + 1);
        ASSERT_OK(lock_wait(&model.owners[entry->owner], UINT64_MAX));
        if (entry->part == LOCK_INSERT)
            take_out(i--);
    }
    return any;
}

static void end_wait(unsigned owner, uint64_t limit_ns, firn_rc expected)
{
    size_t place = waiting_place(owner);
    assert_int_equal(lock_wait(&model.owners[owner], limit_ns), expected);
    take_out(place);
}

/* After each step: those who are granted, those who give up, and again, for that lets others on. */
static void settle(void)
{
    bool again = true;
    while (again) {
        again = false;
        while (grant_in_model())
            ;
        for (unsigned i = 0; i < OWNERS && !again; i++) {
            if (model.owners[i].waiting == NULL || !is_told(&model.owners[i]))
                continue;
            if (atomic_load(&model.owners[i].word) == WAIT_GRANTED)
                fail_msg("transaction %u is granted what others hold", i + 1);
            if (!model.reaches[i][i])
                fail_msg("transaction %u gives up though it is in no cycle", i + 1);
            note_who_reaches_whom();
            end_wait(i, UINT64_MAX, FIRN_E_DEADLOCK);
            again = true;
        }
    }
}

static void request(struct rng *rng, unsigned owner)
{
    static const enum lock_part parts[] = {LOCK_ROW, LOCK_ROW, LOCK_GAP, LOCK_NEXT_KEY,
                                           LOCK_INSERT};
    struct entry wanted = {.owner = owner, .is_requested = true};
    wanted.name = (unsigned)rng_below(rng, NAMES);
    wanted.part = parts[rng_below(rng, ARRAY_COUNT(parts))];
    wanted.mode = rng_below(rng, 2) == 0 ? LOCK_SHARED : LOCK_EXCLUSIVE;
    if (wanted.name == WHOLE_NAME) {
        wanted.part = LOCK_WHOLE;
        wanted.mode = (enum lock_mode)rng_below(rng, 4);
    } else if (wanted.name == SUPREMUM_NAME) {
        wanted.part = wanted.part == LOCK_INSERT ? LOCK_INSERT : LOCK_GAP;
    }
    struct lock_request asked = request_for(&wanted);
    bool wait = rng_below(rng, 4) > 0;
    enum lock_answer expected = LOCK_HELD;
    enum lock_answer answer;
    bool is_left = reduce(&wanted);
    size_t place = wanted.jumps ? 0 : model.count;
    bool will_wait = false;
    if (is_left) {
        put(place, wanted);
        will_wait = is_blocked(place);
        expected = !will_wait ? LOCK_GRANTED : wait ? LOCK_QUEUED : LOCK_REFUSED;
        if (will_wait && wait)
            note_who_reaches_whom();
    }
    assert_int_equal(lock_conflicts(&model.owners[owner], &asked), will_wait);
    ASSERT_OK(lock_request(&model.owners[owner], &asked, wait, &answer));
    assert_int_equal(answer, expected);
    if (!is_left)
        return;
    if (answer == LOCK_REFUSED || (answer == LOCK_GRANTED && wanted.part == LOCK_INSERT))
        take_out(place);
    else
        model.entries[place].is_granted = answer == LOCK_GRANTED;
}

/* @return the place of an owner's latest lock; model.count if it has none */
static size_t latest_place(unsigned owner)
{
    size_t latest = model.count;
    for (size_t i = 0; i < model.count; i++)
        if (model.entries[i].owner == owner &&
            (latest == model.count || model.entries[i].serial > model.entries[latest].serial))
            latest = i;
    return latest;
}

/* One after the other: what each lets on may be in the way of what the next would let on. */
static void release_all(unsigned owner)
{
    lock_release_all(&model.owners[owner]);
    for (size_t i; (i = latest_place(owner)) < model.count;) {
        take_out(i);
        while (grant_in_model())
            ;
    }
}

static void release_one(struct rng *rng, unsigned owner)
{
    for (unsigned tries = 0; tries < 20 && model.count > 0; tries++) {
        size_t i = rng_below(rng, model.count);
        struct entry entry = model.entries[i];
        /* Of several the newest would go: choose one that is alone. */
        bool is_alone = true;
        for (size_t k = 0; k < model.count; k++)
            is_alone &=
                k == i || model.entries[k].owner != owner || model.entries[k].name != entry.name;
        if (entry.owner != owner || !entry.is_requested || !is_alone)
            continue;
        struct lock_request back = request_for(&entry);
        lock_release(&model.owners[owner], &back);
        take_out(i);
        return;
    }
}

/* The row says that somebody has changed it: nobody else holds it then. */
static void enter(struct rng *rng, unsigned holder)
{
    struct entry wanted = {.owner = holder,
                           .name = (unsigned)rng_below(rng, SUPREMUM_NAME),
                           .part = LOCK_ROW,
                           .mode = LOCK_EXCLUSIVE};
    for (size_t i = 0; i < model.count; i++)
        if (model.entries[i].is_granted && waits_for(&wanted, &model.entries[i]))
            return;
    struct lock_request entered = request_for(&wanted);
    ASSERT_OK(lock_enter_implicit(&model.owners[holder], &entered));
    wanted.is_granted = true;
    if (reduce(&wanted))
        put(0, wanted);
}

static void inherit(struct rng *rng)
{
    unsigned from = (unsigned)rng_below(rng, WHOLE_NAME);
    unsigned to = (unsigned)rng_below(rng, WHOLE_NAME);
    bool gone = to == SUPREMUM_NAME || (from != SUPREMUM_NAME && rng_below(rng, 2) == 0);
    unsigned key = gone ? from : to;
    unsigned next = gone ? to : from;
    if (from == to)
        return;
    ASSERT_OK(lock_inherit(model.table, TEST_INDEX, span_of_text(names[key]), gone,
                           next == SUPREMUM_NAME ? span_of(NULL, 0) : span_of_text(names[next]),
                           next == SUPREMUM_NAME));
    for (size_t i = model.count; i-- > 0;) {
        struct entry twin = model.entries[i];
        if (twin.name != from || !twin.is_granted || (twin.part & LOCK_GAP) == 0)
            continue;
        twin = (struct entry){.owner = twin.owner, .name = to, .part = LOCK_GAP, .mode = twin.mode};
        if (!reduce(&twin))
            continue;
        twin.is_granted = true;
        put(0, twin);
        i++;
    }
}

static void step(struct rng *rng)
{
    unsigned owner = (unsigned)rng_below(rng, OWNERS);
    struct lock_owner *chosen = &model.owners[owner];
    unsigned what = (unsigned)rng_below(rng, 100);
    note_who_reaches_whom();
    if (chosen->waiting != NULL) {
        if (what < 5) {
            lock_cancel(chosen);
            end_wait(owner, UINT64_MAX, FIRN_E_CANCELLED);
        } else if (what < 10) {
            end_wait(owner, 0, FIRN_E_LOCK_WAIT);
        } else if (what < 15) {
            enter(rng, owner);
        }
    } else if (what < 12) {
        release_all(owner);
    } else if (what < 20) {
        release_one(rng, owner);
    } else if (what < 25) {
        enter(rng, owner);
    } else if (what < 30) {
        inherit(rng);
    } else {
        atomic_store(&chosen->weight, rng_below(rng, 4));
        request(rng, owner);
    }
    settle();
}

static void check_counts(void)
{
    struct lock_counters counters;
    lock_counters(model.table, &counters);
    assert_int_equal(counters.locks, model.count);
    unsigned waiting = 0;
    bool has_gaps = false;
    for (unsigned i = 0; i < OWNERS; i++)
        waiting += model.owners[i].waiting != NULL;
    for (size_t i = 0; i < model.count; i++)
        has_gaps |= (model.entries[i].part & LOCK_GAP) != 0;
    assert_true(waiting < OWNERS);
    assert_int_equal(lock_gaps_exist(model.table, TEST_INDEX), has_gaps);
}

/* Everybody who does not wait ends; in the end nobody waits. */
static void run_out(void)
{
    for (unsigned round = 0; round <= OWNERS; round++) {
        for (unsigned i = 0; i < OWNERS; i++) {
            note_who_reaches_whom();
            if (model.owners[i].waiting == NULL)
                release_all(i);
            settle();
        }
        check_counts();
    }
    assert_int_equal(model.count, 0);
}

static void who_holds_and_who_waits_agrees_with_the_model(void **state)
{
    (void)state;
    uint64_t seed = test_seed(1);
    unsigned runs = test_runs(10);
    for (unsigned run = 0; run < runs; run++) {
        struct rng rng;
        rng_init(&rng, seed + run);
        memset(&model, 0, sizeof(model));
        model.table = table_open();
        owners_begin(model.owners, OWNERS, model.table);
        for (unsigned i = 0; i < STEPS; i++) {
            step(&rng);
            if (i % 16 == 0)
                check_counts();
        }
        run_out();
        owners_end(model.owners, OWNERS);
        lock_table_close(model.table);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_holds_and_who_waits_agrees_with_the_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
