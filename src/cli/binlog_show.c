/*
 * firn binlog show: groups and their events as text, as mysqlbinlog prints them, or as JSON lines.
 */
#include "cli/binlog_internal.h"

#include "cli/kv_line.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <string.h>
#include <time.h>

struct show {
    const struct binlog_command_options *options;
    const char *path; /* of the file that was named last */
    char shown[4096];
};

static bool is_wanted(const struct show *show, const struct binlog_visit *visit)
{
    const char *tree = show->options->tree;
    return tree == NULL || visit->tree.size_bytes == 0 ||
           span_compare(visit->tree, span_of_text(tree)) == 0;
}

static char *format_time(uint64_t time_us, char text[40])
{
    time_t seconds = (time_t)(time_us / 1000000);
    struct tm tm;
    localtime_r(&seconds, &tm);
    size_t length = strftime(text, 30, "%Y-%m-%d %H:%M:%S", &tm);
    snprintf(text + length, 10, ".%06u", (unsigned)(time_us % 1000000));
    return text;
}

/* ---- Text ---- */

static void print_begin(struct show *show, const struct binlog_visit *visit)
{
    char time[40];
    const struct binlog_event *begin = visit->event;
    if (strncmp(show->shown, visit->where->path, sizeof show->shown - 1) != 0) {
        snprintf(show->shown, sizeof show->shown, "%s", visit->where->path);
        printf("# %s\n", show->shown);
    }
    printf("# at %" PRIu64 "\n#%s server id %u  end_log_pos %" PRIu64 "  group %" PRIu64
           "  transaction %" PRIu64 "\nBEGIN\n",
           visit->where->offset, format_time(begin->time_us, time), begin->server_id,
           visit->where->offset + begin->group_bytes, begin->number, begin->txn_id);
}

static void print_field(struct span bytes)
{
    putchar('\t');
    kv_print(stdout, bytes);
}

static void print_row(const struct binlog_visit *visit, const char *what)
{
    const struct binlog_event *event = visit->event;
    printf("%s\t%.*s", what, (int)visit->tree.size_bytes, (const char *)visit->tree.bytes);
    print_field(event->key);
    if (event->type != BINLOG_INSERT)
        print_field(event->before);
    if (event->type != BINLOG_DELETE)
        print_field(event->after);
    putchar('\n');
}

static void print_text(struct show *show, const struct binlog_visit *visit)
{
    switch (visit->event->type) {
    case BINLOG_BEGIN:
        print_begin(show, visit);
        break;
    case BINLOG_INSERT:
        print_row(visit, "INSERT");
        break;
    case BINLOG_UPDATE:
        print_row(visit, "UPDATE");
        break;
    case BINLOG_DELETE:
        print_row(visit, "DELETE");
        break;
    case BINLOG_STATEMENT:
        fputs("STATEMENT", stdout);
        print_field(visit->event->text);
        putchar('\n');
        break;
    case BINLOG_COMMIT:
        puts("COMMIT");
        break;
    case BINLOG_TREE:
    case BINLOG_ROTATE:
    case BINLOG_EVENT_TYPES:
        break;
    }
}

/* ---- JSON ---- */

/* A text where the bytes are UTF-8, else {"hex": "..."}. */
static json_t *json_bytes(struct span bytes)
{
    static const char digits[] = "0123456789abcdef";
    json_t *text = json_stringn((const char *)bytes.bytes, bytes.size_bytes);
    if (bytes.size_bytes == 0)
        return json_string("");
    if (text != NULL)
        return text;
    char *hex = malloc(2 * bytes.size_bytes);
    if (hex == NULL)
        return NULL;
    for (size_t i = 0; i < bytes.size_bytes; i++) {
        hex[2 * i] = digits[bytes.bytes[i] >> 4];
        hex[2 * i + 1] = digits[bytes.bytes[i] & 15];
    }
    json_t *object = json_pack("{s:s%}", "hex", hex, 2 * bytes.size_bytes);
    free(hex);
    return object;
}

static bool add_event(json_t *object, const struct binlog_visit *visit)
{
    const struct binlog_event *event = visit->event;
    char time[40];
    int failed = 0;
    if (event->type == BINLOG_BEGIN) {
        failed |=
            json_object_set_new(object, "time", json_string(format_time(event->time_us, time)));
        failed |= json_object_set_new(object, "time_us", json_integer((json_int_t)event->time_us));
        failed |= json_object_set_new(object, "server_id", json_integer(event->server_id));
        failed |=
            json_object_set_new(object, "transaction", json_integer((json_int_t)event->txn_id));
    }
    if (visit->tree.size_bytes != 0) {
        failed |= json_object_set_new(object, "tree", json_bytes(visit->tree));
        failed |= json_object_set_new(object, "key", json_bytes(event->key));
        if (event->type != BINLOG_INSERT)
            failed |= json_object_set_new(object, "before", json_bytes(event->before));
        if (event->type != BINLOG_DELETE)
            failed |= json_object_set_new(object, "after", json_bytes(event->after));
    }
    if (event->type == BINLOG_STATEMENT)
        failed |= json_object_set_new(object, "text", json_bytes(event->text));
    return failed == 0;
}

static firn_rc print_json(const struct binlog_visit *visit)
{
    if (visit->event->type == BINLOG_TREE)
        return FIRN_OK;
    json_t *object = json_pack(
        "{s:s, s:s, s:I, s:I, s:I}", "event", binlog_event_name(visit->event->type), "file",
        visit->where->path, "position", (json_int_t)visit->where->offset, "end_position",
        (json_int_t)visit->where->end, "group", (json_int_t)visit->begin->number);
    bool printed =
        object != NULL && add_event(object, visit) && json_dumpf(object, stdout, JSON_COMPACT) == 0;
    json_decref(object);
    if (!printed)
        return rc_raise(FIRN_E_NOMEM, "cannot print the event at %" PRIu64 " of %s",
                        visit->where->offset, visit->where->path);
    putchar('\n');
    return FIRN_OK;
}

/* ---- Showing ---- */

static firn_rc show_event(const struct binlog_visit *visit, bool *skip, void *context)
{
    struct show *show = context;
    (void)skip;
    if (!is_wanted(show, visit))
        return FIRN_OK;
    if (show->options->json)
        FIRN_TRY(print_json(visit));
    else
        print_text(show, visit);
    return ferror(stdout) ? rc_raise_errno(errno, "cannot write to standard output") : FIRN_OK;
}

firn_rc binlog_show(const struct binlog_command_options *options, char *const *paths, int count,
                    const atomic_bool *stop)
{
    struct show show = {.options = options};
    firn_rc rc = binlog_walk(options, paths, count, stop, show_event, &show);
    if (fflush(stdout) != 0 && rc == FIRN_OK)
        rc = rc_raise_errno(errno, "cannot write to standard output");
    return rc;
}
