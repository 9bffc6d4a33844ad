/* Any bytes are either refused with a sentence, nothing kept, or make a report that every writer
   can write. */
#include "base/check.h"
#include "report/report_internal.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static FILE *nowhere(void)
{
    static FILE *stream;
    if (stream == NULL)
        stream = fopen("/dev/null", "w");
    ENSURE(stream != NULL);
    return stream;
}

static void write_everything(const struct report *report)
{
    FILE *out = nowhere();
    ENSURE(report_print(report, out) == FIRN_OK);
    ENSURE(report_write_page(report, out) == FIRN_OK);
    report_write_summary_csv(report, out);
    report_write_script(report, out);
    for (unsigned i = 0; i < report->run_count; i++)
        report_write_intervals_csv(&report->runs[i], out);
    json_t *table = report_json(report);
    ENSURE(table != NULL);
    json_decref(table);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct report *report;
    ENSURE(report_open(&report) == FIRN_OK);
    if (report_add_memory(report, "a.json", data, size) != FIRN_OK) {
        ENSURE(strstr(firn_error_text(), "a.json") != NULL);
        ENSURE(report->run_count == 0 && report->file_count == 0);
        report_close(report);
        return 0;
    }
    /* A second time, so that repeats or namesakes are met too. */
    ENSURE(report_add_memory(report, "b.json", data, size) == FIRN_OK);
    ENSURE(report_summarize(report, NULL) == FIRN_OK);
    write_everything(report);
    report_close(report);
    return 0;
}
