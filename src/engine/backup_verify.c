#include "engine/backup_internal.h"

#include "base/check.h"
#include "base/checksum.h"
#include "base/memory.h"

#include <stdio.h>

/** Who reads all of a backup, and tells what is wrong with it. */
struct verification {
    const struct backup_options *options;
    struct backup_manifest *manifest;
    finding_report *report;
    pthread_mutex_t mutex; /* protects report and: */
    uint64_t damages;
};

/* Tell what the thread's error text says. */
static void tell_failure(struct verification *verification, const char *path, uint64_t offset)
{
    struct finding where = {
        .severity = FINDING_DAMAGE, .file = path, .page = FINDING_NOWHERE, .offset = offset};
    pthread_mutex_lock(&verification->mutex);
    verification->damages++;
    finding_tell(verification->report, verification->options->progress_context, where, "%s",
                 firn_error_text());
    pthread_mutex_unlock(&verification->mutex);
}

/* ---- Files ---- */

static firn_rc judge_size(const struct backup_file *file)
{
    struct io_file *opened;
    uint64_t size_bytes = 0;
    firn_rc rc =
        io_file_open(file->from_system, file->class, file->from_path, IO_OPEN_READ_ONLY, &opened);
    if (rc == FIRN_E_NOT_FOUND)
        return rc_raise(FIRN_E_CORRUPT, "%s is missing: use another backup", file->from_path);
    FIRN_TRY(rc);
    rc = io_file_size(opened, &size_bytes);
    firn_rc close_rc = io_file_close(opened);
    FIRN_TRY(rc);
    if (size_bytes != file->size_bytes)
        return rc_raise(FIRN_E_CORRUPT,
                        "%s has %llu bytes, but should have %llu: it was cut off or grown; use "
                        "another backup",
                        file->from_path, (unsigned long long)size_bytes,
                        (unsigned long long)file->size_bytes);
    return close_rc;
}

static firn_rc judge_sizes(struct verification *verification)
{
    struct backup_manifest *manifest = verification->manifest;
    for (size_t i = 0; i < manifest->file_count; i++) {
        struct backup_file *file = &manifest->files[i];
        firn_rc rc = judge_size(file);
        if (rc == FIRN_E_NOMEM)
            return rc;
        file->is_gone = rc != FIRN_OK;
        if (rc != FIRN_OK)
            tell_failure(verification, file->from_path, FINDING_NOWHERE);
    }
    return FIRN_OK;
}

/* ---- Chunks ---- */

static firn_rc judge_chunk(const struct verification *verification, const struct backup_file *file,
                           uint64_t offset, uint32_t size_bytes, uint8_t *buffer)
{
    uint64_t chunk = file->first_chunk + offset / BACKUP_CHUNK_BYTES;
    FIRN_TRY(io_read(file->from, buffer, size_bytes, offset));
    if (checksum_crc32c(buffer, size_bytes) == verification->manifest->sums[chunk])
        return FIRN_OK;
    return rc_raise(FIRN_E_CORRUPT,
                    "%s is damaged between its offsets %llu and %llu: the checksum does not fit; "
                    "use another backup",
                    file->from_path, (unsigned long long)offset,
                    (unsigned long long)offset + size_bytes);
}

static firn_rc verify_chunk(struct backup_file *file, uint64_t offset, uint32_t size_bytes,
                            uint8_t *buffer, void *context)
{
    struct verification *verification = context;
    if (judge_chunk(verification, file, offset, size_bytes, buffer) != FIRN_OK)
        tell_failure(verification, file->from_path, offset);
    return FIRN_OK;
}

/* A file that cannot be opened is told; the others are looked at all the same. */
static firn_rc leave_out(struct backup_file *file, firn_rc rc, void *context)
{
    if (rc == FIRN_E_NOMEM)
        return rc;
    tell_failure(context, file->from_path, FINDING_NOWHERE);
    return FIRN_OK;
}

/* ---- All ---- */

static firn_rc set_paths(const struct backup_options *options, struct io_system *system,
                         struct backup_manifest *manifest)
{
    for (size_t i = 0; i < manifest->file_count; i++) {
        struct backup_file *file = &manifest->files[i];
        file->from_system = system;
        file->from_path = backup_file_path(options->directory, file);
        if (file->from_path == NULL)
            return FIRN_E_NOMEM;
    }
    return FIRN_OK;
}

static firn_rc verify(struct verification *verification)
{
    struct backup_manifest *manifest = verification->manifest;
    struct backup_work work = {
        .options = verification->options,
        .phase = "verifying",
        .files = manifest->files,
        .file_count = manifest->file_count,
        .chunk = verify_chunk,
        .failed = leave_out,
        .context = verification,
    };
    FIRN_TRY(judge_sizes(verification));
    FIRN_TRY(backup_work_run(&work));
    if (verification->damages == 0)
        return FIRN_OK;
    return rc_raise(FIRN_E_CORRUPT, "the backup in %s has %llu damage%s",
                    verification->options->directory, (unsigned long long)verification->damages,
                    verification->damages == 1 ? "" : "s");
}

firn_rc backup_verify_files(const struct backup_options *options, struct io_system *system,
                            struct backup_manifest *manifest, finding_report *report)
{
    struct verification verification = {.options = options, .manifest = manifest, .report = report};
    FIRN_TRY(set_paths(options, system, manifest));
    pthread_mutex_init(&verification.mutex, NULL);
    firn_rc rc = verify(&verification);
    pthread_mutex_destroy(&verification.mutex);
    return rc;
}

firn_rc backup_open_system(const struct backup_options *options, struct io_system **system,
                           struct io_system **own)
{
    *own = NULL;
    *system = options->system;
    if (options->directory == NULL || options->directory[0] == '\0')
        return rc_raise(FIRN_E_INVALID, "no directory of a backup is given");
    if (*system != NULL)
        return FIRN_OK;
    FIRN_TRY(io_system_open(options->io_backend, clock_real(), own));
    *system = *own;
    return FIRN_OK;
}

/* What firn.backup and firn.sums themselves lack is a damage like any other. */
static firn_rc read_manifest(const struct backup_options *options, struct io_system *system,
                             finding_report *report, struct backup_manifest *manifest)
{
    firn_rc rc = backup_manifest_read(system, options->directory, manifest);
    if (rc != FIRN_E_CORRUPT)
        return rc;
    struct finding where = {
        .severity = FINDING_DAMAGE, .page = FINDING_NOWHERE, .offset = FINDING_NOWHERE};
    finding_tell(report, options->progress_context, where, "%s", firn_error_text());
    return rc_raise(rc, "the backup in %s has 1 damage", options->directory);
}

firn_rc backup_verify(const struct backup_options *options, finding_report *report,
                      struct backup_info *info)
{
    struct io_system *system;
    struct io_system *own;
    struct backup_manifest manifest = {0};
    FIRN_TRY(backup_open_system(options, &system, &own));
    firn_rc rc = read_manifest(options, system, report, &manifest);
    if (rc == FIRN_OK) {
        backup_manifest_info(&manifest, info);
        rc = backup_verify_files(options, system, &manifest, report);
    }
    backup_manifest_free(&manifest);
    io_system_close(own);
    return rc;
}
