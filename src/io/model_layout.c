#include "io/model_layout_internal.h"

#include "base/check.h"
#include "base/memory.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define UNIT_BYTES (UINT64_C(1) << 20)

/* Units left free behind a new run, on a device that has them to spare. */
enum { GAP_UNITS = 64 };

struct extent {
    uint64_t first; /* unit of the file */
    uint64_t place; /* unit of the device */
    uint64_t count;
};

struct model_file {
    struct model_file *next;
    char *path; /* NULL once the name is gone */
    unsigned holders;
    uint64_t units;
    struct extent *extents;
    unsigned extent_count, extent_capacity;
};

struct model_layout {
    struct model_file *files;
    uint64_t units, free_units;
    uint64_t cursor; /* where the next run is looked for */
    uint64_t *taken; /* a bit a unit */
};

/* ---- Units ---- */

static bool is_taken(const struct model_layout *layout, uint64_t unit)
{
    return (layout->taken[unit / 64] >> unit % 64 & 1) != 0;
}

static void set_taken(struct model_layout *layout, uint64_t unit, uint64_t count, bool taken)
{
    for (uint64_t i = unit; i < unit + count; i++) {
        uint64_t bit = UINT64_C(1) << i % 64;
        ASSERT(is_taken(layout, i) != taken);
        layout->taken[i / 64] ^= bit;
    }
    if (taken)
        layout->free_units -= count;
    else
        layout->free_units += count;
}

/* Length of the free run at a unit, no further than `most`. */
static uint64_t free_run(const struct model_layout *layout, uint64_t unit, uint64_t most)
{
    uint64_t count = 0;
    while (count < most && unit + count < layout->units && !is_taken(layout, unit + count))
        count++;
    return count;
}

static uint64_t next_free(const struct model_layout *layout, uint64_t unit)
{
    while (unit < layout->units && is_taken(layout, unit))
        unit += unit % 64 == 0 && layout->taken[unit / 64] == UINT64_MAX ? 64 : 1;
    return unit < layout->units ? unit : layout->units;
}

/* The first run of `wanted` units from the cursor on, round the end; else the longest there is. */
static uint64_t find_run(const struct model_layout *layout, uint64_t wanted, uint64_t *found)
{
    uint64_t best = 0;
    *found = 0;
    for (unsigned lap = 0; lap < 2; lap++) {
        uint64_t unit = next_free(layout, lap == 0 ? layout->cursor : 0);
        uint64_t end = lap == 0 ? layout->units : layout->cursor;
        while (unit < end) {
            uint64_t count = free_run(layout, unit, wanted);
            if (count > *found) {
                *found = count;
                best = unit;
            }
            if (count == wanted)
                return best;
            unit = next_free(layout, unit + count);
        }
    }
    return best;
}

/* ---- Files ---- */

struct model_layout *model_layout_create(uint64_t capacity_bytes)
{
    struct model_layout *layout = memory_zalloc(1, sizeof(*layout));
    if (layout == NULL)
        return NULL;
    layout->units = capacity_bytes / UNIT_BYTES;
    layout->free_units = layout->units;
    layout->taken = memory_zalloc(layout->units / 64 + 1, sizeof(*layout->taken));
    if (layout->taken == NULL) {
        memory_free(layout);
        return NULL;
    }
    return layout;
}

static void file_free(struct model_file *file)
{
    memory_free(file->path);
    memory_free(file->extents);
    memory_free(file);
}

void model_layout_destroy(struct model_layout *layout)
{
    if (layout == NULL)
        return;
    while (layout->files != NULL) {
        struct model_file *next = layout->files->next;
        file_free(layout->files);
        layout->files = next;
    }
    memory_free(layout->taken);
    memory_free(layout);
}

static struct model_file *find_file(const struct model_layout *layout, const char *path)
{
    for (struct model_file *file = layout->files; file != NULL; file = file->next)
        if (file->path != NULL && strcmp(file->path, path) == 0)
            return file;
    return NULL;
}

struct model_file *model_layout_hold(struct model_layout *layout, const char *path)
{
    struct model_file *file = find_file(layout, path);
    if (file == NULL) {
        file = memory_zalloc(1, sizeof(*file));
        char *copy = memory_copy_text(path);
        if (file == NULL || copy == NULL) {
            memory_free(file);
            memory_free(copy);
            return NULL;
        }
        file->path = copy;
        file->next = layout->files;
        layout->files = file;
    }
    file->holders++;
    return file;
}

/* Nobody can reach it any more. */
static void drop_if_unused(struct model_layout *layout, struct model_file *file)
{
    if (file->path != NULL || file->holders > 0)
        return;
    model_layout_cut(layout, file, 0);
    struct model_file **link = &layout->files;
    while (*link != file)
        link = &(*link)->next;
    *link = file->next;
    file_free(file);
}

