/*
 * The write cache of a RAID controller, kept alive by a battery: what it has taken is durable.
 *
 * Dirty lines are written to the members in the order of addresses, round and round (C-LOOK), a few
 * runs at a time, more of them the fuller the cache is. So members' heads travel little, and lines
 * that became adjacent while they waited are written together. Two heaps hold the order: lines
 * ahead of the sweep, and lines behind it for the next one.
 */
#include "base/check.h"
#include "base/memory.h"
#include "io/model_internal.h"

enum {
    LINE_BYTES = 16384,
    RUN_BYTES_MAX = 1048576,
    DESTAGES_EACH_MAX = 4, /* for each column of data */
};

enum line_state { LINE_FREE, LINE_DIRTY, LINE_WRITING };

/* One line's dirty bytes are those from begin to end; holes between writes are written along. */
struct line {
    uint64_t number; /* address / LINE_BYTES */
    uint32_t begin, end;
    uint32_t next; /* in its bucket or among the free ones: index + 1 */
    enum line_state state;
    bool again; /* dirtied anew while it is being written */
};

struct entry {
    uint64_t number;
    uint32_t line;
};

struct heap {
    struct entry *entries;
    uint32_t count;
};

struct model_cache {
    struct model_device *device;
    struct line *lines;
    uint32_t line_count, free_count;
    uint32_t first_free; /* index + 1 */
    uint32_t *buckets;   /* index + 1 */
    uint64_t bucket_mask;
    struct heap ahead, behind;
    uint64_t sweep; /* the line number the sweep has come to */
    unsigned destages;
    double answer_ns, byte_ns;
    uint64_t free_ns; /* when the controller has answered everything so far */
    struct model_op *waiting;
    struct model_op **waiting_tail;
};

/* ---- Heaps of lines, the lowest address first ---- */

static void heap_push(struct heap *heap, uint64_t number, uint32_t line)
{
    uint32_t place = heap->count++;
    while (place > 0 && heap->entries[(place - 1) / 2].number > number) {
        heap->entries[place] = heap->entries[(place - 1) / 2];
        place = (place - 1) / 2;
    }
    heap->entries[place] = (struct entry){.number = number, .line = line};
}

static uint32_t heap_pop(struct heap *heap)
{
    uint32_t line = heap->entries[0].line;
    struct entry moved = heap->entries[--heap->count];
    uint32_t place = 0;
    for (;;) {
        uint32_t child = 2 * place + 1;
        if (child >= heap->count)
            break;
        if (child + 1 < heap->count &&
            heap->entries[child + 1].number < heap->entries[child].number)
            child++;
        if (heap->entries[child].number >= moved.number)
            break;
        heap->entries[place] = heap->entries[child];
        place = child;
    }
    heap->entries[place] = moved;
    return line;
}

/* ---- Lines ---- */

static uint32_t *bucket_of(const struct model_cache *cache, uint64_t number)
{
    uint64_t hash = number * UINT64_C(0x9e3779b97f4a7c15);
    return &cache->buckets[(hash >> 32) & cache->bucket_mask];
}

static struct line *find_line(const struct model_cache *cache, uint64_t number)
{
    for (uint32_t i = *bucket_of(cache, number); i != 0; i = cache->lines[i - 1].next)
        if (cache->lines[i - 1].number == number)
            return &cache->lines[i - 1];
    return NULL;
}

static struct line *add_line(struct model_cache *cache, uint64_t number)
{
    uint32_t *bucket = bucket_of(cache, number);
    uint32_t index = cache->first_free;
    ASSERT(index != 0);
    struct line *line = &cache->lines[index - 1];
    cache->first_free = line->next;
    cache->free_count--;
    *line = (struct line){.number = number, .next = *bucket};
    *bucket = index;
    return line;
}

static void drop_line(struct model_cache *cache, struct line *line)
{
    uint32_t *link = bucket_of(cache, line->number);
    uint32_t index = (uint32_t)(line - cache->lines) + 1;
    while (*link != index)
        link = &cache->lines[*link - 1].next;
    *link = line->next;
    line->state = LINE_FREE;
    line->next = cache->first_free;
    cache->first_free = index;
    cache->free_count++;
}

static void queue_line(struct model_cache *cache, struct line *line)
{
    line->state = LINE_DIRTY;
    heap_push(line->number >= cache->sweep ? &cache->ahead : &cache->behind, line->number,
              (uint32_t)(line - cache->lines));
}

