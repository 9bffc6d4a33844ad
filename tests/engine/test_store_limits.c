/*
 * A store keeps the file of each tablespace open: what it does about the limit of open files, and
 * what happens at it. Children are limited, so that nobody else is.
 */
#include "engine/store_support.h"

#include <sys/resource.h>
#include <sys/wait.h>

enum { FILES_MAX = 32, TREES = FILES_MAX + 8, ROWS = 20 };

static char directory[256];

static int make_directory(void **state)
{
    (void)state;
    snprintf(directory, sizeof(directory), "%s", scratch_make());
    return 0;
}

static int remove_directory(void **state)
{
    (void)state;
    scratch_remove(directory);
    return 0;
}

static struct store_options real_options(void)
{
    struct store_options options = new_options(NULL);
    options.directory = directory;
    options.io_backend = IO_BACKEND_THREADS;
    options.direct = false;
    return options;
}

static bool limit_files(rlim_t soft, bool hard_too)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max < TREES + FILES_MAX)
        return false;
    limit.rlim_cur = soft;
    if (hard_too)
        limit.rlim_max = soft;
    return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

/* Make trees with rows, until one cannot be made. @return how many there are */
static unsigned make_trees(struct store *store, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct btree *tree;
        char name[16];
        snprintf(name, sizeof(name), "t%u", i);
        if (store_tree(store, name, STORE_TREE_CREATE, &tree) != FIRN_OK)
            return i;
        if (try_put_rows(store, tree, 0, ROWS) != FIRN_OK)
            return 0;
    }
    return count;
}

static bool limit_is_named(void)
{
    char text[64];
    snprintf(text, sizeof(text), "Too many open files; this process may have %d (ulimit -n)",
             FILES_MAX);
    return strstr(firn_error_text(), text) != NULL;
}

/* ---- In children: 0, or which step went wrong ---- */

static int use_many_files(void)
{
    struct store_options options = real_options();
    struct rlimit limit;
    struct store *store;
    if (!limit_files(FILES_MAX, false))
        return 1;
    if (store_open(&options, &store, NULL) != FIRN_OK)
        return 2;
    if (make_trees(store, TREES) != TREES)
        return 3;
    if (store_close(store) != FIRN_OK)
        return 4;
    return getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur == limit.rlim_max ? 0 : 5;
}

/* The trees that could be made go on being used, and are closed. */
static int meet_the_limit(void)
{
    struct store_options options = real_options();
    struct btree *tree;
    struct store *store;
    if (!limit_files(FILES_MAX, true))
        return 1;
    if (store_open(&options, &store, NULL) != FIRN_OK)
        return 2;
    unsigned made = make_trees(store, TREES);
    if (made == 0 || made >= FILES_MAX)
        return 3;
    if (!limit_is_named())
        return 4;
    if (store_tree(store, "t0", 0, &tree) != FIRN_OK ||
        try_put_rows(store, tree, ROWS, 2 * ROWS) != FIRN_OK)
        return 5;
    return store_close(store) == FIRN_OK ? 0 : 6;
}

static int be_refused(void)
{
    struct store_options options = real_options();
    struct store *store;
    if (!limit_files(FILES_MAX, true))
        return 1;
    if (store_open(&options, &store, NULL) != FIRN_E_IO)
        return 2;
    return limit_is_named() ? 0 : 3;
}

static void check_child(int (*function)(void))
{
    int status;
    pid_t child = fork();
    if (child == 0)
        _exit(function());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* ---- Tests ---- */

static firn_rc check_tree(const struct store_tree_info *info, struct btree *tree, void *context)
{
    struct store *store = context;
    check_rows(store, tree, strcmp(info->name, "t0") == 0 ? 2 * ROWS : ROWS);
    return FIRN_OK;
}

/* First, while this process has not opened a store itself: it is done once. */
static void the_soft_limit_is_none(void **state)
{
    (void)state;
    check_child(use_many_files);
}

static void the_hard_limit_is_named_and_loses_nothing(void **state)
{
    (void)state;
    struct store_options options = real_options();
    check_child(meet_the_limit);
    struct store *store = store_make(&options);
    ASSERT_OK(store_each_tree(store, check_tree, store));
    check_store(store);
    assert_true(make_trees(store, TREES) == TREES);
    ASSERT_OK(store_close(store));
}

static void an_environment_with_too_many_files_is_refused_and_stays_as_it_was(void **state)
{
    (void)state;
    struct store_options options = real_options();
    struct recovery_result result;
    struct store *store = store_make(&options);
    assert_int_equal(make_trees(store, TREES), TREES);
    ASSERT_OK(store_close(store));
    check_child(be_refused);
    ASSERT_OK(store_open(&options, &store, &result));
    assert_true(result.was_clean);
    check_store(store);
    ASSERT_OK(store_close(store));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_soft_limit_is_none, make_directory, remove_directory),
        cmocka_unit_test_setup_teardown(the_hard_limit_is_named_and_loses_nothing, make_directory,
                                        remove_directory),
        cmocka_unit_test_setup_teardown(
            an_environment_with_too_many_files_is_refused_and_stays_as_it_was, make_directory,
            remove_directory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
