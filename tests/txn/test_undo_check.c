/*
 * Each rule of what pages of undo say is broken once, and the check says which; and any bytes may
 * be anywhere: opening, checking, reading and purging come to an end, and change nothing wrong.
 */
#include "txn/undo_world.h"

enum { SLOT = 0 };

static struct sim_disk *disk;
static uint8_t scratch[PAGE];
static uint8_t copy[PAGE];
static struct undo_log unfinished; /* in the segment's last place */
static undo_pointer far_record;    /* one that goes back over what was rewound */
static char said[8192];

/* ---- A segment with something of everything ---- */

static void append(struct undo_log *log, uint64_t number, undo_pointer *pointer)
{
    ASSERT_OK(append_to(log, &world.mtr, record_make(scratch, number), pointer));
}

static void write_log(uint64_t txn_id)
{
    struct undo_log log;
    undo_pointer savepoint = 0;
    undo_pointer at = 0;
    ASSERT_OK(undo_begin(undo, &world.mtr, txn_id, &log));
    append(&log, txn_id * 10, &savepoint);
    append(&log, txn_id * 10 + 1, &at);
    ASSERT_OK(undo_rewind(&log, &world.mtr, savepoint));
    append(&log, txn_id * 10 + 2, &far_record);
    append(&log, txn_id * 10 + 3, &at);
    ASSERT_OK(finish(&log, &world.mtr, UNDO_COMMITTED, txn_id));
}

static int setup(void **state)
{
    (void)state;
    undo_pointer at = 0;
    disk = disk_make();
    undo_world_make(disk);
    for (uint64_t i = 1; i <= 40; i++)
        write_log(i);
    ASSERT_OK(undo_begin(undo, &world.mtr, 41, &unfinished));
    for (uint64_t i = 0; i < 30; i++)
        append(&unfinished, 1000 + i, &at);
    undo_world_check();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    undo_world_abandon();
    sim_disk_destroy(disk);
    return 0;
}

/* ---- Looking and breaking ---- */

static uint32_t space_of_undo(void)
{
    uint32_t space = 0;
    ASSERT_OK(space_find(world.set, "undo_001", &space));
    return space;
}

static const uint8_t *peek(uint32_t page_no)
{
    struct buffer_frame *frame;
    ASSERT_OK(buffer_fix(world.pool, page_id_of(space_of_undo(), page_no), BUFFER_SHARED,
                         BUFFER_HINT_NORMAL, &frame));
    memcpy(copy, buffer_page(world.pool, frame), PAGE);
    buffer_unfix(world.pool, frame, BUFFER_SHARED);
    return copy;
}

static void poke(uint32_t page_no, size_t offset, const void *bytes, size_t size)
{
    struct mtr_page *page;
    ASSERT_OK(mtr_begin(&world.mtr, mtr_cost(2 + size)));
    ASSERT_OK(mtr_fix(&world.mtr, page_id_of(space_of_undo(), page_no), &page));
    mtr_write(&world.mtr, page, offset, span_of(bytes, size));
    ASSERT_OK(mtr_commit(&world.mtr, NULL));
}

static void poke_u16(uint32_t page_no, size_t offset, uint16_t value)
{
    uint8_t bytes[2];
    put_u16(bytes, value);
    poke(page_no, offset, bytes, sizeof bytes);
}

static void poke_u32(uint32_t page_no, size_t offset, uint32_t value)
{
    uint8_t bytes[4];
    put_u32(bytes, value);
    poke(page_no, offset, bytes, sizeof bytes);
}

static uint32_t directory_page(void)
{
    uint32_t page_no = 0;
    ASSERT_OK(space_entry(world.set, space_of_undo(), &page_no));
    return page_no;
}

static struct undo_slot slot_of_segment(void)
{
    return undo_slot_get(peek(directory_page()), SLOT);
}

/* @return the n-th page of the segment */
static uint32_t page_of_segment(unsigned n)
{
    uint32_t page_no = slot_of_segment().head;
    while (n-- > 0)
        page_no = get_u32(peek(page_no) + UNDO_AT_NEXT);
    return page_no;
}

/* @return the offset of the n-th entry of a kind on the segment's first page */
static uint32_t entry_of_kind(enum undo_kind kind, unsigned n)
{
    const uint8_t *page = peek(page_of_segment(0));
    struct undo_entry entry;
    for (uint32_t at = UNDO_ENTRIES_AT; undo_entry_get(page, PAGE, at, &entry);
         at += (uint32_t)entry.size_bytes)
        if (entry.kind == kind && n-- == 0)
            return at;
    fail_msg("the first page has no such entry");
    return 0;
}

