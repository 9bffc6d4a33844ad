/*
 * Names: each directory's entries say what a name stands for now and what it stands for on the
 * medium; between them are the name changes since the last sync of their directories.
 *
 * A subset of the unsynced changes gets onto the medium, at a sync (those in the directory) or at a
 * cut (by chance). It must be one after which no file is lost or doubled that the changes, taken
 * whole and in order, would not lose or double. That holds if no change is kept without an earlier
 * one that has a name or a file in common with it: think of `rename f g; create f`, where f's file
 * would be lost without the rename. Moving and removing directories comes after all that is
 * earlier, so that nothing moved out of a directory goes down with it and no cycle arises; moving a
 * file to another directory comes after all earlier making and moving of directories, so that it
 * does not end in one that is not there.
 */
#include "io/sim_internal.h"

#include "base/check.h"
#include "base/memory.h"

#include <errno.h>
#include <string.h>

/* ---- Nodes and entries ---- */

static struct sim_node *node_create(struct sim_disk *disk, bool is_directory)
{
    uint32_t index = 0;
    while (index < disk->node_count && disk->nodes[index] != NULL)
        index++;
    if (index == disk->node_count) {
        disk->node_count = index == 0 ? 16 : index * 2;
        disk->nodes =
            memory_realloc_surely(disk->nodes, disk->node_count * sizeof(struct sim_node *));
        memset(disk->nodes + index, 0, (disk->node_count - index) * sizeof(struct sim_node *));
    }
    struct sim_node *node = memory_realloc_surely(NULL, sizeof(*node));
    *node = (struct sim_node){
        .is_directory = is_directory,
        .index = index,
        .live_entry = SIM_NONE,
        .first_entry = SIM_NONE,
    };
    disk->nodes[index] = node;
    return node;
}

static void node_hold(struct sim_disk *disk, uint32_t index)
{
    if (index != SIM_NONE)
        disk->nodes[index]->references++;
}

void sim_node_drop(struct sim_disk *disk, uint32_t index)
{
    if (index == SIM_NONE)
        return;
    struct sim_node *node = disk->nodes[index];
    ASSERT(node->references > 0);
    if (--node->references > 0)
        return;
    ASSERT(node->first_entry == SIM_NONE);
    sim_file_release(node);
    memory_free(node);
    disk->nodes[index] = NULL;
}

void sim_names_create_root(struct sim_disk *disk)
{
    disk->free_entry = SIM_NONE;
    node_create(disk, true)->references = 1;
}

static uint32_t entry_find(const struct sim_disk *disk, const struct sim_node *directory,
                           const char *name, size_t length)
{
    uint32_t at = directory->first_entry;
    while (at != SIM_NONE && (strncmp(disk->entries[at].name, name, length) != 0 ||
                              disk->entries[at].name[length] != '\0'))
        at = disk->entries[at].next;
    return at;
}

static uint32_t entry_create(struct sim_disk *disk, struct sim_node *directory, const char *name,
                             size_t length)
{
    uint32_t at = disk->free_entry;
    if (at == SIM_NONE) {
        if (disk->entry_count == disk->entry_capacity) {
            disk->entry_capacity = disk->entry_capacity == 0 ? 16 : disk->entry_capacity * 2;
            disk->entries = memory_realloc_surely(disk->entries,
                                                  disk->entry_capacity * sizeof(struct sim_entry));
        }
        at = disk->entry_count++;
    } else {
        disk->free_entry = disk->entries[at].next;
    }
    struct sim_entry *entry = &disk->entries[at];
    *entry = (struct sim_entry){
        .directory = directory->index,
        .next = directory->first_entry,
        .live = SIM_NONE,
        .durable = SIM_NONE,
    };
    memcpy(entry->name, name, length);
    node_hold(disk, directory->index);
    directory->first_entry = at;
    return at;
}

/* Free an entry that stands for nothing and that no change names. */
static void entry_tidy(struct sim_disk *disk, uint32_t at)
{
    struct sim_entry *entry = &disk->entries[at];
    if (entry->live != SIM_NONE || entry->durable != SIM_NONE || entry->changes > 0)
        return;
    uint32_t *link = &disk->nodes[entry->directory]->first_entry;
    while (*link != at)
        link = &disk->entries[*link].next;
    *link = entry->next;
    sim_node_drop(disk, entry->directory);
    entry->directory = SIM_NONE;
    entry->next = disk->free_entry;
    disk->free_entry = at;
}

