#include "base/memory.h"
#include "base/rc.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void the_kth_allocation_fails_once(void **state)
{
    (void)state;
    for (long k = 0; k < 5; k++) {
        memory_fail_after(k);
        for (long i = 0; i < 8; i++) {
            void *memory = i % 2 == 0 ? memory_alloc(16) : memory_zalloc(2, 8);
            assert_true((memory == NULL) == (i == k));
            memory_free(memory);
        }
    }
    memory_fail_after(-1);
    void *memory = memory_alloc(1);
    assert_non_null(memory);
    memory_free(memory);
}

static void every_way_of_allocating_can_be_made_to_fail(void **state)
{
    (void)state;
    char *kept = memory_alloc(4);
    memcpy(kept, "abc", 4);
    memory_fail_after(0);
    assert_null(memory_alloc(1));
    memory_fail_after(0);
    assert_null(memory_zalloc(1, 1));
    memory_fail_after(0);
    assert_null(memory_alloc_aligned(64, 64));
    memory_fail_after(0);
    assert_null(memory_copy_text("text"));
    memory_fail_after(0);
    assert_null(memory_realloc(kept, 8));
    assert_string_equal(kept, "abc");
    memory_fail_after(0);
    kept = memory_realloc_surely(kept, 8); /* this one never fails */
    assert_string_equal(kept, "abc");
    memory_fail_after(-1);
    memory_free(kept);
    memory_free(NULL);
}

static void a_reserved_range_is_used_and_given_back_in_parts(void **state)
{
    (void)state;
    enum { RANGE = 64 << 20, PART = 4 << 20 };
    memory_fail_after(0);
    assert_null(memory_reserve(RANGE, 2 << 20));
    memory_fail_after(-1);
    unsigned char *range = memory_reserve(RANGE, 2 << 20);
    assert_non_null(range);
    assert_int_equal((uintptr_t)range % (2 << 20), 0);
    memory_fail_after(0);
    assert_false(memory_commit(range, PART));
    memory_fail_after(-1);
    assert_true(memory_commit(range, PART));
    assert_true(memory_commit(range + PART, PART));
    memset(range, 1, (size_t)2 * PART);
    memory_decommit(range + PART, PART);
    assert_int_equal(range[PART - 1], 1);
    assert_int_equal(range[PART], 0);
    range[PART] = 2;
    memory_unreserve(range, RANGE);
    memory_unreserve(NULL, RANGE);
    assert_null(memory_reserve((size_t)-4096, 4096));
}

static void memory_is_as_was_asked_for(void **state)
{
    (void)state;
    unsigned char *zeroed = memory_zalloc(1000, 3);
    for (int i = 0; i < 3000; i++)
        assert_int_equal(zeroed[i], 0);
    memory_free(zeroed);
    for (size_t alignment = 8; alignment <= 65536; alignment *= 2) {
        void *aligned = memory_alloc_aligned(100, alignment);
        assert_int_equal((uintptr_t)aligned % alignment, 0);
        memory_free(aligned);
    }
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* they end the process */
    volatile size_t half = SIZE_MAX / 2;
    assert_null(memory_zalloc(half, 3)); /* the product does not fit */
#endif
    char *copy = memory_copy_text("some text");
    assert_string_equal(copy, "some text");
    memory_free(copy);
}

static void a_failure_keeps_its_sentence(void **state)
{
    (void)state;
    assert_int_equal(rc_raise(FIRN_E_BUSY, "%s is in use by %d", "x", 7), FIRN_E_BUSY);
    assert_string_equal(firn_error_text(), "x is in use by 7");
    /* A sentence may be made of the one before it. */
    assert_int_equal(rc_raise(FIRN_E_IO, "cannot go on: %s", firn_error_text()), FIRN_E_IO);
    assert_string_equal(firn_error_text(), "cannot go on: x is in use by 7");
}

