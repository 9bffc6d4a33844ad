/*
 * event.h -- what stands in a binary log: files of groups, groups of events.
 *
 * A group is what one transaction did: BEGIN, events, COMMIT. Groups follow one another in the
 * order of commits and have numbers without gaps. FORMAT.md has the bytes.
 */
#ifndef FIRN_BINLOG_EVENT_H
#define FIRN_BINLOG_EVENT_H

#include "base/span.h"

#include <stdbool.h>

enum binlog_event_type {
    BINLOG_BEGIN = 1,
    BINLOG_COMMIT = 2,
    BINLOG_TREE = 3,      /* what a tree is called, before the first event about it in a group */
    BINLOG_INSERT = 4,    /* a key that was not there, and its payload */
    BINLOG_UPDATE = 5,    /* a key, its payload before and after */
    BINLOG_DELETE = 6,    /* a key, and the payload it had */
    BINLOG_STATEMENT = 7, /* a text: a change of definitions, for who executes such */
    BINLOG_ROTATE = 8,    /* the file ends here; the next one goes on */
    BINLOG_EVENT_TYPES,
};

/** @return "begin", "insert", ...; static. */
const char *binlog_event_name(enum binlog_event_type type);

/** One event, decoded; the spans point into its bytes. */
struct binlog_event {
    enum binlog_event_type type;
    uint64_t tree_id;     /* TREE, INSERT, UPDATE, DELETE */
    struct span name;     /* TREE */
    struct span key;      /* INSERT, UPDATE, DELETE */
    struct span before;   /* UPDATE, DELETE */
    struct span after;    /* INSERT, UPDATE */
    struct span text;     /* STATEMENT */
    uint64_t position;    /* BEGIN, COMMIT, ROTATE: where it stands in its file */
    uint64_t number;      /* BEGIN, COMMIT: of the group; ROTATE: of the next file */
    uint64_t time_us;     /* BEGIN, COMMIT: of the commit, since 1970, UTC */
    uint64_t txn_id;      /* BEGIN */
    uint64_t group_bytes; /* BEGIN: from here to behind the COMMIT */
    uint32_t server_id;   /* BEGIN */
    uint64_t events;      /* COMMIT: between BEGIN and COMMIT */
    uint32_t digest;      /* COMMIT: CRC-32C of the checksums of these events */
};

/**
 * Decode an event's bytes.
 *
 * @param bytes  exactly the event's
 * @return false if it is not whole or makes no sense
 */
bool binlog_event_get(struct span bytes, struct binlog_event *event);

#endif
