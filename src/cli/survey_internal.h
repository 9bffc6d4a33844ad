/*
 * survey_internal.h -- the parts of `firn survey`: survey.c reads the command line and reports,
 * survey_measure.c runs the phases, survey_print.c shows the summary.
 */
#ifndef FIRN_CLI_SURVEY_INTERNAL_H
#define FIRN_CLI_SURVEY_INTERNAL_H

#include "bench/survey.h"
#include "cli/progress.h"

#include <stdio.h>

enum { WARNINGS_MAX = 8, WARNING_BYTES = 512 };

/** The command line. */
struct survey_options {
    uint64_t size_bytes;
    uint64_t time_ns;
    const char *output;
    int io_backend;
    const char *device;
    const char *time_scale_text;
    bool keep;
    bool pictures;
    bool json;
};

/** A survey under way. The texts are owned but `directory` and `output`. */
struct survey {
    struct survey_options options;
    const char *directory;
    const char *output;
    char *log_directory;
    char *data_directory;
    char *result_path;
    char *report_path;
    struct survey_target target;
    struct survey_phase phases[SURVEY_PHASES_MAX];
    struct survey_outcome outcomes[SURVEY_PHASES_MAX];
    unsigned count; /* phases */
    unsigned done;  /* of them */
    struct io_system *system;
    struct io_lock *lock; /* on the directory: one survey at a time */
    bool made_directory, made_output;
    struct host_machine machine;
    struct result *result;
    const atomic_bool *stop;
    bool direct;          /* of the phases that ask for it */
    char storage[128];    /* io_system_describe */
    char model_text[200]; /* what the model is, in words */

    struct progress progress;
    char label[128];   /* what progress shows */
    double planned_ns; /* of the phases done, and of the current one what has passed */
    struct {           /* each phase opens its files anew, but its warnings are said once */
        char texts[WARNINGS_MAX][WARNING_BYTES];
        unsigned count;
    } warnings;
};

/**
 * Make the directory, its files and the result.
 *
 * @param argv  the command line, for the result
 * @return FIRN_OK; FIRN_E_STOPPED when interrupted; FIRN_E_NOSPACE, FIRN_E_BUSY, ... Whatever was
 *         returned, survey_clean is to be called
 */
firn_rc survey_prepare(struct survey *survey, int argc, char *const *argv);

/**
 * Run the phases and write the result after each.
 *
 * @return FIRN_OK; FIRN_E_STOPPED when interrupted; what a phase ran into. survey->done tells how
 *         many were finished
 */
firn_rc survey_measure(struct survey *survey);

/** Remove the survey's files (unless they are to be kept) and whatever else is empty, and unlock.
 */
void survey_clean(struct survey *survey);

/** @return what the verdict looks at; valid while the survey is. */
struct survey_findings survey_findings(const struct survey *survey);

/** Print the table and the verdict: one screen. */
void survey_print(const struct survey *survey, FILE *out);

#endif
