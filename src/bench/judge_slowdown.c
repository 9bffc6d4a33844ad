#include "base/check.h"
#include "base/memory.h"
#include "base/rng.h"
#include "bench/judge_internal.h"
#include "bench/stats.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

enum {
    BINS_MIN = 12,
    BINS_MAX = 1 << 16,
    BIN_OPERATIONS_MIN = 16, /* in the mean: a bin of fewer is all noise */
    ANCHORS = 64,            /* the baseline is computed at so many places, straight between */
    EDGE_DIVISOR = 16,       /* nearer to an end than this part of the run the baseline is level */
    SHUFFLES = 64,
    PASSES_MAX = 4,
    LENGTH_MIN = 2, /* bins in a slowdown */
};

#define SHARE_MAX       0.80 /* of the baseline, in a slowdown */
#define SHARE_LOW       0.85 /* a bin below it speaks for a slowdown, one above it against */
#define SHARE_FULL      0.15 /* so far from SHARE_LOW it speaks with full voice */
#define CHANCE_MAX      0.05 /* part of what is found that shuffled bins may show too */
#define LOW_TIME_MAX    0.25 /* slow for more of the time is a second speed, no trouble */
#define MIRROR_TIME_MAX 0.5  /* time of equally clear upswings against that of slowdowns */

/* A stretch of bins that speaks for a slowdown. */
struct segment {
    unsigned first, end; /* places in the order looked at; the end is excluded */
    double score;
};

/* A segment while segments are found: the sums of scores before it and up to its end, and the
   last segment before it whose sum was lower. */
struct open_segment {
    unsigned first, end;
    double before, up_to;
    unsigned link;
};

/* Intervals joined until each has operations enough; stretches that are all stall are left out. */
struct bins {
    unsigned count;
    uint64_t *start_ns, *end_ns;
    double *operations, *active_ns;
    double *baseline; /* operations that would have been usual */
    double *share;    /* operations / baseline */
    bool *taken;      /* part of an accepted slowdown */
    /* Room for whoever needs it: count elements each. */
    double *scratch;
    unsigned *order;
    struct open_segment *open;
    struct segment *found, *shuffled;
    unsigned *chance; /* for each of found: segments of shuffled bins that speak as strongly */
};

double judge_active_rate(const struct judge_activity *activity)
{
    if (activity->active_ns == 0 || activity->active_ns < activity->length_ns / 4)
        return NAN;
    return activity->operations * 1e9 / (double)activity->active_ns;
}

static void bins_free(struct bins *bins)
{
    memory_free(bins->start_ns);
    memory_free(bins->end_ns);
    memory_free(bins->operations);
    memory_free(bins->active_ns);
    memory_free(bins->baseline);
    memory_free(bins->share);
    memory_free(bins->taken);
    memory_free(bins->scratch);
    memory_free(bins->order);
    memory_free(bins->open);
    memory_free(bins->found);
    memory_free(bins->shuffled);
    memory_free(bins->chance);
}

