/*
 * What recovery asks of tablespaces.
 */
#include "space/space_internal.h"

#include "base/memory.h"

#include <stdio.h>

/* ---- Records ---- */

struct create_record {
    uint32_t space;
    enum io_class class;
    char name[SPACE_NAME_MAX + 1];
};

static firn_rc read_create(const struct space_set *set, const struct change *change,
                           struct create_record *record)
{
    struct span payload = change->payload;
    size_t name_size = payload.size_bytes - CREATE_HEADER_BYTES;
    if (payload.size_bytes <= CREATE_HEADER_BYTES || payload.bytes[0] >= IO_CLASS_COUNT ||
        set->options.places[payload.bytes[0]].directory == NULL ||
        get_u32(payload.bytes + 1) != set->options.page_size_bytes ||
        !name_is_valid((const char *)payload.bytes + CREATE_HEADER_BYTES, name_size))
        return rc_raise(FIRN_E_CORRUPT, "the log's record of making tablespace %u makes no sense",
                        page_id_space(change->page_id));
    record->space = page_id_space(change->page_id);
    record->class = (enum io_class)payload.bytes[0];
    snprintf(record->name, sizeof record->name, "%.*s", (int)name_size,
             (const char *)payload.bytes + CREATE_HEADER_BYTES);
    return FIRN_OK;
}

/** The file of a name that was found unfinished is so no longer. */
static void forget_unfinished(struct space_set *set, const char *path)
{
    for (struct unfinished **link = &set->unfinished; *link != NULL; link = &(*link)->next)
        if (strcmp((*link)->path, path) == 0) {
            struct unfinished *found = *link;
            *link = found->next;
            memory_free(found);
            return;
        }
}

/** Mend the first pages of a file that is there. They are not in the pool yet, or whole. */
static firn_rc finish_create(struct space_set *set, struct space *space, uint64_t lsn)
{
    struct io_file *file;
    uint32_t pages;
    FIRN_TRY(create_file(set, space, space_id(space), lsn, &file, &pages));
    firn_rc rc = io_file_close(file);
    lock_take(&space->resize_mutex);
    if (atomic_load_explicit(&space->file_pages, memory_order_relaxed) < pages)
        atomic_store_explicit(&space->file_pages, pages, memory_order_release);
    lock_give(&space->resize_mutex);
    return rc;
}

static firn_rc redo_create_space(struct space_set *set, const struct create_record *record,
                                 uint64_t lsn)
{
    struct space *space = lookup_find(set, record->space);
    if (space != NULL)
        return finish_create(set, space, lsn);
    /* A later tablespace has the name: this one was dropped. */
    if (set_find_name(set, record->name) != NULL)
        return FIRN_OK;
    struct io_file *file;
    uint32_t pages;
    FIRN_TRY(set_new(set, record->class, record->name, &space));
    firn_rc rc = create_file(set, space, record->space, lsn, &file, &pages);
    if (rc != FIRN_OK) {
        set_discard(set, space);
        return rc;
    }
    forget_unfinished(set, space->path);
    set_add(set, space, record->space, file, pages);
    return FIRN_OK;
}

firn_rc space_redo(struct space_set *set, const struct change *change, uint64_t lsn)
{
    struct create_record record;
    struct space *space;
    firn_rc rc = FIRN_OK;
    lock_take(&set->mutex);
    switch (change->op) {
    case CHANGE_SPACE_CREATE:
        rc = read_create(set, change, &record);
        if (rc == FIRN_OK)
            rc = redo_create_space(set, &record, lsn);
        break;
    case CHANGE_SPACE_DROP:
        space = lookup_find(set, page_id_space(change->page_id));
        if (space != NULL) {
            rc = create_drop_file(set, space);
            set_discard(set, space);
        }
        break;
    default:
        rc = rc_raise(FIRN_E_CORRUPT,
                      "the log has a record of kind %d about tablespace %u, which "
                      "this program does not know",
                      (int)change->op, page_id_space(change->page_id));
    }
    lock_give(&set->mutex);
    return rc;
}