static void a_long_sentence_is_cut_and_ended(void **state)
{
    (void)state;
    char text[3000];
    memset(text, 'x', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    assert_int_equal(rc_raise_errno(ENOSPC, "%s", text), FIRN_E_NOSPACE);
    size_t length = strlen(firn_error_text());
    assert_true(length > 500 && length < sizeof(text) - 1);
}

static void system_errors_get_the_code_that_fits(void **state)
{
    (void)state;
    static const struct {
        int error;
        firn_rc rc;
    } cases[] = {
        {ENOMEM, FIRN_E_NOMEM},
        {ENOSPC, FIRN_E_NOSPACE},
        {EDQUOT, FIRN_E_NOSPACE},
        {ENOENT, FIRN_E_NOT_FOUND},
        {EEXIST, FIRN_E_EXISTS},
        {EACCES, FIRN_E_PERMISSION},
        {EROFS, FIRN_E_PERMISSION},
        {EBUSY, FIRN_E_BUSY},
        {EWOULDBLOCK, FIRN_E_BUSY},
        {ENOSYS, FIRN_E_UNSUPPORTED},
        {EOPNOTSUPP, FIRN_E_UNSUPPORTED},
        {EINVAL, FIRN_E_INVALID},
        {EISDIR, FIRN_E_INVALID},
        {EIO, FIRN_E_IO},
        {EBADF, FIRN_E_IO},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(rc_from_errno(cases[i].error), cases[i].rc);
    assert_int_equal(rc_raise_errno(ENOENT, "cannot open %s", "a.b"), FIRN_E_NOT_FOUND);
    assert_string_equal(firn_error_text(), "cannot open a.b: No such file or directory");
}

static void every_code_has_a_sentence_of_its_own(void **state)
{
    (void)state;
    for (int a = FIRN_OK; a >= FIRN_E_CONSTRAINT; a--) {
        assert_true(strlen(firn_rc_text((firn_rc)a)) > 0);
        assert_string_not_equal(firn_rc_text((firn_rc)a), "unknown result code");
        for (int b = FIRN_OK; b > a; b--)
            assert_string_not_equal(firn_rc_text((firn_rc)a), firn_rc_text((firn_rc)b));
    }
    assert_string_equal(firn_rc_text((firn_rc)-12345), "unknown result code");
}

static void *fail_on_another_thread(void *unused)
{
    (void)unused;
    rc_raise(FIRN_E_IO, "another thread's");
    return NULL;
}

static void threads_have_sentences_of_their_own(void **state)
{
    (void)state;
    rc_raise(FIRN_E_IO, "mine");
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, fail_on_another_thread, NULL), 0);
    pthread_join(thread, NULL);
    assert_string_equal(firn_error_text(), "mine");
}

static int steps;

static firn_rc step(firn_rc rc)
{
    steps++;
    return rc;
}

static firn_rc two_steps(firn_rc first)
{
    FIRN_TRY(step(first));
    FIRN_TRY(step(FIRN_OK));
    return FIRN_OK;
}

static void try_returns_the_first_failure(void **state)
{
    (void)state;
    steps = 0;
    assert_int_equal(two_steps(FIRN_E_SHORT), FIRN_E_SHORT);
    assert_int_equal(steps, 1);
    assert_int_equal(two_steps(FIRN_OK), FIRN_OK);
    assert_int_equal(steps, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_kth_allocation_fails_once),
        cmocka_unit_test(every_way_of_allocating_can_be_made_to_fail),
        cmocka_unit_test(a_reserved_range_is_used_and_given_back_in_parts),
        cmocka_unit_test(memory_is_as_was_asked_for),
        cmocka_unit_test(a_failure_keeps_its_sentence),
        cmocka_unit_test(a_long_sentence_is_cut_and_ended),
        cmocka_unit_test(system_errors_get_the_code_that_fits),
        cmocka_unit_test(every_code_has_a_sentence_of_its_own),
        cmocka_unit_test(threads_have_sentences_of_their_own),
        cmocka_unit_test(try_returns_the_first_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
