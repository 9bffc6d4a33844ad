/*
 * history_versions.c -- which versions there are, in which order, and whether each read saw what
 * may be seen of them at all.
 */
#include "txn/history_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Writes ---- */

static int compare_writes(const void *left, const void *right)
{
    const struct judged_write *a = left;
    const struct judged_write *b = right;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return (a->value > b->value) - (a->value < b->value);
}

struct judged_write *judge_find(const struct judge *judge, uint32_t key, int64_t value)
{
    struct judged_write wanted = {.key = key, .value = value};
    return judge->write_count == 0
               ? NULL
               : bsearch(&wanted, judge->writes, judge->write_count, sizeof wanted, compare_writes);
}

/* Those of one transaction, in its order; `first` is its first one's place. */
static void add_write(struct judge *judge, uint32_t txn, const struct history_op *op, size_t first)
{
    bool is_undone = op->undone_at != HISTORY_NEVER;
    for (size_t i = first; i < judge->write_count && !is_undone; i++)
        if (judge->writes[i].key == op->key)
            judge->writes[i].is_last = false;
    judge->writes[judge->write_count++] =
        (struct judged_write){.key = op->key,
                              .value = op->value,
                              .txn = txn,
                              .is_list = op->kind == HISTORY_APPEND,
                              .is_undone = is_undone,
                              .is_last = !is_undone,
                              .replaced = op->replaced,
                              .next = HISTORY_NEVER};
}

static const char *gather_writes(struct judge *judge)
{
    size_t total = 0;
    for (unsigned i = 0; i < HISTORY_SESSIONS_MAX; i++)
        total += judge->history->logs[i].op_count;
    judge->writes = calloc(total + 1, sizeof *judge->writes);
    for (uint32_t t = 0; t < judge->txn_count; t++) {
        size_t first = judge->write_count;
        const struct history_log *log = judge->txns[t].log;
        for (uint32_t i = judge->txns[t].txn->ops_first; i < judge->txns[t].txn->ops_end; i++)
            if (!judge_is_read(&log->ops[i]))
                add_write(judge, t, &log->ops[i], first);
    }
    if (judge->write_count > 0)
        qsort(judge->writes, judge->write_count, sizeof *judge->writes, compare_writes);
    for (size_t i = 1; i < judge->write_count; i++)
        if (compare_writes(&judge->writes[i - 1], &judge->writes[i]) == 0)
            return judge_say(judge, "the history is none: %lld is written to key %u twice",
                             (long long)judge->writes[i].value, judge->writes[i].key);
    return NULL;
}

/* ---- Who has committed although nobody was told ---- */

static void see(struct judge *judge, uint32_t reader, uint32_t key, int64_t value)
{
    const struct judged_write *write = judge_find(judge, key, value);
    if (write == NULL || write->txn == reader)
        return;
    struct judged_txn *writer = &judge->txns[write->txn];
    writer->is_live = writer->is_live || writer->txn->outcome == HISTORY_IN_DOUBT;
}

static void see_op(struct judge *judge, uint32_t reader, const struct history_op *op)
{
    const int64_t *elements = judge_elements(judge, reader, op);
    for (uint32_t i = 0; op->kind == HISTORY_LIST && i < op->list_count; i++)
        see(judge, reader, op->key, elements[i]);
    if (op->kind == HISTORY_VALUE)
        see(judge, reader, op->key, op->value);
    if (op->kind == HISTORY_WRITE)
        see(judge, reader, op->key, op->replaced);
}

static void see_all(struct judge *judge)
{
    const struct history *history = judge->history;
    for (uint32_t t = 0; t < judge->txn_count; t++)
        for (uint32_t i = judge->txns[t].txn->ops_first; i < judge->txns[t].txn->ops_end; i++)
            see_op(judge, t, &judge->txns[t].log->ops[i]);
    for (size_t i = 0; i < history->final_count; i++) {
        const struct history_final *final = &history->finals[i];
        for (size_t j = 0; j < final->count; j++)
            see(judge, UINT32_MAX, final->key, history->final_elements[final->first + j]);
        if (!final->is_list)
            see(judge, UINT32_MAX, final->key, final->value);
    }
}

/* ---- Reads ---- */

size_t judge_foreign_count(const struct judge *judge, uint32_t txn, const struct history_op *op)
{
    const int64_t *elements = judge_elements(judge, txn, op);
    size_t count = op->list_count;
    while (count > 0) {
        const struct judged_write *write = judge_find(judge, op->key, elements[count - 1]);
        if (write == NULL || write->txn != txn)
            break;
        count--;
    }
    return count;
}

/* Was a write of a transaction made before one of its operations, and not undone by then? */
static bool is_own_then(const struct history_op *write, uint32_t write_at, uint32_t at)
{
    return write_at < at && write->undone_at > at;
}

