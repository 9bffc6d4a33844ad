#include "base/memory.h"
#include "bench/judge_internal.h"
#include "bench/stats.h"

#include <math.h>

enum {
    BINS_MAX = 1 << 16,
    BIN_OPERATIONS_MIN = 16, /* in the mean: a bin of fewer is all noise */
    ANCHORS = 64,            /* the baseline is computed at so many places, straight between */
    BLOCKS = 32,             /* of the run, whose medians give its trend */
};

/* Two speeds are told from noise by the distance of their means, in deviations within them; the
   halves of normal noise lie 2.7 apart, those of evenly spread values 3.5. */
#define SPEEDS_DISTANCE_MIN 5.0
#define SPEEDS_SHARE_MAX    0.80 /* of the slow one, of the fast one's rate */
#define SPEEDS_TIME_MIN     0.25 /* in either; less at the slow one is slowdowns */

double judge_active_rate(const struct judge_activity *activity)
{
    if (activity->active_ns == 0 || activity->active_ns < activity->length_ns / 4)
        return NAN;
    return activity->operations * 1e9 / (double)activity->active_ns;
}

void judge_bins_free(struct judge_bins *bins)
{
    memory_free(bins->start_ns);
    memory_free(bins->end_ns);
    memory_free(bins->operations);
    memory_free(bins->active_ns);
    memory_free(bins->baseline);
    memory_free(bins->share);
    memory_free(bins->taken);
    memory_free(bins->scratch);
}

static bool bins_alloc(struct judge_bins *bins, unsigned room)
{
    bins->start_ns = memory_zalloc(room, sizeof(*bins->start_ns));
    bins->end_ns = memory_zalloc(room, sizeof(*bins->end_ns));
    bins->operations = memory_zalloc(room, sizeof(*bins->operations));
    bins->active_ns = memory_zalloc(room, sizeof(*bins->active_ns));
    bins->baseline = memory_zalloc(room, sizeof(*bins->baseline));
    bins->share = memory_zalloc(room, sizeof(*bins->share));
    bins->taken = memory_zalloc(room, sizeof(*bins->taken));
    bins->scratch = memory_zalloc(room, sizeof(*bins->scratch));
    return bins->start_ns != NULL && bins->end_ns != NULL && bins->operations != NULL &&
           bins->active_ns != NULL && bins->baseline != NULL && bins->share != NULL &&
           bins->taken != NULL && bins->scratch != NULL;
}

/* How many intervals make a bin; 0 when the run is too short or too thin. */
static unsigned bin_intervals(const struct judge_activity *activity, unsigned count)
{
    double operations = 0;
    for (unsigned i = 0; i < count; i++)
        operations += activity[i].operations;
    if (count < JUDGE_BINS_MIN || operations < JUDGE_BINS_MIN * BIN_OPERATIONS_MIN)
        return 0;
    unsigned for_noise = (unsigned)ceil(BIN_OPERATIONS_MIN * (double)count / operations);
    unsigned for_size = (count + BINS_MAX - 1) / BINS_MAX;
    return for_noise > for_size ? for_noise : for_size;
}

firn_rc judge_bins_open(const struct judge_activity *activity, unsigned count,
                        struct judge_bins *bins)
{
    *bins = (struct judge_bins){0};
    unsigned intervals = bin_intervals(activity, count);
    if (intervals == 0 || count / intervals < JUDGE_BINS_MIN)
        return FIRN_OK;
    if (!bins_alloc(bins, count / intervals)) {
        judge_bins_free(bins);
        return rc_raise(FIRN_E_NOMEM, "no memory to judge a run of %u intervals", count);
    }
    uint64_t run_ns = activity[count - 1].start_ns - activity[0].start_ns;
    bins->grain_ns = run_ns / (count - 1) * intervals;
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
    return FIRN_OK;
}

static double bin_rate(const struct judge_bins *bins, unsigned bin)
{
    return bins->operations[bin] / bins->active_ns[bin];
}

/* The trend of the rates, a bin, by the median of the slopes between medians of blocks (Theil 1950,
   Sen 1968): slowdowns of less than a quarter of the run hardly move it. */
