/*
 * fileio_blocks.c -- blocks that prove where they belong, whole and current.
 *
 * A block as a validating run writes it; numbers are little-endian:
 *
 *   OFFSET  SIZE  MEANING
 *   0       4     magic, "FBK1"
 *   4       4     CRC-32C of everything behind it to the block's end
 *   8       4     size of the block in bytes
 *   12      4     thread that wrote it
 *   16      8     number of the file
 *   24      8     offset in the file
 *   32      8     number of the write: no two have the same
 *   40      8     seed of the run
 *   48      ...   words of 8 bytes: word i is w + i * c, with w mixed from file, offset, sequence
 *                 and seed, so that every byte is known from the header, differs from write to
 *                 write, and does not compress
 *
 * The checksum finds that something is wrong; the words tell what. A block whose end was written by
 * another request is wrong from some byte on to the end; a damaged one is right again behind.
 */
#include "base/check.h"
#include "base/checksum.h"
#include "base/memory.h"
#include "bench/fileio_internal.h"

#include <endian.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
    MAGIC = 0x314b4246, /* "FBK1" */
    AT_CHECKSUM = 4,
    AT_SIZE = 8,
    AT_WRITER = 12,
    AT_FILE = 16,
    AT_OFFSET = 24,
    AT_SEQUENCE = 32,
    AT_SEED = 40,
    HEADER_BYTES = 48,
    WORD_BYTES = 8,
};

#define WORD_STEP UINT64_C(0x9e3779b97f4a7c15)

static void put32(unsigned char *at, uint32_t value)
{
    value = htole32(value);
    memcpy(at, &value, sizeof(value));
}

static void put64(unsigned char *at, uint64_t value)
{
    value = htole64(value);
    memcpy(at, &value, sizeof(value));
}

static uint32_t get32(const unsigned char *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof(value));
    return le32toh(value);
}

static uint64_t get64(const unsigned char *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof(value));
    return le64toh(value);
}

bool block_size_fits(uint64_t block_bytes)
{
    return block_bytes >= BLOCK_MIN_BYTES && block_bytes % WORD_BYTES == 0;
}

/* The first word's value; the finalizer of splitmix64 after each part. */
static uint64_t first_word(const struct block_identity *identity)
{
    const uint64_t parts[] = {identity->seed, identity->sequence, identity->file, identity->offset};
    uint64_t z = 0;
    for (size_t i = 0; i < ARRAY_COUNT(parts); i++) {
        z += parts[i] + WORD_STEP;
        z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
        z ^= z >> 31;
    }
    return z;
}

static uint32_t block_checksum(const unsigned char *block, uint32_t size_bytes)
{
    return checksum_crc32c(block + AT_SIZE, size_bytes - AT_SIZE);
}

void block_fill(void *memory, uint32_t size_bytes, const struct block_identity *identity)
{
    ASSERT(block_size_fits(size_bytes));
    unsigned char *block = memory;
    put32(block, MAGIC);
    put32(block + AT_SIZE, size_bytes);
    put32(block + AT_WRITER, identity->writer);
    put64(block + AT_FILE, identity->file);
    put64(block + AT_OFFSET, identity->offset);
    put64(block + AT_SEQUENCE, identity->sequence);
    put64(block + AT_SEED, identity->seed);
    uint64_t word = first_word(identity);
    for (uint32_t at = HEADER_BYTES; at < size_bytes; at += WORD_BYTES, word += WORD_STEP)
        put64(block + at, word);
    put32(block + AT_CHECKSUM, block_checksum(block, size_bytes));
}

