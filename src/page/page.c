#include "page/page.h"

#include "base/check.h"
#include "base/checksum.h"

enum { PAGE_VERSION = 1 };

_Static_assert(PAGE_AT_NUMBER == PAGE_AT_CHECKSUM + 4, "the checksum covers all behind it");
_Static_assert(PAGE_AT_SPACE == PAGE_AT_NUMBER + 4, "page header");
_Static_assert(PAGE_AT_TYPE == PAGE_AT_SPACE + 4, "page header");
_Static_assert(PAGE_AT_VERSION == PAGE_AT_TYPE + 2, "page header");
_Static_assert(PAGE_AT_LSN == PAGE_AT_VERSION + 2 && PAGE_AT_LSN % 8 == 0, "page header");
_Static_assert(PAGE_HEADER_BYTES == PAGE_AT_LSN + 8, "the body follows the header");

void page_init(uint8_t *page, uint32_t page_size_bytes, uint64_t page_id, enum page_type type)
{
    ASSERT(page_size_is_valid(page_size_bytes));
    memset(page, 0, page_size_bytes);
    put_u32(page + PAGE_AT_NUMBER, page_id_number(page_id));
    put_u32(page + PAGE_AT_SPACE, page_id_space(page_id));
    put_u16(page + PAGE_AT_TYPE, (uint16_t)type);
    put_u16(page + PAGE_AT_VERSION, PAGE_VERSION);
}

static uint32_t checksum_of(const uint8_t *page, uint32_t page_size_bytes)
{
    return checksum_crc32c(page + PAGE_AT_NUMBER, page_size_bytes - PAGE_AT_NUMBER);
}

void page_seal(uint8_t *page, uint32_t page_size_bytes)
{
    put_u32(page + PAGE_AT_CHECKSUM, checksum_of(page, page_size_bytes));
}

static bool is_zero(const uint8_t *page, uint32_t page_size_bytes)
{
    return get_u64(page) == 0 && memcmp(page, page + 8, page_size_bytes - 8) == 0;
}

enum page_state page_verify(const uint8_t *page, uint32_t page_size_bytes, uint64_t page_id,
                            uint64_t lsn_limit)
{
    ASSERT(page_size_is_valid(page_size_bytes));
    if (get_u32(page + PAGE_AT_CHECKSUM) != checksum_of(page, page_size_bytes))
        return is_zero(page, page_size_bytes) ? PAGE_ZERO : PAGE_DAMAGED;
    if (page_id_of(page_space(page), page_number(page)) != page_id)
        return PAGE_MISPLACED;
    if (get_u16(page + PAGE_AT_VERSION) != PAGE_VERSION || page_type(page) >= PAGE_TYPE_COUNT)
        return PAGE_UNKNOWN;
    return page_lsn(page) > lsn_limit ? PAGE_FROM_AHEAD : PAGE_GOOD;
}

const char *page_state_text(enum page_state state)
{
    switch (state) {
    case PAGE_GOOD:
        return "is sound";
    case PAGE_ZERO:
        return "is all zeros (it was never written)";
    case PAGE_DAMAGED:
        return "is torn or damaged (its checksum does not fit)";
    case PAGE_MISPLACED:
        return "is another page (a misdirected write, or files were swapped)";
    case PAGE_FROM_AHEAD:
        return "is of a later time than the log (the redo files are lost or of another directory)";
    case PAGE_UNKNOWN:
        return "is of a type or version that this program does not know (a newer program wrote it)";
    }
    return "is in an unknown state";
}
