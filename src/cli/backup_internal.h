/*
 * backup_internal.h -- what `firn backup` and `firn restore` have in common: progress, and how a
 * backup is told.
 */
#ifndef FIRN_CLI_BACKUP_INTERNAL_H
#define FIRN_CLI_BACKUP_INTERNAL_H

#include "cli/environment.h"
#include "engine/backup.h"

/** Work on a backup that somebody looks at. */
struct backup_view {
    struct progress progress;
    const char *phase; /* NULL: not begun */
    json_t *findings;  /* NULL: they are printed */
    uint64_t damages;
    bool incomplete; /* a finding could not be kept */
    uint64_t start_ns;
};

/** Fill the options that both commands have: progress on the view, Ctrl-C. */
void backup_view_begin(struct backup_view *view, uint64_t threads, double throttle_mb_s,
                       const char *directory, struct backup_options *options);

/** End the progress line. */
void backup_view_end(struct backup_view *view);

/** Takes a finding; the context is the view. */
void backup_view_finding(const struct finding *finding, void *context);

/** Print "3 tablespaces, 1.2 GiB, 34 MiB of log", with no end of line. */
void backup_print_size(const struct backup_info *info);

/** Print " in 12.3 s (98 MiB/s)". */
void backup_print_time(const struct backup_view *view, const struct backup_info *info);

/** @return what a backup is as an object, with the seconds that work on it took; NULL without
 * memory. @param directory  of the backup */
json_t *backup_json(const struct backup_view *view, const struct backup_info *info,
                    const char *directory);

/** Print an object, which is given back, on standard output. */
firn_rc backup_print_json(json_t *object);

/** Write out what standard output holds. */
firn_rc backup_end_output(void);

/** Which words of the command line name what: an option, or else a positional word.
 * @param given  the option's value, or NULL @param next  the first positional word not used yet
 * @return NULL if there is none */
const char *backup_word(const char *given, const struct option_words *words, int *next);

#endif
