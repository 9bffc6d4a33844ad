/* Whatever the first pages of a tablespace say, opening refuses it or checking tells of it: both
   end, and pages that are told to be an index's lie in the file. Records of making tablespaces are
   refused or make one that can be opened.

   The input: flags (1: the identity gets its checksum; 2: so do the pages; 4: what follows is a
   record's payload), then pieces laid over a sound file: page, offset (two bytes), size, the bytes.
 */
#include "base/check.h"
#include "base/checksum.h"
#include "io/fault.h"
#include "space/space_internal.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

enum {
    PAGE_BYTES = 4096,
    PAGES = 128,
    TOUCHED = 3, /* page 0, the map, an index's page */
    SPACE = 7,
    OWNER = 9,
    FIX_IDENTITY = 1,
    FIX_PAGES = 2,
    IS_RECORD = 4,
};

static void must(firn_rc rc)
{
    ENSURE(rc == FIRN_OK);
}

/* Page 0, a map with a shared extent and one of an index, and the one page that is shared. */
static void make_pages(uint8_t *pages)
{
    struct space_identity identity = {.page_size_bytes = PAGE_BYTES,
                                      .environment = "fuzz",
                                      .space = SPACE,
                                      .class = IO_CLASS_TABLE,
                                      .name = "t"};
    struct space_head head = {.pages = PAGES, .extents = 2, .shared_free = 61, .used = 2 + 1 + 8};
    struct slotted_bounds bounds = {
        .index_id = OWNER, .prev = PAGE_NONE, .next = PAGE_NONE, .upper_is_open = true};
    layout_make(pages, &identity, 1000);
    head_put_counters(pages + AT_HEAD, &head);
    uint8_t *descriptors = pages + PAGE_BYTES + AT_DESCRIPTORS;
    put_u64(descriptors + 8, 7);
    put_u64(descriptors + DESCRIPTOR_BYTES, OWNER);
    put_u64(descriptors + DESCRIPTOR_BYTES + 8, 0xff);
    slotted_init(pages + 2 * PAGE_BYTES, PAGE_BYTES, page_id_of(SPACE, 2), &bounds);
}

static void seal_pages(uint8_t *pages)
{
    for (unsigned i = 0; i < TOUCHED; i++)
        page_seal(pages + i * PAGE_BYTES, PAGE_BYTES);
}

static void write_file(struct io_system *system, const uint8_t *pages)
{
    struct io_file *file;
    must(io_file_open(system, IO_CLASS_TABLE, "/t.firn", IO_OPEN_CREATE, &file));
    must(io_file_allocate(file, 0, PAGES * PAGE_BYTES));
    must(io_write(file, pages, TOUCHED * PAGE_BYTES, 0));
    must(io_file_close(file));
}

static void lay_over(uint8_t *pages, const uint8_t *data, size_t size_bytes)
{
    while (size_bytes >= 4) {
        uint8_t *page = pages + data[0] % TOUCHED * PAGE_BYTES;
        size_t offset = get_u16(data + 1) % PAGE_BYTES;
        size_t count = data[3];
        data += 4;
        size_bytes -= 4;
        count = count < size_bytes ? count : size_bytes;
        count = count < PAGE_BYTES - offset ? count : PAGE_BYTES - offset;
        memcpy(page + offset, data, count);
        data += count;
        size_bytes -= count;
    }
}

static struct space_set *open_set(struct io_system *system)
{
    struct space_set *set;
    struct space_options options = {
        .page_size_bytes = PAGE_BYTES, .environment = "fuzz", .autoextend_bytes = 1 << 20};
    options.places[IO_CLASS_TABLE] = (struct space_place){system, ""};
    must(space_set_open(&options, &set));
    return set;
}

static void note_problem(const struct finding *finding, void *context)
{
    ENSURE(strstr(finding->text, "/t.firn") != NULL);
    ++*(unsigned *)context;
}

struct telling {
    unsigned pages;
    bool mistaken;
};

static firn_rc note_page(uint32_t page_no, uint64_t owner, void *context)
{
    struct telling *telling = context;
    telling->pages++;
    telling->mistaken |= (owner == 0) != (page_no < 2);
    return FIRN_OK;
}

