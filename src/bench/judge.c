#include "bench/judge.h"

#include "base/check.h"
#include "base/memory.h"
#include "bench/judge_internal.h"
#include "bench/stats.h"

#include <math.h>
#include <stdlib.h>

enum { SAMPLES_MIN = 3 };

firn_rc judge_events_add(struct judge_events *events, const struct judge_event *event)
{
    if (events->count == events->capacity) {
        unsigned capacity = events->capacity == 0 ? 16 : 2 * events->capacity;
        struct judge_event *grown = memory_realloc(events->items, capacity * sizeof(*grown));
        if (grown == NULL)
            return rc_raise(FIRN_E_NOMEM, "no memory to judge %u events", capacity);
        events->items = grown;
        events->capacity = capacity;
    }
    events->items[events->count++] = *event;
    return FIRN_OK;
}

static void find_longest_silence(const struct judge_input *input, struct judgement *judgement)
{
    for (unsigned i = 0; i < input->count; i++) {
        const struct judge_sample *sample = &input->samples[i];
        if (sample->silence_ns > judgement->longest_silence_ns) {
            judgement->longest_silence_ns = sample->silence_ns;
            judgement->longest_silence_start_ns = sample->silence_start_ns;
        }
    }
}

/* Rates over the samples after the warm-up, stalls included: what a client got. */
static firn_rc find_rates(const struct judge_sample *samples, unsigned count,
                          struct judgement *judgement)
{
    double *rates = memory_alloc((count + 1) * sizeof(*rates));
    if (rates == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory to judge a run of %u intervals", count);
    double operations = 0;
    double time_s = 0;
    unsigned used = 0;
    for (unsigned i = 0; i < count; i++) {
        double length_s = (double)samples[i].length_ns / 1e9;
        operations += samples[i].operations;
        time_s += length_s;
        if (length_s > 0)
            rates[used++] = samples[i].operations / length_s;
    }
    double mean = stats_mean(rates, used);
    judgement->mean_rate = time_s > 0 ? operations / time_s : 0;
    judgement->relative_variation = mean > 0 ? stats_deviation(rates, used) / mean : 0;
    judgement->median_rate = stats_quantile(rates, used, 0.5);
    memory_free(rates);
    return FIRN_OK;
}

/* A stall inside a slowdown is counted as stalled time only. */
static void sum_events(const struct judge_events *stalls, const struct judge_events *slowdowns,
                       struct judgement *judgement)
{
    for (unsigned i = 0; i < stalls->count; i++)
        judgement->stalled_ns += stalls->items[i].length_ns;
    unsigned first = 0; /* the first stall that may reach into the slowdown */
    for (unsigned i = 0; i < slowdowns->count; i++) {
        const struct judge_event *slow = &slowdowns->items[i];
        uint64_t end_ns = slow->start_ns + slow->length_ns;
        judgement->slowed_ns += slow->length_ns;
        while (first < stalls->count &&
               stalls->items[first].start_ns + stalls->items[first].length_ns <= slow->start_ns)
            first++;
        for (unsigned s = first; s < stalls->count && stalls->items[s].start_ns < end_ns; s++) {
            const struct judge_event *stall = &stalls->items[s];
            uint64_t stall_end_ns = stall->start_ns + stall->length_ns;
            uint64_t from_ns = stall->start_ns > slow->start_ns ? stall->start_ns : slow->start_ns;
            judgement->slowed_ns -= (stall_end_ns < end_ns ? stall_end_ns : end_ns) - from_ns;
        }
    }
}

static int compare_starts(const void *left, const void *right)
{
    uint64_t a = ((const struct judge_event *)left)->start_ns;
    uint64_t b = ((const struct judge_event *)right)->start_ns;
    return (a > b) - (a < b);
}

/* Hand the stalls, with the slowdowns put among them, over to the judgement. */
static firn_rc give_events(struct judge_events *stalls, const struct judge_events *slowdowns,
                           struct judgement *judgement)
{
    sum_events(stalls, slowdowns, judgement);
    for (unsigned i = 0; i < slowdowns->count; i++)
        FIRN_TRY(judge_events_add(stalls, &slowdowns->items[i]));
    if (stalls->count != 0)
        qsort(stalls->items, stalls->count, sizeof(*stalls->items), compare_starts);
    judgement->events = stalls->items;
    judgement->event_count = stalls->count;
    *stalls = (struct judge_events){0};
    return FIRN_OK;
}

static firn_rc judge_events_of(const struct judge_input *input, struct judge_activity *activity,
                               struct judge_events *stalls, struct judge_events *slowdowns,
                               struct judgement *judgement)
{
    unsigned warmup = 0;
    FIRN_TRY(judge_find_stalls(input, stalls, &judgement->usual_gap_ns));
    judge_fill_activity(input, stalls, activity);
    FIRN_TRY(judge_find_warmup(activity, input->count, &warmup));
    judgement->warmup_ns = input->samples[warmup].start_ns - input->samples[0].start_ns;
    FIRN_TRY(find_rates(input->samples + warmup, input->count - warmup, judgement));
    FIRN_TRY(judge_find_steady(input->samples + warmup, input->count - warmup, judgement));
    FIRN_TRY(judge_find_slowdowns(activity + warmup, input->count - warmup, slowdowns,
                                  &judgement->speeds));
    FIRN_TRY(judge_find_period(stalls, &judgement->stalls));
    FIRN_TRY(judge_find_period(slowdowns, &judgement->slowdowns));
    return give_events(stalls, slowdowns, judgement);
}

firn_rc judge(const struct judge_input *input, struct judgement *judgement)
{
    struct judgement made = {0};
    struct judge_events stalls = {0};
    struct judge_events slowdowns = {0};
    struct judge_activity *activity = NULL;
    firn_rc rc = FIRN_OK;
    find_longest_silence(input, &made);
    if (input->count < SAMPLES_MIN) {
        FIRN_TRY(find_rates(input->samples, input->count, &made));
        *judgement = made;
        return FIRN_OK;
    }
    activity = memory_zalloc(input->count, sizeof(*activity));
    if (activity == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory to judge a run of %u intervals", input->count);
    FIRN_TRY_GOTO(judge_events_of(input, activity, &stalls, &slowdowns, &made), done);
    *judgement = made;

done:
    memory_free(activity);
    memory_free(stalls.items);
    memory_free(slowdowns.items);
    return rc;
}

firn_rc judge_series(const struct series *series, unsigned except, struct judgement *judgement)
{
    struct judge_sample *samples = memory_alloc((series->count + 1) * sizeof(*samples));
    if (samples == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory to judge a run of %u intervals", series->count);
    for (unsigned i = 0; i < series->count; i++)
        samples[i] = (struct judge_sample){
            .start_ns = series->start_ns[i],
            .length_ns = series->length_ns[i],
            .operations = (double)series_operations(series, i, except),
            .silence_start_ns = series->silence_start_ns[i],
            .silence_ns = series->silence_ns[i],
        };
    struct judge_input input = {samples, series->count, series->silences, series->silence_count};
    firn_rc rc = judge(&input, judgement);
    memory_free(samples);
    return rc;
}

void judge_free(struct judgement *judgement)
{
    memory_free(judgement->events);
    *judgement = (struct judgement){0};
}
