/*
 * memory.h -- allocation through one seam, so that a test can make the k-th one fail.
 *
 * Memory comes and goes in pairs: what memory_* returns goes back with memory_free.
 */
#ifndef FIRN_BASE_MEMORY_H
#define FIRN_BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/** @return size_bytes of uninitialised memory, or NULL; FIRN's callers turn NULL into FIRN_E_NOMEM.
 */
void *memory_alloc(size_t size_bytes);

/** @return count zeroed elements of size_bytes each, or NULL (also when the product overflows). */
void *memory_zalloc(size_t count, size_t size_bytes);

/** @return the block resized to size_bytes (it may have moved), or NULL, the old block untouched.
 */
void *memory_realloc(void *memory, size_t size_bytes);

/** @return size_bytes aligned to alignment_bytes (a power of two, at least 8), or NULL. */
void *memory_alloc_aligned(size_t size_bytes, size_t alignment_bytes);

/**
 * Resize a block, or allocate one (NULL), for what stands in for hardware: no test makes it fail,
 * so that a failing allocation is always one of the code under test, and without memory the process
 * ends.
 *
 * @return the block, never NULL
 */
void *memory_realloc_surely(void *memory, size_t size_bytes);

/** Give memory back; NULL is allowed. */
void memory_free(void *memory);

/** @return a copy of the string to be freed with memory_free, or NULL. */
char *memory_copy_text(const char *text);

/* ---- Ranges of addresses, for what is large and grows in place ---- */

/**
 * Reserve a range of addresses; it takes no memory and must not be touched before memory_commit.
 *
 * @param size_bytes       a multiple of the system's page size
 * @param alignment_bytes  a power of two, a multiple of the system's page size
 * @return the range, or NULL; to be given back with memory_unreserve
 */
void *memory_reserve(size_t size_bytes, size_t alignment_bytes);

/** Make a part of a reserved range usable; it reads as zeros where it was not used before. Whole
 * pages of the system. @return false if there is no memory; the part is then as before */
bool memory_commit(void *memory, size_t size_bytes);

/** Give the memory of a part back to the system. It stays readable, as zeros, and takes memory
 * again where it is written to. */
void memory_decommit(void *memory, size_t size_bytes);

/** Give back what memory_reserve returned; NULL is allowed. */
void memory_unreserve(void *memory, size_t size_bytes);

/**
 * For tests: let the next allocations succeed and the one after them fail, once; process-wide.
 *
 * @param successes  how many allocations succeed first; negative switches failing off
 */
void memory_fail_after(long successes);

#endif
