/*
 * The check of files as they lie there: which there are, what each says that it is, and what the
 * log holds. Nothing is changed, and what is damaged keeps nothing else from being looked at.
 */
#include "engine/files_check_internal.h"

#include "base/check.h"
#include "base/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_BYTES = 2048, ARRAY_MIN = 16 };

#define RESTORE "restore it from a backup"

/* ---- Telling ---- */

void files_tell(struct files_check *check, enum finding_severity severity, const char *path,
                uint64_t page, uint64_t offset, const char *format, ...)
{
    char text[TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    struct finding finding = {severity, path, page, offset, text};
    pthread_mutex_lock(&check->mutex);
    check->result->findings[severity]++;
    check->report(&finding, check->context);
    pthread_mutex_unlock(&check->mutex);
}

/* What the parts below find. */
static void take_finding(const struct finding *finding, void *context)
{
    struct files_check *check = context;
    if (!check->is_mute)
        files_tell(check, finding->severity, finding->file, finding->page, finding->offset, "%s",
                   finding->text);
}

/* About a whole file. */
static void tell_file(struct files_check *check, enum finding_severity severity, const char *path,
                      const char *text)
{
    struct finding finding = {severity, path, FINDING_NOWHERE, FINDING_NOWHERE, text};
    take_finding(&finding, check);
}

firn_rc files_tell_failure(struct files_check *check, const char *path, firn_rc rc)
{
    bool is_unseen = rc == FIRN_E_PERMISSION || rc == FIRN_E_BUSY || rc == FIRN_E_IO;
    if (rc == FIRN_E_NOMEM)
        return rc;
    tell_file(check, is_unseen ? FINDING_UNSEEN : FINDING_DAMAGE, path, firn_error_text());
    return FIRN_OK;
}

firn_rc files_grow(void *array, size_t count, size_t *capacity, size_t size_bytes)
{
    void *old;
    if (count < *capacity)
        return FIRN_OK;
    size_t wanted = *capacity == 0 ? ARRAY_MIN : 2 * *capacity;
    memcpy(&old, array, sizeof(old));
    void *grown = memory_realloc(old, wanted * size_bytes);
    if (grown == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for the check");
    memcpy(array, &grown, sizeof(grown));
    *capacity = wanted;
    return FIRN_OK;
}

/* ---- Labels and directories ---- */

struct guess {
    struct files_check *check;
    bool has_engine_files;
    bool is_known;
};

/* Each tablespace says of which environment it is. */
static firn_rc guess_entry(const char *name, void *context)
{
    struct guess *guess = context;
    struct store *store = guess->check->store;
    guess->has_engine_files |= store_is_engine_file(name);
    if (guess->is_known || space_file_name_bytes(name) == 0)
        return FIRN_OK;
    char *path = store_file_path(store, name);
    if (path == NULL)
        return FIRN_E_NOMEM;
    guess->is_known = space_file_guess(store->directories[0].system, path, store->env.id,
                                       &store->env.page_size_bytes) == FIRN_OK;
    memory_free(path);
    return FIRN_OK;
}

/* Without firn.env nothing says where the other directories are: only DIR is looked at. */
static firn_rc guess_environment(struct files_check *check, const char *path, firn_rc rc)
{
    struct store *store = check->store;
    struct store_directory *home = &store->directories[0];
    struct guess guess = {.check = check};
    char text[TEXT_BYTES];
    snprintf(text, sizeof(text), "%s", firn_error_text());
    FIRN_TRY(io_list(home->system, home->path, guess_entry, &guess));
    if (rc == FIRN_E_NOT_FOUND && !guess.has_engine_files)
        return rc_raise(
            rc, "there is no environment in %s: it has no " ENV_FILE "; check the directory's name",
            home->path);
    if (rc == FIRN_E_NOT_FOUND)
        snprintf(text, sizeof(text), "%s is missing, without which nothing opens; " RESTORE, path);
    (void)rc_raise(rc, "%s", text);
    FIRN_TRY(files_tell_failure(check, path, rc == FIRN_E_NOT_FOUND ? FIRN_E_CORRUPT : rc));
    if (!guess.is_known)
        return rc_raise(FIRN_E_CORRUPT,
                        "%s; nothing in %s says what the pages are like: no other "
                        "file was looked at",
                        text, home->path);
    tell_file(check, FINDING_UNSEEN, path,
              "directories other than this one, if there are any, are not known and not looked at");
    return FIRN_OK;
}

static firn_rc read_environment(struct files_check *check)
{
    struct store *store = check->store;
    char *path = store_file_path(store, ENV_FILE);
    if (path == NULL)
        return FIRN_E_NOMEM;
    firn_rc rc = env_read(store->directories[0].system, path, &store->env);
    if (rc == FIRN_OK)
        check->result->files++;
    else if (rc != FIRN_E_NOMEM)
        rc = guess_environment(check, path, rc);
    memory_free(path);
    return rc;
}

static firn_rc look_at_places(struct files_check *check)
{
    struct store *store = check->store;
    FIRN_TRY(store_place_classes(store));
    for (unsigned i = 1; i < store->directory_count; i++) {
        struct store_directory *directory = &store->directories[i];
        firn_rc rc =
            place_check(directory->system, directory->path, store->env.id, directory->classes);
        if (rc != FIRN_OK)
            FIRN_TRY(files_tell_failure(check, directory->path, rc));
        if (rc == FIRN_OK)
            FIRN_TRY(io_lock_directory(directory->system, directory->path, &directory->lock));
    }
    return FIRN_OK;
}

/* ---- What lies in the directories ---- */

enum {
    SPACE_CLASSES = 1U << IO_CLASS_TABLE | 1U << IO_CLASS_UNDO | 1U << IO_CLASS_SYSTEM |
                    1U << IO_CLASS_TEMPORARY,
};

struct listing {
    struct files_check *check;
    unsigned directory;
    bool has_doublewrite;
};

static bool begins_with(const char *name, const char *prefix)
{
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

/* Is it a file that other parts look at, or that need not be? */
static bool is_expected(const struct listing *listing, const char *name)
{
    const struct files_check *check = listing->check;
    unsigned classes = check->store->directories[listing->directory].classes;
    if (strcmp(name, "firn.lock") == 0)
        return true;
    if (listing->directory == 0 ? strcmp(name, ENV_FILE) == 0 || begins_with(name, STORE_WARM_FILE)
                                : strcmp(name, PLACE_FILE) == 0)
        return true;
    return (classes & 1U << IO_CLASS_REDO && begins_with(name, "firn_redo.")) ||
           (classes & 1U << IO_CLASS_DOUBLEWRITE && begins_with(name, "firn_doublewrite"));
}

static bool is_directory_of_ours(const struct store *store, const char *path)
{
    size_t length = strlen(path);
    for (unsigned i = 0; i < store->directory_count; i++) {
        const char *own = store->directories[i].path;
        if (strncmp(own, path, length) == 0 && (own[length] == '\0' || own[length] == '/'))
            return true;
    }
    return false;
}

static firn_rc add_space(struct files_check *check, const char *entry, size_t name_bytes,
                         char *path, unsigned directory)
{
    FIRN_TRY(files_grow(&check->spaces, check->space_count, &check->space_capacity,
                        sizeof(*check->spaces)));
    char *name = memory_copy_text(entry);
    char *copy = memory_copy_text(path);
    if (name == NULL || copy == NULL) {
        memory_free(name);
        memory_free(copy);
        return rc_raise(FIRN_E_NOMEM, "no memory for the check");
    }
    name[name_bytes] = '\0';
    check->spaces[check->space_count++] =
        (struct files_space){.path = copy, .name = name, .directory = directory};
    return FIRN_OK;
}

static void tell_stray(struct files_check *check, const char *entry, const char *path)
{
    char text[TEXT_BYTES];
    bool looks_like_ours = store_is_engine_file(entry);
    snprintf(text, sizeof(text),
             looks_like_ours ? "%s has the name of a file of an environment, but this one has none "
                               "of that name there: move it to where it belongs"
                             : "%s is no file of the environment: it is left alone",
             path);
    tell_file(check, looks_like_ours ? FINDING_WARNING : FINDING_NOTE, path, text);
}

static firn_rc look_at_entry(const char *entry, void *context)
{
    struct listing *listing = context;
    struct files_check *check = listing->check;
    const struct store_directory *directory = &check->store->directories[listing->directory];
    size_t name_bytes = space_file_name_bytes(entry);
    firn_rc rc = FIRN_OK;
    if (directory->classes & 1U << IO_CLASS_DOUBLEWRITE && strcmp(entry, "firn_doublewrite") == 0)
        listing->has_doublewrite = true;
    if (is_expected(listing, entry))
        return FIRN_OK;
    char *path = env_path(directory->path, entry);
    if (path == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for the check");
    if (name_bytes != 0 && directory->classes & SPACE_CLASSES)
        rc = add_space(check, entry, name_bytes, path, listing->directory);
    else if (!is_directory_of_ours(check->store, path))
        tell_stray(check, entry, path);
    memory_free(path);
    return rc;
}

static firn_rc look_at_directories(struct files_check *check, bool *has_doublewrite)
{
    struct listing listing = {.check = check};
    const struct store *store = check->store;
    for (unsigned i = 0; i < store->directory_count; i++) {
        const struct store_directory *directory = &store->directories[i];
        listing.directory = i;
        firn_rc rc = io_list(directory->system, directory->path, look_at_entry, &listing);
        /* One that is missing has been told as a place. */
        if (rc != FIRN_OK && (i == 0 || rc != FIRN_E_NOT_FOUND))
            FIRN_TRY(files_tell_failure(check, directory->path, rc));
    }
    *has_doublewrite = listing.has_doublewrite;
    return FIRN_OK;
}

/* ---- Tablespaces ---- */

struct space_file files_space_file(const struct files_check *check, const struct files_space *space)
{
    const struct store *store = check->store;
    struct space_file file = {
        .system = store->directories[space->directory].system,
        .class = IO_CLASS_TABLE,
        .path = space->path,
        .name = space->name,
        .page_size_bytes = store->env.page_size_bytes,
        .direct = store->options.direct,
    };
    memcpy(file.environment, store->env.id, sizeof(file.environment));
    return file;
}

/* A file that had not grown durably when the power went is made longer by recovery; where page 0
   is older than the checkpoint it had that size. Without a checkpoint that is not known. */
static void judge_size(struct files_check *check, const struct files_space *space)
{
    const struct space_file_info *info = &space->info;
    char text[TEXT_BYTES];
    bool is_known = check->log.checkpoint_lsn != 0;
    if (is_known && !check->result->is_clean && info->lsn > check->log.checkpoint_lsn)
        return;
    snprintf(text, sizeof(text),
             is_known ? "%s was cut off: it has %u pages, and had %u; " RESTORE
                      : "%s has %u pages and says that it has %u: it was cut off, or recovery has "
                        "to make it longer; without the log that cannot be told",
             space->path, info->file_pages, info->head_pages);
    tell_file(check, is_known ? FINDING_DAMAGE : FINDING_WARNING, space->path, text);
}

static void judge_space(struct files_check *check, struct files_space *space)
{
    const struct space_file_info *info = &space->info;
    char text[TEXT_BYTES] = "";
    bool is_clean = check->result->is_clean;
    if (check->store->class_directory[info->class] != space->directory)
        snprintf(text, sizeof(text),
                 "%s is a tablespace of class %s, whose files lie elsewhere; move it there",
                 space->path, io_class_name(info->class));
    for (const struct files_space *other = check->spaces; other < space; other++)
        if (other->is_good && other->info.space == info->space)
            snprintf(text, sizeof(text),
                     "%s and %s are both tablespace %u: one is a copy of the other; move it away",
                     other->path, space->path, info->space);
    space->is_good = text[0] == '\0';
    if (text[0] != '\0')
        tell_file(check, FINDING_DAMAGE, space->path, text);
    if (info->head_pages > info->file_pages && space->is_good)
        judge_size(check, space);
    if (info->head_pages == 0 && is_clean && space->is_good && !check->is_mute)
        files_tell(check, FINDING_DAMAGE, space->path, 0, 0,
                   "page 0 of %s is torn or damaged (its checksum does not fit); " RESTORE,
                   space->path);
}

static firn_rc look_at_space(struct files_check *check, struct files_space *space)
{
    struct space_file file = files_space_file(check, space);
    firn_rc rc = space_file_identify(&file, &space->info);
    if (rc == FIRN_OK) {
        check->result->files++;
        judge_space(check, space);
        return FIRN_OK;
    }
    /* A file that recovery makes anew, or has still to make, need not be one yet. */
    return rc == FIRN_E_NOT_FOUND && files_is_made(check, space->name)
               ? FIRN_OK
               : files_tell_failure(check, space->path, rc);
}

static firn_rc look_at_spaces(struct files_check *check)
{
    bool has_system = files_is_made(check, STORE_SYSTEM_SPACE);
    for (size_t i = 0; i < check->space_count; i++) {
        FIRN_TRY(look_at_space(check, &check->spaces[i]));
        has_system |= strcmp(check->spaces[i].name, STORE_SYSTEM_SPACE) == 0;
    }
    if (has_system)
        return FIRN_OK;
    char *path =
        env_path(store_class_directory(check->store, IO_CLASS_SYSTEM), STORE_SYSTEM_SPACE ".firn");
    if (path == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for the check");
    (void)rc_raise(FIRN_E_CORRUPT,
                   "%s is missing: put it back, or restore the environment from a "
                   "backup",
                   path);
    firn_rc rc = files_tell_failure(check, path, FIRN_E_CORRUPT);
    memory_free(path);
    return rc;
}

/* ---- The whole ---- */

static firn_rc look_at_log(struct files_check *check)
{
    struct redo_options options;
    store_redo_options(check->store, &options);
    FIRN_TRY(redo_check(&options, take_finding, files_mend_frame, check, &check->log));
    FIRN_TRY(check->rc);
    check->result->files += check->log.files;
    check->result->bytes += check->log.bytes;
    check->result->is_clean = check->log.is_whole && check->log.frames == 0;
    return FIRN_OK;
}

static firn_rc look(struct files_check *check, unsigned parts)
{
    struct store *store = check->store;
    bool has_doublewrite = false;
    check->is_mute = !(parts & STORE_FILES_HEADS);
    FIRN_TRY(store_open_systems(store));
    FIRN_TRY(store_lock_directory(store, false));
    FIRN_TRY(read_environment(check));
    FIRN_TRY(look_at_places(check));
    FIRN_TRY(look_at_log(check));
    FIRN_TRY(look_at_directories(check, &has_doublewrite));
    FIRN_TRY(look_at_spaces(check));
    /* A log that cannot be repeated mends nothing. */
    FIRN_TRY(files_mend(check, parts & STORE_FILES_PAGES && check->log.is_whole &&
                                   !check->result->is_clean));
    if (!has_doublewrite && !check->result->is_clean)
        tell_file(check, FINDING_WARNING, store_class_directory(store, IO_CLASS_DOUBLEWRITE),
                  "there is no doublewrite file: pages that were torn when the environment was "
                  "last in use, if there are any, cannot be mended");
    check->is_mute = false;
    return parts & STORE_FILES_PAGES ? files_check_pages(check) : FIRN_OK;
}

static void free_check(struct files_check *check)
{
    for (size_t i = 0; i < check->space_count; i++) {
        memory_free(check->spaces[i].path);
        memory_free(check->spaces[i].name);
        memory_free(check->spaces[i].in_use);
    }
    memory_free(check->spaces);
    files_mend_free(&check->mended);
    store_close_files(check->store);
    memory_free(check->store);
    pthread_mutex_destroy(&check->mutex);
}

firn_rc store_check_files(const struct store_options *options, unsigned parts, unsigned threads,
                          finding_report *report, void *context,
                          recovery_progress_function *progress, struct store_files_result *result)
{
    struct store_files_result found = {0};
    struct files_check check = {
        .threads = threads,
        .report = report,
        .progress = progress,
        .context = context,
        .result = &found,
    };
    check.store = memory_zalloc(1, sizeof(*check.store));
    if (check.store == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for the check");
    check.store->options = *options;
    pthread_mutex_init(&check.mutex, NULL);
    firn_rc rc = look(&check, parts);
    free_check(&check);
    *result = found;
    return rc;
}
