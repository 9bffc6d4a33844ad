/*
 * binlog_internal.h -- what the actions of firn binlog share: options, and walking through binary
 * logs.
 */
#ifndef FIRN_CLI_BINLOG_INTERNAL_H
#define FIRN_CLI_BINLOG_INTERNAL_H

#include "binlog/reader.h"
#include "cli/environment.h"

struct binlog_command_options {
    uint64_t start_file;
    uint64_t start_position;
    uint64_t stop_position;
    const char *start_datetime;
    const char *stop_datetime;
    uint64_t start_group;
    uint64_t stop_group;
    const char *tree;
    bool json;
    bool idempotent;
    bool ignore_statements;
    bool create;
    bool binlog;
    int binlog_sync;
    uint64_t server_id;
    uint64_t max_binlog_size_bytes;
    uint64_t binlog_cache_size_bytes;
    uint64_t binlog_expire_s;
    struct environment_options environment;
    /* From the words above. */
    uint64_t start_us;
    uint64_t stop_us; /* 0: none */
};

/** Where the options are in the table, for environment_open. */
extern const struct option_table binlog_table;

/** An event, and what it is about. */
struct binlog_visit {
    const struct binlog_event *event;
    const struct binlog_where *where;
    const struct binlog_event *begin; /* of its group */
    struct span tree;                 /* its name, of events about rows */
};

/** What a visitor wants: set `skip` at a BEGIN to leave the group out. */
typedef firn_rc binlog_visitor(const struct binlog_visit *visit, bool *skip, void *context);

/**
 * Walk through directories and files as the options say. A group is visited wholly or not at all.
 *
 * @param paths  each a directory or a file
 * @param stop   looked at between groups
 * @return FIRN_OK; FIRN_E_STOPPED when stop was set; what the visitor and the reader return
 */
firn_rc binlog_walk(const struct binlog_command_options *options, char *const *paths, int count,
                    const atomic_bool *stop, binlog_visitor *visitor, void *context);

/** Read "YYYY-MM-DD hh:mm:ss", with a fraction perhaps, local time. FIRN_E_INVALID */
firn_rc binlog_parse_time(const char *text, const char *option, uint64_t *time_us);

/** The actions. @param words  what follows the action on the command line */
firn_rc binlog_show(const struct binlog_command_options *options, char *const *paths, int count,
                    const atomic_bool *stop);
firn_rc binlog_apply(const struct binlog_command_options *options, const struct option_words *words,
                     char *const *paths, int count, const atomic_bool *stop);

#endif
