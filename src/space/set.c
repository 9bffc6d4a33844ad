#include "space/space_internal.h"

#include "base/check.h"
#include "base/memory.h"

#include <stdio.h>

/* ---- Opening and closing ---- */

static firn_rc copy_places(struct space_set *set, const struct space_options *options)
{
    for (unsigned class = 0; class < IO_CLASS_COUNT; class ++) {
        const char *directory = options->places[class].directory;
        if (directory == NULL)
            continue;
        set->directories[class] = memory_copy_text(directory);
        if (set->directories[class] == NULL)
            return rc_raise(FIRN_E_NOMEM, "no memory for the names of directories");
        set->options.places[class].directory = set->directories[class];
    }
    return FIRN_OK;
}

firn_rc space_set_open(const struct space_options *options, struct space_set **set)
{
    ASSERT(page_size_is_valid(options->page_size_bytes));
    struct space_set *made = memory_zalloc(1, sizeof *made);
    if (made == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for the tablespaces of an environment");
    made->options = *options;
    pthread_mutex_init(&made->mutex, NULL);
    firn_rc rc = copy_places(made, options);
    if (rc != FIRN_OK) {
        space_set_close(made);
        return rc;
    }
    *set = made;
    return FIRN_OK;
}

static void free_space(struct space *space)
{
    pthread_mutex_destroy(&space->resize_mutex);
    memory_free(space->map_hints);
    memory_free(space->path);
    memory_free(space);
}

static void free_list(struct space *space)
{
    while (space != NULL) {
        struct space *next = space->next_unused;
        free_space(space);
        space = next;
    }
}

firn_rc space_set_close(struct space_set *set)
{
    if (set == NULL)
        return FIRN_OK;
    firn_rc rc = FIRN_OK;
    for (unsigned i = 0; i < set->space_count; i++) {
        firn_rc closed = io_file_close(space_file(set->spaces[i]));
        if (rc == FIRN_OK)
            rc = closed;
        free_space(set->spaces[i]);
    }
    free_list(set->unused);
    free_list(set->stuck);
    while (set->unfinished != NULL) {
        struct unfinished *next = set->unfinished->next;
        memory_free(set->unfinished);
        set->unfinished = next;
    }
    lookup_close(set);
    for (unsigned class = 0; class < IO_CLASS_COUNT; class ++)
        memory_free(set->directories[class]);
    memory_free(set->spaces);
    pthread_mutex_destroy(&set->mutex);
    memory_free(set);
    return rc;
}

void space_set_attach(struct space_set *set, struct buffer_pool *pool, struct redo *redo)
{
    set->pool = pool;
    set->redo = redo;
    set->first_lsn = redo_checkpoint_lsn(redo);
}

/* ---- What the pool asks ---- */

static firn_rc locate(void *context, uint64_t page_id, struct io_file **file, uint64_t *offset)
{
    struct space_set *set = context;
    struct space *space;
    uint32_t page_no = page_id_number(page_id);
    FIRN_TRY(lookup_require(set, page_id_space(page_id), &space));
    /* Where the memory serves another tablespace meanwhile, what was read may be of that one: these
     * loads come before that of the id, which then is another one. They pair with set_add. */
    struct io_file *found = atomic_load_explicit(&space->file, memory_order_acquire);
    uint32_t pages = atomic_load_explicit(&space->file_pages, memory_order_acquire);
    if (space_id(space) != page_id_space(page_id))
        return rc_raise(FIRN_E_NOT_FOUND, "there is no tablespace %u", page_id_space(page_id));
    if (page_no >= pages)
        return rc_raise(FIRN_E_NOT_FOUND, "%s ends before page %u: it has %u pages",
                        io_file_path(found), page_no, pages);
    *file = found;
    *offset = (uint64_t)page_no * set->options.page_size_bytes;
    return FIRN_OK;
}

struct buffer_files space_files(struct space_set *set)
{
    return (struct buffer_files){.context = set, .locate = locate};
}

/* ---- The list ---- */

static firn_rc reserve_list(struct space_set *set)
{
    if (set->space_count < set->space_capacity)
        return FIRN_OK;
    unsigned capacity = set->space_capacity == 0 ? 16 : set->space_capacity * 2;
    struct space **spaces = memory_realloc(set->spaces, (size_t)capacity * sizeof(struct space *));
    if (spaces == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for a list of %u tablespaces", capacity);
    set->spaces = spaces;
    set->space_capacity = capacity;
    return FIRN_OK;
}

static struct space *take_unused(struct space_set *set)
{
    struct space *space = set->unused;
    if (space != NULL) {
        set->unused = space->next_unused;
        return space;
    }
    space = memory_zalloc(1, sizeof *space);
    if (space == NULL)
        return NULL;
    atomic_init(&space->id, SPACE_NONE);
    pthread_mutex_init(&space->resize_mutex, NULL);
    return space;
}

firn_rc set_new(struct space_set *set, enum io_class class, const char *name, struct space **space)
{
    FIRN_TRY(reserve_list(set));
    FIRN_TRY(lookup_reserve(set));
    char *path = set_path(set, class, name);
    struct space *made = path == NULL ? NULL : take_unused(set);
    if (made == NULL) {
        memory_free(path);
        return rc_raise(FIRN_E_NOMEM, "no memory for tablespace %s", name);
    }
    made->path = path;
    made->class = class;
    snprintf(made->name, sizeof made->name, "%s", name);
    made->scanned_pages = 0;
    made->scanned_lsn = 0;
    made->scanned_file_pages = 0;
    extent_forget_hints(made);
    *space = made;
    return FIRN_OK;
}

void set_discard(struct space_set *set, struct space *space)
{
    ASSERT(space_id(space) == SPACE_NONE);
    memory_free(space->path);
    space->path = NULL;
    space->next_unused = set->unused;
    set->unused = space;
}

void set_add(struct space_set *set, struct space *space, uint32_t id, struct io_file *file,
             uint32_t file_pages)
{
    ASSERT(set->space_count < set->space_capacity);
    atomic_store_explicit(&space->file, file, memory_order_release);
    atomic_store_explicit(&space->file_pages, file_pages, memory_order_release);
    atomic_store_explicit(&space->claimed_pages, 0, memory_order_relaxed);
    lookup_add(set, space, id);
    unsigned at = set->space_count++;
    for (; at > 0 && space_id(set->spaces[at - 1]) > id; at--)
        set->spaces[at] = set->spaces[at - 1];
    set->spaces[at] = space;
}

void set_remove(struct space_set *set, struct space *space)
{
    unsigned at = 0;
    while (set->spaces[at] != space)
        at++;
    set->space_count--;
    memmove(&set->spaces[at], &set->spaces[at + 1],
            (set->space_count - at) * sizeof(struct space *));
    lookup_remove(set, space);
}

struct space *set_find_name(struct space_set *set, const char *name)
{
    for (unsigned i = 0; i < set->space_count; i++)
        if (strcmp(set->spaces[i]->name, name) == 0)
            return set->spaces[i];
    return NULL;
}

firn_rc space_find(struct space_set *set, const char *name, uint32_t *space)
{
    lock_take(&set->mutex);
    struct space *found = set_find_name(set, name);
    uint32_t id = found != NULL ? space_id(found) : SPACE_NONE;
    lock_give(&set->mutex);
    if (found == NULL)
        return rc_raise(FIRN_E_NOT_FOUND, "there is no tablespace \"%s\"", name);
    *space = id;
    return FIRN_OK;
}

static firn_rc visit_one(struct space_set *set, struct space *space, space_visit *visit,
                         void *context)
{
    struct space_head head;
    FIRN_TRY(head_load(set, space, &head));
    struct space_info info = {
        .space = space_id(space),
        .class = space->class,
        .name = space->name,
        .path = space->path,
        .pages = head.pages,
        .pages_used = head.used,
        .entry_page = head.entry,
    };
    return visit(&info, context);
}

firn_rc space_each(struct space_set *set, space_visit *visit, void *context)
{
    for (unsigned i = 0;; i++) {
        /* Not while it is visited: the visitor may ask the set. */
        lock_take(&set->mutex);
        struct space *space = i < set->space_count ? set->spaces[i] : NULL;
        lock_give(&set->mutex);
        if (space == NULL)
            return FIRN_OK;
        FIRN_TRY(visit_one(set, space, visit, context));
    }
}

firn_rc space_each_file(struct space_set *set, space_file_visit *visit, void *context)
{
    firn_rc rc = FIRN_OK;
    lock_take(&set->mutex);
    for (unsigned i = 0; rc == FIRN_OK && i < set->space_count; i++) {
        struct space *space = set->spaces[i];
        struct space_file_entry entry = {
            .space = space_id(space),
            .class = space->class,
            .name = space->name,
            .path = space->path,
            .pages = atomic_load_explicit(&space->file_pages, memory_order_acquire),
        };
        rc = visit(&entry, context);
    }
    lock_give(&set->mutex);
    return rc;
}

/* ---- Files ---- */

char *set_path(const struct space_set *set, enum io_class class, const char *name)
{
    const char *directory = set->options.places[class].directory;
    size_t size_bytes = strlen(directory) + 1 + strlen(name) + sizeof SPACE_FILE_SUFFIX;
    char *path = memory_alloc(size_bytes);
    if (path != NULL)
        snprintf(path, size_bytes, "%s/%s" SPACE_FILE_SUFFIX, directory, name);
    return path;
}

firn_rc set_open_file(struct space_set *set, enum io_class class, const char *path, unsigned flags,
                      struct io_file **file)
{
    unsigned direct = set->options.direct ? IO_OPEN_DIRECT : 0;
    return io_file_open(set_system(set, class), class, path, flags | direct, file);
}
