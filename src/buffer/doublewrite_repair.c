/*
 * doublewrite_repair.c -- after a crash: pages that are not whole in their places are put back.
 */
#include "buffer/doublewrite_file_internal.h"

#include "base/endian.h"
#include "base/memory.h"

#include <string.h>

enum { FILES_MAX = DOUBLEWRITE_AREAS * DOUBLEWRITE_PAGES_MAX };

struct repair {
    const struct buffer_files *files;
    struct io_file *file; /* the doublewrite file */
    uint32_t page_size_bytes;
    uint64_t checkpoint_lsn;
    unsigned repaired;
    unsigned written_count;
    struct io_file *written[FILES_MAX]; /* to be synced */
    uint8_t *header;
    uint8_t *page;
    uint8_t
        *sectors; /* an entry's, as they stand in the file, from a block's beginning to an end */
};

/* An area's entry, and where its sectors stand in the file. */
struct entry {
    uint64_t page_id;
    uint32_t checksum;
    uint32_t sectors;
    uint64_t offset;
};

/* Read a page as it lies in its place. It is left alone when it is whole, whatever its age: redo
   brings it up to date. One of a type or version that is not known was written by a newer program,
   and to be told so by who reads it. What cannot be read counts as zeros: a sector that a power cut
   hit may read as an error until it is written again. */
static firn_rc read_place(struct repair *repair, struct io_file *file, uint64_t offset,
                          uint64_t page_id, bool *whole)
{
    firn_rc rc = io_read(file, repair->page, repair->page_size_bytes, offset);
    if (rc == FIRN_E_SHORT || rc == FIRN_E_IO)
        memset(repair->page, 0, repair->page_size_bytes);
    else
        FIRN_TRY(rc);
    enum page_state state = page_verify(repair->page, repair->page_size_bytes, page_id, UINT64_MAX);
    *whole = state == PAGE_GOOD || state == PAGE_UNKNOWN;
    return FIRN_OK;
}

/* Lay an entry's sectors over what lies in the page's place. */
static firn_rc overlay(struct repair *repair, const struct entry *entry)
{
    uint32_t sector_bytes = sector_bytes_of(repair->page_size_bytes);
    size_t skip = entry->offset % DOUBLEWRITE_BLOCK_BYTES;
    size_t size_bytes = skip + sectors_bytes(entry->sectors, repair->page_size_bytes);
    size_bytes = (size_bytes + DOUBLEWRITE_BLOCK_BYTES - 1) / DOUBLEWRITE_BLOCK_BYTES *
                 DOUBLEWRITE_BLOCK_BYTES;
    FIRN_TRY(io_read(repair->file, repair->sectors, size_bytes, entry->offset - skip));
    const uint8_t *from = repair->sectors + skip;
    for (uint32_t left = entry->sectors; left != 0; left &= left - 1) {
        memcpy(repair->page + (size_t)__builtin_ctz(left) * sector_bytes, from, sector_bytes);
        from += sector_bytes;
    }
    return FIRN_OK;
}

/* Is what came of it the page that the entry is about, and one that redo can go on from? */
static bool is_usable(const struct repair *repair, const struct entry *entry)
{
    return page_checksum(repair->page) == entry->checksum &&
           page_verify(repair->page, repair->page_size_bytes, entry->page_id, UINT64_MAX) ==
               PAGE_GOOD &&
           page_lsn(repair->page) > repair->checkpoint_lsn;
}

static void note_written(struct repair *repair, struct io_file *file)
{
    for (unsigned i = 0; i < repair->written_count; i++)
        if (repair->written[i] == file)
            return;
    repair->written[repair->written_count++] = file;
}

static firn_rc repair_entry(struct repair *repair, const struct entry *entry)
{
    struct io_file *file;
    uint64_t offset;
    bool whole;
    firn_rc rc = repair->files->locate(repair->files->context, entry->page_id, &file, &offset);
    if (rc == FIRN_E_NOT_FOUND) /* the tablespace was dropped or cut off since */
        return FIRN_OK;
    FIRN_TRY(rc);
    FIRN_TRY(read_place(repair, file, offset, entry->page_id, &whole));
    if (whole)
        return FIRN_OK;
    FIRN_TRY(overlay(repair, entry));
    if (!is_usable(repair, entry))
        return FIRN_OK;
    FIRN_TRY(io_write(file, repair->page, repair->page_size_bytes, offset));
    note_written(repair, file);
    repair->repaired++;
    return FIRN_OK;
}

