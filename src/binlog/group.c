/*
 * A transaction's events while it runs: in memory, and what exceeds that in a file.
 */
#include "binlog/binlog_internal.h"

#include "base/check.h"
#include "base/memory.h"

enum { SPARES_MAX = 256, GROUP_FIRST_BYTES = 1024 };

/* ---- Memory ---- */

static struct binlog_group *take_spare(struct binlog *binlog)
{
    pthread_mutex_lock(&binlog->mutex);
    struct binlog_group *group = binlog->spare;
    if (group != NULL) {
        binlog->spare = group->next;
        binlog->spare_count--;
    }
    pthread_mutex_unlock(&binlog->mutex);
    return group;
}

/* @return a group without events; NULL, raised, without memory */
static struct binlog_group *group_new(struct binlog *binlog, uint64_t txn_id)
{
    struct binlog_group *made = take_spare(binlog);
    if (made == NULL && (made = memory_zalloc(1, sizeof *made)) == NULL) {
        rc_raise(FIRN_E_NOMEM, "no memory for a transaction's events");
        return NULL;
    }
    made->binlog = binlog;
    made->txn_id = txn_id;
    return made;
}

/* A recording begins with what is asked of it first. */
static firn_rc begin(struct binlog *binlog, uint64_t txn_id, void **recording)
{
    if (*recording == NULL)
        *recording = group_new(binlog, txn_id);
    return *recording == NULL ? FIRN_E_NOMEM : FIRN_OK;
}

static void close_file(struct binlog_group *group, bool remove)
{
    if (group->file == NULL)
        return;
    char name[FILE_NAME_BYTES];
    (void)io_file_close(group->file);
    group->file = NULL;
    if (!remove)
        return;
    /* What stays behind is removed by the next opening. */
    char *path =
        binlog_path(group->binlog->options.directory, group_file_name(group->txn_id, name));
    if (path != NULL)
        (void)io_remove(group->binlog->options.system, path);
    memory_free(path);
}

static void free_memory(struct binlog_group *group)
{
    memory_free(group->bytes);
    memory_free(group);
}

void group_free(struct binlog_group *group, bool remove_file)
{
    struct binlog *binlog = group->binlog;
    close_file(group, remove_file);
    uint8_t *bytes = group->bytes;
    size_t capacity = group->capacity;
    *group = (struct binlog_group){.bytes = bytes, .capacity = capacity};
    pthread_mutex_lock(&binlog->mutex);
    bool keep = binlog->spare_count < SPARES_MAX && capacity <= 2 * binlog->options.cache_bytes;
    if (keep) {
        group->next = binlog->spare;
        binlog->spare = group;
        binlog->spare_count++;
    }
    pthread_mutex_unlock(&binlog->mutex);
    if (!keep)
        free_memory(group);
}

void group_free_spares(struct binlog *binlog)
{
    struct binlog_group *group;
    while ((group = take_spare(binlog)) != NULL)
        free_memory(group);
}

/* Make room for more bytes behind the events in memory. */
static firn_rc reserve(struct binlog_group *group, uint64_t size_bytes)
{
    uint64_t wanted = RECORD_BYTES + group->size_bytes + size_bytes;
    if (wanted <= group->capacity)
        return FIRN_OK;
    uint64_t capacity = group->capacity == 0 ? GROUP_FIRST_BYTES : 2 * (uint64_t)group->capacity;
    if (capacity < wanted)
        capacity = wanted;
    uint8_t *bytes = memory_realloc(group->bytes, (size_t)capacity);
    if (bytes == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for a transaction's events of %llu bytes",
                        (unsigned long long)wanted);
    group->bytes = bytes;
    group->capacity = (size_t)capacity;
    return FIRN_OK;
}

/* ---- The file ---- */

