/*
 * Sessions: a thread's transaction, and the memory that its operations need.
 */
#include "table/table_internal.h"

#include "base/memory.h"

#include <time.h>

enum { KEYS = 4, VALUES = 5 };

firn_rc table_session_open(struct table_set *set, struct table_session **session)
{
    struct table_session *made = memory_zalloc(1, sizeof *made);
    if (made == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for a session");
    made->set = set;
    made->auto_offset = 1;
    made->auto_increment = 1;
    firn_rc rc = txn_session_open(set->options.transactions, &made->txn);
    if (rc != FIRN_OK) {
        memory_free(made);
        return rc;
    }
    *session = made;
    return FIRN_OK;
}

void table_session_close(struct table_session *session)
{
    if (session == NULL)
        return;
    table_session_close(session->deeper);
    if (session->depth == 0)
        txn_session_close(session->txn);
    memory_free(session->found_key.bytes);
    memory_free(session->new_key);
    memory_free(session->found_values);
    memory_free(session->old_row.bytes);
    memory_free(session->new_row.bytes);
    memory_free(session);
}

struct txn_session *table_session_txn(struct table_session *session)
{
    return session->txn;
}

void table_session_set_autoincrement(struct table_session *session, uint64_t offset,
                                     uint64_t increment)
{
    session->auto_offset = offset;
    session->auto_increment = increment;
}

void table_session_set_now(struct table_session *session, const struct value_now *now)
{
    session->has_now = now != NULL;
    if (now != NULL)
        session->now = *now;
}

unsigned table_session_duplicate(const struct table_session *session)
{
    return session->duplicate;
}

struct value_now table_session_now(const struct table_session *session)
{
    struct timespec time;
    struct tm parts;
    if (session->has_now)
        return session->now;
    clock_gettime(CLOCK_REALTIME, &time);
    gmtime_r(&time.tv_sec, &parts);
    unsigned microsecond = (unsigned)(time.tv_nsec / 1000);
    uint64_t date = value_date((unsigned)parts.tm_year + 1900, (unsigned)parts.tm_mon + 1,
                               (unsigned)parts.tm_mday);
    return (struct value_now){
        .timestamp = (uint64_t)time.tv_sec * 1000000 + microsecond,
        .datetime =
            value_datetime(date, (unsigned)parts.tm_hour, (unsigned)parts.tm_min,
                           (unsigned)parts.tm_sec < 60 ? (unsigned)parts.tm_sec : 59, microsecond)};
}

/* ---- Scratch ---- */

static firn_rc fit_keys(struct table_session *session, size_t room)
{
    uint8_t *bytes = memory_alloc(KEYS * room);
    if (bytes == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for keys");
    memory_free(session->new_key);
    session->new_key = bytes;
    session->old_entry = bytes + room;
    session->new_entry = bytes + 2 * room;
    session->room = bytes + 3 * room;
    session->key_capacity_bytes = room;
    return FIRN_OK;
}

static firn_rc fit_values(struct table_session *session, unsigned count)
{
    struct value *values = memory_zalloc(VALUES * (size_t)count, sizeof *values);
    if (values == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for the values of %u columns", count);
    memory_free(session->found_values);
    session->found_values = values;
    session->old_values = values + count;
    session->new_values = values + 2 * (size_t)count;
    session->seek_values = values + 3 * (size_t)count;
    session->assigned = values + 4 * (size_t)count;
    session->value_capacity = count;
    return FIRN_OK;
}

firn_rc table_session_fit(struct table_session *session, const struct table_schema *schema)
{
    if (session->key_capacity_bytes < key_room(schema))
        FIRN_TRY(fit_keys(session, key_room(schema)));
    if (session->value_capacity < schema->live_count)
        FIRN_TRY(fit_values(session, schema->live_count));
    return FIRN_OK;
}

firn_rc table_bytes_reserve(struct table_bytes *bytes, size_t size_bytes)
{
    if (size_bytes <= bytes->capacity_bytes)
        return FIRN_OK;
    size_t capacity = size_bytes + size_bytes / 2;
    uint8_t *made = memory_alloc(capacity);
    if (made == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for a row of %zu bytes", size_bytes);
    memory_free(bytes->bytes);
    bytes->bytes = made;
    bytes->capacity_bytes = capacity;
    return FIRN_OK;
}
