/*
 * What recovery would put right: a page that is torn in its place is no damage if the doublewrite
 * file has what it lacks, or if the log makes it anew.
 */
#include "engine/files_check_internal.h"

#include "base/memory.h"
#include "io/fault.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SCRATCH_PATH_BYTES = 32, CREATE_NAME_AT = 5, SECTOR_BYTES = 512 };

/* ---- What the log says ---- */

static firn_rc note_page(struct files_mended *mended, uint64_t page_id)
{
    FIRN_TRY(files_grow(&mended->page_ids, mended->page_count, &mended->page_capacity,
                        sizeof(*mended->page_ids)));
    mended->page_ids[mended->page_count++] = page_id;
    return FIRN_OK;
}

/* The first two pages of a tablespace are written anew when they are not whole. */
static firn_rc note_made(struct files_mended *mended, const struct change *change)
{
    FIRN_TRY(files_grow(&mended->made, mended->made_count, &mended->made_capacity,
                        sizeof(*mended->made)));
    if (change->payload.size_bytes > CREATE_NAME_AT) {
        size_t length = change->payload.size_bytes - CREATE_NAME_AT;
        char *name = memory_alloc(length + 1);
        if (name == NULL)
            return rc_raise(FIRN_E_NOMEM, "no memory for the check");
        memcpy(name, change->payload.bytes + CREATE_NAME_AT, length);
        name[length] = '\0';
        mended->made[mended->made_count++] = name;
    }
    FIRN_TRY(note_page(mended, change->page_id));
    return note_page(mended, change->page_id + 1);
}

static firn_rc note_change(struct files_mended *mended, const struct change *change)
{
    if (change->op == CHANGE_SPACE_CREATE)
        return note_made(mended, change);
    if (change->op == CHANGE_SPACE_DROP) {
        FIRN_TRY(files_grow(&mended->dropped, mended->dropped_count, &mended->dropped_capacity,
                            sizeof(*mended->dropped)));
        mended->dropped[mended->dropped_count++] = page_id_space(change->page_id);
        return FIRN_OK;
    }
    return change_begins_page(change->op) ? note_page(mended, change->page_id) : FIRN_OK;
}

void files_mend_frame(struct span body, void *context)
{
    struct files_check *check = context;
    struct change change;
    firn_rc rc;
    while ((rc = change_next(&body, &change)) == FIRN_OK && check->rc == FIRN_OK)
        check->rc = note_change(&check->mended, &change);
    if (rc == FIRN_E_CORRUPT)
        files_tell(check, FINDING_DAMAGE, NULL, FINDING_NOWHERE, FINDING_NOWHERE,
                   "a frame of the log in %s is whole, but this program cannot read what is in it: "
                   "open the environment with the program that wrote it",
                   store_class_directory(check->store, IO_CLASS_REDO));
}

/* ---- What the doublewrite file has ---- */

/* Recovery's own function mends copies of the pages, in memory. */
struct scratch {
    struct files_check *check;
    struct io_system *system;
    struct io_file **files;
    uint64_t *page_ids;
    size_t count;
    size_t file_capacity;
    size_t id_capacity;
};

static const struct files_space *find_space(const struct files_check *check, uint32_t number)
{
    for (size_t i = 0; i < check->space_count; i++)
        if (check->spaces[i].is_good && check->spaces[i].info.space == number)
            return &check->spaces[i];
    return NULL;
}

