/*
 * doublewrite.c -- making and writing the doublewrite file. Why what it does is enough is argued in
 * README.md; what is done with it after a crash stands in doublewrite_repair.c.
 */
#include "buffer/doublewrite_file_internal.h"

#include "base/check.h"
#include "base/checksum.h"
#include "base/endian.h"
#include "base/memory.h"

#include <stdio.h>
#include <string.h>

static const char file_name[] = "firn_doublewrite";

/* What is written at once: a batch of small changes, as a rule. */
enum { PACKED_BYTES = 256 << 10 };

struct doublewrite {
    struct io_file *file; /* NULL: there is none yet, the first batch makes it */
    struct doublewrite_options options;
    char *directory; /* options.directory */
    uint8_t *packed; /* PACKED_BYTES, aligned */
};

_Static_assert(PACKED_BYTES % DOUBLEWRITE_BLOCK_BYTES == 0 &&
                   DOUBLEWRITE_BLOCK_BYTES % (PAGE_SIZE_MAX / SECTORS_MAX) == 0,
               "sectors fill what is written at once");
_Static_assert(DOUBLEWRITE_AT_ENTRIES + DOUBLEWRITE_PAGES_MAX * DOUBLEWRITE_ENTRY_BYTES <=
                   DOUBLEWRITE_BLOCK_BYTES,
               "the entries of a batch fit into its header");
_Static_assert(DOUBLEWRITE_IMAGE_BYTES / PAGE_SIZE_MAX >= 1, "an area takes a page of any size");
_Static_assert(DOUBLEWRITE_AREA_BYTES % DOUBLEWRITE_BLOCK_BYTES == 0 &&
                   DOUBLEWRITE_BLOCK_BYTES % PAGE_SIZE_MIN == 0,
               "images lie at multiples of what direct I/O asks for");

/* ---- Headers ---- */

static void block_seal(uint8_t *block, uint32_t magic)
{
    put_u32(block, magic);
    put_u32(block + 4, checksum_crc32c(block + 8, DOUBLEWRITE_BLOCK_BYTES - 8));
}

bool doublewrite_block_is_good(const uint8_t *block, uint32_t magic)
{
    return get_u32(block) == magic &&
           get_u32(block + 4) == checksum_crc32c(block + 8, DOUBLEWRITE_BLOCK_BYTES - 8);
}

static void header_fill(uint8_t *block, const struct doublewrite_options *options)
{
    memset(block, 0, DOUBLEWRITE_BLOCK_BYTES);
    put_u32(block + DOUBLEWRITE_AT_VERSION, DOUBLEWRITE_VERSION);
    put_u32(block + DOUBLEWRITE_AT_PAGE_SIZE, options->page_size_bytes);
    memcpy(block + DOUBLEWRITE_AT_ENVIRONMENT, options->environment, sizeof(options->environment));
    put_u32(block + DOUBLEWRITE_AT_AREAS, DOUBLEWRITE_AREAS);
    put_u32(block + DOUBLEWRITE_AT_AREA_BYTES, DOUBLEWRITE_AREA_BYTES);
    put_u32(block + DOUBLEWRITE_AT_SECTOR_BYTES, sector_bytes_of(options->page_size_bytes));
    block_seal(block, DOUBLEWRITE_MAGIC_FILE);
}

/* What a person may do with a file that is of no use: without it a torn page cannot be repaired,
   but is still found by its checksum. */
#define ADVICE                                                                                     \
    "put the right file back, or move this one away: pages torn by a power cut, if there are "     \
    "any, "                                                                                        \
    "will then be reported when they are read"

static firn_rc version_judge(uint32_t version, const char *path)
{
    if (version == DOUBLEWRITE_VERSION)
        return FIRN_OK;
    return rc_raise(FIRN_E_UNSUPPORTED,
                    "%s has format version %u, this program knows version %u; %s", path, version,
                    DOUBLEWRITE_VERSION,
                    version > DOUBLEWRITE_VERSION
                        ? "use a newer one"
                        : "open and close the environment with the program that wrote it, then "
                          "move this file away");
}

