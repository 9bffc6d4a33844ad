#include "io/sim_internal.h"

#include "base/check.h"
#include "base/memory.h"

#include <string.h>

enum { SECTOR_MAX_BYTES = 1 << 20 };

static struct sim_disk *disk_allocate(void)
{
    struct sim_disk *disk = memory_realloc_surely(NULL, sizeof(*disk));
    memset(disk, 0, sizeof(*disk));
    pthread_mutex_init(&disk->mutex, NULL);
    return disk;
}

/* The mutex is no part of what `const` promises. */
static void disk_lock(const struct sim_disk *disk)
{
    pthread_mutex_lock(&((struct sim_disk *)disk)->mutex);
}

static void disk_unlock(const struct sim_disk *disk)
{
    pthread_mutex_unlock(&((struct sim_disk *)disk)->mutex);
}

firn_rc sim_disk_create(const struct sim_disk_options *options, struct sim_disk **disk)
{
    uint32_t sector_bytes = options->sector_bytes;
    if (sector_bytes == 0 || (sector_bytes & (sector_bytes - 1)) != 0 ||
        sector_bytes > SECTOR_MAX_BYTES)
        return rc_raise(FIRN_E_INVALID,
                        "a simulated disk's sector of %u bytes must be a power of two up to 1 MiB",
                        sector_bytes);
    struct sim_disk *made = disk_allocate();
    made->options = *options;
    sim_names_create_root(made);
    *disk = made;
    return FIRN_OK;
}

void sim_disk_destroy(struct sim_disk *disk)
{
    if (disk == NULL)
        return;
    ENSURE(disk->systems == 0);
    for (uint32_t i = 0; i < disk->node_count; i++) {
        if (disk->nodes[i] != NULL)
            sim_file_release(disk->nodes[i]);
        memory_free(disk->nodes[i]);
    }
    memory_free(disk->nodes);
    memory_free(disk->entries);
    memory_free(disk->name_changes);
    pthread_mutex_destroy(&disk->mutex);
    memory_free(disk);
}

firn_rc sim_disk_open_system(struct sim_disk *disk, struct clock *clock, uint64_t seed,
                             struct io_system **system)
{
    struct io_driver *driver = sim_driver_create(disk, clock, seed);
    if (driver == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for a view of a simulated disk");
    return io_system_create(driver, system);
}

/* ---- Power ---- */

void sim_disk_cut_after(struct sim_disk *disk, uint64_t steps, enum sim_cut cut, uint64_t seed)
{
    disk_lock(disk);
    disk->cut_at_step = steps == 0 ? 0 : disk->steps + steps;
    disk->cut = cut;
    disk->cut_seed = seed;
    disk_unlock(disk);
}

uint64_t sim_disk_steps(const struct sim_disk *disk)
{
    disk_lock(disk);
    uint64_t steps = disk->steps;
    disk_unlock(disk);
    return steps;
}

bool sim_disk_is_cut(const struct sim_disk *disk)
{
    disk_lock(disk);
    bool is_cut = disk->is_cut;
    disk_unlock(disk);
    return is_cut;
}

void sim_disk_cut(struct sim_disk *disk, enum sim_cut cut, uint64_t seed)
{
    disk_lock(disk);
    if (!disk->is_cut)
        sim_cut_now(disk, cut, seed);
    disk_unlock(disk);
}

void sim_disk_restore(struct sim_disk *disk)
{
    disk_lock(disk);
    ENSURE(disk->systems == 0);
    disk->is_cut = false;
    disk_unlock(disk);
}

/* ---- Cloning ---- */

static void *array_copy(const void *array, size_t count, size_t element_bytes)
{
    if (count == 0)
        return NULL;
    void *copy = memory_realloc_surely(NULL, count * element_bytes);
    memcpy(copy, array, count * element_bytes);
    return copy;
}

/* A node as it is without the handles that hold it; NULL if nothing else does. */
static struct sim_node *node_clone(const struct sim_node *node)
{
    if (node == NULL || node->references == node->handles)
        return NULL;
    struct sim_node *copy = array_copy(node, 1, sizeof(*node));
    copy->references -= copy->handles;
    copy->handles = 0;
    copy->locked = false;
    sim_file_clone(copy);
    return copy;
}

struct sim_disk *sim_disk_clone(const struct sim_disk *disk)
{
    struct sim_disk *copy = disk_allocate();
    disk_lock(disk);
    copy->options = disk->options;
    copy->node_count = disk->node_count;
    copy->nodes = array_copy(disk->nodes, disk->node_count, sizeof(disk->nodes[0]));
    for (uint32_t i = 0; i < disk->node_count; i++)
        copy->nodes[i] = node_clone(disk->nodes[i]);
    copy->entry_count = disk->entry_count;
    copy->entry_capacity = disk->entry_count;
    copy->free_entry = disk->free_entry;
    copy->entries = array_copy(disk->entries, disk->entry_count, sizeof(disk->entries[0]));
    copy->name_change_count = disk->name_change_count;
    copy->name_change_capacity = disk->name_change_count;
    copy->name_changes =
        array_copy(disk->name_changes, disk->name_change_count, sizeof(disk->name_changes[0]));
    copy->is_cut = disk->is_cut;
    copy->steps = disk->steps;
    if (!disk->is_cut)
        sim_carry_out_writes(copy, disk->queues);
    disk_unlock(disk);
    return copy;
}

/* ---- The medium ---- */

void sim_disk_set_capacity(struct sim_disk *disk, uint64_t capacity_bytes)
{
    disk_lock(disk);
    disk->options.capacity_bytes = capacity_bytes;
    disk_unlock(disk);
}

size_t sim_space_left(const struct sim_disk *disk)
{
    if (disk->options.capacity_bytes == 0)
        return SIZE_MAX;
    size_t left = (size_t)(disk->options.capacity_bytes / SIM_CHUNK_BYTES);
    for (uint32_t i = 0; i < disk->node_count; i++) {
        const struct sim_node *node = disk->nodes[i];
        if (node == NULL || (node->live_entry == SIM_NONE && node->handles == 0))
            continue;
        if (node->live.present >= left)
            return 0;
        left -= node->live.present;
    }
    return left;
}

firn_rc sim_disk_rot(struct sim_disk *disk, const char *path, uint64_t offset, uint8_t xor_mask)
{
    struct sim_node *node = NULL;
    disk_lock(disk);
    int found = sim_names_find(disk, path, &node);
    bool fits = found == 0 && !node->is_directory && offset < node->durable_size;
    if (fits)
        sim_file_rot(node, disk->options.sector_bytes, offset, xor_mask);
    disk_unlock(disk);
    if (found != 0)
        return rc_raise_errno(-found, "cannot let %s rot on the simulated disk", path);
    if (!fits)
        return rc_raise(FIRN_E_INVALID,
                        "cannot let byte %llu of %s rot: it is not a file whose durable bytes go "
                        "that far",
                        (unsigned long long)offset, path);
    return FIRN_OK;
}
