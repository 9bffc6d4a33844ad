#include "bench/result.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/memory.h"
#include "bench/result_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { NUMBER_DIGITS = 12 }; /* of numbers that people gave */

struct result {
    json_t *document;
    json_t *runs; /* in the document */
};

static firn_rc no_memory(void)
{
    return rc_raise(FIRN_E_NOMEM, "no memory for the result of a run; take longer intervals");
}

static uint64_t unix_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* ---- The document ---- */

static void put_text(struct result_builder *builder, json_t *object, const char *key,
                     const char *text)
{
    if (text[0] != '\0')
        result_put(builder, object, key, result_text(text));
}

static void put_count(struct result_builder *builder, json_t *object, const char *key,
                      uint64_t count)
{
    if (count != 0)
        result_put(builder, object, key, json_integer((json_int_t)count));
}

static json_t *machine_value(struct result_builder *builder, const char *directory)
{
    struct host_machine machine;
    host_describe(directory, &machine);
    json_t *value = json_object();
    put_text(builder, value, "processor", machine.processor);
    put_count(builder, value, "processors", machine.processors);
    put_count(builder, value, "memory_bytes", machine.memory_bytes);
    put_text(builder, value, "kernel", machine.kernel);
    put_text(builder, value, "system", machine.system);
    put_text(builder, value, "virtualization", machine.virtualization);
    put_text(builder, value, "file_system", machine.file_system);
    put_text(builder, value, "mount_options", machine.mount_options);
    put_text(builder, value, "device", machine.device);
    put_text(builder, value, "device_model", machine.device_model);
    put_text(builder, value, "device_scheduler", machine.device_scheduler);
    put_text(builder, value, "device_write_cache", machine.device_write_cache);
    put_count(builder, value, "device_bytes", machine.device_bytes);
    if (machine.device[0] != '\0')
        result_put(builder, value, "device_rotational", json_boolean(machine.device_rotational));
    put_count(builder, value, "device_logical_block_bytes", machine.device_logical_block_bytes);
    put_count(builder, value, "device_physical_block_bytes", machine.device_physical_block_bytes);
    put_count(builder, value, "directory_free_bytes", machine.directory_free_bytes);
    return value;
}

static json_t *command_value(struct result_builder *builder, int argc, char *const *argv)
{
    json_t *command = json_array();
    for (int i = 0; i < argc; i++)
        result_append(builder, command, result_text(argv[i]));
    return command;
}

firn_rc result_open(const char *title, int argc, char *const *argv, const char *directory,
                    struct result **result)
{
    struct result_builder builder = {0};
    struct result *made = memory_zalloc(1, sizeof(*made));
    if (made == NULL)
        return no_memory();
    made->document = json_object();
    made->runs = json_array();
    result_put(&builder, made->document, "format", json_string("firn-result"));
    result_put(&builder, made->document, "version", json_integer(1));
    result_put(&builder, made->document, "title", result_text(title));
    result_put(&builder, made->document, "created", result_date(unix_now_ms() / 1000 * 1000));
    result_put(&builder, made->document, "firn",
               json_pack("{s:s, s:s}", "version", firn_version(), "commit", firn_commit()));
    result_put(&builder, made->document, "command", command_value(&builder, argc, argv));
    result_put(&builder, made->document, "machine", machine_value(&builder, directory));
    result_put(&builder, made->document, "runs", json_incref(made->runs));
    if (builder.failed) {
        result_close(made);
        return no_memory();
    }
    *result = made;
    return FIRN_OK;
}

void result_close(struct result *result)
{
    if (result == NULL)
        return;
    json_decref(result->runs);
    json_decref(result->document);
    memory_free(result);
}

firn_rc result_set_verdict(struct result *result, json_t *verdict)
{
    return json_object_set_new(result->document, "verdict", verdict) == 0 ? FIRN_OK : no_memory();
}

json_t *result_document(const struct result *result)
{
    return result->document;
}

/* ---- A run ---- */

static bool has_run(const struct result *result, const char *name)
{
    json_t *wanted = result_text(name); /* as it would be written */
    size_t index;
    json_t *run;
    bool found = false;
    json_array_foreach(result->runs, index, run)
    {
        found = found || json_equal(json_object_get(run, "name"), wanted);
    }
    json_decref(wanted);
    return found;
}

/* Bits of the kinds that did something; of all when none did: a run that stood still shows it. */
static unsigned find_used_kinds(const struct result_run *run)
{
    unsigned used = 0;
    for (unsigned k = 0; k < run->series->kind_count; k++)
        if (run->total->kinds[k].latency_ns.count != 0)
            used |= 1U << k;
    return used != 0 ? used : (1U << run->series->kind_count) - 1;
}

