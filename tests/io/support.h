/*
 * support.h -- what the tests of src/io share: a scratch directory, the seed, captured warnings.
 */
#ifndef FIRN_TESTS_IO_SUPPORT_H
#define FIRN_TESTS_IO_SUPPORT_H

#include "base/log.h"
#include "io/io.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "repeat.h"

/* The backends that move bytes; each must pass every test of behaviour. */
static const enum io_backend moving_backends[] = {IO_BACKEND_URING, IO_BACKEND_LIBAIO,
                                                  IO_BACKEND_THREADS};

static inline void check_ok(firn_rc rc, const char *file, int line)
{
    if (rc == FIRN_OK)
        return;
    print_error("%s\n", firn_error_text());
    _fail(file, line);
}
#define ASSERT_OK(expression) check_ok(expression, __FILE__, __LINE__)

#define ASSERT_TEXT(text)                                                                          \
    do {                                                                                           \
        if (strstr(firn_error_text(), text) == NULL)                                               \
            print_error("the error text is: %s\n", firn_error_text());                             \
        assert_non_null(strstr(firn_error_text(), text));                                          \
    } while (0)

/** @return false in release builds, which have no injection points. */
static inline bool test_has_injection(void)
{
#ifdef NDEBUG
    return false;
#else
    return true;
#endif
}

/** Make an empty directory; in a failed test it stays, to be looked at. */
static inline const char *scratch_make(void)
{
    static char path[256];
    const char *base = getenv("TMPDIR");
    snprintf(path, sizeof(path), "%s/firn-io-XXXXXX", base != NULL ? base : "/tmp");
    assert_non_null(mkdtemp(path));
    return path;
}

/** Remove a directory and the files in it. */
static inline void scratch_remove(const char *path)
{
    char command[512];
    snprintf(command, sizeof(command), "rm -rf '%s'", path);
    assert_int_equal(system(command), 0);
}

/** Warnings since captured_start, the last one's text kept. */
static struct captured {
    unsigned count;
    char text[512];
} captured;

static inline void captured_sink(enum log_level level, const char *text, void *context)
{
    (void)context;
    if (level != LOG_WARNING)
        return;
    captured.count++;
    snprintf(captured.text, sizeof(captured.text), "%s", text);
}

static inline void captured_start(void)
{
    memset(&captured, 0, sizeof(captured));
    log_set_sink(captured_sink, NULL);
}

static inline void captured_stop(void)
{
    log_set_sink(NULL, NULL);
}

#endif
