/* Whatever a doublewrite file holds, repair ends, refuses or puts pages back: a page that is whole
   in its place stays as it is, and one that is not stays so or becomes a whole page of its own id,
   newer than the checkpoint.

   The input: flags (1: the file's header gets its checksum; 2: so does the area's; 4: what comes of
   each entry's sectors over its page is sealed, and the area's header says so), then pieces: where
   in the file (two bytes, times 512), how many bytes (two bytes), the bytes. */
#include "base/check.h"
#include "base/checksum.h"
#include "base/endian.h"
#include "buffer/doublewrite_internal.h"
#include "io/fault.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

enum {
    PAGE_BYTES = 4096,
    PAGES = 4, /* odd ones are damaged in their places */
    SPACE = 7,
    CHECKPOINT_LSN = 9000,
    FIX_HEADER = 1,
    FIX_AREA = 2,
    FIX_IMAGES = 4,
    ALL_SECTORS = 255,
    SOME_SECTORS = 0x11,    /* the checksum's, and that which is damaged in its place */
    PARTS_BYTES = 4096 * 8, /* what the input can reach: headers, the first images */
};

static struct io_file *table;

static firn_rc locate(void *context, uint64_t page_id, struct io_file **file, uint64_t *offset)
{
    (void)context;
    if (page_id_space(page_id) != SPACE || page_id_number(page_id) >= PAGES)
        return FIRN_E_NOT_FOUND;
    *file = table;
    *offset = (uint64_t)page_id_number(page_id) * PAGE_BYTES;
    return FIRN_OK;
}

static void make_page(uint8_t *page, uint32_t number, uint64_t lsn)
{
    page_init(page, PAGE_BYTES, page_id_of(SPACE, number), PAGE_TYPE_BLOB);
    memset(page + PAGE_HEADER_BYTES, (int)number + 1, PAGE_BYTES - PAGE_HEADER_BYTES);
    page_set_lsn(page, lsn);
    page_seal(page, PAGE_BYTES);
}

/* As it lies in its place. */
static void make_old_page(uint8_t *page, uint32_t number)
{
    make_page(page, number, 8500);
    page[PAGE_BYTES / 2] ^= number % 2 != 0;
}

static void must(firn_rc rc)
{
    ENSURE(rc == FIRN_OK);
}

static struct io_system *open_system(struct sim_disk *disk, struct doublewrite_options *options)
{
    struct io_system *system;
    must(sim_disk_open_system(disk, clock_real(), 1, &system));
    *options = (struct doublewrite_options){
        .system = system, .directory = "", .environment = "fuzz", .page_size_bytes = PAGE_BYTES};
    must(io_file_open(system, IO_CLASS_TABLE, "/table", IO_OPEN_CREATE, &table));
    return system;
}

static void close_system(struct io_system *system)
{
    must(io_file_close(table));
    io_system_close(system);
}

/* Tables and a doublewrite file with a batch of all pages: what inputs are laid over. */
static struct sim_disk *make_disk(void)
{
    static uint8_t batch[PAGES * PAGE_BYTES];
    struct doublewrite_image images[PAGES];
    struct sim_disk *disk;
    struct doublewrite_options options;
    struct doublewrite *doublewrite;
    must(sim_disk_create(&(struct sim_disk_options){.sector_bytes = 512}, &disk));
    struct io_system *system = open_system(disk, &options);
    for (uint32_t i = 0; i < PAGES; i++) {
        uint8_t *page = batch + i * PAGE_BYTES;
        make_old_page(page, i);
        must(io_write(table, page, PAGE_BYTES, (uint64_t)i * PAGE_BYTES));
        make_page(page, i, 9500);
        images[i] = (struct doublewrite_image){page, i < 2 ? ALL_SECTORS : SOME_SECTORS};
    }
    must(doublewrite_open(&options, &doublewrite));
    must(doublewrite_write(doublewrite, 0, images, PAGES));
    doublewrite_close(doublewrite);
    close_system(system);
    return disk;
}

