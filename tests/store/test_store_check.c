/*
 * The check, judged by what it must find: each kind of damage to a store is made on purpose, with
 * checksums that are right, and must be named by file and page. And what a power cut leaves, and
 * recovery mends, is no damage.
 */
#include "base/checksum.h"
#include "btree/btree.h"
#include "store/store_world.h"

#include "../repeat.h"

enum { PAGE_BYTES = 4096, ROWS = 400, FINDINGS_MAX = 64, TEXT_BYTES = 600, PATH_BYTES = 64 };

/* ---- Findings ---- */

struct found {
    unsigned damages;
    unsigned kept;
    struct {
        char file[PATH_BYTES];
        uint64_t page;
        char text[TEXT_BYTES];
    } list[FINDINGS_MAX];
};

static void note_finding(const struct finding *finding, void *context)
{
    struct found *found = context;
    if (finding->severity != FINDING_DAMAGE)
        return;
    found->damages++;
    if (found->kept == FINDINGS_MAX)
        return;
    snprintf(found->list[found->kept].file, PATH_BYTES, "%s",
             finding->file == NULL ? "" : finding->file);
    snprintf(found->list[found->kept].text, TEXT_BYTES, "%s", finding->text);
    found->list[found->kept++].page = finding->page;
}

static bool has_found(const struct found *found, const char *file, uint64_t page)
{
    char named[PATH_BYTES + 32];
    snprintf(named, sizeof named, "age %llu of %s", (unsigned long long)page, file);
    for (unsigned i = 0; i < found->kept; i++)
        if (strcmp(found->list[i].file, file) == 0 && found->list[i].page == page &&
            strstr(found->list[i].text, named) != NULL)
            return true;
    return false;
}

static void print_found(const struct found *found)
{
    for (unsigned i = 0; i < found->kept; i++)
        print_error("%s, page %lld: %s\n", found->list[i].file, (long long)found->list[i].page,
                    found->list[i].text);
}

/* ---- A store to be damaged ---- */

#define TREE_FILE   "db/t.firn"
#define SYSTEM_FILE "db/system.firn"

/** A closed store: a tree of three levels, of which some values are large, with pages that are free
 * again. */
static struct sim_disk *closed_store(void)
{
    struct world world;
    struct store_session *session;
    uint8_t value[12000];
    char key[32];
    memset(value, 'v', sizeof value);
    world_init(&world, disk_make(), 1);
    ASSERT_OK(world_open(&world));
    ASSERT_OK(store_session_open(world.store, &session));
    for (unsigned i = 0; i < ROWS; i++) {
        int length = snprintf(key, sizeof key, "key-%06u", i * 7919 % ROWS);
        size_t value_bytes = i % 50 == 0 ? sizeof value : 100 + i % 300;
        ASSERT_OK(store_put(session, world.tree, span_of(key, (size_t)length),
                            span_of(value, value_bytes)));
    }
    for (unsigned i = 0; i < ROWS; i += 50) {
        int length = snprintf(key, sizeof key, "key-%06u", i * 7919 % ROWS);
        if (i % 100 == 0)
            ASSERT_OK(store_delete(session, world.tree, span_of(key, (size_t)length)));
    }
    ASSERT_OK(store_commit(session));
    store_session_close(session);
    ASSERT_OK(store_close(world.store));
    world.store = NULL;
    world_end(&world);
    return world.disk;
}

static void read_page(struct io_system *system, const char *path, uint32_t page_no, uint8_t *page)
{
    struct io_file *file = file_open(system, path, IO_OPEN_READ_ONLY);
    ASSERT_OK(io_read(file, page, PAGE_BYTES, (uint64_t)page_no * PAGE_BYTES));
    ASSERT_OK(io_file_close(file));
}

/** Write a page back as if the engine had: its checksum is right. */
static void write_page(struct io_system *system, const char *path, uint32_t page_no, uint8_t *page)
{
    struct io_file *file = file_open(system, path, 0);
    page_seal(page, PAGE_BYTES);
    ASSERT_OK(io_write(file, page, PAGE_BYTES, (uint64_t)page_no * PAGE_BYTES));
    ASSERT_OK(io_sync(file, IO_SYNC_ALL));
    ASSERT_OK(io_file_close(file));
}

