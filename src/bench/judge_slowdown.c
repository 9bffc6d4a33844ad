#include "base/check.h"
#include "base/memory.h"
#include "base/rng.h"
#include "bench/judge_internal.h"
#include "bench/stats.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
    SHUFFLES = 200,
    PASSES_MAX = 4,
    LENGTH_MIN = 2,       /* bins in a slowdown */
    REGULAR_MIN = 5,      /* single bins that come regularly enough are slowdowns too */
    REGULAR_BINS_MIN = 5, /* from one to the next */
};

#define SHARE_MAX       0.80 /* of the baseline, in a slowdown */
#define SHARE_LOW       0.85 /* a bin below it speaks for a slowdown, one above it against */
#define SHARE_FULL      0.15 /* so far from SHARE_LOW it speaks with full voice */
#define SHARE_TOUCHED   0.95 /* a bin beside a slowdown that lies below has a part in it */
#define STEP_MAX        0.85 /* of the rates beside it, where a slowdown is cut by the run's end */
#define CHANCE_MAX      0.05 /* part of what is found that shuffled bins may show too */
#define LOW_TIME_MAX    0.25 /* slow for more of the time is no trouble but the way it is */
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

/* The search for slowdowns. Arrays have as many elements as there are bins. */
struct search {
    struct judge_bins bins;
    unsigned length_min;       /* bins in a segment that counts */
    unsigned *order;           /* in which bins are looked at */
    struct open_segment *open; /* while segments are found */
    struct segment *found, *shuffled;
    unsigned *chance; /* for each of found: segments of shuffled bins that speak as strongly */
    struct segment *accepted; /* in bins' own order */
    unsigned accepted_count;
};

static void search_free(struct search *search)
{
    judge_bins_free(&search->bins);
    memory_free(search->order);
    memory_free(search->open);
    memory_free(search->found);
    memory_free(search->shuffled);
    memory_free(search->chance);
    memory_free(search->accepted);
}

