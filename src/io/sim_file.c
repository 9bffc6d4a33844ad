/*
 * A file: its live image, its durable image, and between them the changes, one for each write or
 * size change since the last sync. Syncing makes durable what live is; a cut decides change by
 * change, or sector by sector, what gets into the durable image, and makes live what durable is.
 */
#include "io/sim_internal.h"

#include "base/check.h"
#include "base/memory.h"

#include <errno.h>
#include <string.h>

static uint64_t round_up(uint64_t value, uint64_t grain)
{
    return (value + grain - 1) / grain * grain;
}

static uint64_t round_down(uint64_t value, uint64_t grain)
{
    return value / grain * grain;
}

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* ---- Changes ---- */

/* Append a change that spans [offset, end), rounded out to sectors, filled from the live image up
   to filled_end. Call it when the live image and size are already as they are after the change. */
static struct sim_change *change_append(const struct sim_disk *disk, struct sim_node *node,
                                        uint64_t offset, uint64_t end, uint64_t filled_end)
{
    uint64_t sector_bytes = disk->options.sector_bytes;
    offset = round_down(offset, sector_bytes);
    end = max_u64(round_up(end, sector_bytes), offset);
    uint64_t filled_bytes = filled_end > offset ? round_up(filled_end - offset, sector_bytes) : 0;
    struct sim_change *change = memory_realloc_surely(NULL, sizeof(*change) + filled_bytes);
    *change = (struct sim_change){
        .references = 1,
        .offset = offset,
        .size_bytes = end - offset,
        .filled_bytes = filled_bytes,
        .size_after = node->live_size,
    };
    sim_image_read(&node->live, offset, change->bytes, filled_bytes);
    if (node->change_count == node->change_capacity) {
        node->change_capacity = node->change_capacity == 0 ? 16 : node->change_capacity * 2;
        node->changes = memory_realloc_surely(node->changes,
                                              node->change_capacity * sizeof(struct sim_change *));
    }
    node->changes[node->change_count++] = change;
    node->unsynced_bytes += filled_bytes;
    return change;
}

static void change_drop(struct sim_change *change)
{
    if (atomic_fetch_sub_explicit(&change->references, 1, memory_order_acq_rel) == 1)
        memory_free(change);
}

/* Bring the part of a change that lies in [from, end) onto the medium. */
static void change_apply(const struct sim_change *change, struct sim_image *image, uint64_t from,
                         uint64_t end)
{
    uint64_t filled_end = change->offset + change->filled_bytes;
    if (change->allocates) {
        sim_image_allocate(image, from, end - from);
        return;
    }
    uint64_t zeros_from = max_u64(from, min_u64(filled_end, end));
    if (from < zeros_from)
        sim_image_write(image, from, change->bytes + (from - change->offset), zeros_from - from);
    sim_image_punch(image, zeros_from, end - zeros_from);
}

static void change_apply_all(const struct sim_change *change, struct sim_image *image)
{
    change_apply(change, image, change->offset, change->offset + change->size_bytes);
}

/* Forget the oldest changes, whatever became of them. */
static void changes_forget(struct sim_node *node, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        node->unsynced_bytes -= node->changes[i]->filled_bytes;
        change_drop(node->changes[i]);
    }
    node->change_count -= count;
    node->changes_settled += count;
    if (node->change_count > 0)
        memmove(node->changes, node->changes + count,
                node->change_count * sizeof(struct sim_change *));
}

/* ---- Reading and writing ---- */

static uint64_t vectors_bytes(const struct io_request *request)
{
    uint64_t size_bytes = 0;
    for (uint32_t i = 0; i < request->vector_count; i++)
        size_bytes += request->vectors[i].iov_len;
    return size_bytes;
}

int64_t sim_file_read(const struct sim_node *node, const struct io_request *request)
{
    uint64_t offset = request->offset;
    for (uint32_t i = 0; i < request->vector_count && offset < node->live_size; i++) {
        uint64_t part = min_u64(request->vectors[i].iov_len, node->live_size - offset);
        sim_image_read(&node->live, offset, request->vectors[i].iov_base, part);
        offset += part;
    }
    return (int64_t)(offset - request->offset);
}

/* How much of a write finds space. A short write ends with a sector. */
static uint64_t file_fitting(const struct sim_disk *disk, const struct sim_node *node,
                             uint64_t offset, uint64_t size_bytes)
{
    size_t chunks_left = sim_space_left(disk);
    uint64_t fitting = sim_image_fitting(&node->live, offset, size_bytes, chunks_left);
    if (fitting < size_bytes)
        fitting -= min_u64(fitting, (offset + fitting) % disk->options.sector_bytes);
    return fitting;
}

