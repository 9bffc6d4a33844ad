/*
 * A solid-state drive. A request passes the interface's command processing one after another. A
 * read then takes its pages from the channels they lie on (page number modulo channels) and sends
 * them to the host as they come. A write is transferred into the buffer, as soon as there is room,
 * and answered; the buffer is programmed to whichever channel is free, page by page, as a
 * log-structured drive does. Garbage collection shows as additional programming for random writes,
 * as pauses, and as dips at regular distances.
 */
#include "base/check.h"
#include "base/memory.h"
#include "io/model_internal.h"

#include <math.h>

enum {
    CHANNELS_MAX = 64,
    STREAMS = 16, /* sequential writes told apart */
};

struct channel {
    struct model_timer timer;
    struct ssd *ssd;
    struct model_page *pages; /* reads waiting; the first is being read unless programming */
    struct model_page **pages_tail;
    bool busy, programming;
    bool yielded; /* a program has had its turn since the last read */
};

struct ssd {
    struct model_member member;
    struct model_ssd spec;
    double read_ns, program_ns, command_ns, write_ns, flush_ns;
    double read_byte_ns, write_byte_ns;
    uint64_t program_rest_ns; /* a page programmed ends a sync or admits a write */
    double random_pages;      /* random_write_us in pages programmed */
    uint64_t dip_period_ns, dip_start_ns;

    uint64_t command_free_ns, read_free_ns; /* until when these are busy */
    struct channel channels[CHANNELS_MAX];
    uint64_t idle;       /* a bit for each idle channel */
    unsigned next_start; /* where the search for an idle channel begins, so that all wear alike */

    struct model_fifo writes; /* the first is being sent or waits for room in the buffer */
    uint64_t piece_bytes;     /* what is sent at once */
    uint64_t sending_bytes;   /* of the first write; 0 while none is */
    double dirty_bytes;       /* in the buffer, not programmed yet */
    double pages_open;        /* the programming they need, in pages ... */
    double pages_unissued;    /* ... of which so much fills no page yet ... */
    uint64_t pages_pending;   /* ... and so many wait for a channel */
    uint64_t pages_issued, pages_done;
    struct model_fifo syncs; /* waiting for pages_done to reach their mark */

    uint64_t stream_ends[STREAMS];
    unsigned stream;
    double gc_left_bytes; /* of random writes until the next pause */
    uint64_t paused_until_ns;
    uint64_t written_ns; /* when something was last written; for dip_needs_writes */
    bool written;
};

static uint64_t later(uint64_t left_ns, uint64_t right_ns)
{
    return left_ns > right_ns ? left_ns : right_ns;
}

/* ---- Dips ---- */

static bool dips_in(const struct ssd *ssd, uint64_t period_start_ns)
{
    return !ssd->spec.dip_needs_writes || (ssd->written && ssd->written_ns >= period_start_ns);
}

/* When work is done that takes work_ns at full speed. */
static uint64_t after(const struct ssd *ssd, uint64_t start_ns, double work_ns)
{
    if (ssd->dip_period_ns == 0)
        return start_ns + model_ns(work_ns);
    for (;;) {
        uint64_t phase = start_ns % ssd->dip_period_ns;
        uint64_t period_start = start_ns - phase;
        bool dips = phase >= ssd->dip_start_ns;
        uint64_t end_ns = period_start + (dips ? ssd->dip_period_ns : ssd->dip_start_ns);
        double speed = dips && dips_in(ssd, period_start) ? ssd->spec.dip_speed : 1;
        double possible = (double)(end_ns - start_ns) * speed;
        if (work_ns <= possible)
            return start_ns + (speed > 0 ? model_ns(work_ns / speed) : 0);
        work_ns -= possible;
        start_ns = end_ns;
    }
}

/* ---- Channels ---- */

static void send_writes(struct ssd *ssd);

static bool buffer_presses(const struct ssd *ssd)
{
    return ssd->syncs.head != NULL || ssd->dirty_bytes > (double)ssd->spec.write_buffer_bytes / 2;
}

static void begin(struct channel *channel, bool programming)
{
    struct ssd *ssd = channel->ssd;
    uint64_t start = later(ssd->member.device->now_ns, ssd->paused_until_ns);
    channel->busy = true;
    channel->programming = programming;
    channel->yielded = programming;
    ssd->idle &= ~(UINT64_C(1) << (channel - ssd->channels));
    if (programming)
        ssd->pages_pending--;
    uint64_t end_ns = after(ssd, start, programming ? ssd->program_ns : ssd->read_ns);
    model_arm(ssd->member.device, &channel->timer, end_ns,
              programming ? ssd->program_rest_ns
                          : (uint64_t)(channel->pages->page_bytes * ssd->read_byte_ns));
}

