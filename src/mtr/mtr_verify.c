#include "mtr/mtr_internal.h"

#include "base/check.h"
#include "base/memory.h"

#include <stdatomic.h>

static atomic_bool verify;

void mtr_verify_changes(bool on)
{
    atomic_store(&verify, on);
}

/** A page's place among the originals is its place among the pages. */
static uint8_t *original_of(const struct mtr *mtr, const struct mtr_page *page)
{
    return mtr->originals + (size_t)(page - mtr->pages) * mtr->page_size_bytes;
}

void verify_begin(struct mtr *mtr)
{
    bool wanted = atomic_load_explicit(&verify, memory_order_relaxed);
    if (wanted == (mtr->originals != NULL))
        return;
    if (wanted) {
        mtr->originals = memory_realloc_surely(NULL, (size_t)MTR_PAGES_MAX * mtr->page_size_bytes);
    } else {
        memory_free(mtr->originals);
        mtr->originals = NULL;
    }
}

void verify_keep(struct mtr *mtr, const struct mtr_page *page)
{
    memcpy(original_of(mtr, page), page->bytes, mtr->page_size_bytes);
}

static const struct mtr_page *page_of_change(const struct mtr *mtr, const struct change *change)
{
    for (unsigned i = mtr->page_count; i-- > 0;)
        if (mtr->pages[i].frame != NULL && mtr->pages[i].page_id == change->page_id)
            return &mtr->pages[i];
    return NULL;
}

void verify_commit(struct mtr *mtr)
{
    struct span body = span_of(mtr->log, mtr->log_bytes);
    struct change change;
    firn_rc rc;
    while ((rc = change_next(&body, &change)) == FIRN_OK) {
        if (change.op >= CHANGE_PAGE_LAST)
            continue;
        const struct mtr_page *page = page_of_change(mtr, &change);
        ENSURE(page != NULL && page->changed);
        ENSURE(change_apply(original_of(mtr, page), mtr->page_size_bytes, &change) == FIRN_OK);
    }
    ENSURE(rc == FIRN_E_NOT_FOUND);
    for (unsigned i = 0; i < mtr->page_count; i++)
        if (mtr->pages[i].frame != NULL)
            verify_unchanged(mtr, &mtr->pages[i]);
}

void verify_unchanged(const struct mtr *mtr, const struct mtr_page *page)
{
    ENSURE(memcmp(original_of(mtr, page), page->bytes, mtr->page_size_bytes) == 0);
}
