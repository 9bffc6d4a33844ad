/*
 * The check of tables: their rows against their indexes.
 */
#include "engine/store_check_internal.h"

struct table_check {
    struct store_check *check;
    struct table_session *session;
};

static void tell_table_problem(const struct finding *finding, void *context)
{
    check_tell(context, NULL, PAGE_NONE, "%s", finding->text);
}

/* What has been told is no reason to end the check. */
static firn_rc check_table(const char *name, void *context)
{
    struct table_check *tables = context;
    struct table_check_result result;
    struct table *table;
    firn_rc rc = table_open(store_tables(tables->check->store), name, &table);
    if (rc == FIRN_E_NOT_FOUND)
        return FIRN_OK; /* dropped meanwhile */
    if (rc == FIRN_E_CORRUPT) {
        check_tell(tables->check, NULL, PAGE_NONE, "%s", firn_error_text());
        return FIRN_OK;
    }
    FIRN_TRY(rc);
    rc = table_check(tables->session, table, tell_table_problem, tables->check, &result);
    table_close(table);
    return rc == FIRN_E_CORRUPT && result.problems > 0 ? FIRN_OK : rc;
}

firn_rc check_tables(struct store_check *check)
{
    struct table_set *set = store_tables(check->store);
    struct table_check tables = {.check = check};
    FIRN_TRY(table_session_open(set, &tables.session));
    firn_rc rc = table_each(set, check_table, &tables);
    table_session_close(tables.session);
    if (rc != FIRN_E_CORRUPT)
        return rc;
    check_tell(check, NULL, PAGE_NONE, "%s", firn_error_text());
    return FIRN_OK;
}
