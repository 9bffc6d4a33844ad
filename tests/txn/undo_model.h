/*
 * undo_model.h -- random lives of undo logs beside a history of what was done, which says what may
 * be found after a crash.
 *
 * Each operation that changes what is found is one mini-transaction, and mini-transactions survive
 * in the order of the log. So what is found must be the state after the first j operations, for
 * some j from the last one acknowledged to the last one begun.
 */
#ifndef FIRN_TESTS_TXN_UNDO_MODEL_H
#define FIRN_TESTS_TXN_UNDO_MODEL_H

#include "txn/undo_world.h"

enum {
    MODEL_OPS_MAX = 20000,
    MODEL_TXNS_MAX = 4000,
    MODEL_LIVE = 6, /* transactions at once */
    MODEL_RECORDS_MAX = 400,
};

enum op_kind { OP_APPEND, OP_REWIND, OP_PREPARE, OP_ACTIVATE, OP_COMMIT, OP_ROLL_BACK, OP_PURGE };

struct op {
    enum op_kind kind;
    uint32_t txn;
    uint64_t value; /* a record's number; how many records stay; a commit number */
};

/** What a transaction's log says. */
struct txn_state {
    bool is_written;
    bool is_purged;
    enum undo_state state;
    uint64_t number;
    unsigned count;
    uint64_t records[MODEL_RECORDS_MAX];
};

/** A transaction that goes on. */
struct live {
    bool is_open;
    uint32_t txn;
    bool is_prepared;
    unsigned count;
    undo_pointer pointers[MODEL_RECORDS_MAX];
    struct undo_log log;
};

struct model {
    struct rng rng;
    unsigned begun;
    unsigned acked;
    struct op ops[MODEL_OPS_MAX];
    uint32_t txns; /* ids 1 to this one have been used */
    uint64_t number;
    uint64_t record;
    struct live live[MODEL_LIVE];
    struct txn_state states[MODEL_TXNS_MAX]; /* scratch: see model_replay */
    uint8_t bytes[PAGE];
    struct undo_buffer buffer;
};

static struct model model;

static inline void model_begin(uint64_t seed)
{
    undo_buffer_free(&model.buffer);
    memset(&model, 0, sizeof model);
    rng_init(&model.rng, seed);
}

static inline struct op *model_note(enum op_kind kind, uint32_t txn, uint64_t value)
{
    assert_true(model.begun < MODEL_OPS_MAX);
    model.ops[model.begun] = (struct op){kind, txn, value};
    return &model.ops[model.begun++];
}

/** What fails while the log lives has changed nothing. */
static inline firn_rc model_result(firn_rc rc)
{
    if (rc != FIRN_OK && redo_status(world.redo) == FIRN_OK)
        model.begun--;
    return rc;
}

/* ---- What is done ---- */

static inline firn_rc model_open(struct live *live)
{
    assert_true(model.txns + 1 < MODEL_TXNS_MAX);
    FIRN_TRY(undo_cover_id(undo, &world.mtr, model.txns + 1));
    FIRN_TRY(undo_begin(undo, &world.mtr, model.txns + 1, &live->log));
    live->is_open = true;
    live->is_prepared = false;
    live->count = 0;
    live->txn = ++model.txns;
    return FIRN_OK;
}

static inline firn_rc model_append(struct live *live)
{
    undo_pointer at = 0;
    if (live->count == MODEL_RECORDS_MAX)
        return FIRN_OK;
    struct op *op = model_note(OP_APPEND, live->txn, ++model.record);
    FIRN_TRY(
        model_result(append_to(&live->log, &world.mtr, record_make(model.bytes, op->value), &at)));
    live->pointers[live->count++] = at;
    return FIRN_OK;
}

static inline firn_rc model_rewind(struct live *live)
{
    if (live->count == 0)
        return FIRN_OK;
    unsigned stays = (unsigned)rng_below(&model.rng, live->count);
    model_note(OP_REWIND, live->txn, stays);
    undo_pointer last = stays > 0 ? live->pointers[stays - 1] : 0;
    FIRN_TRY(model_result(undo_rewind(&live->log, &world.mtr, last)));
    live->count = stays;
    return FIRN_OK;
}

static inline struct span model_xid(uint32_t txn, char text[64])
{
    return span_of(text, (size_t)snprintf(text, 64, "transaction %u", txn));
}

static inline firn_rc model_prepare(struct live *live)
{
    char text[64];
    enum undo_state state = live->is_prepared ? UNDO_ACTIVE : UNDO_PREPARED;
    model_note(live->is_prepared ? OP_ACTIVATE : OP_PREPARE, live->txn, 0);
    FIRN_TRY(model_result(mark(&live->log, &world.mtr, state, 0, model_xid(live->txn, text))));
    live->is_prepared = !live->is_prepared;
    return FIRN_OK;
}

