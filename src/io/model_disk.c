/*
 * A rotating disk, after Ruemmler and Wilkes, "An introduction to disk drive modeling" (IEEE
 * Computer, 1994): the seek time grows with the root of the distance for short seeks and with the
 * distance itself for long ones; then the head waits for the sector; then the platter turns beneath
 * it. The drive chooses the request it can reach first, ageing so that none starves (aged shortest
 * access time first; Jacobson and Wilkes, "Disk scheduling algorithms based on rotational
 * position", 1991).
 *
 * Places are kept in turns: how often the platter turns while everything from the first byte to
 * that place passes. The whole turns name the track, the rest is the angle. Reading from one place
 * to another takes the difference in turns, whatever zones lie between.
 */
#include "base/check.h"
#include "base/memory.h"
#include "io/model_internal.h"

#include <math.h>

enum {
    SEGMENTS = 16,      /* streams a drive remembers what it has read of */
    CACHED_WINDOW = 64, /* cached writes the drive chooses among */
};

/* A request that waits goes ahead of one that is nearer by this share of the waiting. */
static const double AGEING = 0.03;
/* Less of a turn than this is rounding, not a place that has just passed. */
static const double TURN_SLACK = 1e-6;

struct range {
    double from, to; /* turns */
};

struct disk {
    struct model_member member;
    struct model_timer timer; /* of what the arm does */
    struct model_disk spec;
    double turn_ns, phase;
    double outer, slope;           /* bytes a ns at the first byte; how it falls with each byte */
    double turns_total;            /* from the first byte to the last */
    double seek_a, seek_b, seek_c; /* ns; of a constant, root and linear share of the stroke */
    double command_ns, byte_ns;

    struct model_part *current; /* what the arm does; NULL while it is idle */
    double head_turn;           /* where the head stood when it became idle ... */
    uint64_t head_ns;           /* ... and when that was */
    bool ahead;                 /* it has been reading ahead since ... */
    double ahead_limit;         /* ... up to here */
    double ahead_turns;         /* how far ahead of what was asked for */
    struct range segments[SEGMENTS];
    unsigned segment; /* the newest */

    struct model_fifo waiting;  /* for the arm */
    struct model_fifo cached;   /* acknowledged writes, for the arm */
    struct model_fifo roomless; /* for room in the write cache */
    struct model_fifo syncs;    /* for cached writes */
    uint64_t cached_bytes, cached_count;
    uint64_t mark;    /* order of cached writes */
    uint64_t link_ns; /* until when the interface is busy */
};

/* ---- Mechanics ---- */

/* Bytes pass at outer - slope * offset, so the turns are the integral of 1 / (that * turn_ns). */
static double turns_at(const struct disk *disk, uint64_t offset)
{
    double share = disk->slope * (double)offset / disk->outer;
    if (share < 1e-12)
        return (double)offset / (disk->outer * disk->turn_ns);
    return -log1p(-share) / (disk->slope * disk->turn_ns);
}

static double seek_ns(const struct disk *disk, double turns)
{
    if (turns < 1)
        return 0;
    double share = turns / disk->turns_total;
    return disk->seek_a + disk->seek_b * sqrt(share) + disk->seek_c * share;
}

/* How long until the head stands at the beginning of a place. */
static double position_ns(const struct disk *disk, double turn, uint64_t now_ns)
{
    double seek = seek_ns(disk, fabs(turn - disk->head_turn));
    double wait = turn - ((double)now_ns + seek) / disk->turn_ns - disk->phase;
    wait -= floor(wait);
    /* Times are whole ns; the place that the head has just come to is not a turn away. */
    if (wait > 1 - TURN_SLACK)
        wait -= 1;
    return seek + wait * disk->turn_ns;
}

/* The three data-sheet times fix the curve: a track is next to nothing of the stroke, and the mean
   of root and share over random pairs of tracks is 8/15 and 1/3. */
