#include "engine/label_internal.h"

#include "base/checksum.h"
#include "base/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LABEL_VERSION = 1,
    LABEL_MAX_BYTES = 64 << 20, /* a backup's has a line for each tablespace */
    LABEL_FIRST_BYTES = 4 << 10,
    TAIL_BYTES = sizeof("crc32c 01234567\n") - 1,
};

/* ---- Writing ---- */

static firn_rc raise_memory(const char *path)
{
    return rc_raise(FIRN_E_NOMEM, "no memory to write %s", path);
}

/* There is always room for the last line behind what is there. What fails is told by label_write.
 */
static bool grow(struct label *label)
{
    size_t capacity = label->capacity == 0 ? LABEL_FIRST_BYTES : 2 * label->capacity;
    if (label->is_incomplete || capacity > LABEL_MAX_BYTES)
        return false;
    char *text = memory_realloc(label->text, capacity);
    if (text == NULL)
        return false;
    label->text = text;
    label->capacity = capacity;
    return true;
}

static void put_byte(struct label *label, char byte)
{
    if (label->size_bytes + TAIL_BYTES < label->capacity || grow(label))
        label->text[label->size_bytes++] = byte;
    else
        label->is_incomplete = true;
}

static void put_text(struct label *label, const char *text)
{
    while (*text != '\0')
        put_byte(label, *text++);
}

static bool must_escape(char byte)
{
    return (unsigned char)byte < ' ' || byte == 0x7f || byte == '%';
}

static void put_value(struct label *label, const char *value)
{
    static const char hex[] = "0123456789abcdef";
    for (; *value != '\0'; value++) {
        unsigned byte = (unsigned char)*value;
        if (!must_escape(*value)) {
            put_byte(label, *value);
            continue;
        }
        put_byte(label, '%');
        put_byte(label, hex[byte >> 4]);
        put_byte(label, hex[byte & 15]);
    }
}

void label_begin(struct label *label, const char *kind)
{
    char version[16];
    *label = (struct label){0};
    snprintf(version, sizeof(version), " %d\n", LABEL_VERSION);
    put_text(label, "firn-");
    put_text(label, kind);
    put_text(label, version);
}

void label_add(struct label *label, const char *key, const char *value)
{
    put_text(label, key);
    put_byte(label, ' ');
    put_value(label, value);
    put_byte(label, '\n');
}

firn_rc label_write(struct label *label, struct io_system *system, const char *path)
{
    struct io_file *file = NULL;
    if (label->is_incomplete && label->capacity >= LABEL_MAX_BYTES)
        return rc_raise(FIRN_E_INVALID, "%s would be longer than %d bytes", path, LABEL_MAX_BYTES);
    if (label->is_incomplete)
        return raise_memory(path);
    uint32_t checksum = checksum_crc32c(label->text, label->size_bytes);
    char tail[TAIL_BYTES + 1];
    snprintf(tail, sizeof(tail), "crc32c %08" PRIx32 "\n", checksum);
    memcpy(label->text + label->size_bytes, tail, TAIL_BYTES);
    FIRN_TRY(io_file_open(system, IO_CLASS_SYSTEM, path, IO_OPEN_CREATE | IO_OPEN_TRUNCATE, &file));
    firn_rc rc = io_write(file, label->text, label->size_bytes + TAIL_BYTES, 0);
    if (rc == FIRN_OK)
        rc = io_sync(file, IO_SYNC_ALL);
    firn_rc close_rc = io_file_close(file);
    return rc != FIRN_OK ? rc : close_rc;
}

/* ---- Reading ---- */

static firn_rc load(struct io_system *system, const char *path, struct label *label)
{
    struct io_file *file = NULL;
    uint64_t size_bytes = 0;
    FIRN_TRY(io_file_open(system, IO_CLASS_SYSTEM, path, IO_OPEN_READ_ONLY, &file));
    firn_rc rc = io_file_size(file, &size_bytes);
    if (rc == FIRN_OK && size_bytes > LABEL_MAX_BYTES)
        rc = rc_raise(FIRN_E_CORRUPT, "%s is not what firn writes there: it is too long", path);
    if (rc == FIRN_OK && (label->text = memory_alloc((size_t)size_bytes + 1)) == NULL)
        rc = rc_raise(FIRN_E_NOMEM, "no memory to read %s", path);
    if (rc == FIRN_OK && size_bytes != 0)
        rc = io_read(file, label->text, (size_t)size_bytes, 0);
    firn_rc close_rc = io_file_close(file);
    label->size_bytes = (size_t)size_bytes;
    return rc != FIRN_OK ? rc : close_rc;
}

