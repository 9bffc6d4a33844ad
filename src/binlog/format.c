/*
 * The binary log's bytes.
 */
#include "binlog/format_internal.h"

#include "base/check.h"
#include "base/checksum.h"
#include "base/endian.h"
#include "page/change.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const char magic[8] = {'F', 'I', 'R', 'N', 'B', 'L', 'O', 'G'};

/* ---- File headers and names ---- */

enum {
    HEADER_CHECKSUM_AT = 8,
    HEADER_VERSION_AT = 12,
    HEADER_ENVIRONMENT_AT = 16,
    HEADER_FILE_AT = 32,
    HEADER_NUMBER_AT = 40,
    HEADER_TIME_AT = 48,
    HEADER_SERVER_AT = 56,
};
_Static_assert(HEADER_SERVER_AT + 8 == FILE_HEADER_BYTES, "a header's fields fill it");

static uint32_t header_checksum(const uint8_t *header)
{
    return checksum_crc32c(header + HEADER_VERSION_AT, FILE_HEADER_BYTES - HEADER_VERSION_AT);
}

void file_header_put(uint8_t *to, const struct file_header *header)
{
    memset(to, 0, FILE_HEADER_BYTES);
    memcpy(to, magic, sizeof magic);
    put_u32(to + HEADER_VERSION_AT, BINLOG_FORMAT_VERSION);
    memcpy(to + HEADER_ENVIRONMENT_AT, header->environment, sizeof header->environment);
    put_u64(to + HEADER_FILE_AT, header->file);
    put_u64(to + HEADER_NUMBER_AT, header->first_number);
    put_u64(to + HEADER_TIME_AT, header->first_time_us);
    put_u32(to + HEADER_SERVER_AT, header->server_id);
    put_u32(to + HEADER_CHECKSUM_AT, header_checksum(to));
}

uint32_t file_header_version(const uint8_t *from)
{
    return get_u32(from + HEADER_VERSION_AT);
}

firn_rc file_header_get(const uint8_t *from, struct file_header *header)
{
    if (memcmp(from, magic, sizeof magic) != 0)
        return FIRN_E_INVALID;
    if (get_u32(from + HEADER_CHECKSUM_AT) != header_checksum(from))
        return file_header_version(from) > BINLOG_FORMAT_VERSION ? FIRN_E_UNSUPPORTED
                                                                 : FIRN_E_CORRUPT;
    if (file_header_version(from) != BINLOG_FORMAT_VERSION)
        return FIRN_E_UNSUPPORTED;
    memcpy(header->environment, from + HEADER_ENVIRONMENT_AT, sizeof header->environment);
    header->file = get_u64(from + HEADER_FILE_AT);
    header->first_number = get_u64(from + HEADER_NUMBER_AT);
    header->first_time_us = get_u64(from + HEADER_TIME_AT);
    header->server_id = get_u32(from + HEADER_SERVER_AT);
    return FIRN_OK;
}

char *file_name(uint64_t file, char text[FILE_NAME_BYTES])
{
    snprintf(text, FILE_NAME_BYTES, BINLOG_FILE_PREFIX "%06" PRIu64, file);
    return text;
}

uint64_t file_number_of(const char *name)
{
    char text[FILE_NAME_BYTES];
    size_t prefix = sizeof(BINLOG_FILE_PREFIX) - 1;
    if (strncmp(name, BINLOG_FILE_PREFIX, prefix) != 0)
        return 0;
    uint64_t file = strtoull(name + prefix, NULL, 10);
    return file <= FILE_NUMBER_MAX && strcmp(name, file_name(file, text)) == 0 ? file : 0;
}

char *group_file_name(uint64_t txn_id, char text[FILE_NAME_BYTES])
{
    snprintf(text, FILE_NAME_BYTES, BINLOG_GROUP_PREFIX "%" PRIu64, txn_id);
    return text;
}

