/*
 * torn.c -- pages that cannot be read before the log begins them anew.
 *
 * A page that is written for the first time since a record that sets all of it is written without a
 * second copy (src/buffer/README.md). If the power tears it, that record is in the log; but records
 * of an earlier life of the page may come before it, in an earlier batch.
 */
#include "recovery/recovery_internal.h"

#include "base/memory.h"

#include <stdio.h>

void torn_init(struct torn_pages *torn)
{
    pthread_mutex_init(&torn->mutex, NULL);
    torn->first = NULL;
    atomic_init(&torn->count, 0);
}

void torn_free(struct torn_pages *torn)
{
    while (torn->first != NULL) {
        struct torn_page *page = torn->first;
        torn->first = page->next;
        memory_free(page);
    }
    pthread_mutex_destroy(&torn->mutex);
}

static bool is_there(const struct torn_pages *torn, uint64_t page_id)
{
    for (const struct torn_page *page = torn->first; page != NULL; page = page->next)
        if (page->page_id == page_id)
            return true;
    return false;
}

bool torn_has(struct torn_pages *torn, uint64_t page_id)
{
    /* A page is one thread's, so what that one added itself it sees. */
    if (atomic_load_explicit(&torn->count, memory_order_relaxed) == 0)
        return false;
    pthread_mutex_lock(&torn->mutex);
    bool found = is_there(torn, page_id);
    pthread_mutex_unlock(&torn->mutex);
    return found;
}

firn_rc torn_add(struct torn_pages *torn, uint64_t page_id, firn_rc rc)
{
    if (rc != FIRN_E_CORRUPT && rc != FIRN_E_IO)
        return rc;
    struct torn_page *page = memory_alloc(sizeof(*page));
    if (page == NULL)
        return rc;
    page->page_id = page_id;
    page->rc = rc;
    snprintf(page->text, sizeof(page->text), "%s", firn_error_text());
    pthread_mutex_lock(&torn->mutex);
    bool has_room = atomic_load_explicit(&torn->count, memory_order_relaxed) < TORN_PAGES_MAX;
    if (has_room) {
        page->next = torn->first;
        torn->first = page;
        atomic_fetch_add_explicit(&torn->count, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&torn->mutex);
    if (has_room)
        return FIRN_OK;
    memory_free(page);
    return rc;
}

void torn_begun(struct torn_pages *torn, uint64_t page_id)
{
    if (atomic_load_explicit(&torn->count, memory_order_relaxed) == 0)
        return;
    pthread_mutex_lock(&torn->mutex);
    for (struct torn_page **link = &torn->first; *link != NULL; link = &(*link)->next)
        if ((*link)->page_id == page_id) {
            struct torn_page *page = *link;
            *link = page->next;
            memory_free(page);
            atomic_fetch_sub_explicit(&torn->count, 1, memory_order_relaxed);
            break;
        }
    pthread_mutex_unlock(&torn->mutex);
}

/** At the end of the log, a page that nobody has may be anything: who takes it begins it anew.
 * Where that cannot be told it is missed. */
static bool is_missed(struct space_set *spaces, uint64_t page_id)
{
    bool has;
    if (space_has(spaces, page_id) != FIRN_OK)
        return false;
    firn_rc rc = space_has_page(spaces, page_id_space(page_id), page_id_number(page_id), &has);
    return rc != FIRN_OK || has;
}

firn_rc torn_raise(const struct torn_pages *torn, struct space_set *spaces)
{
    for (const struct torn_page *page = torn->first; page != NULL; page = page->next)
        if (is_missed(spaces, page->page_id))
            return rc_raise(page->rc, "%s", page->text);
    return FIRN_OK;
}