static firn_rc header_judge(const uint8_t *block, const struct doublewrite_options *options,
                            const char *path)
{
    if (!doublewrite_block_is_good(block, DOUBLEWRITE_MAGIC_FILE))
        return rc_raise(FIRN_E_CORRUPT,
                        "%s is no doublewrite file, or its first block is damaged; " ADVICE, path);
    FIRN_TRY(version_judge(get_u32(block + DOUBLEWRITE_AT_VERSION), path));
    if (memcmp(block + DOUBLEWRITE_AT_ENVIRONMENT, options->environment,
               sizeof(options->environment)) != 0)
        return rc_raise(FIRN_E_CORRUPT, "%s belongs to another environment; " ADVICE, path);
    uint32_t page_size_bytes = get_u32(block + DOUBLEWRITE_AT_PAGE_SIZE);
    if (page_size_bytes != options->page_size_bytes)
        return rc_raise(FIRN_E_CORRUPT,
                        "%s is for pages of %u bytes, this environment has pages of %u; " ADVICE,
                        path, page_size_bytes, options->page_size_bytes);
    if (get_u32(block + DOUBLEWRITE_AT_AREAS) != DOUBLEWRITE_AREAS ||
        get_u32(block + DOUBLEWRITE_AT_AREA_BYTES) != DOUBLEWRITE_AREA_BYTES ||
        get_u32(block + DOUBLEWRITE_AT_SECTOR_BYTES) != sector_bytes_of(page_size_bytes))
        return rc_raise(FIRN_E_CORRUPT, "%s has areas or sectors of a size that cannot be; " ADVICE,
                        path);
    return FIRN_OK;
}

/* ---- Opening ---- */

static firn_rc open_aligned(const struct doublewrite_options *options, const char *path,
                            unsigned flags, struct io_file **file)
{
    struct io_file *opened;
    flags |= options->direct ? IO_OPEN_DIRECT : 0;
    FIRN_TRY(io_file_open(options->system, IO_CLASS_DOUBLEWRITE, path, flags, &opened));
    if (io_file_alignment(opened) > DOUBLEWRITE_BLOCK_BYTES) {
        FIRN_TRY(io_file_close(opened)); /* blocks larger than a header: through the page cache */
        flags &= ~(unsigned)IO_OPEN_DIRECT;
        FIRN_TRY(io_file_open(options->system, IO_CLASS_DOUBLEWRITE, path, flags, &opened));
    }
    *file = opened;
    return FIRN_OK;
}

static firn_rc raise_no_memory(const char *directory)
{
    return rc_raise(FIRN_E_NOMEM, "cannot open the doublewrite file in %s: no memory", directory);
}

char *doublewrite_path(const char *directory, const char *suffix)
{
    size_t size_bytes = strlen(directory) + sizeof(file_name) + strlen(suffix) + 1;
    char *path = memory_alloc(size_bytes);
    if (path != NULL)
        snprintf(path, size_bytes, "%s/%s%s", directory, file_name, suffix);
    return path;
}

