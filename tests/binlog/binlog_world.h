/*
 * binlog_world.h -- a store with a binary log on a simulated disk, random transactions on two
 * trees, and the judge: what the binary log adds up to must be what is in the trees.
 */
#ifndef FIRN_TESTS_BINLOG_BINLOG_WORLD_H
#define FIRN_TESTS_BINLOG_BINLOG_WORLD_H

#include "store/store_world.h"

#include "binlog/reader.h"

enum {
    BIN_TREES = 2,
    BIN_KEYS = 40,
    BIN_ROWS_MAX = BIN_TREES * (BIN_KEYS + 4),
    BIN_PAYLOAD_MAX = 20000,
};

static const char *const bin_names[BIN_TREES] = {"accounts", "orders"};

/* ---- What a binary log adds up to ---- */

struct replay_row {
    unsigned tree;
    uint8_t *key;
    size_t key_bytes;
    uint8_t *payload;
    size_t payload_bytes;
};

struct replay {
    struct replay_row rows[BIN_ROWS_MAX];
    unsigned count;
    uint64_t groups;
    uint64_t last_number;
    uint64_t last_time_us;
    uint64_t events;
    uint64_t tail_bytes;
    uint64_t last_file;
    uint64_t statements;
};

static inline void replay_free(struct replay *replay)
{
    for (unsigned i = 0; i < replay->count; i++) {
        free(replay->rows[i].key);
        free(replay->rows[i].payload);
    }
    *replay = (struct replay){.count = 0};
}

static inline struct replay_row *replay_find(struct replay *replay, unsigned tree, struct span key)
{
    for (unsigned i = 0; i < replay->count; i++) {
        struct replay_row *row = &replay->rows[i];
        if (row->tree == tree && span_compare(span_of(row->key, row->key_bytes), key) == 0)
            return row;
    }
    return NULL;
}

static inline uint8_t *bin_copy(struct span bytes)
{
    uint8_t *copy = malloc(bytes.size_bytes + 1);
    if (bytes.size_bytes > 0)
        memcpy(copy, bytes.bytes, bytes.size_bytes);
    return copy;
}

/** Carry out a row event. @return NULL, or what does not fit */
static inline const char *replay_row_event(struct replay *replay, const struct binlog_event *event,
                                           unsigned tree)
{
    struct replay_row *row = replay_find(replay, tree, event->key);
    if (event->type == BINLOG_INSERT) {
        if (row != NULL)
            return "an insert of a key that is there";
        if (replay->count == BIN_ROWS_MAX)
            return "too many keys";
        replay->rows[replay->count++] =
            (struct replay_row){tree, bin_copy(event->key), event->key.size_bytes,
                                bin_copy(event->after), event->after.size_bytes};
        return NULL;
    }
    if (row == NULL)
        return "a change of a key that is not there";
    if (span_compare(span_of(row->payload, row->payload_bytes), event->before) != 0)
        return "a before image that is not what was there";
    free(row->payload);
    if (event->type == BINLOG_UPDATE) {
        row->payload = bin_copy(event->after);
        row->payload_bytes = event->after.size_bytes;
        return NULL;
    }
    free(row->key);
    *row = replay->rows[--replay->count];
    return NULL;
}

