#include "base/check.h"
#include "base/memory.h"
#include "cli/kv_internal.h"

#include <string.h>
#include <unistd.h>

/* ---- Keys of the command line or of standard input ---- */

typedef firn_rc key_function(struct span key, void *context);

static firn_rc each_word(const struct kv_run *run, key_function *function, void *context)
{
    for (int i = 0; i < run->key_count; i++) {
        struct span key;
        uint8_t *word = (uint8_t *)run->keys[i];
        firn_rc rc = kv_parse_line(word, strlen(run->keys[i]), &key, NULL);
        if (rc != FIRN_OK)
            return rc_raise(rc, "key %d: %s", i + 1, firn_error_text());
        FIRN_TRY(function(key, context));
    }
    return FIRN_OK;
}

static firn_rc each_line(const struct kv_run *run, key_function *function, void *context)
{
    struct kv_reader reader;
    uint8_t *line;
    size_t size_bytes;
    struct span key;
    firn_rc rc = FIRN_OK;
    kv_reader_init(&reader, STDIN_FILENO, run->stop);
    while (rc == FIRN_OK && (rc = kv_reader_next(&reader, &line, &size_bytes)) == FIRN_OK) {
        rc = kv_parse_line(line, size_bytes, &key, NULL);
        if (rc != FIRN_OK)
            rc_raise(rc, "line %llu: %s", (unsigned long long)reader.line_number,
                     firn_error_text());
        else
            rc = function(key, context);
    }
    kv_reader_free(&reader);
    return rc == FIRN_E_NOT_FOUND ? FIRN_OK : rc;
}

static firn_rc each_key(const struct kv_run *run, key_function *function, void *context)
{
    return run->key_count != 0 ? each_word(run, function, context)
                               : each_line(run, function, context);
}

/* ---- Keys that are not there ---- */

enum { MISSING_TEXT_BYTES = 64 };

struct missing {
    uint64_t keys;
    uint64_t of;
    char first[4 * MISSING_TEXT_BYTES + 1];
};

static void note_missing(struct missing *missing, struct span key)
{
    if (missing->keys++ != 0)
        return;
    size_t size = key.size_bytes < MISSING_TEXT_BYTES ? key.size_bytes : MISSING_TEXT_BYTES;
    size = kv_format(span_of(key.bytes, size), (uint8_t *)missing->first);
    missing->first[size] = '\0';
}

static firn_rc raise_missing(const struct missing *missing)
{
    if (missing->keys == 0)
        return FIRN_OK;
    if (missing->of == 1)
        return rc_raise(FIRN_E_NOT_FOUND, "there is no key \"%s\"", missing->first);
    return rc_raise(FIRN_E_NOT_FOUND, "%llu of %llu keys are not there, \"%s\" the first",
                    (unsigned long long)missing->keys, (unsigned long long)missing->of,
                    missing->first);
}

/* ---- get ---- */

struct getting {
    const struct kv_run *run;
    struct store_session *session;
    struct btree *tree;
    struct missing missing;
};

static void print_row(struct span key, struct span value)
{
    kv_print(stdout, key);
    putchar_unlocked('\t');
    kv_print(stdout, value);
    putchar_unlocked('\n');
}

static firn_rc get_key(struct span key, void *context)
{
    struct getting *getting = context;
    struct span value;
    firn_rc rc = store_get(getting->session, getting->tree, key, &value);
    getting->missing.of++;
    if (rc == FIRN_E_NOT_FOUND) {
        note_missing(&getting->missing, key);
        return FIRN_OK;
    }
    FIRN_TRY(rc);
    if (getting->run->options->raw)
        fwrite(value.bytes, 1, value.size_bytes, stdout);
    else
        print_row(key, value);
    return ferror(stdout) ? kv_end_output() : FIRN_OK;
}