/* Find the bytes that are not what the header says; to the block's end: another write's. */
static void find_damage(const unsigned char *block, uint32_t size_bytes,
                        struct block_finding *finding)
{
    uint64_t word = first_word(&finding->identity);
    uint32_t wrong_words = 0;
    finding->first_bad = size_bytes;
    finding->end_bad = 0;
    for (uint32_t at = HEADER_BYTES; at < size_bytes; at += WORD_BYTES, word += WORD_STEP) {
        if (get64(block + at) == word)
            continue;
        if (finding->first_bad > at)
            finding->first_bad = at;
        finding->end_bad = at + WORD_BYTES;
        wrong_words++;
    }
    finding->state = BLOCK_DAMAGED;
    if (wrong_words == 0) { /* the words are right, so it is header or checksum */
        finding->first_bad = 0;
        finding->end_bad = HEADER_BYTES;
    } else if (finding->end_bad == size_bytes && finding->first_bad > HEADER_BYTES &&
               wrong_words > 1 &&
               wrong_words == (finding->end_bad - finding->first_bad) / WORD_BYTES) {
        finding->state = BLOCK_TORN;
    }
}

static bool is_zero(const unsigned char *bytes, uint32_t size_bytes)
{
    return bytes[0] == 0 && memcmp(bytes, bytes + 1, size_bytes - 1) == 0;
}

void block_judge(const void *memory, uint32_t size_bytes, uint64_t file, uint64_t offset,
                 struct block_finding *finding)
{
    const unsigned char *block = memory;
    *finding = (struct block_finding){.state = BLOCK_SOUND};
    if (get32(block) != MAGIC) {
        finding->state = is_zero(block, size_bytes) ? BLOCK_EMPTY : BLOCK_FOREIGN;
        return;
    }
    finding->size_bytes = get32(block + AT_SIZE);
    finding->identity = (struct block_identity){
        .file = get64(block + AT_FILE),
        .offset = get64(block + AT_OFFSET),
        .sequence = get64(block + AT_SEQUENCE),
        .seed = get64(block + AT_SEED),
        .writer = get32(block + AT_WRITER),
    };
    if (get32(block + AT_CHECKSUM) == block_checksum(block, size_bytes)) {
        if (finding->identity.file != file || finding->identity.offset != offset)
            finding->state = BLOCK_MISPLACED;
        return;
    }
    if (finding->size_bytes != size_bytes && block_size_fits(finding->size_bytes))
        finding->state = BLOCK_OTHER_SIZE;
    else
        find_damage(block, size_bytes, finding);
}

void block_fill_randomly(void *memory, uint32_t size_bytes, uint64_t seed)
{
    struct rng rng;
    rng_init(&rng, seed);
    unsigned char *bytes = memory;
    for (uint32_t at = 0; at < size_bytes; at += WORD_BYTES) {
        uint64_t word = rng_next(&rng);
        uint32_t left = size_bytes - at;
        memcpy(bytes + at, &word, left < WORD_BYTES ? left : WORD_BYTES);
    }
}

void block_describe(const struct block_finding *finding, const char *path, uint64_t offset,
                    char *text, size_t size_bytes)
{
    char what[256] = "";
    const struct block_identity *identity = &finding->identity;
    switch (finding->state) {
    case BLOCK_SOUND:
        snprintf(what, sizeof(what), "is sound");
        break;
    case BLOCK_EMPTY:
        snprintf(what, sizeof(what), "is all zero: it was never written, or the write was lost");
        break;
    case BLOCK_FOREIGN:
        snprintf(what, sizeof(what),
                 "is none that prepare or a run with --validate has written, or its "
                 "--file-block-size was another; prepare anew with --validate");
        break;
    case BLOCK_OTHER_SIZE:
        snprintf(what, sizeof(what), "was written with --file-block-size=%llu; give the same",
                 (unsigned long long)finding->size_bytes);
        break;
    case BLOCK_TORN:
        snprintf(what, sizeof(what),
                 "is torn: from its byte %u on it is not of the write that its beginning is of",
                 finding->first_bad);
        break;
    case BLOCK_DAMAGED:
        snprintf(what, sizeof(what), "is damaged: its bytes %u to %u are not all as written",
                 finding->first_bad, finding->end_bad - 1);
        break;
    case BLOCK_MISPLACED:
        snprintf(what, sizeof(what), "is misplaced: it belongs to test_file.%llu, offset %llu",
                 (unsigned long long)identity->file, (unsigned long long)identity->offset);
        break;
    }
    snprintf(text, size_bytes, "%s, offset %llu: the block %s", path, (unsigned long long)offset,
             what);
}