/** Read a whole binary log. @return NULL, or what is wrong */
static inline const char *replay_log(struct io_system *system, const char *directory,
                                     struct replay *replay)
{
    struct binlog_reader_options options = {
        .system = system, .path = directory, .is_directory = true};
    struct binlog_reader *reader;
    struct binlog_event event;
    struct binlog_where where;
    uint64_t ids[BIN_TREES] = {0};
    const char *wrong = NULL;
    *replay = (struct replay){.count = 0};
    firn_rc rc = binlog_reader_open(&options, &reader);
    if (rc == FIRN_E_NOT_FOUND)
        return NULL; /* nothing has been committed yet */
    if (rc != FIRN_OK)
        return firn_error_text();
    while (wrong == NULL && (rc = binlog_reader_next(reader, &event)) == FIRN_OK) {
        if (event.type == BINLOG_BEGIN) {
            if (replay->groups > 0 && event.number != replay->last_number + 1)
                wrong = "a gap between groups";
            if (event.time_us < replay->last_time_us)
                wrong = "a time that goes back";
            replay->last_number = event.number;
            replay->last_time_us = event.time_us;
            replay->groups++;
        } else if (event.type == BINLOG_TREE) {
            for (unsigned i = 0; i < BIN_TREES; i++)
                if (span_compare(event.name, span_of_text(bin_names[i])) == 0)
                    ids[i] = event.tree_id;
        } else if (event.type == BINLOG_STATEMENT) {
            replay->statements++;
        } else if (event.type != BINLOG_COMMIT) {
            unsigned tree = 0;
            while (tree < BIN_TREES && ids[tree] != event.tree_id)
                tree++;
            wrong = tree == BIN_TREES ? "a tree without a name"
                                      : replay_row_event(replay, &event, tree);
            replay->events++;
        }
    }
    if (wrong == NULL && rc != FIRN_E_NOT_FOUND)
        wrong = firn_error_text();
    replay->tail_bytes = binlog_reader_tail_bytes(reader);
    binlog_reader_where(reader, &where);
    replay->last_file = where.file;
    binlog_reader_close(reader);
    return wrong;
}

/* ---- A world ---- */

struct bin_world {
    struct world world;
    struct btree *trees[BIN_TREES];
    struct txn_session *session;
    struct rng rng;
    uint64_t begun; /* transactions that commit */
    uint64_t acked;
    uint8_t payload[BIN_PAYLOAD_MAX];
};

static _Atomic uint64_t bin_clock_us = 1700000000000000;

/** Time goes on by a second with each look. */
static inline uint64_t bin_time_us(void)
{
    return atomic_fetch_add(&bin_clock_us, 1000000);
}

static inline void bin_init(struct bin_world *bin, struct sim_disk *disk, uint64_t seed)
{
    *bin = (struct bin_world){.begun = 0};
    rng_init(&bin->rng, seed);
    world_init(&bin->world, disk, seed);
    bin->world.options.binlog = true;
    bin->world.options.max_binlog_size_bytes = 32 << 10;
    bin->world.options.binlog_cache_size_bytes = BINLOG_CACHE_MIN_BYTES;
    bin->world.options.binlog_expire_s = 0;
    bin->world.options.binlog_time_us = bin_time_us;
}

static inline firn_rc bin_open(struct bin_world *bin)
{
    FIRN_TRY(store_open(&bin->world.options, &bin->world.store, NULL));
    firn_rc rc = FIRN_OK;
    for (unsigned i = 0; i < BIN_TREES && rc == FIRN_OK; i++)
        rc = store_tree(bin->world.store, bin_names[i], STORE_TREE_CREATE | STORE_TREE_VERSIONED,
                        &bin->trees[i]);
    if (rc == FIRN_OK)
        rc = txn_session_open(store_transactions(bin->world.store), &bin->session);
    if (rc != FIRN_OK)
        world_abandon(&bin->world);
    return rc;
}

static inline firn_rc bin_close(struct bin_world *bin)
{
    txn_session_close(bin->session);
    bin->session = NULL;
    firn_rc rc = store_close(bin->world.store);
    bin->world.store = NULL;
    return rc;
}

static inline void bin_abandon(struct bin_world *bin)
{
    txn_session_close(bin->session);
    bin->session = NULL;
    world_abandon(&bin->world);
}

static inline struct span bin_key(unsigned key, char text[32])
{
    return span_of(text, (size_t)snprintf(text, 32, "key-%03u", key));
}