uint64_t group_file_txn(const char *name)
{
    char text[FILE_NAME_BYTES];
    size_t prefix = sizeof(BINLOG_GROUP_PREFIX) - 1;
    if (strncmp(name, BINLOG_GROUP_PREFIX, prefix) != 0)
        return 0;
    uint64_t txn_id = strtoull(name + prefix, NULL, 10);
    return txn_id < UINT64_C(1) << 48 && strcmp(name, group_file_name(txn_id, text)) == 0 ? txn_id
                                                                                          : 0;
}

/* ---- Events ---- */

enum {
    EVENT_CHECKSUM_AT = 4,
    EVENT_TYPE_AT = 8,
    /* Of BEGIN, COMMIT and ROTATE. */
    EVENT_WORD_AT = 12, /* server id; digest; zero */
    EVENT_POSITION_AT = 16,
    EVENT_NUMBER_AT = 24,
    BEGIN_TIME_AT = 32,
    BEGIN_TXN_AT = 40,
    BEGIN_SIZE_AT = 48,
    COMMIT_TIME_AT = 32,
    COMMIT_EVENTS_AT = 40,
};
_Static_assert(BEGIN_SIZE_AT + 8 == BEGIN_BYTES && COMMIT_EVENTS_AT + 8 == COMMIT_BYTES &&
                   EVENT_NUMBER_AT + 8 == ROTATE_BYTES && EVENT_TYPE_AT + 1 == EVENT_HEADER_BYTES,
               "events' fields fill them");

const char *binlog_event_name(enum binlog_event_type type)
{
    static const char *const names[BINLOG_EVENT_TYPES] = {
        [0] = "?",
        [BINLOG_BEGIN] = "begin",
        [BINLOG_COMMIT] = "commit",
        [BINLOG_TREE] = "tree",
        [BINLOG_INSERT] = "insert",
        [BINLOG_UPDATE] = "update",
        [BINLOG_DELETE] = "delete",
        [BINLOG_STATEMENT] = "statement",
        [BINLOG_ROTATE] = "rotate",
    };
    return names[(unsigned)type < BINLOG_EVENT_TYPES ? type : 0];
}

static uint32_t event_checksum(const uint8_t *event, size_t size_bytes)
{
    return checksum_crc32c_extend(checksum_crc32c(event, EVENT_CHECKSUM_AT), event + EVENT_TYPE_AT,
                                  size_bytes - EVENT_TYPE_AT);
}

void event_seal(uint8_t *event, size_t size_bytes, enum binlog_event_type type)
{
    ASSERT(size_bytes >= EVENT_HEADER_BYTES && size_bytes <= UINT32_MAX);
    put_u32(event, (uint32_t)size_bytes);
    event[EVENT_TYPE_AT] = (uint8_t)type;
    put_u32(event + EVENT_CHECKSUM_AT, event_checksum(event, size_bytes));
}

uint32_t event_size(const uint8_t *event)
{
    return get_u32(event);
}

bool event_is_whole(struct span bytes)
{
    return bytes.size_bytes >= EVENT_HEADER_BYTES && event_size(bytes.bytes) == bytes.size_bytes &&
           get_u32(bytes.bytes + EVENT_CHECKSUM_AT) ==
               event_checksum(bytes.bytes, bytes.size_bytes);
}

static void put_fixed(uint8_t *to, size_t size_bytes, uint32_t word, uint64_t position,
                      uint64_t number)
{
    memset(to, 0, size_bytes);
    put_u32(to + EVENT_WORD_AT, word);
    put_u64(to + EVENT_POSITION_AT, position);
    put_u64(to + EVENT_NUMBER_AT, number);
}

void begin_put(uint8_t to[BEGIN_BYTES], const struct binlog_event *event)
{
    put_fixed(to, BEGIN_BYTES, event->server_id, event->position, event->number);
    put_u64(to + BEGIN_TIME_AT, event->time_us);
    put_u64(to + BEGIN_TXN_AT, event->txn_id);
    put_u64(to + BEGIN_SIZE_AT, event->group_bytes);
    event_seal(to, BEGIN_BYTES, BINLOG_BEGIN);
}

