/*
 * Making and dropping tablespaces.
 *
 * Both write their record first and make it durable, then change the directory, and hold
 * checkpoints back until that is durable too: after a crash in between recovery meets the record
 * and finishes the work (recover.c).
 */
#include "space/space_internal.h"

#include "base/inject.h"
#include "base/memory.h"

#include <stdio.h>

enum { SENTENCE_BYTES = 1024 };

/* ---- Files ---- */

static bool is_whole(const uint8_t *page, uint32_t page_size_bytes, uint32_t id, uint32_t page_no)
{
    return page_verify(page, page_size_bytes, page_id_of(id, page_no), UINT64_MAX) == PAGE_GOOD;
}

/** Write those of the first pages that are not there. @param pages  room for two pages */
static firn_rc write_first_pages(struct space_set *set, struct space *space, uint32_t id,
                                 uint64_t lsn, struct io_file *file, uint8_t *pages)
{
    uint32_t page_size = set->options.page_size_bytes;
    struct space_identity identity = {
        .page_size_bytes = page_size, .space = id, .class = space->class};
    memcpy(identity.environment, set->options.environment, sizeof identity.environment);
    memcpy(identity.name, space->name, sizeof identity.name);
    FIRN_TRY(io_read(file, pages, (size_t)page_size * 2, 0));
    bool whole[2];
    for (uint32_t i = 0; i < 2; i++)
        whole[i] = is_whole(pages + (size_t)i * page_size, page_size, id, i);
    layout_make(pages, &identity, lsn);
    for (uint32_t i = 0; i < 2; i++)
        if (!whole[i])
            FIRN_TRY(
                io_write(file, pages + (size_t)i * page_size, page_size, (uint64_t)i * page_size));
    return FIRN_OK;
}

