/* Any bytes may be records: a change is done wholly on a sound page and leaves it sound, or is
   refused and leaves it untouched. */
#include "../page/page_exercise.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

enum { SIZE = PAGE_SIZE_MIN, PAGES = 3 };

static void apply(uint8_t *page, const struct change *change)
{
    static uint8_t before[SIZE];
    memcpy(before, page, SIZE);
    firn_rc rc = change_apply(page, SIZE, change);
    ENSURE(rc == FIRN_OK || rc == FIRN_E_CORRUPT);
    if (rc != FIRN_OK)
        ENSURE(memcmp(before, page, SIZE) == 0);
    else if (page_type(page) == PAGE_TYPE_INDEX)
        ENSURE(is_sound(page, SIZE, true));
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