static double find_slope(struct judge_bins *bins)
{
    double medians[BLOCKS], slopes[BLOCKS * (BLOCKS - 1) / 2];
    unsigned blocks = bins->count < 2 * BLOCKS ? bins->count / 2 : BLOCKS;
    double length = (double)bins->count / blocks;
    for (unsigned k = 0; k < blocks; k++) {
        unsigned first = (unsigned)(k * length);
        unsigned end = (unsigned)((k + 1) * length);
        for (unsigned b = first; b < end; b++)
            bins->scratch[b - first] = bin_rate(bins, b);
        medians[k] = stats_quantile(bins->scratch, end - first, 0.5);
    }
    unsigned used = 0;
    for (unsigned k = 1; k < blocks; k++)
        for (unsigned i = 0; i < k; i++)
            slopes[used++] = (medians[k] - medians[i]) / ((k - i) * length);
    return stats_quantile(slopes, used, 0.5);
}

/* The median rate of the bins around one that are in no slowdown found so far, over half of the
   run, the trend taken out. */
static double median_around(struct judge_bins *bins, unsigned bin, double slope)
{
    unsigned reach = bins->count / 4;
    unsigned first = bin < reach ? 0 : bin - reach;
    if (first + 2 * reach >= bins->count)
        first = bins->count - 1 - 2 * reach;
    unsigned used = 0;
    for (unsigned b = first; b <= first + 2 * reach; b++)
        if (!bins->taken[b])
            bins->scratch[used++] = bin_rate(bins, b) - slope * ((double)b - (double)bin);
    return fmax(0, stats_quantile(bins->scratch, used, 0.5));
}

void judge_bins_compare(struct judge_bins *bins)
{
    double slope = find_slope(bins);
    unsigned anchors = bins->count < ANCHORS ? bins->count : ANCHORS;
    unsigned place = 0;
    double rate = median_around(bins, 0, slope);
    for (unsigned a = 1; a < anchors; a++) {
        unsigned next = (unsigned)((uint64_t)a * (bins->count - 1) / (anchors - 1));
        double next_rate = median_around(bins, next, slope);
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

/* Where to cut sorted values in two so that the parts vary least in themselves (Otsu, "A threshold
   selection method from gray-level histograms", 1979). @return how many are in the lower part */
static unsigned cut_in_two(const double *sorted, unsigned count)
{
    double sum = 0;
    for (unsigned i = 0; i < count; i++)
        sum += sorted[i];
    double low_sum = 0;
    double best = -1;
    unsigned cut = 0;
    for (unsigned low = 1; low < count; low++) {
        low_sum += sorted[low - 1];
        double distance = (sum - low_sum) / (count - low) - low_sum / low;
        double between = distance * distance * low * (count - low);
        if (between > best) {
            best = between;
            cut = low;
        }
    }
    return cut;
}

/* The two speeds of rates from which a trend is taken. */
static struct judge_speeds speeds_beside(struct judge_bins *bins, double slope)
{
    struct judge_speeds speeds = {0};
    double middle = (bins->count - 1) / 2.0;
    for (unsigned b = 0; b < bins->count; b++)
        bins->scratch[b] = bin_rate(bins, b) - slope * (b - middle);
    stats_sort(bins->scratch, bins->count);
    unsigned low = cut_in_two(bins->scratch, bins->count);
    unsigned high = bins->count - low;
    const double *fast = bins->scratch + low;
    double slow_rate = stats_mean(bins->scratch, low);
    double fast_rate = stats_mean(fast, high);
    double slow_deviation = stats_deviation(bins->scratch, low);
    double fast_deviation = stats_deviation(fast, high);
    double within =
        sqrt((low * slow_deviation * slow_deviation + high * fast_deviation * fast_deviation) /
             bins->count);
    speeds.slow_time_share = (double)low / bins->count;
    speeds.slow_rate_share = fast_rate > 0 ? fmax(0, slow_rate / fast_rate) : 1;
    speeds.found = speeds.slow_rate_share <= SPEEDS_SHARE_MAX &&
                   speeds.slow_time_share >= SPEEDS_TIME_MIN &&
                   speeds.slow_time_share <= 1 - SPEEDS_TIME_MIN &&
                   fast_rate - slow_rate >= SPEEDS_DISTANCE_MIN * within;
    return speeds;
}

struct judge_speeds judge_bins_speeds(struct judge_bins *bins)
{
    /* A step from one speed to the other looks like a trend, so first without. */
    struct judge_speeds speeds = speeds_beside(bins, 0);
    return speeds.found ? speeds : speeds_beside(bins, find_slope(bins));
}
