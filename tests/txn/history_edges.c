/*
 * history_edges.c -- who depends on whom, and whether the end is what was acknowledged.
 */
#include "txn/history_internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- Nodes ---- */

static void make_nodes(struct judge *judge)
{
    uint32_t count = (uint32_t)judge->txn_count;
    for (unsigned i = 0; i < HISTORY_SESSIONS_MAX; i++) {
        judge->log_nodes[i] = count;
        if (judge->by_statement)
            count += (uint32_t)judge->history->logs[i].statement_count;
    }
    judge->node_count = count;
    judge->node_txns = calloc(count + 1, sizeof *judge->node_txns);
    for (uint32_t t = 0; t < judge->txn_count; t++) {
        const struct judged_txn *txn = &judge->txns[t];
        judge->node_txns[t] = t;
        if (!judge->by_statement)
            continue;
        for (uint32_t i = txn->txn->ops_first; i < txn->txn->ops_end; i++)
            judge->node_txns[judge->log_nodes[txn->session - 1] + txn->log->ops[i].statement] = t;
    }
}

/* Who a read is taken to be made by. */
static uint32_t reading_node(const struct judge *judge, uint32_t txn, const struct history_op *op)
{
    return judge->by_statement ? judge->log_nodes[judge->txns[txn].session - 1] + op->statement
                               : txn;
}

static void add_edge(struct judge *judge, struct edge edge)
{
    if (edge.from == edge.to)
        return;
    if (judge->edge_count == judge->edge_capacity) {
        judge->edge_capacity = judge->edge_capacity == 0 ? 1024 : judge->edge_capacity * 2;
        judge->edges = realloc(judge->edges, judge->edge_capacity * sizeof *judge->edges);
        if (judge->edges == NULL)
            abort();
    }
    judge->edges[judge->edge_count++] = edge;
}

/* ---- ww ---- */

static void order_list_writers(struct judge *judge, uint32_t key)
{
    const struct judged_key *known = &judge->keys[key];
    for (size_t i = 1; i < known->count; i++)
        add_edge(judge, (struct edge){judge_find(judge, key, known->elements[i - 1])->txn,
                                      judge_find(judge, key, known->elements[i])->txn, EDGE_WW, key,
                                      true, known->elements[i - 1], known->elements[i]});
}

static void order_register_writers(struct judge *judge)
{
    for (size_t i = 0; i < judge->write_count; i++) {
        const struct judged_write *write = &judge->writes[i];
        if (write->is_list || write->next == HISTORY_NEVER)
            continue;
        const struct judged_write *next = &judge->writes[write->next];
        add_edge(judge, (struct edge){write->txn, next->txn, EDGE_WW, write->key, false,
                                      write->value, next->value});
    }
}

/* ---- wr and rw ---- */

static void add_list_read(struct judge *judge, uint32_t txn, const struct history_op *op)
{
    const struct judged_key *known = &judge->keys[op->key];
    uint32_t reader = reading_node(judge, txn, op);
    size_t count = judge_foreign_count(judge, txn, op);
    int64_t last = count > 0 ? judge_elements(judge, txn, op)[count - 1] : 0;
    if (count > 0)
        add_edge(judge, (struct edge){judge_find(judge, op->key, last)->txn, reader, EDGE_WR,
                                      op->key, true, last, 0});
    if (count < known->count)
        add_edge(judge,
                 (struct edge){reader, judge_find(judge, op->key, known->elements[count])->txn,
                               EDGE_RW, op->key, true, last, known->elements[count]});
}

static void add_value_read(struct judge *judge, uint32_t txn, const struct history_op *op)
{
    uint32_t reader = reading_node(judge, txn, op);
    uint32_t next = judge->keys[op->key].first;
    if (op->value != 0) {
        const struct judged_write *write = judge_find(judge, op->key, op->value);
        if (write->txn == txn)
            return;
        add_edge(judge, (struct edge){write->txn, reader, EDGE_WR, op->key, false, op->value, 0});
        next = write->next;
    }
    if (next != HISTORY_NEVER)
        add_edge(judge, (struct edge){reader, judge->writes[next].txn, EDGE_RW, op->key, false,
                                      op->value, judge->writes[next].value});
}

static void add_reads(struct judge *judge)
{
    for (uint32_t t = 0; t < judge->txn_count; t++)
        for (uint32_t i = judge->txns[t].txn->ops_first; i < judge->txns[t].txn->ops_end; i++) {
            const struct history_op *op = &judge->txns[t].log->ops[i];
            if (op->kind == HISTORY_LIST)
                add_list_read(judge, t, op);
            else if (op->kind == HISTORY_VALUE)
                add_value_read(judge, t, op);
        }
}

/* ---- rt ---- */

struct moment {
    uint64_t when;
    uint32_t node;
    bool is_end;
};

static int compare_moments(const void *left, const void *right)
{
    const struct moment *a = left;
    const struct moment *b = right;
    return (a->when > b->when) - (a->when < b->when);
}

static size_t add_moments(struct moment *moments, size_t count, uint32_t node, uint64_t begin,
                          uint64_t end)
{
    if (begin == 0)
        return count;
    moments[count++] = (struct moment){begin, node, false};
    if (end != 0)
        moments[count++] = (struct moment){end, node, true};
    return count;
}