static firn_rc bins_alloc(struct bins *bins, unsigned room)
{
    bins->start_ns = memory_zalloc(room, sizeof(*bins->start_ns));
    bins->end_ns = memory_zalloc(room, sizeof(*bins->end_ns));
    bins->operations = memory_zalloc(room, sizeof(*bins->operations));
    bins->active_ns = memory_zalloc(room, sizeof(*bins->active_ns));
    bins->baseline = memory_zalloc(room, sizeof(*bins->baseline));
    bins->share = memory_zalloc(room, sizeof(*bins->share));
    bins->taken = memory_zalloc(room, sizeof(*bins->taken));
    bins->scratch = memory_zalloc(room, sizeof(*bins->scratch));
    bins->order = memory_zalloc(room, sizeof(*bins->order));
    bins->open = memory_zalloc(room, sizeof(*bins->open));
    bins->found = memory_zalloc(room, sizeof(*bins->found));
    bins->shuffled = memory_zalloc(room, sizeof(*bins->shuffled));
    bins->chance = memory_zalloc(room, sizeof(*bins->chance));
    if (bins->start_ns == NULL || bins->end_ns == NULL || bins->operations == NULL ||
        bins->active_ns == NULL || bins->baseline == NULL || bins->share == NULL ||
        bins->taken == NULL || bins->scratch == NULL || bins->order == NULL || bins->open == NULL ||
        bins->found == NULL || bins->shuffled == NULL || bins->chance == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory to judge a run of %u intervals", room);
    return FIRN_OK;
}

/* How many intervals make a bin; 0 when the run is too short or too thin for slowdowns. */
static unsigned bin_intervals(const struct judge_activity *activity, unsigned count)
{
    double operations = 0;
    for (unsigned i = 0; i < count; i++)
        operations += activity[i].operations;
    if (count < BINS_MIN || operations < BINS_MIN * BIN_OPERATIONS_MIN)
        return 0;
    unsigned for_noise = (unsigned)ceil(BIN_OPERATIONS_MIN * (double)count / operations);
    unsigned for_size = (count + BINS_MAX - 1) / BINS_MAX;
    return for_noise > for_size ? for_noise : for_size;
}

static void bins_fill(struct bins *bins, const struct judge_activity *activity, unsigned count,
                      unsigned intervals)
{
    for (unsigned i = 0; i + intervals <= count; i += intervals) {
        struct judge_activity sum = {.start_ns = activity[i].start_ns};
        for (unsigned j = i; j < i + intervals; j++) {
            sum.length_ns += activity[j].length_ns;
            sum.active_ns += activity[j].active_ns;
            sum.operations += activity[j].operations;
        }
        if (isnan(judge_active_rate(&sum)))
            continue;
        unsigned b = bins->count++;
        bins->start_ns[b] = sum.start_ns;
        bins->end_ns[b] = sum.start_ns + sum.length_ns;
        bins->operations[b] = sum.operations;
        bins->active_ns[b] = (double)sum.active_ns;
    }
}

static double median_rate(struct bins *bins, unsigned first, unsigned end)
{
    unsigned used = 0;
    for (unsigned b = first; b < end; b++)
        bins->scratch[used++] = bins->operations[b] / bins->active_ns[b];
    return stats_quantile(bins->scratch, used, 0.5);
}

/* The median rate around a bin, in a window that reaches equally far to both sides (so that a
   trend does not matter) and over half of the run at most. Near the ends of the run the last such
   window is prolonged along the line through the medians of its halves. */
static double median_around(struct bins *bins, unsigned bin)
{
    unsigned last = bins->count - 1;
    unsigned edge = bins->count / EDGE_DIVISOR;
    if (edge < LENGTH_MIN + 1)
        edge = LENGTH_MIN + 1;
    unsigned middle = bin < edge ? edge : bin > last - edge ? last - edge : bin;
    unsigned reach = bins->count / 4;
    if (reach > middle)
        reach = middle;
    if (reach > last - middle)
        reach = last - middle;
    double median = median_rate(bins, middle - reach, middle + reach + 1);
    if (bin == middle)
        return median;
    double before = median_rate(bins, middle - reach, middle);
    double after = median_rate(bins, middle + 1, middle + reach + 1);
    double slope = (after - before) / (reach + 1);
    return fmax(0, median + slope * ((double)bin - (double)middle));
}

/* Fill baseline and share. */
static void bins_compare(struct bins *bins)
{
    unsigned anchors = bins->count < ANCHORS ? bins->count : ANCHORS;
    unsigned place = 0;
    double rate = median_around(bins, 0);
    for (unsigned a = 1; a < anchors; a++) {
        unsigned next = (unsigned)((uint64_t)a * (bins->count - 1) / (anchors - 1));
        double next_rate = median_around(bins, next);
        for (unsigned b = place; b <= next; b++) {
            double part = (double)(b - place) / (double)(next - place);
            bins->baseline[b] = (rate + part * (next_rate - rate)) * bins->active_ns[b];
        }
        place = next;
        rate = next_rate;
    }
    for (unsigned b = 0; b < bins->count; b++)
        bins->share[b] = bins->baseline[b] > 0 ? bins->operations[b] / bins->baseline[b] : 1;
}

/* From -1 (nothing wrong) to 1 (clearly slow). In the mirror, upswings are looked for. */
static double bin_score(const struct bins *bins, unsigned bin, bool mirror)
{
    if (bins->taken[bin])
        return -(double)bins->count - 1; /* no segment reaches across it */
    double share = bins->share[bin];
    if (mirror)
        share = share > 0 ? 1 / share : SHARE_LOW + SHARE_FULL;
    return fmax(-1, fmin(1, (SHARE_LOW - share) / SHARE_FULL));
}

/* Operations in a segment as a share of what would have been usual. */
static double segment_share(const struct bins *bins, const unsigned *order,
                            const struct segment *segment)
{
    double operations = 0;
    double usual = 0;
    for (unsigned i = segment->first; i < segment->end; i++) {
        operations += bins->operations[order[i]];
        usual += bins->baseline[order[i]];
    }
    return usual > 0 ? operations / usual : 1;
}

static bool segment_counts(const struct bins *bins, const unsigned *order,
                           const struct segment *segment, bool mirror)
{
    if (segment->end - segment->first < LENGTH_MIN)
        return false;
    double share = segment_share(bins, order, segment);
    return mirror ? share >= 1 / SHARE_MAX : share <= SHARE_MAX;
}

/* All maximal scoring segments of the bins in the order given (Ruzzo and Tompa, "A linear time
   algorithm for finding all maximal scoring subsequences", 1999), those that are too short or not
   slow enough left out. */
static unsigned segments_find(struct bins *bins, unsigned count, bool mirror,
                              struct segment *segments)
{
    struct open_segment *open = bins->open;
    unsigned depth = 0;
    double sum = 0;
    for (unsigned i = 0; i < count; i++) {
        double score = bin_score(bins, bins->order[i], mirror);
        struct open_segment made = {.first = i, .end = i + 1, .before = sum, .up_to = sum + score};
        sum += score;
        if (score <= 0)
            continue;
        for (;;) {
            unsigned j = depth;
            while (j > 0 && open[j - 1].before >= made.before)
                j = open[j - 1].link;
            made.link = j;
            if (j == 0 || open[j - 1].up_to >= made.up_to)
                break;
            made.first = open[j - 1].first;
            made.before = open[j - 1].before;
            depth = j - 1;
        }
        open[depth++] = made;
    }
    unsigned found = 0;
    for (unsigned i = 0; i < depth; i++) {
        struct segment segment = {open[i].first, open[i].end, open[i].up_to - open[i].before};
        if (segment_counts(bins, bins->order, &segment, mirror))
            segments[found++] = segment;
    }
    return found;
}

/* Put the bins in their own order. */
static void order_identity(struct bins *bins)
{
    for (unsigned b = 0; b < bins->count; b++)
        bins->order[b] = b;
}

/* Put the bins that are in no accepted slowdown in a random order. @return how many */
static unsigned order_shuffle(struct bins *bins, struct rng *rng)
{
    unsigned count = 0;
    for (unsigned b = 0; b < bins->count; b++) {
        if (bins->taken[b])
            continue;
        unsigned place = (unsigned)rng_below(rng, count + 1);
        bins->order[count] = bins->order[place];
        bins->order[place] = b;
        count++;
    }
    return count;
}

static int compare_scores_descending(const void *left, const void *right)
{
    double a = ((const struct segment *)left)->score;
    double b = ((const struct segment *)right)->score;
    return (a < b) - (a > b);
}

/* The first of found, by descending score, that speaks no more strongly than a score. */
static unsigned rank_of(const struct segment *found, unsigned count, double score)
{
    unsigned low = 0;
    unsigned high = count;
    while (low < high) {
        unsigned middle = low + (high - low) / 2;
        if (found[middle].score > score)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/*
 * How many of the strongest segments speak so strongly that chance does not explain them. If the
 * order of the bins meant nothing, shuffling them would not matter; so as many of the found are
 * believed as keeps the number that shuffled bins show, in the mean, below CHANCE_MAX of one less.
 * Of a single one that says: none of SHUFFLES shuffles showed the like.
 */
static unsigned count_beyond_chance(struct bins *bins, unsigned found)
{
    struct rng rng;
    rng_init(&rng, 1); /* a judgement can be repeated */
    for (unsigned i = 0; i < found; i++)
        bins->chance[i] = 0;
    for (unsigned s = 0; s < SHUFFLES; s++) {
        unsigned count = order_shuffle(bins, &rng);
        unsigned segments = segments_find(bins, count, false, bins->shuffled);
        for (unsigned i = 0; i < segments; i++) {
            unsigned rank = rank_of(bins->found, found, bins->shuffled[i].score);
            if (rank < found)
                bins->chance[rank]++;
        }
    }
    order_identity(bins);
    unsigned believed = 0;
    unsigned chance = 0;
    for (unsigned i = 0; i < found; i++) {
        chance += bins->chance[i];
        if (chance <= CHANCE_MAX * SHUFFLES * i)
            believed = i + 1;
    }
    return believed;
}

/* Standard deviation of the means of `length` neighbouring shares, from the upper half of their
   distribution, which slowdowns do not spoil. */
static double deviation_of_means(struct bins *bins, unsigned length)
{
    unsigned used = 0;
    double sum = 0;
    for (unsigned b = 0; b < bins->count; b++) {
        sum += bins->share[b];
        if (b >= length)
            sum -= bins->share[b - length];
        if (b + 1 >= length)
            bins->scratch[used++] = sum / length;
    }
    double median = stats_quantile(bins->scratch, used, 0.5);
    return (stats_quantile(bins->scratch, used, 0.9) - median) / 1.2816;
}

/* Is a segment's mean further down than its length leaves to noise, be it ever so correlated? Of n
   normal values the lowest is some sqrt(2 ln n) deviations down; one more is asked for. */
static bool beyond_noise(struct bins *bins, const struct segment *segment)
{
    unsigned length = 1; /* a power of two, so that few are computed; shorter is stricter */
    while (length * 2 <= segment->end - segment->first)
        length *= 2;
    double share = segment_share(bins, bins->order, segment);
    double deviations = 1 + sqrt(2 * log(bins->count));
    return share <= 1 - deviations * deviation_of_means(bins, length);
}

/* Accept what is beyond chance and noise. Accepted bins no longer swell the shuffles, so weaker
   ones of the same kind may be believed in the next pass. @return how many were accepted */
static unsigned accept_segments(struct bins *bins)
{
    unsigned found = segments_find(bins, bins->count, false, bins->found);
    if (found == 0)
        return 0;
    qsort(bins->found, found, sizeof(*bins->found), compare_scores_descending);
    unsigned believed = count_beyond_chance(bins, found);
    unsigned accepted = 0;
    for (unsigned i = 0; i < believed; i++) {
        const struct segment *segment = &bins->found[i];
        if (!beyond_noise(bins, segment))
            continue;
        for (unsigned b = segment->first; b < segment->end; b++)
            bins->taken[b] = true;
        bins->found[accepted++] = *segment;
    }
    return accepted;
}

static double segments_time(const struct bins *bins, const struct segment *segments, unsigned count)
{
    double time_ns = 0;
    for (unsigned i = 0; i < count; i++)
        time_ns += (double)(bins->end_ns[segments[i].end - 1] - bins->start_ns[segments[i].first]);
    return time_ns;
}

/* The time in segments, of those that are not accepted, that speak as strongly as accepted ones. */
static double time_as_clear(struct bins *bins, bool mirror, double weakest_score)
{
    unsigned found = segments_find(bins, bins->count, mirror, bins->found);
    unsigned kept = 0;
    for (unsigned i = 0; i < found; i++)
        if (bins->found[i].score >= weakest_score)
            bins->found[kept++] = bins->found[i];
    return segments_time(bins, bins->found, kept);
}

/* A device that switches between two speeds has no slowdowns: it is slow for much of the time, or
   fast as often as it is slow. */
static bool two_speeds(struct bins *bins, double slow_ns, double weakest_score)
{
    double run_ns = (double)(bins->end_ns[bins->count - 1] - bins->start_ns[0]);
    return slow_ns + time_as_clear(bins, false, weakest_score) > LOW_TIME_MAX * run_ns ||
           time_as_clear(bins, true, weakest_score) > MIRROR_TIME_MAX * slow_ns;
}

static int compare_starts(const void *left, const void *right)
{
    uint64_t a = ((const struct judge_event *)left)->start_ns;
    uint64_t b = ((const struct judge_event *)right)->start_ns;
    return (a > b) - (a < b);
}

/* The time of a bin at an edge that belongs to a slowdown: as much as its rate lies between the
   usual one and the slowdown's. */
static uint64_t edge_time_ns(const struct bins *bins, unsigned bin, double share)
{
    double part = (1 - bins->share[bin]) / (1 - share);
    double length_ns = (double)(bins->end_ns[bin] - bins->start_ns[bin]);
    return (uint64_t)(fmax(0, fmin(1, part)) * length_ns);
}

/* The first and last bin of a slowdown are slow in part, as a rule. So its rate is that of the bins
   between, when there are any, and tells how much of the two belongs to it. */
static struct judge_event slowdown_of(const struct bins *bins, const struct segment *segment)
{
    unsigned first = segment->first;
    unsigned last = segment->end - 1;
    struct segment inner = *segment;
    uint64_t start_ns = bins->start_ns[first];
    uint64_t end_ns = bins->end_ns[last];
    if (last - first >= 2) {
        inner.first++;
        inner.end--;
    }
    double share = segment_share(bins, bins->order, &inner);
    if (inner.first != first && share < SHARE_MAX) {
        start_ns = bins->end_ns[first] - edge_time_ns(bins, first, share);
        end_ns = bins->start_ns[last] + edge_time_ns(bins, last, share);
    }
    return (struct judge_event){.kind = JUDGE_SLOWDOWN,
                                .start_ns = start_ns,
                                .length_ns = end_ns - start_ns,
                                .rate_share = share};
}

static firn_rc add_slowdowns(const struct bins *bins, unsigned count,
                             struct judge_events *slowdowns)
{
    for (unsigned i = 0; i < count; i++) {
        struct judge_event event = slowdown_of(bins, &bins->found[i]);
        FIRN_TRY(judge_events_add(slowdowns, &event));
    }
    return FIRN_OK;
}

firn_rc judge_find_slowdowns(const struct judge_activity *activity, unsigned count,
                             struct judge_events *slowdowns)
{
    unsigned intervals = bin_intervals(activity, count);
    if (intervals == 0 || count / intervals < BINS_MIN)
        return FIRN_OK;
    struct bins bins = {0};
    firn_rc rc = FIRN_OK;
    FIRN_TRY_GOTO(bins_alloc(&bins, count / intervals), done);
    slowdowns->grain_ns =
        intervals * (activity[count - 1].start_ns - activity[0].start_ns) / (count - 1);
    bins_fill(&bins, activity, count, intervals);
    if (bins.count < BINS_MIN)
        goto done;
    bins_compare(&bins);
    order_identity(&bins);
    double weakest_score = INFINITY;
    double slow_ns = 0;
    for (unsigned pass = 0; pass < PASSES_MAX; pass++) {
        unsigned accepted = accept_segments(&bins);
        if (accepted == 0)
            break;
        weakest_score = fmin(weakest_score, bins.found[accepted - 1].score);
        slow_ns += segments_time(&bins, bins.found, accepted);
        FIRN_TRY_GOTO(add_slowdowns(&bins, accepted, slowdowns), done);
    }
    if (slowdowns->count != 0 && two_speeds(&bins, slow_ns, weakest_score))
        slowdowns->count = 0;
    if (slowdowns->count != 0)
        qsort(slowdowns->items, slowdowns->count, sizeof(*slowdowns->items), compare_starts);

done:
    bins_free(&bins);
    return rc;
}