static inline struct span bin_payload(struct bin_world *bin)
{
    size_t size = 8 + rng_below(&bin->rng, 150);
    unsigned kind = (unsigned)rng_below(&bin->rng, 40);
    if (kind == 0)
        size = 3000 + rng_below(&bin->rng, BIN_PAYLOAD_MAX - 3000);
    else if (kind < 4)
        size = 900 + rng_below(&bin->rng, 1200);
    for (size_t i = 0; i < size; i++)
        bin->payload[i] = (uint8_t)rng_next(&bin->rng);
    return span_of(bin->payload, size);
}

/** One random change; what is refused changes nothing. */
static inline firn_rc bin_change(struct bin_world *bin)
{
    char text[32];
    struct btree *tree = bin->trees[rng_below(&bin->rng, BIN_TREES)];
    struct span key = bin_key((unsigned)rng_below(&bin->rng, BIN_KEYS), text);
    firn_rc rc;
    switch (rng_below(&bin->rng, 5)) {
    case 0:
        rc = txn_delete(bin->session, tree, key);
        return rc == FIRN_E_NOT_FOUND ? FIRN_OK : rc;
    case 1:
        rc = txn_insert(bin->session, tree, key, bin_payload(bin));
        return rc == FIRN_E_EXISTS ? FIRN_OK : rc;
    default:
        return txn_put(bin->session, tree, key, bin_payload(bin));
    }
}

/** Changes, some of which are taken back. */
static inline firn_rc bin_changes(struct bin_world *bin)
{
    unsigned changes = 1 + (unsigned)rng_below(&bin->rng, 8);
    for (unsigned i = 0; i < changes; i++) {
        if (rng_below(&bin->rng, 6) != 0) {
            FIRN_TRY(bin_change(bin));
            continue;
        }
        struct txn_savepoint savepoint;
        FIRN_TRY(txn_savepoint(bin->session, &savepoint));
        for (unsigned j = (unsigned)rng_below(&bin->rng, 4); j > 0; j--)
            FIRN_TRY(bin_change(bin));
        FIRN_TRY(txn_rollback_to(bin->session, &savepoint));
    }
    return FIRN_OK;
}

/** Each transaction that commits says its number in a row of its own. */
static inline firn_rc bin_number_row(struct bin_world *bin, uint64_t number)
{
    uint8_t bytes[8];
    put_u64(bytes, number);
    return txn_put(bin->session, bin->trees[0], span_of_text("number"), span_of(bytes, 8));
}

/** End a transaction with a prepared state between. */
static inline firn_rc bin_two_phases(struct bin_world *bin)
{
    struct span xid = span_of_text("two phases");
    FIRN_TRY(txn_prepare(bin->session, xid));
    if (rng_below(&bin->rng, 3) == 0)
        FIRN_TRY(store_tick(bin->world.store));
    return txn_commit_prepared(bin->session, xid);
}

/** A random transaction. After a failure it may be open. */
static inline firn_rc bin_transaction(struct bin_world *bin)
{
    FIRN_TRY(txn_begin(bin->session, TXN_READ_COMMITTED, false));
    FIRN_TRY(bin_changes(bin));
    if (rng_below(&bin->rng, 7) == 0)
        return txn_rollback(bin->session);
    FIRN_TRY(bin_number_row(bin, bin->begun + 1));
    bin->begun++;
    if (rng_below(&bin->rng, 8) == 0)
        FIRN_TRY(bin_two_phases(bin));
    else
        FIRN_TRY(txn_commit(bin->session));
    bin->acked = bin->begun;
    return FIRN_OK;
}

/** Transactions, and what goes on beside them. */
static inline firn_rc bin_work(struct bin_world *bin, unsigned transactions)
{
    for (unsigned i = 0; i < transactions; i++) {
        FIRN_TRY(bin_transaction(bin));
        if (rng_below(&bin->rng, 4) == 0)
            FIRN_TRY(store_tick(bin->world.store));
        if (rng_below(&bin->rng, 20) == 0)
            FIRN_TRY(store_checkpoint(bin->world.store));
        if (rng_below(&bin->rng, 30) == 0)
            binlog_rotate(store_binlog(bin->world.store));
    }
    return FIRN_OK;
}