static void fit_seek(struct disk *disk)
{
    double average = (disk->spec.seek_average_ms - disk->spec.seek_track_ms) * 1e6;
    double full = (disk->spec.seek_full_ms - disk->spec.seek_track_ms) * 1e6;
    disk->seek_a = disk->spec.seek_track_ms * 1e6;
    disk->seek_b = 5 * average - full * 5 / 3;
    disk->seek_c = full - disk->seek_b;
}

/* ---- Reading ahead ---- */

/* While the arm is idle the drive reads on from where the last read ended, up to ahead_limit; what
   it has read stays in the segment of that read. `ahead` implies that the arm does nothing else. */

/* How far the drive has read by now, in turns. */
static double frontier(const struct disk *disk)
{
    uint64_t now_ns = disk->member.device->now_ns;
    if (now_ns <= disk->head_ns)
        return disk->head_turn;
    double reached = disk->head_turn + (double)(now_ns - disk->head_ns) / disk->turn_ns;
    return reached < disk->ahead_limit ? reached : disk->ahead_limit;
}

/* What was read ahead is being taken: the limit moves along, and a drive that had come to it goes
   on, once half of its buffer is free and the place comes round. */
static void move_limit(struct disk *disk, double taken_turn)
{
    double reached = frontier(disk);
    double limit = taken_turn + disk->ahead_turns;
    if (reached < disk->ahead_limit) {
        disk->ahead_limit = limit > disk->ahead_limit ? limit : disk->ahead_limit;
    } else if (limit - reached > disk->ahead_turns / 2) {
        uint64_t now_ns = disk->member.device->now_ns;
        disk->head_turn = reached;
        disk->head_ns = now_ns + model_ns(position_ns(disk, reached, now_ns));
        disk->ahead_limit = limit;
    }
}

static bool covers(const struct range *range, const struct model_part *part)
{
    return part->start_turn >= range->from - TURN_SLACK && part->end_turn <= range->to + TURN_SLACK;
}

static bool was_read(struct disk *disk, const struct model_part *part)
{
    if (disk->ahead)
        disk->segments[disk->segment].to = frontier(disk);
    for (unsigned i = 0; i < SEGMENTS; i++)
        if (covers(&disk->segments[i], part))
            return true;
    return false;
}

static bool follows_newest(const struct disk *disk, const struct model_part *part)
{
    const struct range *newest = &disk->segments[disk->segment];
    return part->start_turn >= newest->from - TURN_SLACK &&
           part->start_turn <= newest->to + TURN_SLACK;
}

static void remember_read(struct disk *disk, const struct model_part *part)
{
    if (!follows_newest(disk, part)) {
        disk->segment = (disk->segment + 1) % SEGMENTS;
        disk->segments[disk->segment].from = part->start_turn;
    }
    disk->segments[disk->segment].to = part->end_turn;
}

/* ---- Answering ---- */

static void fire_answered(struct model_device *device, struct model_timer *timer)
{
    model_part_done(device, (struct model_part *)timer);
}

/* The interface carries one transfer after another; what comes from the platter goes out while it
   is read, so only its command counts (bytes 0). */
static void answer(struct disk *disk, struct model_part *part, uint32_t bytes)
{
    uint64_t now_ns = disk->member.device->now_ns;
    uint64_t start = disk->link_ns > now_ns ? disk->link_ns : now_ns;
    uint64_t end = start + model_ns(disk->command_ns + (double)bytes * disk->byte_ns);
    if (bytes > 0)
        disk->link_ns = end;
    part->timer.fire = fire_answered;
    model_arm(disk->member.device, &part->timer, end, 0);
}

static void cached_write_done(struct disk *disk, struct model_part *part);

/* ---- The arm ---- */

static void start(struct disk *disk, struct model_part *part, double work_ns)
{
    disk->current = part;
    disk->ahead = false;
    model_arm(disk->member.device, &disk->timer, disk->member.device->now_ns + model_ns(work_ns),
              (uint64_t)disk->command_ns);
}