/* A version that somebody has seen: is it one of a transaction that others may see? */
static const char *judge_seen(struct judge *judge, uint32_t reader, uint32_t key, int64_t value,
                              const char *verb)
{
    char who[32], whose[32];
    const struct judged_write *write = judge_find(judge, key, value);
    judge_name(judge, reader, who);
    if (write == NULL)
        return judge_say(judge, "%s %s %lld in key %u, which nobody has written", who, verb,
                         (long long)value, key);
    const struct judged_txn *writer = &judge->txns[write->txn];
    judge_name(judge, write->txn, whose);
    if (writer->txn->outcome == HISTORY_ABORTED)
        return judge_say(judge,
                         "aborted read (G1a): %s %s %lld in key %u, which %s wrote, and that was "
                         "rolled back",
                         who, verb, (long long)value, key, whose);
    if (write->is_undone)
        return judge_say(judge,
                         "aborted read (G1a): %s %s %lld in key %u, which %s wrote and undid by "
                         "going back to a savepoint",
                         who, verb, (long long)value, key, whose);
    return NULL;
}

static const char *judge_last(struct judge *judge, uint32_t reader, uint32_t key, int64_t value)
{
    char who[32], whose[32];
    const struct judged_write *write = judge_find(judge, key, value);
    if (write->is_last)
        return NULL;
    return judge_say(judge,
                     "intermediate read (G1b): %s saw %lld in key %u, behind which %s wrote more",
                     judge_name(judge, reader, who), (long long)value, key,
                     judge_name(judge, write->txn, whose));
}

/* What others have appended, and behind it what the reader has. */
static const char *judge_list_read(struct judge *judge, uint32_t txn, uint32_t at)
{
    char who[32];
    const struct history_log *log = judge->txns[txn].log;
    const struct history_op *op = &log->ops[at];
    const int64_t *elements = judge_elements(judge, txn, op);
    size_t foreign = judge_foreign_count(judge, txn, op), own = foreign;
    for (size_t i = 0; i < foreign; i++) {
        const char *wrong = judge_seen(judge, txn, op->key, elements[i], "saw");
        if (wrong != NULL)
            return wrong;
    }
    for (uint32_t i = judge->txns[txn].txn->ops_first; i < at; i++) {
        const struct history_op *write = &log->ops[i];
        if (write->kind != HISTORY_APPEND || write->key != op->key || !is_own_then(write, i, at))
            continue;
        if (own == op->list_count || elements[own] != write->value)
            return judge_say(judge, "%s does not see in list %u the %lld that it has appended",
                             judge_name(judge, txn, who), op->key, (long long)write->value);
        own++;
    }
    if (own != op->list_count)
        return judge_say(judge, "%s sees in list %u the %lld of its own that is not there",
                         judge_name(judge, txn, who), op->key, (long long)elements[own]);
    return foreign == 0 ? NULL : judge_last(judge, txn, op->key, elements[foreign - 1]);
}

static const char *judge_value_read(struct judge *judge, uint32_t txn, uint32_t at)
{
    char who[32];
    const struct history_log *log = judge->txns[txn].log;
    const struct history_op *op = &log->ops[at];
    const struct history_op *own = NULL;
    for (uint32_t i = judge->txns[txn].txn->ops_first; i < at; i++)
        if (log->ops[i].kind == HISTORY_WRITE && log->ops[i].key == op->key &&
            is_own_then(&log->ops[i], i, at))
            own = &log->ops[i];
    if (own != NULL && own->value == op->value)
        return NULL;
    if (own != NULL)
        return judge_say(judge, "%s wrote %lld to register %u and read %lld",
                         judge_name(judge, txn, who), (long long)own->value, op->key,
                         (long long)op->value);
    if (op->value == 0)
        return NULL;
    const char *wrong = judge_seen(judge, txn, op->key, op->value, "saw");
    return wrong != NULL ? wrong : judge_last(judge, txn, op->key, op->value);
}

/* What a write has put itself in the place of: one's own, or what has been committed. */
static const char *judge_replaced(struct judge *judge, uint32_t txn, const struct history_op *op)
{
    const struct judged_write *write = judge_find(judge, op->key, op->replaced);
    if (op->replaced == 0 || (write != NULL && write->txn == txn))
        return NULL;
    const char *wrong = judge_seen(judge, txn, op->key, op->replaced, "replaced");
    return wrong != NULL ? wrong : judge_last(judge, txn, op->key, op->replaced);
}

static const char *judge_reads(struct judge *judge)
{
    const char *wrong = NULL;
    for (uint32_t t = 0; t < judge->txn_count && wrong == NULL; t++)
        for (uint32_t i = judge->txns[t].txn->ops_first;
             i < judge->txns[t].txn->ops_end && wrong == NULL; i++) {
            const struct history_op *op = &judge->txns[t].log->ops[i];
            if (op->kind == HISTORY_LIST)
                wrong = judge_list_read(judge, t, i);
            else if (op->kind == HISTORY_VALUE)
                wrong = judge_value_read(judge, t, i);
            else if (op->kind == HISTORY_WRITE)
                wrong = judge_replaced(judge, t, op);
        }
    return wrong;
}

