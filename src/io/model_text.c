/*
 * Models as text: NAME[:RAID][+KEY=SIZE]...
 */
#include "base/check.h"
#include "base/near.h"
#include "base/units.h"
#include "io/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CATALOG_NAMES_MAX = 64 };

static firn_rc find_name(const char *name, struct model_spec *spec)
{
    const char *names[CATALOG_NAMES_MAX];
    ENSURE(model_count() <= CATALOG_NAMES_MAX);
    for (unsigned i = 0; i < model_count(); i++) {
        names[i] = model_at(i)->name;
        if (strcmp(names[i], name) == 0) {
            *spec = *model_at(i);
            return FIRN_OK;
        }
    }
    char near[NEAR_TEXT_BYTES];
    near_text(name, names, model_count(), "", near);
    return rc_raise(FIRN_E_NOT_FOUND, "there is no device model \"%s\"%s%s", name, near,
                    near[0] == '\0' ? "; 'firn device list' names them" : "");
}

/* "raid10x8"; without a number RAID 1 has two members. */
static firn_rc parse_raid(const char *text, struct model_spec *spec)
{
    static const struct {
        const char *name;
        enum model_raid raid;
    } levels[] = {{"raid0", MODEL_RAID_0},
                  {"raid10", MODEL_RAID_10},
                  {"raid1", MODEL_RAID_1},
                  {"raid5", MODEL_RAID_5}};
    if (spec->raid != MODEL_RAID_NONE)
        return rc_raise(FIRN_E_INVALID, "model %s is a RAID already", spec->name);
    for (unsigned i = 0; i < ARRAY_COUNT(levels); i++) {
        size_t length = strlen(levels[i].name);
        if (strncmp(text, levels[i].name, length) != 0)
            continue;
        const char *rest = text + length;
        unsigned long members = 2;
        if (*rest == 'x') {
            char *end = NULL;
            members = rest[1] >= '0' && rest[1] <= '9' ? strtoul(rest + 1, &end, 10) : 0;
            rest = end == NULL ? rest : end;
        } else if (*rest != '\0' || levels[i].raid != MODEL_RAID_1) {
            continue;
        }
        if (*rest != '\0')
            break;
        spec->raid = levels[i].raid;
        spec->members = members > 65535 ? 65535 : (unsigned)members;
        return FIRN_OK;
    }
    return rc_raise(FIRN_E_INVALID,
                    "\"%s\" is no RAID level; write raid0xN, raid1xN, raid5xN or raid10xN", text);
}

static unsigned data_members(const struct model_spec *spec)
{
    switch (spec->raid) {
    case MODEL_RAID_0:
        return spec->members;
    case MODEL_RAID_5:
        return spec->members - 1;
    case MODEL_RAID_10:
        return spec->members / 2;
    case MODEL_RAID_NONE:
    case MODEL_RAID_1:
        break;
    }
    return 1;
}

static firn_rc set_capacity(uint64_t capacity_bytes, struct model_spec *spec)
{
    uint64_t *each =
        spec->kind == MODEL_DISK ? &spec->disk.capacity_bytes : &spec->ssd.capacity_bytes;
    unsigned count = data_members(spec);
    uint64_t wanted = count == 0 ? 0 : capacity_bytes / count;
    if (wanted > *each)
        return rc_raise(FIRN_E_INVALID, "model %s cannot be made larger than it is", spec->name);
    *each = wanted;
    return FIRN_OK;
}

