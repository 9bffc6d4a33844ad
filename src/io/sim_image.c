#include "io/sim_internal.h"

#include "base/check.h"
#include "base/memory.h"

#include <stdatomic.h>
#include <string.h>

struct sim_chunk {
    atomic_size_t references;
    uint8_t bytes[SIM_CHUNK_BYTES];
};

/* Space that was allocated and never written; its own reference is never given back. */
static struct sim_chunk zero_chunk = {.references = 1};

static struct sim_chunk *chunk_hold(struct sim_chunk *chunk)
{
    if (chunk != NULL)
        atomic_fetch_add_explicit(&chunk->references, 1, memory_order_relaxed);
    return chunk;
}

static void chunk_drop(struct sim_chunk *chunk)
{
    if (chunk != NULL &&
        atomic_fetch_sub_explicit(&chunk->references, 1, memory_order_acq_rel) == 1)
        memory_free(chunk);
}

static size_t chunk_of(uint64_t offset)
{
    return (size_t)(offset / SIM_CHUNK_BYTES);
}

/* The chunk behind the last one that a range touches. */
static size_t chunk_end(uint64_t offset, uint64_t size_bytes)
{
    return size_bytes == 0 ? chunk_of(offset) : chunk_of(offset + size_bytes - 1) + 1;
}

/* How much of a range lies in its first chunk. */
static uint64_t first_part(uint64_t offset, uint64_t size_bytes)
{
    uint64_t left = SIM_CHUNK_BYTES - offset % SIM_CHUNK_BYTES;
    return size_bytes < left ? size_bytes : left;
}

static struct sim_chunk *image_get(const struct sim_image *image, size_t at)
{
    return at < image->count ? image->chunks[at] : NULL;
}

static void image_grow(struct sim_image *image, size_t count)
{
    if (count <= image->count)
        return;
    if (count < image->count * 2)
        count = image->count * 2;
    image->chunks = memory_realloc_surely(image->chunks, count * sizeof(struct sim_chunk *));
    memset(image->chunks + image->count, 0, (count - image->count) * sizeof(struct sim_chunk *));
    image->count = count;
}

static void image_set(struct sim_image *image, size_t at, struct sim_chunk *chunk)
{
    if (chunk == NULL && at >= image->count)
        return;
    image_grow(image, at + 1);
    image->present += (size_t)(chunk != NULL) - (size_t)(image->chunks[at] != NULL);
    chunk_drop(image->chunks[at]);
    image->chunks[at] = chunk;
}

/* The chunk to write into: not shared with anybody. Its content is kept only on demand. */
static struct sim_chunk *image_own(struct sim_image *image, size_t at, bool keep)
{
    struct sim_chunk *old = image_get(image, at);
    /* Clones live under mutexes of their own: the load pairs with the other side's drop. */
    if (old != NULL && atomic_load_explicit(&old->references, memory_order_acquire) == 1)
        return old;
    struct sim_chunk *chunk = memory_realloc_surely(NULL, sizeof(*chunk));
    atomic_init(&chunk->references, 1);
    if (keep && old != NULL)
        memcpy(chunk->bytes, old->bytes, sizeof(chunk->bytes));
    else if (keep)
        memset(chunk->bytes, 0, sizeof(chunk->bytes));
    image_set(image, at, chunk);
    return chunk;
}

void sim_image_release(struct sim_image *image)
{
    for (size_t i = 0; i < image->count; i++)
        chunk_drop(image->chunks[i]);
    memory_free(image->chunks);
    *image = (struct sim_image){0};
}

void sim_image_clone(const struct sim_image *from, struct sim_image *into)
{
    ASSERT(into->count == 0);
    image_grow(into, from->count);
    for (size_t i = 0; i < from->count; i++)
        into->chunks[i] = chunk_hold(from->chunks[i]);
    into->present = from->present;
}

uint64_t sim_image_end(const struct sim_image *image)
{
    return (uint64_t)image->count * SIM_CHUNK_BYTES;
}

void sim_image_allocate(struct sim_image *image, uint64_t offset, uint64_t size_bytes)
{
    for (size_t i = chunk_of(offset); i < chunk_end(offset, size_bytes); i++)
        if (image_get(image, i) == NULL)
            image_set(image, i, chunk_hold(&zero_chunk));
}

size_t sim_image_missing(const struct sim_image *image, uint64_t offset, uint64_t size_bytes)
{
    size_t missing = 0;
    for (size_t i = chunk_of(offset); i < chunk_end(offset, size_bytes); i++)
        missing += image_get(image, i) == NULL;
    return missing;
}

uint64_t sim_image_fitting(const struct sim_image *image, uint64_t offset, uint64_t size_bytes,
                           size_t chunks_left)
{
    uint64_t fitting = 0;
    while (fitting < size_bytes) {
        bool missing = image_get(image, chunk_of(offset + fitting)) == NULL;
        if (missing && chunks_left == 0)
            break;
        chunks_left -= missing;
        fitting += first_part(offset + fitting, size_bytes - fitting);
    }
    return fitting;
}

void sim_image_read(const struct sim_image *image, uint64_t offset, void *buffer,
                    uint64_t size_bytes)
{
    uint8_t *to = buffer;
    while (size_bytes > 0) {
        uint64_t part = first_part(offset, size_bytes);
        const struct sim_chunk *chunk = image_get(image, chunk_of(offset));
        if (chunk != NULL)
            memcpy(to, chunk->bytes + offset % SIM_CHUNK_BYTES, part);
        else
            memset(to, 0, part);
        to += part;
        offset += part;
        size_bytes -= part;
    }
}

void sim_image_write(struct sim_image *image, uint64_t offset, const void *bytes,
                     uint64_t size_bytes)
{
    const uint8_t *from = bytes;
    while (size_bytes > 0) {
        uint64_t part = first_part(offset, size_bytes);
        struct sim_chunk *chunk = image_own(image, chunk_of(offset), part < SIM_CHUNK_BYTES);
        memcpy(chunk->bytes + offset % SIM_CHUNK_BYTES, from, part);
        from += part;
        offset += part;
        size_bytes -= part;
    }
}

void sim_image_punch(struct sim_image *image, uint64_t offset, uint64_t size_bytes)
{
    while (size_bytes > 0 && chunk_of(offset) < image->count) {
        uint64_t part = first_part(offset, size_bytes);
        size_t at = chunk_of(offset);
        if (part == SIM_CHUNK_BYTES)
            image_set(image, at, NULL);
        else if (image->chunks[at] != NULL)
            memset(image_own(image, at, true)->bytes + offset % SIM_CHUNK_BYTES, 0, part);
        offset += part;
        size_bytes -= part;
    }
}

void sim_image_share(struct sim_image *into, const struct sim_image *from, uint64_t offset,
                     uint64_t size_bytes)
{
    for (size_t i = chunk_of(offset); i < chunk_end(offset, size_bytes); i++)
        image_set(into, i, chunk_hold(image_get(from, i)));
}