/* Of an index page (FORMAT.md). */
enum { AT_LEVEL = 32, AT_COUNT = 34, AT_PREV = 44, AT_NEXT = 48, AT_LOWER = 54, AT_SLOTS = 64 };
enum { AT_BLOB_NEXT = 52, AT_BLOB_STAMP = 32, AT_MAP_DESCRIPTORS = 32, AT_USED = 528 };

/** Find the first page that a function likes. @return its number; the page is in `page` */
static uint32_t find_page(struct io_system *system, const char *path,
                          bool (*likes)(const uint8_t *page), uint8_t *page)
{
    uint32_t pages = (uint32_t)(file_size(system, path) / PAGE_BYTES);
    for (uint32_t page_no = 0; page_no < pages; page_no++) {
        read_page(system, path, page_no, page);
        if (likes(page))
            return page_no;
    }
    fail_msg("%s has no such page", path);
    return 0;
}

static bool is_middle_leaf(const uint8_t *page)
{
    return page_type(page) == PAGE_TYPE_INDEX && get_u16(page + AT_LEVEL) == 0 &&
           get_u32(page + AT_PREV) != PAGE_NONE && get_u32(page + AT_NEXT) != PAGE_NONE &&
           get_u16(page + AT_COUNT) > 3 && get_u16(page + AT_LOWER) > 0;
}

static bool is_inner(const uint8_t *page)
{
    return page_type(page) == PAGE_TYPE_INDEX && get_u16(page + AT_LEVEL) == 1 &&
           get_u16(page + AT_COUNT) > 2;
}

static bool is_blob_with_next(const uint8_t *page)
{
    return page_type(page) == PAGE_TYPE_BLOB && get_u32(page + AT_BLOB_NEXT) != PAGE_NONE;
}

static bool is_map(const uint8_t *page)
{
    return page_type(page) == PAGE_TYPE_MAP;
}

static bool is_catalog_leaf(const uint8_t *page)
{
    return page_type(page) == PAGE_TYPE_INDEX && get_u16(page + AT_LEVEL) == 0 &&
           get_u64(page + PAGE_HEADER_BYTES) == 1;
}

/* ---- Damages ---- */

/** What was damaged, and the page by which it must be named. */
struct wound {
    const char *file;
    uint32_t page_no;
    uint32_t or_page_no; /* or by this one */
};

typedef struct wound wound_function(struct io_system *system, uint8_t *page);

static struct wound wound_in(const char *file, uint32_t page_no)
{
    return (struct wound){file, page_no, page_no};
}

static struct wound right_link(struct io_system *system, uint8_t *page)
{
    uint32_t page_no = find_page(system, TREE_FILE, is_middle_leaf, page);
    put_u32(page + AT_NEXT, get_u32(page + AT_PREV));
    write_page(system, TREE_FILE, page_no, page);
    return wound_in(TREE_FILE, page_no);
}

static struct wound left_link(struct io_system *system, uint8_t *page)
{
    uint32_t page_no = find_page(system, TREE_FILE, is_middle_leaf, page);
    put_u32(page + AT_PREV, get_u32(page + AT_NEXT));
    write_page(system, TREE_FILE, page_no, page);
    return wound_in(TREE_FILE, page_no);
}

/* The last byte of the lower fence ends the page. Lower than it was, it is still below all keys. */
static struct wound fence(struct io_system *system, uint8_t *page)
{
    uint32_t page_no = find_page(system, TREE_FILE, is_middle_leaf, page);
    page[PAGE_BYTES - 1]--;
    write_page(system, TREE_FILE, page_no, page);
    return wound_in(TREE_FILE, page_no);
}

static struct wound key_order(struct io_system *system, uint8_t *page)
{
    uint8_t slot[8];
    uint32_t page_no = find_page(system, TREE_FILE, is_middle_leaf, page);
    memcpy(slot, page + AT_SLOTS, 8);
    memmove(page + AT_SLOTS, page + AT_SLOTS + 8, 8);
    memcpy(page + AT_SLOTS + 8, slot, 8);
    write_page(system, TREE_FILE, page_no, page);
    return wound_in(TREE_FILE, page_no);
}

