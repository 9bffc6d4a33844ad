#include "base/check.h"
#include "io/model_internal.h"

#include <math.h>

/* Without stripes the device is one long chunk. */
static bool is_striped(const struct model_device *device)
{
    return device->columns > 1;
}

static uint64_t row_bytes(const struct model_device *device)
{
    return (uint64_t)device->columns * device->spec.stripe_bytes;
}

struct model_needs model_raid_needs(const struct model_device *device, enum io_op kind,
                                    uint64_t size_bytes)
{
    const struct model_spec *spec = &device->spec;
    struct model_needs needs = {0};
    size_t pieces = is_striped(device) ? (size_t)(size_bytes / spec->stripe_bytes) + 2 : 1;
    size_t read_parts = pieces;
    uint64_t read_bytes = size_bytes;
    if (kind == IO_OP_READ) {
        needs.parts = pieces;
    } else if (kind == IO_OP_WRITE && spec->raid == MODEL_RAID_5) {
        needs.rows = (size_t)(size_bytes / row_bytes(device)) + 2;
        read_parts = needs.rows * spec->members;
        read_bytes = (uint64_t)read_parts * spec->stripe_bytes;
        needs.parts = 2 * read_parts;
    } else if (kind == IO_OP_WRITE) {
        needs.parts = pieces * device->copies;
        read_parts = 0;
    } else {
        needs.parts = spec->members;
        read_parts = 0;
    }
    if (spec->kind == MODEL_SSD && read_parts > 0) {
        size_t by_channels = read_parts * spec->ssd.channels;
        size_t by_bytes = (size_t)(read_bytes / spec->ssd.page_bytes) + 2 * read_parts;
        needs.pages = by_channels < by_bytes ? by_channels : by_bytes;
    }
    if (spec->kind == MODEL_DISK && spec->disk.write_cache && kind == IO_OP_WRITE)
        needs.parts *= 2;
    return needs;
}

/* ---- Making parts ---- */

/* The parts of an op while it is cut. */
struct cut {
    struct model_device *device;
    struct model_op *op;
    struct model_part *parts;
    struct model_part **tail;
};

static struct model_part *make_part(struct cut *cut, unsigned member, enum io_op kind,
                                    uint64_t offset, uint32_t size_bytes)
{
    struct model_device *device = cut->device;
    struct model_part *part = model_pool_take(&device->parts);
    part->member = device->members[member];
    part->op = cut->op;
    part->kind = kind;
    part->offset = offset;
    part->size_bytes = size_bytes;
    cut->op->parts_left++;
    return part;
}

/* Chunks that follow one another on a member are one part: controllers merge them too. */
static void add_part(struct cut *cut, unsigned member, enum io_op kind, uint64_t offset,
                     uint32_t size_bytes)
{
    struct model_part *newest = cut->device->newest[member];
    if (newest != NULL && newest->offset + newest->size_bytes == offset) {
        newest->size_bytes += size_bytes;
        return;
    }
    struct model_part *part = make_part(cut, member, kind, offset, size_bytes);
    cut->device->newest[member] = part;
    *cut->tail = part;
    cut->tail = &part->next;
}

/* Take from the pools what the part's member needs besides. */
static void equip_part(struct model_device *device, struct model_part *part)
{
    const struct model_spec *spec = &device->spec;
    if (spec->kind == MODEL_SSD && part->kind == IO_OP_READ) {
        uint64_t first = part->offset / spec->ssd.page_bytes;
        uint64_t last = (part->offset + part->size_bytes - 1) / spec->ssd.page_bytes;
        part->left = last - first + 1;
        uint64_t nodes = part->left < spec->ssd.channels ? part->left : spec->ssd.channels;
        for (uint64_t i = 0; i < nodes; i++) {
            struct model_page *page = model_pool_take(&device->pages);
            page->next = part->pages;
            part->pages = page;
        }
    }
    if (spec->kind == MODEL_DISK && spec->disk.write_cache && device->cache == NULL &&
        part->kind == IO_OP_WRITE)
        part->shadow = model_pool_take(&device->parts);
}

