/*
 * Restoring is making an environment (store_create.c) of what is there already: firn.env.new first,
 * firn.env last, and a crash in between leaves what the next restore removes.
 */
#include "engine/backup_internal.h"

#include "base/checksum.h"
#include "base/memory.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { ERROR_TEXT_BYTES = 1024 };

struct restoration {
    const struct backup_options *options; /* of the backup */
    struct store_options target;
    struct io_system *system;
    struct io_system *own_system;
    struct backup_manifest manifest;
    struct store *store; /* being made; no more of it is open than its directories */
    struct io_file *log;
    struct backup_sums log_sums;
    char first_damage[ERROR_TEXT_BYTES];
};

/* ---- The backup ---- */

/* The report has the context of progress, which is somebody else's: so they are handed on. */
struct told {
    const struct backup_options *options;
    char *first;
};

static void keep_first(const struct finding *finding, void *context)
{
    struct told *told = context;
    if (told->first[0] == '\0')
        snprintf(told->first, ERROR_TEXT_BYTES, "%s", finding->text);
}

static void hand_on(const struct recovery_progress *progress, void *context)
{
    const struct told *told = context;
    if (told->options->progress != NULL)
        told->options->progress(progress, told->options->progress_context);
}

static firn_rc verify(struct restoration *restoration)
{
    struct told told = {restoration->options, restoration->first_damage};
    struct backup_options options = *restoration->options;
    options.progress = hand_on;
    options.progress_context = &told;
    firn_rc rc =
        backup_verify_files(&options, restoration->system, &restoration->manifest, keep_first);
    if (rc == FIRN_E_CORRUPT)
        return rc_raise(rc, "%s; nothing was restored", restoration->first_damage);
    return rc;
}

/* ---- The target ---- */

/* What lies in the target's directory. */
struct entries {
    const struct store *store;
    bool has_remains; /* of a restore that was cut short: it may have left anything of its own */
    char strange[NAME_MAX + 1]; /* the first name that nothing of ours has; "": none */
};

/* A directory that a class is to have, or one on the way there: an earlier try may have made it. */
static bool is_place(const struct store *store, const char *name)
{
    bool found = false;
    const char *home = store->directories[0].path;
    char *entry = env_path(home, name);
    for (unsigned class = 0; class < IO_CLASS_COUNT && entry != NULL; class ++) {
        const char *own = store->options.class_directories[class];
        char *path = own == NULL ? NULL : env_path(home, own);
        char *normal = path == NULL ? NULL : env_normal_path(path);
        size_t length = strlen(entry);
        found |= normal != NULL && strncmp(normal, entry, length) == 0 &&
                 (normal[length] == '/' || normal[length] == '\0');
        memory_free(normal);
        memory_free(path);
    }
    memory_free(entry);
    return found;
}

static firn_rc judge_entry(const char *name, void *context)
{
    struct entries *entries = context;
    if (strcmp(name, ENV_FILE) == 0)
        return rc_raise(FIRN_E_EXISTS,
                        "there is an environment in %s: restore into another directory, or move "
                        "this one away",
                        entries->store->directories[0].path);
    entries->has_remains |= strcmp(name, ENV_FILE_NEW) == 0;
    bool is_ours = strcmp(name, "firn.lock") == 0 || strcmp(name, "lost+found") == 0 ||
                   store_is_engine_file(name) || /* judged when the environment is begun */
                   is_place(entries->store, name);
    if (!is_ours && entries->strange[0] == '\0')
        snprintf(entries->strange, sizeof(entries->strange), "%s", name);
    return FIRN_OK;
}

static firn_rc check_is_empty(const struct store *store)
{
    const struct store_directory *home = &store->directories[0];
    struct entries entries = {.store = store};
    FIRN_TRY(io_list(home->system, home->path, judge_entry, &entries));
    if (entries.strange[0] == '\0' || entries.has_remains)
        return FIRN_OK;
    return rc_raise(FIRN_E_EXISTS,
                    "%s is not empty (it has %s): restore into a directory of its own", home->path,
                    entries.strange);
}

static firn_rc begin_target(struct restoration *restoration)
{
    struct backup_manifest *manifest = &restoration->manifest;
    struct store_options *target = &restoration->target;
    if (target->log_file_size_bytes == 0)
        target->log_file_size_bytes = manifest->log_file_size_bytes;
    if (target->log_files == 0)
        target->log_files = manifest->log_files;
    target->page_size_bytes = manifest->page_size_bytes;
    target->create = false;
    target->read_only = false;
    FIRN_TRY(store_begin(target, true, &restoration->store));
    FIRN_TRY(check_is_empty(restoration->store));
    return store_create_again(restoration->store, manifest->id, manifest->page_size_bytes);
}

/* ---- Tablespaces ---- */

static firn_rc copy_chunk(struct backup_file *file, uint64_t offset, uint32_t size_bytes,
                          uint8_t *buffer, void *context)
{
    struct restoration *restoration = context;
    uint64_t chunk = file->first_chunk + offset / BACKUP_CHUNK_BYTES;
    FIRN_TRY(io_read(file->from, buffer, size_bytes, offset));
    if (checksum_crc32c(buffer, size_bytes) != restoration->manifest.sums[chunk])
        return rc_raise(FIRN_E_CORRUPT,
                        "%s was read whole when it was verified, and is damaged now at offset "
                        "%llu: check the device that it lies on",
                        file->from_path, (unsigned long long)offset);
    return io_write(file->to, buffer, size_bytes, offset);
}