uint64_t block_sequence_start(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

/* ---- What a run knows of its blocks ---- */

enum { SEQUENCE_BITS = 31 };

#define BLOCK_TAKEN (UINT32_C(1) << SEQUENCE_BITS)

firn_rc fileio_blocks_open(const struct fileio_shape *shape, uint64_t seed,
                           struct fileio_blocks *blocks)
{
    blocks->states = memory_zalloc(shape->total_blocks, sizeof(*blocks->states));
    if (blocks->states == NULL)
        return rc_raise(FIRN_E_NOMEM, "no memory to keep track of %llu blocks for --validate",
                        (unsigned long long)shape->total_blocks);
    blocks->block_bytes = shape->block_bytes;
    blocks->seed = seed;
    blocks->sequence_start = block_sequence_start();
    return FIRN_OK;
}

void fileio_blocks_close(struct fileio_blocks *blocks)
{
    memory_free((void *)blocks->states);
    blocks->states = NULL;
}

bool fileio_blocks_take(struct fileio_blocks *blocks, uint64_t first, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t before =
            atomic_fetch_or_explicit(&blocks->states[first + i], BLOCK_TAKEN, memory_order_acquire);
        if ((before & BLOCK_TAKEN) != 0) {
            fileio_blocks_release(blocks, first, i);
            return false;
        }
    }
    return true;
}

void fileio_blocks_release(struct fileio_blocks *blocks, uint64_t first, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        atomic_fetch_and_explicit(&blocks->states[first + i], ~BLOCK_TAKEN, memory_order_release);
}

static uint32_t short_sequence(uint64_t sequence)
{
    return (uint32_t)sequence & ~BLOCK_TAKEN;
}

void fileio_blocks_fill(struct fileio_blocks *blocks, const struct fileio_access *access,
                        uint32_t writer, uint64_t sequence, void *buffer)
{
    struct block_identity identity = {
        .file = access->file,
        .offset = access->offset,
        .sequence = sequence,
        .seed = blocks->seed,
        .writer = writer,
    };
    for (uint32_t i = 0; i < access->block_count; i++) {
        block_fill((char *)buffer + (size_t)i * blocks->block_bytes, blocks->block_bytes,
                   &identity);
        identity.offset += blocks->block_bytes;
        atomic_store_explicit(&blocks->states[access->block + i],
                              BLOCK_TAKEN | short_sequence(sequence), memory_order_relaxed);
    }
}

firn_rc fileio_blocks_check(struct fileio_blocks *blocks, const struct fileio_access *access,
                            const char *path, const void *buffer)
{
    for (uint32_t i = 0; i < access->block_count; i++) {
        uint64_t offset = access->offset + (uint64_t)i * blocks->block_bytes;
        _Atomic uint32_t *state = &blocks->states[access->block + i];
        struct block_finding finding;
        block_judge((const char *)buffer + (size_t)i * blocks->block_bytes, blocks->block_bytes,
                    access->file, offset, &finding);
        if (finding.state != BLOCK_SOUND) {
            char text[512];
            block_describe(&finding, path, offset, text, sizeof(text));
            return rc_raise(FIRN_E_CORRUPT, "%s", text);
        }
        uint32_t found = short_sequence(finding.identity.sequence);
        uint32_t known = atomic_load_explicit(state, memory_order_relaxed) & ~BLOCK_TAKEN;
        if (known != 0 && known != found)
            return rc_raise(FIRN_E_CORRUPT,
                            "%s, offset %llu: the block is stale: it is sound, but this run has "
                            "written or read a later one there",
                            path, (unsigned long long)offset);
        atomic_store_explicit(state, BLOCK_TAKEN | found, memory_order_relaxed);
    }
    return FIRN_OK;
}
