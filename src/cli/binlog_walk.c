/*
 * Walking through binary logs: from where to where, and what trees are called.
 */
#include "cli/binlog_internal.h"

#include "base/log.h"
#include "base/memory.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* ---- Times ---- */

static firn_rc raise_time(const char *text, const char *option)
{
    return rc_raise(FIRN_E_INVALID,
                    "--%s=%s is no time: write \"YYYY-MM-DD hh:mm:ss\", with a fraction if need be",
                    option, text);
}

/* Digits behind a point, as microseconds. @return false if there are other characters, or too many
 */
static bool parse_fraction(const char *text, uint64_t *us)
{
    uint64_t weight = 100000;
    *us = 0;
    if (*text == '\0')
        return true;
    if (*text++ != '.' || *text == '\0')
        return false;
    for (; *text >= '0' && *text <= '9' && weight > 0; text++, weight /= 10)
        *us += weight * (uint64_t)(*text - '0');
    return *text == '\0';
}

firn_rc binlog_parse_time(const char *text, const char *option, uint64_t *time_us)
{
    struct tm tm = {.tm_isdst = -1};
    uint64_t fraction_us = 0;
    char *rest = strptime(text, "%Y-%m-%d", &tm);
    if (rest != NULL && (*rest == ' ' || *rest == 'T'))
        rest = strptime(rest + 1, "%H:%M:%S", &tm);
    if (rest == NULL || !parse_fraction(rest, &fraction_us))
        return raise_time(text, option);
    int day = tm.tm_mday;
    time_t seconds = mktime(&tm);
    if (seconds < 0 || tm.tm_mday != day)
        return raise_time(text, option);
    *time_us = (uint64_t)seconds * 1000000 + fraction_us;
    return FIRN_OK;
}

/* ---- Names of a group's trees ---- */

struct tree_name {
    uint64_t id;
    char *name;
};

struct tree_names {
    struct tree_name *list;
    size_t count;
    size_t capacity;
};

static void names_clear(struct tree_names *names)
{
    for (size_t i = 0; i < names->count; i++)
        memory_free(names->list[i].name);
    names->count = 0;
}