int64_t sim_file_write(struct sim_disk *disk, struct sim_node *node,
                       const struct io_request *request)
{
    uint64_t size_bytes = vectors_bytes(request);
    if (request->offset > SIM_FILE_MAX_BYTES || size_bytes > SIM_FILE_MAX_BYTES - request->offset)
        return -EFBIG;
    if (size_bytes == 0)
        return 0;
    uint64_t fitting = file_fitting(disk, node, request->offset, size_bytes);
    if (fitting == 0 || (request->is_atomic && fitting < size_bytes))
        return -ENOSPC;
    uint64_t offset = request->offset;
    uint64_t end = offset + fitting;
    for (uint32_t i = 0; offset < end; i++) {
        uint64_t part = min_u64(request->vectors[i].iov_len, end - offset);
        sim_image_write(&node->live, offset, request->vectors[i].iov_base, part);
        offset += part;
    }
    bool resizes = end > node->live_size;
    if (resizes)
        node->live_size = end;
    struct sim_change *change = change_append(disk, node, request->offset, end, end);
    change->resizes = resizes;
    change->is_atomic = request->is_atomic;
    return (int64_t)fitting;
}

int sim_file_set_size(struct sim_disk *disk, struct sim_node *node, uint64_t size_bytes)
{
    if (size_bytes > SIM_FILE_MAX_BYTES)
        return -EFBIG;
    uint64_t old_bytes = node->live_size;
    node->live_size = size_bytes;
    if (size_bytes >= old_bytes) {
        change_append(disk, node, size_bytes, 0, 0)->resizes = size_bytes != old_bytes;
        return 0;
    }
    uint64_t old_end = round_up(old_bytes, SIM_CHUNK_BYTES);
    sim_image_punch(&node->live, size_bytes, old_end - size_bytes);
    /* A hole matters only where some image has bytes; the whole of a huge sparse file does not. */
    uint64_t image_end = max_u64(sim_image_end(&node->live), sim_image_end(&node->durable));
    uint64_t hole_end = min_u64(old_end, image_end);
    bool splits_sector = size_bytes % disk->options.sector_bytes != 0 && size_bytes < hole_end;
    change_append(disk, node, size_bytes, hole_end, splits_sector ? size_bytes : 0)->resizes = true;
    return 0;
}

int sim_file_allocate(struct sim_disk *disk, struct sim_node *node, uint64_t offset,
                      uint64_t size_bytes)
{
    if (size_bytes == 0)
        return -EINVAL;
    if (offset > SIM_FILE_MAX_BYTES || size_bytes > SIM_FILE_MAX_BYTES - offset)
        return -EFBIG;
    if (sim_image_missing(&node->live, offset, size_bytes) > sim_space_left(disk))
        return -ENOSPC;
    sim_image_allocate(&node->live, offset, size_bytes);
    uint64_t end = offset + size_bytes;
    bool resizes = end > node->live_size;
    if (resizes)
        node->live_size = end;
    struct sim_change *change = change_append(disk, node, offset, end, 0);
    change->resizes = resizes;
    change->allocates = true;
    return 0;
}

/* ---- Syncing ---- */

uint64_t sim_file_next_change(const struct sim_node *node)
{
    return node->changes_settled + node->change_count;
}

void sim_file_sync(struct sim_node *node, uint64_t end)
{
    if (end <= node->changes_settled)
        return;
    size_t count = (size_t)(end - node->changes_settled);
    ASSERT(count <= node->change_count);
    bool all = count == node->change_count;
    node->durable_size = node->changes[count - 1]->size_after;
    for (size_t i = 0; i < count; i++) {
        const struct sim_change *change = node->changes[i];
        if (all)
            sim_image_share(&node->durable, &node->live, change->offset, change->size_bytes);
        else
            change_apply_all(change, &node->durable);
    }
    changes_forget(node, count);
}

void sim_file_sync_last(struct sim_node *node)
{
    ASSERT(node->change_count > 0);
    node->changes[node->change_count - 1]->durable = true;
    if (node->change_count == 1)
        sim_file_sync(node, sim_file_next_change(node));
}

void sim_file_writeback(const struct sim_disk *disk, struct sim_node *node)
{
    uint64_t limit_bytes = disk->options.writeback_bytes;
    while (limit_bytes != 0 && node->unsynced_bytes > limit_bytes)
        sim_file_sync(node, node->changes_settled + (node->change_count + 1) / 2);
}