/* The version is judged before the checksum: a later one may have another. */
static firn_rc check_first_line(const char *path, const char *kind, struct label *label)
{
    char magic[32];
    char *end = NULL;
    unsigned long version = 0;
    int length = snprintf(magic, sizeof(magic), "firn-%s ", kind);
    if (strncmp(label->text, magic, (size_t)length) == 0)
        version = strtoul(label->text + length, &end, 10);
    if (version == 0 || *end != '\n')
        return rc_raise(FIRN_E_CORRUPT,
                        "%s does not begin with \"%s1\": it is damaged or another program's; "
                        "restore it from a backup",
                        path, magic);
    if (version > LABEL_VERSION)
        return rc_raise(FIRN_E_UNSUPPORTED,
                        "%s has version %lu of its format and this firn knows versions up to %d: "
                        "use the newer firn that wrote it",
                        path, version, LABEL_VERSION);
    label->position = (size_t)(end - label->text) + 1;
    return FIRN_OK;
}

static firn_rc check_checksum(const char *path, struct label *label)
{
    char expected[TAIL_BYTES + 1];
    if (label->size_bytes < TAIL_BYTES + label->position ||
        memcmp(label->text + label->size_bytes - TAIL_BYTES, "crc32c ", 7) != 0)
        return rc_raise(FIRN_E_CORRUPT,
                        "%s is truncated: its last line, crc32c, is missing; restore it from a "
                        "backup",
                        path);
    size_t body_bytes = label->size_bytes - TAIL_BYTES;
    uint32_t checksum = checksum_crc32c(label->text, body_bytes);
    snprintf(expected, sizeof(expected), "crc32c %08" PRIx32 "\n", checksum);
    if (memcmp(label->text + body_bytes, expected, TAIL_BYTES) != 0 ||
        memchr(label->text, '\0', label->size_bytes) != NULL)
        return rc_raise(FIRN_E_CORRUPT,
                        "%s is damaged: its checksum does not fit; restore it from a backup, or, "
                        "if you edited it on purpose, make its last line \"crc32c %08" PRIx32 "\"",
                        path, checksum);
    label->size_bytes = body_bytes;
    label->text[body_bytes] = '\0';
    return FIRN_OK;
}

firn_rc label_read(struct io_system *system, const char *path, const char *kind,
                   struct label *label)
{
    struct label loaded = {0};
    firn_rc rc = FIRN_OK;
    FIRN_TRY_GOTO(load(system, path, &loaded), failed);
    loaded.text[loaded.size_bytes] = '\0';
    FIRN_TRY_GOTO(check_first_line(path, kind, &loaded), failed);
    FIRN_TRY_GOTO(check_checksum(path, &loaded), failed);
    *label = loaded;
    return FIRN_OK;
failed:
    label_free(&loaded);
    return rc;
}

static int hex_digit(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

/* In place: it only gets shorter. What is no escape stays as it is. */
static void unescape(char *value)
{
    char *to = value;
    while (*value != '\0') {
        int high = value[0] == '%' ? hex_digit(value[1]) : -1;
        int low = high >= 0 ? hex_digit(value[2]) : -1;
        bool escape = low >= 0 && high + low > 0;
        *to++ = escape ? (char)(high * 16 + low) : *value;
        value += escape ? 3 : 1;
    }
    *to = '\0';
}

bool label_next(struct label *label, const char **key, const char **value)
{
    if (label->position >= label->size_bytes)
        return false;
    char *line = label->text + label->position;
    size_t length = strcspn(line, "\n");
    label->position += length + 1;
    line[length] = '\0';
    char *blank = strchr(line, ' ');
    *key = line;
    *value = line + length;
    if (blank != NULL) {
        *blank = '\0';
        unescape(blank + 1);
        *value = blank + 1;
    }
    return true;
}

void label_free(struct label *label)
{
    memory_free(label->text);
    *label = (struct label){0};
}

firn_rc label_raise_line(const char *path, const char *key)
{
    return rc_raise(FIRN_E_CORRUPT,
                    "%s has a line \"%s\" that this firn does not understand; restore the file "
                    "from a backup, or use the firn that wrote it",
                    path, key);
}
