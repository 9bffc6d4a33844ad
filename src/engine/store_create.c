/*
 * Making an environment, so that a crash at any step leaves either nothing of it, or firn.env.new,
 * from which the next creation knows what to remove, or the whole environment.
 */
#include "engine/store_internal.h"

#include "base/check.h"
#include "base/memory.h"
#include "base/rng.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

enum { ERROR_TEXT_BYTES = 512 };

/* ---- What lies in a directory ---- */

/* Of an environment's files, whoever names them: "firn.env", "firn_...", "NAME.firn", "binlog.".
 */
bool store_is_engine_file(const char *name)
{
    static const char suffix[] = ".firn";
    size_t length = strlen(name);
    if (strcmp(name, "firn.lock") == 0)
        return false;
    return strncmp(name, "firn.", 5) == 0 || strncmp(name, "firn_", 5) == 0 ||
           strncmp(name, "binlog.", 7) == 0 || strncmp(name, "binlog_group.", 13) == 0 ||
           (length >= sizeof(suffix) && strcmp(name + length - (sizeof(suffix) - 1), suffix) == 0);
}

/* Names are collected first: a listing does not like its directory to change. */
struct name_list {
    char **names;
    size_t count;
    size_t capacity;
};

static void name_list_free(struct name_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        memory_free(list->names[i]);
    memory_free(list->names);
}