static firn_rc forgive_nothing(struct backup_file *file, firn_rc rc, void *context)
{
    (void)file;
    (void)context;
    return rc;
}

static firn_rc copy_tablespaces(struct restoration *restoration)
{
    struct backup_manifest *manifest = &restoration->manifest;
    struct backup_work work = {
        .options = restoration->options,
        .phase = "restoring",
        .files = manifest->files,
        .file_count = manifest->file_count - 1, /* the log is the last one */
        .chunk = copy_chunk,
        .failed = forgive_nothing,
        .context = restoration,
    };
    for (size_t i = 0; i < work.file_count; i++) {
        struct backup_file *file = &manifest->files[i];
        file->chunks_done = 0;
        file->to_system = restoration->store->systems[file->class];
        file->to_path =
            backup_space_path(store_class_directory(restoration->store, file->class), file->name);
        if (file->to_path == NULL)
            return FIRN_E_NOMEM;
    }
    return backup_work_run(&work);
}

/* ---- The log ---- */

static firn_rc judge_sum(uint64_t chunk, uint32_t checksum, void *context)
{
    const struct restoration *restoration = context;
    const struct backup_manifest *manifest = &restoration->manifest;
    const struct backup_file *log = &manifest->files[manifest->file_count - 1];
    if (manifest->sums[log->first_chunk + chunk] == checksum)
        return FIRN_OK;
    return rc_raise(FIRN_E_CORRUPT,
                    "%s was read whole when it was verified, and is damaged now: check the device "
                    "that it lies on",
                    log->from_path);
}

static firn_rc read_log(uint64_t lsn, uint8_t *to, uint64_t size_bytes, void *context)
{
    struct restoration *restoration = context;
    struct backup_sums *sums = &restoration->log_sums;
    FIRN_TRY(backup_check_stop(restoration->options));
    (void)lsn; /* in order, from the copy's first byte on */
    FIRN_TRY(io_read(restoration->log, to, size_bytes, sums->size_bytes));
    return backup_sums_add(sums, to, size_bytes, judge_sum, restoration);
}

static firn_rc restore_log(struct restoration *restoration)
{
    struct backup_manifest *manifest = &restoration->manifest;
    const struct backup_file *log = &manifest->files[manifest->file_count - 1];
    struct redo_options options;
    store_redo_options(restoration->store, &options);
    FIRN_TRY(io_file_open(restoration->system, IO_CLASS_REDO, log->from_path, IO_OPEN_READ_ONLY,
                          &restoration->log));
    firn_rc rc =
        redo_create_from(&options, &manifest->start, manifest->end_lsn, read_log, restoration);
    if (rc == FIRN_OK)
        rc = backup_sums_end(&restoration->log_sums, judge_sum, restoration);
    firn_rc close_rc = io_file_close(restoration->log);
    return rc != FIRN_OK ? rc : close_rc;
}

/* ---- All ---- */

static firn_rc sync_directories(const struct store *store)
{
    for (unsigned i = 0; i < store->directory_count; i++)
        FIRN_TRY(io_sync_directory(store->directories[i].system, store->directories[i].path));
    return FIRN_OK;
}

static firn_rc fill_target(struct restoration *restoration)
{
    FIRN_TRY(copy_tablespaces(restoration));
    FIRN_TRY(restore_log(restoration));
    FIRN_TRY(sync_directories(restoration->store));
    FIRN_TRY(backup_check_stop(restoration->options));
    return store_create_finish(restoration->store);
}

/* Run what cleans up after a failure; its own failures must not hide the first. */
static firn_rc undo(struct restoration *restoration, firn_rc rc)
{
    char text[ERROR_TEXT_BYTES];
    snprintf(text, sizeof(text), "%s", firn_error_text());
    store_create_undo(restoration->store);
    return rc_raise(rc, "%s", text);
}

static firn_rc make_environment(struct restoration *restoration)
{
    firn_rc rc = begin_target(restoration);
    if (rc == FIRN_OK) {
        rc = fill_target(restoration);
        if (rc != FIRN_OK)
            rc = undo(restoration, rc);
    }
    if (restoration->store != NULL)
        store_end(restoration->store);
    restoration->store = NULL;
    return rc;
}

/* Recovery is any opening's. It gives the log the size again that it had. */
static firn_rc recover(const struct restoration *restoration, struct recovery_result *result)
{
    struct store *store;
    FIRN_TRY(store_open(&restoration->target, &store, result));
    return store_close(store);
}

static firn_rc restore(struct restoration *restoration, struct backup_info *info,
                       struct recovery_result *result)
{
    struct backup_info found;
    struct recovery_result recovered;
    FIRN_TRY(backup_manifest_read(restoration->system, restoration->options->directory,
                                  &restoration->manifest));
    backup_manifest_info(&restoration->manifest, &found);
    FIRN_TRY(verify(restoration));
    FIRN_TRY(make_environment(restoration));
    FIRN_TRY(recover(restoration, &recovered));
    *info = found;
    *result = recovered;
    return FIRN_OK;
}

firn_rc store_restore(const struct backup_options *options, const struct store_options *store,
                      struct backup_info *info, struct recovery_result *result)
{
    struct restoration restoration = {.options = options, .target = *store};
    FIRN_TRY(backup_open_system(options, &restoration.system, &restoration.own_system));
    firn_rc rc = restore(&restoration, info, result);
    backup_manifest_free(&restoration.manifest);
    io_system_close(restoration.own_system);
    return rc;
}