/* ---- The judge ---- */

/** @return what is wrong with a tree's rows, held against the replay. */
static inline const char *bin_tree_wrong(struct bin_world *bin, struct replay *replay,
                                         unsigned tree)
{
    struct txn_cursor *cursor;
    const char *wrong = NULL;
    unsigned rows = 0, wanted = 0;
    if (txn_cursor_open(bin->session, bin->trees[tree], TXN_LOCK_NONE, TXN_WAIT, &cursor) !=
        FIRN_OK)
        return firn_error_text();
    firn_rc rc = txn_cursor_seek(cursor, BTREE_SEEK_FIRST, span_of(NULL, 0));
    for (; rc == FIRN_OK && wrong == NULL; rows++) {
        struct span payload;
        const struct replay_row *row = replay_find(replay, tree, txn_cursor_key(cursor));
        if (txn_cursor_payload(cursor, &payload) != FIRN_OK)
            wrong = firn_error_text();
        else if (row == NULL)
            wrong = "a row that the binary log does not have";
        else if (span_compare(span_of(row->payload, row->payload_bytes), payload) != 0)
            wrong = "a row with another payload than the binary log has";
        rc = txn_cursor_next(cursor);
    }
    txn_cursor_close(cursor);
    for (unsigned i = 0; i < replay->count; i++)
        wanted += replay->rows[i].tree == tree;
    if (wrong == NULL && rows != wanted)
        wrong = "rows of the binary log are missing in the tree";
    return wrong;
}

/** The number that the last transaction has left; 0: none. */
static inline uint64_t bin_number(struct bin_world *bin, struct replay *replay)
{
    const struct replay_row *row = replay_find(replay, 0, span_of_text("number"));
    (void)bin;
    return row == NULL ? 0 : get_u64(row->payload);
}

/** Hold the trees of an open store against its binary log, all of which is laid out first.
 * @return NULL, or what is wrong */
static inline const char *bin_wrong(struct bin_world *bin)
{
    static char text[600];
    struct replay replay;
    if (binlog_flush(store_binlog(bin->world.store)) != FIRN_OK)
        return firn_error_text();
    const char *wrong = replay_log(bin->world.system, "db", &replay);
    if (wrong == NULL && replay.tail_bytes != 0)
        wrong = "bytes behind the last group";
    if (wrong == NULL && replay.last_number != binlog_last_number(store_binlog(bin->world.store)))
        wrong = "not the last group at the end";
    if (wrong == NULL && txn_begin(bin->session, TXN_REPEATABLE_READ, true) != FIRN_OK)
        wrong = firn_error_text();
    for (unsigned i = 0; i < BIN_TREES && wrong == NULL; i++)
        wrong = bin_tree_wrong(bin, &replay, i);
    if (txn_is_open(bin->session) && txn_commit(bin->session) != FIRN_OK)
        wrong = firn_error_text();
    uint64_t number = bin_number(bin, &replay);
    if (wrong == NULL && (number < bin->acked || number > bin->begun)) {
        snprintf(text, sizeof text, "transaction %llu is the last; %llu acknowledged, %llu begun",
                 (unsigned long long)number, (unsigned long long)bin->acked,
                 (unsigned long long)bin->begun);
        wrong = text;
    }
    bin->begun = bin->acked = number;
    replay_free(&replay);
    return wrong;
}

/** After a crash: decide about what a user had prepared. */
static inline firn_rc bin_decide(struct bin_world *bin)
{
    struct span xid = span_of_text("two phases");
    firn_rc rc = rng_below(&bin->rng, 2) == 0 ? txn_commit_prepared(bin->session, xid)
                                              : txn_rollback_prepared(bin->session, xid);
    if (rc != FIRN_OK && rc != FIRN_E_NOT_FOUND)
        return rc;
    return txn_settle(store_transactions(bin->world.store));
}

#endif