static firn_rc collect_name(const char *name, void *context)
{
    struct name_list *list = context;
    if (!store_is_engine_file(name))
        return FIRN_OK;
    if (list->count == list->capacity) {
        size_t capacity = list->capacity == 0 ? 16 : 2 * list->capacity;
        char **names = memory_realloc(list->names, capacity * sizeof(*names));
        if (names == NULL)
            return rc_raise(FIRN_E_NOMEM, "no memory to list a directory");
        list->names = names;
        list->capacity = capacity;
    }
    char *copy = memory_copy_text(name);
    if (copy == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory to list a directory");
    list->names[list->count++] = copy;
    return FIRN_OK;
}

static firn_rc list_engine_files(const struct store_directory *directory, struct name_list *list)
{
    return io_list(directory->system, directory->path, collect_name, list);
}

static firn_rc raise_occupied(const struct store_directory *directory, const char *name)
{
    return rc_raise(
        FIRN_E_EXISTS,
        "%s has a file %s but belongs to no environment that can be opened: put " ENV_FILE
        " back if you have lost it, or use an empty directory",
        directory->path, name);
}

/* A new environment overwrites nothing that may be the rest of another one. */
static firn_rc check_empty(const struct store_directory *directory)
{
    struct name_list list = {0};
    firn_rc rc = list_engine_files(directory, &list);
    if (rc == FIRN_OK && list.count != 0)
        rc = raise_occupied(directory, list.names[0]);
    name_list_free(&list);
    return rc;
}

/* ---- Removing what a creation made ---- */

static firn_rc remove_file(const struct store_directory *directory, const char *name)
{
    char *path = env_path(directory->path, name);
    if (path == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory to remove %s", name);
    firn_rc rc = io_remove(directory->system, path);
    memory_free(path);
    return rc == FIRN_E_NOT_FOUND ? FIRN_OK : rc;
}

/* All of an environment's files but the one that says so, which goes when they are durably gone. */
static firn_rc remove_files(const struct store_directory *directory, const char *last)
{
    struct name_list list = {0};
    firn_rc rc = list_engine_files(directory, &list);
    for (size_t i = 0; i < list.count && rc == FIRN_OK; i++)
        if (strcmp(list.names[i], last) != 0)
            rc = remove_file(directory, list.names[i]);
    name_list_free(&list);
    FIRN_TRY(rc);
    FIRN_TRY(io_sync_directory(directory->system, directory->path));
    FIRN_TRY(remove_file(directory, last));
    return io_sync_directory(directory->system, directory->path);
}

/* A class's directory is cleared only if its firn.place proves that the files are this
   environment's: none was made before it. */
static firn_rc remove_class_files(const struct store *store,
                                  const struct store_directory *directory)
{
    firn_rc rc = place_check(directory->system, directory->path, store->env.id, directory->classes);
    if (rc == FIRN_OK)
        return remove_files(directory, PLACE_FILE);
    if (rc != FIRN_E_NOT_FOUND && rc != FIRN_E_INVALID)
        return rc;
    rc = remove_file(directory, PLACE_FILE ".new");
    return rc == FIRN_E_NOT_FOUND ? FIRN_OK : rc;
}

/* Everything that store->env, as read from or written to firn.env.new, may have led to. */
static firn_rc remove_all(struct store *store)
{
    for (unsigned i = store->directory_count; i-- > 1;)
        FIRN_TRY(remove_class_files(store, &store->directories[i]));
    return remove_files(&store->directories[0], ENV_FILE_NEW);
}

static void forget_places(struct store *store)
{
    while (store->directory_count > 1) {
        struct store_directory *directory = &store->directories[--store->directory_count];
        io_unlock_directory(directory->lock);
        if (directory->made)
            (void)io_remove_directory(directory->system, directory->path);
        memory_free(directory->path);
        *directory = (struct store_directory){0};
    }
    store->directories[0].classes = 0;
    env_free(&store->env);
}

void store_create_undo(struct store *store)
{
    struct store_directory *home = &store->directories[0];
    (void)remove_all(store);
    forget_places(store);
    if (home->made) {
        io_unlock_directory(home->lock);
        home->lock = NULL;
        (void)io_remove_directory(home->system, home->path);
    }
}

/* What a creation that was cut short left is removed. A firn.env.new that is not whole was not
   durable yet, so that nothing else was made. */
static firn_rc remove_remains(struct store *store)
{
    char *path = store_file_path(store, ENV_FILE_NEW);
    if (path == NULL)
        return FIRN_E_NOMEM;
    firn_rc rc = env_read(store->directories[0].system, path, &store->env);
    memory_free(path);
    if (rc == FIRN_E_CORRUPT)
        rc = remove_file(&store->directories[0], ENV_FILE_NEW);
    else if (rc == FIRN_OK && (rc = store_place_classes(store)) == FIRN_OK)
        rc = remove_all(store);
    forget_places(store);
    return rc == FIRN_E_NOT_FOUND ? FIRN_OK : rc;
}

/* ---- Making ---- */

static firn_rc choose_id(struct store *store)
{
    uint8_t *id = store->env.id;
    struct rng rng;
    if (store->options.environment_seed == 0) {
        if (getrandom(id, sizeof(store->env.id), 0) != (ssize_t)sizeof(store->env.id))
            return rc_raise_errno(errno, "cannot draw an environment's identity");
        return FIRN_OK;
    }
    rng_init(&rng, store->options.environment_seed);
    put_u64(id, rng_next(&rng));
    put_u64(id + 8, rng_next(&rng));
    return FIRN_OK;
}

static firn_rc fill_directories(struct store *store)
{
    for (unsigned class = 0; class < IO_CLASS_COUNT; class ++) {
        const char *own = store->options.class_directories[class];
        if (own == NULL)
            continue;
        store->env.class_directories[class] = env_normal_path(own);
        if (store->env.class_directories[class] == NULL)
            return rc_raise(FIRN_E_NOMEM, "no memory to make an environment");
    }
    return FIRN_OK;
}

static firn_rc write_env_new(struct store *store)
{
    const struct store_directory *home = &store->directories[0];
    char *path = store_file_path(store, ENV_FILE_NEW);
    if (path == NULL)
        return FIRN_E_NOMEM;
    firn_rc rc = env_write(home->system, path, &store->env);
    memory_free(path);
    return rc == FIRN_OK ? io_sync_directory(home->system, home->path) : rc;
}

/* Written beside and renamed, so that what is there is whole. */
static firn_rc write_place(const struct store *store, const struct store_directory *directory)
{
    firn_rc rc = FIRN_OK;
    char *beside = env_path(directory->path, PLACE_FILE ".new");
    char *path = env_path(directory->path, PLACE_FILE);
    if (beside == NULL || path == NULL)
        rc = rc_raise(FIRN_E_NOMEM, "no memory to make an environment");
    if (rc == FIRN_OK)
        rc = place_write(directory->system, beside, store->env.id, directory->classes);
    if (rc == FIRN_OK)
        rc = io_rename(directory->system, beside, path);
    if (rc == FIRN_OK)
        rc = io_sync_directory(directory->system, directory->path);
    memory_free(beside);
    memory_free(path);
    return rc;
}

static firn_rc make_place(struct store *store, struct store_directory *directory)
{
    FIRN_TRY(store_make_directory(directory->system, directory->path, &directory->made));
    FIRN_TRY(io_lock_directory(directory->system, directory->path, &directory->lock));
    FIRN_TRY(check_empty(directory));
    return write_place(store, directory);
}

static firn_rc make_log(struct store *store)
{
    struct redo_options options;
    store_redo_options(store, &options);
    return redo_create(&options, REDO_FIRST_LSN);
}

/* All but the log; store->env has all but the directories. */
static firn_rc make_places(struct store *store)
{
    FIRN_TRY(fill_directories(store));
    FIRN_TRY(write_env_new(store));
    FIRN_TRY(store_place_classes(store));
    for (unsigned i = 1; i < store->directory_count; i++)
        FIRN_TRY(make_place(store, &store->directories[i]));
    return FIRN_OK;
}

static firn_rc make_all(struct store *store)
{
    uint32_t page_size_bytes = store->options.page_size_bytes;
    store->env.page_size_bytes = page_size_bytes != 0 ? page_size_bytes : PAGE_SIZE_DEFAULT;
    FIRN_TRY(choose_id(store));
    FIRN_TRY(make_places(store));
    return make_log(store);
}

/* @return rc, everything that was made removed if it is a failure; what removing meets does not
   hide it */
static firn_rc undo_failed(struct store *store, firn_rc rc)
{
    char text[ERROR_TEXT_BYTES];
    if (rc == FIRN_OK)
        return rc;
    snprintf(text, sizeof(text), "%s", firn_error_text());
    store_create_undo(store);
    return rc_raise(rc, "%s", text);
}

firn_rc store_create_begin(struct store *store)
{
    FIRN_TRY(remove_remains(store));
    FIRN_TRY(check_empty(&store->directories[0]));
    return undo_failed(store, make_all(store));
}

firn_rc store_create_again(struct store *store, const uint8_t id[16], uint32_t page_size_bytes)
{
    FIRN_TRY(remove_remains(store));
    FIRN_TRY(check_empty(&store->directories[0]));
    memcpy(store->env.id, id, sizeof(store->env.id));
    store->env.page_size_bytes = page_size_bytes;
    return undo_failed(store, make_places(store));
}

firn_rc store_create_finish(struct store *store)
{
    const struct store_directory *home = &store->directories[0];
    firn_rc rc = FIRN_OK;
    char *from = store_file_path(store, ENV_FILE_NEW);
    char *to = store_file_path(store, ENV_FILE);
    if (from == NULL || to == NULL)
        rc = FIRN_E_NOMEM;
    if (rc == FIRN_OK)
        rc = io_rename(home->system, from, to);
    if (rc == FIRN_OK)
        rc = io_sync_directory(home->system, home->path);
    memory_free(from);
    memory_free(to);
    return rc;
}
