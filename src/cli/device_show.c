#include "base/check.h"
#include "base/units.h"
#include "cli/device_internal.h"
#include "cli/terminal.h"

#include <string.h>

enum value_kind {
    KIND_COUNT,
    KIND_BYTES,
    KIND_S,
    KIND_MS,
    KIND_US,
    KIND_MIB_S,
    KIND_SHARE,
    KIND_FLAG
};

struct parameter {
    const char *label;
    const char *key; /* in JSON */
    enum value_kind kind;
    double value;
};

enum { PARAMETERS_MAX = 40 };

struct parameters {
    struct parameter list[PARAMETERS_MAX];
    unsigned count;
};

static void add(struct parameters *parameters, const char *label, const char *key,
                enum value_kind kind, double value)
{
    ASSERT(parameters->count < PARAMETERS_MAX);
    parameters->list[parameters->count++] = (struct parameter){label, key, kind, value};
}

/* ---- What there is to tell ---- */

static void add_disk(struct parameters *p, const struct model_disk *disk, bool cached)
{
    add(p, "capacity", "capacity_bytes", KIND_BYTES, (double)disk->capacity_bytes);
    add(p, "rotation, 1/min", "rpm", KIND_COUNT, disk->rpm);
    add(p, "seek to the next track", "seek_track_ms", KIND_MS, disk->seek_track_ms);
    add(p, "average seek", "seek_average_ms", KIND_MS, disk->seek_average_ms);
    add(p, "full seek", "seek_full_ms", KIND_MS, disk->seek_full_ms);
    add(p, "rate of the outermost track", "rate_outer_mib_s", KIND_MIB_S, disk->rate_outer_mib_s);
    add(p, "rate of the innermost track", "rate_inner_mib_s", KIND_MIB_S, disk->rate_inner_mib_s);
    add(p, "cost of a command", "command_us", KIND_US, disk->command_us);
    add(p, "interface", "interface_mib_s", KIND_MIB_S, disk->interface_mib_s);
    add(p, "requests it reorders", "queue_depth", KIND_COUNT, disk->queue_depth);
    add(p, "read-ahead", "read_ahead_bytes", KIND_BYTES, (double)disk->read_ahead_bytes);
    bool on = disk->write_cache && !cached;
    add(p, "volatile write cache in use", "write_cache", KIND_FLAG, on);
    if (on)
        add(p, "volatile write cache", "write_cache_bytes", KIND_BYTES,
            (double)disk->write_cache_bytes);
}

static void add_ssd(struct parameters *p, const struct model_ssd *ssd)
{
    add(p, "capacity", "capacity_bytes", KIND_BYTES, (double)ssd->capacity_bytes);
    add(p, "channels", "channels", KIND_COUNT, ssd->channels);
    add(p, "page", "page_bytes", KIND_BYTES, ssd->page_bytes);
    add(p, "reading a page", "read_us", KIND_US, ssd->read_us);
    add(p, "programming a page", "program_us", KIND_US, ssd->program_us);
    add(p, "garbage collection a random write", "random_write_us", KIND_US, ssd->random_write_us);
    add(p, "cost of a command", "command_us", KIND_US, ssd->command_us);
    add(p, "answering a write", "write_us", KIND_US, ssd->write_us);
    add(p, "interface, reads", "read_mib_s", KIND_MIB_S, ssd->read_mib_s);
    add(p, "interface, writes", "write_mib_s", KIND_MIB_S, ssd->write_mib_s);
    add(p, "write buffer", "write_buffer_bytes", KIND_BYTES, (double)ssd->write_buffer_bytes);
    add(p, "write buffer survives power loss", "power_protected", KIND_FLAG, ssd->power_protected);
    add(p, "sync, beside emptying the buffer", "flush_us", KIND_US, ssd->flush_us);
    if (ssd->gc_pause_mib > 0) {
        add(p, "pauses: mean length", "gc_pause_ms", KIND_MS, ssd->gc_pause_ms);
        add(p, "pauses: after random writes of", "gc_pause_mib", KIND_BYTES,
            ssd->gc_pause_mib * 1048576);
    }
    if (ssd->dip_period_s > 0) {
        add(p, "dips: period", "dip_period_s", KIND_S, ssd->dip_period_s);
        add(p, "dips: length", "dip_length_s", KIND_S, ssd->dip_length_s);
        add(p, "dips: speed in them", "dip_speed", KIND_SHARE, ssd->dip_speed);
        add(p, "dips: only when written to", "dip_needs_writes", KIND_FLAG, ssd->dip_needs_writes);
    }
}

static void add_array(struct parameters *p, const struct model_spec *spec)
{
    if (spec->raid != MODEL_RAID_NONE)
        add(p, "members", "members", KIND_COUNT, spec->members);
    if (spec->raid != MODEL_RAID_NONE && spec->raid != MODEL_RAID_1)
        add(p, "stripe", "stripe_bytes", KIND_BYTES, spec->stripe_bytes);
    if (spec->cache_bytes > 0) {
        add(p, "protected write cache", "cache_bytes", KIND_BYTES, (double)spec->cache_bytes);
        add(p, "cost of an answer by it", "cache_us", KIND_US, spec->cache_us);
        add(p, "its speed", "cache_mib_s", KIND_MIB_S, spec->cache_mib_s);
    }
}