firn_rc kv_get(const struct kv_run *run)
{
    struct getting getting = {.run = run};
    FIRN_TRY(store_tree(run->store, run->options->tree, 0, &getting.tree));
    FIRN_TRY(store_session_open(run->store, &getting.session));
    firn_rc rc = each_key(run, get_key, &getting);
    store_session_close(getting.session);
    FIRN_TRY(rc);
    FIRN_TRY(kv_end_output());
    return raise_missing(&getting.missing);
}

/* ---- scan ---- */

/* Keys at or above `from` and below `to`. */
struct range {
    uint8_t *memory; /* of the limits' bytes */
    struct span from;
    struct span to;
    bool to_is_open;
};

static firn_rc take_limit(const char *name, const char *text, uint8_t **memory, struct span *limit)
{
    size_t size = strlen(text);
    uint8_t *copy = *memory;
    memcpy(copy, text, size);
    *memory += size;
    firn_rc rc = kv_parse_line(copy, size, limit, NULL);
    return rc == FIRN_OK ? rc : rc_raise(rc, "--%s: %s", name, firn_error_text());
}

/* The first key behind all that begin with a prefix, in place. @return false if there is none */
static bool next_prefix(struct span *prefix, uint8_t *bytes)
{
    size_t size = prefix->size_bytes;
    while (size > 0 && bytes[size - 1] == UINT8_MAX)
        size--;
    if (size > 0)
        bytes[size - 1]++;
    *prefix = span_of(bytes, size);
    return size > 0;
}

static firn_rc take_prefix(const char *text, uint8_t **memory, struct range *range)
{
    struct span from;
    struct span to;
    FIRN_TRY(take_limit("prefix", text, memory, &from));
    uint8_t *bytes = *memory;
    FIRN_TRY(take_limit("prefix", text, memory, &to));
    if (span_compare(from, range->from) > 0)
        range->from = from;
    if (next_prefix(&to, bytes) && (range->to_is_open || span_compare(to, range->to) < 0)) {
        range->to = to;
        range->to_is_open = false;
    }
    return FIRN_OK;
}

