/*
 * warm.c -- warm restart: which pages were in the pool, written when it is closed, read when it is
 * opened, so that it need not find out anew what is wanted (InnoDB's buffer pool dump and load).
 *
 * OFFSET / SIZE / MEANING of a dump, also in FORMAT.md:
 *
 *        0     4  magic, "FWRM"
 *        4     4  CRC-32C of bytes 8 to the end
 *        8     4  version, 1
 *       12     4  zeros
 *       16    16  id of the environment
 *       32     8  number of ids
 *       40     8  for each page, the most wanted first: its id
 *
 * Nothing depends on it: a dump that is missing, old or damaged costs reads, not data.
 */
#include "buffer/writer_internal.h"

#include "base/checksum.h"
#include "base/endian.h"
#include "base/log.h"
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WARM_MAGIC = 0x4d525746, /* "FWRM" */
    WARM_VERSION = 1,
    WARM_AT_VERSION = 8,
    WARM_AT_ENVIRONMENT = 16,
    WARM_AT_COUNT = 32,
    WARM_HEADER_BYTES = 40,
    WARM_CHUNK_PAGES = 256, /* read ahead at once; two such are under way */
    WARM_CHUNK_PART = 16,   /* ... but no more than such a part of the pool */
};

/* ---- Dump ---- */

static firn_rc write_file(struct io_system *system, const char *path, const uint8_t *bytes,
                          size_t size_bytes)
{
    struct io_file *file;
    FIRN_TRY(io_file_open(system, IO_CLASS_SYSTEM, path, IO_OPEN_CREATE | IO_OPEN_TRUNCATE, &file));
    firn_rc rc = io_write(file, bytes, size_bytes, 0);
    if (rc == FIRN_OK)
        rc = io_sync(file, IO_SYNC_DATA); /* before it takes an older one's place */
    firn_rc close_rc = io_file_close(file);
    return rc == FIRN_OK ? close_rc : rc;
}

static size_t encode(const struct buffer_pool *pool, uint8_t *bytes, uint64_t count)
{
    size_t size_bytes = WARM_HEADER_BYTES + (size_t)count * 8;
    memset(bytes, 0, WARM_HEADER_BYTES);
    put_u32(bytes, WARM_MAGIC);
    put_u32(bytes + WARM_AT_VERSION, WARM_VERSION);
    memcpy(bytes + WARM_AT_ENVIRONMENT, pool->options.environment,
           sizeof(pool->options.environment));
    put_u64(bytes + WARM_AT_COUNT, count);
    put_u32(bytes + 4, checksum_crc32c(bytes + 8, size_bytes - 8));
    return size_bytes;
}

firn_rc buffer_dump_ids(struct buffer_pool *pool, struct io_system *system, const char *path,
                        unsigned percent)
{
    firn_rc rc = FIRN_E_NOMEM;
    uint64_t frames = atomic_load_explicit(&pool->frame_count, memory_order_relaxed);
    size_t new_path_bytes = strlen(path) + sizeof(".new");
    char *new_path = memory_alloc(new_path_bytes);
    uint8_t *bytes = memory_alloc(WARM_HEADER_BYTES + frames * 8);
    uint64_t *page_ids = memory_alloc(frames * sizeof(page_ids[0]));
    if (new_path == NULL || bytes == NULL || page_ids == NULL) {
        rc_raise(FIRN_E_NOMEM, "no memory to write the page ids in the buffer pool to %s", path);
        goto out;
    }
    uint64_t count = buffer_wanted_ids(pool, page_ids, (uint32_t)frames);
    count = count * (percent < 100 ? percent : 100) / 100;
    for (uint64_t i = 0; i < count; i++)
        put_u64(bytes + WARM_HEADER_BYTES + i * 8, page_ids[i]);
    snprintf(new_path, new_path_bytes, "%s.new", path);
    rc = write_file(system, new_path, bytes, encode(pool, bytes, count));
    if (rc == FIRN_OK)
        rc = io_rename(system, new_path, path);
out:
    memory_free(page_ids);
    memory_free(bytes);
    memory_free(new_path);
    return rc;
}

/* ---- Load ---- */

/* @return why not, NULL if a dump is whole and this environment's */
static const char *find_fault(const struct buffer_pool *pool, const uint8_t *bytes,
                              uint64_t size_bytes)
{
    if (size_bytes < WARM_HEADER_BYTES || get_u32(bytes) != WARM_MAGIC)
        return "it is no list of page ids";
    if (get_u32(bytes + 4) != checksum_crc32c(bytes + 8, (size_t)size_bytes - 8))
        return "it is damaged";
    if (get_u32(bytes + WARM_AT_VERSION) != WARM_VERSION)
        return "it has another format version";
    if (memcmp(bytes + WARM_AT_ENVIRONMENT, pool->options.environment,
               sizeof(pool->options.environment)) != 0)
        return "it belongs to another environment";
    if (get_u64(bytes + WARM_AT_COUNT) != (size_bytes - WARM_HEADER_BYTES) / 8)
        return "it is damaged";
    return NULL;
}