static void dirty_line(struct model_cache *cache, uint64_t number, uint32_t begin, uint32_t end)
{
    struct line *line = find_line(cache, number);
    bool fresh = line == NULL || (line->state == LINE_WRITING && !line->again);
    if (line == NULL)
        line = add_line(cache, number);
    if (fresh || begin < line->begin)
        line->begin = begin;
    if (fresh || end > line->end)
        line->end = end;
    if (line->state == LINE_WRITING)
        line->again = true;
    else if (line->state == LINE_FREE)
        queue_line(cache, line);
}

/* ---- Writing to the members ---- */

static unsigned destages_allowed(const struct model_cache *cache)
{
    uint32_t used = cache->line_count - cache->free_count;
    unsigned each = 1;
    if (used > cache->line_count / 2)
        each = 2;
    if (used > cache->line_count / 8 * 7)
        each = DESTAGES_EACH_MAX;
    return each * cache->device->columns;
}

/* A run ends with its row of stripes: the next row goes to the same members again. */
static uint64_t run_limit(const struct model_cache *cache, uint64_t offset)
{
    const struct model_device *device = cache->device;
    if (device->columns == 1)
        return offset + RUN_BYTES_MAX;
    uint64_t row = (uint64_t)device->columns * device->spec.stripe_bytes;
    return offset - offset % row + row;
}

static struct model_op *next_run(struct model_cache *cache)
{
    if (cache->ahead.count == 0) {
        struct heap swapped = cache->ahead;
        cache->ahead = cache->behind;
        cache->behind = swapped;
        cache->sweep = 0;
    }
    if (cache->ahead.count == 0)
        return NULL;
    struct line *line = &cache->lines[heap_pop(&cache->ahead)];
    line->state = LINE_WRITING;
    uint64_t begin = line->number * LINE_BYTES + line->begin;
    uint64_t end = line->number * LINE_BYTES + line->end;
    uint64_t limit = run_limit(cache, begin);
    while (end % LINE_BYTES == 0 && cache->ahead.count > 0 && end < limit) {
        struct line *follower = &cache->lines[cache->ahead.entries[0].line];
        if (follower->number * LINE_BYTES != end || follower->begin != 0 ||
            end + follower->end > limit)
            break;
        heap_pop(&cache->ahead);
        follower->state = LINE_WRITING;
        line = follower;
        end += follower->end;
    }
    cache->sweep = line->number + 1;
    struct model_op *op = model_pool_take(&cache->device->ops);
    op->kind = IO_OP_WRITE;
    op->offset = begin;
    op->size_bytes = (uint32_t)(end - begin);
    return op;
}

static void destage(struct model_cache *cache)
{
    while (cache->destages < destages_allowed(cache)) {
        struct model_op *op = next_run(cache);
        if (op == NULL)
            return;
        cache->destages++;
        model_raid_submit(cache->device, op);
    }
}

/* ---- Answering ---- */

static void fire_answered(struct model_device *device, struct model_timer *timer)
{
    model_op_done(device, (struct model_op *)timer);
}

static void answer(struct model_cache *cache, struct model_op *op)
{
    struct model_device *device = cache->device;
    uint64_t start = cache->free_ns > device->now_ns ? cache->free_ns : device->now_ns;
    cache->free_ns = start + model_ns(cache->answer_ns + (double)op->size_bytes * cache->byte_ns);
    op->timer.fire = fire_answered;
    model_arm(device, &op->timer, cache->free_ns, 0);
}

/* The bytes of a line that an op covers. */
static void line_range(const struct model_op *op, uint64_t number, uint32_t *begin, uint32_t *end)
{
    uint64_t start = number * LINE_BYTES;
    uint64_t stop = op->offset + op->size_bytes;
    *begin = op->offset > start ? (uint32_t)(op->offset - start) : 0;
    *end = stop < start + LINE_BYTES ? (uint32_t)(stop - start) : LINE_BYTES;
}

static uint64_t last_line(const struct model_op *op)
{
    return (op->offset + op->size_bytes - 1) / LINE_BYTES;
}

static bool holds_all(const struct model_cache *cache, const struct model_op *op)
{
    for (uint64_t i = op->offset / LINE_BYTES; i <= last_line(op); i++) {
        uint32_t begin = 0;
        uint32_t end = 0;
        line_range(op, i, &begin, &end);
        const struct line *line = find_line(cache, i);
        if (line == NULL || line->begin > begin || line->end < end)
            return false;
    }
    return true;
}

static bool has_room(const struct model_cache *cache, const struct model_op *op)
{
    uint64_t first = op->offset / LINE_BYTES;
    uint64_t missing = last_line(op) - first + 1;
    for (uint64_t i = first; i <= last_line(op) && missing > cache->free_count; i++)
        if (find_line(cache, i) != NULL)
            missing--;
    return missing <= cache->free_count;
}

