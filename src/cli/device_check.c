#include "base/check.h"
#include "base/units.h"
#include "cli/device_internal.h"
#include "cli/terminal.h"

#include <math.h>
#include <string.h>

static double ratio(const struct device_check_figure *figure)
{
    return figure->model / figure->sheet;
}

static bool misses(const struct device_check_figure *figure)
{
    return fabs(ratio(figure) - 1) > DEVICE_CHECK_TOLERANCE;
}

/* "35 k/s", "238 MiB/s", "74.9 us" */
static const char *format_figure(const char *unit, double value, char *text, size_t size_bytes)
{
    char number[UNITS_TEXT_BYTES];
    if (strcmp(unit, "us") == 0)
        snprintf(text, size_bytes, "%s", units_format_duration(value * 1e3, number));
    else if (strcmp(unit, "/s") == 0)
        snprintf(text, size_bytes, "%s/s", units_format_count(value, number));
    else
        snprintf(text, size_bytes, "%.4g %s", value, unit);
    return text;
}

/* ---- For people ---- */

static void print_rows(const struct device_check *check)
{
    printf("%-31s %5s %11s %8s %9s %9s\n", "", "depth", "requests/s", "MiB/s", "mean", "p99");
    for (unsigned i = 0; i < check->row_count; i++) {
        const struct device_load *load = &check->rows[i].load;
        const struct device_rates *rates = &check->rows[i].rates;
        char block[UNITS_TEXT_BYTES], iops[UNITS_TEXT_BYTES];
        char mean[UNITS_TEXT_BYTES], p99[UNITS_TEXT_BYTES], name[80];
        snprintf(name, sizeof(name), "%s %s of %s", load->sequential ? "sequential" : "random",
                 load->write_percent > 0 ? "writes" : "reads",
                 units_format_size(load->block_bytes, block));
        printf("%-31s %5u %11s %8.1f %9s %9s\n", name, load->depth,
               units_format_count(rates->iops, iops), rates->mib_s,
               units_format_duration(rates->mean_us * 1e3, mean),
               units_format_duration(rates->p99_us * 1e3, p99));
    }
}

static void print_rest(const struct model_spec *spec, const struct device_check *check)
{
    char sync[UNITS_TEXT_BYTES], both[UNITS_TEXT_BYTES];
    printf("\nA sync after a random write of 16 KiB takes %s, both together %s.\n",
           units_format_duration(check->sync_us * 1e3, sync),
           units_format_duration(check->write_sync_us * 1e3, both));
    if (check->dip.found) {
        char start[UNITS_TEXT_BYTES], length[UNITS_TEXT_BYTES], period[UNITS_TEXT_BYTES];
        printf("A dip begins at %s and lasts %s, at %.0f %% of the usual rate; one comes every "
               "%s.\n",
               units_format_duration(check->dip.start_s * 1e9, start),
               units_format_duration(check->dip.length_s * 1e9, length),
               check->dip.rate_share * 100,
               units_format_duration(spec->ssd.dip_period_s * 1e9, period));
    }
}

static void print_figures(const struct device_check *check)
{
    printf("\n%-24s %14s %14s %7s\n", "", "model", "data sheet", "ratio");
    for (unsigned i = 0; i < check->figure_count; i++) {
        const struct device_check_figure *figure = &check->figures[i];
        char model[48], sheet[48];
        printf("%-24s %14s %14s %7.2f%s\n", figure->name,
               format_figure(figure->unit, figure->model, model, sizeof(model)),
               format_figure(figure->unit, figure->sheet, sheet, sizeof(sheet)), ratio(figure),
               misses(figure) ? "  off" : "");
    }
}

void device_print_check(const struct model_spec *spec, const struct model_sheet *sheet,
                        const struct device_check *check)
{
    printf("%s: %s\nModelled, in model time.\n\n", spec->name, spec->text);
    print_rows(check);
    print_rest(spec, check);
    if (sheet == NULL) {
        printf("\nThis model has no data sheet to be compared with.\n");
        return;
    }
    print_figures(check);
    printf("Data sheet: ");
    terminal_wrap(stdout, sheet->source, (int)strlen("Data sheet: "), (int)strlen("Data sheet: "),
                  terminal_text_width(stdout));
    if (check->passed)
        printf("Every figure is within %.0f %% of the data sheet.\n", DEVICE_CHECK_TOLERANCE * 100);
}

firn_rc device_raise_misses(const struct model_spec *spec, const struct device_check *check)
{
    char list[256] = "";
    size_t length = 0;
    for (unsigned i = 0; i < check->figure_count && length < sizeof(list); i++) {
        const struct device_check_figure *figure = &check->figures[i];
        if (misses(figure))
            length += (size_t)snprintf(list + length, sizeof(list) - length, "%s%s at %.2f",
                                       length > 0 ? ", " : "", figure->name, ratio(figure));
    }
    return rc_raise(FIRN_E_INVALID, "model %s is more than %.0f %% off its data sheet: %s of it",
                    spec->name, DEVICE_CHECK_TOLERANCE * 100, list);
}

/* ---- As JSON ---- */

/* Append and give up a value. @return false without memory */
static bool append(json_t *array, json_t *value)
{
    return json_array_append_new(array, value) == 0;
}

static bool append_rows(json_t *rows, const struct device_check *check)
{
    bool good = true;
    for (unsigned i = 0; good && i < check->row_count; i++) {
        const struct device_load *load = &check->rows[i].load;
        const struct device_rates *rates = &check->rows[i].rates;
        good = append(rows, json_pack("{s:s, s:s, s:i, s:i, s:f, s:f, s:f, s:f}", "pattern",
                                      load->sequential ? "sequential" : "random", "operation",
                                      load->write_percent > 0 ? "write" : "read", "block_bytes",
                                      (int)load->block_bytes, "depth", (int)load->depth,
                                      "requests_per_s", rates->iops, "mib_s", rates->mib_s,
                                      "mean_us", rates->mean_us, "p99_us", rates->p99_us));
    }
    return good;
}

static bool append_figures(json_t *figures, const struct device_check *check)
{
    bool good = true;
    for (unsigned i = 0; good && i < check->figure_count; i++) {
        const struct device_check_figure *figure = &check->figures[i];
        good = append(figures,
                      json_pack("{s:s, s:s, s:f, s:f, s:f, s:b}", "name", figure->name, "unit",
                                figure->unit, "model", figure->model, "sheet", figure->sheet,
                                "ratio", ratio(figure), "passed", !misses(figure)));
    }
    return good;
}

json_t *device_check_json(const struct model_spec *spec, const struct model_sheet *sheet,
                          const struct device_check *check)
{
    json_t *rows = json_array();
    json_t *figures = json_array();
    json_t *dip = check->dip.found
                      ? json_pack("{s:f, s:f, s:f}", "start_s", check->dip.start_s, "length_s",
                                  check->dip.length_s, "rate_share", check->dip.rate_share)
                      : json_null();
    if (!append_rows(rows, check) || !append_figures(figures, check)) {
        json_decref(rows);
        json_decref(figures);
        json_decref(dip);
        return NULL;
    }
    return json_pack("{s:s, s:s, s:b, s:f, s:o, s:f, s:f, s:o, s:o, s:s?, s:b}", "name", spec->name,
                     "text", spec->text, "modelled", true, "tolerance", DEVICE_CHECK_TOLERANCE,
                     "runs", rows, "sync_us", check->sync_us, "write_sync_us", check->write_sync_us,
                     "dip", dip, "sheet", figures, "source", sheet != NULL ? sheet->source : NULL,
                     "passed", check->passed);
}
