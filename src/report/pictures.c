/*
 * pictures.c -- the gnuplot script of a report's pictures.
 *
 * The script holds its data, so that people can change and repeat a picture: `gnuplot pictures.gp`.
 * gnuplot ends a script at a plot without a point; every part of a plot is therefore asked first
 * whether it has any.
 */
#include "base/check.h"
#include "report/picture_internal.h"

#include <math.h>
#include <string.h>

enum { PICTURE_WIDTH = 1200 };

/* ---- Which pictures there are ---- */

bool picture_any_above(const double *values, unsigned count, double limit)
{
    for (unsigned i = 0; values != NULL && i < count; i++)
        if (values[i] > limit)
            return true;
    return false;
}

bool picture_has_rate(const struct report_run *run)
{
    return picture_any_above(run->rate, run->interval_count, 0);
}

bool picture_has_latencies(const struct report_run *run, unsigned kind)
{
    return picture_any_above(run->kinds[kind].columns.columns[KIND_MAX_US].values,
                             run->interval_count, 0);
}

/* More than one bucket below the last: the curve has points. */
bool picture_has_percentiles(const struct report_kind *kind)
{
    return kind->histogram.count > 1 &&
           picture_any_above(kind->histogram.counts, kind->histogram.count - 1, 0) &&
           kind->histogram.counts[kind->histogram.count - 1] > 0;
}

static bool any_run_has_rate(const struct report *report)
{
    for (unsigned i = 0; i < report->run_count; i++)
        if (picture_has_rate(&report->runs[i]))
            return true;
    return false;
}

static bool any_run_has_percentiles(const struct report *report)
{
    for (unsigned i = 0; i < report->run_count; i++)
        for (unsigned k = 0; k < report->runs[i].kind_count; k++)
            if (picture_has_percentiles(&report->runs[i].kinds[k]))
                return true;
    return false;
}

/* Groups of one name in several files share a picture: that of the first. */
static bool starts_picture(const struct report *report, unsigned number)
{
    struct picture_group group;
    struct picture_group before;
    picture_group_at(report, number, &group);
    for (unsigned i = 0; i < number; i++)
        if (picture_group_at(report, i, &before) && strcmp(before.name, group.name) == 0)
            return false;
    return true;
}

static bool picture_at(const struct report *report, unsigned number, struct picture *picture)
{
    static const struct picture compared[] = {
        {PICTURE_TIMELINE, false, 0}, {PICTURE_TIMELINE, true, 0}, {PICTURE_JITTER, false, 0},
        {PICTURE_JITTER, true, 0},    {PICTURE_DENSITY, false, 0}, {PICTURE_DENSITY, true, 0},
    };
    unsigned count = ARRAY_COUNT(compared);
    if (!any_run_has_rate(report))
        return false;
    if (number < count) {
        *picture = compared[number];
        return true;
    }
    number -= count;
    if (any_run_has_percentiles(report) && number-- == 0) {
        *picture = (struct picture){PICTURE_PERCENTILES, true, 0};
        return true;
    }
    struct picture_group group;
    for (unsigned g = 0; picture_group_at(report, g, &group); g++)
        if (starts_picture(report, g) && number-- == 0) {
            *picture = (struct picture){PICTURE_GROUP, false, g};
            return true;
        }
    for (unsigned i = 0; i < report->run_count; i++)
        if (picture_has_rate(&report->runs[i]) && number-- == 0) {
            *picture = (struct picture){PICTURE_RUN, false, i};
            return true;
        }
    return false;
}

static void picture_name(const struct report *report, const struct picture *picture,
                         char name[PICTURE_NAME_BYTES])
{
    static const char *const stems[] = {"timeline", "jitter", "density", "percentiles"};
    char slug[REPORT_SLUG_BYTES];
    struct picture_group group;
    if (picture->kind == PICTURE_GROUP && picture_group_at(report, picture->number, &group)) {
        report_slug(group.name, slug);
        snprintf(name, PICTURE_NAME_BYTES, "group-%02u-%s", picture->number + 1, slug);
    } else if (picture->kind == PICTURE_RUN) {
        report_slug(report->runs[picture->number].label, slug);
        snprintf(name, PICTURE_NAME_BYTES, "run-%02u-%s", picture->number + 1, slug);
    } else {
        snprintf(name, PICTURE_NAME_BYTES, "%s%s", stems[picture->kind],
                 picture->log && picture->kind != PICTURE_PERCENTILES ? "-log" : "");
    }
}

bool report_picture_name(const struct report *report, unsigned number,
                         char name[PICTURE_NAME_BYTES])
{
    struct picture picture;
    if (!picture_at(report, number, &picture))
        return false;
    picture_name(report, &picture, name);
    return true;
}

/* ---- The script ---- */

void report_write_script(const struct report *report, FILE *out)
{
    static const char *const terminals[][2] = {
        {"svg", "svg noenhanced font 'sans,13' background rgb 'white'"},
        {"png", "pngcairo noenhanced font 'sans,10' background rgb 'white'"},
    };
    fputs("# The pictures of a report of firn's, with their data. Draw them again, in this folder, "
          "by\n#     gnuplot pictures.gp\n",
          out);
    picture_write_data(report, out);
    struct picture picture;
    char name[PICTURE_NAME_BYTES];
    for (unsigned i = 0; picture_at(report, i, &picture); i++) {
        picture_name(report, &picture, name);
        for (unsigned t = 0; t < 2; t++) {
            fprintf(out, "\nset terminal %s size %u,%u\nset output '%s.%s'\n", terminals[t][1],
                    PICTURE_WIDTH, picture_height(report, &picture), name, terminals[t][0]);
            fputs("reset\nset grid lt 1 lw 0.5 lc rgb '#dddddd'\nset border 3 lc rgb '#888888'\n"
                  "set tics nomirror\nset key above left reverse Left\nset lmargin 11\n"
                  "set rmargin 4\n",
                  out);
            picture_put(report, &picture, out);
            fputs("unset output\n", out);
        }
    }
}
