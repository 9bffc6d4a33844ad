#include "base/log.h"
#include "bench/fileio_internal.h"
#include "io/model.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char file_prefix[] = "test_file.";

struct fileio_shape fileio_shape_of(const struct fileio_config *config)
{
    uint64_t block_bytes = config->file_block_size;
    uint64_t file_bytes = config->file_total_size / config->file_num;
    uint64_t blocks = file_bytes / block_bytes;
    return (struct fileio_shape){
        .file_num = config->file_num,
        .file_bytes = file_bytes,
        .prepared_bytes = (file_bytes + block_bytes - 1) / block_bytes * block_bytes,
        .blocks_per_file = blocks,
        .total_blocks = blocks * config->file_num,
        .block_bytes = (uint32_t)block_bytes,
    };
}

/* ---- Storage ---- */

static firn_rc check_directory(const char *directory)
{
    struct stat status;
    if (stat(directory, &status) != 0 && errno == ENOENT)
        return rc_raise(FIRN_E_NOT_FOUND, "there is no directory %s; create it first", directory);
    if (stat(directory, &status) != 0)
        return rc_raise_errno(errno, "cannot use the directory %s", directory);
    if (!S_ISDIR(status.st_mode))
        return rc_raise(FIRN_E_INVALID, "%s is a file, not a directory", directory);
    return FIRN_OK;
}

static firn_rc open_clock(double time_scale, struct clock **clock)
{
    if (time_scale == 0)
        return clock_open_virtual(clock);
    if (time_scale != 1)
        return clock_open_scaled(time_scale, clock);
    *clock = clock_real();
    return FIRN_OK;
}

static firn_rc attach_model(const char *device, struct fileio_storage *storage)
{
    struct model_spec spec;
    FIRN_TRY(model_find(device, &spec));
    FIRN_TRY(model_attach(storage->system, &spec));
    snprintf(storage->model, sizeof(storage->model), "%s", device);
    return FIRN_OK;
}

static firn_rc lock_directory(enum fileio_storage_use use, struct fileio_storage *storage)
{
    firn_rc rc = io_lock_directory(storage->system, storage->directory, &storage->lock);
    if (rc != FIRN_E_PERMISSION || use != FILEIO_STORAGE_READS)
        return rc;
    log_note("%s cannot be written to, so nothing keeps another run out of it meanwhile",
             storage->directory);
    return FIRN_OK;
}

/* A run that never opens a queue need not be warned of backends that are not to be had. */
static enum io_backend choose_backend(const struct fileio_config *config, bool modelled)
{
    bool queues = !modelled || config->file_io_mode == FILEIO_ASYNC;
    if (!queues && config->io_backend != IO_BACKEND_NULL)
        return IO_BACKEND_THREADS;
    return (enum io_backend)config->io_backend;
}

firn_rc fileio_storage_open(const struct fileio_config *config, enum fileio_storage_use use,
                            bool modelled, struct fileio_storage *storage)
{
    firn_rc rc;
    struct fileio_storage made = {.directory = config->directory};
    FIRN_TRY(check_directory(config->directory));
    FIRN_TRY(open_clock(modelled ? config->time_scale : 1, &made.clock));
    FIRN_TRY_GOTO(io_system_open(choose_backend(config, modelled), made.clock, &made.system),
                  failed);
    if (modelled && config->device != NULL)
        FIRN_TRY_GOTO(attach_model(config->device, &made), failed);
    FIRN_TRY_GOTO(lock_directory(use, &made), failed);
    *storage = made;
    return FIRN_OK;
failed:
    fileio_storage_close(&made);
    return rc;
}

void fileio_storage_close(struct fileio_storage *storage)
{
    if (storage->lock != NULL)
        io_unlock_directory(storage->lock);
    io_system_close(storage->system);
    clock_close(storage->clock);
    *storage = (struct fileio_storage){0};
}

/* ---- Names ---- */

firn_rc fileio_path(const struct fileio_storage *storage, uint64_t number, char path[PATH_MAX])
{
    const char *directory = storage->directory;
    bool here = strcmp(directory, ".") == 0;
    int length = snprintf(path, PATH_MAX, "%s%s%s%" PRIu64, here ? "" : directory, here ? "" : "/",
                          file_prefix, number);
    if (length >= PATH_MAX)
        return rc_raise(FIRN_E_INVALID, "the path of a file in %.200s... is longer than %d bytes",
                        directory, PATH_MAX - 1);
    return FIRN_OK;
}

static firn_rc note_name(const char *name, void *context)
{
    uint64_t *count = context;
    size_t prefix_bytes = sizeof(file_prefix) - 1;
    if (strncmp(name, file_prefix, prefix_bytes) != 0)
        return FIRN_OK;
    const char *digits = name + prefix_bytes;
    size_t length = strspn(digits, "0123456789");
    if (length == 0 || length > 18 || digits[length] != '\0')
        return FIRN_OK;
    uint64_t number = strtoull(digits, NULL, 10);
    if (number >= *count)
        *count = number + 1;
    return FIRN_OK;
}

firn_rc fileio_count_files(const struct fileio_storage *storage, uint64_t *count)
{
    uint64_t found = 0;
    FIRN_TRY(io_list(storage->system, storage->directory, note_name, &found));
    *count = found;
    return FIRN_OK;
}

/* ---- Files ---- */