static void put_identity(struct result_builder *builder, json_t *value,
                         const struct result_run *run)
{
    result_put(builder, value, "name", result_text(run->name));
    if (run->group != NULL) {
        result_put(builder, value, "group", result_text(run->group));
        result_put(builder, value, "group_x", result_number(run->group_x, NUMBER_DIGITS));
        result_put(builder, value, "group_axis", result_text(run->group_axis));
    }
    result_put(builder, value, "workload", result_text(run->workload));
    result_put(builder, value, "storage", result_text(run->storage));
    json_t *modelled = json_null();
    if (run->model != NULL) {
        modelled = json_object();
        result_put(builder, modelled, "device", result_text(run->model));
        result_put(builder, modelled, "time_scale", result_number(run->time_scale, NUMBER_DIGITS));
    }
    result_put(builder, value, "modelled", modelled);
}

static json_t *run_value(struct result_builder *builder, const struct result_run *run)
{
    json_t *value = json_object();
    json_t *kinds = json_array();
    unsigned used_kinds = find_used_kinds(run);
    for (unsigned k = 0; k < run->series->kind_count; k++)
        if ((used_kinds >> k & 1) != 0)
            result_append(builder, kinds, result_text(run->kinds[k]));
    put_identity(builder, value, run);
    result_put(builder, value, "setup", run->setup);
    result_put(builder, value, "start", result_date(run->start_unix_ms));
    result_put(builder, value, "interval_s", result_time(run->series->interval_ns, 1e9));
    result_put(builder, value, "kinds", kinds);
    result_put(builder, value, "summary", result_summary(builder, run, used_kinds));
    result_put(builder, value, "judgement",
               result_judgement(builder, run->judgement, run->judgement_text));
    if (run->extra != NULL)
        result_put(builder, value, "extra", run->extra);
    result_put(builder, value, "intervals", result_intervals(builder, run, used_kinds));
    if (run->host != NULL)
        result_put(builder, value, "host", result_host(builder, run));
    return value;
}

firn_rc result_add(struct result *result, const struct result_run *run)
{
    struct result_builder builder = {0};
    if (has_run(result, run->name)) {
        json_decref(run->setup);
        json_decref(run->extra);
        return rc_raise(FIRN_E_EXISTS, "the result holds a run \"%s\" already", run->name);
    }
    json_t *value = run_value(&builder, run);
    if (builder.failed) {
        json_decref(value);
        return no_memory();
    }
    return json_array_append_new(result->runs, value) == 0 ? FIRN_OK : no_memory();
}

/* ---- The file ---- */

/* Make what was written to a stream durable and close it. @return 0 or an errno value */
static int finish_stream(FILE *out, bool printed)
{
    int error = printed && fflush(out) == 0 ? 0 : errno != 0 ? errno : EIO;
    /* Pipes and terminals have nothing to sync. */
    if (error == 0 && fsync(fileno(out)) != 0 && errno != EINVAL && errno != EROFS)
        error = errno;
    if (fclose(out) != 0 && error == 0)
        error = errno;
    return error;
}

static int write_stream(json_t *document, int fd)
{
    FILE *out = fdopen(fd, "w");
    if (out == NULL) {
        int error = errno;
        close(fd);
        return error;
    }
    __fsetlocking(out, FSETLOCKING_BYCALLER); /* nobody else has it; a lock a number is dear */
    errno = 0;
    bool printed = result_print(document, out);
    return finish_stream(out, printed);
}

/* A rename is durable when its folder is. */
static int sync_folder(const char *path)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t length = slash == NULL ? 0 : slash == path ? 1 : (size_t)(slash - path);
    snprintf(folder, sizeof(folder), "%.*s", length == 0 ? 1 : (int)length,
             length == 0 ? "." : path);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return errno;
    int error = fsync(fd) != 0 && errno != EINVAL ? errno : 0;
    close(fd);
    return error;
}

static int write_beside(json_t *document, const char *path)
{
    char temporary[PATH_MAX];
    int length = snprintf(temporary, sizeof(temporary), "%s.%ld.tmp", path, (long)getpid());
    if (length < 0 || (size_t)length >= sizeof(temporary))
        return ENAMETOOLONG;
    int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return errno;
    int error = write_stream(document, fd);
    if (error == 0 && rename(temporary, path) != 0)
        error = errno;
    if (error != 0) {
        unlink(temporary);
        return error;
    }
    return sync_folder(path);
}

firn_rc result_write(const struct result *result, const char *path)
{
    struct stat status;
    int error = 0;
    /* What is no file, such as /dev/stdout or a pipe, is written to and not replaced. */
    if (stat(path, &status) == 0 && !S_ISREG(status.st_mode)) {
        int fd = open(path, O_WRONLY | O_CLOEXEC);
        error = fd < 0 ? errno : write_stream(result->document, fd);
    } else {
        error = write_beside(result->document, path);
    }
    return error == 0 ? FIRN_OK : rc_raise_errno(error, "cannot write the result %s", path);
}
