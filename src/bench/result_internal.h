/*
 * result_internal.h -- building the JSON of a result: values that are always valid, and one place
 * to remember that memory ran out.
 */
#ifndef FIRN_BENCH_RESULT_INTERNAL_H
#define FIRN_BENCH_RESULT_INTERNAL_H

#include "bench/result.h"

#include <stdio.h>

/** What is being built. Once failed, everything put is dropped. */
struct result_builder {
    bool failed; /* memory ran out */
};

/** Set a member; the value's reference is taken, also on failure (NULL is one). */
void result_put(struct result_builder *builder, json_t *object, const char *key, json_t *value);

/** Append an element; the value's reference is taken, also on failure (NULL is one). */
void result_append(struct result_builder *builder, json_t *array, json_t *value);

/** @return a string; bytes that are not UTF-8 are written as \xNN. NULL without memory. */
json_t *result_text(const char *text);

/** @return a number of so many significant digits, an integer where it is one; null for what is not
 * finite. NULL without memory. */
json_t *result_number(double value, int digits);

/** @return a number of ns in another unit (1e9 for seconds), exact to the ns. */
json_t *result_time(uint64_t time_ns, double unit_ns);

/** @return a UTC time as 2026-11-30T14:45:00Z, with milliseconds if there are any. */
json_t *result_date(uint64_t unix_ms);

/** @return the columns of a run's intervals; only of kinds whose bit is in used_kinds. */
json_t *result_intervals(struct result_builder *builder, const struct result_run *run,
                         unsigned used_kinds);

/** @return the columns of the machine's counters. */
json_t *result_host(struct result_builder *builder, const struct result_run *run);

/** @return what each kind did over the whole run. */
json_t *result_summary(struct result_builder *builder, const struct result_run *run,
                       unsigned used_kinds);

/** @return the judgement. */
json_t *result_judgement(struct result_builder *builder, const struct judgement *judgement,
                         const char *text);

/** Write JSON: members and elements that hold others on lines of their own, columns each on one. */
bool result_print(json_t *value, FILE *out);

#endif
