/*
 * firn.backup is a label (label_internal.h); firn.sums has the checksums, which are too many for
 * text. FORMAT.md has both.
 */
#include "engine/backup_internal.h"

#include "base/check.h"
#include "base/checksum.h"
#include "base/memory.h"
#include "engine/label_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUMS_VERSION = 1, SUMS_HEADER_BYTES = 16, SUM_BYTES = 4, LINE_BYTES = 512 };

static const uint8_t sums_magic[8] = "FIRNSUMS";

/* ---- In memory ---- */

static firn_rc raise_memory(void)
{
    return rc_raise(FIRN_E_NOMEM, "no memory to list what a backup has");
}

static void free_file(struct backup_file *file)
{
    memory_free(file->name);
    memory_free(file->from_path);
    memory_free(file->to_path);
    *file = (struct backup_file){0};
}

void backup_manifest_truncate(struct backup_manifest *manifest, size_t file_count)
{
    while (manifest->file_count > file_count)
        free_file(&manifest->files[--manifest->file_count]);
}

void backup_manifest_free(struct backup_manifest *manifest)
{
    backup_manifest_truncate(manifest, 0);
    memory_free(manifest->files);
    memory_free(manifest->sums);
    *manifest = (struct backup_manifest){0};
}

firn_rc backup_manifest_add(struct backup_manifest *manifest, const char *name,
                            struct backup_file **file)
{
    if (manifest->file_count == manifest->file_capacity) {
        size_t capacity = manifest->file_capacity == 0 ? 16 : 2 * manifest->file_capacity;
        struct backup_file *files = memory_realloc(manifest->files, capacity * sizeof(*files));
        if (files == NULL)
            return raise_memory();
        manifest->files = files;
        manifest->file_capacity = capacity;
    }
    char *copy = name == NULL ? NULL : memory_copy_text(name);
    if (name != NULL && copy == NULL)
        return raise_memory();
    struct backup_file *added = &manifest->files[manifest->file_count++];
    *added = (struct backup_file){.name = copy};
    *file = added;
    return FIRN_OK;
}

firn_rc backup_manifest_reserve(struct backup_manifest *manifest, uint64_t sum_count)
{
    if (sum_count <= manifest->sum_capacity)
        return FIRN_OK;
    uint32_t *sums = memory_realloc(manifest->sums, sum_count * sizeof(*sums));
    if (sums == NULL)
        return raise_memory();
    manifest->sums = sums;
    manifest->sum_capacity = sum_count;
    return FIRN_OK;
}

char *backup_space_path(const char *directory, const char *name)
{
    char file[SPACE_NAME_MAX + 8];
    snprintf(file, sizeof(file), "%s.firn", name);
    char *path = env_path(directory, file);
    if (path == NULL)
        (void)raise_memory();
    return path;
}

char *backup_file_path(const char *directory, const struct backup_file *file)
{
    if (file->name != NULL)
        return backup_space_path(directory, file->name);
    char *path = env_path(directory, BACKUP_LOG_FILE);
    if (path == NULL)
        (void)raise_memory();
    return path;
}

uint32_t backup_file_checksum(const struct backup_manifest *manifest,
                              const struct backup_file *file)
{
    uint32_t checksum = 0;
    for (uint64_t i = 0; i < backup_chunks(file->size_bytes); i++) {
        uint8_t bytes[SUM_BYTES];
        put_u32(bytes, manifest->sums[file->first_chunk + i]);
        checksum = checksum_crc32c_extend(checksum, bytes, sizeof(bytes));
    }
    return checksum;
}

void backup_manifest_info(const struct backup_manifest *manifest, struct backup_info *info)
{
    *info = (struct backup_info){.checkpoint_lsn = manifest->start.lsn,
                                 .end_lsn = manifest->end_lsn,
                                 .page_size_bytes = manifest->page_size_bytes};
    memcpy(info->begun, manifest->begun, sizeof(info->begun));
    memcpy(info->ended, manifest->ended, sizeof(info->ended));
    for (size_t i = 0; i < manifest->file_count; i++) {
        const struct backup_file *file = &manifest->files[i];
        info->files += file->name != NULL;
        *(file->name != NULL ? &info->bytes : &info->log_bytes) += file->size_bytes;
    }
}