static struct wound record_count(struct io_system *system, uint8_t *page)
{
    uint32_t page_no = find_page(system, TREE_FILE, is_middle_leaf, page);
    put_u16(page + AT_COUNT, (uint16_t)(get_u16(page + AT_COUNT) - 1));
    write_page(system, TREE_FILE, page_no, page);
    return wound_in(TREE_FILE, page_no);
}

static struct wound level(struct io_system *system, uint8_t *page)
{
    uint32_t page_no = find_page(system, TREE_FILE, is_middle_leaf, page);
    put_u16(page + AT_LEVEL, 1);
    write_page(system, TREE_FILE, page_no, page);
    return wound_in(TREE_FILE, page_no);
}

/** @return where an inner node's slot has its child's number. */
static uint8_t *child_at(uint8_t *page, unsigned slot)
{
    const uint8_t *at = page + AT_SLOTS + (size_t)slot * 8;
    return page + get_u16(at + 4) + 2 + get_u16(at + 6);
}

/* The second child in the first one's place: either is named, where the parent finds it wrong. */
static struct wound child_pointer(struct io_system *system, uint8_t *page)
{
    uint32_t page_no = find_page(system, TREE_FILE, is_inner, page);
    uint32_t second = get_u32(child_at(page, 1));
    put_u32(child_at(page, 0), second);
    write_page(system, TREE_FILE, page_no, page);
    return (struct wound){TREE_FILE, page_no, second};
}

static struct wound child_pointer_beyond(struct io_system *system, uint8_t *page)
{
    uint32_t page_no = find_page(system, TREE_FILE, is_inner, page);
    put_u32(child_at(page, 1), 1000000);
    write_page(system, TREE_FILE, page_no, page);
    return (struct wound){TREE_FILE, page_no, 1000000};
}

/* A chain is named by the leaf that refers to it. */
static uint32_t leaf_of_chain(struct io_system *system, uint32_t first_page)
{
    uint8_t page[PAGE_BYTES];
    uint32_t pages = (uint32_t)(file_size(system, TREE_FILE) / PAGE_BYTES);
    for (uint32_t page_no = 0; page_no < pages; page_no++) {
        read_page(system, TREE_FILE, page_no, page);
        if (page_type(page) != PAGE_TYPE_INDEX || get_u16(page + AT_LEVEL) != 0)
            continue;
        for (unsigned slot = 0; slot < get_u16(page + AT_COUNT); slot++) {
            const uint8_t *at = page + AT_SLOTS + (size_t)slot * 8;
            const uint8_t *cell = page + get_u16(at + 4);
            if (get_u16(cell) >> 15 && get_u32(cell + 2 + get_u16(at + 6)) == first_page)
                return page_no;
        }
    }
    fail_msg("no leaf refers to page %u", first_page);
    return 0;
}

static bool is_used_blob(const uint8_t *page)
{
    return is_blob_with_next(page) && get_u32(page + 56) == page_number(page);
}

static struct wound blob_link(struct io_system *system, uint8_t *page)
{
    uint32_t page_no = find_page(system, TREE_FILE, is_used_blob, page);
    put_u32(page + AT_BLOB_NEXT, page_no);
    write_page(system, TREE_FILE, page_no, page);
    return (struct wound){TREE_FILE, page_no, leaf_of_chain(system, page_no)};
}

static struct wound blob_stamp(struct io_system *system, uint8_t *page)
{
    uint32_t page_no = find_page(system, TREE_FILE, is_used_blob, page);
    put_u64(page + AT_BLOB_STAMP, get_u64(page + AT_BLOB_STAMP) + 1);
    write_page(system, TREE_FILE, page_no, page);
    return (struct wound){TREE_FILE, page_no, leaf_of_chain(system, page_no)};
}

/* A page of a tree that the map says is free: the count does not fit, and the page itself is named
   by who reaches it. */
