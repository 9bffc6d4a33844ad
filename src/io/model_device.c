#include "base/check.h"
#include "base/memory.h"
#include "io/model_internal.h"

enum {
    MEMBERS_MAX = 64,
    LOOKED_AT_MAX = 32, /* events, for what is done next */
};

/* ---- Timers ---- */

static bool event_before(const struct model_event *left, const struct model_event *right)
{
    return left->at_ns != right->at_ns ? left->at_ns < right->at_ns : left->order < right->order;
}

void model_arm(struct model_device *device, struct model_timer *timer, uint64_t at_ns,
               uint64_t rest_ns)
{
    ASSERT(device->event_count < device->event_capacity);
    struct model_event event = {
        .at_ns = at_ns, .order = device->event_order++, .done_ns = at_ns + rest_ns, .timer = timer};
    size_t place = device->event_count++;
    while (place > 0) {
        size_t parent = (place - 1) / 2;
        if (!event_before(&event, &device->events[parent]))
            break;
        device->events[place] = device->events[parent];
        place = parent;
    }
    device->events[place] = event;
}

static struct model_event pop_event(struct model_device *device)
{
    struct model_event first = device->events[0];
    struct model_event moved = device->events[--device->event_count];
    size_t place = 0;
    for (;;) {
        size_t child = 2 * place + 1;
        if (child >= device->event_count)
            break;
        if (child + 1 < device->event_count &&
            event_before(&device->events[child + 1], &device->events[child]))
            child++;
        if (!event_before(&device->events[child], &moved))
            break;
        device->events[place] = device->events[child];
        place = child;
    }
    device->events[place] = moved;
    return first;
}

