#include "base/check.h"
#include "bench/fileio_internal.h"

#include <math.h>

/* Draws before a validating worker gives up finding a block that nobody uses. */
enum { DRAWS_MAX = 64 };

static struct divider divider_of(uint64_t divisor)
{
    return (struct divider){.divisor = divisor, .inverse = 1.0 / (double)divisor};
}

/* The estimate is off by one at most: below 2^52 both the dividend and the product are exact to
   half a unit. */
static uint64_t divide(uint64_t dividend, const struct divider *divider, uint64_t *remainder)
{
    uint64_t quotient = (uint64_t)((double)dividend * divider->inverse);
    int64_t rest = (int64_t)(dividend - quotient * divider->divisor);
    if (rest < 0) {
        quotient--;
        rest += (int64_t)divider->divisor;
    } else if (rest >= (int64_t)divider->divisor) {
        quotient++;
        rest -= (int64_t)divider->divisor;
    }
    *remainder = (uint64_t)rest;
    return quotient;
}

static bool is_sequential(enum fileio_mode mode)
{
    return mode == FILEIO_SEQWR || mode == FILEIO_SEQREWR || mode == FILEIO_SEQRD;
}

static double write_share_of(const struct fileio_config *config)
{
    switch ((enum fileio_mode)config->file_test_mode) {
    case FILEIO_SEQRD:
    case FILEIO_RNDRD:
        return 0;
    case FILEIO_RNDRW:
        return 1 / (1 + config->rw_ratio);
    default:
        return 1;
    }
}

firn_rc fileio_pattern_init(const struct fileio_config *config, struct fileio_blocks *blocks,
                            struct fileio_pattern *pattern)
{
    struct fileio_shape shape = fileio_shape_of(config);
    uint64_t request_blocks = config->merged_requests > 0 ? config->merged_requests : 1;
    uint64_t file_requests = (shape.blocks_per_file + request_blocks - 1) / request_blocks;
    struct distribution_options options = {
        .kind = (enum distribution_kind)config->rand_type,
        .iterations = (unsigned)config->rand_spec_iter,
        .special_range = config->rand_spec_pct / 100,
        .special_share = config->rand_spec_res / 100,
        .pareto_h = config->rand_pareto_h,
        .zipfian_exponent = config->rand_zipfian_exp,
    };
    FIRN_TRY(distribution_init(&options, shape.total_blocks, &pattern->distribution));
    pattern->mode = (enum fileio_mode)config->file_test_mode;
    pattern->shape = shape;
    pattern->blocks = blocks;
    pattern->request_blocks = request_blocks;
    pattern->file_blocks = divider_of(shape.blocks_per_file);
    pattern->file_requests = divider_of(file_requests);
    pattern->all_requests = divider_of(file_requests * shape.file_num);
    pattern->write_share = write_share_of(config);
    pattern->fsync_freq = config->fsync_all || pattern->write_share == 0 ? 0 : config->fsync_freq;
    pattern->round = divider_of(pattern->fsync_freq + shape.file_num);
    pattern->numbered = is_sequential(pattern->mode) || pattern->fsync_freq > 0;
    atomic_init(&pattern->numbers, 0);
    return FIRN_OK;
}

/* How many of the first `count` reads and writes are writes: as even a spread as there is. */
static double writes_before(const struct fileio_pattern *pattern, uint64_t count)
{
    return floor((double)count * pattern->write_share);
}

static bool is_write(const struct fileio_pattern *pattern, uint64_t number)
{
    if (pattern->mode != FILEIO_RNDRW)
        return pattern->write_share > 0;
    return writes_before(pattern, number + 1) != writes_before(pattern, number);
}

/*
 * Rounds: after fsync_freq reads and writes come as many syncs as there are files, handed to
 * whoever asks next; no sync comes after a round without a write. So number n is a read or write
 * when n modulo the round's length is below fsync_freq, else the sync of a file.
 *
 * @return true when it is a sync; else *number becomes the number among the reads and writes
 */
static bool is_sync(const struct fileio_pattern *pattern, uint64_t *number, uint64_t *file,
                    bool *idle)
{
    uint64_t place;
    uint64_t round = divide(*number, &pattern->round, &place);
    uint64_t first = round * pattern->fsync_freq;
    if (place < pattern->fsync_freq) {
        *number = first + place;
        return false;
    }
    *file = place - pattern->fsync_freq;
    *idle = writes_before(pattern, first + pattern->fsync_freq) == writes_before(pattern, first);
    return true;
}

/* @return false for a read or write, with its number; true for a sync, with its file */
static bool take_number(struct fileio_pattern *pattern, struct fileio_cursor *cursor,
                        uint64_t *number, uint64_t *file)
{
    if (!pattern->numbered) {
        *number = cursor->next++;
        return false;
    }
    for (;;) { /* idle rounds of syncs are passed over; each has reads before it */
        *number = atomic_fetch_add_explicit(&pattern->numbers, 1, memory_order_relaxed);
        bool idle = false;
        if (pattern->fsync_freq == 0 || !is_sync(pattern, number, file, &idle))
            return false;
        if (!idle)
            return true;
    }
}

static void place_sequential(const struct fileio_pattern *pattern, uint64_t number,
                             struct fileio_access *access)
{
    uint64_t request;
    uint64_t in_file;
    divide(number, &pattern->all_requests, &request);
    access->file = divide(request, &pattern->file_requests, &in_file);
    uint64_t first = in_file * pattern->request_blocks;
    uint64_t left = pattern->shape.blocks_per_file - first;
    access->block_count =
        (uint32_t)(left < pattern->request_blocks ? left : pattern->request_blocks);
    access->block = access->file * pattern->shape.blocks_per_file + first;
    access->offset = first * pattern->shape.block_bytes;
}

static void place_randomly(const struct fileio_pattern *pattern, struct rng *rng,
                           struct fileio_access *access)
{
    uint64_t in_file;
    access->block = distribution_draw(&pattern->distribution, rng);
    access->file = divide(access->block, &pattern->file_blocks, &in_file);
    access->block_count = 1;
    access->offset = in_file * pattern->shape.block_bytes;
}

bool fileio_pattern_next(struct fileio_pattern *pattern, struct fileio_cursor *cursor,
                         struct fileio_access *access)
{
    uint64_t number = cursor->number;
    if (!cursor->has_number && take_number(pattern, cursor, &number, &access->file)) {
        access->kind = FILEIO_SYNCING;
        access->size_bytes = 0;
        access->offset = 0;
        access->block_count = 0;
        return true;
    }
    cursor->has_number = false;
    access->kind = is_write(pattern, number) ? FILEIO_WRITE : FILEIO_READ;
    bool sequential = is_sequential(pattern->mode);
    int draws = sequential ? 1 : DRAWS_MAX;
    for (int i = 0; i < draws; i++) {
        if (sequential)
            place_sequential(pattern, number, access);
        else
            place_randomly(pattern, &cursor->rng, access);
        access->size_bytes = access->block_count * pattern->shape.block_bytes;
        if (pattern->blocks->states == NULL ||
            fileio_blocks_take(pattern->blocks, access->block, access->block_count))
            return true;
    }
    cursor->has_number = true;
    cursor->number = number;
    return false;
}