/* ---- Power cut ---- */

/* Let whole changes land in any order, but none across a durable one. */
static void changes_shuffle(struct sim_node *node, struct rng *rng)
{
    size_t start = 0;
    for (size_t i = 0; i < node->change_count; i++) {
        if (node->changes[i]->durable) {
            start = i + 1;
            continue;
        }
        size_t other = start + (size_t)rng_below(rng, i - start + 1);
        struct sim_change *change = node->changes[i];
        node->changes[i] = node->changes[other];
        node->changes[other] = change;
    }
}

/* Each sector is on the medium or not. Done for each change in order, this leaves a sector at any
   of its versions. */
static void change_tear(const struct sim_change *change, struct sim_image *image,
                        uint32_t sector_bytes, unsigned chance, struct rng *rng)
{
    uint64_t end = change->offset + change->size_bytes;
    for (uint64_t at = change->offset; at < end; at += sector_bytes)
        if (sim_coin(rng, chance))
            change_apply(change, image, at, at + sector_bytes);
}

static void change_cut(const struct sim_change *change, struct sim_node *node,
                       uint32_t sector_bytes, enum sim_cut cut, unsigned chance, struct rng *rng)
{
    bool is_whole = change->durable || change->allocates || change->is_atomic;
    if (cut == SIM_CUT_TEAR && !is_whole) {
        change_tear(change, &node->durable, sector_bytes, chance, rng);
        if (change->resizes && sim_coin(rng, chance))
            node->durable_size = change->size_after;
        return;
    }
    if (!change->durable && !sim_coin(rng, chance))
        return;
    change_apply_all(change, &node->durable);
    if (change->durable || change->resizes)
        node->durable_size = change->size_after;
}

void sim_file_cut(struct sim_node *node, uint32_t sector_bytes, enum sim_cut cut, struct rng *rng)
{
    if (node->change_count == 0)
        return;
    unsigned chance = sim_cut_chance(cut, rng);
    if (cut == SIM_CUT_REORDER)
        changes_shuffle(node, rng);
    for (size_t i = 0; i < node->change_count; i++)
        change_cut(node->changes[i], node, sector_bytes, cut, chance, rng);
    uint64_t image_end = sim_image_end(&node->durable);
    if (node->durable_size < image_end)
        sim_image_punch(&node->durable, node->durable_size, image_end - node->durable_size);
    /* Live and durable differed in the ranges of changes only. */
    for (size_t i = 0; i < node->change_count; i++)
        sim_image_share(&node->live, &node->durable, node->changes[i]->offset,
                        node->changes[i]->size_bytes);
    node->live_size = node->durable_size;
    changes_forget(node, node->change_count);
}

void sim_file_rot(struct sim_node *node, uint32_t sector_bytes, uint64_t offset, uint8_t xor_mask)
{
    uint64_t sector = round_down(offset, sector_bytes);
    bool hidden = false;
    for (size_t i = 0; i < node->change_count; i++) {
        const struct sim_change *change = node->changes[i];
        hidden |= change->offset <= sector && sector < change->offset + change->size_bytes &&
                  !change->allocates;
    }
    uint8_t byte;
    sim_image_read(&node->durable, offset, &byte, 1);
    byte ^= xor_mask;
    sim_image_write(&node->durable, offset, &byte, 1);
    if (!hidden)
        sim_image_write(&node->live, offset, &byte, 1);
}

/* ---- Life ---- */

void sim_file_clone(struct sim_node *node)
{
    struct sim_image live = node->live;
    struct sim_image durable = node->durable;
    struct sim_change **changes = node->changes;
    node->live = (struct sim_image){0};
    node->durable = (struct sim_image){0};
    sim_image_clone(&live, &node->live);
    sim_image_clone(&durable, &node->durable);
    node->changes = NULL;
    node->change_capacity = node->change_count;
    if (node->change_count == 0)
        return;
    node->changes = memory_realloc_surely(NULL, node->change_count * sizeof(struct sim_change *));
    for (size_t i = 0; i < node->change_count; i++) {
        node->changes[i] = changes[i];
        atomic_fetch_add_explicit(&changes[i]->references, 1, memory_order_relaxed);
    }
}

void sim_file_release(struct sim_node *node)
{
    changes_forget(node, node->change_count);
    memory_free(node->changes);
    sim_image_release(&node->live);
    sim_image_release(&node->durable);
}
