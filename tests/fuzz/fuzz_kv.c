/* Any line is a key and a value, or is refused with a sentence; what was read, written again and
   read again is the same. As a stream of lines, it falls apart at its line feeds and nowhere else.
 */
#include "base/check.h"
#include "cli/kv_line.h"
#include "firn.h"

#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static uint8_t *copy_of(const uint8_t *bytes, size_t size_bytes)
{
    uint8_t *copy = malloc(size_bytes + 1);
    ENSURE(copy != NULL);
    if (size_bytes != 0)
        memcpy(copy, bytes, size_bytes);
    return copy;
}

/* A pair, as a line that begins at its first byte. */
static size_t write_line(struct span key, struct span value, uint8_t *line)
{
    size_t size = kv_format(key, line);
    line[size++] = '\t';
    return size + kv_format(value, line + size);
}

static void judge_pair(struct span key, struct span value)
{
    struct span again_key;
    struct span again_value;
    uint8_t *line = malloc(kv_format_bound(key.size_bytes + value.size_bytes) + 1);
    ENSURE(line != NULL);
    size_t size = write_line(key, value, line);
    ENSURE(memchr(line, '\n', size) == NULL);
    ENSURE(kv_parse_line(line, size, &again_key, &again_value) == FIRN_OK);
    ENSURE(span_compare(key, again_key) == 0);
    ENSURE(span_compare(value, again_value) == 0);
    free(line);
}

static void judge_line(const uint8_t *line, size_t size_bytes)
{
    struct span key;
    struct span value;
    uint8_t *copy = copy_of(line, size_bytes);
    firn_rc rc = kv_parse_line(copy, size_bytes, &key, &value);
    if (rc == FIRN_OK)
        judge_pair(key, value);
    else
        ENSURE(rc == FIRN_E_INVALID && strlen(firn_error_text()) > 0);
    free(copy);
    copy = copy_of(line, size_bytes);
    rc = kv_parse_line(copy, size_bytes, &key, NULL);
    ENSURE(rc == FIRN_OK || rc == FIRN_E_INVALID);
    free(copy);
}

/* A pipe takes 64 KiB without a reader. */
static void judge_stream(const uint8_t *data, size_t size_bytes)
{
    static const atomic_bool stop;
    struct kv_reader reader;
    uint8_t *line;
    size_t line_bytes;
    size_t at = 0;
    int ends[2];
    ENSURE(pipe(ends) == 0);
    ENSURE(write(ends[1], data, size_bytes) == (ssize_t)size_bytes);
    close(ends[1]);
    kv_reader_init(&reader, ends[0], &stop);
    while (kv_reader_next(&reader, &line, &line_bytes) == FIRN_OK) {
        ENSURE(at + line_bytes <= size_bytes);
        ENSURE(line_bytes == 0 || memcmp(line, data + at, line_bytes) == 0);
        judge_line(data + at, line_bytes);
        at += line_bytes;
        ENSURE(at == size_bytes || data[at] == '\n');
        at += at != size_bytes;
    }
    ENSURE(at == size_bytes);
    kv_reader_free(&reader);
    close(ends[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    if (size_bytes > 0 && size_bytes <= 65536)
        judge_stream(data, size_bytes);
    return 0;
}