/* ---- The order of a list's versions ---- */

static void show_list(const int64_t *elements, size_t count, char *text, size_t size_bytes)
{
    size_t used = (size_t)snprintf(text, size_bytes, "[");
    for (size_t i = 0; i < count && used < size_bytes; i++)
        used += (size_t)snprintf(text + used, size_bytes - used, i == 0 ? "%lld" : " %lld",
                                 (long long)elements[i]);
    if (used < size_bytes)
        snprintf(text + used, size_bytes - used, "]");
}

static const char *meet_list(struct judge *judge, uint32_t key, const int64_t *elements,
                             size_t count, const char *reader)
{
    struct judged_key *known = &judge->keys[key];
    size_t common = count < known->count ? count : known->count;
    if (common > 0 && memcmp(elements, known->elements, common * sizeof *elements) != 0) {
        char one[1024], other[1024];
        show_list(elements, count, one, sizeof one);
        show_list(known->elements, known->count, other, sizeof other);
        return judge_say(judge,
                         "lost or reordered appends: %s saw list %u as %s and %s as %s, which no "
                         "order of versions explains",
                         reader, key, one, known->reader, other);
    }
    if (count > known->count) {
        known->elements = elements;
        known->count = count;
        snprintf(known->reader, sizeof known->reader, "%s", reader);
    }
    return NULL;
}

static const char *order_lists(struct judge *judge)
{
    char who[32];
    const struct history *history = judge->history;
    const char *wrong = NULL;
    for (uint32_t t = 0; t < judge->txn_count; t++)
        for (uint32_t i = judge->txns[t].txn->ops_first; i < judge->txns[t].txn->ops_end; i++) {
            const struct history_op *op = &judge->txns[t].log->ops[i];
            if (op->kind == HISTORY_LIST && wrong == NULL)
                wrong = meet_list(judge, op->key, judge_elements(judge, t, op),
                                  judge_foreign_count(judge, t, op), judge_name(judge, t, who));
        }
    for (size_t i = 0; i < history->final_count && wrong == NULL; i++)
        if (history->finals[i].is_list)
            wrong = meet_list(judge, history->finals[i].key,
                              history->final_elements + history->finals[i].first,
                              history->finals[i].count, "the end");
    for (uint32_t key = 0; key < judge->key_count && wrong == NULL; key++)
        for (size_t i = 0; i < judge->keys[key].count && wrong == NULL; i++)
            for (size_t j = 0; j < i && wrong == NULL; j++)
                if (judge->keys[key].elements[i] == judge->keys[key].elements[j])
                    wrong =
                        judge_say(judge, "%s saw %lld twice in list %u", judge->keys[key].reader,
                                  (long long)judge->keys[key].elements[i], key);
    return wrong;
}

/* ---- The chain of a register's versions ---- */

static const char *chain_write(struct judge *judge, uint32_t number)
{
    const struct judged_write *write = &judge->writes[number];
    uint32_t *place = &judge->keys[write->key].first;
    char one[32], other[32];
    if (write->replaced != 0) /* judge_replaced has seen that it is there, or it is one's own */
        place = &judge_find(judge, write->key, write->replaced)->next;
    if (*place != HISTORY_NEVER)
        return judge_say(judge,
                         "lost update (P4): %s and %s both have replaced %lld in register %u, by "
                         "%lld and %lld",
                         judge_name(judge, judge->writes[*place].txn, one),
                         judge_name(judge, write->txn, other), (long long)write->replaced,
                         write->key, (long long)judge->writes[*place].value,
                         (long long)write->value);
    *place = number;
    return NULL;
}

static const char *chain_registers(struct judge *judge)
{
    const char *wrong = NULL;
    for (uint32_t i = 0; i < judge->write_count && wrong == NULL; i++) {
        const struct judged_write *write = &judge->writes[i];
        if (!write->is_list && !write->is_undone && judge->txns[write->txn].is_live)
            wrong = chain_write(judge, i);
    }
    return wrong;
}

const char *judge_versions(struct judge *judge)
{
    judge->keys = calloc(judge->key_count + 1, sizeof *judge->keys);
    for (uint32_t key = 0; key < judge->key_count; key++)
        judge->keys[key].first = HISTORY_NEVER;
    const char *wrong = gather_writes(judge);
    if (wrong != NULL)
        return wrong;
    see_all(judge);
    wrong = judge_reads(judge);
    if (wrong == NULL)
        wrong = order_lists(judge);
    return wrong != NULL ? wrong : chain_registers(judge);
}