/* ---- Writing ---- */

static firn_rc write_sums(const struct backup_manifest *manifest, struct io_system *system,
                          const char *path, uint32_t *checksum)
{
    struct io_file *file;
    size_t size = SUMS_HEADER_BYTES + manifest->sum_count * SUM_BYTES;
    uint8_t *bytes = memory_zalloc(1, size);
    if (bytes == NULL)
        return raise_memory();
    memcpy(bytes, sums_magic, sizeof(sums_magic));
    put_u32(bytes + sizeof(sums_magic), SUMS_VERSION);
    for (uint64_t i = 0; i < manifest->sum_count; i++)
        put_u32(bytes + SUMS_HEADER_BYTES + i * SUM_BYTES, manifest->sums[i]);
    *checksum = checksum_crc32c(bytes, size);
    firn_rc rc = io_file_open(system, IO_CLASS_SYSTEM, path, IO_OPEN_CREATE, &file);
    if (rc == FIRN_OK) {
        rc = io_write(file, bytes, size, 0);
        if (rc == FIRN_OK)
            rc = io_sync(file, IO_SYNC_ALL);
        firn_rc close_rc = io_file_close(file);
        rc = rc != FIRN_OK ? rc : close_rc;
    }
    memory_free(bytes);
    return rc;
}

static void add_number(struct label *label, const char *key, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof(text), "%" PRIu64, value);
    label_add(label, key, text);
}

static void add_file(struct label *label, const struct backup_manifest *manifest,
                     const struct backup_file *file)
{
    char text[LINE_BYTES];
    uint32_t checksum = backup_file_checksum(manifest, file);
    if (file->name == NULL)
        snprintf(text, sizeof(text), "%" PRIu64 " %08" PRIx32, file->size_bytes, checksum);
    else
        snprintf(text, sizeof(text), "%s %" PRIu32 " %" PRIu64 " %08" PRIx32 " %s",
                 io_class_name(file->class), file->space, file->size_bytes, checksum, file->name);
    label_add(label, file->name == NULL ? "log" : "tablespace", text);
}

static void fill_label(struct label *label, const struct backup_manifest *manifest,
                       const struct store *store, uint32_t sums_checksum)
{
    char id[ENV_ID_TEXT_BYTES];
    char sums[LINE_BYTES];
    env_format_id(manifest->id, id);
    snprintf(sums, sizeof(sums), "%" PRIu64 " %08" PRIx32,
             SUMS_HEADER_BYTES + manifest->sum_count * SUM_BYTES, sums_checksum);
    label_begin(label, "backup");
    label_add(label, "id", id);
    add_number(label, "page_size", manifest->page_size_bytes);
    label_add(label, "program", firn_version());
    label_add(label, "directory", store->directories[0].path);
    label_add(label, "begun", manifest->begun);
    label_add(label, "ended", manifest->ended);
    add_number(label, "checkpoint_lsn", manifest->start.lsn);
    add_number(label, "epoch", manifest->start.epoch);
    add_number(label, "in_flight", manifest->start.in_flight_bytes);
    add_number(label, "end_lsn", manifest->end_lsn);
    add_number(label, "log_file_size", manifest->log_file_size_bytes);
    add_number(label, "log_files", manifest->log_files);
    label_add(label, "checksums", sums);
    for (size_t i = 0; i < manifest->file_count; i++)
        add_file(label, manifest, &manifest->files[i]);
}

static firn_rc write_label(struct label *label, struct io_system *system, const char *directory,
                           const char *name)
{
    char *path = env_path(directory, name);
    firn_rc rc = path == NULL ? raise_memory() : label_write(label, system, path);
    memory_free(path);
    return rc == FIRN_OK ? io_sync_directory(system, directory) : rc;
}

static firn_rc put_into_place(struct io_system *system, const char *directory)
{
    char *from = env_path(directory, BACKUP_FILE_NEW);
    char *to = env_path(directory, BACKUP_FILE);
    firn_rc rc = from == NULL || to == NULL ? raise_memory() : io_rename(system, from, to);
    memory_free(from);
    memory_free(to);
    return rc == FIRN_OK ? io_sync_directory(system, directory) : rc;
}