static firn_rc read_bytes(struct io_file *file, uint8_t **bytes, uint64_t *size_bytes)
{
    FIRN_TRY(io_file_size(file, size_bytes));
    *bytes = memory_alloc((size_t)*size_bytes + 1);
    if (*bytes == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory to read the page ids in %s", io_file_path(file));
    return *size_bytes > 0 ? io_read(file, *bytes, (size_t)*size_bytes, 0) : FIRN_OK;
}

/* Read a dump. @param bytes  NULL if there is none to go by; to be freed */
static firn_rc read_dump(struct buffer_pool *pool, struct io_system *system, const char *path,
                         uint8_t **bytes)
{
    struct io_file *file;
    uint64_t size_bytes = 0;
    *bytes = NULL;
    firn_rc rc = io_file_open(system, IO_CLASS_SYSTEM, path, IO_OPEN_READ_ONLY, &file);
    if (rc == FIRN_E_NOT_FOUND)
        return FIRN_OK;
    if (rc == FIRN_OK) {
        rc = read_bytes(file, bytes, &size_bytes);
        io_file_close(file); /* it was only read */
    }
    if (rc == FIRN_E_NOMEM)
        return rc;
    const char *fault = rc == FIRN_OK ? find_fault(pool, *bytes, size_bytes) : firn_error_text();
    if (fault == NULL)
        return FIRN_OK;
    log_note("%s is not used to fill the buffer pool: %s", path, fault);
    memory_free(*bytes);
    *bytes = NULL;
    return FIRN_OK;
}

static int compare_ids(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left;
    uint64_t b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* Wait until a page that is being read has come. */
static void await_page(struct buffer_pool *pool, uint64_t page_id)
{
    struct buffer_frame *frame;
    if (buffer_fix(pool, page_id, BUFFER_SHARED, BUFFER_HINT_READ_AHEAD, &frame) == FIRN_OK)
        buffer_unfix(pool, frame, BUFFER_SHARED);
}

/* Read pages in order, two chunks under way: the devices have always something to do, and
   read-ahead is not asked for more than it takes. */
static void load_pages(struct buffer_pool *pool, const uint64_t *page_ids, uint64_t count,
                       const atomic_bool *stop)
{
    uint64_t part =
        atomic_load_explicit(&pool->frame_count, memory_order_relaxed) / WARM_CHUNK_PART;
    unsigned chunk = part < WARM_CHUNK_PAGES ? (unsigned)part : WARM_CHUNK_PAGES;
    for (uint64_t next = 0; next < count && !atomic_load_explicit(stop, memory_order_relaxed);
         next += chunk) {
        uint64_t left = count - next;
        if (buffer_free_count(pool) <= buffer_free_low(pool)) /* others have filled it meanwhile */
            return;
        if (next >= 2 * (uint64_t)chunk)
            await_page(pool, page_ids[next - chunk - 1]);
        buffer_prefetch(pool, page_ids + next, left < chunk ? (unsigned)left : chunk);
    }
}

firn_rc buffer_load_ids(struct buffer_pool *pool, struct io_system *system, const char *path,
                        const atomic_bool *stop)
{
    uint8_t *bytes;
    FIRN_TRY(read_dump(pool, system, path, &bytes));
    if (bytes == NULL)
        return FIRN_OK;
    uint64_t count = get_u64(bytes + WARM_AT_COUNT);
    uint64_t room = buffer_free_count(pool);
    count = count < room ? count : room;
    firn_rc rc = FIRN_OK;
    uint64_t *page_ids = memory_alloc((size_t)count * sizeof(page_ids[0]) + 1);
    if (page_ids == NULL) {
        rc = rc_raise(FIRN_E_NOMEM, "no memory to read the page ids in %s", path);
        goto out;
    }
    for (uint64_t i = 0; i < count; i++)
        page_ids[i] = get_u64(bytes + WARM_HEADER_BYTES + i * 8);
    qsort(page_ids, (size_t)count, sizeof(page_ids[0]), compare_ids);
    load_pages(pool, page_ids, count, stop);
out:
    memory_free(page_ids);
    memory_free(bytes);
    return rc;
}