static size_t gather_moments(const struct judge *judge, struct moment *moments)
{
    size_t count = 0;
    for (uint32_t t = 0; t < judge->txn_count; t++)
        count = add_moments(moments, count, t, judge->txns[t].txn->begin, judge->txns[t].txn->end);
    for (unsigned i = 0; i < HISTORY_SESSIONS_MAX && judge->by_statement; i++) {
        const struct history_log *log = &judge->history->logs[i];
        for (uint32_t j = 0; j < log->statement_count; j++)
            count = add_moments(moments, count, judge->log_nodes[i] + j, log->statements[j].begin,
                                log->statements[j].end);
    }
    qsort(moments, count, sizeof *moments, compare_moments);
    return count;
}

/* Those that have ended, without those that others which have ended come behind: who begins comes
 * behind these, and through them behind all. */
static void order_by_time(struct judge *judge)
{
    struct moment *moments = calloc(2 * (size_t)judge->node_count + 1, sizeof *moments);
    uint64_t *begins = calloc((size_t)judge->node_count + 1, sizeof *begins);
    struct moment *ended = calloc((size_t)judge->node_count + 1, sizeof *ended);
    size_t count = gather_moments(judge, moments), ended_count = 0;
    for (size_t i = 0; i < count; i++) {
        const struct moment *moment = &moments[i];
        if (!moment->is_end) {
            begins[moment->node] = moment->when;
            for (size_t j = 0; j < ended_count; j++)
                add_edge(judge,
                         (struct edge){.from = ended[j].node, .to = moment->node, .kind = EDGE_RT});
            continue;
        }
        size_t kept = 0;
        for (size_t j = 0; j < ended_count; j++)
            if (ended[j].when > begins[moment->node])
                ended[kept++] = ended[j];
        ended[kept++] = *moment;
        ended_count = kept;
    }
    free(moments);
    free(begins);
    free(ended);
}

void judge_edges(struct judge *judge, bool by_statement)
{
    free(judge->node_txns);
    judge->edge_count = 0;
    judge->by_statement = by_statement;
    make_nodes(judge);
    for (uint32_t key = 0; key < judge->key_count; key++)
        order_list_writers(judge, key);
    order_register_writers(judge);
    add_reads(judge);
    order_by_time(judge);
}

/* ---- The end ---- */

/* The versions that are there, or that others which are there have replaced. */
static const char *mark_kept(struct judge *judge, const struct history_final *final)
{
    for (size_t i = 0; i < final->count; i++) {
        int64_t value = judge->history->final_elements[final->first + i];
        struct judged_write *write = judge_find(judge, final->key, value);
        if (write == NULL || !judge->txns[write->txn].is_live || write->is_undone)
            return judge_say(judge, "in the end %lld is in list %u, and nobody has committed it",
                             (long long)value, final->key);
        write->is_kept = true;
    }
    uint32_t next = judge->keys[final->key].first;
    bool is_found = final->is_list || final->value == 0;
    while (!is_found && next != HISTORY_NEVER) {
        struct judged_write *write = &judge->writes[next];
        write->is_kept = true;
        is_found = write->value == final->value;
        next = write->next;
    }
    return is_found
               ? NULL
               : judge_say(judge, "in the end register %u is %lld, and nobody has committed that",
                           final->key, (long long) final->value);
}

static const char *judge_kept(struct judge *judge, uint32_t t)
{
    char who[32];
    const struct judged_txn *txn = &judge->txns[t];
    judge_name(judge, t, who);
    if (txn->is_kept && txn->is_lost)
        return judge_say(judge,
                         "half a transaction: only some of what %s wrote is there in the end", who);
    if (txn->is_lost && txn->txn->outcome == HISTORY_COMMITTED)
        return judge_say(judge, "lost commit: %s was acknowledged, and is not there in the end",
                         who);
    if (txn->is_lost && !judge->history->is_crashed)
        return judge_say(judge, "%s was seen, and is not there in the end", who);
    return NULL;
}

static const char *judge_left_overs(struct judge *judge)
{
    char one[32], other[32];
    for (size_t i = 0; i < judge->edge_count; i++) {
        const struct edge *edge = &judge->edges[i];
        uint32_t from = judge->node_txns[edge->from], to = judge->node_txns[edge->to];
        if ((edge->kind == EDGE_WW || edge->kind == EDGE_WR) && judge->txns[from].is_lost &&
            judge->txns[to].is_kept)
            return judge_say(judge, "%s is there in the end, and %s, which it depends on, is not",
                             judge_name(judge, to, one), judge_name(judge, from, other));
    }
    return NULL;
}

const char *judge_end(struct judge *judge)
{
    const struct history *history = judge->history;
    const char *wrong = NULL;
    if (history->final_count == 0)
        return NULL;
    for (size_t i = 0; i < history->final_count && wrong == NULL; i++)
        wrong = mark_kept(judge, &history->finals[i]);
    for (size_t i = 0; i < judge->write_count; i++) {
        const struct judged_write *write = &judge->writes[i];
        struct judged_txn *txn = &judge->txns[write->txn];
        if (write->is_undone || !txn->is_live)
            continue;
        txn->is_kept = txn->is_kept || write->is_kept;
        txn->is_lost = txn->is_lost || !write->is_kept;
    }
    for (uint32_t t = 0; t < judge->txn_count && wrong == NULL; t++)
        wrong = judge_kept(judge, t);
    return wrong != NULL ? wrong : judge_left_overs(judge);
}
