#include "redo/redo_internal.h"

#include "base/check.h"
#include "base/memory.h"

#include <string.h>

/* ---- The two copies ---- */

static uint64_t copy_offset(unsigned copy)
{
    return REDO_CHECKPOINT_OFFSET + (uint64_t)copy * REDO_BLOCK_BYTES;
}

static firn_rc read_copy(struct redo *redo, uint8_t *block, unsigned copy,
                         struct redo_checkpoint *checkpoint)
{
    FIRN_TRY(io_read(redo->files[0], block, REDO_BLOCK_BYTES, copy_offset(copy)));
    firn_rc rc = redo_get_checkpoint(block, checkpoint);
    if (rc == FIRN_OK &&
        (checkpoint->log != redo->layout.number || checkpoint->lsn < redo->layout.origin_lsn))
        return FIRN_E_CORRUPT;
    return rc;
}

static firn_rc choose_copy(struct redo *redo, uint8_t *block)
{
    struct redo_checkpoint copies[REDO_CHECKPOINT_COPIES];
    firn_rc rcs[REDO_CHECKPOINT_COPIES];
    for (unsigned i = 0; i < REDO_CHECKPOINT_COPIES; i++) {
        rcs[i] = read_copy(redo, block, i, &copies[i]);
        if (rcs[i] != FIRN_OK && rcs[i] != FIRN_E_CORRUPT && rcs[i] != FIRN_E_UNSUPPORTED)
            return rcs[i];
    }
    const char *path = io_file_path(redo->files[0]);
    if (rcs[0] == FIRN_E_UNSUPPORTED || rcs[1] == FIRN_E_UNSUPPORTED)
        return rc_raise(FIRN_E_UNSUPPORTED,
                        "%s has a checkpoint of a newer version of the log's "
                        "format: open it with the program that wrote it",
                        path);
    if (rcs[0] != FIRN_OK && rcs[1] != FIRN_OK)
        return rc_raise(FIRN_E_CORRUPT,
                        "both copies of the checkpoint in %s are damaged: without "
                        "one recovery cannot begin, restore a backup",
                        path);
    unsigned chosen =
        rcs[0] != FIRN_OK || (rcs[1] == FIRN_OK && copies[1].number > copies[0].number);
    redo->checkpoint = copies[chosen];
    redo->checkpoint_copy = chosen;
    redo->checkpoint_is_twofold = rcs[0] == FIRN_OK && rcs[1] == FIRN_OK &&
                                  memcmp(&copies[0], &copies[1], sizeof(copies[0])) == 0;
    return FIRN_OK;
}

firn_rc redo_checkpoint_read(struct redo *redo)
{
    uint8_t *block = memory_alloc_aligned(REDO_BLOCK_BYTES, REDO_BLOCK_BYTES);
    if (block == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory to open the log");
    firn_rc rc = choose_copy(redo, block);
    memory_free(block);
    return rc;
}

static firn_rc write_copy(struct redo *redo, unsigned copy)
{
    redo_put_checkpoint(redo->stage, &redo->checkpoint);
    redo->file_dirty[0] = true;
    return io_write(redo->files[0], redo->stage, REDO_BLOCK_BYTES, copy_offset(copy));
}

/* A copy is overwritten only while the other one is durable, so that at each moment one of them is
   whole. The second copy's sync is the next one of file 0: until then the log from the checkpoint
   before is still there, should the first copy be lost. */
firn_rc redo_checkpoint_write(struct redo *redo, uint64_t lsn)
{
    if (redo->file_dirty[0])
        FIRN_TRY(redo_sync_file(redo, 0));
    redo->checkpoint.number++;
    redo->checkpoint.lsn = lsn;
    redo->checkpoint.epoch = redo->epoch;
    redo->checkpoint.in_flight_bytes = redo_in_flight_bytes(redo->options.buffer_size_bytes);
    FIRN_TRY(write_copy(redo, 0));
    FIRN_TRY(redo_sync_bytes(redo, 0));
    atomic_store_explicit(&redo->checkpoint_lsn, lsn, memory_order_seq_cst);
    redo_count_alone(&redo->checkpoints, 1);
    return write_copy(redo, 1);
}

firn_rc redo_checkpoint_repair(struct redo *redo)
{
    if (redo->checkpoint_is_twofold)
        return FIRN_OK;
    /* The copy that was taken is durable: what lies in file 0 was synced since it was read. */
    FIRN_TRY(write_copy(redo, 1 - redo->checkpoint_copy));
    redo->checkpoint_is_twofold = true;
    return redo_sync_file(redo, 0);
}

/* ---- Taking one ---- */

static uint64_t held_lsn(struct redo *redo, uint64_t lsn)
{
    pthread_mutex_lock(&redo->mutex);
    for (const struct redo_hold *hold = redo->holds; hold != NULL; hold = hold->next)
        if (hold->lsn < lsn)
            lsn = hold->lsn;
    pthread_mutex_unlock(&redo->mutex);
    return lsn;
}

firn_rc redo_checkpoint(struct redo *redo, uint64_t lsn)
{
    ASSERT(lsn % 8 == 0 && lsn <= atomic_load(&redo->reserved_lsn));
    lsn = held_lsn(redo, lsn);
    /* Which epoch is in force within the log of earlier lives is not known any more; at its end it
       is this one's. */
    if (lsn < redo->start_lsn)
        return redo_status(redo);
    if (lsn < redo->run_lsn)
        lsn = redo->run_lsn;
    if (lsn <= redo_checkpoint_lsn(redo))
        return redo_status(redo);
    FIRN_TRY(redo_await(redo, REDO_GOAL_DURABLE, lsn));
    redo_writer_enter(redo);
    /* Somebody else's may have come first, or a hold; and a log that has failed is not to be
       written to. */
    lsn = held_lsn(redo, lsn);
    bool wanted = !redo_has_failed(redo) && lsn > redo->checkpoint.lsn && lsn >= redo->run_lsn;
    if (wanted && redo_checkpoint_write(redo, lsn) != FIRN_OK)
        redo_fail(redo);
    redo_writer_leave(redo);
    return redo_status(redo);
}

void redo_hold(struct redo *redo, struct redo_hold *hold)
{
    pthread_mutex_lock(&redo->mutex);
    hold->next = redo->holds;
    redo->holds = hold;
    pthread_mutex_unlock(&redo->mutex);
}

void redo_release(struct redo *redo, struct redo_hold *hold)
{
    pthread_mutex_lock(&redo->mutex);
    struct redo_hold **link = &redo->holds;
    while (*link != hold)
        link = &(*link)->next;
    *link = hold->next;
    pthread_mutex_unlock(&redo->mutex);
}
