#include "engine/store_internal.h"

#include "base/check.h"
#include "base/memory.h"

#include <string.h>

/* ---- Systems ---- */

firn_rc store_open_systems(struct store *store)
{
    const struct store_options *options = &store->options;
    io_lift_file_limit(); /* each tablespace keeps its file open */
    for (unsigned class = 0; class < IO_CLASS_COUNT; class ++) {
        store->systems[class] = options->class_systems[class];
        if (store->systems[class] == NULL && store->own_system == NULL)
            FIRN_TRY(io_system_open(options->io_backend, clock_real(), &store->own_system));
        if (store->systems[class] == NULL)
            store->systems[class] = store->own_system;
    }
    return FIRN_OK;
}

/* ---- Directories ---- */

static firn_rc raise_memory(void)
{
    return rc_raise(FIRN_E_NOMEM, "no memory to open an environment");
}

char *store_file_path(const struct store *store, const char *name)
{
    char *path = env_path(store->directories[0].path, name);
    if (path == NULL)
        raise_memory();
    return path;
}

/* A name that is there already may have been made by a process that died before it was durable. */
firn_rc store_make_directory(struct io_system *system, const char *path, bool *made)
{
    firn_rc rc = io_make_directory(system, path);
    *made = rc == FIRN_OK;
    if (rc != FIRN_OK && rc != FIRN_E_EXISTS)
        return rc;
    char *parent = env_parent_path(path);
    if (parent == NULL)
        return raise_memory();
    rc = io_sync_directory(system, parent);
    memory_free(parent);
    return rc == FIRN_E_PERMISSION && !*made ? FIRN_OK : rc;
}

firn_rc store_lock_directory(struct store *store, bool create)
{
    struct store_directory *home = &store->directories[0];
    home->system = store->systems[IO_CLASS_SYSTEM];
    home->path = env_normal_path(store->options.directory);
    if (home->path == NULL)
        return raise_memory();
    store->directory_count = 1;
    if (create)
        FIRN_TRY(store_make_directory(home->system, home->path, &home->made));
    firn_rc rc = io_lock_directory(home->system, home->path, &home->lock);
    if (rc == FIRN_E_NOT_FOUND && !create)
        return rc_raise(rc, "there is no environment in %s: there is no such directory",
                        home->path);
    return rc;
}

static unsigned find_directory(const struct store *store, const char *path)
{
    unsigned i = 0;
    while (i < store->directory_count && strcmp(store->directories[i].path, path) != 0)
        i++;
    return i;
}

firn_rc store_place_classes(struct store *store)
{
    for (unsigned class = 0; class < IO_CLASS_COUNT; class ++) {
        const char *own = store->env.class_directories[class];
        unsigned place = 0;
        if (own != NULL) {
            char *path = env_path(store->directories[0].path, own);
            char *normal = path == NULL ? NULL : env_normal_path(path);
            memory_free(path);
            if (normal == NULL)
                return raise_memory();
            place = find_directory(store, normal);
            if (place == store->directory_count)
                store->directories[store->directory_count++] =
                    (struct store_directory){.path = normal, .system = store->systems[class]};
            else
                memory_free(normal);
        }
        store->class_directory[class] = place;
        store->directories[place].classes |= 1U << class;
    }
    return FIRN_OK;
}

firn_rc store_lock_places(struct store *store)
{
    for (unsigned i = 1; i < store->directory_count; i++) {
        struct store_directory *directory = &store->directories[i];
        FIRN_TRY(
            place_check(directory->system, directory->path, store->env.id, directory->classes));
        FIRN_TRY(io_lock_directory(directory->system, directory->path, &directory->lock));
    }
    return FIRN_OK;
}

void store_close_files(struct store *store)
{
    for (unsigned i = store->directory_count; i-- > 0;) {
        io_unlock_directory(store->directories[i].lock);
        memory_free(store->directories[i].path);
    }
    store->directory_count = 0;
    env_free(&store->env);
    io_system_close(store->own_system);
    store->own_system = NULL;
}