firn_rc backup_manifest_begin(struct io_system *system, const char *directory)
{
    struct label label;
    label_begin(&label, "backup");
    label_add(&label, "unfinished", "yes");
    firn_rc rc = write_label(&label, system, directory, BACKUP_FILE_NEW);
    label_free(&label);
    return rc;
}

firn_rc backup_manifest_write(struct backup_manifest *manifest, const struct store *store,
                              struct io_system *system, const char *directory)
{
    struct label label;
    uint32_t sums_checksum = 0;
    char *path = env_path(directory, BACKUP_SUMS_FILE);
    firn_rc rc = path == NULL ? raise_memory() : write_sums(manifest, system, path, &sums_checksum);
    memory_free(path);
    FIRN_TRY(rc);
    fill_label(&label, manifest, store, sums_checksum);
    rc = write_label(&label, system, directory, BACKUP_FILE_NEW);
    label_free(&label);
    return rc == FIRN_OK ? put_into_place(system, directory) : rc;
}

/* ---- Reading ---- */

/** What firn.backup says of firn.sums, and what it has said so far. */
struct reading {
    struct backup_manifest *manifest;
    const char *path;
    uint64_t sums_bytes;
    uint32_t sums_checksum;
    bool has_id;
    bool has_log;
};

/* A number, and what must stand behind it. The text is moved on. */
static bool take_number(const char **text, int base, char behind, uint64_t max, uint64_t *value)
{
    char *end = NULL;
    if (**text < '0' || (base == 10 && **text > '9'))
        return false;
    *value = strtoull(*text, &end, base);
    if (*end != behind || *value > max)
        return false;
    *text = end + (behind != '\0');
    return true;
}

static bool take_word(const char **text, const char *word)
{
    size_t length = strlen(word);
    if (strncmp(*text, word, length) != 0 || (*text)[length] != ' ')
        return false;
    *text += length + 1;
    return true;
}

static bool take_class(const char **text, enum io_class *class)
{
    unsigned number = 0;
    while (number < IO_CLASS_COUNT && !take_word(text, io_class_name((enum io_class)number)))
        number++;
    *class = (enum io_class)number;
    return number < IO_CLASS_COUNT;
}

static bool take_checksum(const char **text, char behind, uint32_t *checksum)
{
    uint64_t value;
    if (strspn(*text, "0123456789abcdef") != 8)
        return false;
    char digits[9];
    memcpy(digits, *text, 8);
    digits[8] = '\0';
    value = strtoull(digits, NULL, 16);
    *text += 8;
    if (**text != behind)
        return false;
    *text += behind != '\0';
    *checksum = (uint32_t)value;
    return true;
}

/* A name that reaches out of its directory is none. */
static bool is_name(const char *text)
{
    char entry[SPACE_NAME_MAX + 8];
    int length = snprintf(entry, sizeof(entry), "%s.firn", text);
    return length > 0 && (size_t)length < sizeof(entry) &&
           space_file_name_bytes(entry) == strlen(text);
}

static firn_rc take_file(struct reading *reading, const char *key, const char *value)
{
    struct backup_manifest *manifest = reading->manifest;
    bool is_log = strcmp(key, "log") == 0;
    uint64_t space = 0;
    uint64_t size;
    uint32_t checksum;
    enum io_class class = IO_CLASS_REDO;
    bool right =
        !reading->has_log &&
        (is_log ||
         (take_class(&value, &class) && take_number(&value, 10, ' ', UINT32_MAX - 1, &space))) &&
        take_number(&value, 10, ' ', INT64_MAX, &size) &&
        take_checksum(&value, is_log ? '\0' : ' ', &checksum) && (is_log || is_name(value));
    if (!right)
        return label_raise_line(reading->path, key);
    struct backup_file *file;
    FIRN_TRY(backup_manifest_add(manifest, is_log ? NULL : value, &file));
    file->space = (uint32_t)space;
    file->class = class;
    file->size_bytes = size;
    file->checksum = checksum;
    file->first_chunk = manifest->sum_count;
    manifest->sum_count += backup_chunks(size);
    reading->has_log = is_log;
    return FIRN_OK;
}

static firn_rc take_sums(struct reading *reading, const char *key, const char *value)
{
    if (take_number(&value, 10, ' ', INT64_MAX, &reading->sums_bytes) &&
        take_checksum(&value, '\0', &reading->sums_checksum))
        return FIRN_OK;
    return label_raise_line(reading->path, key);
}

