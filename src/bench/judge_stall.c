#include "base/check.h"
#include "base/memory.h"
#include "bench/judge_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* No silence shorter than this is called a stall, whatever the device. */
#define STALL_MIN_NS (4 * JUDGE_SILENCE_MIN_NS)

/* Fewer operations than this in a run tell nothing of usual gaps. */
enum { OPERATIONS_MIN = 16 };

/* A stall is at least so many usual gaps long. */
#define USUAL_GAPS_MIN 3.0

/* e^-7: about one run in a thousand shows a gap past the limit by chance. */
#define CHANCE_LOG 7.0

/* Stalls that are parted by less than this share of the time they take together are one: a few
   requests that were under way may still come back. */
#define JOIN_SHARE 0.05

static int compare_descending(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left;
    uint64_t b = *(const uint64_t *)right;
    return (a < b) - (a > b);
}

/* The silence the run ends in, if the list does not hold it yet; otherwise its length is 0. */
static struct meter_silence last_silence(const struct judge_input *input)
{
    struct meter_silence none = {0};
    if (input->count == 0)
        return none;
    const struct judge_sample *last = &input->samples[input->count - 1];
    struct meter_silence silence = {last->silence_start_ns, last->silence_ns};
    uint64_t end_ns = silence.start_ns + silence.length_ns;
    if (end_ns != last->start_ns + last->length_ns || silence.length_ns < JUDGE_SILENCE_MIN_NS)
        return none;
    if (input->silence_count != 0) {
        const struct meter_silence *listed = &input->silences[input->silence_count - 1];
        if (listed->start_ns >= silence.start_ns)
            return none;
    }
    return silence;
}

/*
 * Where does a gap end and a stall begin? The usual gap U is the one that K gaps exceed: one a
 * second, or, of a device with few operations, one gap in eight. Beyond it, gaps that nothing but
 * chance makes fall off exponentially, at a scale b that the K next shorter ones show:
 * K e^-((x-U)/b) of them exceed x, and the limit is put where that is a thousandth. Short runs know
 * b badly, hence the allowance of 2/sqrt(K).
 */
static double stall_limit(const uint64_t *descending_ns, unsigned count, double operations,
                          double run_s, uint64_t *usual_gap_ns)
{
    double rank = floor(fmax(1, fmin(run_s, operations / 8)));
    if (rank >= count) { /* the usual gap is shorter than what is listed */
        *usual_gap_ns = (uint64_t)(run_s * 1e9 / fmax(operations, 1));
        return STALL_MIN_NS;
    }
    double usual = (double)descending_ns[(unsigned)rank];
    *usual_gap_ns = (uint64_t)usual;
    double scale = 0;
    double shorter_rank = fmin(2 * rank, count - 1);
    if (shorter_rank > rank)
        scale = (usual - (double)descending_ns[(unsigned)shorter_rank]) / log(shorter_rank / rank);
    double chance = usual + (log(rank) + CHANCE_LOG) * (1 + 2 / sqrt(rank)) * scale;
    return fmax(STALL_MIN_NS, fmax(USUAL_GAPS_MIN * usual, chance));
}

/* Append a silence, or lengthen the last stall by it when the two are one. */
static firn_rc add_stall(struct judge_events *stalls, const struct meter_silence *silence)
{
    uint64_t end_ns = silence->start_ns + silence->length_ns;
    if (stalls->count != 0) {
        struct judge_event *last = &stalls->items[stalls->count - 1];
        uint64_t last_end_ns = last->start_ns + last->length_ns;
        ASSERT(silence->start_ns >= last_end_ns);
        double parted = (double)(silence->start_ns - last_end_ns);
        if (parted <= JOIN_SHARE * (double)(end_ns - last->start_ns)) {
            last->length_ns = end_ns - last->start_ns;
            return FIRN_OK;
        }
    }
    struct judge_event event = {
        .kind = JUDGE_STALL, .start_ns = silence->start_ns, .length_ns = silence->length_ns};
    return judge_events_add(stalls, &event);
}

firn_rc judge_find_stalls(const struct judge_input *input, struct judge_events *stalls,
                          uint64_t *usual_gap_ns)
{
    double operations = 0;
    double run_s = 0;
    for (unsigned i = 0; i < input->count; i++) {
        operations += input->samples[i].operations;
        run_s += (double)input->samples[i].length_ns / 1e9;
    }
    struct meter_silence last = last_silence(input);
    unsigned count = input->silence_count + (last.length_ns != 0);
    uint64_t *lengths_ns = memory_alloc((count + 1) * sizeof(*lengths_ns));
    if (lengths_ns == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory to judge a run of %u silences", count);
    for (unsigned i = 0; i < input->silence_count; i++)
        lengths_ns[i] = input->silences[i].length_ns;
    if (last.length_ns != 0)
        lengths_ns[count - 1] = last.length_ns;
    qsort(lengths_ns, count, sizeof(*lengths_ns), compare_descending);
    double limit_ns = stall_limit(lengths_ns, count, operations, run_s, usual_gap_ns);
    memory_free(lengths_ns);
    if (operations < OPERATIONS_MIN)
        return FIRN_OK;
    for (unsigned i = 0; i < input->silence_count; i++)
        if ((double)input->silences[i].length_ns >= limit_ns)
            FIRN_TRY(add_stall(stalls, &input->silences[i]));
    if ((double)last.length_ns >= limit_ns)
        FIRN_TRY(add_stall(stalls, &last));
    return FIRN_OK;
}

void judge_fill_activity(const struct judge_input *input, const struct judge_events *stalls,
                         struct judge_activity *activity)
{
    unsigned first = 0; /* the first stall that may reach into the interval */
    for (unsigned i = 0; i < input->count; i++) {
        const struct judge_sample *sample = &input->samples[i];
        uint64_t start_ns = sample->start_ns;
        uint64_t end_ns = start_ns + sample->length_ns;
        while (first < stalls->count &&
               stalls->items[first].start_ns + stalls->items[first].length_ns <= start_ns)
            first++;
        uint64_t stalled_ns = 0;
        for (unsigned s = first; s < stalls->count && stalls->items[s].start_ns < end_ns; s++) {
            const struct judge_event *stall = &stalls->items[s];
            uint64_t stall_end_ns = stall->start_ns + stall->length_ns;
            uint64_t from_ns = stall->start_ns > start_ns ? stall->start_ns : start_ns;
            stalled_ns += (stall_end_ns < end_ns ? stall_end_ns : end_ns) - from_ns;
        }
        activity[i] = (struct judge_activity){.start_ns = start_ns,
                                              .length_ns = sample->length_ns,
                                              .active_ns = sample->length_ns - stalled_ns,
                                              .operations = sample->operations};
    }
}
