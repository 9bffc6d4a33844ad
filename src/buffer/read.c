/*
 * read.c -- pages coming in: publish a frame, read, judge, let others in.
 *
 * The thread that misses does it all itself. It publishes its frame in the page map before it
 * reads, READING and EXCLUSIVE, so that of many who want the page one reads and the others wait for
 * it. A read that fails withdraws the frame: those who wait find PRESENT gone, return the same
 * failure, and the last of them frees the frame; those who come later try afresh.
 */
#include "base/inject.h"
#include "buffer/pool_internal.h"

bool frame_publish(struct buffer_pool *pool, struct buffer_frame *frame, uint64_t page_id,
                   uint64_t flags)
{
    uint64_t state = atomic_load_explicit(&frame->state, memory_order_relaxed);
    ASSERT((state & ~BUFFER_VERSION_MASK) == 0);
    frame->changed = 0;
    frame->is_new = 0;
    map_lock(pool, page_id);
    bool published = map_find_locked(pool, page_id) == NULL;
    if (published) {
        atomic_store_explicit(&frame->page_id, page_id, memory_order_relaxed);
        map_insert_locked(pool, page_id, frame);
        atomic_store_explicit(&frame->state,
                              (state + BUFFER_VERSION_ONE) | BUFFER_IS_PRESENT |
                                  BUFFER_IS_EXCLUSIVE | flags | BUFFER_PIN_ONE,
                              memory_order_release);
    }
    map_unlock(pool, page_id);
    if (!published)
        frame_free(pool, frame);
    return published;
}

void frame_withdraw(struct buffer_pool *pool, struct buffer_frame *frame, firn_rc rc,
                    enum page_state page_state)
{
    uint64_t page_id = buffer_page_id(frame);
    atomic_store_explicit(&frame->read_rc, (int16_t)rc, memory_order_relaxed);
    atomic_store_explicit(&frame->read_state, (uint8_t)page_state, memory_order_relaxed);
    map_lock(pool, page_id);
    map_remove_locked(pool, page_id, frame);
    uint64_t state = atomic_load_explicit(&frame->state, memory_order_relaxed);
    uint64_t gone;
    do
        gone = ((state & BUFFER_VERSION_MASK) + BUFFER_VERSION_ONE) |
               ((state & BUFFER_PIN_MASK) - BUFFER_PIN_ONE);
    while (!atomic_compare_exchange_weak_explicit(&frame->state, &state, gone, memory_order_release,
                                                  memory_order_relaxed));
    map_unlock(pool, page_id);
    if ((state & BUFFER_HAS_WAITERS) != 0)
        latch_wake(frame);
    /* The last to leave frees the frame; who waits has a pin. */
    if (state_pins(gone) == 0)
        frame_free(pool, frame);
}

void frame_arrived(struct buffer_frame *frame, enum buffer_mode mode, unsigned pins_to_drop)
{
    uint64_t state = atomic_load_explicit(&frame->state, memory_order_relaxed);
    uint64_t arrived;
    do {
        arrived = state & ~(BUFFER_IS_READING | BUFFER_HAS_WAITERS | BUFFER_IS_WANTED |
                            BUFFER_IS_EXCLUSIVE);
        arrived = state_latched(arrived, mode) - pins_to_drop * BUFFER_PIN_ONE;
    } while (!atomic_compare_exchange_weak_explicit(&frame->state, &state, arrived,
                                                    memory_order_acq_rel, memory_order_relaxed));
    if ((state & BUFFER_HAS_WAITERS) != 0)
        latch_wake(frame);
}

firn_rc frame_verify(struct buffer_pool *pool, struct buffer_frame *frame, enum page_state *state)
{
    /* After the read: what was on the device by then had its log reserved before. */
    *state = page_verify(buffer_page(pool, frame), pool->page_size_bytes, buffer_page_id(frame),
                         redo_reserved_lsn(pool->options.redo));
    return *state == PAGE_GOOD ? FIRN_OK : FIRN_E_CORRUPT;
}

firn_rc page_read_raise(struct buffer_pool *pool, uint64_t page_id, firn_rc rc,
                        enum page_state state)
{
    struct io_file *file;
    uint64_t offset;
    const char *path = "a file that is gone";
    if (pool->options.files.locate(pool->options.files.context, page_id, &file, &offset) == FIRN_OK)
        path = io_file_path(file);
    unsigned space = page_id_space(page_id);
    unsigned number = page_id_number(page_id);
    if (rc == FIRN_E_CORRUPT && state != PAGE_GOOD)
        return rc_raise(rc,
                        "page %u of table space %u (%s) %s: restore the file from a backup, or "
                        "dump what can still be read",
                        number, space, path, page_state_text(state));
    return rc_raise(rc, "page %u of table space %u (%s) could not be read: %s", number, space, path,
                    firn_rc_text(rc));
}

/* The thread's error text is what io_read said. */
static firn_rc read_failed(uint64_t page_id, firn_rc rc)
{
    const char *advice = "";
    if (rc == FIRN_E_SHORT) {
        rc = FIRN_E_CORRUPT;
        advice = "; the file has been cut off: restore it from a backup";
    }
    return rc_raise(rc, "page %u of table space %u: %s%s", page_id_number(page_id),
                    page_id_space(page_id), firn_error_text(), advice);
}

/* Asking where the page lies comes behind publishing the frame: a tablespace that is dropped is
 * first found no longer, then its frames are discarded (buffer_discard waits for this one), then
 * its file is closed. */
static firn_rc read_into(struct buffer_pool *pool, struct buffer_frame *frame)
{
    const struct buffer_files *files = &pool->options.files;
    uint64_t page_id = buffer_page_id(frame);
    struct io_file *file;
    uint64_t offset;
    enum page_state state = PAGE_GOOD;
    INJECT("buffer-read-published");
    firn_rc rc = files->locate(files->context, page_id, &file, &offset);
    if (rc == FIRN_OK) {
        INJECT("buffer-read-located");
        rc = io_read(file, buffer_page(pool, frame), pool->page_size_bytes, offset);
        if (rc != FIRN_OK)
            rc = read_failed(page_id, rc);
    }
    if (rc != FIRN_OK) {
        frame_withdraw(pool, frame, rc, PAGE_GOOD);
        return rc;
    }
    rc = frame_verify(pool, frame, &state);
    if (rc != FIRN_OK) {
        page_read_raise(pool, page_id, rc, state);
        frame_withdraw(pool, frame, rc, state);
        return rc;
    }
    atomic_fetch_add_explicit(&pool->pages_read, 1, memory_order_relaxed);
    return FIRN_OK;
}

firn_rc page_read(struct buffer_pool *pool, uint64_t page_id, enum buffer_mode mode,
                  enum buffer_hint hint, struct buffer_frame **frame)
{
    struct buffer_frame *taken;
    *frame = NULL;
    FIRN_TRY(frame_take(pool, &taken));
    atomic_store_explicit(&taken->read_ahead, hint == BUFFER_HINT_READ_AHEAD, memory_order_relaxed);
    if (!frame_publish(pool, taken, page_id, BUFFER_IS_READING))
        return FIRN_OK;
    FIRN_TRY(read_into(pool, taken));
    frame_arrived(taken, mode, 0);
    *frame = taken;
    return FIRN_OK;
}