static firn_rc repair_area(struct repair *repair, unsigned area)
{
    uint64_t offset = doublewrite_area_offset(area);
    uint64_t end = offset + DOUBLEWRITE_AREA_BYTES;
    FIRN_TRY(io_read(repair->file, repair->header, DOUBLEWRITE_BLOCK_BYTES, offset));
    /* A header that is not whole was being written: no page of that batch was, in its place. */
    if (!doublewrite_block_is_good(repair->header, DOUBLEWRITE_MAGIC_BATCH))
        return FIRN_OK;
    uint32_t count = get_u32(repair->header + DOUBLEWRITE_AT_COUNT);
    if (count > doublewrite_pages_max(repair->page_size_bytes))
        return FIRN_OK;
    offset += DOUBLEWRITE_BLOCK_BYTES;
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *at =
            repair->header + DOUBLEWRITE_AT_ENTRIES + (size_t)i * DOUBLEWRITE_ENTRY_BYTES;
        struct entry entry = {.page_id = get_u64(at),
                              .checksum = get_u32(at + DOUBLEWRITE_ENTRY_AT_CHECKSUM),
                              .sectors = get_u32(at + DOUBLEWRITE_ENTRY_AT_SECTORS),
                              .offset = offset};
        offset += sectors_bytes(entry.sectors, repair->page_size_bytes);
        if ((entry.sectors & ~sectors_all(repair->page_size_bytes)) != 0 || offset > end)
            return FIRN_OK; /* senseless, as none that we wrote */
        FIRN_TRY(repair_entry(repair, &entry));
    }
    return FIRN_OK;
}

static firn_rc repair_file(struct repair *repair, const struct doublewrite_options *options)
{
    firn_rc rc = doublewrite_open_existing(options, IO_OPEN_READ_ONLY, &repair->file);
    if (rc != FIRN_OK)
        return rc == FIRN_E_NOT_FOUND ? FIRN_OK : rc;
    for (unsigned area = 0; area < DOUBLEWRITE_AREAS && rc == FIRN_OK; area++)
        rc = repair_area(repair, area);
    for (unsigned i = 0; i < repair->written_count && rc == FIRN_OK; i++)
        rc = io_sync(repair->written[i], IO_SYNC_DATA);
    io_file_close(repair->file); /* it was only read */
    return rc;
}

firn_rc doublewrite_repair(const struct doublewrite_options *options,
                           const struct buffer_files *files, uint64_t checkpoint_lsn,
                           unsigned *repaired)
{
    struct repair *repair = memory_zalloc(1, sizeof(*repair));
    uint8_t *header = memory_alloc_aligned(DOUBLEWRITE_BLOCK_BYTES, DOUBLEWRITE_BLOCK_BYTES);
    uint8_t *page = memory_alloc_aligned(options->page_size_bytes, DOUBLEWRITE_BLOCK_BYTES);
    uint8_t *sectors = memory_alloc_aligned(
        (size_t)options->page_size_bytes + 2 * DOUBLEWRITE_BLOCK_BYTES, DOUBLEWRITE_BLOCK_BYTES);
    firn_rc rc;
    if (repair == NULL || header == NULL || page == NULL || sectors == NULL) {
        rc = rc_raise(FIRN_E_NOMEM, "cannot look for torn pages: no memory");
        goto out;
    }
    *repair = (struct repair){.files = files,
                              .page_size_bytes = options->page_size_bytes,
                              .checkpoint_lsn = checkpoint_lsn,
                              .header = header,
                              .page = page,
                              .sectors = sectors};
    rc = repair_file(repair, options);
    if (rc == FIRN_OK)
        *repaired = repair->repaired;
out:
    memory_free(sectors);
    memory_free(page);
    memory_free(header);
    memory_free(repair);
    return rc;
}
