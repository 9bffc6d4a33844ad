/*
 * A tablespace's file by itself: what a check can say of it when no set can be opened.
 */
#include "space/space_internal.h"

#include "base/memory.h"

static firn_rc open_file(const struct space_file *file, struct io_file **opened)
{
    unsigned direct = file->direct ? IO_OPEN_DIRECT : 0;
    return io_file_open(file->system, file->class, file->path, IO_OPEN_READ_ONLY | direct, opened);
}

firn_rc space_file_identify(const struct space_file *file, struct space_file_info *info)
{
    struct io_file *opened;
    struct space_identity identity;
    uint8_t *page0 = NULL;
    uint64_t size_bytes = 0;
    struct space_options options = {.page_size_bytes = file->page_size_bytes};
    memcpy(options.environment, file->environment, sizeof options.environment);
    FIRN_TRY(open_file(file, &opened));
    firn_rc rc = scan_identify(&options, opened, file->name, &identity, &page0);
    if (rc == FIRN_E_NOT_FOUND) {
        scan_raise_unfinished(file->path);
    } else if (rc == FIRN_OK) {
        rc = io_file_size(opened, &size_bytes);
        uint64_t id = page_id_of(identity.space, 0);
        bool whole = page_verify(page0, file->page_size_bytes, id, UINT64_MAX) == PAGE_GOOD;
        *info = (struct space_file_info){
            .space = identity.space,
            .class = identity.class,
            .file_pages = (uint32_t)(size_bytes / file->page_size_bytes),
            .head_pages = whole ? head_get(page0).pages : 0,
            .lsn = whole ? page_lsn(page0) : 0,
        };
    }
    memory_free(page0);
    io_file_close(opened);
    return rc;
}

firn_rc space_file_guess(struct io_system *system, const char *path, uint8_t environment[16],
                         uint32_t *page_size_bytes)
{
    struct io_file *file;
    struct space_identity identity;
    uint32_t version;
    uint8_t *sector = memory_alloc_aligned(PAGE_SIZE_MIN, PAGE_SIZE_MIN);
    if (sector == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory to look at %s", path);
    firn_rc rc = io_file_open(system, IO_CLASS_TABLE, path, IO_OPEN_READ_ONLY, &file);
    if (rc == FIRN_OK) {
        rc = io_read(file, sector, PAGE_SIZE_MIN, 0);
        io_file_close(file);
    }
    if (rc == FIRN_OK && (identity_get(sector, &identity, &version) != IDENTITY_GOOD ||
                          !page_size_is_valid(identity.page_size_bytes)))
        rc = FIRN_E_CORRUPT;
    memory_free(sector);
    FIRN_TRY(rc);
    memcpy(environment, identity.environment, sizeof identity.environment);
    *page_size_bytes = identity.page_size_bytes;
    return FIRN_OK;
}

static void note_map(const struct space_file_info *info, const uint8_t *map, uint32_t number,
                     uint32_t page_size, uint8_t *in_use)
{
    for (uint32_t local = 0; local < map_extents(page_size); local++) {
        struct descriptor descriptor = descriptor_get(map, local);
        uint64_t first = ((uint64_t)number * map_extents(page_size) + local) * SPACE_EXTENT_PAGES;
        for (uint64_t bits = descriptor.bitmap; bits != 0; bits &= bits - 1) {
            uint64_t page_no = first + (uint64_t)__builtin_ctzll(bits);
            if (page_no < info->file_pages)
                in_use[page_no / 8] |= (uint8_t)(1U << page_no % 8);
        }
    }
}

firn_rc space_file_in_use(const struct space_file *file, const struct space_file_info *info,
                          uint8_t *in_use)
{
    struct io_file *opened;
    uint32_t page_size = file->page_size_bytes;
    firn_rc rc = FIRN_OK;
    uint8_t *map = memory_alloc_aligned(page_size, PAGE_SIZE_MAX);
    if (map == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for a map page of %s", file->path);
    FIRN_TRY_GOTO(open_file(file, &opened), out);
    for (uint32_t number = 0; map_page_no(page_size, number) < info->file_pages; number++) {
        uint32_t page_no = map_page_no(page_size, number);
        /* One that cannot be read, or is not whole, is told as a page. */
        if (io_read(opened, map, page_size, (uint64_t)page_no * page_size) == FIRN_OK &&
            page_verify(map, page_size, page_id_of(info->space, page_no), UINT64_MAX) ==
                PAGE_GOOD &&
            page_type(map) == PAGE_TYPE_MAP)
            note_map(info, map, number, page_size, in_use);
    }
    io_file_close(opened);
out:
    memory_free(map);
    return rc;
}
