/*
 * The set of undo tablespaces: opening, closing, ids, counters.
 *
 * The first tablespace's directory also says how many tablespaces there are, and up to which id
 * transactions may have come. It says so after what it tells of has been made; so what it tells of
 * and is not there was lost.
 */
#include "txn/undo_set_internal.h"

#include "base/memory.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    NAME_BYTES = 16,
    /* Ids that are drawn between two writes of their limit. */
    ID_STEP = 65536,
    DIRECTORY_LOG_BYTES = 2 * SPACE_LOG_MAX_BYTES + 4 * (CHANGE_HEADER_MAX_BYTES + 16),
};

static void put_name(char name[NAME_BYTES], unsigned ordinal)
{
    snprintf(name, NAME_BYTES, "undo_%03u", ordinal);
}

/* ---- Directories ---- */

/* Make the directory of a tablespace and let its first page lead there. */
static firn_rc make_directory(struct undo_set *set, struct mtr *mtr, struct undo_space *space)
{
    struct mtr_page *page;
    uint32_t page_no;
    uint8_t owner[8];
    FIRN_TRY(space_allocate(set->spaces, mtr, space->space, UNDO_OWNER, PAGE_NONE, &page_no));
    firn_rc rc = mtr_fix_new(mtr, undo_page_id(space, page_no), &page);
    if (rc == FIRN_OK)
        rc = space_set_entry(set->spaces, mtr, space->space, page_no);
    if (rc != FIRN_OK) {
        space_unallocate(set->spaces, mtr, space->space, UNDO_OWNER, page_no, 1);
        return rc;
    }
    put_u64(owner, UNDO_OWNER);
    mtr_page_init(mtr, page, PAGE_TYPE_UNDO_DIRECTORY);
    mtr_write(mtr, page, UNDO_DIRECTORY_AT_OWNER, span_of(owner, sizeof owner));
    space->directory_page = page_no;
    return FIRN_OK;
}