static void add_sheet(struct parameters *p, const struct model_sheet *sheet)
{
    const struct parameter figures[] = {
        {"block", "block_bytes", KIND_BYTES, sheet->block_bytes},
        {"random reads a second", "read_iops", KIND_COUNT, sheet->read_iops},
        {"random writes a second", "write_iops", KIND_COUNT, sheet->write_iops},
        {"one random read", "read_us", KIND_US, sheet->read_us},
        {"sequential reads", "read_mib_s", KIND_MIB_S, sheet->read_mib_s},
        {"sequential writes", "write_mib_s", KIND_MIB_S, sheet->write_mib_s},
    };
    for (unsigned i = 0; i < ARRAY_COUNT(figures); i++)
        if (figures[i].value != 0)
            add(p, figures[i].label, figures[i].key, figures[i].kind, figures[i].value);
}

static const char *raid_name(enum model_raid raid)
{
    static const char *const names[] = {"none", "RAID 0", "RAID 1", "RAID 5", "RAID 10"};
    return names[raid];
}

static void add_member(struct parameters *p, const struct model_spec *spec)
{
    if (spec->kind == MODEL_DISK)
        add_disk(p, &spec->disk, spec->cache_bytes > 0);
    else
        add_ssd(p, &spec->ssd);
}

/* ---- For people ---- */

static const char *format(const struct parameter *parameter, char text[UNITS_TEXT_BYTES])
{
    double value = parameter->value;
    switch (parameter->kind) {
    case KIND_COUNT:
        snprintf(text, UNITS_TEXT_BYTES, "%.10g", value);
        break;
    case KIND_BYTES:
        return value == 0 ? "none" : units_format_size(value, text);
    case KIND_S:
        return units_format_duration(value * 1e9, text);
    case KIND_MS:
        return units_format_duration(value * 1e6, text);
    case KIND_US:
        return units_format_duration(value * 1e3, text);
    case KIND_MIB_S:
        snprintf(text, UNITS_TEXT_BYTES, "%.4g MiB/s", value);
        break;
    case KIND_SHARE:
        snprintf(text, UNITS_TEXT_BYTES, "%.3g %%", value * 100);
        break;
    case KIND_FLAG:
        return value != 0 ? "yes" : "no";
    }
    return text;
}

static void print_section(const char *heading, const struct parameters *parameters)
{
    if (parameters->count == 0)
        return;
    printf("\n%s\n", heading);
    for (unsigned i = 0; i < parameters->count; i++) {
        char text[UNITS_TEXT_BYTES];
        printf("  %-34s %s\n", parameters->list[i].label, format(&parameters->list[i], text));
    }
}

void device_print_model(const struct model_spec *spec, const struct model_sheet *sheet)
{
    struct parameters array = {.count = 0};
    struct parameters member = {.count = 0};
    struct parameters figures = {.count = 0};
    bool is_disk = spec->kind == MODEL_DISK;
    bool one = spec->raid == MODEL_RAID_NONE;
    printf("%s: %s\n", spec->name, spec->text);
    add_array(&array, spec);
    print_section(one ? "Controller" : raid_name(spec->raid), &array);
    add_member(&member, spec);
    print_section(one ? (is_disk ? "Disk" : "SSD") : (is_disk ? "Each disk" : "Each SSD"), &member);
    if (sheet == NULL)
        return;
    add_sheet(&figures, sheet);
    print_section("Data sheet", &figures);
    printf("  ");
    terminal_wrap(stdout, sheet->source, 2, 2, terminal_text_width(stdout));
}

/* ---- As JSON ---- */

static json_t *parameters_json(const struct parameters *parameters)
{
    json_t *object = json_object();
    for (unsigned i = 0; i < parameters->count; i++) {
        const struct parameter *p = &parameters->list[i];
        bool whole = p->kind == KIND_BYTES || p->kind == KIND_COUNT;
        json_t *value = p->kind == KIND_FLAG ? json_boolean(p->value != 0)
                        : whole              ? json_integer((json_int_t)p->value)
                                             : json_real(p->value);
        if (json_object_set_new(object, p->key, value) != 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

json_t *device_model_json(const struct model_spec *spec, const struct model_sheet *sheet)
{
    struct parameters array = {.count = 0};
    struct parameters member = {.count = 0};
    struct parameters figures = {.count = 0};
    add_array(&array, spec);
    add_member(&member, spec);
    json_t *sheet_json = json_null();
    if (sheet != NULL) {
        add_sheet(&figures, sheet);
        sheet_json = parameters_json(&figures);
        if (sheet_json != NULL &&
            json_object_set_new(sheet_json, "source", json_string(sheet->source)) != 0) {
            json_decref(sheet_json);
            return NULL;
        }
    }
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:o}", "name", spec->name, "text", spec->text,
                     "kind", spec->kind == MODEL_DISK ? "disk" : "ssd", "raid",
                     raid_name(spec->raid), "array", parameters_json(&array), "member",
                     parameters_json(&member), "sheet", sheet_json);
}
