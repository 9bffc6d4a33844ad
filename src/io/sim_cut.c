/*
 * The power cut: what was under way may have happened, and of all that is not durable some is kept.
 */
#include "io/sim_internal.h"

#include "base/check.h"

#include <errno.h>

unsigned sim_cut_chance(enum sim_cut cut, struct rng *rng)
{
    static const uint8_t chances[] = {0, 1, 4, 8, 12, 15, 16};
    if (cut == SIM_CUT_KEEP)
        return 16;
    if (cut == SIM_CUT_DROP)
        return 0;
    return chances[rng_below(rng, ARRAY_COUNT(chances))];
}

void sim_carry_out_writes(struct sim_disk *disk, const struct sim_queue *queues)
{
    for (const struct sim_queue *queue = queues; queue != NULL; queue = queue->next) {
        for (unsigned i = 0; i < queue->count; i++) {
            const struct io_request *request = queue->slots[i].request;
            const struct sim_handle *handle = request->handle;
            struct sim_node *node = disk->nodes[handle->node->index];
            if (request->op != IO_OP_WRITE || node == NULL)
                continue;
            /* On a full disk it does not happen, or not all of it. */
            if (sim_request_check(disk, request) == 0)
                (void)sim_file_write(disk, node, request);
        }
    }
}

void sim_cut_now(struct sim_disk *disk, enum sim_cut cut, uint64_t seed)
{
    ASSERT(!disk->is_cut);
    struct rng rng;
    rng_init(&rng, seed);
    sim_carry_out_writes(disk, disk->queues);
    sim_names_cut(disk, cut, &rng);
    for (uint32_t i = 0; i < disk->node_count; i++)
        if (disk->nodes[i] != NULL)
            sim_file_cut(disk->nodes[i], disk->options.sector_bytes, cut, &rng);
    disk->is_cut = true;
    disk->cut_at_step = 0;
}

int sim_step(struct sim_disk *disk)
{
    disk->steps++;
    if (disk->steps != disk->cut_at_step)
        return 0;
    sim_cut_now(disk, disk->cut, disk->cut_seed);
    return -EIO;
}