static void entry_set(struct sim_disk *disk, uint32_t *stands_for, uint32_t node)
{
    node_hold(disk, node);
    uint32_t old = *stands_for;
    *stands_for = node;
    sim_node_drop(disk, old);
}

static void entry_set_live(struct sim_disk *disk, uint32_t at, uint32_t node)
{
    struct sim_entry *entry = &disk->entries[at];
    if (entry->live != SIM_NONE && disk->nodes[entry->live]->live_entry == at)
        disk->nodes[entry->live]->live_entry = SIM_NONE;
    if (node != SIM_NONE)
        disk->nodes[node]->live_entry = at;
    entry_set(disk, &entry->live, node);
}

/* ---- Paths ---- */

/* A path taken apart: the directory it leads to and the last name, empty for the root. */
struct sim_path {
    struct sim_node *directory;
    const char *name;
    size_t length;
    uint32_t entry;        /* SIM_NONE if the directory has none of that name ... */
    struct sim_node *node; /* ... and NULL if the name stands for nothing now */
};

/* The next name of a path, without "." and slashes. */
static int path_next(const char **path, const char **name, size_t *length)
{
    do {
        *path += strspn(*path, "/");
        *name = *path;
        *length = strcspn(*path, "/");
        *path += *length;
    } while (*length == 1 && **name == '.');
    if (*length == 2 && strncmp(*name, "..", 2) == 0)
        return -EINVAL;
    return *length > NAME_MAX ? -ENAMETOOLONG : 0;
}

static int path_walk(const struct sim_disk *disk, const char *path, struct sim_path *found)
{
    struct sim_path at = {.name = "", .entry = SIM_NONE, .node = disk->nodes[0]};
    for (;;) {
        const char *name;
        size_t length;
        int rc = path_next(&path, &name, &length);
        if (rc != 0)
            return rc;
        if (length == 0)
            break;
        if (at.node == NULL)
            return -ENOENT;
        if (!at.node->is_directory)
            return -ENOTDIR;
        at.directory = at.node;
        at.name = name;
        at.length = length;
        at.entry = entry_find(disk, at.directory, name, length);
        uint32_t live = at.entry == SIM_NONE ? SIM_NONE : disk->entries[at.entry].live;
        at.node = live == SIM_NONE ? NULL : disk->nodes[live];
    }
    *found = at;
    return 0;
}

int sim_names_find(const struct sim_disk *disk, const char *path, struct sim_node **node)
{
    struct sim_path found;
    int rc = path_walk(disk, path, &found);
    if (rc != 0)
        return rc;
    if (found.node == NULL)
        return -ENOENT;
    *node = found.node;
    return 0;
}

/* ---- Changing names ---- */

/* Carry out a change in the live names and note it as unsynced. */
static void names_change(struct sim_disk *disk, const struct sim_name_change *change)
{
    if (disk->name_change_count == disk->name_change_capacity) {
        disk->name_change_capacity =
            disk->name_change_capacity == 0 ? 16 : disk->name_change_capacity * 2;
        disk->name_changes = memory_realloc_surely(
            disk->name_changes, disk->name_change_capacity * sizeof(struct sim_name_change));
    }
    disk->name_changes[disk->name_change_count++] = *change;
    node_hold(disk, change->moved);
    node_hold(disk, change->replaced);
    for (unsigned i = 0; i < change->count; i++) {
        disk->entries[change->entries[i]].changes++;
        entry_set_live(disk, change->entries[i], change->nodes[i]);
    }
}

int sim_names_create(struct sim_disk *disk, const char *path, bool is_directory,
                     struct sim_node **node)
{
    struct sim_path at;
    int rc = path_walk(disk, path, &at);
    if (rc != 0)
        return rc;
    if (at.node != NULL)
        return -EEXIST;
    if (at.entry == SIM_NONE)
        at.entry = entry_create(disk, at.directory, at.name, at.length);
    struct sim_node *made = node_create(disk, is_directory);
    names_change(disk, &(struct sim_name_change){.count = 1,
                                                 .entries = {at.entry},
                                                 .nodes = {made->index},
                                                 .moved = made->index,
                                                 .replaced = SIM_NONE});
    *node = made;
    return 0;
}