/* A log for the pool to ask how far it goes: one for all inputs. */
static struct redo *the_log(void)
{
    static struct redo *log;
    struct sim_disk *disk;
    if (log != NULL)
        return log;
    struct redo_options options = {
        .directory = "", .file_size_bytes = 4 << 20, .file_count = 2, .buffer_size_bytes = 8 << 20};
    must(sim_disk_create(&(struct sim_disk_options){.sector_bytes = 512}, &disk));
    must(sim_disk_open_system(disk, clock_real(), 1, &options.system));
    must(redo_create(&options, REDO_FIRST_LSN));
    must(redo_open(&options, &log));
    must(redo_recovered(log, REDO_FIRST_LSN));
    return log;
}

/* What is found must be judged without a problem that opening would have told. */
static void judge(struct io_system *system, struct space_set *set)
{
    struct buffer_pool *pool;
    unsigned problems = 0;
    struct telling telling = {0};
    struct buffer_options options = {.size_bytes = 1 << 20,
                                     .size_max_bytes = 1 << 20,
                                     .page_size_bytes = PAGE_BYTES,
                                     .redo = the_log(),
                                     .files = space_files(set),
                                     .systems = &system,
                                     .system_count = 1,
                                     .doublewrite = BUFFER_DOUBLEWRITE_OFF,
                                     .old_percent = 37};
    must(buffer_open(&options, &pool));
    set->pool = pool;
    if (space_recovered(set) == FIRN_OK && lookup_find(set, SPACE) != NULL) {
        firn_rc rc = space_check(set, SPACE, note_problem, &problems);
        ENSURE((rc == FIRN_OK) == (problems == 0));
        firn_rc told = space_each_page(set, SPACE, note_page, &telling);
        ENSURE(problems > 0 || (told == FIRN_OK && telling.pages <= PAGES && !telling.mistaken));
    }
    buffer_close(pool);
}

static void try_file(const uint8_t *data, size_t size_bytes, uint8_t flags)
{
    static uint8_t pages[TOUCHED * PAGE_BYTES] __attribute__((aligned(4096)));
    struct sim_disk *disk;
    struct io_system *system;
    make_pages(pages);
    lay_over(pages, data, size_bytes);
    if ((flags & FIX_IDENTITY) != 0)
        put_u32(pages + AT_IDENTITY_CRC,
                checksum_crc32c(pages + AT_MAGIC, AT_IDENTITY_CRC - AT_MAGIC));
    if ((flags & FIX_PAGES) != 0)
        seal_pages(pages);
    must(sim_disk_create(&(struct sim_disk_options){.sector_bytes = 512}, &disk));
    must(sim_disk_open_system(disk, clock_real(), 1, &system));
    write_file(system, pages);
    struct space_set *set = open_set(system);
    if (space_scan(set, true) == FIRN_OK)
        judge(system, set);
    must(space_set_close(set));
    io_system_close(system);
    sim_disk_destroy(disk);
}

static void try_record(const uint8_t *data, size_t size_bytes)
{
    struct sim_disk *disk;
    struct io_system *system;
    struct change change = {CHANGE_SPACE_CREATE, page_id_of(SPACE, 0), span_of(data, size_bytes)};
    must(sim_disk_create(&(struct sim_disk_options){.sector_bytes = 512}, &disk));
    must(sim_disk_open_system(disk, clock_real(), 1, &system));
    struct space_set *set = open_set(system);
    firn_rc rc = space_redo(set, &change, 1000);
    ENSURE(rc == FIRN_OK || rc == FIRN_E_CORRUPT);
    must(space_set_close(set));
    set = open_set(system);
    must(space_scan(set, false));
    ENSURE((lookup_find(set, SPACE) != NULL) == (rc == FIRN_OK));
    must(space_set_close(set));
    io_system_close(system);
    sim_disk_destroy(disk);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    if (size_bytes == 0)
        return 0;
    if ((data[0] & IS_RECORD) != 0)
        try_record(data + 1, size_bytes - 1);
    else
        try_file(data + 1, size_bytes - 1, data[0]);
    return 0;
}