/* Reads go first, for somebody waits for them; when the buffer fills, page by page in turn. */
static void choose_work(struct channel *channel)
{
    struct ssd *ssd = channel->ssd;
    bool program = ssd->pages_pending > 0 &&
                   (channel->pages == NULL || (!channel->yielded && buffer_presses(ssd)));
    if (program)
        begin(channel, true);
    else if (channel->pages != NULL)
        begin(channel, false);
    else
        ssd->idle |= UINT64_C(1) << (channel - ssd->channels);
}

static void start_programs(struct ssd *ssd)
{
    while (ssd->pages_pending > 0 && ssd->idle != 0) {
        uint64_t high = ssd->idle >> ssd->next_start << ssd->next_start;
        unsigned number = (unsigned)__builtin_ctzll(high != 0 ? high : ssd->idle);
        ssd->next_start = (number + 1) % ssd->spec.channels;
        begin(&ssd->channels[number], true);
    }
}

/* Hand whole pages to the channels; the rest of one too when somebody waits for it. */
static void issue_programs(struct ssd *ssd, bool rest_too)
{
    double whole = floor(ssd->pages_unissued);
    if (rest_too && ssd->pages_unissued > whole) {
        ssd->pages_open += whole + 1 - ssd->pages_unissued;
        ssd->pages_unissued = ++whole;
    }
    ssd->pages_unissued -= whole;
    ssd->pages_pending += (uint64_t)whole;
    ssd->pages_issued += (uint64_t)whole;
    start_programs(ssd);
}

static void fire_done(struct model_device *device, struct model_timer *timer)
{
    model_part_done(device, (struct model_part *)timer);
}

static void page_read(struct channel *channel)
{
    struct ssd *ssd = channel->ssd;
    struct model_device *device = ssd->member.device;
    struct model_page *page = channel->pages;
    struct model_part *part = page->part;
    ssd->read_free_ns =
        after(ssd, later(ssd->read_free_ns, device->now_ns), page->page_bytes * ssd->read_byte_ns);
    if (--page->pages_left == 0) {
        channel->pages = page->next;
        if (channel->pages == NULL)
            channel->pages_tail = &channel->pages;
        model_pool_give(&device->pages, page);
    }
    if (--part->left == 0) {
        part->timer.fire = fire_done;
        model_arm(device, &part->timer, ssd->read_free_ns, 0);
    }
}

/* A page programmed frees its share of the buffer. */
static void page_programmed(struct ssd *ssd)
{
    struct model_device *device = ssd->member.device;
    ssd->pages_done++;
    if (ssd->pages_done == ssd->pages_issued && ssd->pages_unissued == 0) {
        /* Exactly nothing, whatever the fractions add up to. */
        ssd->dirty_bytes = 0;
        ssd->pages_open = 0;
    } else {
        ssd->dirty_bytes -= ssd->dirty_bytes / ssd->pages_open;
        ssd->pages_open -= 1;
    }
    while (ssd->syncs.head != NULL && ssd->pages_done >= ssd->syncs.head->mark) {
        struct model_part *sync = model_fifo_take(&ssd->syncs, &ssd->syncs.head);
        sync->timer.fire = fire_done;
        model_arm(device, &sync->timer, after(ssd, device->now_ns, ssd->flush_ns), 0);
    }
    send_writes(ssd);
}

static void fire_channel(struct model_device *device, struct model_timer *timer)
{
    (void)device;
    struct channel *channel = (struct channel *)timer;
    channel->busy = false;
    if (channel->programming)
        page_programmed(channel->ssd);
    else
        page_read(channel);
    if (!channel->busy)
        choose_work(channel);
}

/* ---- Reads ---- */

static void spread_read(struct ssd *ssd, struct model_part *part)
{
    unsigned channels = ssd->spec.channels;
    uint64_t first = part->offset / ssd->spec.page_bytes;
    uint64_t count = part->left;
    uint32_t page_bytes = (uint32_t)(part->size_bytes / count);
    for (uint64_t i = 0; part->pages != NULL; i++) {
        struct model_page *page = part->pages;
        part->pages = page->next;
        page->next = NULL;
        page->part = part;
        page->pages_left = (uint32_t)((count - i + channels - 1) / channels);
        page->page_bytes = page_bytes;
        struct channel *channel = &ssd->channels[(first + i) % channels];
        *channel->pages_tail = page;
        channel->pages_tail = &page->next;
        if (!channel->busy)
            choose_work(channel);
    }
}

/* ---- Writes ---- */

static bool continues_stream(struct ssd *ssd, const struct model_part *part)
{
    uint64_t end = part->offset + part->size_bytes;
    for (unsigned i = 0; i < STREAMS; i++)
        if (ssd->stream_ends[i] == part->offset) {
            ssd->stream_ends[i] = end;
            return true;
        }
    ssd->stream = (ssd->stream + 1) % STREAMS;
    ssd->stream_ends[ssd->stream] = end;
    return false;
}

