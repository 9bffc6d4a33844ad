#include "base/check.h"
#include "base/memory.h"
#include "io/model_internal.h"

#include <string.h>

enum { CHUNK_ITEMS_MIN = 64 };

/* Free items are linked through their first bytes, chunks through theirs. */
struct link {
    struct link *next;
};

firn_rc model_pool_reserve(struct model_pool *pool, size_t count)
{
    size_t wanted = count + pool->held;
    if (pool->free_count >= wanted)
        return FIRN_OK;
    size_t added = wanted - pool->free_count;
    if (added < CHUNK_ITEMS_MIN)
        added = CHUNK_ITEMS_MIN;
    if (added < pool->total / 2)
        added = pool->total / 2;
    /* The chunk's own link takes the place of one item, so that items keep their alignment. */
    char *chunk = memory_zalloc(added + 1, pool->item_bytes);
    if (chunk == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for a modelled device's requests");
    ((struct link *)(void *)chunk)->next = pool->chunks;
    pool->chunks = chunk;
    for (size_t i = 1; i <= added; i++)
        model_pool_give(pool, chunk + i * pool->item_bytes);
    pool->total += added;
    return FIRN_OK;
}

void *model_pool_take(struct model_pool *pool)
{
    struct link *item = pool->free;
    ENSURE(item != NULL);
    pool->free = item->next;
    pool->free_count--;
    memset(item, 0, pool->item_bytes);
    return item;
}

void model_pool_give(struct model_pool *pool, void *item)
{
    struct link *link = item;
    link->next = pool->free;
    pool->free = link;
    pool->free_count++;
}

void model_pool_free(struct model_pool *pool)
{
    struct link *chunk = pool->chunks;
    while (chunk != NULL) {
        struct link *next = chunk->next;
        memory_free(chunk);
        chunk = next;
    }
    *pool = (struct model_pool){.item_bytes = pool->item_bytes};
}