static firn_rc fill_range(const struct kv_options *options, struct range *range)
{
    const char *from = options->from == NULL ? "" : options->from;
    const char *to = options->to == NULL ? "" : options->to;
    const char *prefix = options->prefix == NULL ? "" : options->prefix;
    *range = (struct range){.to_is_open = true};
    range->memory = memory_alloc(strlen(from) + strlen(to) + 2 * strlen(prefix) + 1);
    uint8_t *memory = range->memory;
    if (memory == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for a range of keys");
    if (from[0] != '\0')
        FIRN_TRY(take_limit("from", from, &memory, &range->from));
    if (to[0] != '\0') {
        FIRN_TRY(take_limit("to", to, &memory, &range->to));
        range->to_is_open = false;
    }
    return prefix[0] == '\0' ? FIRN_OK : take_prefix(prefix, &memory, range);
}

static firn_rc seek_start(struct btree_cursor *cursor, const struct range *range, bool reverse)
{
    if (!reverse)
        return btree_cursor_seek(cursor, BTREE_SEEK_AT_OR_AFTER, range->from);
    return btree_cursor_seek(cursor, range->to_is_open ? BTREE_SEEK_LAST : BTREE_SEEK_BEFORE,
                             range->to);
}

static bool range_has(const struct range *range, struct span key, bool reverse)
{
    if (reverse)
        return span_compare(key, range->from) >= 0;
    return range->to_is_open || span_compare(key, range->to) < 0;
}

static firn_rc scan_row(const struct kv_run *run, struct btree_cursor *cursor, struct span key)
{
    struct span value;
    if (atomic_load_explicit(run->stop, memory_order_relaxed))
        return FIRN_E_STOPPED;
    if (run->options->count)
        return FIRN_OK;
    firn_rc rc = btree_cursor_value(cursor, &value);
    FIRN_TRY(rc);
    print_row(key, value);
    return ferror(stdout) ? kv_end_output() : FIRN_OK;
}

static firn_rc scan_range(const struct kv_run *run, struct btree_cursor *cursor,
                          const struct range *range, uint64_t *rows)
{
    const struct kv_options *options = run->options;
    firn_rc rc = seek_start(cursor, range, options->reverse);
    while (rc == FIRN_OK && (options->limit == 0 || *rows < options->limit)) {
        struct span key = btree_cursor_key(cursor);
        if (!range_has(range, key, options->reverse))
            break;
        FIRN_TRY(scan_row(run, cursor, key));
        ++*rows;
        rc = options->reverse ? btree_cursor_prev(cursor) : btree_cursor_next(cursor);
    }
    return rc == FIRN_E_NOT_FOUND ? FIRN_OK : rc;
}

firn_rc kv_scan(const struct kv_run *run)
{
    struct range range = {0};
    struct btree *tree;
    struct btree_cursor *cursor = NULL;
    uint64_t rows = 0;
    firn_rc rc = FIRN_OK;
    FIRN_TRY_GOTO(fill_range(run->options, &range), end);
    FIRN_TRY_GOTO(store_tree(run->store, run->options->tree, 0, &tree), end);
    FIRN_TRY_GOTO(btree_cursor_open(store_base(run->store), tree, &cursor), end);
    rc = scan_range(run, cursor, &range, &rows);
    if (rc == FIRN_E_STOPPED && atomic_load(run->stop))
        rc = kv_raise_interrupted(run->options->count ? "counted" : "printed", rows);
    if (rc == FIRN_OK && run->options->count)
        printf("%llu\n", (unsigned long long)rows);
end:
    btree_cursor_close(cursor);
    memory_free(range.memory);
    return rc;
}

/* ---- delete ---- */

struct deleting {
    const struct kv_run *run;
    struct store_session *session;
    struct btree *tree;
    struct missing missing;
    struct kv_summary summary;
    uint64_t uncommitted;
    struct kv_acks acks;
};

static firn_rc commit_deletes(struct deleting *deleting)
{
    if (deleting->uncommitted == 0)
        return FIRN_OK;
    FIRN_TRY(store_commit(deleting->session));
    deleting->summary.rows += deleting->uncommitted;
    deleting->summary.commits++;
    deleting->uncommitted = 0;
    return kv_acks_print(&deleting->acks);
}

static firn_rc delete_key(struct span key, void *context)
{
    struct deleting *deleting = context;
    deleting->missing.of++;
    firn_rc rc = store_delete(deleting->session, deleting->tree, key);
    if (rc == FIRN_E_NOT_FOUND) {
        note_missing(&deleting->missing, key);
        return FIRN_OK;
    }
    FIRN_TRY(rc);
    if (deleting->run->options->ack)
        FIRN_TRY(kv_acks_add(&deleting->acks, key));
    deleting->uncommitted++;
    return deleting->uncommitted == deleting->run->options->commit_every ? commit_deletes(deleting)
                                                                         : FIRN_OK;
}

static firn_rc delete_keys(struct deleting *deleting)
{
    const struct kv_run *run = deleting->run;
    kv_summary_start(run, &deleting->summary);
    firn_rc rc = each_key(run, delete_key, deleting);
    bool interrupted = rc == FIRN_E_STOPPED && atomic_load(run->stop);
    if (rc == FIRN_OK || interrupted)
        rc = commit_deletes(deleting);
    FIRN_TRY(rc);
    if (interrupted)
        return kv_raise_interrupted("deleted", deleting->summary.rows);
    FIRN_TRY(kv_summary_print(run, &deleting->summary, "deleted"));
    FIRN_TRY(kv_end_output());
    return raise_missing(&deleting->missing);
}

firn_rc kv_delete(const struct kv_run *run)
{
    struct deleting deleting = {.run = run};
    FIRN_TRY(store_tree(run->store, run->options->tree, 0, &deleting.tree));
    FIRN_TRY(store_session_open(run->store, &deleting.session));
    firn_rc rc = delete_keys(&deleting);
    kv_acks_free(&deleting.acks);
    store_session_close(deleting.session);
    return rc;
}

/* ---- drop ---- */

firn_rc kv_drop(const struct kv_run *run)
{
    return store_drop_tree(run->store, run->options->tree);
}