static inline firn_rc model_end(struct live *live, bool commits)
{
    /* Behind all that a page says already: numbers ascend in the order of the log. */
    uint64_t number = model.number + commits;
    if (!commits && live->is_prepared)
        FIRN_TRY(model_prepare(live));
    model_note(commits ? OP_COMMIT : OP_ROLL_BACK, live->txn, number);
    live->log.has_work = live->txn % 3 == 0;
    FIRN_TRY(model_result(
        finish(&live->log, &world.mtr, commits ? UNDO_COMMITTED : UNDO_ROLLED_BACK, number)));
    model.number = number;
    live->is_open = false;
    return FIRN_OK;
}

/** Make everything durable. */
static inline firn_rc model_flush(void)
{
    unsigned begun = model.begun;
    FIRN_TRY(redo_flush(world.redo, redo_reserved_lsn(world.redo), REDO_FLUSH_SYNC));
    model.acked = begun;
    return FIRN_OK;
}

static inline firn_rc model_step(struct live *live)
{
    uint64_t choice = rng_below(&model.rng, 100);
    if (!live->is_open)
        return model_open(live);
    if (live->is_prepared && choice < 89)
        return choice < 20 ? model_prepare(live) : FIRN_OK;
    if (choice < 78)
        return model_append(live);
    if (choice < 86)
        return model_rewind(live);
    if (choice < 89)
        return model_prepare(live);
    FIRN_TRY(model_end(live, choice < 97));
    return choice < 93 ? model_flush() : FIRN_OK;
}

/* ---- What is to be found ---- */

/** Make the states what they are after so many operations. */
static inline void model_apply(const struct op *op)
{
    struct txn_state *state = &model.states[op->txn];
    if (op->kind == OP_PURGE) {
        state->is_purged = true;
        return;
    }
    bool writes = op->kind == OP_APPEND || op->kind == OP_PREPARE;
    state->is_written = state->is_written || writes;
    if (op->kind == OP_APPEND)
        state->records[state->count++] = op->value;
    else if (op->kind == OP_REWIND)
        state->count = (unsigned)op->value;
    else if (op->kind == OP_PREPARE)
        state->state = UNDO_PREPARED;
    else if (op->kind == OP_ACTIVATE)
        state->state = UNDO_ACTIVE;
    else
        state->state = op->kind == OP_COMMIT ? UNDO_COMMITTED : UNDO_ROLLED_BACK;
    if (op->kind == OP_COMMIT || op->kind == OP_ROLL_BACK)
        state->number = op->value;
}

static inline void model_replay(unsigned ops)
{
    memset(model.states, 0, sizeof model.states);
    for (unsigned i = 0; i < ops; i++)
        model_apply(&model.ops[i]);
}

/** What was found of a transaction. */
struct found_txn {
    bool is_found;
    enum undo_state state; /* COMMITTED for all that has ended */
    uint64_t number;
    bool has_work;
    unsigned count;
    uint64_t records[MODEL_RECORDS_MAX]; /* the newest first */
};

static struct found_txn found_txns[MODEL_TXNS_MAX];
static struct undo_log found_logs[MODEL_LIVE];
static unsigned found_log_count;

/** @return the number of a record by its bytes; 0 if it is none */
static inline uint64_t model_record_number(struct span record)
{
    uint64_t number = record.size_bytes >= 8 ? get_u64(record.bytes) : 0;
    if (record_size(number) != record.size_bytes ||
        span_compare(record_make(model.bytes, number), record) != 0)
        return 0;
    return number;
}

/** Read a log back from its last record. */
static inline void model_find_records(struct found_txn *found, undo_pointer last)
{
    found->count = 0;
    while (last != 0) {
        struct span record;
        ASSERT_OK(undo_read(undo, last, &model.buffer, &record, &last));
        assert_true(found->count < MODEL_RECORDS_MAX);
        uint64_t number = model_record_number(record);
        assert_true(number != 0);
        found->records[found->count++] = number;
    }
}

static inline firn_rc model_find_unfinished(const struct undo_unfinished *what,
                                            const struct undo_log *log, void *context)
{
    (void)context;
    char text[64];
    struct span xid = model_xid((uint32_t)what->txn_id, text);
    assert_true(what->txn_id <= model.txns && found_log_count < MODEL_LIVE);
    struct found_txn *found = &found_txns[what->txn_id];
    assert_false(found->is_found);
    *found = (struct found_txn){.is_found = true, .state = what->state};
    if (what->state == UNDO_PREPARED)
        assert_true(span_compare(span_of(what->xid, what->xid_bytes), xid) == 0);
    model_find_records(found, log->last);
    found_logs[found_log_count++] = *log;
    return FIRN_OK;
}

/** Purge a segment, noting what it has. @param one  only the oldest log */
static inline firn_rc model_purge_segment(unsigned segment, bool one)
{
    uint64_t before = 0;
    for (;;) {
        struct undo_finished finished;
        firn_rc rc = undo_purge_first(undo, segment, &finished);
        if (rc == FIRN_E_NOT_FOUND)
            return FIRN_OK;
        FIRN_TRY(rc);
        assert_true(finished.number >= before && finished.txn_id <= model.txns);
        before = finished.number;
        struct found_txn *found = &found_txns[finished.txn_id];
        *found = (struct found_txn){.is_found = true,
                                    .state = UNDO_COMMITTED,
                                    .number = finished.number,
                                    .has_work = finished.has_work};
        model_find_records(found, finished.last);
        model_note(OP_PURGE, (uint32_t)finished.txn_id, 0);
        FIRN_TRY(undo_purge_done(undo, &world.mtr, segment));
        if (one)
            return FIRN_OK;
    }
}

