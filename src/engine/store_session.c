#include "engine/store_internal.h"

#include "base/memory.h"

struct store_session {
    struct store *store;
    struct btree_session *btree;
    enum redo_flush flush;
    uint64_t commit_lsn; /* how far the log must be flushed; 0: nothing was changed */
};

firn_rc store_session_open(struct store *store, struct store_session **session)
{
    struct store_session *made = memory_zalloc(1, sizeof(*made));
    if (made == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for a session");
    firn_rc rc = btree_session_open(&store->base, &made->btree);
    if (rc != FIRN_OK) {
        memory_free(made);
        return rc;
    }
    made->store = store;
    made->flush = store->options.flush_log_at_commit;
    *session = made;
    return FIRN_OK;
}

void store_session_close(struct store_session *session)
{
    if (session == NULL)
        return;
    btree_session_close(session->btree);
    memory_free(session);
}

struct btree_session *store_session_btree(struct store_session *session)
{
    return session->btree;
}

void store_session_set_flush(struct store_session *session, enum redo_flush flush)
{
    session->flush = flush;
}

/* Later changes of a session end later in the log. */
static firn_rc note_change(struct store_session *session, firn_rc rc, uint64_t end_lsn)
{
    if (rc == FIRN_OK && end_lsn > session->commit_lsn)
        session->commit_lsn = end_lsn;
    return rc;
}

firn_rc store_put(struct store_session *session, struct btree *tree, struct span key,
                  struct span value)
{
    uint64_t end_lsn = 0;
    firn_rc rc = btree_put(session->btree, tree, key, value, &end_lsn);
    return note_change(session, rc, end_lsn);
}

firn_rc store_insert(struct store_session *session, struct btree *tree, struct span key,
                     struct span value)
{
    uint64_t end_lsn = 0;
    firn_rc rc = btree_insert(session->btree, tree, key, value, &end_lsn);
    return note_change(session, rc, end_lsn);
}

firn_rc store_delete(struct store_session *session, struct btree *tree, struct span key)
{
    uint64_t end_lsn = 0;
    firn_rc rc = btree_delete(session->btree, tree, key, &end_lsn);
    return note_change(session, rc, end_lsn);
}

firn_rc store_get(struct store_session *session, struct btree *tree, struct span key,
                  struct span *value)
{
    return btree_get(session->btree, tree, key, value);
}

firn_rc store_edit(struct store_session *session, struct btree *tree, struct span key,
                   const struct btree_edit *edit)
{
    uint64_t end_lsn = 0;
    firn_rc rc = btree_edit(session->btree, tree, key, edit, &end_lsn);
    return note_change(session, rc, end_lsn);
}

firn_rc store_commit(struct store_session *session)
{
    uint64_t lsn = session->commit_lsn;
    if (lsn == 0)
        return FIRN_OK;
    FIRN_TRY(redo_flush(session->store->redo, lsn, session->flush));
    session->commit_lsn = 0;
    return FIRN_OK;
}
