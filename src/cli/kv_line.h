/*
 * kv_line.h -- keys and values as lines: "KEY TAB VALUE", as `firn kv` reads and writes them.
 *
 * Any bytes can be written: TAB, line feed, carriage return and backslash stand as \t, \n, \r and
 * \\, NUL as \0, other control bytes as \xHH. What is no escape stands for itself, so plain text is
 * its own form. The key ends at the first TAB; in the value a TAB stands for itself too.
 */
#ifndef FIRN_CLI_KV_LINE_H
#define FIRN_CLI_KV_LINE_H

#include "base/rc.h"
#include "base/span.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

/**
 * Take a line apart, in place.
 *
 * @param line   without its line feed; overwritten
 * @param key    set on success, into the line
 * @param value  set on success, into the line; NULL: the line is a key, what follows a TAB is
 *               ignored
 * @return FIRN_OK; FIRN_E_INVALID with a sentence that does not name the line
 */
firn_rc kv_parse_line(uint8_t *line, size_t size_bytes, struct span *key, struct span *value);

/** The most that kv_format writes for so many bytes. */
static inline size_t kv_format_bound(size_t size_bytes)
{
    return 4 * size_bytes;
}

/** Write bytes as they stand in a line. @return how many @param to  room for kv_format_bound */
size_t kv_format(struct span bytes, uint8_t *to);

/** Write bytes as they stand in a line to a stream. */
void kv_print(FILE *out, struct span bytes);

/** Lines of a file descriptor. */
struct kv_reader {
    int fd;
    const atomic_bool *stop; /* looked at while waiting for input */
    uint8_t *buffer;
    size_t begin; /* of what is not handed out yet */
    size_t end;
    size_t capacity;
    bool at_end; /* of the file */
    uint64_t line_number;
    uint64_t read_bytes;
};

/** Prepare to read. No memory yet. */
void kv_reader_init(struct kv_reader *reader, int fd, const atomic_bool *stop);
void kv_reader_free(struct kv_reader *reader);

/**
 * Read the next line, waiting for it.
 *
 * @param line  without its line feed; the caller may overwrite it; valid until the next call
 * @return FIRN_OK; FIRN_E_NOT_FOUND at the end, without an error text; FIRN_E_STOPPED, the flag is
 *         set; FIRN_E_INVALID (longer than a GiB); FIRN_E_IO, FIRN_E_NOMEM
 */
firn_rc kv_reader_next(struct kv_reader *reader, uint8_t **line, size_t *size_bytes);

/** @return true if kv_reader_next would have to wait for input. */
bool kv_reader_would_wait(const struct kv_reader *reader);

#endif