static unsigned extra_open_flags(unsigned extra_flags)
{
    unsigned flags = 0;
    if ((extra_flags & FILEIO_FLAG_SYNC) != 0)
        flags |= IO_OPEN_SYNC;
    if ((extra_flags & FILEIO_FLAG_DSYNC) != 0)
        flags |= IO_OPEN_DSYNC;
    if ((extra_flags & FILEIO_FLAG_DIRECT) != 0)
        flags |= IO_OPEN_DIRECT;
    return flags;
}

firn_rc fileio_open_file(const struct fileio_storage *storage, const struct fileio_config *config,
                         uint64_t number, unsigned flags, struct io_file **file)
{
    char path[PATH_MAX];
    FIRN_TRY(fileio_path(storage, number, path));
    struct io_file *made = NULL;
    FIRN_TRY(io_file_open(storage->system, IO_CLASS_TABLE, path,
                          flags | extra_open_flags(config->extra_flags), &made));
    if (config->file_block_size % io_file_alignment(made) == 0) {
        *file = made;
        return FIRN_OK;
    }
    firn_rc rc = rc_raise(FIRN_E_INVALID,
                          "direct I/O on %s is done in multiples of %u bytes, which "
                          "--file-block-size=%" PRIu64 " is not",
                          path, io_file_alignment(made), config->file_block_size);
    io_file_close(made);
    return rc;
}

/* Creation alone needs no preparation: it makes the files new. */
static firn_rc check_count(const struct fileio_storage *storage, uint64_t file_num)
{
    uint64_t count = 0;
    FIRN_TRY(fileio_count_files(storage, &count));
    if (count == 0)
        return rc_raise(FIRN_E_NOT_FOUND,
                        "there are no test files in %s: run 'firn fileio prepare' with the same "
                        "options first",
                        storage->directory);
    if (count != file_num)
        return rc_raise(count < file_num ? FIRN_E_NOT_FOUND : FIRN_E_EXISTS,
                        "%s was prepared with --file-num=%" PRIu64 ", not %" PRIu64
                        ": run with that, or clean up and prepare anew",
                        storage->directory, count, file_num);
    return FIRN_OK;
}

/* A file may be as much larger than asked for as a preparation rounds up to whole blocks: ours or
   sysbench's, of this block size or another. */
static bool is_rounded_up(uint64_t size_bytes, const struct fileio_shape *shape)
{
    if (size_bytes == shape->prepared_bytes)
        return true;
    for (uint64_t block = 1; block <= shape->file_bytes; block *= 2)
        if (size_bytes == (shape->file_bytes + block - 1) / block * block)
            return true;
    return false;
}

static firn_rc check_size(struct io_file *file, const struct fileio_config *config,
                          const struct fileio_shape *shape)
{
    uint64_t size_bytes = 0;
    FIRN_TRY(io_file_size(file, &size_bytes));
    if (is_rounded_up(size_bytes, shape))
        return FIRN_OK;
    return rc_raise(size_bytes < shape->file_bytes ? FIRN_E_SHORT : FIRN_E_EXISTS,
                    "%s has %" PRIu64 " bytes, but --file-total-size=%" PRIu64 " in %" PRIu64
                    " files makes %" PRIu64
                    " each: give the --file-total-size and --file-num of the preparation, or "
                    "prepare anew",
                    io_file_path(file), size_bytes, config->file_total_size, shape->file_num,
                    shape->file_bytes);
}

/* A new file of a creation test. A block size that direct I/O refuses must leave things as they
   were, so a file that is there is emptied after the check. */
static firn_rc create_file(const struct fileio_storage *storage, const struct fileio_config *config,
                           uint64_t number, bool is_there, struct io_file **file)
{
    char path[PATH_MAX];
    FIRN_TRY(fileio_path(storage, number, path));
    firn_rc rc = fileio_open_file(storage, config, number, IO_OPEN_CREATE, file);
    if (rc != FIRN_OK) {
        if (rc == FIRN_E_INVALID && !is_there)
            io_remove(storage->system, path);
        return rc;
    }
    FIRN_TRY(io_file_set_size(*file, 0));
    if (config->file_io_mode != FILEIO_MMAP)
        return FIRN_OK;
    return io_file_set_size(*file, fileio_shape_of(config).file_bytes);
}

firn_rc fileio_open_files(const struct fileio_storage *storage, const struct fileio_config *config,
                          struct io_file **files)
{
    struct fileio_shape shape = fileio_shape_of(config);
    enum fileio_mode mode = (enum fileio_mode)config->file_test_mode;
    unsigned flags = mode == FILEIO_SEQRD || mode == FILEIO_RNDRD ? IO_OPEN_READ_ONLY : 0;
    uint64_t count = 0;
    if (mode == FILEIO_SEQWR)
        FIRN_TRY(fileio_count_files(storage, &count));
    else
        FIRN_TRY(check_count(storage, shape.file_num));
    for (uint64_t i = 0; i < shape.file_num; i++) {
        if (mode == FILEIO_SEQWR) {
            FIRN_TRY(create_file(storage, config, i, i < count, &files[i]));
        } else {
            FIRN_TRY(fileio_open_file(storage, config, i, flags, &files[i]));
            FIRN_TRY(check_size(files[i], config, &shape));
        }
    }
    return FIRN_OK;
}

void fileio_close_files(struct io_file **files, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        if (files[i] != NULL)
            io_file_close(files[i]);
}