firn_rc create_file(struct space_set *set, struct space *space, uint32_t id, uint64_t lsn,
                    struct io_file **file, uint32_t *pages)
{
    uint32_t page_size = set->options.page_size_bytes;
    uint64_t least = (uint64_t)SPACE_PAGES_INITIAL * page_size;
    uint64_t size = 0;
    firn_rc rc;
    struct io_file *made = NULL;
    uint8_t *first = memory_alloc_aligned((size_t)page_size * 2, PAGE_SIZE_MAX);
    if (first == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for the first pages of %s", space->path);
    FIRN_TRY_GOTO(set_open_file(set, space->class, space->path, IO_OPEN_CREATE, &made), fail);
    FIRN_TRY_GOTO(io_file_size(made, &size), fail);
    if (size < least) {
        FIRN_TRY_GOTO(io_file_allocate(made, size, least - size), fail);
        size = least;
    }
    FIRN_TRY_GOTO(write_first_pages(set, space, id, lsn, made, first), fail);
    FIRN_TRY_GOTO(io_sync(made, IO_SYNC_ALL), fail);
    FIRN_TRY_GOTO(io_sync_directory(set_system(set, space->class),
                                    set->options.places[space->class].directory),
                  fail);
    memory_free(first);
    *file = made;
    *pages = (uint32_t)(size / page_size);
    return FIRN_OK;
fail:
    memory_free(first);
    if (made != NULL)
        io_file_close(made);
    return rc;
}

/** Remove a file and its name, durably. */
static firn_rc remove_file(struct space_set *set, struct space *space)
{
    struct io_system *system = set_system(set, space->class);
    firn_rc rc = io_remove(system, space->path);
    if (rc != FIRN_OK && rc != FIRN_E_NOT_FOUND)
        return rc;
    return io_sync_directory(system, set->options.places[space->class].directory);
}

/* ---- Records ---- */

/** Commit what is in the mini-transaction, with checkpoints held back before it, and make it
 * durable. The hold ends with a failure. */
static firn_rc commit_held(struct space_set *set, struct mtr *mtr, struct redo_hold *hold,
                           uint64_t *end_lsn)
{
    redo_hold(set->redo, hold);
    firn_rc rc = mtr_commit(mtr, end_lsn);
    if (rc == FIRN_OK)
        rc = redo_flush(set->redo, *end_lsn, REDO_FLUSH_SYNC);
    if (rc != FIRN_OK)
        redo_release(set->redo, hold);
    else
        INJECT("space-record-durable");
    return rc;
}

/** Take the next id from the system tablespace; that one has id 0. */
static firn_rc next_id(struct space_set *set, struct mtr *mtr, uint32_t *id)
{
    struct mtr_page *page0;
    uint8_t next[4];
    if (set->space_count == 0) {
        *id = SPACE_SYSTEM;
        return FIRN_OK;
    }
    FIRN_TRY(mtr_fix(mtr, page_id_of(SPACE_SYSTEM, 0), &page0));
    uint32_t taken = head_get(page0->bytes).next_space;
    if (taken == SPACE_NONE)
        return rc_raise(FIRN_E_NOSPACE, "the environment has made as many tablespaces as there are "
                                        "numbers for; dump it and load it into a new one");
    put_u32(next, taken + 1);
    mtr_write(mtr, page0, AT_NEXT_SPACE, span_of(next, sizeof next));
    *id = taken;
    return FIRN_OK;
}

static firn_rc note_create(struct space_set *set, struct mtr *mtr, struct space *space,
                           uint32_t *id, uint64_t *end_lsn)
{
    uint8_t payload[CREATE_HEADER_BYTES + SPACE_NAME_MAX];
    size_t name_size = strlen(space->name);
    payload[0] = (uint8_t)space->class;
    put_u32(payload + 1, set->options.page_size_bytes);
    memcpy(payload + CREATE_HEADER_BYTES, space->name, name_size);
    FIRN_TRY(mtr_begin(mtr, mtr_cost(sizeof payload) + mtr_cost(6)));
    firn_rc rc = next_id(set, mtr, id);
    if (rc != FIRN_OK) {
        mtr_abandon(mtr);
        return rc;
    }
    mtr_note(mtr, CHANGE_SPACE_CREATE, page_id_of(*id, 0),
             span_of(payload, CREATE_HEADER_BYTES + name_size));
    return commit_held(set, mtr, &space->hold, end_lsn);
}

static firn_rc note_drop(struct space_set *set, struct mtr *mtr, uint32_t id,
                         struct redo_hold *hold)
{
    uint64_t end_lsn;
    FIRN_TRY(mtr_begin(mtr, mtr_cost(0)));
    mtr_note(mtr, CHANGE_SPACE_DROP, page_id_of(id, 0), span_of(NULL, 0));
    return commit_held(set, mtr, hold, &end_lsn);
}

/* ---- Making ---- */

static firn_rc check_new(struct space_set *set, enum io_class class, const char *name)
{
    if (!name_is_valid(name, strlen(name)))
        return rc_raise(FIRN_E_INVALID,
                        "\"%s\" cannot name a tablespace: 1 to %d bytes of letters, digits, "
                        "_ - . $ and UTF-8 are allowed, beginning with other than a dot",
                        name, SPACE_NAME_MAX);
    if (set->options.places[class].directory == NULL ||
        (set->space_count == 0 && class != IO_CLASS_SYSTEM))
        return rc_raise(FIRN_E_MISUSE, "no %s tablespace can be made here", io_class_name(class));
    if (set_find_name(set, name) != NULL)
        return rc_raise(FIRN_E_EXISTS, "there is a tablespace \"%s\" already", name);
    return FIRN_OK;
}

/** Is there a file that is none of ours? It must not be taken for one that was half made. */
static firn_rc check_no_file(struct space_set *set, const struct space *space)
{
    struct io_file *file;
    firn_rc rc = io_file_open(set_system(set, space->class), space->class, space->path,
                              IO_OPEN_READ_ONLY, &file);
    if (rc == FIRN_OK) {
        io_file_close(file);
        return rc_raise(FIRN_E_EXISTS, "there is a file %s already; move it away", space->path);
    }
    return rc == FIRN_E_NOT_FOUND ? FIRN_OK : rc;
}

/**
 * Take back what could not be finished. If that fails too the hold stays: the record must be met
 * after a restart, or nobody would know what the rest of a file is.
 *
 * @param rc  the failure; its sentence stays
 */
static firn_rc undo_create(struct space_set *set, struct mtr *mtr, struct space *space, uint32_t id,
                           firn_rc rc)
{
    struct redo_hold hold;
    char text[SENTENCE_BYTES];
    snprintf(text, sizeof text, "%s", firn_error_text());
    if (remove_file(set, space) == FIRN_OK && note_drop(set, mtr, id, &hold) == FIRN_OK) {
        redo_release(set->redo, &hold);
        redo_release(set->redo, &space->hold);
        set_discard(set, space);
    } else {
        space->next_unused = set->stuck;
        set->stuck = space;
    }
    return rc_raise(rc, "%s", text);
}

static firn_rc create_locked(struct space_set *set, struct mtr *mtr, enum io_class class,
                             const char *name, uint32_t *id)
{
    struct space *space;
    struct io_file *file;
    uint32_t pages;
    uint64_t end_lsn;
    FIRN_TRY(check_new(set, class, name));
    FIRN_TRY(set_new(set, class, name, &space));
    firn_rc rc;
    FIRN_TRY_GOTO(check_no_file(set, space), discard);
    FIRN_TRY_GOTO(note_create(set, mtr, space, id, &end_lsn), discard);
    rc = create_file(set, space, *id, end_lsn, &file, &pages);
    if (rc != FIRN_OK)
        return undo_create(set, mtr, space, *id, rc);
    set_add(set, space, *id, file, pages);
    redo_release(set->redo, &space->hold);
    return FIRN_OK;
discard:
    set_discard(set, space);
    return rc;
}

firn_rc space_create(struct space_set *set, struct mtr *mtr, enum io_class class, const char *name,
                     uint32_t *space)
{
    uint32_t id = 0;
    lock_take(&set->mutex);
    firn_rc rc = create_locked(set, mtr, class, name, &id);
    lock_give(&set->mutex);
    if (rc == FIRN_OK)
        *space = id;
    return rc;
}

/* ---- Dropping ---- */

firn_rc create_drop_file(struct space_set *set, struct space *space)
{
    struct io_file *file = space_file(space);
    uint32_t id = space_id(space);
    /* First without dirty pages, so that the cleaner asks for the file no more; then nobody finds
     * it; then without the pages that somebody had begun to read in between. */
    INJECT("space-drop-begins");
    buffer_discard(set->pool, id, 0);
    set_remove(set, space);
    buffer_discard(set->pool, id, 0);
    firn_rc closed = io_file_close(file);
    firn_rc rc = remove_file(set, space);
    return rc != FIRN_OK ? rc : closed;
}

static firn_rc drop_locked(struct space_set *set, struct mtr *mtr, uint32_t id)
{
    struct space *space;
    if (id == SPACE_SYSTEM)
        return rc_raise(FIRN_E_MISUSE, "the system tablespace cannot be dropped");
    FIRN_TRY(lookup_require(set, id, &space));
    FIRN_TRY(note_drop(set, mtr, id, &space->hold));
    firn_rc rc = create_drop_file(set, space);
    redo_release(set->redo, &space->hold);
    set_discard(set, space);
    return rc;
}

firn_rc space_drop(struct space_set *set, struct mtr *mtr, uint32_t space)
{
    lock_take(&set->mutex);
    firn_rc rc = drop_locked(set, mtr, space);
    lock_give(&set->mutex);
    return rc;
}