firn_rc group_file_open(struct binlog *binlog, uint64_t txn_id, unsigned flags,
                        struct io_file **file)
{
    char name[FILE_NAME_BYTES];
    char *path = binlog_path(binlog->options.directory, group_file_name(txn_id, name));
    if (path == NULL)
        return FIRN_E_NOMEM;
    firn_rc rc = io_file_open(binlog->options.system, IO_CLASS_BINLOG, path, flags, file);
    memory_free(path);
    return rc;
}

firn_rc group_spill(struct binlog_group *group)
{
    if (group->file == NULL)
        FIRN_TRY(group_file_open(group->binlog, group->txn_id, IO_OPEN_CREATE | IO_OPEN_TRUNCATE,
                                 &group->file));
    if (group->size_bytes == 0)
        return FIRN_OK;
    FIRN_TRY(
        io_write(group->file, group->bytes + RECORD_BYTES, group->size_bytes, group->file_bytes));
    group->file_bytes += group->size_bytes;
    group->size_bytes = 0;
    group->is_durable = false;
    return FIRN_OK;
}

firn_rc group_make_durable(struct binlog_group *group)
{
    struct binlog *binlog = group->binlog;
    FIRN_TRY(group_spill(group));
    if (group->is_durable)
        return FIRN_OK;
    /* A savepoint may have left more in it than counts. */
    FIRN_TRY(io_file_set_size(group->file, group->file_bytes));
    FIRN_TRY(io_sync(group->file, IO_SYNC_DATA));
    FIRN_TRY(io_sync_directory(binlog->options.system, binlog->options.directory));
    group->is_durable = true;
    return FIRN_OK;
}

/* ---- Events ---- */

static struct group_tree *find_tree(struct binlog_group *group, uint64_t tree_id)
{
    for (unsigned i = group->tree_count; i-- > 0;)
        if (group->trees[i].id == tree_id)
            return &group->trees[i];
    return NULL;
}

/* Which names have been said is remembered for some trees; beyond that they are said anew. */
static firn_rc say_tree(struct binlog_group *group, uint64_t tree_id, bool *is_recorded)
{
    const struct binlog_options *options = &group->binlog->options;
    uint8_t name[BINLOG_NAME_MAX];
    size_t name_bytes = 0;
    FIRN_TRY(options->name(tree_id, name, &name_bytes, is_recorded, options->context));
    if (group->tree_count == GROUP_TREES)
        group->tree_count = 0;
    struct group_tree tree = {tree_id, group_events_bytes(group), *is_recorded};
    if (*is_recorded) {
        size_t size_bytes = tree_event_bytes(tree_id, name_bytes);
        FIRN_TRY(reserve(group, size_bytes));
        tree_event_put(group->bytes + RECORD_BYTES + group->size_bytes, tree_id,
                       span_of(name, name_bytes));
        group->size_bytes += size_bytes;
    }
    group->trees[group->tree_count++] = tree;
    return FIRN_OK;
}

static firn_rc prepare_row(uint64_t txn_id, uint64_t index_id, void **recording, bool *is_recorded,
                           void *context)
{
    struct binlog *binlog = context;
    FIRN_TRY(begin(binlog, txn_id, recording));
    struct binlog_group *group = *recording;
    if (group->size_bytes >= binlog->options.cache_bytes)
        FIRN_TRY(group_spill(group));
    const struct group_tree *tree = find_tree(group, index_id);
    if (tree == NULL)
        return say_tree(group, index_id, is_recorded);
    *is_recorded = tree->is_recorded;
    return FIRN_OK;
}

static firn_rc record_row(void *recording, uint64_t index_id, struct span key,
                          const struct span *before, const struct span *after)
{
    struct binlog_group *group = recording;
    uint64_t size_bytes = row_event_bytes(index_id, key, before, after);
    group->tried_bytes = 0;
    if (size_bytes > UINT32_MAX)
        return rc_raise(FIRN_E_INVALID,
                        "the row before and after the change has %llu bytes together, more than "
                        "an event of the binary log takes",
                        (unsigned long long)size_bytes);
    FIRN_TRY(reserve(group, size_bytes));
    row_event_put(group->bytes + RECORD_BYTES + group->size_bytes, (size_t)size_bytes, index_id,
                  key, before, after);
    group->tried_bytes = (size_t)size_bytes;
    return FIRN_OK;
}

