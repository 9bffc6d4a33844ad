#include "base/memory.h"

#include "base/check.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static atomic_long allocations_left = -1;

static bool memory_must_fail(void)
{
    if (atomic_load_explicit(&allocations_left, memory_order_relaxed) < 0)
        return false;
    return atomic_fetch_sub(&allocations_left, 1) == 0;
}

void memory_fail_after(long successes)
{
    atomic_store(&allocations_left, successes);
}

void *memory_alloc(size_t size_bytes)
{
    return memory_must_fail() ? NULL : malloc(size_bytes);
}

void *memory_zalloc(size_t count, size_t size_bytes)
{
    return memory_must_fail() ? NULL : calloc(count, size_bytes);
}

void *memory_realloc(void *memory, size_t size_bytes)
{
    return memory_must_fail() ? NULL : realloc(memory, size_bytes);
}

void *memory_alloc_aligned(size_t size_bytes, size_t alignment_bytes)
{
    void *memory = NULL;
    if (memory_must_fail() || posix_memalign(&memory, alignment_bytes, size_bytes) != 0)
        return NULL;
    return memory;
}

void *memory_realloc_surely(void *memory, size_t size_bytes)
{
    void *resized = realloc(memory, size_bytes);
    ENSURE(resized != NULL);
    return resized;
}

void memory_free(void *memory)
{
    free(memory);
}

char *memory_copy_text(const char *text)
{
    size_t size_bytes = strlen(text) + 1;
    char *copy = memory_alloc(size_bytes);
    if (copy != NULL)
        memcpy(copy, text, size_bytes);
    return copy;
}