static firn_rc apply_option(const char *option, struct model_spec *spec, uint64_t *capacity_bytes)
{
    const char *equals = strchr(option, '=');
    size_t length = equals == NULL ? strlen(option) : (size_t)(equals - option);
    uint64_t bytes = 0;
    bool is_cache = length == 5 && strncmp(option, "cache", length) == 0;
    bool is_stripe = length == 6 && strncmp(option, "stripe", length) == 0;
    bool is_capacity = length == 8 && strncmp(option, "capacity", length) == 0;
    if (equals == NULL || (!is_cache && !is_stripe && !is_capacity))
        return rc_raise(FIRN_E_INVALID,
                        "\"+%s\" is nothing a model has; write +cache=SIZE, +stripe=SIZE or "
                        "+capacity=SIZE",
                        option);
    FIRN_TRY(units_parse_size(equals + 1, &bytes));
    if (is_cache)
        spec->cache_bytes = bytes;
    else if (is_capacity)
        *capacity_bytes = bytes;
    else if (bytes > UINT32_MAX)
        return rc_raise(FIRN_E_INVALID, "a stripe of %s is too large", equals + 1);
    else
        spec->stripe_bytes = (uint32_t)bytes;
    return FIRN_OK;
}

static void describe(const struct model_spec *base, struct model_spec *spec)
{
    static const char *const levels[] = {"", "RAID 0 of ", "RAID 1 of ", "RAID 5 of ",
                                         "RAID 10 of "};
    char count[24] = "";
    char cache[32 + UNITS_TEXT_BYTES] = "";
    char capacity[16 + UNITS_TEXT_BYTES] = "";
    char size[UNITS_TEXT_BYTES];
    if (spec->raid != base->raid)
        snprintf(count, sizeof(count), "%s%u times ", levels[spec->raid], spec->members);
    if (spec->cache_bytes != base->cache_bytes && spec->cache_bytes == 0)
        snprintf(cache, sizeof(cache), ", no controller cache");
    else if (spec->cache_bytes != base->cache_bytes)
        snprintf(cache, sizeof(cache), ", %s controller cache",
                 units_format_size((double)spec->cache_bytes, size));
    uint64_t each = spec->kind == MODEL_DISK ? spec->disk.capacity_bytes : spec->ssd.capacity_bytes;
    uint64_t base_each =
        base->kind == MODEL_DISK ? base->disk.capacity_bytes : base->ssd.capacity_bytes;
    if (each != base_each)
        snprintf(capacity, sizeof(capacity), ", shrunk to %s",
                 units_format_size((double)each * data_members(spec), size));
    snprintf(spec->text, sizeof(spec->text), "%s%.63s%s%s", count, base->name, cache, capacity);
}

firn_rc model_find(const char *text, struct model_spec *spec)
{
    struct model_spec found;
    char copy[sizeof(found.name)];
    if (strlen(text) >= sizeof(copy))
        return rc_raise(FIRN_E_INVALID, "\"%s\" is too long for a device model", text);
    snprintf(copy, sizeof(copy), "%s", text);
    char *save = NULL;
    char *option = strchr(copy, '+');
    if (option != NULL)
        *option++ = '\0';
    char *raid = strchr(copy, ':');
    if (raid != NULL)
        *raid++ = '\0';
    FIRN_TRY(find_name(copy, &found));
    const struct model_spec base = found;
    if (raid != NULL)
        FIRN_TRY(parse_raid(raid, &found));
    uint64_t capacity_bytes = 0;
    if (option != NULL && (*option == '\0' || option[strlen(option) - 1] == '+'))
        return rc_raise(FIRN_E_INVALID, "\"%s\" ends with a \"+\" and nothing behind it", text);
    for (char *word = option == NULL ? NULL : strtok_r(option, "+", &save); word != NULL;
         word = strtok_r(NULL, "+", &save))
        FIRN_TRY(apply_option(word, &found, &capacity_bytes));
    if (capacity_bytes != 0)
        FIRN_TRY(set_capacity(capacity_bytes, &found));
    snprintf(found.name, sizeof(found.name), "%s", text);
    if (raid != NULL || option != NULL)
        describe(&base, &found);
    /* Whatever is out of range says so when a device is made of it. */
    struct model_device *device = NULL;
    FIRN_TRY(model_device_open(&found, 1, &device));
    model_device_close(device);
    *spec = found;
    return FIRN_OK;
}