static struct wound used_page_is_free(struct io_system *system, uint8_t *page)
{
    uint32_t leaf = find_page(system, TREE_FILE, is_middle_leaf, page);
    uint32_t page_no = find_page(system, TREE_FILE, is_map, page);
    uint8_t *bitmap = page + AT_MAP_DESCRIPTORS + leaf / 64 * 16 + 8;
    put_u64(bitmap, get_u64(bitmap) & ~(UINT64_C(1) << leaf % 64));
    write_page(system, TREE_FILE, page_no, page);
    read_page(system, TREE_FILE, 0, page);
    put_u32(page + AT_USED, get_u32(page + AT_USED) - 1);
    write_page(system, TREE_FILE, 0, page);
    return wound_in(TREE_FILE, leaf);
}

/* A page of an extent of the tree's own that nobody reaches. */
static struct wound free_page_is_used(struct io_system *system, uint8_t *page)
{
    uint32_t page_no = find_page(system, TREE_FILE, is_map, page);
    for (uint32_t extent = 0; extent < 100; extent++) {
        uint8_t *descriptor = page + AT_MAP_DESCRIPTORS + (size_t)extent * 16;
        uint64_t bitmap = get_u64(descriptor + 8);
        if (get_u64(descriptor) == 0 || bitmap == UINT64_MAX)
            continue;
        unsigned bit = (unsigned)__builtin_ctzll(~bitmap);
        put_u64(descriptor + 8, bitmap | UINT64_C(1) << bit);
        write_page(system, TREE_FILE, page_no, page);
        return (struct wound){TREE_FILE, extent * 64 + bit, 0};
    }
    fail_msg("no extent has a free page");
    return wound_in(TREE_FILE, 0);
}

static struct wound counter(struct io_system *system, uint8_t *page)
{
    read_page(system, TREE_FILE, 0, page);
    put_u32(page + AT_USED, get_u32(page + AT_USED) + 1);
    write_page(system, TREE_FILE, 0, page);
    return wound_in(TREE_FILE, 0);
}

static struct wound page_of_another_type(struct io_system *system, uint8_t *page)
{
    uint32_t page_no = find_page(system, TREE_FILE, is_middle_leaf, page);
    page_init(page, PAGE_BYTES, page_id_of(page_space(page), page_no), PAGE_TYPE_FREE);
    write_page(system, TREE_FILE, page_no, page);
    return wound_in(TREE_FILE, page_no);
}

static struct wound page_from_ahead(struct io_system *system, uint8_t *page)
{
    uint32_t page_no = find_page(system, TREE_FILE, is_middle_leaf, page);
    page_set_lsn(page, UINT64_C(1) << 40);
    write_page(system, TREE_FILE, page_no, page);
    return wound_in(TREE_FILE, page_no);
}

/* The entry of "t": its value's 24 bytes lie behind the key. */
static uint8_t *catalog_entry(struct io_system *system, uint8_t *page, uint32_t *page_no)
{
    *page_no = find_page(system, SYSTEM_FILE, is_catalog_leaf, page);
    for (unsigned slot = 0; slot < get_u16(page + AT_COUNT); slot++) {
        const uint8_t *at = page + AT_SLOTS + (size_t)slot * 8;
        uint8_t *cell = page + get_u16(at + 4);
        if (get_u16(cell) == 24)
            return cell + 2 + get_u16(at + 6);
    }
    fail_msg("the catalog has no entry");
    return NULL;
}

static struct wound entry_state(struct io_system *system, uint8_t *page)
{
    uint32_t page_no;
    catalog_entry(system, page, &page_no)[1] = 9;
    write_page(system, SYSTEM_FILE, page_no, page);
    return wound_in(SYSTEM_FILE, page_no);
}

static struct wound entry_root(struct io_system *system, uint8_t *page)
{
    uint8_t leaf[PAGE_BYTES];
    uint32_t page_no;
    uint32_t other = find_page(system, TREE_FILE, is_middle_leaf, leaf);
    put_u32(catalog_entry(system, page, &page_no) + 8, other);
    write_page(system, SYSTEM_FILE, page_no, page);
    return wound_in(TREE_FILE, other);
}