static firn_rc search_alloc(struct search *search)
{
    unsigned count = search->bins.count;
    search->order = memory_zalloc(count, sizeof(*search->order));
    search->open = memory_zalloc(count, sizeof(*search->open));
    search->found = memory_zalloc(count, sizeof(*search->found));
    search->shuffled = memory_zalloc(count, sizeof(*search->shuffled));
    search->chance = memory_zalloc(count, sizeof(*search->chance));
    search->accepted = memory_zalloc(count, sizeof(*search->accepted));
    if (search->order == NULL || search->open == NULL || search->found == NULL ||
        search->shuffled == NULL || search->chance == NULL || search->accepted == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory to judge a run of %u intervals", count);
    return FIRN_OK;
}

/* From -1 (nothing wrong) to 1 (clearly slow). In the mirror, upswings are looked for. */
static double bin_score(const struct judge_bins *bins, unsigned bin, bool mirror)
{
    if (bins->taken[bin])
        return -(double)bins->count - 1; /* no segment reaches across it */
    double share = bins->share[bin];
    if (mirror)
        share = share > 0 ? 1 / share : SHARE_LOW + SHARE_FULL;
    return fmax(-1, fmin(1, (SHARE_LOW - share) / SHARE_FULL));
}

/* Operations in a segment as a share of what would have been usual; without an order, the bins' own
   is meant. */
static double segment_share(const struct judge_bins *bins, const unsigned *order,
                            const struct segment *segment)
{
    double operations = 0;
    double usual = 0;
    for (unsigned i = segment->first; i < segment->end; i++) {
        unsigned bin = order == NULL ? i : order[i];
        operations += bins->operations[bin];
        usual += bins->baseline[bin];
    }
    return usual > 0 ? operations / usual : 1;
}

static bool segment_counts(const struct search *search, const struct segment *segment, bool mirror)
{
    if (segment->end - segment->first < search->length_min)
        return false;
    double share = segment_share(&search->bins, search->order, segment);
    return mirror ? share >= 1 / SHARE_MAX : share <= SHARE_MAX;
}

/* All maximal scoring segments of the bins in the order given (Ruzzo and Tompa, "A linear time
   algorithm for finding all maximal scoring subsequences", 1999), those that are too short or not
   slow enough left out. */
static unsigned segments_find(struct search *search, unsigned count, bool mirror,
                              struct segment *segments)
{
    const struct judge_bins *bins = &search->bins;
    struct open_segment *open = search->open;
    unsigned depth = 0;
    double sum = 0;
    for (unsigned i = 0; i < count; i++) {
        double score = bin_score(bins, search->order[i], mirror);
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
        if (segment_counts(search, &segment, mirror))
            segments[found++] = segment;
    }
    return found;
}

/* Put the bins in their own order. */
static void order_identity(struct search *search)
{
    for (unsigned b = 0; b < search->bins.count; b++)
        search->order[b] = b;
}

/* Put the bins that are in no accepted slowdown in a random order. @return how many */
static unsigned order_shuffle(struct search *search, struct rng *rng)
{
    unsigned count = 0;
    for (unsigned b = 0; b < search->bins.count; b++) {
        if (search->bins.taken[b])
            continue;
        unsigned place = (unsigned)rng_below(rng, count + 1);
        search->order[count] = search->order[place];
        search->order[place] = b;
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
static unsigned count_beyond_chance(struct search *search, unsigned found)
{
    struct rng rng;
    rng_init(&rng, 1); /* a judgement can be repeated */
    for (unsigned i = 0; i < found; i++)
        search->chance[i] = 0;
    for (unsigned s = 0; s < SHUFFLES; s++) {
        unsigned count = order_shuffle(search, &rng);
        unsigned segments = segments_find(search, count, false, search->shuffled);
        for (unsigned i = 0; i < segments; i++) {
            unsigned rank = rank_of(search->found, found, search->shuffled[i].score);
            if (rank < found)
                search->chance[rank]++;
        }
    }
    order_identity(search);
    unsigned believed = 0;
    unsigned chance = 0;
    for (unsigned i = 0; i < found; i++) {
        chance += search->chance[i];
        if (chance <= CHANCE_MAX * SHUFFLES * i)
            believed = i + 1;
    }
    return believed;
}

/* Standard deviation of the means of `length` neighbouring shares, from the upper half of their
   distribution, which slowdowns do not spoil. */
static double deviation_of_means(struct judge_bins *bins, unsigned length)
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
static bool beyond_noise(struct judge_bins *bins, const struct segment *segment)
{
    unsigned length = 1; /* a power of two, so that few are computed; shorter is stricter */
    while (length * 2 <= segment->end - segment->first)
        length *= 2;
    double share = segment_share(bins, NULL, segment);
    double deviations = 1 + sqrt(2 * log(bins->count));
    return share <= 1 - deviations * deviation_of_means(bins, length);
}

/* Half of a segment that reaches an end of the run, the half inside, against as many bins beside
   it. */
static double step_at(const struct judge_bins *bins, unsigned inside, unsigned outside,
                      unsigned length)
{
    struct segment within = {inside, inside + length, 0};
    struct segment beside = {outside, outside + length, 0};
    double usual = segment_share(bins, NULL, &beside);
    return usual > 0 ? segment_share(bins, NULL, &within) / usual : 1;
}

/* What is slow to the end of the run, or from its beginning, has not been seen to pass: it may be
   the way the rate bends. So it must begin, or end, with a step. */
static bool is_step_or_passes(const struct judge_bins *bins, const struct segment *segment)
{
    unsigned length = segment->end - segment->first;
    unsigned half = (length + 1) / 2;
    if (segment->first < half)
        return segment->end + half <= bins->count &&
               step_at(bins, segment->end - half, segment->end, half) <= STEP_MAX;
    if (bins->count - segment->end < half)
        return step_at(bins, segment->first, segment->first - half, half) <= STEP_MAX;
    return true;
}

static bool accept(struct search *search, const struct segment *segment)
{
    struct judge_bins *bins = &search->bins;
    if (!beyond_noise(bins, segment) || !is_step_or_passes(bins, segment))
        return false;
    for (unsigned b = segment->first; b < segment->end; b++)
        bins->taken[b] = true;
    search->accepted[search->accepted_count++] = *segment;
    return true;
}

/* Accept segments that are beyond chance and noise, as long as there are any: what is accepted
   neither swells the shuffles any more nor lowers the baseline, so weaker ones of the same kind may
   be believed in the next pass. */
static void search_run(struct search *search)
{
    bool again = true;
    for (unsigned pass = 0; pass < PASSES_MAX && again; pass++) {
        judge_bins_compare(&search->bins);
        unsigned found = segments_find(search, search->bins.count, false, search->found);
        if (found == 0)
            break;
        qsort(search->found, found, sizeof(*search->found), compare_scores_descending);
        unsigned believed = count_beyond_chance(search, found);
        again = false;
        for (unsigned i = 0; i < believed; i++)
            again = accept(search, &search->found[i]) || again;
    }
    judge_bins_compare(&search->bins);
}

static int compare_firsts(const void *left, const void *right)
{
    unsigned a = ((const struct segment *)left)->first;
    unsigned b = ((const struct segment *)right)->first;
    return (a > b) - (a < b);
}

/* Do segments, in their order, follow each other at equal distances, give or take a bin? */
static bool is_regular(const struct segment *segments, unsigned count, double *scratch)
{
    if (count < REGULAR_MIN)
        return false;
    for (unsigned i = 0; i + 1 < count; i++)
        scratch[i] = segments[i + 1].first - segments[i].first;
    double usual = stats_quantile(scratch, count - 1, 0.5);
    if (usual < REGULAR_BINS_MIN)
        return false;
    for (unsigned i = 0; i + 1 < count; i++)
        if (fabs(scratch[i] - usual) > 1)
            return false;
    return true;
}

/* A slowdown of no more than a bin looks like an outlier. But outliers come at random: low bins
   that keep to a beat, together with the slowdowns accepted already, are slowdowns. */
static void accept_regular(struct search *search)
{
    search->length_min = 1;
    unsigned found = segments_find(search, search->bins.count, false, search->found);
    unsigned count = search->accepted_count;
    for (unsigned i = 0; i < found; i++)
        if (beyond_noise(&search->bins, &search->found[i]))
            search->accepted[count++] = search->found[i];
    /* Sorted apart, since the accepted ones stay when the others do not. */
    struct segment *all = search->shuffled;
    memcpy(all, search->accepted, count * sizeof(*all));
    qsort(all, count, sizeof(*all), compare_firsts);
    if (!is_regular(all, count, search->bins.scratch))
        return;
    for (unsigned i = search->accepted_count; i < count; i++)
        for (unsigned b = search->accepted[i].first; b < search->accepted[i].end; b++)
            search->bins.taken[b] = true;
    search->accepted_count = count;
    judge_bins_compare(&search->bins);
}

/* The time of a bin at an edge that belongs to a slowdown: as much as its rate lies between the
   usual one and the slowdown's. */
static uint64_t edge_time_ns(const struct judge_bins *bins, unsigned bin, double share)
{
    double part = (1 - bins->share[bin]) / fmax(1 - share, 0.1);
    double length_ns = (double)(bins->end_ns[bin] - bins->start_ns[bin]);
    return (uint64_t)(fmax(0, fmin(1, part)) * length_ns);
}

/* The rate of a slowdown: its first and last bin are slow in part, as a rule, so that of the bins
   between; of one or two bins the lowest. Two dips so close that they are one have the mean. */
static double slowdown_share(const struct judge_bins *bins, const struct segment *segment)
{
    struct segment inner = {segment->first + 1, segment->end - 1, 0};
    if (segment->end - segment->first <= 2)
        return fmin(bins->share[segment->first], bins->share[segment->end - 1]);
    double share = segment_share(bins, NULL, &inner);
    return share <= SHARE_MAX ? share : segment_share(bins, NULL, segment);
}

/* How far the rates at the edges, and in the bins beside them, lie below the usual tells how much
   of each belongs to the slowdown. */
static struct judge_event slowdown_of(const struct judge_bins *bins, const struct segment *segment)
{
    unsigned first = segment->first;
    unsigned last = segment->end - 1;
    double share = slowdown_share(bins, segment);
    uint64_t start_ns = bins->start_ns[first];
    uint64_t end_ns = bins->end_ns[last];
    if (first != last && share < SHARE_MAX) {
        start_ns = bins->end_ns[first] - edge_time_ns(bins, first, share);
        end_ns = bins->start_ns[last] + edge_time_ns(bins, last, share);
    }
    if (first > 0 && bins->share[first - 1] < SHARE_TOUCHED && bins->end_ns[first - 1] == start_ns)
        start_ns -= edge_time_ns(bins, first - 1, share);
    if (last + 1 < bins->count && bins->share[last + 1] < SHARE_TOUCHED &&
        bins->start_ns[last + 1] == end_ns)
        end_ns += edge_time_ns(bins, last + 1, share);
    return (struct judge_event){.kind = JUDGE_SLOWDOWN,
                                .start_ns = start_ns,
                                .length_ns = end_ns - start_ns,
                                .rate_share = share};
}

static double segments_time(const struct judge_bins *bins, const struct segment *segments,
                            unsigned count)
{
    double time_ns = 0;
    for (unsigned i = 0; i < count; i++)
        time_ns += (double)(bins->end_ns[segments[i].end - 1] - bins->start_ns[segments[i].first]);
    return time_ns;
}

/* The time in segments, of those that are not accepted, that speak as strongly as accepted ones. */
static double time_as_clear(struct search *search, bool mirror)
{
    double weakest = INFINITY;
    for (unsigned i = 0; i < search->accepted_count; i++)
        weakest = fmin(weakest, search->accepted[i].score);
    unsigned found = segments_find(search, search->bins.count, mirror, search->found);
    unsigned kept = 0;
    for (unsigned i = 0; i < found; i++)
        if (search->found[i].score >= weakest)
            search->found[kept++] = search->found[i];
    return segments_time(&search->bins, search->found, kept);
}

/* Slow for much of the time, or fast as often as slow, is no trouble that comes and goes. */
static bool is_usual(struct search *search)
{
    const struct judge_bins *bins = &search->bins;
    double run_ns = (double)(bins->end_ns[bins->count - 1] - bins->start_ns[0]);
    double slow_ns = 0;
    for (unsigned i = 0; i < search->accepted_count; i++)
        slow_ns += (double)slowdown_of(bins, &search->accepted[i]).length_ns;
    return slow_ns + time_as_clear(search, false) > LOW_TIME_MAX * run_ns ||
           time_as_clear(search, true) > MIRROR_TIME_MAX * slow_ns;
}

/* In the order of time; what the baseline without the slowdowns does not bear out any more is left
   out. */
static firn_rc give_slowdowns(struct search *search, struct judge_events *slowdowns)
{
    qsort(search->accepted, search->accepted_count, sizeof(*search->accepted), compare_firsts);
    slowdowns->grain_ns = search->bins.grain_ns;
    for (unsigned i = 0; i < search->accepted_count; i++) {
        struct judge_event event = slowdown_of(&search->bins, &search->accepted[i]);
        if (event.rate_share <= SHARE_LOW)
            FIRN_TRY(judge_events_add(slowdowns, &event));
    }
    return FIRN_OK;
}

firn_rc judge_find_slowdowns(const struct judge_activity *activity, unsigned count,
                             struct judge_events *slowdowns, struct judge_speeds *speeds)
{
    struct search search = {0};
    firn_rc rc = FIRN_OK;
    *speeds = (struct judge_speeds){0};
    FIRN_TRY(judge_bins_open(activity, count, &search.bins));
    if (search.bins.count < JUDGE_BINS_MIN)
        goto done;
    *speeds = judge_bins_speeds(&search.bins);
    if (speeds->found)
        goto done;
    FIRN_TRY_GOTO(search_alloc(&search), done);
    order_identity(&search);
    search.length_min = LENGTH_MIN;
    search_run(&search);
    accept_regular(&search);
    if (search.accepted_count != 0 && !is_usual(&search))
        rc = give_slowdowns(&search, slowdowns);

done:
    search_free(&search);
    return rc;
}
