#include "bench/stats.h"

#include <math.h>
#include <stdlib.h>

double stats_mean(const double *values, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += values[i];
    return count == 0 ? 0 : sum / (double)count;
}

double stats_deviation(const double *values, size_t count)
{
    if (count < 2)
        return 0;
    double mean = stats_mean(values, count);
    double squares = 0;
    for (size_t i = 0; i < count; i++)
        squares += (values[i] - mean) * (values[i] - mean);
    return sqrt(squares / (double)(count - 1));
}

double stats_quantile_sorted(const double *sorted, size_t count, double quantile)
{
    if (count == 0)
        return 0;
    double place = quantile * (double)(count - 1);
    size_t below = (size_t)place;
    if (below + 1 >= count)
        return sorted[count - 1];
    double share = place - (double)below;
    return sorted[below] + share * (sorted[below + 1] - sorted[below]);
}

/* Put the value of rank k in its place, none larger before it and none smaller behind it. */
static void select_rank(double *values, size_t count, size_t k)
{
    size_t low = 0;
    size_t high = count - 1;
    while (low < high) {
        double pivot = values[low + (high - low) / 2];
        size_t i = low;
        size_t j = high + 1; /* one more, so that it never wraps below 0 */
        while (i < j) {
            while (values[i] < pivot)
                i++;
            while (pivot < values[j - 1])
                j--;
            if (i < j) {
                double moved = values[i];
                values[i++] = values[j - 1];
                values[--j] = moved;
            }
        }
        if (k < j)
            high = j - 1;
        else if (k >= i)
            low = i;
        else
            break;
    }
}

double stats_quantile(double *values, size_t count, double quantile)
{
    if (count == 0)
        return 0;
    double place = quantile * (double)(count - 1);
    size_t below = (size_t)place;
    select_rank(values, count, below);
    if (below + 1 >= count)
        return values[below];
    double next = values[below + 1];
    for (size_t i = below + 2; i < count; i++)
        if (values[i] < next)
            next = values[i];
    return values[below] + (place - (double)below) * (next - values[below]);
}

static int compare_doubles(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

void stats_sort(double *values, size_t count)
{
    qsort(values, count, sizeof(*values), compare_doubles);
}

/* P(X < k or X > count - k) for X ~ binomial(count, 1/2) is what the k-th values from either end
   leave outside; the largest k that leaves at most 5 % is chosen. Logarithms, since 2^-count
   underflows. */
struct stats_median stats_median_sorted(const double *sorted, size_t count)
{
    struct stats_median result = {0};
    if (count == 0)
        return result;
    result.median = stats_quantile_sorted(sorted, count, 0.5);
    size_t k = 0; /* values left outside at either end, less one */
    double outside = 0;
    double n = (double)count;
    for (size_t i = 0; i < count / 2; i++) {
        double x = (double)i;
        double term = exp(lgamma(n + 1) - lgamma(x + 1) - lgamma(n - x + 1) - n * log(2.0));
        if (2 * (outside + term) > 0.05)
            break;
        outside += term;
        k = i + 1;
    }
    result.low = sorted[k == 0 ? 0 : k - 1];
    result.high = sorted[k == 0 ? count - 1 : count - k];
    result.confidence = k == 0 ? 0 : 1 - 2 * outside;
    return result;
}