static double media_ns(const struct disk *disk, const struct model_part *part, uint64_t now_ns)
{
    return position_ns(disk, part->start_turn, now_ns) +
           (part->end_turn - part->start_turn) * disk->turn_ns;
}

/* The part of a queue's first `window` that is reached first, waiting counted in its favour. */
static void choose_from(const struct disk *disk, struct model_fifo *queue, unsigned window,
                        uint64_t now_ns, double *best_cost, struct model_fifo **best_queue,
                        struct model_part ***best_link)
{
    struct model_part **link = &queue->head;
    for (unsigned i = 0; i < window && *link != NULL; i++, link = &(*link)->next) {
        const struct model_part *part = *link;
        double cost = position_ns(disk, part->start_turn, now_ns) -
                      AGEING * (double)(now_ns - part->arrive_ns);
        if (cost < *best_cost) {
            *best_cost = cost;
            *best_queue = queue;
            *best_link = link;
        }
    }
}

static void next_work(struct disk *disk)
{
    uint64_t now_ns = disk->member.device->now_ns;
    struct model_fifo *queue = NULL;
    struct model_part **link = NULL;
    double cost = INFINITY;
    /* Who waits for a read or a sync comes before a cache with room. */
    bool cache_presses = disk->waiting.head == NULL || disk->syncs.head != NULL ||
                         disk->cached_bytes > disk->spec.write_cache_bytes / 2;
    choose_from(disk, &disk->waiting, disk->spec.queue_depth, now_ns, &cost, &queue, &link);
    if (cache_presses)
        choose_from(disk, &disk->cached, CACHED_WINDOW, now_ns, &cost, &queue, &link);
    if (queue == NULL)
        return;
    struct model_part *part = model_fifo_take(queue, link);
    if (disk->ahead)
        disk->segments[disk->segment].to = frontier(disk);
    start(disk, part, media_ns(disk, part, now_ns));
}

static void fire_media(struct model_device *device, struct model_timer *timer)
{
    struct disk *disk = (struct disk *)(void *)((char *)timer - offsetof(struct disk, timer));
    struct model_part *part = disk->current;
    disk->current = NULL;
    disk->head_turn = part->end_turn;
    disk->head_ns = device->now_ns;
    disk->ahead = part->kind == IO_OP_READ && disk->spec.read_ahead_bytes > 0;
    disk->ahead_limit = part->end_turn + disk->ahead_turns;
    if (part->kind == IO_OP_READ)
        remember_read(disk, part);
    if (part->op == NULL)
        cached_write_done(disk, part);
    else
        answer(disk, part, 0);
    if (disk->current == NULL)
        next_work(disk);
}

/* ---- The volatile write cache ---- */

static bool fits_cache(const struct disk *disk, const struct model_part *part)
{
    return disk->cached_bytes + part->size_bytes <= disk->spec.write_cache_bytes;
}

static bool contains(const struct model_part *outer, const struct model_part *inner)
{
    return outer->offset <= inner->offset &&
           inner->offset + inner->size_bytes <= outer->offset + outer->size_bytes;
}

/* Is a write's place in the cache already, so that it needs no room? */
static bool is_cached(const struct disk *disk, const struct model_part *part)
{
    const struct model_part *cached = disk->cached.head;
    while (cached != NULL && !contains(cached, part))
        cached = cached->next;
    return cached != NULL;
}

/* A cached write needs the medium no more. */
static void forget_cached(struct disk *disk, struct model_part *part)
{
    disk->cached_bytes -= part->size_bytes;
    disk->cached_count--;
    struct model_part **link = &disk->syncs.head;
    while (*link != NULL) {
        struct model_part *sync = *link;
        if (part->mark <= sync->mark && --sync->left == 0) {
            model_fifo_take(&disk->syncs, link);
            answer(disk, sync, 0);
        } else {
            link = &sync->next;
        }
    }
    model_pool_give(&disk->member.device->parts, part);
}

