/*
 * label_internal.h -- text files that say what a directory is: firn.env, firn.place and
 * firn.backup.
 *
 * Lines of "KEY VALUE", the first "firn-KIND VERSION", the last "crc32c HEX" over all before it
 * (FORMAT.md). They are read by people who wonder what lies where, and may be edited by them: then
 * the error tells which checksum the last line has to have. Bytes below blank, DEL and "%" stand as
 * "%XX" in values.
 */
#ifndef FIRN_ENGINE_LABEL_INTERNAL_H
#define FIRN_ENGINE_LABEL_INTERNAL_H

#include "io/io.h"

/** A label being written, or being read line by line. */
struct label {
    char *text;
    size_t size_bytes;
    size_t capacity;    /* while it is being written */
    size_t position;    /* of the next line to read */
    bool is_incomplete; /* there was no memory for a part of it, or it grew too long */
};

/** Begin a label to be written. @param kind  "environment", "place", "backup" */
void label_begin(struct label *label, const char *kind);

/** Add a line. Values may be any bytes but 0. */
void label_add(struct label *label, const char *key, const char *value);

/**
 * End a label with its checksum and write it as a file, synced; the directory is the caller's to
 * sync. A file of that name is overwritten.
 *
 * @return FIRN_OK; FIRN_E_INVALID (too long), FIRN_E_NOMEM (for any part of it), FIRN_E_NOSPACE,
 * FIRN_E_IO, ...
 */
firn_rc label_write(struct label *label, struct io_system *system, const char *path);

/**
 * Read a label and judge it.
 *
 * @param label  set on success; label_free. label_next gives its lines.
 * @return FIRN_OK; FIRN_E_NOT_FOUND; FIRN_E_CORRUPT (no label of that kind, damaged);
 *         FIRN_E_UNSUPPORTED (a newer version)
 */
firn_rc label_read(struct io_system *system, const char *path, const char *kind,
                   struct label *label);

/** Take the next line apart, in place. @return false at the end */
bool label_next(struct label *label, const char **key, const char **value);

/** Free a label's memory. */
void label_free(struct label *label);

/** Raise FIRN_E_CORRUPT for a line that makes no sense although the checksum is right. */
firn_rc label_raise_line(const char *path, const char *key);

#endif
