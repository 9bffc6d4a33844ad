/*
 * span.h -- bytes somewhere: a pointer and a size, owned by somebody else.
 */
#ifndef FIRN_BASE_SPAN_H
#define FIRN_BASE_SPAN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct span {
    const uint8_t *bytes;
    size_t size_bytes;
};

/** @return a span of size_bytes at bytes; NULL with 0 is the empty span. */
static inline struct span span_of(const void *bytes, size_t size_bytes)
{
    return (struct span){bytes, size_bytes};
}

/** @return a span of a text's bytes, without its terminator. */
static inline struct span span_of_text(const char *text)
{
    return span_of(text, strlen(text));
}

/** Compare as memcmp does, a prefix before what it begins. @return below, equal to or above 0 */
static inline int span_compare(struct span left, struct span right)
{
    size_t shared = left.size_bytes < right.size_bytes ? left.size_bytes : right.size_bytes;
    int order = shared ? memcmp(left.bytes, right.bytes, shared) : 0;
    if (order != 0)
        return order;
    return (left.size_bytes > right.size_bytes) - (left.size_bytes < right.size_bytes);
}

#endif
