/*
 * stat_internal.h -- what `firn stat` gathers (stat.c) and prints (stat_print.c).
 */
#ifndef FIRN_CLI_STAT_INTERNAL_H
#define FIRN_CLI_STAT_INTERNAL_H

#include "engine/store.h"

#include <jansson.h>

struct stat_space {
    char *name;
    char *path;
    enum io_class class;
    uint32_t space;
    uint32_t pages;
    uint32_t pages_used;
};

struct stat_tree {
    char *name;
    bool shared;
    bool guest; /* in the tablespace of another one */
    bool walked;
    bool damaged;
    struct btree_shape shape; /* of a tree that was walked */
};

/** Everything there is to say. */
struct stat_report {
    const char *directory;
    const char *class_directories[IO_CLASS_COUNT];
    const char *devices[IO_CLASS_COUNT]; /* what stands under the files */
    struct stat_space *spaces;
    size_t space_count;
    size_t space_capacity;
    struct stat_tree *trees;
    size_t tree_count;
    size_t tree_capacity;
    struct store_status status;
    uint64_t log_file_size_bytes;
    uint32_t log_files;
};

/** Print for people. */
void stat_print(const struct stat_report *report);

/** @return the same as an object, units last in the names; NULL without memory. */
json_t *stat_json(const struct stat_report *report);

#endif
