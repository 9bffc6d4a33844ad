/*
 * sim_oracle.h -- what may be on a disk after a power cut, said a second time and differently.
 *
 * The oracle is told each operation as it is asked of the disk. It knows of each file the versions
 * of each sector and the sizes since the last sync, and of the names the operations since their
 * directories were synced. A state after a cut is legal if
 *
 * - some subset of those operations, with all that were synced, leads to just the names there are,
 *   so that no file has two names and none that nobody removed or replaced has none;
 * - each file has one of its legal sizes and each of its sectors is one of its legal versions;
 * - after KEEP it is what was last seen, and after DROP each file is what was last synced.
 *
 * There are two directories, "/" and "/d", of ORACLE_NAMES / 2 names each.
 */
#ifndef FIRN_TESTS_IO_SIM_ORACLE_H
#define FIRN_TESTS_IO_SIM_ORACLE_H

#include "io/sim_support.h"

enum {
    ORACLE_NAMES = 8,
    ORACLE_FILES = 32,
    ORACLE_SECTORS = 8,
    ORACLE_FILE_BYTES = ORACLE_SECTORS * SECTOR,
    ORACLE_VERSIONS = 24, /* since a sync; the test syncs before there are more */
    ORACLE_CHANGES = 10,  /* unsynced ones of names */
    ORACLE_NO_FILE = -1,
};

struct oracle_content {
    uint64_t size_bytes;
    uint8_t bytes[ORACLE_FILE_BYTES];
};

struct oracle_file {
    struct oracle_content live;
    struct oracle_content synced;
    unsigned version_count[ORACLE_SECTORS];
    uint8_t versions[ORACLE_SECTORS][ORACLE_VERSIONS][SECTOR];
    unsigned size_count;
    uint64_t sizes[ORACLE_VERSIONS];
};

/* A name is emptied, or takes a file that another one (or none: it is new) had. */
struct oracle_change {
    int from;
    int to;
    int file;
    bool synced;
};

struct oracle {
    struct oracle_file files[ORACLE_FILES];
    int file_count;
    int live[ORACLE_NAMES]; /* files, or ORACLE_NO_FILE */
    int base[ORACLE_NAMES]; /* before `changes` */
    struct oracle_change changes[ORACLE_CHANGES];
    unsigned change_count;
};

static inline const char *oracle_path(int name)
{
    static const char *const paths[ORACLE_NAMES] = {"a", "b", "c", "e", "d/a", "d/b", "d/c", "d/e"};
    return paths[name];
}

static inline bool oracle_in_root(int name)
{
    return name < ORACLE_NAMES / 2;
}

/* ---- Files ---- */

static inline void oracle_add_version(struct oracle_file *file, unsigned sector)
{
    unsigned count = file->version_count[sector]++;
    assert_true(count < ORACLE_VERSIONS);
    memcpy(file->versions[sector][count], file->live.bytes + sector * SECTOR, SECTOR);
}

static inline void oracle_add_size(struct oracle_file *file, uint64_t size_bytes)
{
    assert_true(file->size_count < ORACLE_VERSIONS);
    file->live.size_bytes = size_bytes;
    file->sizes[file->size_count++] = size_bytes;
}

/** Nothing but the live content is legal. */
static inline void oracle_sync(struct oracle_file *file)
{
    file->synced = file->live;
    for (unsigned i = 0; i < ORACLE_SECTORS; i++) {
        file->version_count[i] = 0;
        oracle_add_version(file, i);
    }
    file->size_count = 0;
    oracle_add_size(file, file->live.size_bytes);
}

static inline void oracle_write(struct oracle_file *file, const uint8_t *bytes, uint64_t offset,
                                uint64_t size_bytes)
{
    memcpy(file->live.bytes + offset, bytes, size_bytes);
    for (uint64_t i = offset / SECTOR; i * SECTOR < offset + size_bytes; i++)
        oracle_add_version(file, (unsigned)i);
    if (offset + size_bytes > file->live.size_bytes)
        oracle_add_size(file, offset + size_bytes);
}