/* What cannot be read is left zeros, as after a power cut that hit a sector. */
static firn_rc copy_page(struct scratch *scratch, const struct files_space *space, uint32_t page_no,
                         struct io_file *to)
{
    struct space_file from = files_space_file(scratch->check, space);
    struct io_file *file;
    uint8_t *page = memory_alloc_aligned(from.page_size_bytes, PAGE_SIZE_MIN);
    if (page == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for the check");
    memset(page, 0, from.page_size_bytes);
    if (io_file_open(from.system, from.class, from.path, IO_OPEN_READ_ONLY, &file) == FIRN_OK) {
        if (io_read(file, page, from.page_size_bytes, (uint64_t)page_no * from.page_size_bytes) !=
            FIRN_OK)
            memset(page, 0, from.page_size_bytes);
        io_file_close(file);
    }
    firn_rc rc = io_write(to, page, from.page_size_bytes, 0);
    memory_free(page);
    return rc;
}

static firn_rc locate_copy(void *context, uint64_t page_id, struct io_file **file, uint64_t *offset)
{
    struct scratch *scratch = context;
    const struct files_space *space = find_space(scratch->check, page_id_space(page_id));
    uint32_t page_no = page_id_number(page_id);
    char path[SCRATCH_PATH_BYTES];
    if (scratch->system == NULL || space == NULL || page_no >= space->info.file_pages)
        return FIRN_E_NOT_FOUND;
    *offset = 0;
    for (size_t i = 0; i < scratch->count; i++)
        if (scratch->page_ids[i] == page_id) {
            *file = scratch->files[i];
            return FIRN_OK;
        }
    FIRN_TRY(files_grow(&scratch->files, scratch->count, &scratch->file_capacity,
                        sizeof(*scratch->files)));
    FIRN_TRY(files_grow(&scratch->page_ids, scratch->count, &scratch->id_capacity,
                        sizeof(*scratch->page_ids)));
    snprintf(path, sizeof(path), "%016llx", (unsigned long long)page_id);
    FIRN_TRY(io_file_open(scratch->system, IO_CLASS_TABLE, path, IO_OPEN_CREATE, file));
    scratch->files[scratch->count] = *file;
    scratch->page_ids[scratch->count++] = page_id;
    return copy_page(scratch, space, page_no, *file);
}

static firn_rc take_mended(struct scratch *scratch)
{
    uint32_t page_size_bytes = scratch->check->store->env.page_size_bytes;
    uint8_t *page = memory_alloc_aligned(page_size_bytes, PAGE_SIZE_MIN);
    if (page == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for the check");
    firn_rc rc = FIRN_OK;
    for (size_t i = 0; i < scratch->count && rc == FIRN_OK; i++) {
        rc = io_read(scratch->files[i], page, page_size_bytes, 0);
        if (rc == FIRN_OK &&
            page_verify(page, page_size_bytes, scratch->page_ids[i], UINT64_MAX) == PAGE_GOOD)
            rc = note_page(&scratch->check->mended, scratch->page_ids[i]);
    }
    memory_free(page);
    return rc;
}

static firn_rc mend_copies(struct scratch *scratch)
{
    struct files_check *check = scratch->check;
    struct store *store = check->store;
    unsigned repaired;
    struct buffer_options options = {
        .page_size_bytes = store->env.page_size_bytes,
        .files = {.context = scratch, .locate = locate_copy},
        .doublewrite_system = store->systems[IO_CLASS_DOUBLEWRITE],
        .doublewrite_directory = store_class_directory(store, IO_CLASS_DOUBLEWRITE),
        .doublewrite_direct = store->options.direct,
    };
    memcpy(options.environment, store->env.id, sizeof(options.environment));
    firn_rc rc = buffer_doublewrite_mend(&options, check->log.checkpoint_lsn, &repaired);
    if (rc == FIRN_OK)
        return take_mended(scratch);
    char *path = env_path(options.doublewrite_directory, "firn_doublewrite");
    rc = path == NULL ? FIRN_E_NOMEM : files_tell_failure(check, path, rc);
    memory_free(path);
    return rc;
}

static int compare_ids(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left;
    uint64_t b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

firn_rc files_mend(struct files_check *check, bool with_pages)
{
    struct scratch scratch = {.check = check};
    struct sim_disk *disk = NULL;
    firn_rc rc = FIRN_OK;
    if (with_pages) {
        struct sim_disk_options options = {.sector_bytes = SECTOR_BYTES};
        FIRN_TRY(sim_disk_create(&options, &disk));
        rc = sim_disk_open_system(disk, clock_real(), 0, &scratch.system);
    }
    if (rc == FIRN_OK)
        rc = mend_copies(&scratch);
    for (size_t i = 0; i < scratch.count; i++)
        io_file_close(scratch.files[i]);
    memory_free(scratch.files);
    memory_free(scratch.page_ids);
    io_system_close(scratch.system);
    if (disk != NULL)
        sim_disk_destroy(disk);
    struct files_mended *mended = &check->mended;
    if (mended->page_count > 1)
        qsort(mended->page_ids, mended->page_count, sizeof(*mended->page_ids), compare_ids);
    return rc;
}

/* ---- Asking ---- */

bool files_is_mended(const struct files_check *check, uint64_t page_id)
{
    const struct files_mended *mended = &check->mended;
    return mended->page_count != 0 && bsearch(&page_id, mended->page_ids, mended->page_count,
                                              sizeof(page_id), compare_ids) != NULL;
}

bool files_is_made(const struct files_check *check, const char *name)
{
    for (size_t i = 0; i < check->mended.made_count; i++)
        if (strcmp(check->mended.made[i], name) == 0)
            return true;
    return false;
}

bool files_is_dropped(const struct files_check *check, uint32_t space)
{
    for (size_t i = 0; i < check->mended.dropped_count; i++)
        if (check->mended.dropped[i] == space)
            return true;
    return false;
}

void files_mend_free(struct files_mended *mended)
{
    for (size_t i = 0; i < mended->made_count; i++)
        memory_free(mended->made[i]);
    memory_free(mended->made);
    memory_free(mended->page_ids);
    memory_free(mended->dropped);
}
