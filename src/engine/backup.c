#include "engine/backup_internal.h"

#include "base/memory.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { ERROR_TEXT_BYTES = 1024 };

static firn_rc raise_memory(void)
{
    return rc_raise(FIRN_E_NOMEM, "no memory for a backup");
}

/* A moment as people and programs read it. */
static void note_time(char text[24])
{
    time_t now = time(NULL);
    struct tm utc;
    gmtime_r(&now, &utc);
    strftime(text, 24, "%Y-%m-%dT%H:%M:%SZ", &utc);
}

/* ---- The target ---- */

struct emptiness {
    const char *directory;
    bool is_occupied;
};

static firn_rc judge_entry(const char *name, void *context)
{
    struct emptiness *emptiness = context;
    if (strcmp(name, "firn.lock") == 0 || strcmp(name, "lost+found") == 0)
        return FIRN_OK;
    if (strcmp(name, BACKUP_FILE_NEW) == 0)
        return rc_raise(FIRN_E_EXISTS,
                        "%s has a backup that was not finished: remove it, or name another "
                        "directory",
                        emptiness->directory);
    emptiness->is_occupied = true;
    return FIRN_OK;
}

static firn_rc check_is_empty(struct backup *backup)
{
    struct emptiness emptiness = {.directory = backup->directory};
    FIRN_TRY(io_list(backup->system, backup->directory, judge_entry, &emptiness));
    if (!emptiness.is_occupied)
        return FIRN_OK;
    return rc_raise(FIRN_E_EXISTS, "%s is not empty: a backup needs a directory of its own",
                    backup->directory);
}

static firn_rc open_target(struct backup *backup)
{
    const struct backup_options *options = backup->options;
    if (options->directory == NULL || options->directory[0] == '\0')
        return rc_raise(FIRN_E_INVALID, "no directory is given for the backup");
    backup->system = options->system;
    if (backup->system == NULL) {
        FIRN_TRY(io_system_open(options->io_backend, clock_real(), &backup->own_system));
        backup->system = backup->own_system;
    }
    backup->directory = env_normal_path(options->directory);
    if (backup->directory == NULL)
        return raise_memory();
    FIRN_TRY(store_make_directory(backup->system, backup->directory, &backup->made));
    FIRN_TRY(io_lock_directory(backup->system, backup->directory, &backup->lock));
    FIRN_TRY(check_is_empty(backup));
    backup->begun = true;
    return backup_manifest_begin(backup->system, backup->directory);
}

/* What cannot be removed stays; that it is no backup is seen all the same. firn.backup.new says so
   and goes last. */
static void remove_file(struct backup *backup, const char *name)
{
    char *path = env_path(backup->directory, name);
    if (path != NULL)
        (void)io_remove(backup->system, path);
    memory_free(path);
}

static void undo(struct backup *backup)
{
    if (backup->begun) {
        for (size_t i = 0; i < backup->manifest.file_count; i++)
            if (backup->manifest.files[i].to_path != NULL)
                (void)io_remove(backup->system, backup->manifest.files[i].to_path);
        remove_file(backup, BACKUP_LOG_FILE);
        remove_file(backup, BACKUP_SUMS_FILE);
        remove_file(backup, BACKUP_FILE);
        remove_file(backup, BACKUP_FILE_NEW);
    }
    io_unlock_directory(backup->lock);
    backup->lock = NULL;
    if (backup->made)
        (void)io_remove_directory(backup->system, backup->directory);
}

/* ---- Taking one ---- */

static void describe(struct backup *backup)
{
    const struct store *store = backup->store;
    struct backup_manifest *manifest = &backup->manifest;
    memcpy(manifest->id, store->env.id, sizeof(manifest->id));
    manifest->page_size_bytes = store->env.page_size_bytes;
    manifest->log_file_size_bytes = redo_file_size_bytes(store->redo);
    manifest->log_files = redo_file_count(store->redo);
    note_time(manifest->begun);
}

/* First no file is cut any more, then the checkpoint is read, then files are listed, then pages are
   read; README.md says why. */
static firn_rc copy_held(struct backup *backup)
{
    FIRN_TRY(backup_log_begin(backup));
    return backup_copy_pages(backup);
}

static firn_rc take(struct backup *backup)
{
    struct backup_manifest *manifest = &backup->manifest;
    describe(backup);
    space_hold_sizes(backup->store->spaces);
    firn_rc rc = copy_held(backup);
    space_release_sizes(backup->store->spaces);
    FIRN_TRY(rc);
    FIRN_TRY(backup_log_finish(backup));
    FIRN_TRY(backup_check_stop(backup->options));
    note_time(manifest->ended);
    return backup_manifest_write(manifest, backup->store, backup->system, backup->directory);
}

/* The first failure's sentence is what people hear. */
static firn_rc give_up(struct backup *backup, firn_rc rc)
{
    char text[ERROR_TEXT_BYTES];
    snprintf(text, sizeof(text), "%s", firn_error_text());
    backup_log_close(backup);
    undo(backup);
    return rc_raise(rc, "%s", text);
}

static void close_backup(struct backup *backup)
{
    backup_log_close(backup);
    backup_manifest_free(&backup->manifest);
    io_unlock_directory(backup->lock);
    io_system_close(backup->own_system);
    memory_free(backup->directory);
    pthread_mutex_destroy(&backup->pace_mutex);
    pthread_mutex_destroy(&backup->log.mutex);
}

firn_rc store_backup(struct store *store, const struct backup_options *options,
                     struct backup_info *info)
{
    struct backup backup = {.store = store, .options = options};
    backup.clock = io_system_clock(store->systems[IO_CLASS_SYSTEM]);
    pthread_mutex_init(&backup.log.mutex, NULL);
    pthread_mutex_init(&backup.pace_mutex, NULL);
    firn_rc rc = open_target(&backup);
    if (rc == FIRN_OK)
        rc = take(&backup);
    if (rc == FIRN_OK)
        backup_manifest_info(&backup.manifest, info);
    else
        rc = give_up(&backup, rc);
    close_backup(&backup);
    return rc;
}
