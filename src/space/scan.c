/*
 * Which files there are, and whether they are what they should be.
 */
#include "space/space_internal.h"

#include "base/check.h"
#include "base/memory.h"

#include <stdio.h>

/* ---- One file ---- */

/** Judge an identity by itself. */
static firn_rc judge_state(enum identity_state state, const char *path, uint32_t version)
{
    switch (state) {
    case IDENTITY_GOOD:
        return FIRN_OK;
    case IDENTITY_ABSENT:
        return FIRN_E_NOT_FOUND;
    case IDENTITY_NEWER:
        return rc_raise(FIRN_E_UNSUPPORTED,
                        "%s has format %u, but this program knows formats up to %d; use the "
                        "version of Firn that wrote it, or a later one",
                        path, version, SPACE_FORMAT_VERSION);
    case IDENTITY_FOREIGN:
        return rc_raise(FIRN_E_CORRUPT,
                        "%s is no tablespace (its magic number is wrong); if it belongs elsewhere "
                        "move it away, else restore it from a backup",
                        path);
    case IDENTITY_DAMAGED:
        break;
    }
    return rc_raise(FIRN_E_CORRUPT,
                    "%s is damaged where its first page says which tablespace it is (the checksum "
                    "does not fit); restore it from a backup",
                    path);
}

/** Judge whether a tablespace is this environment's, under its own name. */
static firn_rc judge_place(const struct space_options *options, const char *path, const char *name,
                           const struct space_identity *identity)
{
    if (memcmp(identity->environment, options->environment, sizeof identity->environment) != 0)
        return rc_raise(FIRN_E_CORRUPT,
                        "%s is a tablespace of another environment; move it back to where it came "
                        "from",
                        path);
    if (identity->page_size_bytes != options->page_size_bytes)
        return rc_raise(FIRN_E_CORRUPT,
                        "%s has pages of %u bytes, but this environment has pages of %u", path,
                        identity->page_size_bytes, options->page_size_bytes);
    if (strcmp(identity->name, name) != 0)
        return rc_raise(FIRN_E_CORRUPT,
                        "%s was made as %s" SPACE_FILE_SUFFIX
                        ": it was renamed, or swapped with another file; give it its name back",
                        path, identity->name);
    return FIRN_OK;
}