firn_rc space_sync(struct space_set *set)
{
    firn_rc rc = FIRN_OK;
    pthread_mutex_lock(&set->mutex);
    for (unsigned i = 0; rc == FIRN_OK && i < set->space_count; i++)
        rc = io_sync(space_file(set->spaces[i]), IO_SYNC_DATA);
    pthread_mutex_unlock(&set->mutex);
    return rc;
}

/* ---- Pages ---- */

firn_rc space_has(struct space_set *set, uint64_t page_id)
{
    return lookup_find(set, page_id_space(page_id)) != NULL ? FIRN_OK : FIRN_E_NOT_FOUND;
}

/**
 * A file may have lost growth that was not synced. But where its first page was written before the
 * last checkpoint, it had the size that this page tells at the checkpoint, durably.
 */
static firn_rc check_not_cut_off(const struct space_set *set, const struct space *space)
{
    if (space->scanned_pages == 0 || space->scanned_lsn > set->first_lsn ||
        space->scanned_file_pages >= space->scanned_pages)
        return FIRN_OK;
    return rc_raise(FIRN_E_CORRUPT,
                    "%s was cut off: it has %u pages, and had %u; restore it from a backup",
                    space->path, space->scanned_file_pages, space->scanned_pages);
}

firn_rc space_reach(struct space_set *set, uint64_t page_id)
{
    struct space *space;
    FIRN_TRY(lookup_require(set, page_id_space(page_id), &space));
    uint32_t page_no = page_id_number(page_id);
    uint32_t have = atomic_load_explicit(&space->file_pages, memory_order_acquire);
    if (page_no < have)
        return FIRN_OK;
    FIRN_TRY(check_not_cut_off(set, space));
    if (page_no >= SPACE_PAGES_MAX)
        return rc_raise(FIRN_E_CORRUPT, "the log changes page %u of %s, which no tablespace has",
                        page_no, space->path);
    firn_rc rc = grow_file(set, space, grow_target(set, have, page_no + 1));
    if (rc == FIRN_E_NOSPACE)
        rc = grow_file(set, space, page_no + 1);
    return rc;
}

/* ---- After recovery ---- */

/** Hold page 0 of a tablespace against the file. */
static firn_rc judge_head(struct space_set *set, struct space *space, struct space_head *head)
{
    FIRN_TRY(check_not_cut_off(set, space));
    FIRN_TRY(head_load(set, space, head));
    if (!head_is_sound(head))
        return rc_raise(FIRN_E_CORRUPT,
                        "page 0 of %s is whole, but what it counts cannot be; restore it from a "
                        "backup",
                        space->path);
    return FIRN_OK;
}

/** Make a file as long as page 0 says. */
static firn_rc settle(struct space_set *set, struct space *space)
{
    struct space_head head;
    FIRN_TRY(judge_head(set, space, &head));
    lock_take(&space->resize_mutex);
    atomic_store_explicit(&space->claimed_pages, 0, memory_order_relaxed);
    lock_give(&space->resize_mutex);
    FIRN_TRY(grow_file(set, space, head.pages));
    extent_forget_hints(space);
    return FIRN_OK;
}

firn_rc space_recovered(struct space_set *set)
{
    firn_rc rc = FIRN_OK;
    lock_take(&set->mutex);
    if (set->unfinished != NULL)
        rc = scan_raise_unfinished(set->unfinished->path);
    /* All are judged before one is changed. */
    struct space_head head;
    for (unsigned i = 0; rc == FIRN_OK && i < set->space_count; i++)
        rc = judge_head(set, set->spaces[i], &head);
    for (unsigned i = 0; rc == FIRN_OK && i < set->space_count; i++)
        rc = settle(set, set->spaces[i]);
    lock_give(&set->mutex);
    return rc;
}
