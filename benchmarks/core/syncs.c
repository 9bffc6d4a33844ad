/*
 * syncs.c -- counts the process's syncs. The functions stand in the executable, so the dynamic
 * linker gives them to every engine's library too; they count and call the C library's.
 */
#include "syncs.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

static _Atomic uint64_t syncs;

uint64_t syncs_count(void)
{
    return atomic_load_explicit(&syncs, memory_order_relaxed);
}

static void *next(const char *name)
{
    atomic_fetch_add_explicit(&syncs, 1, memory_order_relaxed);
    return dlsym(RTLD_NEXT, name);
}

int fsync(int file)
{
    int (*real)(int);
    *(void **)&real = next("fsync");
    return real(file);
}

int fdatasync(int file)
{
    int (*real)(int);
    *(void **)&real = next("fdatasync");
    return real(file);
}

int msync(void *memory, size_t size_bytes, int flags)
{
    int (*real)(void *, size_t, int);
    *(void **)&real = next("msync");
    return real(memory, size_bytes, flags);
}