firn_rc scan_identify(const struct space_options *options, struct io_file *file, const char *name,
                      struct space_identity *identity, uint8_t **page0)
{
    uint64_t size_bytes;
    uint32_t page_size = options->page_size_bytes;
    uint32_t version = 0;
    const char *path = io_file_path(file);
    FIRN_TRY(io_file_size(file, &size_bytes));
    if (size_bytes < PAGE_SIZE_MIN)
        return FIRN_E_NOT_FOUND;
    uint8_t *page = memory_alloc_aligned(page_size, PAGE_SIZE_MAX);
    if (page == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for the first page of %s", path);
    firn_rc rc;
    FIRN_TRY_GOTO(io_read(file, page, PAGE_SIZE_MIN, 0), fail);
    enum identity_state state = identity_get(page, identity, &version);
    FIRN_TRY_GOTO(judge_state(state, path, version), fail);
    FIRN_TRY_GOTO(judge_place(options, path, name, identity), fail);
    if (size_bytes < page_size) {
        rc = rc_raise(FIRN_E_CORRUPT, "%s was cut off: it ends within its first page; restore it",
                      path);
        goto fail;
    }
    FIRN_TRY_GOTO(io_read(file, page, page_size, 0), fail);
    *page0 = page;
    return FIRN_OK;
fail:
    memory_free(page);
    return rc;
}

/* ---- All files ---- */

struct scan {
    struct space_set *set;
    bool lenient;
    enum io_class class; /* one of those whose directory it is */
};

/** Do files of two classes lie in one directory? */
static bool is_same_place(const struct space_set *set, enum io_class left, enum io_class right)
{
    const struct space_place *a = &set->options.places[left];
    const struct space_place *b = &set->options.places[right];
    return a->directory != NULL && b->directory != NULL && a->system == b->system &&
           strcmp(a->directory, b->directory) == 0;
}

static firn_rc note_unfinished(struct space_set *set, const char *path)
{
    struct unfinished *unfinished = memory_alloc(sizeof *unfinished + strlen(path) + 1);
    if (unfinished == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for the name of %s", path);
    memcpy(unfinished->path, path, strlen(path) + 1);
    unfinished->next = set->unfinished;
    set->unfinished = unfinished;
    return FIRN_OK;
}

firn_rc scan_raise_unfinished(const char *path)
{
    return rc_raise(
        FIRN_E_CORRUPT,
        "%s has no first page, so it is no tablespace, or one that was cut off; move it "
        "away, or restore it from a backup",
        path);
}

/** What the whole first page tells, if it is whole. */
static firn_rc judge_page0(const struct scan *scan, struct space *space, uint32_t id,
                           const uint8_t *page0)
{
    enum page_state state =
        page_verify(page0, scan->set->options.page_size_bytes, page_id_of(id, 0), UINT64_MAX);
    if (state == PAGE_GOOD) {
        space->scanned_pages = head_get(page0).pages;
        space->scanned_lsn = page_lsn(page0);
    } else if (!scan->lenient) {
        return rc_raise(FIRN_E_CORRUPT, "page 0 of %s %s; restore it from a backup", space->path,
                        page_state_text(state));
    }
    return FIRN_OK;
}

static firn_rc check_id_is_new(struct space_set *set, const char *path, uint32_t id)
{
    struct space *other = lookup_find(set, id);
    if (other == NULL)
        return FIRN_OK;
    return rc_raise(FIRN_E_CORRUPT,
                    "%s and %s are both tablespace %u: one is a copy of the other; move it away",
                    other->path, path, id);
}

/** Open a tablespace's file for good and let it be found. */
static firn_rc add_found(const struct scan *scan, const struct space_identity *identity,
                         const uint8_t *page0)
{
    struct space_set *set = scan->set;
    struct space *space;
    struct io_file *file;
    uint64_t size_bytes;
    FIRN_TRY(set_new(set, identity->class, identity->name, &space));
    firn_rc rc;
    FIRN_TRY_GOTO(check_id_is_new(set, space->path, identity->space), discard);
    FIRN_TRY_GOTO(judge_page0(scan, space, identity->space, page0), discard);
    FIRN_TRY_GOTO(set_open_file(set, space->class, space->path, 0, &file), discard);
    rc = io_file_size(file, &size_bytes);
    if (rc != FIRN_OK) {
        io_file_close(file);
        goto discard;
    }
    space->scanned_file_pages = (uint32_t)(size_bytes / set->options.page_size_bytes);
    set_add(set, space, identity->space, file, space->scanned_file_pages);
    return FIRN_OK;
discard:
    set_discard(set, space);
    return rc;
}

static firn_rc scan_file(const struct scan *scan, struct io_file *file, const char *name)
{
    struct space_set *set = scan->set;
    struct space_identity identity;
    uint8_t *page0;
    const char *path = io_file_path(file);
    firn_rc rc = scan_identify(&set->options, file, name, &identity, &page0);
    if (rc == FIRN_E_NOT_FOUND)
        return scan->lenient ? note_unfinished(set, path) : scan_raise_unfinished(path);
    FIRN_TRY(rc);
    if (!is_same_place(set, scan->class, identity.class))
        rc = rc_raise(FIRN_E_CORRUPT,
                      "%s is a tablespace of class %s, whose files lie elsewhere; move it there",
                      path, io_class_name(identity.class));
    else
        rc = add_found(scan, &identity, page0);
    memory_free(page0);
    return rc;
}

size_t space_file_name_bytes(const char *entry)
{
    size_t suffix_size = sizeof SPACE_FILE_SUFFIX - 1;
    size_t size = strlen(entry);
    bool is_named = size > suffix_size &&
                    strcmp(entry + size - suffix_size, SPACE_FILE_SUFFIX) == 0 &&
                    name_is_valid(entry, size - suffix_size);
    return is_named ? size - suffix_size : 0;
}

/** Called for each entry of a directory. */
static firn_rc scan_entry(const char *entry, void *context)
{
    const struct scan *scan = context;
    char name[SPACE_NAME_MAX + 1];
    size_t size = space_file_name_bytes(entry);
    if (size == 0)
        return FIRN_OK;
    snprintf(name, sizeof name, "%.*s", (int)size, entry);
    char *path = set_path(scan->set, scan->class, name);
    if (path == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for the name of %s", entry);
    struct io_file *file;
    firn_rc rc = set_open_file(scan->set, scan->class, path, IO_OPEN_READ_ONLY, &file);
    memory_free(path);
    FIRN_TRY(rc);
    rc = scan_file(scan, file, name);
    firn_rc closed = io_file_close(file);
    return rc != FIRN_OK ? rc : closed;
}

firn_rc space_scan(struct space_set *set, bool lenient)
{
    firn_rc rc = FIRN_OK;
    lock_take(&set->mutex);
    for (unsigned class = 0; rc == FIRN_OK && class < IO_CLASS_COUNT; class ++) {
        struct scan scan = {.set = set, .lenient = lenient, .class = (enum io_class) class};
        bool seen = set->options.places[class].directory == NULL;
        for (unsigned other = 0; !seen && other < class; other++)
            seen = is_same_place(set, scan.class, (enum io_class)other);
        if (!seen)
            rc = io_list(set_system(set, scan.class), set->options.places[class].directory,
                         scan_entry, &scan);
    }
    lock_give(&set->mutex);
    return rc;
}