static bool directory_is_empty(const struct sim_disk *disk, const struct sim_node *directory)
{
    for (uint32_t at = directory->first_entry; at != SIM_NONE; at = disk->entries[at].next)
        if (disk->entries[at].live != SIM_NONE)
            return false;
    return true;
}

/* May a node be put off its name by one that is a directory or not? */
static int node_may_go(const struct sim_disk *disk, const struct sim_node *node, bool is_directory)
{
    if (is_directory && !node->is_directory)
        return -ENOTDIR;
    if (!is_directory && node->is_directory)
        return -EISDIR;
    return is_directory && !directory_is_empty(disk, node) ? -ENOTEMPTY : 0;
}

int sim_names_remove(struct sim_disk *disk, const char *path, bool is_directory)
{
    struct sim_path at;
    int rc = path_walk(disk, path, &at);
    if (rc != 0)
        return rc;
    if (at.node == NULL)
        return -ENOENT;
    if (at.directory == NULL)
        return -EBUSY;
    rc = node_may_go(disk, at.node, is_directory);
    if (rc != 0)
        return rc;
    names_change(disk, &(struct sim_name_change){.count = 1,
                                                 .entries = {at.entry},
                                                 .nodes = {SIM_NONE},
                                                 .moved = at.node->index,
                                                 .replaced = SIM_NONE,
                                                 .after_all = is_directory});
    return 0;
}

/* Does a directory lie in another one, or is it the same? */
static bool directory_is_below(const struct sim_disk *disk, const struct sim_node *directory,
                               const struct sim_node *above)
{
    while (directory != above) {
        if (directory->live_entry == SIM_NONE)
            return false;
        directory = disk->nodes[disk->entries[directory->live_entry].directory];
    }
    return true;
}

int sim_names_rename(struct sim_disk *disk, const char *from_path, const char *to_path)
{
    struct sim_path from;
    struct sim_path to;
    int rc = path_walk(disk, from_path, &from);
    if (rc == 0)
        rc = path_walk(disk, to_path, &to);
    if (rc != 0)
        return rc;
    if (from.node == NULL)
        return -ENOENT;
    if (from.directory == NULL || to.directory == NULL)
        return -EBUSY;
    if (from.node == to.node)
        return 0;
    if (directory_is_below(disk, to.directory, from.node))
        return -EINVAL;
    if (to.node != NULL)
        rc = node_may_go(disk, to.node, from.node->is_directory);
    if (rc != 0)
        return rc;
    if (to.entry == SIM_NONE)
        to.entry = entry_create(disk, to.directory, to.name, to.length);
    struct sim_name_change change = {.count = 2,
                                     .entries = {from.entry, to.entry},
                                     .nodes = {SIM_NONE, from.node->index},
                                     .moved = from.node->index,
                                     .replaced = to.node != NULL ? to.node->index : SIM_NONE,
                                     .after_all = from.node->is_directory,
                                     .after_directories = from.directory != to.directory};
    names_change(disk, &change);
    return 0;
}

/* ---- Choosing what gets onto the medium ---- */

static void change_mark(struct sim_disk *disk, const struct sim_name_change *change, bool mark)
{
    for (unsigned i = 0; i < change->count; i++)
        disk->entries[change->entries[i]].marked = mark;
    disk->nodes[change->moved]->marked = mark;
    if (change->replaced != SIM_NONE)
        disk->nodes[change->replaced]->marked = mark;
}

static bool change_is_marked(const struct sim_disk *disk, const struct sim_name_change *change)
{
    bool marked = disk->nodes[change->moved]->marked;
    if (change->replaced != SIM_NONE)
        marked |= disk->nodes[change->replaced]->marked;
    for (unsigned i = 0; i < change->count; i++)
        marked |= disk->entries[change->entries[i]].marked;
    return marked;
}

static void changes_unmark(struct sim_disk *disk)
{
    for (size_t i = 0; i < disk->name_change_count; i++)
        change_mark(disk, &disk->name_changes[i], false);
}