void commit_put(uint8_t to[COMMIT_BYTES], const struct binlog_event *event)
{
    put_fixed(to, COMMIT_BYTES, event->digest, event->position, event->number);
    put_u64(to + COMMIT_TIME_AT, event->time_us);
    put_u64(to + COMMIT_EVENTS_AT, event->events);
    event_seal(to, COMMIT_BYTES, BINLOG_COMMIT);
}

void rotate_put(uint8_t to[ROTATE_BYTES], uint64_t position, uint64_t next_file)
{
    put_fixed(to, ROTATE_BYTES, 0, position, next_file);
    event_seal(to, ROTATE_BYTES, BINLOG_ROTATE);
}

/* ---- Events of any size ---- */

static size_t varint_bytes(uint64_t value)
{
    size_t size = 1;
    for (; value >= 0x80; value >>= 7)
        size++;
    return size;
}

static bool take_sized(struct span *from, struct span *bytes)
{
    uint64_t size_bytes;
    if (!change_get_varint(from, &size_bytes) || size_bytes > from->size_bytes)
        return false;
    *bytes = span_of(from->bytes, (size_t)size_bytes);
    *from = span_of(from->bytes + size_bytes, from->size_bytes - (size_t)size_bytes);
    return true;
}

static size_t put_bytes(uint8_t *to, struct span bytes)
{
    if (bytes.size_bytes > 0)
        memcpy(to, bytes.bytes, bytes.size_bytes);
    return bytes.size_bytes;
}

size_t tree_event_bytes(uint64_t tree_id, size_t name_bytes)
{
    return EVENT_HEADER_BYTES + varint_bytes(tree_id) + name_bytes;
}

void tree_event_put(uint8_t *to, uint64_t tree_id, struct span name)
{
    uint8_t *at = to + EVENT_HEADER_BYTES;
    at += change_put_varint(at, tree_id);
    put_bytes(at, name);
    event_seal(to, tree_event_bytes(tree_id, name.size_bytes), BINLOG_TREE);
}

uint64_t row_event_bytes(uint64_t tree_id, struct span key, const struct span *before,
                         const struct span *after)
{
    uint64_t size =
        EVENT_HEADER_BYTES + varint_bytes(tree_id) + varint_bytes(key.size_bytes) + key.size_bytes;
    if (before != NULL && after != NULL)
        size += varint_bytes(before->size_bytes);
    return size + (before != NULL ? before->size_bytes : 0) +
           (after != NULL ? after->size_bytes : 0);
}

void row_event_put(uint8_t *to, size_t size_bytes, uint64_t tree_id, struct span key,
                   const struct span *before, const struct span *after)
{
    enum binlog_event_type type = before == NULL  ? BINLOG_INSERT
                                  : after == NULL ? BINLOG_DELETE
                                                  : BINLOG_UPDATE;
    uint8_t *at = to + EVENT_HEADER_BYTES;
    at += change_put_varint(at, tree_id);
    at += change_put_varint(at, key.size_bytes);
    at += put_bytes(at, key);
    if (type == BINLOG_UPDATE)
        at += change_put_varint(at, before->size_bytes);
    if (before != NULL)
        at += put_bytes(at, *before);
    if (after != NULL)
        at += put_bytes(at, *after);
    ASSERT(at == to + size_bytes);
    event_seal(to, size_bytes, type);
}

/* ---- Decoding ---- */

static bool get_fixed(struct span bytes, size_t size_bytes, struct binlog_event *event)
{
    if (bytes.size_bytes != size_bytes)
        return false;
    event->server_id = get_u32(bytes.bytes + EVENT_WORD_AT);
    event->digest = event->server_id;
    event->position = get_u64(bytes.bytes + EVENT_POSITION_AT);
    event->number = get_u64(bytes.bytes + EVENT_NUMBER_AT);
    if (event->type == BINLOG_BEGIN) {
        event->time_us = get_u64(bytes.bytes + BEGIN_TIME_AT);
        event->txn_id = get_u64(bytes.bytes + BEGIN_TXN_AT);
        event->group_bytes = get_u64(bytes.bytes + BEGIN_SIZE_AT);
        return event->group_bytes >= GROUP_FRAME_BYTES &&
               event->group_bytes <= INT64_MAX - event->position;
    }
    if (event->type == BINLOG_COMMIT) {
        event->time_us = get_u64(bytes.bytes + COMMIT_TIME_AT);
        event->events = get_u64(bytes.bytes + COMMIT_EVENTS_AT);
    }
    return true;
}

