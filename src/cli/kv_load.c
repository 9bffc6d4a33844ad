/*
 * Loading: the command's thread reads and parses lines, workers insert. A worker gets rows in
 * batches through a short queue of its own; a key always goes to the same worker, so that of
 * several lines with one key the last one stands in the end.
 */
#include "base/check.h"
#include "base/checksum.h"
#include "base/memory.h"
#include "cli/kv_internal.h"

#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    BATCH_BYTES = 64 << 10,
    QUEUE_BATCHES = 4, /* that may wait for a worker */
    ERROR_TEXT_BYTES = 512,
};

/** A row in a batch: this, the key, the value, and padding to 8 bytes. */
struct row {
    uint64_t line_number;
    uint32_t key_bytes;
    uint32_t value_bytes;
};

struct batch {
    struct batch *next;
    size_t size_bytes;
    size_t capacity;
    uint8_t rows[];
};

struct load;

struct worker {
    struct load *load;
    pthread_t thread;
    bool is_running;
    struct store_session *session;
    struct batch *filling; /* the reader's */
    /* Between reader and worker, under the mutex. */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct batch *first;
    struct batch *last;
    unsigned queued;
    bool no_more;
    /* The worker's; the reader's once it is joined. */
    struct kv_acks acks;
    uint64_t uncommitted;
    uint64_t rows;
    uint64_t commits;
};

struct load {
    const struct kv_run *run;
    struct btree *tree;
    struct worker *workers;
    unsigned worker_count;
    pthread_mutex_t mutex; /* protects standard output and the failure's code and text */
    atomic_bool failed;
    firn_rc rc;
    char text[ERROR_TEXT_BYTES];
};

/* ---- Workers ---- */

/* The first failure is the one to tell. */
static void note_failure(struct load *load, firn_rc rc)
{
    pthread_mutex_lock(&load->mutex);
    if (load->rc == FIRN_OK) {
        load->rc = rc;
        snprintf(load->text, sizeof(load->text), "%s", firn_error_text());
        atomic_store(&load->failed, true);
    }
    pthread_mutex_unlock(&load->mutex);
}

static firn_rc commit_rows(struct worker *worker)
{
    struct load *load = worker->load;
    if (worker->uncommitted == 0)
        return FIRN_OK;
    FIRN_TRY(store_commit(worker->session));
    worker->rows += worker->uncommitted;
    worker->commits++;
    worker->uncommitted = 0;
    pthread_mutex_lock(&load->mutex);
    firn_rc rc = kv_acks_print(&worker->acks);
    pthread_mutex_unlock(&load->mutex);
    return rc;
}

static firn_rc put_row(struct worker *worker, const struct row *row, const uint8_t *bytes)
{
    const struct kv_options *options = worker->load->run->options;
    struct span key = span_of(bytes, row->key_bytes);
    struct span value = span_of(bytes + row->key_bytes, row->value_bytes);
    firn_rc rc = store_put(worker->session, worker->load->tree, key, value);
    if (rc != FIRN_OK)
        return rc_raise(rc, "line %llu: %s", (unsigned long long)row->line_number,
                        firn_error_text());
    if (options->ack)
        FIRN_TRY(kv_acks_add(&worker->acks, key));
    worker->uncommitted++;
    return worker->uncommitted == options->commit_every ? commit_rows(worker) : FIRN_OK;
}

static size_t row_bytes(const struct row *row)
{
    return (sizeof(*row) + row->key_bytes + row->value_bytes + 7) & ~(size_t)7;
}

static firn_rc put_batch(struct worker *worker, const struct batch *batch)
{
    struct row row;
    for (size_t at = 0; at < batch->size_bytes; at += row_bytes(&row)) {
        memcpy(&row, batch->rows + at, sizeof(row));
        FIRN_TRY(put_row(worker, &row, batch->rows + at + sizeof(row)));
    }
    return FIRN_OK;
}

/* @return NULL when there will be no more */
static struct batch *take_batch(struct worker *worker)
{
    pthread_mutex_lock(&worker->mutex);
    while (worker->first == NULL && !worker->no_more)
        pthread_cond_wait(&worker->changed, &worker->mutex);
    struct batch *batch = worker->first;
    if (batch != NULL) {
        worker->first = batch->next;
        worker->queued--;
        pthread_cond_signal(&worker->changed);
    }
    pthread_mutex_unlock(&worker->mutex);
    return batch;
}

/* After a failure, anybody's, batches are taken and thrown away, so that the reader is never stuck.
 */
static void *work(void *context)
{
    struct worker *worker = context;
    struct batch *batch;
    firn_rc rc = FIRN_OK;
    while ((batch = take_batch(worker)) != NULL) {
        if (rc == FIRN_OK && !atomic_load(&worker->load->failed))
            rc = put_batch(worker, batch);
        memory_free(batch);
        if (rc != FIRN_OK)
            note_failure(worker->load, rc);
    }
    if (rc == FIRN_OK && (rc = commit_rows(worker)) != FIRN_OK)
        note_failure(worker->load, rc);
    return NULL;
}