static bool change_is_in(const struct sim_disk *disk, const struct sim_name_change *change,
                         uint32_t directory)
{
    for (unsigned i = 0; i < change->count; i++)
        if (disk->entries[change->entries[i]].directory == directory)
            return true;
    return false;
}

/* Make a change durable if it was chosen; either way it is no longer unsynced. */
static void change_settle(struct sim_disk *disk, const struct sim_name_change *change)
{
    for (unsigned i = 0; i < change->count; i++) {
        uint32_t at = change->entries[i];
        if (change->chosen)
            entry_set(disk, &disk->entries[at].durable, change->nodes[i]);
        disk->entries[at].changes--;
        entry_tidy(disk, at);
    }
    sim_node_drop(disk, change->moved);
    sim_node_drop(disk, change->replaced);
}

void sim_names_sync(struct sim_disk *disk, const struct sim_node *directory)
{
    changes_unmark(disk);
    bool all = false;
    bool all_directories = false;
    for (size_t i = disk->name_change_count; i-- > 0;) {
        struct sim_name_change *change = &disk->name_changes[i];
        change->chosen = all || (all_directories && disk->nodes[change->moved]->is_directory) ||
                         change_is_in(disk, change, directory->index) ||
                         change_is_marked(disk, change);
        if (!change->chosen)
            continue;
        change_mark(disk, change, true);
        all |= change->after_all;
        all_directories |= change->after_directories;
    }
    size_t left = 0;
    for (size_t i = 0; i < disk->name_change_count; i++) {
        if (disk->name_changes[i].chosen)
            change_settle(disk, &disk->name_changes[i]);
        else
            disk->name_changes[left++] = disk->name_changes[i];
    }
    disk->name_change_count = left;
}

/* Is a directory on the medium still to be found from the root? */
static bool directory_is_reachable(const struct sim_disk *disk, uint32_t directory)
{
    for (uint32_t depth = 0; directory != 0; depth++) {
        ENSURE(depth < disk->node_count);
        uint32_t entry = disk->nodes[directory]->live_entry;
        if (entry == SIM_NONE)
            return false;
        directory = disk->entries[entry].directory;
    }
    return true;
}

/* Make live what is durable; what the root no longer leads to is gone. */
static void names_reload(struct sim_disk *disk)
{
    for (uint32_t i = 0; i < disk->entry_count; i++)
        if (disk->entries[i].directory != SIM_NONE)
            entry_set_live(disk, i, SIM_NONE);
    for (uint32_t i = 0; i < disk->entry_count; i++) {
        if (disk->entries[i].directory == SIM_NONE || disk->entries[i].durable == SIM_NONE)
            continue;
        ENSURE(disk->nodes[disk->entries[i].durable]->live_entry == SIM_NONE);
        entry_set_live(disk, i, disk->entries[i].durable);
    }
    for (uint32_t i = 0; i < disk->entry_count; i++) {
        struct sim_entry *entry = &disk->entries[i];
        if (entry->directory == SIM_NONE || directory_is_reachable(disk, entry->directory))
            continue;
        entry_set_live(disk, i, SIM_NONE);
        entry_set(disk, &entry->durable, SIM_NONE);
    }
    for (uint32_t i = 0; i < disk->entry_count; i++)
        if (disk->entries[i].directory != SIM_NONE)
            entry_tidy(disk, i);
}

void sim_names_cut(struct sim_disk *disk, enum sim_cut cut, struct rng *rng)
{
    unsigned chance = sim_cut_chance(cut, rng);
    changes_unmark(disk);
    bool lost_some = false;
    bool lost_directory = false;
    for (size_t i = 0; i < disk->name_change_count; i++) {
        struct sim_name_change *change = &disk->name_changes[i];
        change->chosen = sim_coin(rng, chance) && !change_is_marked(disk, change) &&
                         !(change->after_all && lost_some) &&
                         !(change->after_directories && lost_directory);
        if (change->chosen)
            continue;
        change_mark(disk, change, true);
        lost_some = true;
        lost_directory |= disk->nodes[change->moved]->is_directory;
    }
    for (size_t i = 0; i < disk->name_change_count; i++)
        change_settle(disk, &disk->name_changes[i]);
    disk->name_change_count = 0;
    names_reload(disk);
}
