/*
 * The pages of tablespaces as they lie in their files, read by several threads.
 */
#include "engine/files_check_internal.h"

#include "base/check.h"
#include "base/memory.h"

#include <string.h>

enum { CHUNK_BYTES = 1 << 20, BUFFER_ALIGNMENT = 4096, THREADS_MAX = 64 };

static const uint64_t TELL_NS = 100 * NS_PER_MS;

struct pages_check {
    struct files_check *files;
    uint32_t page_size_bytes;
    uint32_t chunk_pages;
    uint64_t lsn_limit;
    uint64_t chunk_count;
    atomic_ulong next_chunk;
    uint64_t done_bytes; /* this and the next under the files' mutex */
    uint64_t total_bytes;
    uint64_t told_ns;
};

/* ---- One page ---- */

static bool is_in_use(const struct files_space *space, uint32_t page_no)
{
    return space->in_use != NULL && space->in_use[page_no / 8] >> page_no % 8 & 1;
}

static void count_mended(struct files_check *check)
{
    pthread_mutex_lock(&check->mutex);
    check->result->pages_mended++;
    pthread_mutex_unlock(&check->mutex);
}

/* @param failure  what reading it alone said, or NULL */
static void tell_page(struct pages_check *pages, const struct files_space *space, uint32_t page_no,
                      enum page_state state, const char *failure)
{
    uint64_t offset = (uint64_t)page_no * pages->page_size_bytes;
    if (files_is_mended(pages->files, page_id_of(space->info.space, page_no))) {
        count_mended(pages->files);
        return;
    }
    /* Page 0 of a clean environment's tablespace was judged with its head. */
    if (page_no == 0 && space->info.head_pages == 0 && pages->files->result->is_clean)
        return;
    files_tell(
        pages->files, FINDING_DAMAGE, space->path, page_no, offset,
        "page %u of %s, at offset %llu, %s; restore the file from a backup, or dump what can "
        "still be read",
        page_no, space->path, (unsigned long long)offset,
        failure != NULL      ? failure
        : state == PAGE_ZERO ? "is in use but has never been written"
                             : page_state_text(state));
}

static void judge_page(struct pages_check *pages, const struct files_space *space, uint32_t page_no,
                       const uint8_t *page)
{
    enum page_state state = page_verify(page, pages->page_size_bytes,
                                        page_id_of(space->info.space, page_no), pages->lsn_limit);
    if (state != PAGE_GOOD && (state != PAGE_ZERO || is_in_use(space, page_no)))
        tell_page(pages, space, page_no, state, NULL);
}

/* ---- A chunk of pages ---- */

static void advance(struct pages_check *pages, uint32_t count)
{
    struct files_check *check = pages->files;
    pthread_mutex_lock(&check->mutex);
    uint64_t now_ns = clock_now(clock_real());
    pages->done_bytes += (uint64_t)count * pages->page_size_bytes;
    check->result->pages += count;
    check->result->bytes += (uint64_t)count * pages->page_size_bytes;
    if (check->progress != NULL && now_ns - pages->told_ns >= TELL_NS) {
        struct recovery_progress progress = {"reading pages", pages->done_bytes,
                                             pages->total_bytes};
        pages->told_ns = now_ns;
        check->progress(&progress, check->context);
    }
    pthread_mutex_unlock(&check->mutex);
}

