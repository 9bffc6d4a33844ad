/*
 * finding.h -- what a check found: how bad, where, and a sentence with what to do.
 *
 * A check collects; it goes on behind each finding. Whoever judges a part of an environment (the
 * log, tablespaces, trees) tells findings to one function, which prints or counts them.
 */
#ifndef FIRN_BASE_FINDING_H
#define FIRN_BASE_FINDING_H

#include <stdint.h>

enum finding_severity {
    FINDING_NOTE,    /* nothing is wrong; somebody may want to know */
    FINDING_WARNING, /* nothing is lost yet, but one of two copies is, or something does not belong
                      */
    FINDING_DAMAGE,  /* something is damaged or missing */
    FINDING_UNSEEN,  /* it could not be looked at: what it is like is not known */
    FINDING_SEVERITIES,
};

/** What finding.page and finding.offset are where there is none. */
#define FINDING_NOWHERE UINT64_MAX

struct finding {
    enum finding_severity severity;
    const char *file; /* its path, or NULL */
    uint64_t page;    /* of the file */
    uint64_t offset;  /* in the file, bytes */
    const char *text; /* one sentence: what, where, what to do */
};

/** Takes a finding; its texts are valid during the call. */
typedef void finding_report(const struct finding *finding, void *context);

/** @return "note", "warning", "damage" or "unseen"; static. */
const char *finding_severity_name(enum finding_severity severity);

/** Format a finding's sentence and report it. @param where  all but the text */
void finding_tell(finding_report *report, void *context, struct finding where, const char *format,
                  ...) __attribute__((format(printf, 4, 5)));

#endif
