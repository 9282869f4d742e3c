/* Rows of events packed, read and checked many at a time: what Python does by frame.py, one by one.
 *
 * A row is plain if its frame has its payload as it was encoded: not compressed, encrypted, archived
 * or erased. Whatever is not plain, or not as it should be, is left to Python: so what is said of damage
 * is said in one place. No byte behind a row is read, whatever the row says. The layout of a
 * frame is that of frame.py.
 */

#include <string.h>

#include "compiled.h"

enum { POSITION_BYTES = 8, STREAM_BYTES = 16, VERSION_BYTES = 8, KEY_ID_BYTES = 16, CRC_BYTES = 4 };
enum { FORMAT = 1, SALT_BYTES = 16, TAG_BYTES_MAX = 255, META_LENGTH_BYTES = 2 };
enum { /* where in a frame */
    FORMAT_AT = CRC_BYTES,
    FLAGS_AT = FORMAT_AT + 1,
    SCHEMA_AT = FLAGS_AT + 1,
    TAG_BYTES_AT = SCHEMA_AT + 2,
    STREAM_AT = TAG_BYTES_AT + 1,
    VERSION_AT = STREAM_AT + STREAM_BYTES,
    TIME_AT = VERSION_AT + VERSION_BYTES,
    RAW_BYTES_AT = TIME_AT + 8,
    STORED_BYTES_AT = RAW_BYTES_AT + 4,
    DIGEST_AT = STORED_BYTES_AT + 4,
    CHAIN_AT = DIGEST_AT + SHA256_BYTES,
    TAG_AT = CHAIN_AT + SHA256_BYTES,
    TYPE_BYTES = STREAM_AT - SCHEMA_AT, /* before the tag, of what a type is */
    FIELDS_BYTES = DIGEST_AT - FORMAT_AT,
};

struct stream_end { /* END of event_walk.py */
    uint64_t version, stored_bytes, events, erasing;
    uint8_t chain[SHA256_BYTES];
};

static int is_plain(const uint8_t *frame, size_t length)
{
    if (length < TAG_AT + SALT_BYTES || length - TAG_AT - SALT_BYTES < frame[TAG_BYTES_AT]) return 0;
    return frame[FORMAT_AT] == FORMAT && frame[FLAGS_AT] == 0;
}

static uint32_t crc_of(const uint8_t *frame, size_t length, uint64_t position)
{
    return crc32_of(frame + CRC_BYTES, length - CRC_BYTES) ^ (uint32_t)(position ^ position >> 32);
}

static uint8_t *put(uint8_t *to, const uint8_t *data, size_t length)
{
    memcpy(to, data, length);
    return to + length;
}

/* Write the chain value of a frame that has all else, behind the one before. */
static void chain_of(const uint8_t *frame, const uint8_t *before, uint8_t chain[SHA256_BYTES])
{
    uint8_t covered[SHA256_BYTES + 1 + DIGEST_AT - SCHEMA_AT + TAG_BYTES_MAX + SHA256_BYTES], *to = covered;
    to = put(to, before, SHA256_BYTES);
    *to++ = FORMAT;
    to = put(to, frame + SCHEMA_AT, DIGEST_AT - SCHEMA_AT);
    to = put(to, frame + TAG_AT, frame[TAG_BYTES_AT]);
    to = put(to, frame + DIGEST_AT, SHA256_BYTES);
    sha256(covered, (size_t)(to - covered), chain);
}

/* Say whether digest and chain follow from the payload and the chain before. */
static int follows(const uint8_t *frame, size_t length, const uint8_t *before)
{
    uint8_t digest[SHA256_BYTES];
    size_t payload_at = TAG_AT + frame[TAG_BYTES_AT];
    chain_of(frame, before, digest);
    if (memcmp(digest, frame + CHAIN_AT, SHA256_BYTES)) return 0;
    sha256(frame + payload_at, length - payload_at, digest);
    return !memcmp(digest, frame + DIGEST_AT, SHA256_BYTES);
}

static int is_next(const struct stream_end *end, uint64_t version)
{
    return version != 0 && version - 1 == end->version && version > end->erasing;
}

static void take(struct stream_end *end, const uint8_t *frame)
{
    end->version = u64_at(frame + VERSION_AT);
    end->stored_bytes += u32_at(frame + STORED_BYTES_AT);
    end->events++;
    memcpy(end->chain, frame + CHAIN_AT, SHA256_BYTES);
}

/* Return the number of an event's type, -1 if it is none of these; and write where its data starts.
 * A type is as a frame has it: schema, length of the tag, tag. */
static int64_t type_of(
    const uint8_t *frame, size_t length, const uint8_t *types, int64_t count, int64_t *data_at)
{
    size_t tag_bytes = frame[TAG_BYTES_AT], payload_at = TAG_AT + tag_bytes + SALT_BYTES;
    if (length - payload_at < META_LENGTH_BYTES) return -1;
    *data_at = (int64_t)(payload_at + META_LENGTH_BYTES) + (frame[payload_at] << 8 | frame[payload_at + 1]);
    if (*data_at > (int64_t)length) return -1;
    for (int64_t type = 0; type < count; type++, types += TYPE_BYTES + types[TYPE_BYTES - 1])
        if (!memcmp(types, frame + SCHEMA_AT, TYPE_BYTES) && !memcmp(types + TYPE_BYTES, frame + TAG_AT, tag_bytes))
            return type;
    return -1;
}

/* --- called from plain_events.py: parts are joined, and each goes up to where the next one starts */

/* Write the frames of events behind a position, and where each starts. An event is its fields as a
 * frame has them, tag, salt, raw payload and, where that is stored compressed, stored payload. The
 * number of its stream is in `of`; `chains` has the chain value of each, and gets the last one. */