/* From half to one and a half times the mean: firmware collects block by block, and none of it
   takes for ever, as an exponential distribution would have it now and then. */
static double about(struct model_device *device, double mean)
{
    return mean * (0.5 + rng_unit(&device->rng));
}

static void collect_garbage(struct ssd *ssd, uint32_t bytes)
{
    struct model_device *device = ssd->member.device;
    if (ssd->spec.gc_pause_mib == 0)
        return;
    ssd->gc_left_bytes -= bytes;
    while (ssd->gc_left_bytes < 0) {
        double pause_ns = about(device, ssd->spec.gc_pause_ms * 1e6);
        ssd->paused_until_ns = later(ssd->paused_until_ns, device->now_ns) + model_ns(pause_ns);
        ssd->gc_left_bytes += about(device, ssd->spec.gc_pause_mib * 1048576);
    }
}

/* A write or a piece of one is in the buffer. */
static void fire_sent(struct model_device *device, struct model_timer *timer)
{
    struct model_part *part = (struct model_part *)timer;
    struct ssd *ssd = (struct ssd *)part->member;
    double pages = (double)ssd->sending_bytes / ssd->spec.page_bytes;
    if (part->left == part->size_bytes && !continues_stream(ssd, part)) {
        pages += ssd->random_pages;
        collect_garbage(ssd, part->size_bytes);
    }
    ssd->dirty_bytes += (double)ssd->sending_bytes;
    ssd->pages_open += pages;
    ssd->pages_unissued += pages;
    part->left -= ssd->sending_bytes;
    ssd->sending_bytes = 0;
    issue_programs(ssd, false);
    if (part->left == 0) {
        model_fifo_take(&ssd->writes, &ssd->writes.head);
        part->timer.fire = fire_done;
        model_arm(device, &part->timer, after(ssd, device->now_ns, ssd->write_ns), 0);
    }
    send_writes(ssd);
}

/* Writes pass the interface one after another, large ones in pieces as the buffer has room. */
static void send_writes(struct ssd *ssd)
{
    struct model_device *device = ssd->member.device;
    struct model_part *part = ssd->writes.head;
    if (part == NULL || ssd->sending_bytes > 0)
        return;
    uint64_t piece = part->left < ssd->piece_bytes ? part->left : ssd->piece_bytes;
    if (ssd->dirty_bytes + (double)piece > (double)ssd->spec.write_buffer_bytes) {
        /* Programs make room; when none is under way, what is dirty fills no page. */
        if (ssd->pages_done == ssd->pages_issued)
            issue_programs(ssd, true);
        return;
    }
    ssd->sending_bytes = piece;
    ssd->written = true;
    ssd->written_ns = device->now_ns;
    part->timer.fire = fire_sent;
    model_arm(device, &part->timer, after(ssd, device->now_ns, (double)piece * ssd->write_byte_ns),
              (uint64_t)ssd->write_ns);
}

static void submit_write(struct ssd *ssd, struct model_part *part)
{
    part->left = part->size_bytes;
    model_fifo_push(&ssd->writes, part);
    send_writes(ssd);
}

/* ---- Syncs and the interface ---- */

static void submit_sync(struct ssd *ssd, struct model_part *part)
{
    struct model_device *device = ssd->member.device;
    if (ssd->spec.power_protected || ssd->dirty_bytes == 0) {
        part->timer.fire = fire_done;
        model_arm(device, &part->timer, after(ssd, device->now_ns, ssd->flush_ns), 0);
        return;
    }
    /* Something dirty is a page that is not done, once the last fraction of one is issued. */
    part->mark = UINT64_MAX;
    model_fifo_push(&ssd->syncs, part);
    issue_programs(ssd, true);
    part->mark = ssd->pages_issued;
    ASSERT(ssd->pages_done < part->mark);
}

static void fire_command(struct model_device *device, struct model_timer *timer)
{
    (void)device;
    struct model_part *part = (struct model_part *)timer;
    struct ssd *ssd = (struct ssd *)part->member;
    if (part->kind == IO_OP_READ)
        spread_read(ssd, part);
    else if (part->kind == IO_OP_WRITE)
        submit_write(ssd, part);
    else
        submit_sync(ssd, part);
}

/* What a part needs at least when its command has been processed. */
static uint64_t least_rest_ns(const struct ssd *ssd, const struct model_part *part)
{
    if (part->kind == IO_OP_READ)
        return (uint64_t)(ssd->read_ns + part->size_bytes * ssd->read_byte_ns);
    if (part->kind == IO_OP_WRITE)
        return (uint64_t)(ssd->write_ns + part->size_bytes * ssd->write_byte_ns);
    return (uint64_t)ssd->flush_ns;
}

