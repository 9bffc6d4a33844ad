#include "cli/kv_line.h"

#include "base/memory.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

enum {
    READ_BYTES = 256 << 10,
    LINE_MAX_BYTES = 1 << 30,
    STOP_POLL_MS = 200, /* a signal may come between looking at the flag and waiting */
};

/* ---- Lines ---- */

static int hex_digit(uint8_t digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    digit |= 0x20;
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

/* @return how many bytes the escape at `from` takes, 0 if it is none */
static size_t read_escape(const uint8_t *from, size_t size_bytes, uint8_t *byte)
{
    static const char letters[] = "tnr\\0";
    static const uint8_t bytes[] = {'\t', '\n', '\r', '\\', '\0'};
    if (size_bytes < 2)
        return 0;
    for (size_t i = 0; i < sizeof(bytes); i++)
        if (from[1] == (uint8_t)letters[i]) {
            *byte = bytes[i];
            return 2;
        }
    if (from[1] != 'x' || size_bytes < 4)
        return 0;
    int high = hex_digit(from[2]);
    int low = hex_digit(from[3]);
    if (high < 0 || low < 0)
        return 0;
    *byte = (uint8_t)(high * 16 + low);
    return 4;
}

/* In place: it only gets shorter. */
static firn_rc unescape(uint8_t *text, size_t size_bytes, struct span *bytes)
{
    const uint8_t *from = memchr(text, '\\', size_bytes);
    const uint8_t *end = text + size_bytes;
    if (from == NULL) {
        *bytes = span_of(text, size_bytes);
        return FIRN_OK;
    }
    uint8_t *to = text + (from - text);
    while (from < end) {
        uint8_t byte = *from;
        size_t length = 1;
        if (byte == '\\')
            length = read_escape(from, (size_t)(end - from), &byte);
        if (length == 0)
            return rc_raise(FIRN_E_INVALID,
                            "a backslash is followed by what makes no escape: write \\t, \\n, \\r, "
                            "\\0, \\xHH, or \\\\ for a backslash");
        *to++ = byte;
        from += length;
    }
    *bytes = span_of(text, (size_t)(to - text));
    return FIRN_OK;
}

firn_rc kv_parse_line(uint8_t *line, size_t size_bytes, struct span *key, struct span *value)
{
    struct span key_bytes;
    struct span value_bytes = {0};
    uint8_t *tab = size_bytes == 0 ? NULL : memchr(line, '\t', size_bytes);
    size_t key_size = tab == NULL ? size_bytes : (size_t)(tab - line);
    if (tab == NULL && value != NULL)
        return rc_raise(FIRN_E_INVALID, "there is no TAB between key and value");
    if (key_size == 0)
        return rc_raise(FIRN_E_INVALID, "the key is empty");
    FIRN_TRY(unescape(line, key_size, &key_bytes));
    if (value != NULL) {
        FIRN_TRY(unescape(tab + 1, size_bytes - key_size - 1, &value_bytes));
        *value = value_bytes;
    }
    *key = key_bytes;
    return FIRN_OK;
}

size_t kv_format(struct span bytes, uint8_t *to)
{
    static const char hex[] = "0123456789abcdef";
    static const char letters[32] = {['\0'] = '0', ['\t'] = 't', ['\n'] = 'n', ['\r'] = 'r'};
    uint8_t *start = to;
    for (size_t i = 0; i < bytes.size_bytes; i++) {
        uint8_t byte = bytes.bytes[i];
        if (byte >= ' ' && byte != '\\' && byte != 0x7f) {
            *to++ = byte;
            continue;
        }
        *to++ = '\\';
        if (byte == '\\') {
            *to++ = '\\';
        } else if (byte < ' ' && letters[byte] != '\0') {
            *to++ = (uint8_t)letters[byte];
        } else {
            *to++ = 'x';
            *to++ = (uint8_t)hex[byte >> 4];
            *to++ = (uint8_t)hex[byte & 15];
        }
    }
    return (size_t)(to - start);
}

void kv_print(FILE *out, struct span bytes)
{
    enum { PIECE_BYTES = 1024 };
    uint8_t text[4 * PIECE_BYTES];
    for (size_t at = 0; at < bytes.size_bytes; at += PIECE_BYTES) {
        size_t left = bytes.size_bytes - at;
        struct span piece = span_of(bytes.bytes + at, left < PIECE_BYTES ? left : PIECE_BYTES);
        fwrite(text, 1, kv_format(piece, text), out);
    }
}

/* ---- Reading ---- */

void kv_reader_init(struct kv_reader *reader, int fd, const atomic_bool *stop)
{
    *reader = (struct kv_reader){.fd = fd, .stop = stop};
}

void kv_reader_free(struct kv_reader *reader)
{
    memory_free(reader->buffer);
    *reader = (struct kv_reader){.fd = -1};
}

/* Make room behind what is there: move it to the front, or grow. */
static firn_rc make_room(struct kv_reader *reader)
{
    if (reader->begin != 0) {
        memmove(reader->buffer, reader->buffer + reader->begin, reader->end - reader->begin);
        reader->end -= reader->begin;
        reader->begin = 0;
    }
    if (reader->capacity - reader->end >= READ_BYTES)
        return FIRN_OK;
    if (reader->end > LINE_MAX_BYTES)
        return rc_raise(FIRN_E_INVALID, "a line is longer than a GiB");
    size_t capacity = reader->capacity == 0 ? (size_t)2 * READ_BYTES : 2 * reader->capacity;
    uint8_t *buffer = memory_realloc(reader->buffer, capacity);
    if (buffer == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for a line of %zu bytes", reader->end);
    reader->buffer = buffer;
    reader->capacity = capacity;
    return FIRN_OK;
}

/* A signal's handler lets read() go on, but not poll(). */
static firn_rc wait_for_input(const struct kv_reader *reader)
{
    struct pollfd input = {.fd = reader->fd, .events = POLLIN};
    int ready = 0;
    while (ready <= 0) {
        if (atomic_load(reader->stop))
            return FIRN_E_STOPPED;
        ready = poll(&input, 1, STOP_POLL_MS);
        if (ready < 0 && errno != EINTR)
            return rc_raise_errno(errno, "cannot wait for standard input");
    }
    return FIRN_OK;
}

static firn_rc fill(struct kv_reader *reader)
{
    FIRN_TRY(make_room(reader));
    FIRN_TRY(wait_for_input(reader));
    ssize_t got;
    do {
        got = read(reader->fd, reader->buffer + reader->end, READ_BYTES);
    } while (got < 0 && errno == EINTR);
    if (got < 0)
        return rc_raise_errno(errno, "cannot read standard input");
    reader->at_end = got == 0;
    reader->end += (size_t)got;
    reader->read_bytes += (uint64_t)got;
    return FIRN_OK;
}

static uint8_t *find_line_end(const struct kv_reader *reader, size_t from)
{
    return reader->end == from ? NULL : memchr(reader->buffer + from, '\n', reader->end - from);
}

firn_rc kv_reader_next(struct kv_reader *reader, uint8_t **line, size_t *size_bytes)
{
    size_t searched = 0; /* of the bytes that are there, without a line feed */
    uint8_t *line_end = NULL;
    while ((line_end = find_line_end(reader, reader->begin + searched)) == NULL &&
           !reader->at_end) {
        searched = reader->end - reader->begin;
        FIRN_TRY(fill(reader));
    }
    size_t left = reader->end - reader->begin;
    if (line_end == NULL && left == 0)
        return FIRN_E_NOT_FOUND;
    *line = reader->buffer + reader->begin;
    *size_bytes = line_end != NULL ? (size_t)(line_end - *line) : left;
    reader->begin += *size_bytes + (line_end != NULL);
    reader->line_number++;
    return FIRN_OK;
}

bool kv_reader_would_wait(const struct kv_reader *reader)
{
    struct pollfd input = {.fd = reader->fd, .events = POLLIN};
    return !reader->at_end && find_line_end(reader, reader->begin) == NULL &&
           poll(&input, 1, 0) == 0;
}