static firn_rc take_numbers(struct reading *reading, const char *key, const char *value)
{
    struct backup_manifest *manifest = reading->manifest;
    uint64_t page_size = 0;
    uint64_t log_files = 0;
    const struct {
        const char *key;
        uint64_t *value;
    } numbers[] = {
        {"page_size", &page_size},         {"checkpoint_lsn", &manifest->start.lsn},
        {"epoch", &manifest->start.epoch}, {"in_flight", &manifest->start.in_flight_bytes},
        {"end_lsn", &manifest->end_lsn},   {"log_file_size", &manifest->log_file_size_bytes},
        {"log_files", &log_files},
    };
    size_t i = 0;
    while (i < ARRAY_COUNT(numbers) && strcmp(numbers[i].key, key) != 0)
        i++;
    if (i == ARRAY_COUNT(numbers) || !take_number(&value, 10, '\0', INT64_MAX, numbers[i].value))
        return label_raise_line(reading->path, key);
    if (page_size != 0)
        manifest->page_size_bytes = page_size_is_valid(page_size) ? (uint32_t)page_size : 0;
    if (log_files != 0)
        manifest->log_files = (uint32_t)(log_files < UINT32_MAX ? log_files : UINT32_MAX);
    return FIRN_OK;
}

static bool take_text(char to[24], const char *value)
{
    return snprintf(to, 24, "%s", value) < 24;
}

static firn_rc take_line(struct reading *reading, const char *key, const char *value)
{
    struct backup_manifest *manifest = reading->manifest;
    bool right = true;
    if (strcmp(key, "id") == 0)
        right = reading->has_id = env_parse_id(value, manifest->id);
    else if (strcmp(key, "begun") == 0)
        right = take_text(manifest->begun, value);
    else if (strcmp(key, "ended") == 0)
        right = take_text(manifest->ended, value);
    else if (strcmp(key, "tablespace") == 0 || strcmp(key, "log") == 0)
        return take_file(reading, key, value);
    else if (strcmp(key, "checksums") == 0)
        return take_sums(reading, key, value);
    else if (strcmp(key, "program") != 0 && strcmp(key, "directory") != 0) /* for people */
        return take_numbers(reading, key, value);
    return right ? FIRN_OK : label_raise_line(reading->path, key);
}

/* With a checksum that fits, what is missing was never written: by no program of ours. */
static firn_rc check_complete(const struct reading *reading)
{
    const struct backup_manifest *manifest = reading->manifest;
    const struct redo_copy_start *start = &manifest->start;
    bool is_complete = reading->has_id && reading->has_log && manifest->page_size_bytes != 0 &&
                       start->lsn >= REDO_FIRST_LSN && start->lsn % 8 == 0 &&
                       manifest->end_lsn >= start->lsn && manifest->end_lsn % 8 == 0 &&
                       start->epoch != 0 && manifest->log_files != 0 &&
                       manifest->log_file_size_bytes != 0 &&
                       reading->sums_bytes == SUMS_HEADER_BYTES + manifest->sum_count * SUM_BYTES;
    if (is_complete)
        return FIRN_OK;
    return rc_raise(FIRN_E_CORRUPT,
                    "%s lacks lines, or has some that do not fit together: it was not written by "
                    "firn backup; use another backup",
                    reading->path);
}

static firn_rc read_label(struct io_system *system, struct reading *reading)
{
    struct label label;
    const char *key;
    const char *value;
    firn_rc rc = FIRN_OK;
    FIRN_TRY(label_read(system, reading->path, "backup", &label));
    while (rc == FIRN_OK && label_next(&label, &key, &value))
        rc = take_line(reading, key, value);
    label_free(&label);
    return rc == FIRN_OK ? check_complete(reading) : rc;
}