/* ---- The reader ---- */

static void submit(struct worker *worker)
{
    struct batch *batch = worker->filling;
    worker->filling = NULL;
    if (batch == NULL)
        return;
    pthread_mutex_lock(&worker->mutex);
    while (worker->queued == QUEUE_BATCHES)
        pthread_cond_wait(&worker->changed, &worker->mutex);
    if (worker->first == NULL)
        worker->first = batch;
    else
        worker->last->next = batch;
    worker->last = batch;
    worker->queued++;
    pthread_cond_signal(&worker->changed);
    pthread_mutex_unlock(&worker->mutex);
}

static firn_rc add_row(struct load *load, uint64_t line_number, struct span key, struct span value)
{
    struct row row = {line_number, (uint32_t)key.size_bytes, (uint32_t)value.size_bytes};
    size_t size = row_bytes(&row);
    uint32_t hash = load->worker_count == 1 ? 0 : checksum_crc32c(key.bytes, key.size_bytes);
    struct worker *worker = &load->workers[hash % load->worker_count];
    if (worker->filling != NULL && worker->filling->capacity - worker->filling->size_bytes < size)
        submit(worker);
    if (worker->filling == NULL) {
        size_t capacity = size > BATCH_BYTES ? size : BATCH_BYTES;
        worker->filling = memory_alloc(sizeof(struct batch) + capacity);
        if (worker->filling == NULL)
            return rc_raise(FIRN_E_NOMEM, "no memory for a batch of rows");
        *worker->filling = (struct batch){.capacity = capacity};
    }
    uint8_t *to = worker->filling->rows + worker->filling->size_bytes;
    memcpy(to, &row, sizeof(row));
    memcpy(to + sizeof(row), key.bytes, key.size_bytes);
    if (value.size_bytes != 0)
        memcpy(to + sizeof(row) + key.size_bytes, value.bytes, value.size_bytes);
    worker->filling->size_bytes += size;
    return FIRN_OK;
}

/* Rows do not lie in half-filled batches while there is nothing to read. */
static void submit_before_waiting(struct load *load, const struct kv_reader *reader)
{
    if (kv_reader_would_wait(reader))
        for (unsigned i = 0; i < load->worker_count; i++)
            submit(&load->workers[i]);
}

/* What there is to read, 0 for a pipe. */
static double input_bytes(void)
{
    struct stat status;
    off_t at = lseek(STDIN_FILENO, 0, SEEK_CUR);
    if (fstat(STDIN_FILENO, &status) != 0 || !S_ISREG(status.st_mode) || at < 0)
        return 0;
    return (double)(status.st_size - at);
}

typedef firn_rc row_function(uint64_t line_number, struct span key, struct span value,
                             const struct kv_reader *reader, void *context);

/* Call for each line, with progress on the terminal where the end is known. */
static firn_rc each_row(const struct kv_run *run, row_function *function, void *context)
{
    struct kv_reader reader;
    struct progress progress = {0};
    uint8_t *line;
    size_t size_bytes;
    struct span key;
    struct span value;
    double total = input_bytes();
    firn_rc rc = FIRN_OK;
    kv_reader_init(&reader, STDIN_FILENO, run->stop);
    if (total > 0)
        progress_start(&progress, "load", PROGRESS_BYTES, total);
    while (rc == FIRN_OK && (rc = kv_reader_next(&reader, &line, &size_bytes)) == FIRN_OK) {
        rc = kv_parse_line(line, size_bytes, &key, &value);
        if (rc != FIRN_OK)
            rc_raise(rc, "line %llu: %s", (unsigned long long)reader.line_number,
                     firn_error_text());
        else
            rc = function(reader.line_number, key, value, &reader, context);
        if (reader.line_number % 256 == 0)
            progress_update(&progress, (double)reader.read_bytes);
    }
    progress_end(&progress);
    kv_reader_free(&reader);
    return rc == FIRN_E_NOT_FOUND ? FIRN_OK : rc;
}

static firn_rc take_row(uint64_t line_number, struct span key, struct span value,
                        const struct kv_reader *reader, void *context)
{
    struct load *load = context;
    FIRN_TRY(add_row(load, line_number, key, value));
    submit_before_waiting(load, reader);
    return atomic_load_explicit(&load->failed, memory_order_relaxed) ? FIRN_E_STOPPED : FIRN_OK;
}

/* ---- The whole ---- */

static firn_rc start_worker(struct load *load, struct worker *worker)
{
    worker->load = load;
    pthread_mutex_init(&worker->mutex, NULL);
    pthread_cond_init(&worker->changed, NULL);
    load->worker_count++;
    FIRN_TRY(store_session_open(load->run->store, &worker->session));
    int error = pthread_create(&worker->thread, NULL, work, worker);
    if (error != 0)
        return rc_raise_errno(error, "cannot start a thread");
    worker->is_running = true;
    return FIRN_OK;
}