/** A write has been synchronous: its sectors and the size are as they are. */
static inline void oracle_write_is_synced(struct oracle_file *file, uint64_t offset,
                                          uint64_t size_bytes)
{
    for (uint64_t i = offset / SECTOR; i * SECTOR < offset + size_bytes; i++) {
        memcpy(file->synced.bytes + i * SECTOR, file->live.bytes + i * SECTOR, SECTOR);
        file->version_count[i] = 0;
        oracle_add_version(file, (unsigned)i);
    }
    file->synced.size_bytes = file->live.size_bytes;
    file->size_count = 0;
    oracle_add_size(file, file->live.size_bytes);
}

static inline void oracle_set_size(struct oracle_file *file, uint64_t size_bytes)
{
    uint64_t old_bytes = file->live.size_bytes;
    oracle_add_size(file, size_bytes);
    if (size_bytes >= old_bytes)
        return;
    memset(file->live.bytes + size_bytes, 0, old_bytes - size_bytes);
    for (uint64_t i = size_bytes / SECTOR; i * SECTOR < old_bytes; i++)
        oracle_add_version(file, (unsigned)i);
}

static inline bool oracle_sector_is_legal(const struct oracle_file *file, unsigned sector,
                                          const uint8_t *bytes, size_t size_bytes)
{
    for (unsigned i = 0; i < file->version_count[sector]; i++)
        if (memcmp(file->versions[sector][i], bytes, size_bytes) == 0)
            return true;
    return false;
}

static inline bool oracle_content_equals(const struct oracle_content *expected,
                                         const struct oracle_content *found)
{
    return expected->size_bytes == found->size_bytes &&
           memcmp(expected->bytes, found->bytes, found->size_bytes) == 0;
}

static inline bool oracle_content_is_legal(const struct oracle_file *file,
                                           const struct oracle_content *found, enum sim_cut cut)
{
    if (cut == SIM_CUT_KEEP)
        return oracle_content_equals(&file->live, found);
    if (cut == SIM_CUT_DROP)
        return oracle_content_equals(&file->synced, found);
    bool legal = false;
    for (unsigned i = 0; i < file->size_count; i++)
        legal |= file->sizes[i] == found->size_bytes;
    for (unsigned i = 0; legal && i * SECTOR < found->size_bytes; i++) {
        uint64_t left = found->size_bytes - i * SECTOR;
        legal = oracle_sector_is_legal(file, i, found->bytes + i * SECTOR,
                                       left < SECTOR ? left : SECTOR);
    }
    return legal;
}

/* ---- Names ---- */

static inline void oracle_change_names(struct oracle *oracle, int from, int to, int file)
{
    assert_true(oracle->change_count < ORACLE_CHANGES);
    oracle->changes[oracle->change_count++] =
        (struct oracle_change){.from = from, .to = to, .file = file};
    if (from >= 0)
        oracle->live[from] = ORACLE_NO_FILE;
    if (to >= 0)
        oracle->live[to] = file;
}

/* @return a new file of that content, all of it synced */
static inline int oracle_add_file(struct oracle *oracle, const struct oracle_content *content)
{
    assert_true(oracle->file_count < ORACLE_FILES);
    int file = oracle->file_count++;
    oracle->files[file].live = *content;
    oracle_sync(&oracle->files[file]);
    return file;
}

static inline void oracle_create(struct oracle *oracle, int name)
{
    static const struct oracle_content empty;
    int file = oracle_add_file(oracle, &empty);
    oracle_change_names(oracle, -1, name, file);
}

static inline void oracle_remove(struct oracle *oracle, int name)
{
    oracle_change_names(oracle, name, -1, oracle->live[name]);
}

static inline void oracle_rename(struct oracle *oracle, int from, int to)
{
    if (from != to)
        oracle_change_names(oracle, from, to, oracle->live[from]);
}

static inline void oracle_sync_directory(struct oracle *oracle, bool root)
{
    bool all = true;
    for (unsigned i = 0; i < oracle->change_count; i++) {
        struct oracle_change *change = &oracle->changes[i];
        change->synced |= (change->from >= 0 && oracle_in_root(change->from) == root) ||
                          (change->to >= 0 && oracle_in_root(change->to) == root);
        all &= change->synced;
    }
    if (!all)
        return;
    memcpy(oracle->base, oracle->live, sizeof(oracle->base));
    oracle->change_count = 0;
}