static firn_rc judge_sums(const struct reading *reading, const char *path, const uint8_t *bytes)
{
    struct backup_manifest *manifest = reading->manifest;
    uint32_t version = get_u32(bytes + sizeof(sums_magic));
    bool is_ours = memcmp(bytes, sums_magic, sizeof(sums_magic)) == 0;
    if (is_ours && version > SUMS_VERSION)
        return rc_raise(FIRN_E_UNSUPPORTED,
                        "%s has version %u of its format and this firn knows versions up to %d: "
                        "use the newer firn that wrote it",
                        path, version, SUMS_VERSION);
    if (!is_ours || checksum_crc32c(bytes, reading->sums_bytes) != reading->sums_checksum)
        return rc_raise(FIRN_E_CORRUPT,
                        "%s is damaged: its checksum does not fit; use another "
                        "backup",
                        path);
    FIRN_TRY(backup_manifest_reserve(manifest, manifest->sum_count));
    for (uint64_t i = 0; i < manifest->sum_count; i++)
        manifest->sums[i] = get_u32(bytes + SUMS_HEADER_BYTES + i * SUM_BYTES);
    for (size_t i = 0; i < manifest->file_count; i++)
        if (backup_file_checksum(manifest, &manifest->files[i]) != manifest->files[i].checksum)
            return rc_raise(FIRN_E_CORRUPT, "%s does not belong to its firn.backup", path);
    return FIRN_OK;
}

static firn_rc read_sums(struct io_system *system, const char *path, const struct reading *reading)
{
    struct io_file *file;
    uint64_t size_bytes = 0;
    uint8_t *bytes = NULL;
    firn_rc rc = io_file_open(system, IO_CLASS_SYSTEM, path, IO_OPEN_READ_ONLY, &file);
    if (rc == FIRN_E_NOT_FOUND)
        return rc_raise(FIRN_E_CORRUPT, "%s is missing: the backup cannot be verified", path);
    FIRN_TRY(rc);
    rc = io_file_size(file, &size_bytes);
    if (rc == FIRN_OK && size_bytes != reading->sums_bytes)
        rc = rc_raise(FIRN_E_CORRUPT,
                      "%s has %" PRIu64 " bytes, but should have %" PRIu64
                      ": it was cut off or grown",
                      path, size_bytes, reading->sums_bytes);
    if (rc == FIRN_OK && (bytes = memory_alloc((size_t)size_bytes)) == NULL)
        rc = raise_memory();
    if (rc == FIRN_OK)
        rc = io_read(file, bytes, (size_t)size_bytes, 0);
    firn_rc close_rc = io_file_close(file);
    if (rc == FIRN_OK && close_rc == FIRN_OK)
        rc = judge_sums(reading, path, bytes);
    memory_free(bytes);
    return rc != FIRN_OK ? rc : close_rc;
}

/* There is no firn.backup: was one begun? */
static firn_rc raise_none(struct io_system *system, const char *directory)
{
    struct io_file *file;
    char *path = env_path(directory, BACKUP_FILE_NEW);
    if (path == NULL)
        return raise_memory();
    bool was_begun =
        io_file_open(system, IO_CLASS_SYSTEM, path, IO_OPEN_READ_ONLY, &file) == FIRN_OK;
    if (was_begun)
        (void)io_file_close(file);
    memory_free(path);
    if (was_begun)
        return rc_raise(FIRN_E_NOT_FOUND,
                        "the backup in %s was not finished, and is of no use: remove it, and use "
                        "or take another one",
                        directory);
    return rc_raise(FIRN_E_NOT_FOUND,
                    "there is no backup in %s: it has no " BACKUP_FILE
                    "; check the directory's name",
                    directory);
}

firn_rc backup_manifest_read(struct io_system *system, const char *directory,
                             struct backup_manifest *manifest)
{
    struct backup_manifest read = {0};
    struct reading reading = {.manifest = &read};
    char *label_path = env_path(directory, BACKUP_FILE);
    char *sums_path = env_path(directory, BACKUP_SUMS_FILE);
    reading.path = label_path;
    firn_rc rc = FIRN_OK;
    if (label_path == NULL || sums_path == NULL)
        rc = raise_memory();
    if (rc == FIRN_OK)
        rc = read_label(system, &reading);
    if (rc == FIRN_E_NOT_FOUND)
        rc = raise_none(system, directory);
    if (rc == FIRN_OK)
        rc = read_sums(system, sums_path, &reading);
    memory_free(label_path);
    memory_free(sums_path);
    if (rc == FIRN_OK)
        *manifest = read;
    else
        backup_manifest_free(&read);
    return rc;
}