/* Make the entries of the area such that what is laid over the pages in their places is whole: as
   only the right program, or one that means harm, could. */
static void seal_images(uint8_t *parts)
{
    size_t at = 2 * 4096;
    for (unsigned i = 0; i < PAGES; i++) {
        uint8_t page[PAGE_BYTES];
        uint8_t *entry = parts + 4096 + 12 + (size_t)i * 16;
        uint8_t *first = parts + at;
        uint32_t sectors = get_u32(entry + 12) & ALL_SECTORS;
        at += (size_t)__builtin_popcount(sectors) * 512;
        if (at > PARTS_BYTES || (sectors & 1) == 0)
            return;
        make_old_page(page, i);
        for (unsigned sector = 0, from = 0; sector < PAGE_BYTES / 512; sector++)
            if ((sectors >> sector & 1) != 0)
                memcpy(page + (size_t)sector * 512, first + (size_t)from++ * 512, 512);
        page_seal(page, PAGE_BYTES);
        memcpy(first, page, 4);
        put_u32(entry + 8, page_checksum(page));
    }
}

/* Lay the input over the beginning of the file. */
static void lay_over(uint8_t *parts, const uint8_t *data, size_t size_bytes, unsigned flags)
{
    while (size_bytes >= 4) {
        size_t at = get_u16(data) % (PARTS_BYTES / 512) * 512;
        size_t piece = get_u16(data + 2);
        data += 4;
        size_bytes -= 4;
        piece = piece < size_bytes ? piece : size_bytes;
        memcpy(parts + at, data, piece < PARTS_BYTES - at ? piece : PARTS_BYTES - at);
        data += piece;
        size_bytes -= piece;
    }
    if ((flags & FIX_IMAGES) != 0)
        seal_images(parts);
    for (unsigned block = 0; block < 2; block++)
        if ((flags & (block == 0 ? FIX_HEADER : FIX_AREA)) != 0)
            put_u32(parts + (size_t)block * 4096 + 4,
                    checksum_crc32c(parts + (size_t)block * 4096 + 8, 4096 - 8));
}

static void judge(firn_rc rc)
{
    for (uint32_t i = 0; i < PAGES; i++) {
        uint8_t page[PAGE_BYTES];
        uint8_t before[PAGE_BYTES];
        must(io_read(table, page, PAGE_BYTES, (uint64_t)i * PAGE_BYTES));
        make_old_page(before, i);
        if (memcmp(page, before, PAGE_BYTES) == 0)
            continue;
        ENSURE(i % 2 != 0 && rc == FIRN_OK);
        ENSURE(page_verify(page, PAGE_BYTES, page_id_of(SPACE, i), UINT64_MAX) == PAGE_GOOD);
        ENSURE(page_lsn(page) > CHECKPOINT_LSN);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    static struct sim_disk *original;
    static uint8_t parts[PARTS_BYTES] __attribute__((aligned(4096)));
    struct doublewrite_options options;
    struct io_file *file;
    unsigned repaired = 0;
    if (size_bytes < 1)
        return 0;
    if (original == NULL)
        original = make_disk();
    struct sim_disk *disk = sim_disk_clone(original);
    struct io_system *system = open_system(disk, &options);
    must(io_file_open(system, IO_CLASS_DOUBLEWRITE, "/firn_doublewrite", 0, &file));
    must(io_read(file, parts, PARTS_BYTES, 0));
    lay_over(parts, data + 1, size_bytes - 1, data[0]);
    must(io_write(file, parts, PARTS_BYTES, 0));
    must(io_file_close(file));
    firn_rc rc = doublewrite_repair(&options, &(struct buffer_files){.locate = locate},
                                    CHECKPOINT_LSN, &repaired);
    ENSURE(rc == FIRN_OK || rc == FIRN_E_CORRUPT || rc == FIRN_E_UNSUPPORTED);
    ENSURE(repaired <= PAGES);
    judge(rc);
    close_system(system);
    sim_disk_destroy(disk);
    return 0;
}