static void ssd_submit(struct model_member *member, struct model_part *part)
{
    struct ssd *ssd = (struct ssd *)member;
    uint64_t start = later(ssd->command_free_ns, member->device->now_ns);
    ssd->command_free_ns = after(ssd, start, ssd->command_ns);
    part->timer.fire = fire_command;
    model_arm(member->device, &part->timer, ssd->command_free_ns, least_rest_ns(ssd, part));
}

static double ssd_distance(const struct model_member *member, uint64_t offset)
{
    (void)member;
    (void)offset;
    return 0;
}

static void ssd_close(struct model_member *member)
{
    memory_free(member);
}

static const struct model_member_ops ssd_ops = {
    .submit = ssd_submit,
    .distance = ssd_distance,
    .close = ssd_close,
};

static firn_rc check_ssd(const struct model_device *device, const struct model_ssd *ssd)
{
    const char *wrong = NULL;
    if (ssd->channels < 1 || ssd->channels > CHANNELS_MAX)
        wrong = "there must be 1 to 64 channels";
    else if (ssd->page_bytes < 512 || ssd->page_bytes > 1048576)
        wrong = "a page must have 512 bytes to 1 MiB";
    else if (!(ssd->read_us > 0 && ssd->program_us > 0))
        wrong = "reading and programming a page must take time";
    else if (!(ssd->random_write_us >= 0 && ssd->command_us >= 0 && ssd->write_us >= 0 &&
               ssd->flush_us >= 0 && ssd->gc_pause_ms >= 0 && ssd->gc_pause_mib >= 0))
        wrong = "times must not be negative";
    else if (!(ssd->read_mib_s > 0 && ssd->write_mib_s > 0))
        wrong = "the interface needs a speed each way";
    else if (ssd->write_buffer_bytes < ssd->page_bytes)
        wrong = "the write buffer must hold a page";
    else if (ssd->dip_period_s != 0 &&
             !(ssd->dip_period_s >= 1e-3 && ssd->dip_length_s > 0 &&
               ssd->dip_length_s < ssd->dip_period_s && ssd->dip_speed >= 0 && ssd->dip_speed < 1))
        wrong = "a dip must be shorter than its period and slower than full speed";
    if (wrong != NULL)
        return rc_raise(FIRN_E_INVALID, "model %s: %s", device->spec.name, wrong);
    return FIRN_OK;
}

static void open_channels(struct ssd *ssd)
{
    for (unsigned i = 0; i < ssd->spec.channels; i++) {
        struct channel *channel = &ssd->channels[i];
        channel->timer.fire = fire_channel;
        channel->ssd = ssd;
        channel->pages_tail = &channel->pages;
        ssd->idle |= UINT64_C(1) << i;
    }
    ssd->member.device->timer_count += ssd->spec.channels;
}

firn_rc model_ssd_open(struct model_device *device, const struct model_ssd *spec,
                       struct model_member **member)
{
    FIRN_TRY(check_ssd(device, spec));
    struct ssd *ssd = memory_zalloc(1, sizeof(*ssd));
    if (ssd == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory for model %s", device->spec.name);
    ssd->member.ops = &ssd_ops;
    ssd->member.device = device;
    ssd->spec = *spec;
    ssd->read_ns = spec->read_us * 1e3;
    ssd->program_ns = spec->program_us * 1e3;
    ssd->command_ns = spec->command_us * 1e3;
    ssd->write_ns = spec->write_us * 1e3;
    ssd->flush_ns = spec->flush_us * 1e3;
    ssd->read_byte_ns = model_byte_ns(spec->read_mib_s);
    ssd->write_byte_ns = model_byte_ns(spec->write_mib_s);
    ssd->program_rest_ns =
        (uint64_t)(ssd->flush_ns < ssd->write_ns ? ssd->flush_ns : ssd->write_ns);
    ssd->random_pages = spec->random_write_us / spec->program_us;
    ssd->dip_period_ns = (uint64_t)(spec->dip_period_s * 1e9);
    ssd->dip_start_ns = (uint64_t)((spec->dip_period_s - spec->dip_length_s) * 1e9);
    ssd->writes.tail = &ssd->writes.head;
    ssd->piece_bytes = spec->write_buffer_bytes / 4;
    if (ssd->piece_bytes < spec->page_bytes)
        ssd->piece_bytes = spec->page_bytes;
    ssd->syncs.tail = &ssd->syncs.head;
    ssd->gc_left_bytes = about(device, spec->gc_pause_mib * 1048576);
    /* No stream ends anywhere yet. */
    for (unsigned i = 0; i < STREAMS; i++)
        ssd->stream_ends[i] = UINT64_MAX;
    open_channels(ssd);
    *member = &ssd->member;
    return FIRN_OK;
}