/* ---- Rules ---- */

static void wrong_segment(void)
{
    poke_u32(page_of_segment(1), UNDO_AT_SEGMENT, 7);
}

static void wrong_prev(void)
{
    poke_u32(page_of_segment(2), UNDO_AT_PREV, page_of_segment(0));
}

static void wrong_ordinal(void)
{
    poke_u32(page_of_segment(1), UNDO_AT_ORDINAL, 5);
}

static void circle(void)
{
    poke_u32(page_of_segment(2), UNDO_AT_NEXT, page_of_segment(1));
}

static void wrong_free(void)
{
    poke_u16(page_of_segment(1), UNDO_AT_FREE, PAGE);
}

static void wrong_last(void)
{
    poke_u16(page_of_segment(1), UNDO_AT_LAST, UNDO_ENTRIES_AT + 1);
}

static void wrong_running_log(void)
{
    poke_u16(page_of_segment(2), UNDO_AT_LOG_OFFSET, 2000);
}

static void wrong_size(void)
{
    poke_u16(page_of_segment(0), entry_of_kind(UNDO_RECORD, 0), 1);
}

static void wrong_near(void)
{
    poke_u16(page_of_segment(0), entry_of_kind(UNDO_RECORD, 1) + UNDO_ENTRY_HEAD_BYTES,
             UNDO_ENTRIES_AT);
}

static void wrong_far(void)
{
    poke_u16(page_of_segment(0), entry_of_kind(UNDO_FAR_RECORD, 0) + UNDO_ENTRY_HEAD_BYTES + 4,
             UNDO_ENTRIES_AT + 1);
}

static void wrong_sequence(void)
{
    poke_u32(page_of_segment(0), entry_of_kind(UNDO_LOG, 1) + UNDO_LOG_AT_SEQUENCE, 77);
}

static void wrong_before(void)
{
    poke_u32(page_of_segment(0), entry_of_kind(UNDO_LOG, 1) + UNDO_LOG_AT_BEFORE, 0);
}

static void wrong_state(void)
{
    poke(page_of_segment(0), entry_of_kind(UNDO_LOG, 0) + UNDO_LOG_AT_STATE, "\4", 1);
}

static void unended(void)
{
    poke(page_of_segment(0), entry_of_kind(UNDO_LOG, 0) + UNDO_LOG_AT_STATE, "\0", 1);
}

static void nobody(void)
{
    poke(page_of_segment(0), entry_of_kind(UNDO_LOG, 0) + UNDO_LOG_AT_TXN, "\0\0\0\0\0\0\0\0", 8);
}

static void wrong_end(void)
{
    poke_u16(page_of_segment(0), entry_of_kind(UNDO_LOG, 0) + UNDO_LOG_AT_END + 4, 99);
}

static void wrong_tail(void)
{
    poke_u32(directory_page(), undo_slot_at(SLOT) + UNDO_SLOT_AT_TAIL, page_of_segment(1));
}

static void wrong_first(void)
{
    poke_u16(directory_page(), undo_slot_at(SLOT) + UNDO_SLOT_AT_FIRST + 4, UNDO_ENTRIES_AT + 1);
}

static void first_within_a_log(void)
{
    poke_u16(directory_page(), undo_slot_at(SLOT) + UNDO_SLOT_AT_FIRST + 4,
             (uint16_t)entry_of_kind(UNDO_RECORD, 0));
}

static void wrong_head(void)
{
    poke_u32(directory_page(), undo_slot_at(SLOT) + UNDO_SLOT_AT_HEAD, directory_page());
}

static void no_such_page(void)
{
    poke_u32(page_of_segment(1), UNDO_AT_NEXT, 100000);
}

static const struct {
    void (*break_it)(void);
    const char *problem;
} rules[] = {
    {wrong_segment, "it says that it is segment 7's"},
    {wrong_prev, "is before it, not"},
    {wrong_ordinal, "it is page 5 of its segment, behind page 0"},
    {circle, "it is page 1 of its segment, behind page 2"},
    {wrong_free, "says that its entries end at 4096"},
    {wrong_last, "says that its last entry and log are at"},
    {wrong_running_log, "runs into it"},
    {wrong_size, "has no sound entry at"},
    {wrong_near, "not to the entry before it"},
    {wrong_far, "where no record is"},
    {wrong_sequence, "log 77 at"},
    {wrong_before, "knows of no number above 0, but there is 1"},
    {wrong_state, "has an unknown state (4, 0)"},
    {unended, "the one before it has not ended"},
    {nobody, "is nobody's"},
    {wrong_end, "at 99"},
    {wrong_tail, "it is the last, but the directory says"},
    {wrong_first, "is said to begin on page"},
    {first_within_a_log, "the oldest log ought to begin at"},
    {wrong_head, "is no page of undo"},
    {no_such_page, "100000"},
};