static void check_chunk(struct pages_check *pages, const struct files_space *space, uint32_t first,
                        uint8_t *buffer)
{
    struct space_file from = files_space_file(pages->files, space);
    struct io_file *file;
    uint32_t left = space->info.file_pages - first;
    uint32_t count = left < pages->chunk_pages ? left : pages->chunk_pages;
    unsigned direct = from.direct ? IO_OPEN_DIRECT : 0;
    if (io_file_open(from.system, from.class, from.path, IO_OPEN_READ_ONLY | direct, &file) !=
        FIRN_OK) {
        files_tell(pages->files, FINDING_UNSEEN, space->path, first, FINDING_NOWHERE,
                   "pages %u to %u of %s were not looked at: %s", first, first + count - 1,
                   space->path, firn_error_text());
        return;
    }
    uint64_t offset = (uint64_t)first * pages->page_size_bytes;
    firn_rc rc = io_read(file, buffer, (size_t)count * pages->page_size_bytes, offset);
    for (uint32_t i = 0; i < count; i++) {
        uint8_t *page = buffer + (size_t)i * pages->page_size_bytes;
        if (rc != FIRN_OK && io_read(file, page, pages->page_size_bytes,
                                     offset + (uint64_t)i * pages->page_size_bytes) != FIRN_OK)
            tell_page(pages, space, first + i, PAGE_DAMAGED, firn_error_text());
        else
            judge_page(pages, space, first + i, page);
    }
    io_file_close(file);
    advance(pages, count);
}

/* ---- Threads ---- */

static void *read_chunks(void *context)
{
    struct pages_check *pages = context;
    struct files_check *check = pages->files;
    uint64_t chunk;
    size_t at = 0;
    uint8_t *buffer = memory_alloc_aligned(CHUNK_BYTES, BUFFER_ALIGNMENT);
    if (buffer == NULL) {
        files_tell(check, FINDING_UNSEEN, NULL, FINDING_NOWHERE, FINDING_NOWHERE,
                   "there is no memory to read pages with as many threads");
        return NULL;
    }
    while ((chunk = atomic_fetch_add_explicit(&pages->next_chunk, 1, memory_order_relaxed)) <
           pages->chunk_count) {
        while (at + 1 < check->space_count && check->spaces[at + 1].first_chunk <= chunk)
            at++;
        const struct files_space *space = &check->spaces[at];
        check_chunk(pages, space, (uint32_t)(chunk - space->first_chunk) * pages->chunk_pages,
                    buffer);
    }
    memory_free(buffer);
    return NULL;
}

/* Only where the log has nothing to repeat do maps say what is. */
static firn_rc prepare_spaces(struct pages_check *pages)
{
    struct files_check *check = pages->files;
    for (size_t i = 0; i < check->space_count; i++) {
        struct files_space *space = &check->spaces[i];
        space->first_chunk = pages->chunk_count;
        if (!space->is_good || files_is_dropped(check, space->info.space))
            continue;
        pages->total_bytes += (uint64_t)space->info.file_pages * pages->page_size_bytes;
        pages->chunk_count +=
            (space->info.file_pages + pages->chunk_pages - 1) / pages->chunk_pages;
        if (!check->result->is_clean)
            continue;
        struct space_file file = files_space_file(check, space);
        space->in_use = memory_zalloc((size_t)space->info.file_pages / 8 + 1, 1);
        if (space->in_use == NULL)
            return rc_raise(FIRN_E_NOMEM, "no memory for the check");
        firn_rc rc = space_file_in_use(&file, &space->info, space->in_use);
        if (rc != FIRN_OK)
            FIRN_TRY(files_tell_failure(check, space->path, rc));
    }
    return FIRN_OK;
}

/* The calling thread reads too, so fewer threads than wanted are no failure. */
firn_rc files_check_pages(struct files_check *check)
{
    struct pages_check pages = {
        .files = check,
        .page_size_bytes = check->store->env.page_size_bytes,
        .chunk_pages = CHUNK_BYTES / check->store->env.page_size_bytes,
        .lsn_limit = check->log.is_whole ? check->log.end_lsn : UINT64_MAX,
    };
    pthread_t threads[THREADS_MAX];
    unsigned started = 0;
    FIRN_TRY(prepare_spaces(&pages));
    while (started + 1 < check->threads && started < THREADS_MAX &&
           pthread_create(&threads[started], NULL, read_chunks, &pages) == 0)
        started++;
    read_chunks(&pages);
    for (unsigned i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    return FIRN_OK;
}