/** @return true if what was found of a transaction is its state. */
static inline bool model_fits(uint32_t txn)
{
    const struct txn_state *state = &model.states[txn];
    const struct found_txn *found = &found_txns[txn];
    bool has_ended = state->state == UNDO_COMMITTED || state->state == UNDO_ROLLED_BACK;
    if (!found->is_found)
        return !state->is_written || state->is_purged;
    if (!state->is_written || found->count != state->count)
        return false;
    for (unsigned i = 0; i < state->count; i++)
        if (found->records[i] != state->records[state->count - 1 - i])
            return false;
    if (!has_ended)
        return found->state == state->state;
    return found->state == UNDO_COMMITTED && found->number == state->number &&
           found->has_work == (state->state == UNDO_COMMITTED && txn % 3 == 0);
}

/** Say what does not fit the last state, and fail. */
static inline void model_fail(void)
{
    for (uint32_t txn = 1; txn <= model.txns; txn++)
        if (!model_fits(txn))
            print_error("transaction %u: found %d, state %d, number %llu, %u records; expected %d, "
                        "state %d, number %llu, %u records, purged %d\n",
                        txn, found_txns[txn].is_found, (int)found_txns[txn].state,
                        (unsigned long long)found_txns[txn].number, found_txns[txn].count,
                        model.states[txn].is_written, (int)model.states[txn].state,
                        (unsigned long long)model.states[txn].number, model.states[txn].count,
                        model.states[txn].is_purged);
    fail_msg("what was found is no state from the acknowledged to the last begun");
}

static inline bool model_fits_after(void)
{
    for (uint32_t txn = 1; txn <= model.txns; txn++)
        if (!model_fits(txn))
            return false;
    return undo_last_number(undo) <= model.number;
}

/** Go on with the history that was found: so many operations, and what judging has purged. */
static inline void model_cut_back(unsigned ops)
{
    model.begun = ops;
    for (uint32_t txn = 1; txn <= model.txns; txn++)
        if (found_txns[txn].is_found && found_txns[txn].state == UNDO_COMMITTED)
            model_note(OP_PURGE, txn, 0);
    memset(model.live, 0, sizeof model.live);
}

/** Judge what an opening has found: ended logs are purged, others wait for model_end_found. */
static inline void model_judge(void)
{
    unsigned begun = model.begun;
    memset(found_txns, 0, sizeof found_txns);
    found_log_count = 0;
    ASSERT_OK(undo_each_unfinished(undo, model_find_unfinished, NULL));
    for (unsigned i = 0; i < undo_segment_count(undo); i++)
        ASSERT_OK(model_purge_segment(i, false));
    model_replay(model.acked);
    unsigned ops = model.acked;
    while (!model_fits_after()) {
        if (ops == begun)
            model_fail();
        model_apply(&model.ops[ops++]);
    }
    model_cut_back(ops);
}

/** Roll back what was found. */
static inline void model_end_found(void)
{
    for (unsigned i = 0; i < found_log_count; i++) {
        uint32_t txn = (uint32_t)found_logs[i].txn_id;
        struct live live = {.is_open = true,
                            .txn = txn,
                            .is_prepared = found_txns[txn].state == UNDO_PREPARED,
                            .log = found_logs[i]};
        if (live.is_prepared)
            ASSERT_OK(model_prepare(&live));
        model_note(OP_REWIND, txn, 0);
        ASSERT_OK(undo_rewind(&live.log, &world.mtr, 0));
        ASSERT_OK(model_end(&live, false));
    }
    ASSERT_OK(model_flush());
}

/** Purge a bit, or give files back. */
static inline firn_rc model_tidy(void)
{
    uint64_t pages;
    unsigned segments = undo_segment_count(undo);
    if (segments > 0)
        FIRN_TRY(model_purge_segment((unsigned)rng_below(&model.rng, segments),
                                     rng_below(&model.rng, 2) == 0));
    if (rng_below(&model.rng, 8) != 0)
        return FIRN_OK;
    firn_rc rc = undo_truncate(undo, &world.mtr, rng_below(&model.rng, 2) * 16 * PAGE, &pages);
    return rc == FIRN_E_BUSY ? FIRN_OK : rc;
}

/** Live for so many steps; stops at the first failure. */
static inline firn_rc model_live(unsigned steps)
{
    for (unsigned i = 0; i < steps; i++) {
        if (rng_below(&model.rng, 30) == 0)
            FIRN_TRY(model_tidy());
        else
            FIRN_TRY(model_step(&model.live[rng_below(&model.rng, MODEL_LIVE)]));
        if (rng_below(&model.rng, 25) == 0)
            FIRN_TRY(model_flush());
        if (rng_below(&model.rng, 40) == 0)
            FIRN_TRY(buffer_flush(world.pool, UINT64_MAX));
    }
    return FIRN_OK;
}

#endif