static void remember(const char *problem, void *context)
{
    (void)context;
    size_t used = strlen(said);
    snprintf(said + used, sizeof said - used, "%s\n", problem);
}

static void forget(uint32_t space, uint32_t page_no, void *context)
{
    (void)space;
    (void)page_no;
    (void)context;
}

static firn_rc check(void)
{
    struct undo_check_visitor visitor = {.problem = remember, .seen = forget};
    said[0] = '\0';
    return undo_check(undo, &visitor);
}

static void each_broken_rule_is_told(void **state)
{
    for (unsigned i = 0; i < ARRAY_COUNT(rules); i++) {
        rules[i].break_it();
        firn_rc rc = check();
        if (strstr(said, rules[i].problem) == NULL)
            print_error("rule %u (%s): %s\n", i, rules[i].problem, said);
        assert_int_equal(rc, FIRN_E_CORRUPT);
        assert_non_null(strstr(said, rules[i].problem));
        assert_non_null(strstr(said, "undo tablespace undo_001, segment 0, page "));
        teardown(state);
        setup(state);
    }
}

/* ---- Any bytes ---- */

enum { TARGETS = 5 };

/* Write some bytes anywhere in one of these pages. */
static void break_something(struct rng *rng, const uint32_t targets[TARGETS])
{
    uint8_t bytes[4];
    uint64_t word = rng_next(rng);
    size_t size = 1 + rng_below(rng, sizeof bytes);
    /* Mostly where it matters, and mostly small numbers. */
    size_t most = rng_below(rng, 3) == 0 ? PAGE - sizeof bytes : 200;
    size_t offset = PAGE_HEADER_BYTES + rng_below(rng, most - PAGE_HEADER_BYTES);
    put_u32(bytes, rng_below(rng, 2) == 0 ? (uint32_t)word : (uint32_t)(word & 15));
    poke(targets[rng_below(rng, TARGETS)], offset, bytes, size);
}

static void assert_expected(firn_rc rc)
{
    if (rc != FIRN_OK && rc != FIRN_E_NOT_FOUND && rc != FIRN_E_CORRUPT)
        ASSERT_OK(rc);
}

static firn_rc look_at(const struct undo_unfinished *found, const struct undo_log *log,
                       void *context)
{
    struct undo_buffer *buffer = context;
    undo_pointer last = log->last;
    firn_rc rc = FIRN_OK;
    (void)found;
    for (unsigned i = 0; i < 100 && last != 0 && rc == FIRN_OK; i++) {
        struct span record;
        rc = undo_read(undo, last, buffer, &record, &last);
        assert_expected(rc);
    }
    return FIRN_OK;
}

static void use_it(struct undo_buffer *buffer)
{
    assert_expected(check());
    assert_expected(undo_each_unfinished(undo, look_at, buffer));
    for (unsigned i = 0; i < 100; i++) {
        struct undo_finished finished;
        firn_rc rc = undo_purge_first(undo, 0, &finished);
        assert_expected(rc);
        if (rc != FIRN_OK)
            break;
        struct undo_log log = {.last = finished.last};
        look_at(NULL, &log, buffer);
        assert_expected(undo_purge_done(undo, &world.mtr, 0));
    }
}

static void any_bytes_may_be_anywhere(void **state)
{
    (void)state;
    struct undo_buffer buffer = {0};
    struct rng rng;
    uint64_t seed = test_seed(17);
    unsigned rounds = test_runs(60);
    uint32_t targets[TARGETS] = {directory_page()};
    for (unsigned i = 1; i < TARGETS; i++)
        targets[i] = page_of_segment(i - 1);
    undo_close(undo);
    undo = NULL;
    world_close(&world);
    for (unsigned i = 0; i < rounds; i++) {
        struct sim_disk *broken = sim_disk_clone(disk);
        rng_init(&rng, seed + i);
        ASSERT_OK(world_open(&world, broken, PAGE, seed));
        for (uint64_t k = rng_below(&rng, 3) + 1; k > 0; k--)
            break_something(&rng, targets);
        firn_rc rc = undo_world_open_set(false, TABLESPACES);
        assert_expected(rc);
        if (rc == FIRN_OK)
            use_it(&buffer);
        undo_world_abandon();
        sim_disk_destroy(broken);
    }
    undo_buffer_free(&buffer);
    ASSERT_OK(undo_world_open(disk, seed));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_broken_rule_is_told),
        TEST(any_bytes_may_be_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
