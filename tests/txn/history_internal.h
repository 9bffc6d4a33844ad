/*
 * history_internal.h -- what the judge of histories passes from one of its parts to the next.
 */
#ifndef FIRN_TESTS_TXN_HISTORY_INTERNAL_H
#define FIRN_TESTS_TXN_HISTORY_INTERNAL_H

#include "txn/history.h"

enum { HISTORY_TEXT_BYTES = 8192 };

/** A transaction, of all logs together. */
struct judged_txn {
    const struct history_log *log;
    const struct history_txn *txn;
    unsigned session;
    unsigned number; /* in its session, from 1 */
    bool is_live;    /* it has committed: acknowledged, or others have seen that it has */
    bool is_kept;    /* something that it wrote is there in the end */
    bool is_lost;    /* something that it wrote is not */
};

/** One version of one key. */
struct judged_write {
    uint32_t key;
    int64_t value;
    uint32_t txn;
    bool is_list;
    bool is_undone;
    bool is_last;     /* of its transaction's for this key */
    bool is_kept;     /* it, or what has replaced it, is there in the end */
    int64_t replaced; /* of a register */
    uint32_t next;    /* the write that has replaced it; HISTORY_NEVER: none */
};

/** What is known of a key. */
struct judged_key {
    const int64_t *elements; /* of a list: the longest that anybody has read */
    size_t count;
    char reader[32];
    uint32_t first; /* of a register: the write that replaced nothing; HISTORY_NEVER: none */
};

enum edge_kind { EDGE_WW, EDGE_WR, EDGE_RW, EDGE_RT };

struct edge {
    uint32_t from; /* nodes */
    uint32_t to;
    enum edge_kind kind;
    uint32_t key;
    bool is_list;
    int64_t value; /* ww: the older version; wr: what was read; rw: what was read, 0 for nothing */
    int64_t next;  /* ww, rw: the newer version */
};

struct judge {
    struct history *history;
    enum history_level level;
    char *text; /* what is wrong, of HISTORY_TEXT_BYTES */

    struct judged_txn *txns;
    size_t txn_count;
    struct judged_write *writes; /* by key and value */
    size_t write_count;
    struct judged_key *keys;
    uint32_t key_count;

    /* Nodes: transactions, and behind them, if reads are taken for transactions of their own, the
     * statements of each log. */
    bool by_statement;
    uint32_t node_count;
    uint32_t *node_txns;                      /* whose a node is */
    uint32_t log_nodes[HISTORY_SESSIONS_MAX]; /* the first statement's node of a log */

    struct edge *edges;
    size_t edge_count, edge_capacity;
};

/** Keep a sentence. @return it */
const char *judge_say(struct judge *judge, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** Write a transaction's name: "T2.17", session and number. @return `text` */
const char *judge_name(const struct judge *judge, uint32_t txn, char text[32]);

/** @return the write that made a version; NULL: nobody has */
struct judged_write *judge_find(const struct judge *judge, uint32_t key, int64_t value);

/** An operation of a transaction, undone or not, is a read. */
static inline bool judge_is_read(const struct history_op *op)
{
    return op->kind == HISTORY_LIST || op->kind == HISTORY_VALUE;
}

/** history_versions.c: which versions there are and in which order. @return NULL, or what is wrong
 */
const char *judge_versions(struct judge *judge);

/** The elements that a read of a list returned. */
static inline const int64_t *judge_elements(const struct judge *judge, uint32_t txn,
                                            const struct history_op *op)
{
    return judge->txns[txn].log->elements + op->list_first;
}

/** How many of them others have appended: what the transaction itself has appended stands behind
 * them. */
size_t judge_foreign_count(const struct judge *judge, uint32_t txn, const struct history_op *op);

/** history_edges.c: who depends on whom; in place of what was there. */
void judge_edges(struct judge *judge, bool by_statement);

/** history_cycles.c: what cycles there are. @return NULL, or what is wrong */
const char *judge_cycles(struct judge *judge);

/** history_edges.c: is what is there in the end what was acknowledged? @return NULL, or not */
const char *judge_end(struct judge *judge);

#endif
