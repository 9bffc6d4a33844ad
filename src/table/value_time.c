/*
 * Dates and times as text.
 */
#include "table/value_internal.h"
#include "table/value_text_internal.h"

enum {
    DAY_SECONDS = 86400,
    SECOND_US = 1000000,
    ERA_DAYS = 146097, /* of 400 years, after which the calendar repeats */
};

/*
 * Days from 1970-01-01, and back, for the years from 1970 on. A year is counted from March, so that
 * the leap day is its last, and months in fives have 153 days (H. Hinnant, "chrono-compatible
 * low-level date algorithms").
 */
static uint32_t days_of_date(unsigned year, unsigned month, unsigned day)
{
    unsigned from_march = (month + 9) % 12;
    year -= month <= 2;
    unsigned of_era = year % 400;
    unsigned of_year = (153 * from_march + 2) / 5 + day - 1;
    return year / 400 * ERA_DAYS + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static void date_of_days(uint32_t days, struct value_fields *fields)
{
    days += 719468;
    unsigned of_era = days % ERA_DAYS;
    unsigned year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    unsigned of_year = of_era - (365 * year + year / 4 - year / 100);
    unsigned from_march = (5 * of_year + 2) / 153;
    fields->day = of_year - (153 * from_march + 2) / 5 + 1;
    fields->month = from_march < 10 ? from_march + 3 : from_march - 9;
    fields->year = days / ERA_DAYS * 400 + year + (fields->month <= 2);
}

static unsigned days_of_month(unsigned year, unsigned month)
{
    static const uint8_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return days[month - 1] + (month == 2 && is_leap ? 1U : 0U);
}

/* ---- Writing ---- */

/* A number with so many digits at least. @return behind it */
static char *put_number(char *to, unsigned number, unsigned digits)
{
    char reversed[10];
    unsigned count = 0;
    for (; number > 0 || count < digits; number /= 10)
        reversed[count++] = (char)('0' + number % 10);
    while (count > 0)
        *to++ = reversed[--count];
    return to;
}

static char *put_clock(char *to, const struct column *column, const struct value_fields *fields)
{
    unsigned digits = column->spec.second_digits;
    to = put_number(to, fields->hour, 2);
    *to++ = ':';
    to = put_number(to, fields->minute, 2);
    *to++ = ':';
    to = put_number(to, fields->second, 2);
    if (digits == 0)
        return to;
    *to++ = '.';
    return put_number(to, fields->microsecond / value_powers[6 - digits], digits);
}

static char *put_date(char *to, const struct value_fields *fields)
{
    to = put_number(to, fields->year, 4);
    *to++ = '-';
    to = put_number(to, fields->month, 2);
    *to++ = '-';
    return put_number(to, fields->day, 2);
}

static struct value_fields split_timestamp(uint64_t moment)
{
    struct value_fields fields = {0};
    uint32_t seconds = (uint32_t)(moment / SECOND_US);
    if (moment == 0)
        return fields;
    date_of_days(seconds / DAY_SECONDS, &fields);
    fields.hour = seconds % DAY_SECONDS / 3600;
    fields.minute = seconds % 3600 / 60;
    fields.second = seconds % 60;
    fields.microsecond = (unsigned)(moment % SECOND_US);
    return fields;
}

static struct value_fields split_time(int64_t time)
{
    uint64_t size = time < 0 ? 0 - (uint64_t)time : (uint64_t)time;
    unsigned seconds = (unsigned)(size / SECOND_US);
    return (struct value_fields){.hour = seconds / 3600,
                                 .minute = seconds % 3600 / 60,
                                 .second = seconds % 60,
                                 .microsecond = (unsigned)(size % SECOND_US)};
}

size_t value_print_moment(const struct column *column, const struct value *value, char *to)
{
    const char *begin = to;
    struct value_fields fields;
    if (column->spec.type == COLUMN_TIME) {
        fields = split_time(value->i);
        if (value->i < 0)
            *to++ = '-';
        return (size_t)(put_clock(to, column, &fields) - begin);
    }
    if (column->spec.type == COLUMN_DATE) {
        fields = value_split_date(value->u);
        return (size_t)(put_date(to, &fields) - begin);
    }
    fields = column->spec.type == COLUMN_TIMESTAMP ? split_timestamp(value->u)
                                                   : value_split_datetime(value->u);
    to = put_date(to, &fields);
    *to++ = ' ';
    return (size_t)(put_clock(to, column, &fields) - begin);
}

/* ---- Reading ---- */

/* A text being taken apart. */
struct reader {
    const uint8_t *at;
    const uint8_t *end;
};

/* Digits, least to most of them. */
static bool read_number(struct reader *reader, unsigned least, unsigned most, unsigned *number)
{
    unsigned digits = 0;
    *number = 0;
    while (digits < most && reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9') {
        *number = 10 * *number + *reader->at++ - '0';
        digits++;
    }
    return digits >= least;
}

static bool read_byte(struct reader *reader, char byte)
{
    if (reader->at == reader->end || *reader->at != (uint8_t)byte)
        return false;
    reader->at++;
    return true;
}

/* What may follow seconds: a point and one to six digits. */
static bool read_fraction(struct reader *reader, unsigned *microsecond)
{
    *microsecond = 0;
    if (!read_byte(reader, '.'))
        return true;
    const uint8_t *begin = reader->at;
    if (!read_number(reader, 1, 6, microsecond))
        return false;
    *microsecond *= value_powers[6 - (reader->at - begin)];
    return true;
}

static bool read_clock(struct reader *reader, unsigned hour_digits, struct value_fields *fields)
{
    return read_number(reader, 2, hour_digits, &fields->hour) && read_byte(reader, ':') &&
           read_number(reader, 2, 2, &fields->minute) && read_byte(reader, ':') &&
           read_number(reader, 2, 2, &fields->second) &&
           read_fraction(reader, &fields->microsecond) && reader->at == reader->end &&
           fields->minute < 60 && fields->second < 60;
}

static bool read_date(struct reader *reader, struct value_fields *fields)
{
    return read_number(reader, 4, 4, &fields->year) && read_byte(reader, '-') &&
           read_number(reader, 2, 2, &fields->month) && read_byte(reader, '-') &&
           read_number(reader, 2, 2, &fields->day) && fields->month <= 12 && fields->day <= 31;
}

static firn_rc parse_time(const struct column *column, struct span text, struct value *value)
{
    struct reader reader = {text.bytes, text.bytes + text.size_bytes};
    struct value_fields fields = {0};
    bool is_negative = read_byte(&reader, '-');
    if (!read_clock(&reader, 3, &fields))
        return value_refuse_text(column, text, "is no time as [-]HH:MM:SS.ffffff");
    int64_t size = ((int64_t)fields.hour * 3600 + fields.minute * 60 + fields.second) * SECOND_US +
                   fields.microsecond;
    *value = value_int(is_negative ? -size : size);
    return FIRN_OK;
}

static bool is_zero(const struct value_fields *fields)
{
    return (fields->year | fields->month | fields->day | fields->hour | fields->minute |
            fields->second | fields->microsecond) == 0;
}

static firn_rc join_timestamp(const struct column *column, struct span text,
                              const struct value_fields *fields, struct value *value)
{
    if (is_zero(fields)) {
        *value = value_uint(0);
        return FIRN_OK;
    }
    if (fields->year < 1970 || fields->year > 2106 || fields->month == 0 || fields->day == 0 ||
        fields->day > days_of_month(fields->year, fields->month))
        return value_refuse_text(column, text,
                                 "is no date and time in UTC from 1970-01-01 00:00:01 to "
                                 "2106-02-07 06:28:15");
    uint64_t seconds =
        (uint64_t)days_of_date(fields->year, fields->month, fields->day) * DAY_SECONDS +
        fields->hour * 3600 + fields->minute * 60 + fields->second;
    if (seconds == 0 && fields->microsecond == 0)
        return value_refuse_text(column, text, "is the moment that stands for no date");
    *value = value_uint(seconds * SECOND_US + fields->microsecond);
    return FIRN_OK;
}

firn_rc value_parse_moment(const struct column *column, struct span text, struct value *value)
{
    struct reader reader = {text.bytes, text.bytes + text.size_bytes};
    struct value_fields fields = {0};
    if (column->spec.type == COLUMN_TIME)
        return parse_time(column, text, value);
    bool is_date = read_date(&reader, &fields);
    if (column->spec.type == COLUMN_DATE) {
        if (!is_date || reader.at != reader.end)
            return value_refuse_text(column, text, "is no date as YYYY-MM-DD");
        *value = value_uint(value_date(fields.year, fields.month, fields.day));
        return FIRN_OK;
    }
    if (!is_date || !read_byte(&reader, ' ') || !read_clock(&reader, 2, &fields) ||
        fields.hour > 23)
        return value_refuse_text(column, text, "is no date and time as YYYY-MM-DD HH:MM:SS.ffffff");
    if (column->spec.type == COLUMN_TIMESTAMP)
        return join_timestamp(column, text, &fields, value);
    *value =
        value_uint(value_datetime(value_date(fields.year, fields.month, fields.day), fields.hour,
                                  fields.minute, fields.second, fields.microsecond));
    return FIRN_OK;
}