void model_layout_release(struct model_layout *layout, struct model_file *file)
{
    ASSERT(file->holders > 0);
    file->holders--;
    drop_if_unused(layout, file);
}

static void lose_name(struct model_layout *layout, struct model_file *file)
{
    memory_free(file->path);
    file->path = NULL;
    drop_if_unused(layout, file);
}

void model_layout_remove(struct model_layout *layout, const char *path)
{
    struct model_file *file = find_file(layout, path);
    if (file != NULL)
        lose_name(layout, file);
}

static void rename_file(struct model_layout *layout, struct model_file *file, const char *to,
                        const char *rest)
{
    size_t to_length = strlen(to);
    char *path = memory_alloc(to_length + strlen(rest) + 1);
    if (path == NULL) {
        lose_name(layout, file);
        return;
    }
    memcpy(path, to, to_length);
    strcpy(path + to_length, rest);
    memory_free(file->path);
    file->path = path;
}

void model_layout_rename(struct model_layout *layout, const char *from, const char *to)
{
    size_t length = strlen(from);
    if (strcmp(from, to) == 0)
        return;
    model_layout_remove(layout, to);
    struct model_file *next = NULL;
    for (struct model_file *file = layout->files; file != NULL; file = next) {
        next = file->next;
        if (file->path != NULL && strncmp(file->path, from, length) == 0 &&
            (file->path[length] == '\0' || file->path[length] == '/'))
            rename_file(layout, file, to, file->path + length);
    }
}

/* ---- Room ---- */

static int reserve_extents(struct model_file *file, unsigned count)
{
    if (file->extent_capacity >= count)
        return 0;
    unsigned capacity = file->extent_capacity * 2 > count ? file->extent_capacity * 2 : count;
    struct extent *extents = memory_realloc(file->extents, capacity * sizeof(*extents));
    if (extents == NULL)
        return -ENOMEM;
    file->extents = extents;
    file->extent_capacity = capacity;
    return 0;
}

static void append_units(struct model_layout *layout, struct model_file *file, uint64_t place,
                         uint64_t count)
{
    struct extent *last = file->extent_count > 0 ? &file->extents[file->extent_count - 1] : NULL;
    set_taken(layout, place, count, true);
    if (last != NULL && last->place + last->count == place)
        last->count += count;
    else
        file->extents[file->extent_count++] =
            (struct extent){.first = file->units, .place = place, .count = count};
    file->units += count;
}

int model_layout_grow(struct model_layout *layout, struct model_file *file, uint64_t size_bytes)
{
    uint64_t wanted = size_bytes / UNIT_BYTES + (size_bytes % UNIT_BYTES != 0);
    if (wanted <= file->units)
        return 0;
    uint64_t missing = wanted - file->units;
    if (missing > layout->free_units)
        return -ENOSPC;
    uint64_t units_before = file->units;
    while (missing > 0) {
        int error = reserve_extents(file, file->extent_count + 1);
        if (error != 0) {
            model_layout_cut(layout, file, units_before * UNIT_BYTES);
            return error;
        }
        struct extent *last =
            file->extent_count > 0 ? &file->extents[file->extent_count - 1] : NULL;
        uint64_t place = last != NULL ? last->place + last->count : 0;
        uint64_t count = last != NULL ? free_run(layout, place, missing) : 0;
        if (count == 0) {
            place = find_run(layout, missing, &count);
            uint64_t gap = layout->units / 64 < GAP_UNITS ? layout->units / 64 : GAP_UNITS;
            layout->cursor = (place + count + gap) % layout->units;
        }
        append_units(layout, file, place, count);
        missing -= count;
    }
    return 0;
}

void model_layout_cut(struct model_layout *layout, struct model_file *file, uint64_t size_bytes)
{
    uint64_t kept = size_bytes / UNIT_BYTES + (size_bytes % UNIT_BYTES != 0);
    while (file->units > kept) {
        struct extent *last = &file->extents[file->extent_count - 1];
        uint64_t count = file->units - kept < last->count ? file->units - kept : last->count;
        last->count -= count;
        file->units -= count;
        set_taken(layout, last->place + last->count, count, false);
        if (last->count == 0)
            file->extent_count--;
    }
}

uint64_t model_layout_room(const struct model_file *file)
{
    return file->units * UNIT_BYTES;
}

uint64_t model_layout_map(const struct model_file *file, uint64_t offset, uint64_t *device_offset)
{
    uint64_t unit = offset / UNIT_BYTES;
    ASSERT(unit < file->units);
    unsigned low = 0;
    unsigned high = file->extent_count - 1;
    while (low < high) {
        unsigned middle = low + (high - low + 1) / 2;
        if (file->extents[middle].first <= unit)
            low = middle;
        else
            high = middle - 1;
    }
    const struct extent *extent = &file->extents[low];
    uint64_t within = offset - extent->first * UNIT_BYTES;
    *device_offset = extent->place * UNIT_BYTES + within;
    return extent->count * UNIT_BYTES - within;
}
