/*
 * store_support.h -- a small store on a simulated disk, without background threads: what happens
 * depends on nothing but the calls.
 */
#ifndef FIRN_TESTS_ENGINE_STORE_SUPPORT_H
#define FIRN_TESTS_ENGINE_STORE_SUPPORT_H

#include "engine/store.h"

#include "io/sim_support.h"

#define STORE_DIR "db"

enum { MIB = 1 << 20 };

/** Options for a store whose files all lie on one system. */
static inline struct store_options small_options(struct io_system *system)
{
    struct store_options options;
    store_options_init(&options);
    options.directory = STORE_DIR;
    for (unsigned class = 0; class < IO_CLASS_COUNT; class ++)
        options.class_systems[class] = system;
    options.buffer_pool_size_bytes = 4 * MIB;
    options.log_buffer_size_bytes = 8 * MIB;
    options.background_threads = false;
    options.environment_seed = 1;
    options.create = true;
    return options;
}

/** Options for a new one: with a log that is no larger than it has to be. */
static inline struct store_options new_options(struct io_system *system)
{
    struct store_options options = small_options(system);
    options.log_file_size_bytes = 4 * MIB;
    options.log_files = 2;
    return options;
}

static inline struct store *store_make(const struct store_options *options)
{
    struct store *store;
    ASSERT_OK(store_open(options, &store, NULL));
    return store;
}

static inline struct btree *tree_of(struct store *store, const char *name, unsigned flags)
{
    struct btree *tree;
    ASSERT_OK(store_tree(store, name, flags, &tree));
    return tree;
}

/** The key and value of a row by number: values are of all sizes up to a few hundred bytes. */
struct made_row {
    char key[32];
    uint8_t value[400];
    size_t value_bytes;
};

static inline void make_row(unsigned number, struct made_row *row)
{
    snprintf(row->key, sizeof(row->key), "key-%08u", number);
    row->value_bytes = number * 37 % sizeof(row->value);
    memset(row->value, (int)(number % 251), row->value_bytes);
}

/** Put rows [from, to) and commit. @return the first failure */
static inline firn_rc try_put_rows(struct store *store, struct btree *tree, unsigned from,
                                   unsigned to)
{
    struct store_session *session;
    struct made_row row;
    firn_rc rc = store_session_open(store, &session);
    if (rc != FIRN_OK)
        return rc;
    for (unsigned i = from; i < to && rc == FIRN_OK; i++) {
        make_row(i, &row);
        rc = store_put(session, tree, span_of_text(row.key), span_of(row.value, row.value_bytes));
    }
    if (rc == FIRN_OK)
        rc = store_commit(session);
    store_session_close(session);
    return rc;
}

static inline void put_rows(struct store *store, struct btree *tree, unsigned from, unsigned to)
{
    ASSERT_OK(try_put_rows(store, tree, from, to));
}

/** Are rows [0, count) there, and no others? */
static inline void check_rows(struct store *store, struct btree *tree, unsigned count)
{
    struct store_session *session;
    struct made_row row;
    struct span value;
    ASSERT_OK(store_session_open(store, &session));
    for (unsigned i = 0; i < count; i++) {
        make_row(i, &row);
        ASSERT_OK(store_get(session, tree, span_of_text(row.key), &value));
        assert_int_equal(span_compare(value, span_of(row.value, row.value_bytes)), 0);
    }
    make_row(count, &row);
    assert_int_equal(store_get(session, tree, span_of_text(row.key), &value), FIRN_E_NOT_FOUND);
    store_session_close(session);
}

/** Make a temporary tablespace with a tree in it that no catalog knows. */
static inline void make_temporary(struct store *store, const char *name, uint64_t index_id)
{
    struct store_session *session;
    struct btree *tree;
    uint32_t space;
    uint32_t root_page;
    ASSERT_OK(store_session_open(store, &session));
    struct btree_session *inner = store_session_btree(session);
    ASSERT_OK(space_create(store_spaces(store), btree_session_mtr(inner), IO_CLASS_TEMPORARY, name,
                           &space));
    ASSERT_OK(btree_create(inner, space, index_id, &root_page));
    ASSERT_OK(btree_open(store_base(store), space, root_page, index_id, &tree));
    put_rows(store, tree, 0, 200);
    btree_close(tree);
    store_session_close(session);
}

static inline void print_problem(const struct finding *finding, void *context)
{
    unsigned *count = context;
    ++*count;
    print_error("problem: %s\n", finding->text);
}

/** The whole environment is right. */
static inline void check_store(struct store *store)
{
    struct store_check_result result;
    unsigned count = 0;
    ASSERT_OK(store_check(store, 1, print_problem, &count, NULL, &result));
    assert_int_equal(count, 0);
}

#endif
