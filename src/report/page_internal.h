/*
 * page_internal.h -- what fills the {{places}} of assets/page.html: page.c and page_tables.c.
 */
#ifndef FIRN_REPORT_PAGE_INTERNAL_H
#define FIRN_REPORT_PAGE_INTERNAL_H

#include "report/report_internal.h"

enum { PAGE_NONCE_BYTES = 33, PAGE_DURATION_BYTES = UNITS_TEXT_BYTES + 1 };

struct page {
    const struct report *report;
    FILE *out;
    char nonce[PAGE_NONCE_BYTES];
};

/** Write a row's label, its mark "(modelled)" as a badge. */
void page_put_label(FILE *out, const struct report_row *row);

/** Write a setting's text: where its name ends in _bytes, as people say sizes. */
void page_put_fact(FILE *out, const char *name, const char *text);

/** @return `text`, the duration in it; "0" for none. */
const char *page_duration(double duration_ns, char text[PAGE_DURATION_BYTES]);

/** Write the body of the summary table. */
firn_rc page_put_summary(struct page *page);

/** Write what is the same in all runs' settings. */
firn_rc page_put_same(struct page *page);

/** Write the table of the settings that differ, where there is more than one row. */
firn_rc page_put_different(struct page *page);

/** Write a line for each file. */
firn_rc page_put_sources(struct page *page);

#endif