/* The names that a subset of the changes leads to. False if the subset lacks a synced one. */
static inline bool oracle_apply(const struct oracle *oracle, unsigned subset,
                                int names[ORACLE_NAMES])
{
    memcpy(names, oracle->base, sizeof(oracle->base));
    for (unsigned i = 0; i < oracle->change_count; i++) {
        const struct oracle_change *change = &oracle->changes[i];
        if ((subset & (1U << i)) == 0) {
            if (change->synced)
                return false;
            continue;
        }
        if (change->from >= 0)
            names[change->from] = ORACLE_NO_FILE;
        if (change->to >= 0)
            names[change->to] = change->file;
    }
    return true;
}

/* Has every file no more than one name, and one if it had one and has never lost it? */
static inline bool oracle_names_are_sound(const struct oracle *oracle,
                                          const int names[ORACLE_NAMES])
{
    unsigned uses[ORACLE_FILES] = {0};
    for (int i = 0; i < ORACLE_NAMES; i++)
        if (names[i] != ORACLE_NO_FILE && ++uses[names[i]] > 1)
            return false;
    for (int i = 0; i < ORACLE_NAMES; i++) {
        int had = oracle->base[i];
        bool has_one = had == ORACLE_NO_FILE;
        for (int k = 0; k < ORACLE_NAMES && !has_one; k++)
            has_one = names[k] == had;
        bool stays = false;
        for (int k = 0; k < ORACLE_NAMES; k++)
            stays |= oracle->live[k] == had;
        if (stays && !has_one)
            return false;
    }
    return true;
}

/** What is on a disk: a file's content by name, NULL where there is none. */
struct oracle_found {
    struct oracle_content *content[ORACLE_NAMES];
};

static inline bool oracle_fits(const struct oracle *oracle, const int names[ORACLE_NAMES],
                               const struct oracle_found *found, enum sim_cut cut)
{
    for (int i = 0; i < ORACLE_NAMES; i++)
        if ((names[i] == ORACLE_NO_FILE) != (found->content[i] == NULL))
            return false;
    for (int i = 0; i < ORACLE_NAMES; i++)
        if (found->content[i] != NULL &&
            !oracle_content_is_legal(&oracle->files[names[i]], found->content[i], cut))
            return false;
    return true;
}

/** Is what was found after a cut legal? */
static inline bool oracle_is_legal(const struct oracle *oracle, const struct oracle_found *found,
                                   enum sim_cut cut)
{
    unsigned all = (1U << oracle->change_count) - 1;
    for (unsigned subset = cut == SIM_CUT_KEEP ? all : 0; subset <= all; subset++) {
        int names[ORACLE_NAMES];
        if (oracle_apply(oracle, subset, names) && oracle_names_are_sound(oracle, names) &&
            oracle_fits(oracle, names, found, cut))
            return true;
    }
    return false;
}

/* ---- Life ---- */

static inline void oracle_init(struct oracle *oracle)
{
    oracle->file_count = 0;
    oracle->change_count = 0;
    for (int i = 0; i < ORACLE_NAMES; i++)
        oracle->live[i] = oracle->base[i] = ORACLE_NO_FILE;
}

/** Take what was found for the state from now on. */
static inline void oracle_adopt(struct oracle *oracle, const struct oracle_found *found)
{
    oracle_init(oracle);
    for (int i = 0; i < ORACLE_NAMES; i++) {
        if (found->content[i] != NULL)
            oracle->live[i] = oracle->base[i] = oracle_add_file(oracle, found->content[i]);
    }
}

static inline void oracle_found_load(struct oracle_found *found, struct io_system *system)
{
    for (int i = 0; i < ORACLE_NAMES; i++) {
        size_t size_bytes;
        uint8_t *bytes = file_load(system, oracle_path(i), &size_bytes);
        found->content[i] = NULL;
        if (bytes == NULL)
            continue;
        assert_true(size_bytes <= ORACLE_FILE_BYTES);
        found->content[i] = calloc(1, sizeof(*found->content[i]));
        found->content[i]->size_bytes = size_bytes;
        memcpy(found->content[i]->bytes, bytes, size_bytes);
        free(bytes);
    }
}

static inline void oracle_found_free(struct oracle_found *found)
{
    for (int i = 0; i < ORACLE_NAMES; i++)
        free(found->content[i]);
}

#endif
