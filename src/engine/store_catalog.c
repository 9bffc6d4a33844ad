/*
 * The catalog: a B+tree in the system tablespace that says which trees there are.
 */
#include "engine/store_internal.h"

#include "base/check.h"
#include "base/log.h"

#include <string.h>

/* Keys of the catalog begin with what they are about. */
enum { KEY_COUNTER = 0, KEY_TREE = 1 };

/* An entry, byte by byte (FORMAT.md). */
enum {
    ENTRY_VERSION_AT = 0,
    ENTRY_STATE_AT = 1,
    ENTRY_FLAGS_AT = 2,
    ENTRY_SPACE_AT = 4,
    ENTRY_ROOT_AT = 8,
    ENTRY_INDEX_AT = 16,
    ENTRY_BYTES = 24,

    ENTRY_VERSION = 1,
    /* Flags. */
    ENTRY_SHARED = 1,
    ENTRY_VERSIONED = 2,
    ENTRY_GUEST = 4,
    ENTRY_UNRECORDED = 8,
};

/* ---- Entries ---- */

struct tree_key {
    uint8_t bytes[1 + SPACE_NAME_MAX];
    size_t size_bytes;
};

static struct span tree_key(const char *name, struct tree_key *key)
{
    key->bytes[0] = KEY_TREE;
    key->size_bytes = 1 + strlen(name);
    ASSERT(key->size_bytes <= sizeof(key->bytes));
    memcpy(key->bytes + 1, name, key->size_bytes - 1);
    return span_of(key->bytes, key->size_bytes);
}

firn_rc store_catalog_put(struct store *store, const struct store_tree *tree, uint64_t *end_lsn)
{
    struct tree_key key;
    uint8_t entry[ENTRY_BYTES] = {0};
    entry[ENTRY_VERSION_AT] = ENTRY_VERSION;
    entry[ENTRY_STATE_AT] = (uint8_t)tree->state;
    entry[ENTRY_FLAGS_AT] =
        (uint8_t)((tree->shared ? ENTRY_SHARED : 0) | (tree->versioned ? ENTRY_VERSIONED : 0) |
                  (tree->guest ? ENTRY_GUEST : 0) | (tree->unrecorded ? ENTRY_UNRECORDED : 0));
    put_u32(entry + ENTRY_SPACE_AT, tree->space);
    put_u32(entry + ENTRY_ROOT_AT, tree->root_page);
    put_u64(entry + ENTRY_INDEX_AT, tree->index_id);
    return btree_put(store->session, store->catalog, tree_key(tree->name, &key),
                     span_of(entry, sizeof(entry)), end_lsn);
}

firn_rc store_catalog_delete(struct store *store, const char *name)
{
    struct tree_key key;
    uint64_t end_lsn;
    firn_rc rc = btree_delete(store->session, store->catalog, tree_key(name, &key), &end_lsn);
    return rc == FIRN_E_NOT_FOUND ? FIRN_OK : rc;
}

static firn_rc raise_entry(const struct store *store, const char *what)
{
    return rc_raise(FIRN_E_CORRUPT,
                    "the catalog, the tree below page %u of %s/" STORE_SYSTEM_SPACE
                    ".firn, has an entry that makes no sense (%s); restore the environment from a "
                    "backup",
                    store->catalog_page, store_class_directory(store, IO_CLASS_SYSTEM), what);
}

static firn_rc parse_entry(const struct store *store, struct span value, struct store_tree *tree)
{
    const uint8_t *entry = value.bytes;
    if (value.size_bytes != 0 && entry[ENTRY_VERSION_AT] > ENTRY_VERSION)
        return rc_raise(FIRN_E_UNSUPPORTED,
                        "the catalog's entry of tree %s has version %u and this firn knows "
                        "versions up to %d: use the newer firn that wrote it",
                        tree->name, entry[ENTRY_VERSION_AT], ENTRY_VERSION);
    if (value.size_bytes != ENTRY_BYTES || entry[ENTRY_VERSION_AT] != ENTRY_VERSION ||
        entry[ENTRY_STATE_AT] < STORE_TREE_CREATING || entry[ENTRY_STATE_AT] > STORE_TREE_DROPPING)
        return raise_entry(store, tree->name);
    tree->state = (enum store_tree_state)entry[ENTRY_STATE_AT];
    tree->shared = entry[ENTRY_FLAGS_AT] & ENTRY_SHARED;
    tree->versioned = entry[ENTRY_FLAGS_AT] & ENTRY_VERSIONED;
    tree->guest = entry[ENTRY_FLAGS_AT] & ENTRY_GUEST;
    tree->unrecorded = entry[ENTRY_FLAGS_AT] & ENTRY_UNRECORDED;
    tree->space = get_u32(entry + ENTRY_SPACE_AT);
    tree->root_page = get_u32(entry + ENTRY_ROOT_AT);
    tree->index_id = get_u64(entry + ENTRY_INDEX_AT);
    return FIRN_OK;
}

firn_rc store_catalog_next_index(struct store *store, uint64_t *index_id)
{
    static const uint8_t key[] = {KEY_COUNTER};
    uint8_t number[8];
    struct span value;
    uint64_t next = STORE_CATALOG_INDEX + 1;
    firn_rc rc = btree_get(store->session, store->catalog, span_of(key, sizeof(key)), &value);
    if (rc == FIRN_OK && value.size_bytes != sizeof(number))
        return raise_entry(store, "the counter of index ids");
    if (rc != FIRN_OK && rc != FIRN_E_NOT_FOUND)
        return rc;
    if (rc == FIRN_OK)
        next = get_u64(value.bytes);
    put_u64(number, next + 1);
    FIRN_TRY(btree_put(store->session, store->catalog, span_of(key, sizeof(key)),
                       span_of(number, sizeof(number)), NULL));
    *index_id = next;
    return FIRN_OK;
}

