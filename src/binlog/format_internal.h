/*
 * format_internal.h -- the binary log's bytes on disk. FORMAT.md has the tables.
 */
#ifndef FIRN_BINLOG_FORMAT_INTERNAL_H
#define FIRN_BINLOG_FORMAT_INTERNAL_H

#include "base/rc.h"
#include "binlog/event.h"

#define BINLOG_INDEX_FILE   "binlog.index"
#define BINLOG_FILE_PREFIX  "binlog."
#define BINLOG_GROUP_PREFIX "binlog_group."

enum {
    BINLOG_FORMAT_VERSION = 1,
    FILE_HEADER_BYTES = 64,
    EVENT_HEADER_BYTES = 9, /* size, checksum, type */
    BEGIN_BYTES = 56,
    COMMIT_BYTES = 48,
    ROTATE_BYTES = 32,
    GROUP_FRAME_BYTES = BEGIN_BYTES + COMMIT_BYTES, /* what a group has besides its events */
    RECORD_BYTES = 64,                              /* what the log's record has besides them */
    FILE_NAME_BYTES = 32,
    FILE_NUMBER_MAX = 999999999,
};

/* ---- A file's header ---- */

struct file_header {
    uint8_t environment[16];
    uint64_t file;
    uint64_t first_number; /* of the group that begins the file ... */
    uint64_t first_time_us;
    uint32_t server_id;
};

/** Encode; @param to  FILE_HEADER_BYTES */
void file_header_put(uint8_t *to, const struct file_header *header);

/** @return FIRN_OK; FIRN_E_INVALID (no binary log), FIRN_E_UNSUPPORTED (newer), FIRN_E_CORRUPT;
 * without an error text */
firn_rc file_header_get(const uint8_t *from, struct file_header *header);

/** @return the version that a header says it is of. */
uint32_t file_header_version(const uint8_t *from);

/** Write a file's name, "binlog.000001". @return text */
char *file_name(uint64_t file, char text[FILE_NAME_BYTES]);

/** @return the number of the file of that name; 0: it is none */
uint64_t file_number_of(const char *name);

/** Write the name of the file of a transaction's events, and read it; as above. */
char *group_file_name(uint64_t txn_id, char text[FILE_NAME_BYTES]);
uint64_t group_file_txn(const char *name);

/* ---- Events ---- */

/** Fill in size, checksum and type of an event whose body is written. */
void event_seal(uint8_t *event, size_t size_bytes, enum binlog_event_type type);

/** @return the size that an event says it has; its first 4 bytes are there. */
uint32_t event_size(const uint8_t *event);

/** @return true if the bytes are one event and its checksum fits. */
bool event_is_whole(struct span bytes);

/** Encode events of fixed size. */
void begin_put(uint8_t to[BEGIN_BYTES], const struct binlog_event *event);
void commit_put(uint8_t to[COMMIT_BYTES], const struct binlog_event *event);
void rotate_put(uint8_t to[ROTATE_BYTES], uint64_t position, uint64_t next_file);

/** The size of a TREE event, and encoding one. */
size_t tree_event_bytes(uint64_t tree_id, size_t name_bytes);
void tree_event_put(uint8_t *to, uint64_t tree_id, struct span name);

/** The size of a row event. @param before, after  NULL: there is none */
uint64_t row_event_bytes(uint64_t tree_id, struct span key, const struct span *before,
                         const struct span *after);

/** Encode one; the type follows from which images there are. */
void row_event_put(uint8_t *to, size_t size_bytes, uint64_t tree_id, struct span key,
                   const struct span *before, const struct span *after);

/* ---- What events add up to ---- */

/** Walks through the bytes of a group's events, in pieces of any size. */
struct digest {
    uint64_t at;        /* bytes seen */
    uint64_t event_end; /* of the event whose head was seen last */
    uint8_t head[8];    /* size and checksum of the one that is being seen */
    uint64_t events;
    uint32_t checksum; /* of all their checksums */
    uint32_t running;  /* of the one that is being seen */
    bool is_wrong;     /* what was seen are no events, or one of them is damaged */
};

/** Take a piece. Zero the digest first. */
void digest_add(struct digest *digest, struct span bytes);

/** @return true if what was seen are whole events. */
bool digest_is_whole(const struct digest *digest);

/* ---- What the redo log says of a group ---- */

enum record_kind {
    RECORD_INLINE = 1, /* the events follow */
    RECORD_FILE = 2,   /* the events are in a file of their own, synced */
};

/** A group's place. All that its bytes in the file follow from, but for the events. */
struct group_place {
    enum record_kind kind;
    uint32_t server_id;
    uint64_t file;
    uint64_t offset; /* of BEGIN; FILE_HEADER_BYTES: the group begins the file */
    uint64_t number;
    uint64_t time_us;
    uint64_t txn_id;
    uint64_t rotate_offset; /* where ROTATE stands in the file before; 0: there is none */
    uint64_t events_bytes;
};

/** @return where the group ends. */
static inline uint64_t group_end(const struct group_place *place)
{
    return place->offset + GROUP_FRAME_BYTES + place->events_bytes;
}

/** Encode and decode the head of such a record. record_get returns false if it makes no sense.
 * @param events  set: what follows; empty for RECORD_FILE */
void record_put(uint8_t to[RECORD_BYTES], const struct group_place *place);
bool record_get(struct span payload, struct group_place *place, struct span *events);

/** The BEGIN and the COMMIT of a group, and the header of the file it begins. */
void place_begin(uint8_t to[BEGIN_BYTES], const struct group_place *place);
void place_commit(uint8_t to[COMMIT_BYTES], const struct group_place *place,
                  const struct digest *digest);
void place_header(uint8_t to[FILE_HEADER_BYTES], const struct group_place *place,
                  const uint8_t environment[16]);

/* ---- Files (scan.c, index.c) ---- */

struct io_file;
struct io_system;

/** The path of a file in the directory, to be freed with memory_free; NULL, raised. */
char *binlog_path(const char *directory, const char *name);

/** Read the index. @param first_file, last_file  set on success; 0: it names no files
 * @return FIRN_OK; FIRN_E_NOT_FOUND; FIRN_E_CORRUPT, ... */
firn_rc index_load(struct io_system *system, const char *directory, uint64_t *first_file,
                   uint64_t *last_file);

/**
 * Judge the group at an offset: whole, in its place, every event as it was written?
 *
 * @param size_bytes  of the file
 * @param number      the group must have; 0: any
 * @param begin       set on success
 * @return FIRN_OK; FIRN_E_NOT_FOUND without an error text: there is no whole group; FIRN_E_IO,
 *         FIRN_E_NOMEM
 */
firn_rc scan_group(struct io_file *file, uint64_t offset, uint64_t size_bytes, uint64_t number,
                   struct binlog_event *begin);

/** Read a file's header and judge it, with a sentence.
 * @param number  the file's, that the header must have; 0: any */
firn_rc scan_header(struct io_file *file, uint64_t number, struct file_header *header);

#endif
