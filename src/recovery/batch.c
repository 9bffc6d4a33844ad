#include "recovery/recovery_internal.h"

#include "base/check.h"
#include "base/memory.h"

#include <string.h>

/* What a record costs while its part is sorted by pages, at worst: the page's entry and slots. */
enum { SORTING_BYTES = 3 * sizeof(struct page_work) };

/* Pages of an extent stay together, so that neighbours are read in one request. */
static unsigned part_of(const struct batch *batch, uint64_t page_id)
{
    uint64_t extent = page_id / SPACE_EXTENT_PAGES;
    return (unsigned)((extent * UINT64_C(0x9e3779b97f4a7c15)) >> 32) % batch->part_count;
}

static size_t record_bytes(size_t payload_bytes)
{
    return (sizeof(struct record) + payload_bytes + 7) & ~(size_t)7;
}

static struct chunk *take_chunk(struct batch *batch, size_t size_bytes)
{
    struct chunk *chunk = batch->spare;
    if (chunk != NULL && chunk->size_bytes >= size_bytes) {
        batch->spare = chunk->next;
    } else {
        size_t wanted = size_bytes > batch->chunk_bytes ? size_bytes : batch->chunk_bytes;
        chunk = memory_alloc(sizeof(*chunk) + wanted);
        if (chunk == NULL)
            return NULL;
        chunk->size_bytes = wanted;
    }
    chunk->next = NULL;
    chunk->used_bytes = 0;
    return chunk;
}

static uint8_t *chunk_bytes(const struct chunk *chunk)
{
    return (uint8_t *)(uintptr_t)(chunk + 1);
}

firn_rc batch_add(struct batch *batch, const struct change *change, uint64_t end_lsn)
{
    struct part *part = &batch->parts[part_of(batch, change->page_id)];
    size_t size = record_bytes(change->payload.size_bytes);
    struct chunk *chunk = part->last;
    if (chunk == NULL || chunk->size_bytes - chunk->used_bytes < size) {
        struct chunk *more = take_chunk(batch, size);
        if (more == NULL)
            return rc_raise(FIRN_E_NOMEM, "no memory for records of the log to be applied");
        if (chunk != NULL)
            chunk->next = more;
        else
            part->first = more;
        part->last = chunk = more;
    }
    struct record *record = (struct record *)(void *)(chunk_bytes(chunk) + chunk->used_bytes);
    *record = (struct record){.page_id = change->page_id,
                              .end_lsn = end_lsn,
                              .op = (uint32_t)change->op,
                              .size_bytes = (uint32_t)change->payload.size_bytes};
    memcpy(record + 1, change->payload.bytes, change->payload.size_bytes);
    chunk->used_bytes += size;
    batch->charged_bytes += size + SORTING_BYTES;
    return FIRN_OK;
}

struct record *chunk_next(const struct chunk *chunk, const struct record *record)
{
    const uint8_t *at = chunk_bytes(chunk);
    if (record != NULL)
        at = (const uint8_t *)record + record_bytes(record->size_bytes);
    if (at == chunk_bytes(chunk) + chunk->used_bytes)
        return NULL;
    return (struct record *)(uintptr_t)at;
}

void batch_clear(struct batch *batch)
{
    for (unsigned i = 0; i < batch->part_count; i++) {
        struct part *part = &batch->parts[i];
        while (part->first != NULL) {
            struct chunk *chunk = part->first;
            part->first = chunk->next;
            /* One made for a large record would make a later batch larger than it counts. */
            if (chunk->size_bytes > batch->chunk_bytes) {
                memory_free(chunk);
                continue;
            }
            chunk->next = batch->spare;
            batch->spare = chunk;
        }
        part->last = NULL;
    }
    batch->charged_bytes = 0;
}

void batch_free(struct batch *batch)
{
    batch_clear(batch);
    while (batch->spare != NULL) {
        struct chunk *chunk = batch->spare;
        batch->spare = chunk->next;
        memory_free(chunk);
    }
}
