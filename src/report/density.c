#include "report/report_internal.h"

#include <math.h>

/* Silverman's rule of thumb ("Density estimation for statistics and data analysis", 1986,
   eq. 3.31). Values that are all equal get a narrow peak rather than none. */
static double bandwidth(const double *values, unsigned count)
{
    double quartiles =
        stats_quantile_sorted(values, count, 0.75) - stats_quantile_sorted(values, count, 0.25);
    double deviation = stats_deviation(values, count);
    double spread = quartiles > 0 ? fmin(deviation, quartiles / 1.34) : deviation;
    double least = fmax(fabs(values[count - 1]) * 1e-3, 1e-9);
    return fmax(0.9 * spread * pow(count, -0.2), least);
}

/* Values are counted at the points first: 512 counts stand for any number of values. */
void report_density_compute(const double *values, unsigned count, struct report_density *density)
{
    *density = (struct report_density){0};
    if (count == 0)
        return;
    enum { LAST = REPORT_DENSITY_POINTS - 1 };
    double width = bandwidth(values, count);
    double counts[REPORT_DENSITY_POINTS] = {0};
    density->low = values[0] - 3 * width;
    density->high = values[count - 1] + 3 * width;
    double step = (density->high - density->low) / LAST;
    if (!isfinite(step) || step <= 0) {
        density->high = density->low;
        return;
    }
    width = fmax(width, step / 2); /* narrower kernels would fall between the points */
    for (unsigned i = 0; i < count; i++)
        counts[(unsigned)fmin(round((values[i] - density->low) / step), LAST)] += 1.0 / count;
    for (unsigned from = 0; from <= LAST; from++)
        for (unsigned to = 0; counts[from] > 0 && to <= LAST; to++) {
            double distance = ((double)from - (double)to) * step / width;
            density->values[to] += counts[from] * exp(-distance * distance / 2) /
                                   (width * sqrt(2 * 3.14159265358979323846));
        }
}
