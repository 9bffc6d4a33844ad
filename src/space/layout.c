#include "space/layout_internal.h"

#include "base/checksum.h"

static uint32_t identity_crc(const uint8_t *sector)
{
    return checksum_crc32c(sector + AT_MAGIC, AT_IDENTITY_CRC - AT_MAGIC);
}

static void identity_put(uint8_t *page0, const struct space_identity *identity)
{
    size_t name_size = strlen(identity->name);
    memcpy(page0 + AT_MAGIC, SPACE_MAGIC, sizeof SPACE_MAGIC - 1);
    put_u32(page0 + AT_FORMAT_VERSION, SPACE_FORMAT_VERSION);
    put_u32(page0 + AT_PAGE_SIZE, identity->page_size_bytes);
    memcpy(page0 + AT_ENVIRONMENT, identity->environment, sizeof identity->environment);
    put_u32(page0 + AT_SPACE_ID, identity->space);
    put_u16(page0 + AT_CLASS, (uint16_t)identity->class);
    put_u16(page0 + AT_NAME_SIZE, (uint16_t)name_size);
    memcpy(page0 + AT_NAME, identity->name, name_size);
    put_u32(page0 + AT_IDENTITY_CRC, identity_crc(page0));
}

void layout_make(uint8_t *pages, const struct space_identity *identity, uint64_t lsn)
{
    uint32_t page_size_bytes = identity->page_size_bytes;
    uint8_t *page0 = pages;
    uint8_t *map = pages + page_size_bytes;
    page_init(page0, page_size_bytes, page_id_of(identity->space, 0), PAGE_TYPE_SPACE);
    identity_put(page0, identity);
    struct space_head head = {.pages = SPACE_PAGES_INITIAL,
                              .extents = 1,
                              .shared_free = SPACE_PAGES_INITIAL - 2,
                              .used = 2};
    head_put_counters(page0 + AT_HEAD, &head);
    put_u32(page0 + AT_ENTRY, PAGE_NONE);
    put_u32(page0 + AT_LIMBO, PAGE_NONE);
    put_u32(page0 + AT_NEXT_SPACE, SPACE_SYSTEM + 1);
    page_init(map, page_size_bytes, page_id_of(identity->space, 1), PAGE_TYPE_MAP);
    put_u64(map + AT_DESCRIPTORS + 8, 3); /* page 0 and this one */
    for (unsigned i = 0; i < 2; i++) {
        page_set_lsn(pages + (size_t)i * page_size_bytes, lsn);
        page_seal(pages + (size_t)i * page_size_bytes, page_size_bytes);
    }
}

static bool is_zero(const uint8_t *bytes, size_t size_bytes)
{
    return bytes[0] == 0 && memcmp(bytes, bytes + 1, size_bytes - 1) == 0;
}

enum identity_state identity_get(const uint8_t *sector, struct space_identity *identity,
                                 uint32_t *version)
{
    if (is_zero(sector, IDENTITY_SECTOR_BYTES))
        return IDENTITY_ABSENT;
    if (memcmp(sector + AT_MAGIC, SPACE_MAGIC, sizeof SPACE_MAGIC - 1) != 0)
        return IDENTITY_FOREIGN;
    uint32_t found = get_u32(sector + AT_FORMAT_VERSION);
    size_t name_size = get_u16(sector + AT_NAME_SIZE);
    bool whole = get_u32(sector + AT_IDENTITY_CRC) == identity_crc(sector);
    if (found > SPACE_FORMAT_VERSION) {
        *version = found;
        return IDENTITY_NEWER;
    }
    if (!whole || found != SPACE_FORMAT_VERSION || get_u16(sector + AT_CLASS) >= IO_CLASS_COUNT ||
        name_size > SPACE_NAME_MAX || !name_is_valid((const char *)sector + AT_NAME, name_size))
        return IDENTITY_DAMAGED;
    *identity = (struct space_identity){
        .page_size_bytes = get_u32(sector + AT_PAGE_SIZE),
        .space = get_u32(sector + AT_SPACE_ID),
        .class = (enum io_class)get_u16(sector + AT_CLASS),
    };
    memcpy(identity->environment, sector + AT_ENVIRONMENT, sizeof identity->environment);
    memcpy(identity->name, sector + AT_NAME, name_size);
    *version = found;
    return IDENTITY_GOOD;
}

/* ---- Names ---- */

/* Returns the size of the well-formed UTF-8 sequence of more than one byte that a text begins with,
 * else 0 (the Unicode standard's table 3-7). */
static size_t utf8_sequence(const uint8_t *text, size_t size_bytes)
{
    uint8_t first = text[0];
    size_t length = first >= 0xc2 && first <= 0xdf   ? 2
                    : first >= 0xe0 && first <= 0xef ? 3
                    : first >= 0xf0 && first <= 0xf4 ? 4
                                                     : 0;
    if (length == 0 || length > size_bytes)
        return 0;
    uint8_t low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    uint8_t high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    if (text[1] < low || text[1] > high)
        return 0;
    for (size_t i = 2; i < length; i++)
        if (text[i] < 0x80 || text[i] > 0xbf)
            return 0;
    return length;
}

static bool is_plain(uint8_t letter)
{
    return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
           (letter >= '0' && letter <= '9') || (letter != 0 && strchr("_-.$", letter) != NULL);
}

bool name_is_valid(const char *name, size_t size_bytes)
{
    const uint8_t *text = (const uint8_t *)name;
    if (size_bytes == 0 || size_bytes > SPACE_NAME_MAX || text[0] == '.')
        return false;
    for (size_t at = 0; at < size_bytes;) {
        size_t length = is_plain(text[at]) ? 1 : utf8_sequence(text + at, size_bytes - at);
        if (length == 0)
            return false;
        at += length;
    }
    return true;
}
