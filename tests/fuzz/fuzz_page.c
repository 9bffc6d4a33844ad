/* Any bytes may be a page: readers survive them, and what slotted_check calls sound bears every
   change. */
#include "../page/page_exercise.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

enum { SIZE = PAGE_SIZE_MIN };

/* Only with luck would a fuzzer meet a sound page, so the input is also laid over one, as triples
   of offset and difference. */
static void lay_over(uint8_t *page, const uint8_t *data, size_t size_bytes)
{
    for (size_t i = 0; i + 3 <= size_bytes; i += 3)
        page[get_u16(data + i) % SIZE] ^= data[i + 2];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    uint8_t *page = malloc(SIZE); /* of just its size, so that the sanitizer sees reads beyond it */
    ENSURE(page != NULL);
    memset(page, 0, SIZE);
    memcpy(page, data, size_bytes < SIZE ? size_bytes : SIZE);
    exercise_page(page, SIZE, size_bytes);
    for (uint16_t level = 0; level < 2; level++) {
        exercise_make(page, SIZE, level);
        lay_over(page, data, size_bytes);
        exercise_page(page, SIZE, size_bytes);
    }
    free(page);
    return 0;
}