static firn_rc start_workers(struct load *load)
{
    uint64_t count = load->run->options->threads;
    load->workers = memory_zalloc(count, sizeof(*load->workers));
    if (load->workers == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for %llu threads", (unsigned long long)count);
    for (uint64_t i = 0; i < count; i++)
        FIRN_TRY(start_worker(load, &load->workers[i]));
    return FIRN_OK;
}

/* Let a worker do what it has, commit and end. */
static void join_worker(struct worker *worker, struct kv_summary *summary)
{
    if (worker->is_running) {
        submit(worker);
        pthread_mutex_lock(&worker->mutex);
        worker->no_more = true;
        pthread_cond_signal(&worker->changed);
        pthread_mutex_unlock(&worker->mutex);
        pthread_join(worker->thread, NULL);
    }
    summary->rows += worker->rows;
    summary->commits += worker->commits;
    store_session_close(worker->session);
    kv_acks_free(&worker->acks);
    pthread_cond_destroy(&worker->changed);
    pthread_mutex_destroy(&worker->mutex);
}

static firn_rc load_rows(const struct kv_run *run, struct btree *tree, struct kv_summary *summary)
{
    struct load load = {.run = run, .tree = tree};
    pthread_mutex_init(&load.mutex, NULL);
    firn_rc rc = start_workers(&load);
    if (rc == FIRN_OK)
        rc = each_row(run, take_row, &load);
    /* Rows before a bad line are loaded; the line's sentence stays the thread's. */
    for (unsigned i = 0; i < load.worker_count; i++)
        join_worker(&load.workers[i], summary);
    memory_free(load.workers);
    pthread_mutex_destroy(&load.mutex);
    return load.rc == FIRN_OK ? rc : rc_raise(load.rc, "%s", load.text);
}

/* ---- Bulk ---- */

struct bulk {
    struct btree_build *build;
    uint64_t rows;
};

static firn_rc build_row(uint64_t line_number, struct span key, struct span value,
                         const struct kv_reader *reader, void *context)
{
    struct bulk *bulk = context;
    (void)reader;
    firn_rc rc = btree_build_add(bulk->build, key, value);
    if (rc == FIRN_E_INVALID)
        return rc_raise(rc,
                        "line %llu: %s; --bulk needs each key once, ascending by its bytes (for "
                        "plain text: LC_ALL=C sort -u)",
                        (unsigned long long)line_number, firn_error_text());
    if (rc != FIRN_OK)
        return rc_raise(rc, "line %llu: %s", (unsigned long long)line_number, firn_error_text());
    bulk->rows++;
    return FIRN_OK;
}

static firn_rc build_rows(const struct kv_run *run, struct btree *tree,
                          struct store_session *session, struct kv_summary *summary)
{
    struct bulk bulk = {0};
    uint64_t end_lsn = 0;
    firn_rc rc = btree_build_begin(store_session_btree(session), tree,
                                   (unsigned)run->options->fill_factor, &bulk.build);
    if (rc == FIRN_E_EXISTS)
        return rc_raise(rc, "the tree \"%s\" has rows already: --bulk needs an empty one",
                        run->options->tree);
    FIRN_TRY(rc);
    rc = each_row(run, build_row, &bulk);
    if (rc != FIRN_OK) {
        char text[ERROR_TEXT_BYTES];
        snprintf(text, sizeof(text), "%s", firn_error_text());
        btree_build_abandon(bulk.build);
        return rc_raise(rc, "%s", text);
    }
    FIRN_TRY(btree_build_finish(bulk.build, &end_lsn));
    FIRN_TRY(redo_flush(store_redo(run->store), end_lsn,
                        (enum redo_flush)run->options->environment.flush_log_at_commit));
    summary->rows = bulk.rows;
    summary->commits = 1;
    return FIRN_OK;
}

static firn_rc load_bulk(const struct kv_run *run, struct btree *tree, struct kv_summary *summary)
{
    struct store_session *session;
    FIRN_TRY(store_session_open(run->store, &session));
    firn_rc rc = build_rows(run, tree, session, summary);
    store_session_close(session);
    return rc;
}

firn_rc kv_load(const struct kv_run *run)
{
    struct btree *tree;
    struct kv_summary summary;
    const struct kv_options *options = run->options;
    unsigned flags = STORE_TREE_CREATE | (options->shared ? STORE_TREE_SHARED : 0U);
    FIRN_TRY(store_tree(run->store, options->tree, flags, &tree));
    kv_summary_start(run, &summary);
    firn_rc rc = options->bulk ? load_bulk(run, tree, &summary) : load_rows(run, tree, &summary);
    if (rc == FIRN_E_STOPPED && atomic_load(run->stop))
        return kv_raise_interrupted("loaded", summary.rows);
    if (rc != FIRN_OK)
        return rc_raise(rc, "%s; %llu rows were loaded", firn_error_text(),
                        (unsigned long long)summary.rows);
    return kv_summary_print(run, &summary, "loaded");
}
