/*
 * endian.h -- numbers in files, at any alignment: little-endian, and a few that are not.
 */
#ifndef FIRN_BASE_ENDIAN_H
#define FIRN_BASE_ENDIAN_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

/** @return a number of 2 bytes at any address. */
static inline uint16_t get_u16(const void *from)
{
    uint16_t value;
    memcpy(&value, from, sizeof value);
    return le16toh(value);
}

/** @return a number of 4 bytes at any address. */
static inline uint32_t get_u32(const void *from)
{
    uint32_t value;
    memcpy(&value, from, sizeof value);
    return le32toh(value);
}

/** @return a number of 8 bytes at any address. */
static inline uint64_t get_u64(const void *from)
{
    uint64_t value;
    memcpy(&value, from, sizeof value);
    return le64toh(value);
}

/** @return a big-endian number of 4 bytes: such numbers compare as their bytes do. */
static inline uint32_t get_be32(const void *from)
{
    uint32_t value;
    memcpy(&value, from, sizeof value);
    return be32toh(value);
}

/** @return a big-endian number of 8 bytes. */
static inline uint64_t get_be64(const void *from)
{
    uint64_t value;
    memcpy(&value, from, sizeof value);
    return be64toh(value);
}

/**
 * Read a number from bytes that somebody else may be changing: the compiler, which may read memory
 * as often as it likes, is kept from reading it again, so that what was checked is what is used.
 */
static inline uint16_t get_u16_once(const void *from)
{
    uint16_t value = get_u16(from);
    __asm__("" : "+r"(value));
    return value;
}

/** get_u16_once for 8 bytes. */
static inline uint64_t get_u64_once(const void *from)
{
    uint64_t value = get_u64(from);
    __asm__("" : "+r"(value));
    return value;
}

/** Write a number of 2 bytes to any address. */
static inline void put_u16(void *to, uint16_t value)
{
    value = htole16(value);
    memcpy(to, &value, sizeof value);
}

/** Write a number of 4 bytes to any address. */
static inline void put_u32(void *to, uint32_t value)
{
    value = htole32(value);
    memcpy(to, &value, sizeof value);
}

/** Write a number of 8 bytes to any address. */
static inline void put_u64(void *to, uint64_t value)
{
    value = htole64(value);
    memcpy(to, &value, sizeof value);
}

#endif
