/*
 * company.c -- when to wait for others before a sync.
 *
 * Commits that come while a sync is under way share the next one. So with n threads that do little
 * but commit, two halves of them take turns: those who were woken by one sync miss the next, which
 * begins at once. Waiting until they are back makes each sync carry all n, and is worth it while a
 * thread more comes sooner than the group so far pays for waiting: n commits in a time t grow to
 * n + 1 in t + w, more a second if w < t / n. So the writer waits for the next arrival no longer
 * than that, and only for as many as it has reason to expect: those of the last group that have not
 * come back yet.
 */
#include "redo/redo_internal.h"

#include <sched.h>

enum { PENALTY_MAX = 127 };

static uint32_t arrivals_now(struct redo *redo)
{
    return atomic_load_explicit(&redo->arrivals, memory_order_relaxed);
}

/* Let others run until somebody arrives or the time is over. @return arrivals then */
static uint32_t await_arrival(struct redo *redo, uint32_t arrivals, uint64_t deadline_ns)
{
    uint32_t now = arrivals;
    while (now == arrivals && clock_now(redo->clock) < deadline_ns) {
        sched_yield();
        now = arrivals_now(redo);
    }
    return now;
}

void redo_gather_company(struct redo *redo)
{
    struct redo_company *company = &redo->company;
    uint32_t arrivals = arrivals_now(redo);
    uint32_t all_back = company->left_arrivals + company->group_size;
    if ((int32_t)(all_back - arrivals) <= 0 || clock_is_virtual(redo->clock))
        return;
    if (company->skips > 0) {
        company->skips--;
        return;
    }
    uint64_t began_ns = clock_now(redo->clock);
    uint32_t first_arrivals = arrivals;
    while ((int32_t)(all_back - arrivals) > 0) {
        uint64_t now_ns = clock_now(redo->clock);
        uint64_t group = arrivals - company->closed_arrivals;
        uint64_t pays_ns = (company->sync_ns + now_ns - began_ns) / (group > 0 ? group : 1);
        uint32_t now = await_arrival(redo, arrivals, now_ns + pays_ns);
        if (now == arrivals)
            break;
        arrivals = now;
    }
    /* Threads that do other work between commits do not come back in time: ask more rarely. */
    company->penalty = arrivals != first_arrivals           ? 0
                       : company->penalty * 2 < PENALTY_MAX ? company->penalty * 2 + 1
                                                            : PENALTY_MAX;
    company->skips = company->penalty;
}

void redo_company_left(struct redo *redo, uint32_t closed_arrivals, uint64_t sync_ns)
{
    struct redo_company *company = &redo->company;
    company->group_size = closed_arrivals - company->closed_arrivals;
    company->closed_arrivals = closed_arrivals;
    company->left_arrivals = arrivals_now(redo);
    company->sync_ns = company->sync_ns == 0 ? sync_ns : (company->sync_ns * 7 + sync_ns) / 8;
}
