#include "table/autoincrement.h"

#include "base/check.h"

uint64_t autoincrement_max(const struct column *column)
{
    unsigned bits = 8U * column->codec.width - (column->codec.kind == CODEC_INT ? 1 : 0);
    return UINT64_MAX >> (64 - bits);
}

firn_rc autoincrement_reserve(const struct column *column, uint64_t last, uint64_t offset,
                              uint64_t increment, uint64_t wanted, uint64_t *first,
                              uint64_t *reserved)
{
    uint64_t most = autoincrement_max(column);
    ASSERT(increment >= 1 && offset >= 1 && wanted >= 1);
    if (offset > increment)
        offset = increment; /* the multiples, 0 apart, which is no value */
    /* How far the value after `last` is, and whether there is one. */
    uint64_t step = last < offset ? offset - last : increment - (last - offset) % increment;
    if (last >= most || step > most - last)
        return rc_raise(FIRN_E_INVALID,
                        "column %s has used up its values: the next one would be above %llu; make "
                        "its type larger",
                        column->spec.name, (unsigned long long)most);
    uint64_t more = (most - last - step) / increment;
    *first = last + step;
    *reserved = wanted - 1 < more ? wanted : more + 1;
    return FIRN_OK;
}

uint64_t autoincrement_see(uint64_t last, const struct value *value)
{
    if (value->kind == VALUE_UINT && value->u > last)
        return value->u;
    if (value->kind == VALUE_INT && value->i > 0 && (uint64_t)value->i > last)
        return (uint64_t)value->i;
    return last;
}