static void grow_cached(struct disk *disk, struct model_part *cached, const struct model_part *part)
{
    disk->cached_bytes += part->size_bytes - cached->size_bytes;
    cached->offset = part->offset;
    cached->size_bytes = part->size_bytes;
    cached->start_turn = part->start_turn;
    cached->end_turn = part->end_turn;
}

/* Bytes written again replace those in the cache: the log's last block goes to the platter once,
   however often it was written meanwhile. The oldest write that is replaced keeps its mark, so that
   a sync that waits for it waits for the new bytes. @return false if there is nothing to replace */
static bool replace_cached(struct disk *disk, const struct model_part *part)
{
    struct model_part *kept = NULL;
    struct model_part **link = &disk->cached.head;
    while (*link != NULL) {
        struct model_part *cached = *link;
        if (kept == NULL && contains(cached, part))
            return true;
        if (!contains(part, cached)) {
            link = &cached->next;
        } else if (kept == NULL) {
            kept = cached;
            grow_cached(disk, kept, part);
            link = &cached->next;
        } else {
            forget_cached(disk, model_fifo_take(&disk->cached, link));
        }
    }
    return kept != NULL;
}

static void take_write(struct disk *disk, struct model_part *part)
{
    struct model_part *medium = part->shadow;
    if (replace_cached(disk, part)) {
        model_pool_give(&disk->member.device->parts, medium);
    } else {
        *medium = (struct model_part){.member = &disk->member,
                                      .kind = IO_OP_WRITE,
                                      .size_bytes = part->size_bytes,
                                      .offset = part->offset,
                                      .arrive_ns = disk->member.device->now_ns,
                                      .mark = ++disk->mark,
                                      .start_turn = part->start_turn,
                                      .end_turn = part->end_turn};
        model_fifo_push(&disk->cached, medium);
        disk->cached_bytes += medium->size_bytes;
        disk->cached_count++;
    }
    answer(disk, part, part->size_bytes);
}

static bool can_take(const struct disk *disk, const struct model_part *part)
{
    return fits_cache(disk, part) || is_cached(disk, part);
}

static void cached_write_done(struct disk *disk, struct model_part *part)
{
    forget_cached(disk, part);
    while (disk->roomless.head != NULL && can_take(disk, disk->roomless.head))
        take_write(disk, model_fifo_take(&disk->roomless, &disk->roomless.head));
}

static void submit_write(struct disk *disk, struct model_part *part)
{
    if (!disk->spec.write_cache) {
        model_fifo_push(&disk->waiting, part);
    } else if (part->size_bytes > disk->spec.write_cache_bytes) {
        model_pool_give(&disk->member.device->parts, part->shadow);
        model_fifo_push(&disk->waiting, part);
    } else if (disk->roomless.head == NULL && can_take(disk, part)) {
        take_write(disk, part);
    } else {
        model_fifo_push(&disk->roomless, part);
    }
}

static void submit_sync(struct disk *disk, struct model_part *part)
{
    part->mark = disk->mark;
    part->left = disk->cached_count;
    if (part->left == 0)
        answer(disk, part, 0);
    else
        model_fifo_push(&disk->syncs, part);
}

/* ---- A member ---- */

static void submit_read(struct disk *disk, struct model_part *part)
{
    bool in_stream = disk->ahead && follows_newest(disk, part);
    if (was_read(disk, part)) {
        if (in_stream)
            move_limit(disk, part->end_turn);
        answer(disk, part, part->size_bytes);
    } else if (in_stream && frontier(disk) < disk->ahead_limit) {
        /* The drive is reading towards it already. */
        uint64_t now_ns = disk->member.device->now_ns;
        uint64_t wait_ns = disk->head_ns > now_ns ? disk->head_ns - now_ns : 0;
        start(disk, part, (double)wait_ns + (part->end_turn - frontier(disk)) * disk->turn_ns);
    } else {
        model_fifo_push(&disk->waiting, part);
    }
}