static bool get_row(struct span body, struct binlog_event *event)
{
    if (!change_get_varint(&body, &event->tree_id) || !take_sized(&body, &event->key))
        return false;
    if (event->type == BINLOG_UPDATE && !take_sized(&body, &event->before))
        return false;
    if (event->type == BINLOG_DELETE)
        event->before = body;
    else
        event->after = body;
    return true;
}

bool binlog_event_get(struct span bytes, struct binlog_event *event)
{
    if (!event_is_whole(bytes))
        return false;
    *event = (struct binlog_event){.type = (enum binlog_event_type)bytes.bytes[EVENT_TYPE_AT]};
    struct span body =
        span_of(bytes.bytes + EVENT_HEADER_BYTES, bytes.size_bytes - EVENT_HEADER_BYTES);
    switch (event->type) {
    case BINLOG_BEGIN:
        return get_fixed(bytes, BEGIN_BYTES, event);
    case BINLOG_COMMIT:
        return get_fixed(bytes, COMMIT_BYTES, event);
    case BINLOG_ROTATE:
        return get_fixed(bytes, ROTATE_BYTES, event);
    case BINLOG_TREE:
        event->name = body;
        return change_get_varint(&event->name, &event->tree_id) && event->name.size_bytes > 0;
    case BINLOG_INSERT:
    case BINLOG_UPDATE:
    case BINLOG_DELETE:
        return get_row(body, event);
    case BINLOG_STATEMENT:
        event->text = body;
        return true;
    case BINLOG_EVENT_TYPES:
        break;
    }
    return false;
}

/* ---- Digests ---- */

/* The head of an event is complete: it is counted, and its end is known. */
static void take_head(struct digest *digest)
{
    uint32_t size_bytes = event_size(digest->head);
    if (size_bytes < EVENT_HEADER_BYTES) {
        digest->is_wrong = true;
        return;
    }
    digest->event_end += size_bytes;
    digest->events++;
    digest->checksum =
        checksum_crc32c_extend(digest->checksum, digest->head + EVENT_CHECKSUM_AT, 4);
    digest->running = checksum_crc32c(digest->head, EVENT_CHECKSUM_AT);
}

/* @return how many bytes of a piece belong to the head of an event */
static size_t add_head(struct digest *digest, struct span piece)
{
    size_t have = (size_t)(digest->at - digest->event_end);
    size_t step = sizeof digest->head - have;
    if (step > piece.size_bytes)
        step = piece.size_bytes;
    memcpy(digest->head + have, piece.bytes, step);
    if (have + step == sizeof digest->head)
        take_head(digest);
    return step;
}

/* The same of what is behind the head; at the event's end its checksum is judged. */
static size_t add_body(struct digest *digest, struct span piece)
{
    size_t step = piece.size_bytes;
    if (step > digest->event_end - digest->at)
        step = (size_t)(digest->event_end - digest->at);
    digest->running = checksum_crc32c_extend(digest->running, piece.bytes, step);
    if (digest->at + step == digest->event_end)
        digest->is_wrong = digest->running != get_u32(digest->head + EVENT_CHECKSUM_AT);
    return step;
}

void digest_add(struct digest *digest, struct span bytes)
{
    size_t seen = 0;
    while (seen < bytes.size_bytes && !digest->is_wrong) {
        struct span piece = span_of(bytes.bytes + seen, bytes.size_bytes - seen);
        size_t step =
            digest->at < digest->event_end ? add_body(digest, piece) : add_head(digest, piece);
        digest->at += step;
        seen += step;
    }
}

