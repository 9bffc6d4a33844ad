/*
 * txn_world.h -- a store with transactions on a simulated disk, and a model of what they see.
 *
 * The model keeps every committed version of every key, with its place in the order of commits,
 * and what each open transaction has written. From that follows what each read returns and whether
 * each write is let through, under each isolation level.
 */
#ifndef FIRN_TESTS_TXN_WORLD_H
#define FIRN_TESTS_TXN_WORLD_H

#include "store/store_world.h"

#include "txn/txn.h"

enum {
    MODEL_KEYS = 48,
    MODEL_SESSIONS = 6,
    MODEL_DELETED = -1, /* the value of a key that is not there */
    PAYLOAD_MAX = 9000,
};

/** One committed version. */
struct model_version {
    struct model_version *older;
    uint64_t commit; /* 0: from the beginning */
    int64_t value;
};

/** A transaction of the model. */
struct model_txn {
    bool is_open;
    bool has_snapshot;
    bool may_live; /* its commit was under way at a crash */
    enum txn_isolation isolation;
    uint64_t snapshot;
    bool wrote[MODEL_KEYS];
    bool locked[MODEL_KEYS]; /* it has written them, though it may have undone it since */
    int64_t value[MODEL_KEYS];
};

struct model {
    struct model_version *newest[MODEL_KEYS];
    uint64_t commits;
    struct model_txn txns[MODEL_SESSIONS];
};

static inline void model_free(struct model *model)
{
    for (unsigned key = 0; key < MODEL_KEYS; key++) {
        while (model->newest[key] != NULL) {
            struct model_version *older = model->newest[key]->older;
            free(model->newest[key]);
            model->newest[key] = older;
        }
    }
}

/** @return a key's value for a transaction: its own, or that of its snapshot. */
static inline int64_t model_seen(const struct model *model, const struct model_txn *txn,
                                 unsigned key)
{
    if (txn->wrote[key])
        return txn->value[key];
    const struct model_version *version = model->newest[key];
    while (version != NULL && version->commit > txn->snapshot)
        version = version->older;
    return version != NULL ? version->value : MODEL_DELETED;
}

/** @return a key's newest committed value, or the transaction's own. */
static inline int64_t model_present(const struct model *model, const struct model_txn *txn,
                                    unsigned key)
{
    if (txn->wrote[key])
        return txn->value[key];
    return model->newest[key] != NULL ? model->newest[key]->value : MODEL_DELETED;
}

/** @return true if another open transaction has a key locked. */
static inline bool model_is_locked(const struct model *model, unsigned number, unsigned key)
{
    for (unsigned i = 0; i < MODEL_SESSIONS; i++)
        if (i != number && model->txns[i].is_open && model->txns[i].locked[key])
            return true;
    return false;
}

/** @return true if a key has changed since a transaction's snapshot was taken. */
static inline bool model_is_stale(const struct model *model, const struct model_txn *txn,
                                  unsigned key)
{
    return txn->isolation != TXN_READ_COMMITTED && !txn->wrote[key] && model->newest[key] != NULL &&
           model->newest[key]->commit > txn->snapshot;
}

static inline void model_commit(struct model *model, struct model_txn *txn)
{
    bool wrote = false;
    for (unsigned key = 0; key < MODEL_KEYS; key++)
        wrote = wrote || txn->wrote[key];
    if (wrote)
        model->commits++;
    for (unsigned key = 0; key < MODEL_KEYS; key++) {
        if (!txn->wrote[key])
            continue;
        struct model_version *version = malloc(sizeof *version);
        *version = (struct model_version){model->newest[key], model->commits, txn->value[key]};
        model->newest[key] = version;
    }
    *txn = (struct model_txn){.is_open = false};
}

/* ---- Keys and payloads ---- */

static inline struct span model_key(unsigned key, char text[400])
{
    int size = snprintf(text, 32, "key-%03u", key * 37 % 1000);
    if (key % 7 == 0) {
        memset(text + size, 'k', 200);
        size += 200;
    }
    return span_of(text, (size_t)size);
}

/** The payload that stands for a value: some are large, all begin with it. */
static inline struct span model_payload(int64_t value, uint8_t *bytes)
{
    struct rng rng;
    rng_init(&rng, (uint64_t)value);
    size_t size = 8 + rng_below(&rng, 120);
    if (value % 9 == 0)
        size = 1000 + rng_below(&rng, PAYLOAD_MAX - 1000);
    put_u64(bytes, (uint64_t)value);
    for (size_t i = 8; i < size; i++)
        bytes[i] = (uint8_t)(i % 29 < 20 ? i : rng_next(&rng));
    return span_of(bytes, size);
}

/** Hold a payload that was read against the value it should be. @return NULL, or what is wrong */
static inline const char *model_payload_wrong(struct span payload, int64_t value)
{
    static uint8_t bytes[PAYLOAD_MAX];
    static char text[200];
    if (span_compare(payload, model_payload(value, bytes)) == 0)
        return NULL;
    snprintf(text, sizeof text, "%zu bytes that begin with %lld instead of the payload of %lld",
             payload.size_bytes, payload.size_bytes < 8 ? -1LL : (long long)get_u64(payload.bytes),
             (long long)value);
    return text;
}

#endif
