/*
 * kv_internal.h -- the parts of `firn kv`: the command line (kv.c), loading (kv_load.c), everything
 * else that is done with keys (kv_keys.c).
 */
#ifndef FIRN_CLI_KV_INTERNAL_H
#define FIRN_CLI_KV_INTERNAL_H

#include "cli/environment.h"
#include "cli/kv_line.h"

struct kv_action;

struct kv_options {
    struct environment_options environment;
    const struct kv_action *action; /* what the words name */
    const char *tree;
    bool shared;
    uint64_t commit_every;
    uint64_t threads;
    bool bulk;
    uint64_t fill_factor;
    bool ack;
    const char *from;
    const char *to;
    const char *prefix;
    bool reverse;
    uint64_t limit;
    bool count;
    bool raw;
    bool json;
};

/** What an action works with. */
struct kv_run {
    const struct kv_options *options;
    struct store *store;
    char **keys; /* of the command line */
    int key_count;
    const atomic_bool *stop; /* set by Ctrl-C */
};

/** What a load or delete came to. */
struct kv_summary {
    uint64_t rows;
    uint64_t commits;
    uint64_t start_ns;
    uint64_t start_syncs;
    uint64_t start_log_bytes;
};

/**
 * The actions. Each prints what it has found or done.
 *
 * @return FIRN_OK; FIRN_E_NOT_FOUND (the tree, a key); FIRN_E_STOPPED, interrupted; FIRN_E_INVALID
 *         (a line, naming it); what the engine returns
 */
firn_rc kv_load(const struct kv_run *run);
firn_rc kv_get(const struct kv_run *run);
firn_rc kv_scan(const struct kv_run *run);
firn_rc kv_delete(const struct kv_run *run);
firn_rc kv_drop(const struct kv_run *run);

/** Note the time and the log's counters at the start. */
void kv_summary_start(const struct kv_run *run, struct kv_summary *summary);

/** Print rows, seconds and rates: to standard error if keys are acknowledged on standard output. */
firn_rc kv_summary_print(const struct kv_run *run, const struct kv_summary *summary,
                         const char *done);

/** Keys that are printed once they are committed. */
struct kv_acks {
    uint8_t *text;
    size_t size_bytes;
    size_t capacity;
};

/** Remember a key. @return FIRN_OK, FIRN_E_NOMEM */
firn_rc kv_acks_add(struct kv_acks *acks, struct span key);

/** Print the keys on standard output, at once. One thread at a time. */
firn_rc kv_acks_print(struct kv_acks *acks);
void kv_acks_free(struct kv_acks *acks);

/** Raise that Ctrl-C ended the work after so many rows. @return FIRN_E_STOPPED */
firn_rc kv_raise_interrupted(const char *done, uint64_t rows);

/** Write out what standard output holds. @return FIRN_OK, FIRN_E_IO, FIRN_E_NOSPACE, ... */
firn_rc kv_end_output(void);

#endif
