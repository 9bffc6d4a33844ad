#include "engine/store_check_internal.h"

#include "base/check.h"
#include "base/memory.h"

#include <time.h>

enum {
    CHUNK_BYTES = 1 << 20,
    BUFFER_ALIGNMENT = 4096,
    READ_TRIES = 3, /* of a page that looks damaged: it may have been read while it was written */
    READ_AGAIN_US = 1000,
};

static uint32_t chunk_pages(const struct store_check *check)
{
    return CHUNK_BYTES / check->store->env.page_size_bytes;
}

/* ---- One page ---- */

static enum page_state judge_page(const struct store_check *check, const struct check_space *space,
                                  uint32_t page_no, const uint8_t *page)
{
    return page_verify(page, check->store->env.page_size_bytes, page_id_of(space->space, page_no),
                       redo_page_limit(check->store->redo));
}

/* A page of zeros is right where nobody has it. */
static bool is_right(const struct check_space *space, uint32_t page_no, enum page_state state)
{
    return state == PAGE_GOOD ||
           (state == PAGE_ZERO &&
            (space->owners[page_no] == CHECK_OWNER_NONE || !space->owners_are_known));
}

static void tell_page(struct store_check *check, const struct check_space *space, uint32_t page_no,
                      const char *what)
{
    check_tell(check, space, page_no, "page %u of %s, at offset %llu, %s", page_no, space->path,
               (unsigned long long)page_no * check->store->env.page_size_bytes, what);
}

/* Read a page alone, again and again if it looks damaged. */
static void check_page_alone(struct store_check *check, const struct check_space *space,
                             struct io_file *file, uint64_t offset, uint32_t page_no, uint8_t *page)
{
    const struct timespec pause = {.tv_nsec = READ_AGAIN_US * 1000};
    enum page_state state = PAGE_GOOD;
    for (unsigned i = 0; i < READ_TRIES; i++) {
        if (i > 0)
            nanosleep(&pause, NULL);
        if (io_read(file, page, check->store->env.page_size_bytes, offset) != FIRN_OK) {
            tell_page(check, space, page_no, firn_error_text());
            return;
        }
        state = judge_page(check, space, page_no, page);
        if (is_right(space, page_no, state))
            return;
    }
    tell_page(check, space, page_no,
              state == PAGE_ZERO ? "is in use but has never been written" : page_state_text(state));
}

/* ---- A chunk of pages ---- */

/* One large request; what fails or looks wrong in it is looked at page by page. */
static void check_chunk(struct store_check *check, const struct check_space *space, uint32_t first,
                        uint8_t *buffer)
{
    uint32_t page_size_bytes = check->store->env.page_size_bytes;
    struct buffer_files files = space_files(check->store->spaces);
    struct io_file *file;
    uint64_t offset;
    uint32_t left = space->pages - first;
    uint32_t count = left < chunk_pages(check) ? left : chunk_pages(check);
    if (files.locate(files.context, page_id_of(space->space, first), &file, &offset) != FIRN_OK) {
        check_tell(check, space, first, "%s ends before page %u: %s", space->path, first,
                   firn_error_text());
        return;
    }
    firn_rc rc = io_read(file, buffer, (size_t)count * page_size_bytes, offset);
    for (uint32_t i = 0; i < count; i++) {
        uint8_t *page = buffer + (size_t)i * page_size_bytes;
        if (rc != FIRN_OK || !is_right(space, first + i, judge_page(check, space, first + i, page)))
            check_page_alone(check, space, file, offset + (uint64_t)i * page_size_bytes, first + i,
                             page);
    }
    atomic_fetch_add_explicit(&check->pages, count, memory_order_relaxed);
    check_advance(check, (uint64_t)count * page_size_bytes);
}

/* @return the space that a chunk belongs to */
static const struct check_space *space_of_chunk(const struct store_check *check, uint64_t chunk)
{
    size_t low = 0;
    size_t high = check->space_count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (check->spaces[middle].first_chunk <= chunk)
            low = middle;
        else
            high = middle;
    }
    return &check->spaces[low];
}

/* ---- Threads ---- */

struct page_reader {
    struct store_check *check;
    atomic_ulong *next_chunk;
    pthread_t thread;
};

static void *read_chunks(void *context)
{
    struct page_reader *reader = context;
    struct store_check *check = reader->check;
    uint64_t chunk;
    uint8_t *buffer = memory_alloc_aligned(CHUNK_BYTES, BUFFER_ALIGNMENT);
    if (buffer == NULL) {
        check_fail(check, rc_raise(FIRN_E_NOMEM, "no memory to read pages"));
        return NULL;
    }
    while ((chunk = atomic_fetch_add_explicit(reader->next_chunk, 1, memory_order_relaxed)) <
           check->chunk_count) {
        const struct check_space *space = space_of_chunk(check, chunk);
        check_chunk(check, space, (uint32_t)(chunk - space->first_chunk) * chunk_pages(check),
                    buffer);
    }
    memory_free(buffer);
    return NULL;
}

static void count_chunks(struct store_check *check)
{
    check->chunk_count = 0;
    check->total_bytes = 0;
    for (size_t i = 0; i < check->space_count; i++) {
        struct check_space *space = &check->spaces[i];
        space->first_chunk = check->chunk_count;
        check->chunk_count += (space->pages + chunk_pages(check) - 1) / chunk_pages(check);
        check->total_bytes += (uint64_t)space->pages * check->store->env.page_size_bytes;
    }
}

/* The calling thread reads too, so fewer threads than wanted are no failure. */
firn_rc check_read_pages(struct store_check *check)
{
    atomic_ulong next_chunk = 0;
    unsigned started = 1;
    count_chunks(check);
    check_begin_phase(check, "reading pages", check->total_bytes);
    struct page_reader *readers = memory_zalloc(check->threads, sizeof(*readers));
    if (readers == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory to read pages");
    for (unsigned i = 0; i < check->threads; i++)
        readers[i] = (struct page_reader){.check = check, .next_chunk = &next_chunk};
    while (started < check->threads &&
           pthread_create(&readers[started].thread, NULL, read_chunks, &readers[started]) == 0)
        started++;
    read_chunks(&readers[0]);
    for (unsigned i = 1; i < started; i++)
        pthread_join(readers[i].thread, NULL);
    memory_free(readers);
    return check->rc == FIRN_OK ? FIRN_OK : rc_raise(check->rc, "%s", check->text);
}