firn_rc doublewrite_open_existing(const struct doublewrite_options *options, unsigned flags,
                                  struct io_file **file)
{
    firn_rc rc = FIRN_E_NOMEM;
    struct io_file *opened = NULL;
    uint64_t size_bytes = 0;
    char *path = doublewrite_path(options->directory, "");
    uint8_t *block = memory_alloc_aligned(DOUBLEWRITE_BLOCK_BYTES, DOUBLEWRITE_BLOCK_BYTES);
    if (path == NULL || block == NULL) {
        raise_no_memory(options->directory);
        goto out;
    }
    FIRN_TRY_GOTO(open_aligned(options, path, flags, &opened), out);
    FIRN_TRY_GOTO(io_file_size(opened, &size_bytes), out);
    if (size_bytes >= DOUBLEWRITE_BLOCK_BYTES) {
        FIRN_TRY_GOTO(io_read(opened, block, DOUBLEWRITE_BLOCK_BYTES, 0), out);
        FIRN_TRY_GOTO(header_judge(block, options, path), out);
    }
    if (size_bytes < DOUBLEWRITE_FILE_BYTES)
        rc = rc_raise(FIRN_E_CORRUPT, "%s is truncated: it has %llu bytes instead of %llu; " ADVICE,
                      path, (unsigned long long)size_bytes,
                      (unsigned long long)DOUBLEWRITE_FILE_BYTES);
out:
    if (rc == FIRN_OK)
        *file = opened;
    else if (opened != NULL)
        io_file_close(opened);
    memory_free(block);
    memory_free(path);
    return rc;
}

/* The areas are written, not just allocated: a batch must not pay for extents, nor its sync for
   their being recorded. */
static firn_rc write_empty(const struct doublewrite_options *options, struct io_file *file)
{
    uint8_t *zeros = memory_alloc_aligned(DOUBLEWRITE_AREA_BYTES, DOUBLEWRITE_BLOCK_BYTES);
    if (zeros == NULL)
        return raise_no_memory(options->directory);
    memset(zeros, 0, DOUBLEWRITE_AREA_BYTES);
    firn_rc rc = FIRN_OK;
    for (unsigned area = 0; area < DOUBLEWRITE_AREAS && rc == FIRN_OK; area++)
        rc = io_write(file, zeros, DOUBLEWRITE_AREA_BYTES, doublewrite_area_offset(area));
    if (rc == FIRN_OK) {
        header_fill(zeros, options);
        rc = io_write(file, zeros, DOUBLEWRITE_BLOCK_BYTES, 0);
    }
    if (rc == FIRN_OK)
        rc = io_sync(file, IO_SYNC_ALL);
    memory_free(zeros);
    return rc;
}

/* Made under another name, so that a file of the right one is always whole. */
static firn_rc create(const struct doublewrite_options *options)
{
    firn_rc rc = FIRN_E_NOMEM;
    struct io_file *file = NULL;
    char *path = doublewrite_path(options->directory, "");
    char *new_path = doublewrite_path(options->directory, ".new");
    if (path == NULL || new_path == NULL) {
        raise_no_memory(options->directory);
        goto out;
    }
    FIRN_TRY_GOTO(open_aligned(options, new_path, IO_OPEN_CREATE | IO_OPEN_TRUNCATE, &file), out);
    rc = write_empty(options, file);
    firn_rc close_rc = io_file_close(file);
    if (rc == FIRN_OK)
        rc = close_rc;
    if (rc == FIRN_OK)
        rc = io_rename(options->system, new_path, path);
    if (rc == FIRN_OK)
        rc = io_sync_directory(options->system, options->directory);
out:
    memory_free(new_path);
    memory_free(path);
    return rc;
}

firn_rc doublewrite_open(const struct doublewrite_options *options,
                         struct doublewrite **doublewrite)
{
    struct doublewrite *made = memory_zalloc(1, sizeof(*made));
    char *directory = memory_copy_text(options->directory);
    uint8_t *packed = memory_alloc_aligned(PACKED_BYTES, DOUBLEWRITE_BLOCK_BYTES);
    if (made == NULL || directory == NULL || packed == NULL) {
        memory_free(packed);
        memory_free(directory);
        memory_free(made);
        return raise_no_memory(options->directory);
    }
    made->packed = packed;
    made->options = *options;
    made->options.directory = made->directory = directory;
    firn_rc rc = doublewrite_open_existing(options, 0, &made->file);
    if (rc != FIRN_OK && rc != FIRN_E_NOT_FOUND) {
        doublewrite_close(made);
        return rc;
    }
    *doublewrite = made;
    return FIRN_OK;
}

