/*
 * pack.c -- columns as the page carries them: small, and quick to unpack.
 *
 * A column is a JSON array [scale, text]. The text is base64 of bytes, and they hold one number an
 * element, each in groups of seven bits, the lowest first, the top bit set on all but the last (as
 * in LEB128). The number is 0 for "nothing" (NaN) and else 1 + zigzag(value * scale - that of the
 * element before), so neighbours that are alike take a byte or two. Scale is 1 where all values are
 * whole and 1000 elsewhere: nanoseconds of a latency in microseconds.
 *
 * A heat map's text holds, for each cell of time: the number of pairs, then pairs of bucket (as
 * distance from the pair before) and count. Plain groups of seven bits, no zigzag.
 */
#include "base/memory.h"
#include "report/report_internal.h"

#include <math.h>

/* Beyond 2^53 a double cannot count, and the page's numbers are doubles. */
static const double PACK_MAX = 4503599627370496.0; /* 2^52 */

struct packer {
    uint8_t *bytes;
    size_t size_bytes, capacity_bytes;
    bool failed;
};

static void pack_number(struct packer *packer, uint64_t number)
{
    enum { NUMBER_BYTES_MAX = 10 };
    if (packer->capacity_bytes - packer->size_bytes < NUMBER_BYTES_MAX) {
        size_t capacity_bytes = packer->capacity_bytes * 2 + 1024;
        uint8_t *larger = packer->failed ? NULL : memory_realloc(packer->bytes, capacity_bytes);
        if (larger == NULL) {
            packer->failed = true;
            return;
        }
        packer->bytes = larger;
        packer->capacity_bytes = capacity_bytes;
    }
    for (; number >= 0x80; number >>= 7)
        packer->bytes[packer->size_bytes++] = (uint8_t)(number | 0x80);
    packer->bytes[packer->size_bytes++] = (uint8_t)number;
}

static json_t *pack_end(struct packer *packer)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t length = (packer->size_bytes + 2) / 3 * 4;
    char *text = packer->failed ? NULL : memory_alloc(length + 1);
    json_t *result = NULL;
    if (text != NULL) {
        char *next = text;
        for (size_t i = 0; i < packer->size_bytes; i += 3) {
            unsigned left = (unsigned)(packer->size_bytes - i);
            unsigned group = (unsigned)packer->bytes[i] << 16 |
                             (left > 1 ? (unsigned)packer->bytes[i + 1] << 8 : 0) |
                             (left > 2 ? packer->bytes[i + 2] : 0);
            *next++ = digits[group >> 18];
            *next++ = digits[group >> 12 & 63];
            *next++ = left > 1 ? digits[group >> 6 & 63] : '=';
            *next++ = left > 2 ? digits[group & 63] : '=';
        }
        result = json_stringn_nocheck(text, length);
    }
    memory_free(text);
    memory_free(packer->bytes);
    return result;
}

/* The power of ten that leaves the smallest value four digits: half a unit is 0.005 % of it. Whole
   numbers are not cut finer than they are, and nothing finer than its thousandth. */
static double column_scale(const double *values, unsigned count)
{
    double least = INFINITY;
    bool whole = true;
    for (unsigned i = 0; i < count; i++) {
        if (values[i] > 0 && values[i] < least)
            least = values[i];
        whole &= isnan(values[i]) || values[i] == floor(values[i]);
    }
    if (isinf(least))
        return 1;
    return pow(10, fmin(3 - floor(log10(least)), whole ? 0 : 3));
}

json_t *report_pack_column(const double *values, unsigned count)
{
    struct packer packer = {0};
    double scale = column_scale(values, count);
    int64_t before = 0;
    for (unsigned i = 0; i < count; i++) {
        if (isnan(values[i])) {
            pack_number(&packer, 0);
            continue;
        }
        int64_t value = (int64_t)fmin(round(values[i] * scale), PACK_MAX);
        int64_t difference = value - before;
        before = value;
        uint64_t zigzag = (uint64_t)difference << 1 ^ (uint64_t)(difference >> 63);
        pack_number(&packer, zigzag + 1);
    }
    json_t *text = pack_end(&packer);
    return text == NULL ? NULL : json_pack("[fo]", scale, text);
}

json_t *report_pack_heat(const struct report_heat *heat)
{
    struct packer packer = {0};
    for (unsigned cell = 0; cell < heat->cell_count; cell++) {
        unsigned before = 0;
        pack_number(&packer, heat->first[cell + 1] - heat->first[cell]);
        for (unsigned i = heat->first[cell]; i < heat->first[cell + 1]; i++) {
            pack_number(&packer, heat->buckets[i] - before);
            pack_number(&packer, (uint64_t)fmin(round(heat->counts[i]), PACK_MAX));
            before = heat->buckets[i];
        }
    }
    json_t *text = pack_end(&packer);
    if (text == NULL)
        return NULL;
    return json_pack("{sisiso}", "cells", (int)heat->cell_count, "intervals_per_cell",
                     (int)heat->intervals_per_cell, "pairs", text);
}
