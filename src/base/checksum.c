#include "base/checksum.h"

#include "base/check.h"

#include <isa-l/crc.h>
#include <limits.h>

uint32_t checksum_crc32c_extend(uint32_t checksum, const void *memory, size_t size_bytes)
{
    ASSERT(size_bytes <= INT_MAX);
    /* ISA-L only reads the bytes; its prototype lacks the const. */
    return ~crc32_iscsi((unsigned char *)(uintptr_t)memory, (int)size_bytes, ~checksum);
}

uint32_t checksum_crc32c(const void *memory, size_t size_bytes)
{
    return checksum_crc32c_extend(0, memory, size_bytes);
}