static void keep_row(void *recording, bool keep)
{
    struct binlog_group *group = recording;
    if (keep && group->tried_bytes > 0) {
        group->size_bytes += group->tried_bytes;
        group->kept_bytes = group_events_bytes(group);
    }
    group->tried_bytes = 0;
}

static firn_rc record_text(uint64_t txn_id, struct span text, void **recording, void *context)
{
    FIRN_TRY(begin(context, txn_id, recording));
    struct binlog_group *group = *recording;
    uint64_t size_bytes = EVENT_HEADER_BYTES + (uint64_t)text.size_bytes;
    if (size_bytes > UINT32_MAX)
        return rc_raise(FIRN_E_INVALID, "a statement of %zu bytes is too long for the binary log",
                        text.size_bytes);
    if (group->size_bytes >= group->binlog->options.cache_bytes)
        FIRN_TRY(group_spill(group));
    FIRN_TRY(reserve(group, size_bytes));
    uint8_t *event = group->bytes + RECORD_BYTES + group->size_bytes;
    memcpy(event + EVENT_HEADER_BYTES, text.bytes, text.size_bytes);
    event_seal(event, (size_t)size_bytes, BINLOG_STATEMENT);
    group->size_bytes += (size_t)size_bytes;
    group->kept_bytes = group_events_bytes(group);
    return FIRN_OK;
}

static uint64_t mark(const void *recording)
{
    const struct binlog_group *group = recording;
    return group->kept_bytes;
}

void group_rewind(struct binlog_group *group, uint64_t position)
{
    ASSERT(position <= group_events_bytes(group));
    if (position >= group->file_bytes) {
        group->size_bytes = (size_t)(position - group->file_bytes);
    } else {
        group->file_bytes = position;
        group->size_bytes = 0;
        group->is_durable = false;
    }
    group->kept_bytes = position;
    /* Also those that are not recorded: being looked up again harms nothing. */
    unsigned kept = 0;
    for (unsigned i = 0; i < group->tree_count; i++)
        if (group->trees[i].position < position)
            group->trees[kept++] = group->trees[i];
    group->tree_count = kept;
}

static void rewind_to(void *recording, uint64_t position)
{
    group_rewind(recording, position);
}

static void drop(void *recording)
{
    group_free(recording, true);
}

static firn_rc prepare(void *recording)
{
    struct binlog_group *group = recording;
    group_rewind(group, group->kept_bytes);
    return group->kept_bytes == 0 ? FIRN_OK : group_make_durable(group);
}

/* A prepared transaction without events has no file. */
static firn_rc adopt(uint64_t txn_id, void **recording, void *context)
{
    struct binlog_group *group = group_new(context, txn_id);
    if (group == NULL)
        return FIRN_E_NOMEM;
    firn_rc rc = reserve(group, 0);
    if (rc == FIRN_OK)
        rc = group_file_open(context, txn_id, 0, &group->file);
    if (rc == FIRN_OK)
        rc = io_file_size(group->file, &group->file_bytes);
    group->kept_bytes = group->file_bytes;
    group->is_durable = true;
    if (rc != FIRN_OK) {
        group_free(group, false);
        return rc == FIRN_E_NOT_FOUND ? FIRN_OK : rc;
    }
    *recording = group;
    return FIRN_OK;
}

/* The environment is closed, the transaction stays prepared: so does the file. */
static void leave(void *recording)
{
    group_free(recording, false);
}

void group_fill_recorder(struct txn_recorder *recorder)
{
    recorder->prepare_row = prepare_row;
    recorder->row = record_row;
    recorder->keep_row = keep_row;
    recorder->text = record_text;
    recorder->mark = mark;
    recorder->rewind = rewind_to;
    recorder->drop = drop;
    recorder->prepare = prepare;
    recorder->adopt = adopt;
    recorder->leave = leave;
}
