/*
 * checksum.h -- the one checksum of everything Firn writes: CRC-32C, computed by ISA-L.
 */
#ifndef FIRN_BASE_CHECKSUM_H
#define FIRN_BASE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/**
 * CRC-32C (Castagnoli) as iSCSI and ext4 use it: initial value and final inversion included.
 *
 * @param memory      the bytes
 * @param size_bytes  how many
 * @return the checksum; of "123456789" it is 0xe3069283
 */
uint32_t checksum_crc32c(const void *memory, size_t size_bytes);

/**
 * Go on with a checksum: of A, extended by B, it is the checksum of A and B in one piece.
 *
 * @param checksum  what checksum_crc32c or this returned for what comes before; 0 for nothing
 */
uint32_t checksum_crc32c_extend(uint32_t checksum, const void *memory, size_t size_bytes);

#endif
