/* Any bytes may be records: a change is done wholly on a sound page and leaves it sound, or is
   refused and leaves it untouched. */
#include "../page/page_exercise.h"

#include "page/undo_page.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

enum { SIZE = PAGE_SIZE_MIN, PAGES = 4 };

/* Wherever an entry is looked for, what is found lies within the page. */
static void read_entries(const uint8_t *page)
{
    struct undo_entry entry;
    for (uint32_t offset = 0; offset < SIZE + 8; offset++)
        if (undo_entry_get(page, SIZE, offset, &entry)) {
            ENSURE(offset + entry.size_bytes <= SIZE);
            read_span(entry.data);
        }
}

/* A page of undo with a log on it. */
static void make_undo(uint8_t *page)
{
    static const uint8_t record[] = "\2a record";
    struct undo_page_head head = {.segment = 1, .prev = PAGE_NONE, .next = PAGE_NONE};
    struct undo_log_head log = {.txn_id = 7, .before = 3, .sequence = 1};
    uint8_t payload[UNDO_APPEND_LOG_BYTES];
    page_init(page, SIZE, page_id_of(1, 1), PAGE_TYPE_UNDO);
    undo_page_head_put(page + UNDO_AT_OWNER, &head);
    undo_append_put_log(payload, &log);
    ENSURE(undo_page_append(page, SIZE, span_of(payload, sizeof payload)));
    ENSURE(undo_page_append(page, SIZE, span_of(record, sizeof record)));
}

static void apply(uint8_t *page, const struct change *change)
{
    static uint8_t before[SIZE];
    char what[128];
    bool was_sound = undo_page_check(page, SIZE, what) == FIRN_OK;
    memcpy(before, page, SIZE);
    firn_rc rc = change_apply(page, SIZE, change);
    ENSURE(rc == FIRN_OK || rc == FIRN_E_CORRUPT);
    if (rc != FIRN_OK)
        ENSURE(memcmp(before, page, SIZE) == 0);
    else if (page_type(page) == PAGE_TYPE_INDEX)
        ENSURE(is_sound(page, SIZE, true));
    else if (change->op == CHANGE_UNDO_APPEND && was_sound)
        ENSURE(undo_page_check(page, SIZE, what) == FIRN_OK);
    read_entries(page);
}

/* Beside whole records, the input's first bytes choose operation and page for the rest. */
static void apply_one(uint8_t *const *pages, const uint8_t *data, size_t size_bytes)
{
    if (size_bytes < 2)
        return;
    struct change change = {
        .op = (enum change_op)(data[0] % (CHANGE_LAST + 1)),
        .page_id = page_id_of(1, 1),
        .payload = span_of(data + 2, size_bytes - 2),
    };
    apply(pages[data[1] % PAGES], &change);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    uint8_t *pages[PAGES];
    for (unsigned i = 0; i < PAGES; i++) {
        pages[i] = malloc(SIZE);
        ENSURE(pages[i] != NULL);
    }
    exercise_make(pages[0], SIZE, 0);
    exercise_make(pages[1], SIZE, 1);
    page_init(pages[2], SIZE, page_id_of(1, 1), PAGE_TYPE_BLOB);
    make_undo(pages[3]);
    apply_one(pages, data, size_bytes);
    struct span body = span_of(data, size_bytes);
    struct change change;
    firn_rc rc;
    while ((rc = change_next(&body, &change)) == FIRN_OK)
        apply(pages[page_id_number(change.page_id) % PAGES], &change);
    ENSURE(rc == (body.size_bytes == 0 ? FIRN_E_NOT_FOUND : FIRN_E_CORRUPT));
    for (unsigned i = 0; i < PAGES; i++)
        free(pages[i]);
    return 0;
}
