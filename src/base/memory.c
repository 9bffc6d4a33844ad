#include "base/memory.h"

#include "base/check.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

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

void *memory_reserve(size_t size_bytes, size_t alignment_bytes)
{
    size_t asked_bytes;
    if (memory_must_fail() || __builtin_add_overflow(size_bytes, alignment_bytes, &asked_bytes))
        return NULL;
    uint8_t *asked =
        mmap(NULL, asked_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (asked == MAP_FAILED)
        return NULL;
    size_t before_bytes = -(uintptr_t)asked & (alignment_bytes - 1);
    if (before_bytes > 0)
        munmap(asked, before_bytes);
    munmap(asked + before_bytes + size_bytes, alignment_bytes - before_bytes);
    return asked + before_bytes;
}

bool memory_commit(void *memory, size_t size_bytes)
{
    return !memory_must_fail() && mprotect(memory, size_bytes, PROT_READ | PROT_WRITE) == 0;
}

void memory_decommit(void *memory, size_t size_bytes)
{
    int error = madvise(memory, size_bytes, MADV_DONTNEED);
    ENSURE(error == 0);
}

void memory_unreserve(void *memory, size_t size_bytes)
{
    if (memory != NULL)
        munmap(memory, size_bytes);
}
