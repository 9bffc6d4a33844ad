/* Any bytes are judged as what they are: a block that is called sound is one that block_fill makes,
   and every finding can be said. */
#include "base/check.h"
#include "bench/fileio_internal.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

enum { BLOCK_BYTES = 512 };

/* Only with luck would a fuzzer meet a checksum, so the input is also laid over a sound block. */
static void judge_block(const unsigned char *block)
{
    unsigned char expected[BLOCK_BYTES];
    struct block_finding finding;
    char text[1024];
    block_judge(block, BLOCK_BYTES, 1, 4096, &finding);
    if (finding.state == BLOCK_SOUND) {
        ENSURE(finding.identity.file == 1 && finding.identity.offset == 4096);
        block_fill(expected, BLOCK_BYTES, &finding.identity);
        ENSURE(memcmp(block, expected, BLOCK_BYTES) == 0);
        return;
    }
    block_describe(&finding, "test_file.1", 4096, text, sizeof(text));
    ENSURE(strncmp(text, "test_file.1", 11) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    unsigned char block[BLOCK_BYTES] = {0};
    size_t used = size_bytes < BLOCK_BYTES ? size_bytes : BLOCK_BYTES;
    memcpy(block, data, used);
    judge_block(block);
    struct block_identity identity = {.file = 1, .offset = 4096, .sequence = 7, .seed = 9};
    block_fill(block, BLOCK_BYTES, &identity);
    for (size_t i = 0; i < used; i++)
        block[i] ^= data[i];
    judge_block(block);
    return 0;
}