static void disk_submit(struct model_member *member, struct model_part *part)
{
    struct disk *disk = (struct disk *)member;
    part->start_turn = turns_at(disk, part->offset);
    part->end_turn = turns_at(disk, part->offset + part->size_bytes);
    if (part->kind == IO_OP_READ)
        submit_read(disk, part);
    else if (part->kind == IO_OP_WRITE)
        submit_write(disk, part);
    else
        submit_sync(disk, part);
    if (disk->current == NULL)
        next_work(disk);
}

static double disk_distance(const struct model_member *member, uint64_t offset)
{
    const struct disk *disk = (const struct disk *)member;
    return fabs(turns_at(disk, offset) - disk->head_turn) / disk->turns_total;
}

static void disk_close(struct model_member *member)
{
    memory_free(member);
}

static const struct model_member_ops disk_ops = {
    .submit = disk_submit,
    .distance = disk_distance,
    .close = disk_close,
};

static firn_rc check_disk(const struct model_device *device, const struct model_disk *disk)
{
    const char *wrong = NULL;
    if (!(disk->rpm > 0 && disk->rpm < 1e6))
        wrong = "the speed of rotation must be above 0";
    else if (!(disk->seek_track_ms > 0 && disk->seek_track_ms < disk->seek_average_ms &&
               disk->seek_average_ms < disk->seek_full_ms && disk->seek_full_ms < 1000))
        wrong = "track, average and full seek must ascend";
    else if (!(disk->rate_inner_mib_s > 0 && disk->rate_outer_mib_s >= disk->rate_inner_mib_s))
        wrong = "the outer rate must be at least the inner one";
    else if (disk->queue_depth < 1)
        wrong = "the queue depth must be at least 1";
    else if (!(disk->command_us >= 0 && disk->interface_mib_s > 0))
        wrong = "the interface needs a speed";
    if (wrong != NULL)
        return rc_raise(FIRN_E_INVALID, "model %s: %s", device->spec.name, wrong);
    return FIRN_OK;
}

firn_rc model_disk_open(struct model_device *device, const struct model_disk *spec,
                        uint64_t capacity_bytes, struct model_member **member)
{
    FIRN_TRY(check_disk(device, spec));
    struct disk *disk = memory_zalloc(1, sizeof(*disk));
    if (disk == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for model %s", device->spec.name);
    disk->member.ops = &disk_ops;
    disk->member.device = device;
    disk->timer.fire = fire_media;
    disk->spec = *spec;
    disk->turn_ns = 60e9 / spec->rpm;
    disk->phase = rng_unit(&device->rng);
    disk->outer = 1 / model_byte_ns(spec->rate_outer_mib_s);
    disk->slope =
        (disk->outer - 1 / model_byte_ns(spec->rate_inner_mib_s)) / (double)capacity_bytes;
    disk->turns_total = turns_at(disk, capacity_bytes);
    disk->ahead_turns = (double)spec->read_ahead_bytes / (disk->outer * disk->turn_ns);
    disk->command_ns = spec->command_us * 1e3;
    disk->byte_ns = model_byte_ns(spec->interface_mib_s);
    disk->waiting.tail = &disk->waiting.head;
    disk->cached.tail = &disk->cached.head;
    disk->roomless.tail = &disk->roomless.head;
    disk->syncs.tail = &disk->syncs.head;
    fit_seek(disk);
    device->timer_count++;
    if (disk->seek_b < 0 || disk->seek_c < 0) {
        memory_free(disk);
        return rc_raise(FIRN_E_INVALID, "model %s: no curve fits the three seek times",
                        device->spec.name);
    }
    *member = &disk->member;
    return FIRN_OK;
}