static void take_write(struct model_cache *cache, struct model_op *op)
{
    for (uint64_t i = op->offset / LINE_BYTES; i <= last_line(op); i++) {
        uint32_t begin = 0;
        uint32_t end = 0;
        line_range(op, i, &begin, &end);
        dirty_line(cache, i, begin, end);
    }
    answer(cache, op);
}

void model_cache_submit(struct model_cache *cache, struct model_op *op)
{
    if (op->kind == IO_OP_READ) {
        if (holds_all(cache, op))
            answer(cache, op);
        else
            model_raid_submit(cache->device, op);
    } else if (op->kind != IO_OP_WRITE) {
        answer(cache, op);
    } else if (last_line(op) - op->offset / LINE_BYTES >= cache->line_count / 2) {
        model_raid_submit(cache->device, op);
    } else if (cache->waiting == NULL && has_room(cache, op)) {
        take_write(cache, op);
        destage(cache);
    } else {
        *cache->waiting_tail = op;
        cache->waiting_tail = &op->next;
    }
}

void model_cache_destaged(struct model_cache *cache, const struct model_op *op)
{
    cache->destages--;
    for (uint64_t i = op->offset / LINE_BYTES; i <= last_line(op); i++) {
        struct line *line = find_line(cache, i);
        if (line->again) {
            line->again = false;
            queue_line(cache, line);
        } else {
            drop_line(cache, line);
        }
    }
    while (cache->waiting != NULL && has_room(cache, cache->waiting)) {
        struct model_op *first = cache->waiting;
        cache->waiting = first->next;
        if (cache->waiting == NULL)
            cache->waiting_tail = &cache->waiting;
        take_write(cache, first);
    }
    destage(cache);
}

/* ---- Opening and closing ---- */

/* What all of the cache's own writes together take from the pools. */
static firn_rc hold_back(struct model_device *device)
{
    size_t writes = (size_t)DESTAGES_EACH_MAX * device->columns;
    uint64_t row = (uint64_t)device->columns * device->spec.stripe_bytes;
    struct model_needs needs =
        model_raid_needs(device, IO_OP_WRITE, device->columns == 1 ? RUN_BYTES_MAX : row);
    device->ops.held = writes;
    device->parts.held = writes * needs.parts;
    device->rows.held = writes * needs.rows;
    device->pages.held = writes * needs.pages;
    FIRN_TRY(model_pool_reserve(&device->ops, 0));
    FIRN_TRY(model_pool_reserve(&device->parts, 0));
    FIRN_TRY(model_pool_reserve(&device->rows, 0));
    return model_pool_reserve(&device->pages, 0);
}

firn_rc model_cache_open(struct model_device *device, struct model_cache **cache)
{
    const struct model_spec *spec = &device->spec;
    FIRN_TRY(hold_back(device));
    struct model_cache *made = memory_zalloc(1, sizeof(*made));
    if (made == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for the cache of model %s", spec->name);
    made->device = device;
    made->line_count = (uint32_t)(spec->cache_bytes / LINE_BYTES);
    made->waiting_tail = &made->waiting;
    made->answer_ns = spec->cache_us * 1e3;
    made->byte_ns = model_byte_ns(spec->cache_mib_s);
    uint64_t buckets = 1;
    while (buckets < made->line_count)
        buckets *= 2;
    made->bucket_mask = buckets - 1;
    made->lines = memory_zalloc(made->line_count, sizeof(*made->lines));
    made->buckets = memory_zalloc(buckets, sizeof(*made->buckets));
    made->ahead.entries = memory_zalloc(made->line_count, sizeof(struct entry));
    made->behind.entries = memory_zalloc(made->line_count, sizeof(struct entry));
    if (made->lines == NULL || made->buckets == NULL || made->ahead.entries == NULL ||
        made->behind.entries == NULL) {
        model_cache_close(made);
        return rc_raise(FIRN_E_NOMEM, "no memory for the cache of model %s", spec->name);
    }
    made->free_count = made->line_count;
    made->first_free = 1;
    for (uint32_t i = 0; i + 1 < made->line_count; i++)
        made->lines[i].next = i + 2;
    *cache = made;
    return FIRN_OK;
}

void model_cache_close(struct model_cache *cache)
{
    if (cache == NULL)
        return;
    memory_free(cache->lines);
    memory_free(cache->buckets);
    memory_free(cache->ahead.entries);
    memory_free(cache->behind.entries);
    memory_free(cache);
}
