/*
 * history.c -- recording what transactions did, and having it judged.
 */
#include "txn/history_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Memory ---- */

/* Make room for one more. */
static void *grow(void *items, size_t count, size_t *capacity, size_t item_bytes)
{
    if (count < *capacity)
        return items;
    *capacity = *capacity == 0 ? 64 : *capacity * 2;
    void *grown = realloc(items, *capacity * item_bytes);
    if (grown == NULL)
        abort();
    return grown;
}

#define ADD(items, count, capacity)                                                                \
    (items = grow(items, count, &(capacity), sizeof *(items)), &(items)[(count)++])

void history_init(struct history *history)
{
    memset(history, 0, sizeof *history);
    for (unsigned i = 0; i < HISTORY_SESSIONS_MAX; i++)
        history->logs[i].history = history;
}

void history_free(struct history *history)
{
    for (unsigned i = 0; i < HISTORY_SESSIONS_MAX; i++) {
        free(history->logs[i].txns);
        free(history->logs[i].ops);
        free(history->logs[i].statements);
        free(history->logs[i].elements);
    }
    free(history->finals);
    free(history->final_elements);
    free(history->wrong);
}

/* ---- Recording ---- */

/* Sequentially consistent: what was acknowledged before somebody begins has the lower number. */
static uint64_t now(struct history_log *log)
{
    return atomic_fetch_add(&log->history->clock, 1) + 1;
}

static void end_statement(struct history_log *log)
{
    if (log->statement_count > 0 && log->statements[log->statement_count - 1].end == 0)
        log->statements[log->statement_count - 1].end = now(log);
}

void history_begin(struct history_log *log)
{
    struct history_txn *txn = ADD(log->txns, log->txn_count, log->txn_capacity);
    *txn = (struct history_txn){.ops_first = (uint32_t)log->op_count, .begin = now(log)};
}

void history_statement(struct history_log *log)
{
    end_statement(log);
    struct history_statement *statement =
        ADD(log->statements, log->statement_count, log->statement_capacity);
    *statement = (struct history_statement){.begin = now(log)};
}

static struct history_op *add_op(struct history_log *log, enum history_kind kind, uint32_t key)
{
    if (log->statement_count == 0)
        history_statement(log);
    struct history_op *op = ADD(log->ops, log->op_count, log->op_capacity);
    *op = (struct history_op){.kind = kind,
                              .key = key,
                              .statement = (uint32_t)log->statement_count - 1,
                              .undone_at = HISTORY_NEVER};
    return op;
}

void history_append(struct history_log *log, uint32_t key, int64_t value)
{
    add_op(log, HISTORY_APPEND, key)->value = value;
}

void history_list(struct history_log *log, uint32_t key, const int64_t *elements, size_t count)
{
    struct history_op *op = add_op(log, HISTORY_LIST, key);
    op->list_first = (uint32_t)log->element_count;
    op->list_count = (uint32_t)count;
    for (size_t i = 0; i < count; i++)
        *ADD(log->elements, log->element_count, log->element_capacity) = elements[i];
}

void history_write(struct history_log *log, uint32_t key, int64_t value, int64_t replaced)
{
    struct history_op *op = add_op(log, HISTORY_WRITE, key);
    op->value = value;
    op->replaced = replaced;
}

void history_value(struct history_log *log, uint32_t key, int64_t value)
{
    add_op(log, HISTORY_VALUE, key)->value = value;
}

uint32_t history_savepoint(const struct history_log *log)
{
    return (uint32_t)log->op_count;
}

void history_undo(struct history_log *log, uint32_t savepoint)
{
    for (size_t i = savepoint; i < log->op_count; i++)
        if (log->ops[i].undone_at == HISTORY_NEVER)
            log->ops[i].undone_at = (uint32_t)log->op_count;
}

void history_end(struct history_log *log, enum history_outcome outcome)
{
    struct history_txn *txn = &log->txns[log->txn_count - 1];
    end_statement(log);
    txn->ops_end = (uint32_t)log->op_count;
    txn->outcome = outcome;
    if (outcome == HISTORY_COMMITTED)
        txn->end = now(log);
}

static struct history_final *add_final(struct history *history, uint32_t key)
{
    struct history_final *final =
        ADD(history->finals, history->final_count, history->final_capacity);
    *final = (struct history_final){.key = key};
    return final;
}

void history_final_list(struct history *history, uint32_t key, const int64_t *elements,
                        size_t count)
{
    struct history_final *final = add_final(history, key);
    final->is_list = true;
    final->first = history->final_element_count;
    final->count = count;
    for (size_t i = 0; i < count; i++)
        *ADD(history->final_elements, history->final_element_count,
             history->final_element_capacity) = elements[i];
}

void history_final_value(struct history *history, uint32_t key, int64_t value)
{
    add_final(history, key)->value = value;
}

/* ---- Judging ---- */

const char *judge_say(struct judge *judge, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(judge->text, HISTORY_TEXT_BYTES, format, arguments);
    va_end(arguments);
    return judge->text;
}

const char *judge_name(const struct judge *judge, uint32_t txn, char text[32])
{
    snprintf(text, 32, "T%u.%u", judge->txns[txn].session, judge->txns[txn].number);
    return text;
}

/* All logs' transactions, one behind the other. */
static void gather(struct judge *judge)
{
    struct history *history = judge->history;
    size_t total = 0;
    for (unsigned i = 0; i < HISTORY_SESSIONS_MAX; i++)
        total += history->logs[i].txn_count;
    judge->txns = calloc(total + 1, sizeof *judge->txns);
    for (unsigned i = 0; i < HISTORY_SESSIONS_MAX; i++) {
        const struct history_log *log = &history->logs[i];
        for (size_t j = 0; j < log->txn_count; j++)
            judge->txns[judge->txn_count++] =
                (struct judged_txn){.log = log,
                                    .txn = &log->txns[j],
                                    .session = i + 1,
                                    .number = (unsigned)j + 1,
                                    .is_live = log->txns[j].outcome == HISTORY_COMMITTED};
        for (size_t j = 0; j < log->op_count; j++)
            if (log->ops[j].key >= judge->key_count)
                judge->key_count = log->ops[j].key + 1;
    }
    for (size_t i = 0; i < history->final_count; i++)
        if (history->finals[i].key >= judge->key_count)
            judge->key_count = history->finals[i].key + 1;
}

static void count(const struct judge *judge, struct history_counts *counts)
{
    if (counts == NULL)
        return;
    *counts = (struct history_counts){.txns = judge->txn_count, .edges = judge->edge_count};
    for (size_t i = 0; i < judge->txn_count; i++) {
        counts->committed += judge->txns[i].txn->outcome == HISTORY_COMMITTED;
        counts->in_doubt += judge->txns[i].txn->outcome == HISTORY_IN_DOUBT;
    }
}

const char *history_wrong(struct history *history, enum history_level level,
                          struct history_counts *counts)
{
    free(history->wrong);
    history->wrong = calloc(1, HISTORY_TEXT_BYTES);
    struct judge judge = {.history = history, .level = level, .text = history->wrong};
    gather(&judge);
    const char *wrong = judge_versions(&judge);
    if (wrong == NULL)
        wrong = judge_cycles(&judge);
    if (wrong == NULL)
        wrong = judge_end(&judge);
    count(&judge, counts);
    free(judge.txns);
    free(judge.writes);
    free(judge.keys);
    free(judge.node_txns);
    free(judge.edges);
    return wrong;
}