static firn_rc names_add(struct tree_names *names, const struct binlog_event *event)
{
    if (names->count == names->capacity) {
        size_t capacity = names->capacity == 0 ? 8 : 2 * names->capacity;
        struct tree_name *list = memory_realloc(names->list, capacity * sizeof *list);
        if (list == NULL)
            return rc_raise(FIRN_E_NOMEM, "no memory for the names of trees");
        names->list = list;
        names->capacity = capacity;
    }
    char *name = memory_zalloc(1, event->name.size_bytes + 1);
    if (name == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for the names of trees");
    memcpy(name, event->name.bytes, event->name.size_bytes);
    names->list[names->count++] = (struct tree_name){event->tree_id, name};
    return FIRN_OK;
}

static firn_rc names_find(const struct tree_names *names, const struct binlog_event *event,
                          const struct binlog_where *where, struct span *name)
{
    for (size_t i = names->count; i-- > 0;)
        if (names->list[i].id == event->tree_id) {
            *name = span_of_text(names->list[i].name);
            return FIRN_OK;
        }
    return rc_raise(FIRN_E_CORRUPT,
                    "%s has a change at %" PRIu64 " of a tree whose name its group does not tell",
                    where->path, where->offset);
}

/* ---- Walking ---- */

struct walk {
    const struct binlog_command_options *options;
    const atomic_bool *stop;
    binlog_visitor *visitor;
    void *context;
    struct binlog_reader *reader;
    struct tree_names names;
    struct binlog_event begin;
    bool is_last_path;
    bool is_over; /* what was asked for has been seen */
};

static bool is_behind(const struct walk *walk, const struct binlog_event *begin,
                      const struct binlog_where *where)
{
    const struct binlog_command_options *options = walk->options;
    return (options->stop_us != 0 && begin->time_us >= options->stop_us) ||
           (options->stop_group != 0 && begin->number > options->stop_group) ||
           (options->stop_position != 0 && walk->is_last_path && where->is_last &&
            where->offset >= options->stop_position);
}

static bool is_row(const struct binlog_event *event)
{
    return event->type == BINLOG_INSERT || event->type == BINLOG_UPDATE ||
           event->type == BINLOG_DELETE;
}

static firn_rc visit_event(struct walk *walk, const struct binlog_event *event)
{
    struct binlog_where where;
    struct binlog_visit visit = {.event = event, .where = &where, .begin = &walk->begin};
    bool skip = false;
    binlog_reader_where(walk->reader, &where);
    if (event->type == BINLOG_BEGIN) {
        names_clear(&walk->names);
        walk->begin = *event;
        walk->is_over = is_behind(walk, event, &where);
        if (walk->is_over)
            return FIRN_OK;
        if (atomic_load_explicit(walk->stop, memory_order_relaxed))
            return rc_raise(FIRN_E_STOPPED, "interrupted before group %" PRIu64, event->number);
    }
    if (event->type == BINLOG_TREE)
        FIRN_TRY(names_add(&walk->names, event));
    if (is_row(event))
        FIRN_TRY(names_find(&walk->names, event, &where, &visit.tree));
    FIRN_TRY(walk->visitor(&visit, &skip, walk->context));
    if (skip)
        binlog_reader_skip_group(walk->reader);
    return FIRN_OK;
}

/* A file that ends within a group is the last one of an environment that is working, or was killed.
 */
static void tell_tail(const struct walk *walk)
{
    struct binlog_where where;
    uint64_t tail_bytes = binlog_reader_tail_bytes(walk->reader);
    binlog_reader_where(walk->reader, &where);
    if (tail_bytes != 0)
        log_warning("the last %" PRIu64 " bytes of %s are no whole group and were left out: it is "
                    "being written, or opening the environment completes it",
                    tail_bytes, where.path);
}

static firn_rc walk_path(struct walk *walk, const char *path, bool is_first,
                         struct io_system *system)
{
    const struct binlog_command_options *options = walk->options;
    struct stat status;
    struct binlog_event event;
    firn_rc rc = FIRN_OK;
    if (stat(path, &status) != 0)
        return rc_raise_errno(errno, "cannot look at %s", path);
    struct binlog_reader_options reading = {.system = system,
                                            .path = path,
                                            .is_directory = S_ISDIR(status.st_mode),
                                            .start_file = is_first ? options->start_file : 0,
                                            .start_position =
                                                is_first ? options->start_position : 0,
                                            .start_time_us = options->start_us,
                                            .start_number = options->start_group};
    FIRN_TRY(binlog_reader_open(&reading, &walk->reader));
    while (!walk->is_over && (rc = binlog_reader_next(walk->reader, &event)) == FIRN_OK) {
        rc = visit_event(walk, &event);
        if (rc != FIRN_OK)
            break;
    }
    if (!walk->is_over && rc == FIRN_E_NOT_FOUND) {
        tell_tail(walk);
        rc = FIRN_OK;
    }
    binlog_reader_close(walk->reader);
    return walk->is_over ? FIRN_OK : rc;
}

firn_rc binlog_walk(const struct binlog_command_options *options, char *const *paths, int count,
                    const atomic_bool *stop, binlog_visitor *visitor, void *context)
{
    struct walk walk = {.options = options, .stop = stop, .visitor = visitor, .context = context};
    struct io_system *system;
    firn_rc rc = FIRN_OK;
    FIRN_TRY(io_system_open(IO_BACKEND_THREADS, clock_real(), &system));
    for (int i = 0; i < count && rc == FIRN_OK && !walk.is_over; i++) {
        walk.is_last_path = i == count - 1;
        rc = walk_path(&walk, paths[i], i == 0, system);
    }
    names_clear(&walk.names);
    memory_free(walk.names.list);
    io_system_close(system);
    return rc;
}