void doublewrite_close(struct doublewrite *doublewrite)
{
    if (doublewrite == NULL)
        return;
    if (doublewrite->file != NULL)
        io_file_close(doublewrite->file); /* nothing in it is needed any more */
    memory_free(doublewrite->packed);
    memory_free(doublewrite->directory);
    memory_free(doublewrite);
}

/* ---- Writing ---- */

/* What is packed, and where in the file it goes. */
struct packing {
    struct doublewrite *doublewrite;
    uint64_t offset;
    size_t used_bytes;
};

/* Write what is packed; zeros up to a whole block. */
static firn_rc packing_flush(struct packing *packing)
{
    uint8_t *packed = packing->doublewrite->packed;
    size_t whole = (packing->used_bytes + DOUBLEWRITE_BLOCK_BYTES - 1) / DOUBLEWRITE_BLOCK_BYTES *
                   DOUBLEWRITE_BLOCK_BYTES;
    memset(packed + packing->used_bytes, 0, whole - packing->used_bytes);
    FIRN_TRY(io_write(packing->doublewrite->file, packed, whole, packing->offset));
    packing->offset += whole;
    packing->used_bytes = 0;
    return FIRN_OK;
}

static firn_rc pack_sectors(struct packing *packing, const struct doublewrite_image *image)
{
    uint32_t sector_bytes = sector_bytes_of(packing->doublewrite->options.page_size_bytes);
    for (uint32_t left = image->sectors; left != 0; left &= left - 1) {
        if (packing->used_bytes == PACKED_BYTES)
            FIRN_TRY(packing_flush(packing));
        memcpy(packing->doublewrite->packed + packing->used_bytes,
               image->page + (size_t)__builtin_ctz(left) * sector_bytes, sector_bytes);
        packing->used_bytes += sector_bytes;
    }
    return FIRN_OK;
}

static void pack_header(struct packing *packing, const struct doublewrite_image *images,
                        unsigned count)
{
    uint8_t *header = packing->doublewrite->packed;
    memset(header, 0, DOUBLEWRITE_BLOCK_BYTES);
    put_u32(header + DOUBLEWRITE_AT_COUNT, count);
    for (unsigned i = 0; i < count; i++) {
        const uint8_t *page = images[i].page;
        uint8_t *entry = header + DOUBLEWRITE_AT_ENTRIES + (size_t)i * DOUBLEWRITE_ENTRY_BYTES;
        ENSURE(images[i].sectors != 0);
        put_u64(entry, page_id_of(page_space(page), page_number(page)));
        put_u32(entry + DOUBLEWRITE_ENTRY_AT_CHECKSUM, page_checksum(page));
        put_u32(entry + DOUBLEWRITE_ENTRY_AT_SECTORS, images[i].sectors);
    }
    block_seal(header, DOUBLEWRITE_MAGIC_BATCH);
    packing->used_bytes = DOUBLEWRITE_BLOCK_BYTES;
}

firn_rc doublewrite_write(struct doublewrite *doublewrite, unsigned area,
                          const struct doublewrite_image *images, unsigned count)
{
    ENSURE(area < DOUBLEWRITE_AREAS);
    ENSURE(count >= 1 && count <= doublewrite_pages_max(doublewrite->options.page_size_bytes));
    if (doublewrite->file == NULL) {
        FIRN_TRY(create(&doublewrite->options));
        FIRN_TRY(doublewrite_open_existing(&doublewrite->options, 0, &doublewrite->file));
    }
    struct packing packing = {.doublewrite = doublewrite, .offset = doublewrite_area_offset(area)};
    pack_header(&packing, images, count);
    for (unsigned i = 0; i < count; i++)
        FIRN_TRY(pack_sectors(&packing, &images[i]));
    return packing_flush(&packing);
}

firn_rc doublewrite_sync(struct doublewrite *doublewrite)
{
    return io_sync(doublewrite->file, IO_SYNC_DATA);
}