bool digest_is_whole(const struct digest *digest)
{
    return !digest->is_wrong && digest->at == digest->event_end;
}

/* ---- The log's record ---- */

enum {
    RECORD_SERVER_AT = 4,
    RECORD_FILE_AT = 8,
    RECORD_OFFSET_AT = 16,
    RECORD_NUMBER_AT = 24,
    RECORD_TIME_AT = 32,
    RECORD_TXN_AT = 40,
    RECORD_ROTATE_AT = 48,
    RECORD_EVENTS_AT = 56,
};
_Static_assert(RECORD_EVENTS_AT + 8 == RECORD_BYTES, "a record's fields fill it");

void record_put(uint8_t to[RECORD_BYTES], const struct group_place *place)
{
    memset(to, 0, RECORD_BYTES);
    to[0] = (uint8_t)place->kind;
    put_u32(to + RECORD_SERVER_AT, place->server_id);
    put_u64(to + RECORD_FILE_AT, place->file);
    put_u64(to + RECORD_OFFSET_AT, place->offset);
    put_u64(to + RECORD_NUMBER_AT, place->number);
    put_u64(to + RECORD_TIME_AT, place->time_us);
    put_u64(to + RECORD_TXN_AT, place->txn_id);
    put_u64(to + RECORD_ROTATE_AT, place->rotate_offset);
    put_u64(to + RECORD_EVENTS_AT, place->events_bytes);
}

bool record_get(struct span payload, struct group_place *place, struct span *events)
{
    const uint8_t *from = payload.bytes;
    if (payload.size_bytes < RECORD_BYTES)
        return false;
    *place = (struct group_place){
        .kind = (enum record_kind)from[0],
        .server_id = get_u32(from + RECORD_SERVER_AT),
        .file = get_u64(from + RECORD_FILE_AT),
        .offset = get_u64(from + RECORD_OFFSET_AT),
        .number = get_u64(from + RECORD_NUMBER_AT),
        .time_us = get_u64(from + RECORD_TIME_AT),
        .txn_id = get_u64(from + RECORD_TXN_AT),
        .rotate_offset = get_u64(from + RECORD_ROTATE_AT),
        .events_bytes = get_u64(from + RECORD_EVENTS_AT),
    };
    *events = span_of(from + RECORD_BYTES, payload.size_bytes - RECORD_BYTES);
    uint64_t limit = (uint64_t)INT64_MAX / 2;
    if (place->file == 0 || place->file > FILE_NUMBER_MAX || place->offset < FILE_HEADER_BYTES ||
        place->offset > limit || place->events_bytes > limit || place->rotate_offset > limit ||
        place->number == 0)
        return false;
    if (place->kind == RECORD_INLINE)
        return events->size_bytes == place->events_bytes;
    return place->kind == RECORD_FILE && events->size_bytes == 0;
}

void place_begin(uint8_t to[BEGIN_BYTES], const struct group_place *place)
{
    begin_put(to, &(struct binlog_event){.server_id = place->server_id,
                                         .position = place->offset,
                                         .number = place->number,
                                         .time_us = place->time_us,
                                         .txn_id = place->txn_id,
                                         .group_bytes = GROUP_FRAME_BYTES + place->events_bytes});
}

void place_commit(uint8_t to[COMMIT_BYTES], const struct group_place *place,
                  const struct digest *digest)
{
    commit_put(to, &(struct binlog_event){.digest = digest->checksum,
                                          .position = group_end(place) - COMMIT_BYTES,
                                          .number = place->number,
                                          .time_us = place->time_us,
                                          .events = digest->events});
}

void place_header(uint8_t to[FILE_HEADER_BYTES], const struct group_place *place,
                  const uint8_t environment[16])
{
    struct file_header header = {.file = place->file,
                                 .first_number = place->number,
                                 .first_time_us = place->time_us,
                                 .server_id = place->server_id};
    memcpy(header.environment, environment, sizeof header.environment);
    file_header_put(to, &header);
}
