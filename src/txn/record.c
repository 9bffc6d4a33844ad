/*
 * Transactions and who writes down what they do: committing where that has to be written first.
 */
#include "txn/txn_internal.h"

#include <inttypes.h>
#include <stdio.h>

#define OWN_XID "firn-binlog-"

const struct txn_recorder *txn_recorder_of(const struct txn *txn)
{
    return txn->recording == NULL ? NULL : txn->set->options.recorder;
}

void txn_drop_recording(struct txn *txn)
{
    const struct txn_recorder *recorder = txn_recorder_of(txn);
    if (recorder != NULL)
        recorder->drop(txn->recording);
    txn->recording = NULL;
}

firn_rc txn_record_text(struct txn_session *session, struct span text)
{
    const struct txn_recorder *recorder = session->set->options.recorder;
    FIRN_TRY(txn_make_writer(session));
    if (recorder == NULL)
        return FIRN_OK;
    struct txn *txn = session->txn;
    return recorder->text(txn->id, text, &txn->recording, recorder->context);
}

/* ---- Committing in the order in which it is written down ---- */

bool txn_xid_is_own(struct span xid)
{
    size_t size = sizeof(OWN_XID) - 1;
    return xid.size_bytes > size && memcmp(xid.bytes, OWN_XID, size) == 0;
}

/* Whether it is committed is decided by whether it has been written down, so its changes must
   survive until that is known. */
static firn_rc prepare_own(struct txn *txn, struct mtr *mtr)
{
    uint64_t end_lsn;
    txn->xid_bytes =
        (size_t)snprintf((char *)txn->xid, sizeof txn->xid, OWN_XID "%" PRIu64, txn->id);
    FIRN_TRY(txn_mark_prepared(txn, mtr, span_of(txn->xid, txn->xid_bytes), &end_lsn));
    txn->state = TXN_PREPARED;
    return redo_flush(txn->set->base.redo, end_lsn, REDO_FLUSH_SYNC);
}

struct ordered {
    struct txn *txn;
    struct mtr *mtr;
    uint64_t end_lsn;
};

static firn_rc finish_ordered(void *context)
{
    struct ordered *ordered = context;
    return txn_finish(ordered->txn, ordered->mtr, UNDO_COMMITTED, &ordered->end_lsn);
}

static firn_rc commit_ordered(struct txn *txn, struct mtr *mtr)
{
    const struct txn_recorder *recorder = txn_recorder_of(txn);
    struct ordered ordered = {.txn = txn, .mtr = mtr};
    if (txn->state == TXN_ACTIVE)
        FIRN_TRY(prepare_own(txn, mtr));
    void *recording = txn->recording;
    txn->recording = NULL;
    return recorder->in_order(recording, finish_ordered, &ordered);
}

firn_rc txn_finish_committed(struct txn *txn, struct mtr *mtr, uint64_t *end_lsn)
{
    const struct txn_recorder *recorder = txn_recorder_of(txn);
    size_t log_bytes = 0;
    if (recorder == NULL || recorder->in_order == NULL)
        return txn_finish(txn, mtr, UNDO_COMMITTED, end_lsn);
    FIRN_TRY(recorder->begin_commit(txn->recording, &log_bytes));
    if (log_bytes == 0)
        return txn_finish(txn, mtr, UNDO_COMMITTED, end_lsn);
    firn_rc rc = commit_ordered(txn, mtr);
    if (rc == FIRN_OK)
        *end_lsn = 0;
    /* Prepared it stays so: only the next opening can decide. */
    return rc != FIRN_OK && txn->state == TXN_PREPARED ? FIRN_E_STOPPED : rc;
}
