/*
 * value_internal.h -- dates and times taken apart.
 */
#ifndef FIRN_TABLE_VALUE_INTERNAL_H
#define FIRN_TABLE_VALUE_INTERNAL_H

#include "table/value.h"

/* In microseconds: the last moment that 32 bits of seconds hold, and 838:59:59.999999. */
#define VALUE_TIMESTAMP_MAX UINT64_C(4294967295999999)
#define VALUE_TIME_MAX      UINT64_C(3020399999999)

/* 10 to the power of 0 to 6. */
extern const uint32_t value_powers[];

struct value_fields {
    unsigned year, month, day;
    unsigned hour, minute, second, microsecond;
};

/* What value_date has put together. */
static inline struct value_fields value_split_date(uint64_t date)
{
    uint64_t year = date >> 9;
    return (struct value_fields){.year = year > UINT32_MAX ? UINT32_MAX : (unsigned)year,
                                 .month = date >> 5 & 15,
                                 .day = date & 31};
}

/* What value_datetime has put together. */
static inline struct value_fields value_split_datetime(uint64_t moment)
{
    uint64_t seconds = moment / 1000000;
    struct value_fields fields = value_split_date(seconds >> 17);
    fields.hour = seconds >> 12 & 31;
    fields.minute = seconds >> 6 & 63;
    fields.second = seconds & 63;
    fields.microsecond = (unsigned)(moment % 1000000);
    return fields;
}

#endif