/* Find a tablespace and its directory; make what there has not been before. */
static firn_rc open_space(struct undo_set *set, struct mtr *mtr, unsigned ordinal, bool make)
{
    struct undo_space *space = &set->tablespaces[ordinal - 1];
    char name[NAME_BYTES];
    put_name(name, ordinal);
    *space = (struct undo_space){.ordinal = ordinal};
    firn_rc rc = space_find(set->spaces, name, &space->space);
    if (rc == FIRN_E_NOT_FOUND && make)
        rc = space_create(set->spaces, mtr, IO_CLASS_UNDO, name, &space->space);
    if (rc == FIRN_E_NOT_FOUND)
        return rc_raise(FIRN_E_CORRUPT,
                        "undo tablespace %s is missing; put its file back, for transactions may "
                        "need what it holds",
                        name);
    FIRN_TRY(rc);
    FIRN_TRY(space_entry(set->spaces, space->space, &space->directory_page));
    if (space->directory_page == PAGE_NONE) {
        if (!make)
            return rc_raise(FIRN_E_CORRUPT, "undo tablespace %s has lost its directory", name);
        FIRN_TRY(space_prepare(set->spaces, space->space, 1));
        FIRN_TRY(mtr_begin(mtr, DIRECTORY_LOG_BYTES));
        FIRN_TRY(undo_finish_mtr(mtr, make_directory(set, mtr, space)));
    }
    space->taken = memory_zalloc(undo_directory_slots(set->page_size_bytes), 1);
    if (space->taken == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for the directory of %s", name);
    set->space_count = ordinal;
    return FIRN_OK;
}

/* Copy a directory page. */
static firn_rc load_directory(struct undo_set *set, const struct undo_space *space, uint8_t *copy)
{
    struct buffer_frame *frame;
    FIRN_TRY(buffer_fix(set->pool, undo_page_id(space, space->directory_page), BUFFER_SHARED,
                        BUFFER_HINT_NORMAL, &frame));
    memcpy(copy, buffer_page(set->pool, frame), set->page_size_bytes);
    buffer_unfix(set->pool, frame, BUFFER_SHARED);
    if (page_type(copy) != PAGE_TYPE_UNDO_DIRECTORY ||
        get_u64(copy + UNDO_DIRECTORY_AT_OWNER) != UNDO_OWNER)
        return undo_raise_page(space, space->directory_page, "ought to be its directory");
    return FIRN_OK;
}

/* Let the first directory say how many tablespaces there are. */
static firn_rc note_spaces(struct undo_set *set, struct mtr *mtr)
{
    struct mtr_page *page;
    uint8_t count[4];
    put_u32(count, set->space_count);
    FIRN_TRY(mtr_begin(mtr, DIRECTORY_LOG_BYTES));
    firn_rc rc = undo_directory_fix(&set->tablespaces[0], mtr, &page);
    if (rc == FIRN_OK)
        mtr_write(mtr, page, UNDO_DIRECTORY_AT_SPACES, span_of(count, sizeof count));
    return undo_finish_mtr(mtr, rc);
}

/* Is there a tablespace besides the first? @param context  a bool, set if there is */
static firn_rc notice_others(const struct space_info *info, void *context)
{
    if (info->class == IO_CLASS_UNDO && strcmp(info->name, "undo_001") != 0)
        *(bool *)context = true;
    return FIRN_OK;
}

static firn_rc open_spaces(struct undo_set *set, struct mtr *mtr,
                           const struct undo_options *options, uint8_t *page)
{
    bool others = false;
    FIRN_TRY(space_each(set->spaces, notice_others, &others));
    FIRN_TRY(open_space(set, mtr, 1, options->create && !others));
    FIRN_TRY(load_directory(set, &set->tablespaces[0], page));
    uint32_t there = get_u32(page + UNDO_DIRECTORY_AT_SPACES);
    if (there > UNDO_SPACES_MAX)
        return undo_raise_page(&set->tablespaces[0], set->tablespaces[0].directory_page,
                               "says that there are more undo tablespaces than can be");
    set->first_id = get_u64(page + UNDO_DIRECTORY_AT_ID_LIMIT);
    for (unsigned i = 2; i <= there || i <= options->tablespaces; i++)
        FIRN_TRY(open_space(set, mtr, i, i > there));
    return set->space_count > there ? note_spaces(set, mtr) : FIRN_OK;
}

/* ---- Opening and closing ---- */

static firn_rc open_segments(struct undo_set *set, struct undo_space *space, uint8_t *page)
{
    FIRN_TRY(load_directory(set, space, page));
    uint64_t number = get_u64(page + UNDO_DIRECTORY_AT_NUMBER);
    if (number > set->last_number)
        set->last_number = number;
    for (uint32_t i = 0; i < undo_directory_slots(set->page_size_bytes); i++) {
        struct undo_slot slot = undo_slot_get(page, i);
        if (slot.head != 0)
            FIRN_TRY(undo_segment_open(set, space, i, &slot));
    }
    return FIRN_OK;
}

firn_rc undo_open(const struct undo_options *options, struct mtr *mtr, struct undo_set **set)
{
    if (options->tablespaces < 1 || options->tablespaces > UNDO_SPACES_MAX)
        return rc_raise(FIRN_E_INVALID, "undo_tablespaces is %u; 1 to %d are allowed",
                        options->tablespaces, UNDO_SPACES_MAX);
    struct undo_set *opened = memory_zalloc(1, sizeof *opened);
    if (opened == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for the undo tablespaces");
    pthread_mutex_init(&opened->mutex, NULL);
    opened->spaces = options->spaces;
    opened->pool = options->pool;
    opened->page_size_bytes = buffer_page_size(options->pool);
    firn_rc rc = FIRN_OK;
    uint8_t *page = memory_alloc(opened->page_size_bytes);
    if (page == NULL)
        rc = rc_raise(FIRN_E_NOMEM, "no memory for a directory of undo");
    if (rc == FIRN_OK)
        rc = open_spaces(opened, mtr, options, page);
    for (unsigned i = 0; rc == FIRN_OK && i < opened->space_count; i++)
        rc = open_segments(opened, &opened->tablespaces[i], page);
    memory_free(page);
    if (rc != FIRN_OK) {
        undo_close(opened);
        return rc;
    }
    atomic_store_explicit(&opened->id_limit, opened->first_id, memory_order_relaxed);
    if (opened->first_id == 0)
        opened->first_id = 1;
    *set = opened;
    return FIRN_OK;
}

firn_rc undo_extend(struct undo_set *set, struct mtr *mtr, unsigned tablespaces)
{
    unsigned there = set->space_count;
    for (unsigned i = there + 1; i <= tablespaces; i++)
        FIRN_TRY(open_space(set, mtr, i, true));
    return set->space_count > there ? note_spaces(set, mtr) : FIRN_OK;
}

void undo_close(struct undo_set *set)
{
    if (set == NULL)
        return;
    for (unsigned i = 0; i < set->segment_count; i++)
        memory_free(set->segments[i]);
    memory_free(set->segments);
    for (unsigned i = 0; i < set->space_count; i++)
        memory_free(set->tablespaces[i].taken);
    pthread_mutex_destroy(&set->mutex);
    memory_free(set);
}

/* ---- Ids and numbers ---- */

uint64_t undo_first_id(const struct undo_set *set)
{
    return set->first_id;
}

uint64_t undo_last_number(const struct undo_set *set)
{
    return set->last_number;
}

/* Let the first directory say a limit above an id. @param limit  set to what it says */
static firn_rc raise_limit(struct undo_set *set, struct mtr *mtr, uint64_t id, uint64_t *limit)
{
    struct mtr_page *page;
    uint8_t bytes[8];
    FIRN_TRY(undo_directory_fix(&set->tablespaces[0], mtr, &page));
    *limit = get_u64(page->bytes + UNDO_DIRECTORY_AT_ID_LIMIT);
    if (id < *limit)
        return FIRN_OK; /* another thread has been here */
    *limit = id + ID_STEP;
    put_u64(bytes, *limit);
    mtr_write(mtr, page, UNDO_DIRECTORY_AT_ID_LIMIT, span_of(bytes, sizeof bytes));
    return FIRN_OK;
}

firn_rc undo_cover_id(struct undo_set *set, struct mtr *mtr, uint64_t id)
{
    uint64_t limit;
    /* Pairs with the store below: who sees the limit appends his records behind it in the log. */
    if (id < atomic_load_explicit(&set->id_limit, memory_order_acquire))
        return FIRN_OK;
    FIRN_TRY(mtr_begin(mtr, DIRECTORY_LOG_BYTES));
    FIRN_TRY(undo_finish_mtr(mtr, raise_limit(set, mtr, id, &limit)));
    /* A thread that comes late may set it back: then it is looked up once more. */
    atomic_store_explicit(&set->id_limit, limit, memory_order_release);
    return FIRN_OK;
}

/* ---- Counters ---- */

/* What undo_counters adds up over the files. */
struct file_bytes {
    const struct undo_set *set;
    uint64_t bytes;
};

static firn_rc add_file(const struct space_info *info, void *context)
{
    struct file_bytes *sum = context;
    for (unsigned i = 0; i < sum->set->space_count; i++)
        if (sum->set->tablespaces[i].space == info->space)
            sum->bytes += (uint64_t)info->pages * sum->set->page_size_bytes;
    return FIRN_OK;
}

static void add_segment(const struct undo_segment *segment, struct undo_counters *counters)
{
    counters->records += atomic_load_explicit(&segment->records, memory_order_relaxed);
    counters->record_bytes += atomic_load_explicit(&segment->record_bytes, memory_order_relaxed);
    counters->logs += atomic_load_explicit(&segment->logs, memory_order_relaxed);
}

firn_rc undo_counters(struct undo_set *set, struct undo_counters *counters)
{
    struct file_bytes sum = {.set = set};
    FIRN_TRY(space_each(set->spaces, add_file, &sum));
    *counters = (struct undo_counters){
        .pages = atomic_load_explicit(&set->pages, memory_order_relaxed),
        .file_bytes = sum.bytes,
    };
    undo_lock(set);
    for (unsigned i = 0; i < set->space_count; i++)
        counters->segments += set->tablespaces[i].segments;
    counters->segments_in_use = set->in_use;
    counters->records = set->gone_records;
    counters->record_bytes = set->gone_record_bytes;
    for (unsigned i = 0; i < set->segment_count; i++)
        if (set->segments[i] != NULL)
            add_segment(set->segments[i], counters);
    undo_unlock(set);
    return FIRN_OK;
}