static void submit_part(struct model_device *device, struct model_part *part)
{
    struct model_member *member = part->member;
    part->next = NULL;
    part->arrive_ns = device->now_ns;
    member->outstanding++;
    if (part->kind == IO_OP_READ)
        member->read_end = part->offset + part->size_bytes;
    member->ops->submit(member, part);
}

/* ---- Mirrors ---- */

/* A stream stays with the member that reads ahead for it; else the one with less to do, and of
   equal ones the one whose head is nearer. */
static unsigned choose_copy(const struct model_device *device, unsigned column, uint64_t offset)
{
    unsigned best = column * device->copies;
    double best_cost = INFINITY;
    for (unsigned i = best; i < (column + 1) * device->copies; i++) {
        const struct model_member *member = device->members[i];
        double cost = member->outstanding;
        if (member->read_end == offset && offset != 0)
            cost -= 1.5;
        cost += 0.5 * member->ops->distance(member, offset);
        if (cost < best_cost) {
            best_cost = cost;
            best = i;
        }
    }
    return best;
}

/* One read of a column's adjacent chunks goes to one copy. */
static unsigned copy_for_read(const struct model_device *device, unsigned column, uint64_t offset)
{
    for (unsigned i = column * device->copies; i < (column + 1) * device->copies; i++) {
        const struct model_part *newest = device->newest[i];
        if (newest != NULL && newest->offset + newest->size_bytes == offset)
            return i;
    }
    return choose_copy(device, column, offset);
}

static void cut_mirrored(struct cut *cut)
{
    struct model_device *device = cut->device;
    uint64_t offset = cut->op->offset;
    uint64_t end = offset + cut->op->size_bytes;
    uint64_t stripe = is_striped(device) ? device->spec.stripe_bytes : UINT64_MAX;
    while (offset < end) {
        uint64_t chunk = offset / stripe;
        uint64_t within = offset % stripe;
        uint64_t size = stripe - within < end - offset ? stripe - within : end - offset;
        unsigned column = (unsigned)(chunk % device->columns);
        uint64_t place = chunk / device->columns * stripe + within;
        if (cut->op->kind == IO_OP_READ) {
            add_part(cut, copy_for_read(device, column, place), IO_OP_READ, place, (uint32_t)size);
        } else {
            for (unsigned i = 0; i < device->copies; i++)
                add_part(cut, column * device->copies + i, IO_OP_WRITE, place, (uint32_t)size);
        }
        offset += size;
    }
}

/* ---- RAID 5: left-symmetric, as Linux and most controllers lay it out
 * ----------------------------
 */

static unsigned parity_member(const struct model_device *device, uint64_t row)
{
    return (unsigned)(device->spec.members - 1 - row % device->spec.members);
}

static unsigned data_member(const struct model_device *device, uint64_t row, unsigned column)
{
    return (parity_member(device, row) + 1 + column) % device->spec.members;
}

static void cut_raid5_read(struct cut *cut)
{
    struct model_device *device = cut->device;
    uint64_t offset = cut->op->offset;
    uint64_t end = offset + cut->op->size_bytes;
    uint64_t stripe = device->spec.stripe_bytes;
    while (offset < end) {
        uint64_t chunk = offset / stripe;
        uint64_t within = offset % stripe;
        uint64_t size = stripe - within < end - offset ? stripe - within : end - offset;
        uint64_t row = chunk / device->columns;
        unsigned member = data_member(device, row, (unsigned)(chunk % device->columns));
        add_part(cut, member, IO_OP_READ, row * stripe + within, (uint32_t)size);
        offset += size;
    }
}

static void cut_full_row(struct cut *cut, uint64_t row)
{
    uint32_t stripe = cut->device->spec.stripe_bytes;
    for (unsigned i = 0; i < cut->device->spec.members; i++)
        add_part(cut, i, IO_OP_WRITE, row * stripe, stripe);
}

static void add_row_write(struct cut *cut, struct model_row *waiting, unsigned member,
                          uint64_t offset, uint32_t size_bytes)
{
    struct model_part *part = make_part(cut, member, IO_OP_WRITE, offset, size_bytes);
    equip_part(cut->device, part);
    part->next = waiting->writes;
    waiting->writes = part;
}