EXPORT void pack_events(
    const uint8_t *events, const int64_t *of, int64_t count, uint64_t position, uint8_t *chains,
    uint8_t *frames, int64_t *starts)
{
    for (starts[0] = 0; count--; starts++) {
        uint8_t *frame = frames + starts[0], *chain = chains + SHA256_BYTES * *of++;
        memcpy(frame + FORMAT_AT, events, FIELDS_BYTES);
        size_t raw_bytes = u32_at(frame + RAW_BYTES_AT), stored_bytes = u32_at(frame + STORED_BYTES_AT);
        const uint8_t *tag = events + FIELDS_BYTES, *salt = tag + frame[TAG_BYTES_AT], *body = salt + SALT_BYTES;
        uint8_t *to = put(frame + TAG_AT, tag, frame[TAG_BYTES_AT]);
        sha256(salt, SALT_BYTES + raw_bytes, frame + DIGEST_AT);
        chain_of(frame, chain, frame + CHAIN_AT);
        memcpy(chain, frame + CHAIN_AT, SHA256_BYTES);
        if (frame[FLAGS_AT]) body += raw_bytes;
        to = put(put(to, salt, SALT_BYTES), body, stored_bytes);
        put_u32(frame, crc_of(frame, (size_t)(to - frame), ++position));
        events = body + stored_bytes;
        starts[1] = to - frames;
    }
}

struct read_event {
    uint64_t position, recorded_at_us;
    uint32_t raw_bytes, stored_bytes;
    int64_t type, meta_at, data_at;
};

/* Read the rows of a stream at packed positions. The type of a row that is not plain, not whole, not of
 * its version or of none of the types is -1. */
EXPORT void read_plain(
    const uint8_t *types, int64_t types_count, const uint8_t *positions, const uint8_t *frames,
    const int64_t *starts, const uint8_t *stream, const uint64_t *versions, int64_t count,
    struct read_event *read)
{
    for (; count--; positions += POSITION_BYTES, starts++, versions++, read++) {
        const uint8_t *frame = frames + starts[0];
        size_t length = (size_t)(starts[1] - starts[0]);
        read->type = -1;
        read->position = u64_at(positions);
        if (!is_plain(frame, length) || crc_of(frame, length, read->position) != u32_at(frame)) continue;
        if (memcmp(frame + STREAM_AT, stream, STREAM_BYTES) || u64_at(frame + VERSION_AT) != *versions) continue;
        read->recorded_at_us = u64_at(frame + TIME_AT);
        read->raw_bytes = u32_at(frame + RAW_BYTES_AT);
        read->stored_bytes = u32_at(frame + STORED_BYTES_AT);
        read->meta_at = TAG_AT + frame[TAG_BYTES_AT] + SALT_BYTES + META_LENGTH_BYTES;
        read->type = type_of(frame, length, types, types_count, &read->data_at);
    }
}

struct plain_event { /* its row in the index of versions, and where its data is */
    uint8_t version[STREAM_BYTES + VERSION_BYTES], position[POSITION_BYTES];
    int64_t type, data_at;
};

/* Take the rows that are plain and whole, from the first on, up to one that is not: they are at
 * `position` and behind it, each is the next of its stream, whose end is at `ends`, and of one of the
 * types. Return how many. */
EXPORT int64_t take_plain(
    const uint8_t *types, int64_t types_count, const uint8_t *keys, const uint8_t *frames,
    const int64_t *starts, struct stream_end *const *ends, int64_t first, int64_t count,
    uint64_t position, struct plain_event *plain)
{
    for (int64_t row = first; row < count; row++, position++, plain++) {
        const uint8_t *key = keys + POSITION_BYTES * row, *frame = frames + starts[row];
        size_t length = (size_t)(starts[row + 1] - starts[row]);
        /* no event is at 0: there, more than 64 bits were counted */
        if (u64_at(key) != position || position == 0 || !is_plain(frame, length)) return row - first;
        plain->type = type_of(frame, length, types, types_count, &plain->data_at);
        if (plain->type < 0 || crc_of(frame, length, position) != u32_at(frame)) return row - first;
        if (!is_next(ends[row], u64_at(frame + VERSION_AT))) return row - first;
        if (!follows(frame, length, ends[row]->chain)) return row - first;
        take(ends[row], frame);
        memcpy(plain->version, frame + STREAM_AT, sizeof plain->version);
        memcpy(plain->position, key, sizeof plain->position);
    }
    return count - first;
}

/* Write the rows that events have in the index of keys: stream, key id and version, and the CRC of
 * these. `of` is the number of the frame of each key; take_plain took it. */
EXPORT void rows_of_keys(
    const uint8_t *keys, const int64_t *key_starts, const uint8_t *frames,
    const int64_t *starts, const int64_t *of, int64_t count, uint8_t *rows)
{
    enum { ROW_BYTES = STREAM_BYTES + KEY_ID_BYTES + VERSION_BYTES };
    for (int64_t key = 0; key < count; key++, rows += CRC_BYTES) {
        const uint8_t *frame = frames + starts[of[key]];
        uint8_t digest[SHA256_BYTES];
        sha256(keys + key_starts[key], (size_t)(key_starts[key + 1] - key_starts[key]), digest);
        rows = put(rows, frame + STREAM_AT, STREAM_BYTES);
        rows = put(rows, digest, KEY_ID_BYTES);
        rows = put(rows, frame + VERSION_AT, VERSION_BYTES);
        put_u32(rows, crc32_of(rows - ROW_BYTES, ROW_BYTES));
    }
}