/* Each op, part and drive's own timer may be armed once. */
static firn_rc reserve_events(struct model_device *device)
{
    size_t wanted = device->timer_count + device->ops.total + device->parts.total;
    if (device->event_capacity >= wanted)
        return FIRN_OK;
    struct model_event *events = memory_realloc(device->events, wanted * sizeof(*events));
    if (events == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for a modelled device's timers");
    device->events = events;
    device->event_capacity = wanted;
    return FIRN_OK;
}

static void run_until(struct model_device *device, uint64_t now_ns)
{
    while (device->event_count > 0 && device->events[0].at_ns <= now_ns) {
        struct model_event event = pop_event(device);
        device->now_ns = event.at_ns;
        event.timer->fire(device, event.timer);
    }
    device->now_ns = now_ns;
}

/* ---- What the layers below report ---- */

void model_op_done(struct model_device *device, struct model_op *op)
{
    struct model_io *io = op->io;
    if (io != NULL) {
        io->done_ns = device->now_ns;
        io->next = NULL;
        *device->done_tail = io;
        device->done_tail = &io->next;
    } else {
        model_cache_destaged(device->cache, op);
    }
    model_pool_give(&device->ops, op);
}

void model_part_done(struct model_device *device, struct model_part *part)
{
    struct model_op *op = part->op;
    struct model_row *row = part->row;
    part->member->outstanding--;
    model_pool_give(&device->parts, part);
    if (row != NULL)
        model_raid_row_read(device, row);
    if (--op->parts_left == 0)
        model_op_done(device, op);
}

/* ---- Opening and closing ---- */

static firn_rc check_raid(const struct model_spec *spec)
{
    unsigned n = spec->members;
    bool fits = (spec->raid == MODEL_RAID_NONE && n == 1) ||
                (spec->raid == MODEL_RAID_0 && n >= 2) || (spec->raid == MODEL_RAID_1 && n >= 2) ||
                (spec->raid == MODEL_RAID_5 && n >= 3) ||
                (spec->raid == MODEL_RAID_10 && n >= 4 && n % 2 == 0);
    if (!fits || n > MEMBERS_MAX)
        return rc_raise(FIRN_E_INVALID,
                        "model %s: a RAID has 2 to %d members, RAID 5 at least 3, RAID 10 an even "
                        "number from 4",
                        spec->name, MEMBERS_MAX);
    bool striped = spec->raid != MODEL_RAID_NONE && spec->raid != MODEL_RAID_1;
    if (striped && (spec->stripe_bytes < 4096 || spec->stripe_bytes > 16777216 ||
                    (spec->stripe_bytes & (spec->stripe_bytes - 1)) != 0))
        return rc_raise(FIRN_E_INVALID,
                        "model %s: the stripe must be a power of two from 4K to 16M", spec->name);
    if (spec->cache_bytes != 0 &&
        (spec->cache_bytes < 1048576 || spec->cache_bytes > UINT64_C(68719476736)))
        return rc_raise(FIRN_E_INVALID, "model %s: a controller's cache has 1M to 64G", spec->name);
    if (spec->cache_bytes != 0 && !(spec->cache_us > 0 && spec->cache_mib_s > 0))
        return rc_raise(FIRN_E_INVALID, "model %s: a cache needs its time and its speed",
                        spec->name);
    return FIRN_OK;
}

static void set_geometry(struct model_device *device)
{
    unsigned n = device->spec.members;
    switch (device->spec.raid) {
    case MODEL_RAID_NONE:
    case MODEL_RAID_0:
        device->columns = n;
        device->copies = 1;
        break;
    case MODEL_RAID_1:
        device->columns = 1;
        device->copies = n;
        break;
    case MODEL_RAID_5:
        device->columns = n - 1;
        device->copies = 1;
        break;
    case MODEL_RAID_10:
        device->columns = n / 2;
        device->copies = 2;
        break;
    }
}

/* Members end with a whole stripe, so that every column is as long as the others. */
static firn_rc open_members(struct model_device *device)
{
    const struct model_spec *spec = &device->spec;
    uint64_t each = spec->kind == MODEL_DISK ? spec->disk.capacity_bytes : spec->ssd.capacity_bytes;
    uint32_t unit = device->columns > 1 ? spec->stripe_bytes : 4096;
    each -= each % unit;
    if (each < 1048576)
        return rc_raise(FIRN_E_INVALID, "model %s: each member must hold at least 1 MiB",
                        spec->name);
    device->capacity_bytes = each * device->columns;
    struct model_disk disk = spec->disk;
    if (spec->cache_bytes > 0)
        disk.write_cache = false;
    for (unsigned i = 0; i < spec->members; i++) {
        if (spec->kind == MODEL_DISK)
            FIRN_TRY(model_disk_open(device, &disk, each, &device->members[i]));
        else
            FIRN_TRY(model_ssd_open(device, &spec->ssd, &device->members[i]));
        device->members[i]->number = i;
        device->member_count = i + 1;
    }
    return FIRN_OK;
}

firn_rc model_device_open(const struct model_spec *spec, uint64_t seed,
                          struct model_device **device)
{
    FIRN_TRY(check_raid(spec));
    struct model_device *made = memory_zalloc(1, sizeof(*made));
    if (made == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for model %s", spec->name);
    made->spec = *spec;
    made->done_tail = &made->done;
    made->ops.item_bytes = sizeof(struct model_op);
    made->parts.item_bytes = sizeof(struct model_part);
    made->rows.item_bytes = sizeof(struct model_row);
    made->pages.item_bytes = sizeof(struct model_page);
    rng_init(&made->rng, seed);
    set_geometry(made);
    firn_rc rc = FIRN_OK;
    made->members = memory_zalloc(spec->members, sizeof(struct model_member *));
    made->newest = memory_zalloc(spec->members, sizeof(struct model_part *));
    if (made->members == NULL || made->newest == NULL)
        FIRN_TRY_GOTO(rc_raise(FIRN_E_NOMEM, "no memory for model %s", spec->name), fail);
    FIRN_TRY_GOTO(open_members(made), fail);
    if (spec->cache_bytes > 0)
        FIRN_TRY_GOTO(model_cache_open(made, &made->cache), fail);
    FIRN_TRY_GOTO(reserve_events(made), fail);
    *device = made;
    return FIRN_OK;
fail:
    model_device_close(made);
    return rc;
}

void model_device_close(struct model_device *device)
{
    if (device == NULL)
        return;
    model_cache_close(device->cache);
    for (unsigned i = 0; i < device->member_count; i++)
        device->members[i]->ops->close(device->members[i]);
    memory_free(device->members);
    memory_free(device->newest);
    model_pool_free(&device->ops);
    model_pool_free(&device->parts);
    model_pool_free(&device->rows);
    model_pool_free(&device->pages);
    memory_free(device->events);
    memory_free(device);
}

/* ---- Use ---- */

uint64_t model_device_capacity(const struct model_device *device)
{
    return device->capacity_bytes;
}

firn_rc model_device_submit(struct model_device *device, struct model_io *io, uint64_t now_ns)
{
    ASSERT(now_ns >= device->now_ns);
    ASSERT(io->offset <= device->capacity_bytes &&
           io->size_bytes <= device->capacity_bytes - io->offset);
    ASSERT(io->size_bytes > 0 || (io->op != IO_OP_READ && io->op != IO_OP_WRITE));
    struct model_needs needs = model_raid_needs(device, io->op, io->size_bytes);
    FIRN_TRY(model_pool_reserve(&device->ops, 1));
    FIRN_TRY(model_pool_reserve(&device->parts, needs.parts));
    FIRN_TRY(model_pool_reserve(&device->rows, needs.rows));
    FIRN_TRY(model_pool_reserve(&device->pages, needs.pages));
    FIRN_TRY(reserve_events(device));
    run_until(device, now_ns);

    io->arrive_ns = now_ns;
    struct model_op *op = model_pool_take(&device->ops);
    op->io = io;
    op->kind = io->op == IO_OP_SYNC_ALL ? IO_OP_SYNC_DATA : io->op;
    op->offset = io->offset;
    op->size_bytes = io->size_bytes;
    if (device->cache != NULL)
        model_cache_submit(device->cache, op);
    else
        model_raid_submit(device, op);
    return FIRN_OK;
}

uint64_t model_device_next(const struct model_device *device)
{
    if (device->done != NULL)
        return device->now_ns;
    if (device->event_count == 0)
        return UINT64_MAX;
    /* With little going on, whoever waits is spared the events on a request's way. With much, the
       next event is as good, and looking at all of them costs more than it saves. */
    uint64_t next_ns = device->events[0].done_ns;
    if (device->event_count > LOOKED_AT_MAX)
        return device->events[0].at_ns;
    for (size_t i = 1; i < device->event_count; i++)
        if (device->events[i].done_ns < next_ns)
            next_ns = device->events[i].done_ns;
    return next_ns;
}

struct model_io *model_device_advance(struct model_device *device, uint64_t now_ns)
{
    ASSERT(now_ns >= device->now_ns);
    run_until(device, now_ns);
    struct model_io *done = device->done;
    device->done = NULL;
    device->done_tail = &device->done;
    return done;
}