static void add_row_read(struct cut *cut, struct model_row *waiting, unsigned member,
                         uint64_t offset, uint32_t size_bytes)
{
    struct model_part *part = make_part(cut, member, IO_OP_READ, offset, size_bytes);
    part->row = waiting;
    waiting->reads_left++;
    *cut->tail = part;
    cut->tail = &part->next;
}

/* Part of a row, from `begin` to `end` within its data: the new parity follows from the old data
   and parity, or from the chunks that are not written; whichever reads less. Only then is it
   written. */
static void cut_part_row(struct cut *cut, uint64_t row, uint64_t begin, uint64_t end)
{
    struct model_device *device = cut->device;
    uint64_t stripe = device->spec.stripe_bytes;
    unsigned first = (unsigned)(begin / stripe);
    unsigned last = (unsigned)((end - 1) / stripe);
    unsigned touched = last - first + 1;
    uint64_t parity_begin = touched == 1 ? begin % stripe : 0;
    uint64_t parity_end = touched == 1 ? (end - 1) % stripe + 1 : stripe;
    uint32_t parity_size = (uint32_t)(parity_end - parity_begin);
    uint64_t parity_place = row * stripe + parity_begin;
    bool from_others = device->columns - touched < touched + 1;
    struct model_row *waiting = model_pool_take(&device->rows);

    for (unsigned column = 0; column < device->columns; column++) {
        unsigned member = data_member(device, row, column);
        bool written = column >= first && column <= last;
        uint64_t from = column == first ? begin % stripe : 0;
        uint64_t to = column == last ? (end - 1) % stripe + 1 : stripe;
        if (written)
            add_row_write(cut, waiting, member, row * stripe + from, (uint32_t)(to - from));
        if (written && !from_others)
            add_row_read(cut, waiting, member, row * stripe + from, (uint32_t)(to - from));
        if (!written && from_others)
            add_row_read(cut, waiting, member, parity_place, parity_size);
    }
    unsigned parity = parity_member(device, row);
    add_row_write(cut, waiting, parity, parity_place, parity_size);
    /* With every chunk touched but not all of every chunk, the old parity stands for the missing
       bytes. */
    if (!from_others || waiting->reads_left == 0)
        add_row_read(cut, waiting, parity, parity_place, parity_size);
}

static void cut_raid5_write(struct cut *cut)
{
    uint64_t size = row_bytes(cut->device);
    uint64_t offset = cut->op->offset;
    uint64_t end = offset + cut->op->size_bytes;
    while (offset < end) {
        uint64_t row = offset / size;
        uint64_t begin = offset % size;
        uint64_t stop = size - begin < end - offset ? size : begin + (end - offset);
        if (begin == 0 && stop == size)
            cut_full_row(cut, row);
        else
            cut_part_row(cut, row, begin, stop);
        offset += stop - begin;
    }
}

void model_raid_row_read(struct model_device *device, struct model_row *row)
{
    if (--row->reads_left > 0)
        return;
    struct model_part *part = row->writes;
    model_pool_give(&device->rows, row);
    while (part != NULL) {
        struct model_part *next = part->next;
        submit_part(device, part);
        part = next;
    }
}

/* ---- All levels ---- */

void model_raid_submit(struct model_device *device, struct model_op *op)
{
    struct cut cut = {.device = device, .op = op};
    cut.tail = &cut.parts;
    for (unsigned i = 0; i < device->member_count; i++)
        device->newest[i] = NULL;
    if (op->kind != IO_OP_READ && op->kind != IO_OP_WRITE)
        for (unsigned i = 0; i < device->member_count; i++)
            add_part(&cut, i, IO_OP_SYNC_DATA, 0, 0);
    else if (device->spec.raid != MODEL_RAID_5)
        cut_mirrored(&cut);
    else if (op->kind == IO_OP_READ)
        cut_raid5_read(&cut);
    else
        cut_raid5_write(&cut);
    struct model_part *part = cut.parts;
    while (part != NULL) {
        struct model_part *next = part->next;
        equip_part(device, part);
        submit_part(device, part);
        part = next;
    }
}