static struct wound entry_index(struct io_system *system, uint8_t *page)
{
    uint32_t page_no;
    uint8_t *entry = catalog_entry(system, page, &page_no);
    uint32_t root = get_u32(entry + 8);
    put_u64(entry + 16, 777);
    write_page(system, SYSTEM_FILE, page_no, page);
    return wound_in(TREE_FILE, root);
}

/** Check a store with a wound. @return what was found; a refused opening counts as found where it
 * says so */
static void check_wounded(struct world *world, struct found *found)
{
    struct store_check_result result;
    world->options.create = false;
    world->options.read_only = true;
    firn_rc rc = store_open(&world->options, &world->store, NULL);
    if (rc == FIRN_OK) {
        rc = store_check(world->store, 2, note_finding, found, NULL, &result);
        assert_true((rc == FIRN_E_CORRUPT) == (found->damages != 0));
        return;
    }
    const char *page = strstr(firn_error_text(), "page ");
    const char *file = strstr(firn_error_text(), " of db/");
    if (page == NULL || file == NULL)
        fail_msg("neither file nor page in: %s", firn_error_text());
    struct finding finding = {.severity = FINDING_DAMAGE, .text = firn_error_text()};
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%.*s", (int)strcspn(file + 4, " ,:"), file + 4);
    finding.file = path;
    finding.page = strtoull(page + 5, NULL, 10);
    note_finding(&finding, found);
}

static void each_damage_is_named_by_file_and_page(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        wound_function *make;
    } wounds[] = {
        {"right link", right_link},
        {"left link", left_link},
        {"fence", fence},
        {"key order", key_order},
        {"record count", record_count},
        {"level", level},
        {"child pointer", child_pointer},
        {"child pointer beyond the file", child_pointer_beyond},
        {"link of a large value", blob_link},
        {"stamp of a large value", blob_stamp},
        {"used page is free", used_page_is_free},
        {"free page is used", free_page_is_used},
        {"counter of page 0", counter},
        {"page of another type", page_of_another_type},
        {"page from ahead of the log", page_from_ahead},
        {"state of a catalog entry", entry_state},
        {"root of a catalog entry", entry_root},
        {"index of a catalog entry", entry_index},
    };
    struct sim_disk *base = closed_store();
    uint8_t page[PAGE_BYTES];
    for (size_t i = 0; i < ARRAY_COUNT(wounds); i++) {
        struct world world;
        struct found found = {0};
        world_init(&world, sim_disk_clone(base), 1);
        struct wound wound = wounds[i].make(world.system, page);
        check_wounded(&world, &found);
        if (!has_found(&found, wound.file, wound.page_no) &&
            !has_found(&found, wound.file, wound.or_page_no)) {
            print_found(&found);
            fail_msg("%s, page %u of %s, is not named", wounds[i].name, wound.page_no, wound.file);
        }
        world_end(&world);
        sim_disk_destroy(world.disk);
    }
    struct world world;
    struct found found = {0};
    world_init(&world, base, 1);
    check_wounded(&world, &found);
    assert_int_equal(found.damages, 0);
    world_end(&world);
    sim_disk_destroy(base);
}

/* ---- Files as a power cut leaves them ---- */

struct sum {
    struct io_system *system;
    uint64_t sum; /* whatever the order of the names */
};

static firn_rc add_file(const char *name, void *context)
{
    struct sum *sum = context;
    char path[PATH_BYTES];
    size_t size_bytes;
    if (strcmp(name, "firn.lock") == 0)
        return FIRN_OK;
    snprintf(path, sizeof path, "db/%s", name);
    uint8_t *bytes = file_load(sum->system, path, &size_bytes);
    sum->sum += (uint64_t)checksum_crc32c((const uint8_t *)name, strlen(name)) * 31 +
                checksum_crc32c(bytes, size_bytes) * UINT64_C(0x100000001) + size_bytes;
    free(bytes);
    return FIRN_OK;
}

