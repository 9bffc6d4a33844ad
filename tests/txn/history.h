/*
 * history.h -- what concurrent transactions did and saw, and whether an isolation level allows it.
 *
 * After Elle (Kingsbury, Alvaro, "Elle: Inferring Isolation Anomalies from Experimental
 * Observations", 2020). There are two kinds of keys. A *list* grows: transactions append numbers,
 * each of which is appended once, and a read returns the whole list. So any read tells in which
 * order the list's versions came. A *register* is replaced; whoever writes it notes which number he
 * has replaced, so its versions make a chain.
 *
 * From the order of versions follow dependencies between transactions (Adya, 1999):
 *
 *   ww  one made the version that comes after the other's
 *   wr  one read the version that the other made
 *   rw  one read a version, and the other made the one after it
 *   rt  one was acknowledged before the other began
 *
 * and a level is what cycles of these there must not be:
 *
 *   serializable         none at all (rt included: strict serializability)
 *   snapshot isolation   none without two rw in a row (Fekete et al., 2005; Cerone, Gotsman, 2016);
 *                        so lost updates, fractured reads and long forks are ruled out
 *   read committed       each statement reads one moment: the same as for snapshot isolation, with
 *                        each statement that reads taken for a transaction of its own
 *
 * Whoever was rolled back has read, too, and must have seen what the level allows; what he wrote
 * must be seen by nobody. Beside cycles, reads are held against what their own transaction wrote,
 * and what is there in the end against what was acknowledged, also after a crash: then the last
 * transactions may be gone, if they had not been acknowledged, each of them wholly, and nothing
 * that depends on them is left.
 */
#ifndef FIRN_TESTS_TXN_HISTORY_H
#define FIRN_TESTS_TXN_HISTORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HISTORY_SESSIONS_MAX = 16, HISTORY_NEVER = UINT32_MAX };

enum history_level { HISTORY_READ_COMMITTED, HISTORY_SNAPSHOT, HISTORY_SERIALIZABLE };

enum history_outcome {
    HISTORY_ABORTED, /* also one that was still open at a crash */
    HISTORY_COMMITTED,
    HISTORY_IN_DOUBT, /* its commit was under way at a crash */
};

enum history_kind {
    HISTORY_APPEND, /* value, to a list */
    HISTORY_LIST,   /* what a list was */
    HISTORY_WRITE,  /* value, in place of `replaced` */
    HISTORY_VALUE,  /* what a register was; 0: there was none */
};

struct history_op {
    enum history_kind kind;
    uint32_t key;
    int64_t value;
    int64_t replaced;
    uint32_t list_first; /* in the log's elements */
    uint32_t list_count;
    uint32_t statement; /* of its log */
    uint32_t undone_at; /* by going back to a savepoint before this operation of the log */
};

struct history_txn {
    uint32_t ops_first; /* of its log */
    uint32_t ops_end;
    enum history_outcome outcome;
    uint64_t begin; /* on the history's clock: before its first statement */
    uint64_t end;   /* once it was acknowledged */
};

struct history_statement {
    uint64_t begin;
    uint64_t end;
};

struct history;

/** What one session did, written by its thread alone. */
struct history_log {
    struct history *history;
    struct history_txn *txns;
    size_t txn_count, txn_capacity;
    struct history_op *ops;
    size_t op_count, op_capacity;
    struct history_statement *statements;
    size_t statement_count, statement_capacity;
    int64_t *elements;
    size_t element_count, element_capacity;
};

/** What was found in the end. */
struct history_final {
    uint32_t key;
    bool is_list;
    int64_t value;
    size_t first; /* in final_elements */
    size_t count;
};

struct history {
    atomic_uint_fast64_t clock;
    struct history_log logs[HISTORY_SESSIONS_MAX];
    bool is_crashed; /* before the end was looked at */
    struct history_final *finals;
    size_t final_count, final_capacity;
    int64_t *final_elements;
    size_t final_element_count, final_element_capacity;
    char *wrong;
};

void history_init(struct history *history);
void history_free(struct history *history);

/* ---- Recording: a session's, by its thread; memory never lacks ---- */

void history_begin(struct history_log *log);

/** A statement begins; reads behind it were made at one moment. */
void history_statement(struct history_log *log);
void history_append(struct history_log *log, uint32_t key, int64_t value);
void history_list(struct history_log *log, uint32_t key, const int64_t *elements, size_t count);
void history_write(struct history_log *log, uint32_t key, int64_t value, int64_t replaced);
void history_value(struct history_log *log, uint32_t key, int64_t value);

/** @return where a savepoint is, for history_undo. */
uint32_t history_savepoint(const struct history_log *log);
void history_undo(struct history_log *log, uint32_t savepoint);
void history_end(struct history_log *log, enum history_outcome outcome);

/** What is there at the end, after all sessions have; each key that any of them has used. */
void history_final_list(struct history *history, uint32_t key, const int64_t *elements,
                        size_t count);
void history_final_value(struct history *history, uint32_t key, int64_t value);

/* ---- Judging ---- */

struct history_counts {
    size_t txns;
    size_t committed;
    size_t in_doubt;
    size_t edges;
};

/**
 * Judge a history.
 *
 * @param counts  what was judged; may be NULL
 * @return NULL, or in words what the level does not allow; valid until the next call or
 * history_free
 */
const char *history_wrong(struct history *history, enum history_level level,
                          struct history_counts *counts);

#endif