/* ---- The catalog ---- */

firn_rc store_catalog_create(struct store *store)
{
    struct mtr *mtr = btree_session_mtr(store->session);
    uint32_t space;
    uint32_t root_page;
    FIRN_TRY(space_create(store->spaces, mtr, IO_CLASS_SYSTEM, STORE_SYSTEM_SPACE, &space));
    ENSURE(space == SPACE_SYSTEM);
    FIRN_TRY(btree_create(store->session, SPACE_SYSTEM, STORE_CATALOG_INDEX, &root_page));
    FIRN_TRY(mtr_begin(mtr, SPACE_LOG_MAX_BYTES));
    firn_rc rc = space_set_entry(store->spaces, mtr, SPACE_SYSTEM, root_page);
    if (rc != FIRN_OK) {
        mtr_abandon(mtr);
        return rc;
    }
    FIRN_TRY(mtr_commit(mtr, NULL));
    return btree_open(&store->base, SPACE_SYSTEM, root_page, STORE_CATALOG_INDEX, &store->catalog);
}

static firn_rc take_entry(struct store *store, struct span key, struct span value)
{
    char name[SPACE_NAME_MAX + 1];
    struct store_tree said = {.name = name};
    struct store_tree *tree;
    if (key.size_bytes < 2 || key.size_bytes > 1 + SPACE_NAME_MAX || key.bytes[0] != KEY_TREE ||
        memchr(key.bytes, '\0', key.size_bytes) != NULL)
        return raise_entry(store, "a name");
    memcpy(name, key.bytes + 1, key.size_bytes - 1);
    name[key.size_bytes - 1] = '\0';
    FIRN_TRY(parse_entry(store, value, &said));
    FIRN_TRY(store_tree_add(store, name, said.index_id, &tree));
    said.name = tree->name;
    *tree = said;
    return FIRN_OK;
}

static firn_rc read_catalog(struct store *store)
{
    static const uint8_t first[] = {KEY_TREE};
    struct btree_cursor *cursor = NULL;
    struct span value;
    FIRN_TRY(btree_cursor_open(&store->base, store->catalog, &cursor));
    firn_rc rc = btree_cursor_seek(cursor, BTREE_SEEK_AT_OR_AFTER, span_of(first, sizeof(first)));
    while (rc == FIRN_OK) {
        rc = btree_cursor_value(cursor, &value);
        if (rc == FIRN_OK)
            rc = take_entry(store, btree_cursor_key(cursor), value);
        if (rc == FIRN_OK)
            rc = btree_cursor_next(cursor);
    }
    btree_cursor_close(cursor);
    return rc == FIRN_E_NOT_FOUND ? FIRN_OK : rc;
}

/* A tablespace that no entry knows is not removed: it may be somebody's data, put back from a
   backup. */
static firn_rc judge_space(const struct space_info *info, void *context)
{
    const struct store *store = context;
    const struct store_tree *tree = store_tree_find(store, info->name);
    bool is_table = info->class == IO_CLASS_TABLE;
    if (is_table && (tree == NULL || tree->shared || tree->guest))
        log_warning("%s belongs to no tree of the environment: it is left alone", info->path);
    return FIRN_OK;
}

static firn_rc check_tree_file(struct store *store, const struct store_tree *tree)
{
    uint32_t space;
    if (tree->shared || tree->guest || tree->state != STORE_TREE_LIVE)
        return FIRN_OK;
    firn_rc rc = space_find(store->spaces, tree->name, &space);
    if (rc == FIRN_E_NOT_FOUND)
        return rc_raise(FIRN_E_CORRUPT,
                        "%s/%s.firn, the file of tree %s, is missing: put it back, or restore the "
                        "environment from a backup",
                        store_class_directory(store, IO_CLASS_TABLE), tree->name, tree->name);
    if (rc == FIRN_OK && space != tree->space)
        return rc_raise(FIRN_E_CORRUPT,
                        "%s/%s.firn is another tablespace (number %u) than that of tree %s (number "
                        "%u): put the right file back",
                        store_class_directory(store, IO_CLASS_TABLE), tree->name, space, tree->name,
                        tree->space);
    return rc;
}

firn_rc store_catalog_open(struct store *store)
{
    uint32_t space;
    uint32_t root_page;
    firn_rc rc = space_find(store->spaces, STORE_SYSTEM_SPACE, &space);
    if (rc == FIRN_E_NOT_FOUND)
        return rc_raise(FIRN_E_CORRUPT,
                        "%s/" STORE_SYSTEM_SPACE ".firn is missing: put it back, or restore the "
                        "environment from a backup",
                        store_class_directory(store, IO_CLASS_SYSTEM));
    FIRN_TRY(rc);
    FIRN_TRY(space_entry(store->spaces, SPACE_SYSTEM, &root_page));
    FIRN_TRY(
        btree_open(&store->base, SPACE_SYSTEM, root_page, STORE_CATALOG_INDEX, &store->catalog));
    store->catalog_page = root_page;
    FIRN_TRY(read_catalog(store));
    for (size_t i = 0; i < store->tree_count; i++)
        FIRN_TRY(check_tree_file(store, store->trees[i]));
    return space_each(store->spaces, judge_space, store);
}