static uint64_t sum_files(struct io_system *system)
{
    struct sum sum = {.system = system};
    firn_rc rc = io_list(system, "db", add_file, &sum);
    assert_true(rc == FIRN_OK || rc == FIRN_E_NOT_FOUND);
    return sum.sum;
}

/** Load, cut, and check the files. @return damages; mended pages are added */
static unsigned check_cut(const struct sim_disk *base, const struct lane *before, uint64_t step,
                          uint64_t seed, bool no_doublewrite, uint64_t *mended)
{
    struct lane *lane = malloc(sizeof *lane);
    struct world world;
    struct store_session *session;
    struct found found = {0};
    struct store_files_result result;
    *lane = *before;
    world_init(&world, sim_disk_clone(base), seed);
    world.options.doublewrite = no_doublewrite ? BUFFER_DOUBLEWRITE_OFF : BUFFER_DOUBLEWRITE_ON;
    sim_disk_cut_after(world.disk, step, SIM_CUT_TEAR, seed);
    firn_rc rc = world_open(&world);
    if (rc == FIRN_OK)
        rc = store_session_open(world.store, &session);
    for (unsigned i = 0; rc == FIRN_OK && i < 300; i++) {
        rc = lane_step(lane, session, world.tree);
        if (rc == FIRN_OK && i % 7 == 0)
            rc = lane_commit(lane, session);
        if (rc == FIRN_OK && i % 60 == 59)
            rc = store_checkpoint(world.store);
    }
    if (world.store != NULL)
        store_session_close(session);
    if (!sim_disk_is_cut(world.disk))
        sim_disk_cut(world.disk, SIM_CUT_TEAR, seed);
    world_restore(&world, seed);
    uint64_t sum = sum_files(world.system);
    ASSERT_OK(store_check_files(&world.options, STORE_FILES_HEADS | STORE_FILES_PAGES, 2,
                                note_finding, &found, NULL, &result));
    assert_int_equal(result.findings[FINDING_DAMAGE], found.damages);
    assert_true(sum_files(world.system) == sum); /* it changes nothing */
    *mended += result.pages_mended;
    if (found.damages != 0 && !no_doublewrite)
        print_found(&found);
    world_end(&world);
    sim_disk_destroy(world.disk);
    free(lane);
    return found.damages;
}

static struct sim_disk *store_of_a_lane(struct lane *lane, uint64_t seed)
{
    struct world world;
    struct store_session *session;
    world_init(&world, disk_make(), seed);
    ASSERT_OK(world_open(&world));
    ASSERT_OK(store_session_open(world.store, &session));
    for (unsigned i = 0; i < 300; i++)
        ASSERT_OK(lane_step(lane, session, world.tree));
    ASSERT_OK(lane_commit(lane, session));
    store_session_close(session);
    ASSERT_OK(store_close(world.store));
    world.store = NULL;
    world_end(&world);
    return world.disk;
}

/* Where recovery mends, there is no damage; with doublewrite off there is, or this test proves
   nothing. */
static void what_recovery_mends_is_no_damage(void **state)
{
    (void)state;
    uint64_t seed = test_seed(17);
    struct lane *lane = lane_make(0, seed);
    struct sim_disk *base = store_of_a_lane(lane, seed);
    uint64_t mended = 0;
    uint64_t ignored = 0;
    unsigned torn = 0;
    for (unsigned i = 0; i < 60; i++) {
        uint64_t step = 20 + (uint64_t)i * 5;
        if (check_cut(base, lane, step, seed + i, false, &mended) != 0)
            fail_msg("a false alarm, cut at step %llu, seed %llu", (unsigned long long)step,
                     (unsigned long long)seed);
        torn += check_cut(base, lane, step, seed + i, true, &ignored) != 0;
    }
    print_message("# %llu pages mended; without doublewrite %u of 60 cuts left damage\n",
                  (unsigned long long)mended, torn);
    assert_true(mended > 0 && torn > 0);
    sim_disk_destroy(base);
    free(lane);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_damage_is_named_by_file_and_page),
        cmocka_unit_test(what_recovery_mends_is_no_damage),
    };
    return cmocka_run_group_tests(tests, world_quiet, NULL);
}
