/* Search of HNSW graphs by sketches of the rows: see graph.py.
 *
 * A query descends each graph through its upper levels. Then one best-first search goes through the
 * ground levels of all graphs together: they share one limit, so a graph that has nothing close
 * costs little. A score is a bucket, so a queue is a list for each bucket, and the limit is the
 * bucket from which on there are as many nodes as are wanted.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../compiled.h"

enum { BITS = 8, CACHE_LINE = 64, FIELDS = 4, LANES = 16, WIDE = 32, MIXED = 32, TOGETHER = 4, BUCKETS = 1 << 12, NODES = 1 << 16, NONE = -1 };

struct segment { /* laid out as graph.py packs it */
    const uint8_t *sketches;
    const int32_t *rows; /* by node; -1 for one that was removed before the file was read */
    const uint16_t *ground, *upper; /* of each node and level: how many links, then the links */
    const int32_t *places; /* of each node in `upper` */
    int64_t count, entry, levels; /* without links all nodes are scored */
};

struct found {
    int32_t next, node;
    uint16_t bucket, segment;
};

struct queue {
    int32_t first[BUCKETS], top;
};

struct search {
    const int8_t *query;
    int64_t width;
    float middle, scale;
    const struct segment *segments;
    int64_t links; /* at most of a node, at upper levels; twice as many at the ground */
    const uint8_t *alive;
    uint8_t *seen; /* a bit for each node of a graph */
    struct found *found;
    int32_t count, counts[BUCKETS], limit; /* counts of living nodes, and close ones from a bucket on */
    int64_t close, wanted;
    struct queue waiting, local;
};

/* Return the score of a sketch: its product with the query, from 0 to BUCKETS - 1. */
static AVX2 int32_t score_of(const struct search *search, const uint8_t *sketch)
{
    int32_t sum = 0;
#ifdef __x86_64__
    const __m256i field_mask = _mm256_set1_epi8(FIELDS - 1), ones = _mm256_set1_epi16(1);
    __m256i sums = _mm256_setzero_si256();
    for (int64_t place = 0; place < search->width; place += WIDE) {
        __m256i fields = _mm256_loadu_si256((const __m256i *)(sketch + place)), part = _mm256_setzero_si256();
        const int8_t *query = search->query + place;
        for (int field = 0; field < FIELDS; field++, query += search->width) {
            __m256i bytes = _mm256_and_si256(fields, field_mask);
            part = _mm256_add_epi16(part, _mm256_maddubs_epi16(bytes, _mm256_loadu_si256((const __m256i *)query)));
            fields = _mm256_srli_epi16(fields, 2);
        }
        sums = _mm256_add_epi32(sums, _mm256_madd_epi16(part, ones));
    }
    __m128i half = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
    half = _mm_add_epi32(half, _mm_unpackhi_epi64(half, half));
    sum = _mm_cvtsi128_si32(half) + _mm_extract_epi32(half, 1);
#else
    for (int64_t place = 0; place < search->width; place += WIDE) {
        const int8_t *query = search->query + place;
        int16_t part[WIDE] = {0};
        for (int field = 0; field < FIELDS; field++, query += search->width)
            for (int byte = 0; byte < WIDE; byte++)
                part[byte] += (int8_t)(sketch[place + byte] >> 2 * field & (FIELDS - 1)) * query[byte];
        for (int byte = 0; byte < WIDE; byte++) sum += part[byte];
    }
#endif
    int32_t bucket = (int32_t)(((float)sum - search->middle) * search->scale) + BUCKETS / 2;
    return bucket < 0 ? 0 : bucket < BUCKETS ? bucket : BUCKETS - 1;
}

static AVX2 int32_t score_at(const struct search *search, const struct segment *segment, int64_t node)
{
    return score_of(search, segment->sketches + node * search->width);
}

static void prefetch(const struct search *search, const struct segment *segment, int64_t node)
{
    const uint8_t *sketch = segment->sketches + node * search->width;
    const uint8_t *line = sketch - (uintptr_t)sketch % CACHE_LINE;
    for (; line < sketch + search->width; line += CACHE_LINE) __builtin_prefetch(line);
    __builtin_prefetch(segment->rows + node);
}

static void empty(struct queue *queue)
{
    memset(queue->first, NONE, sizeof queue->first);
    queue->top = 0;
}

static void push(struct search *search, struct queue *queue, int32_t item)
{
    int32_t bucket = search->found[item].bucket;
    search->found[item].next = queue->first[bucket];
    queue->first[bucket] = item;
    if (bucket > queue->top) queue->top = bucket;
}

/* Return the best item of at least this bucket, or NONE. */
static int32_t pop(struct search *search, struct queue *queue, int32_t least)
{
    for (; queue->top >= least; queue->top--) {
        int32_t item = queue->first[queue->top];
        if (item == NONE) continue;
        queue->first[queue->top] = search->found[item].next;
        return item;
    }
    queue->top = 0;
    return NONE;
}

static int lives(const struct search *search, int64_t segment, int64_t node)
{
    int32_t row = search->segments[segment].rows[node];
    return row >= 0 && search->alive[row];
}

/* Return the least bucket that is close enough, even if only some of its nodes are. */
static int32_t least_bucket(const struct search *search)
{
    return search->limit + (search->close >= search->wanted);
}

/* Note a node and return its item; the limit rises with the living ones. */
static int32_t note(struct search *search, int64_t segment, int64_t node, int32_t bucket)
{
    search->found[search->count] = (struct found){NONE, (int32_t)node, (uint16_t)bucket, (uint16_t)segment};
    if (bucket >= least_bucket(search) && lives(search, segment, node)) {
        search->counts[bucket]++;
        search->close++;
        while (search->close - search->counts[search->limit] >= search->wanted)
            search->close -= search->counts[search->limit++];
    }
    return search->count++;
}

static int see(struct search *search, int64_t segment, int64_t node)
{
    uint8_t bit = (uint8_t)(1 << node % BITS), *byte = search->seen + (segment * NODES + node) / BITS;
    int fresh = !(*byte & bit);
    *byte |= bit;
    return fresh;
}

/* Expand the best nodes of a queue, at most `most` and a few together, so that reads overlap: score
 * their links that nobody has seen. Close ones are added to the queue; with `everything`, the
 * others are too. Returns how many were expanded. */
static AVX2 int expand(struct search *search, struct queue *queue, int64_t most, int everything)
{
    const uint16_t *links[TOGETHER];
    struct found from[TOGETHER], fresh[TOGETHER * UINT8_MAX + 1];
    int expanded = 0, count = 0;
    for (int32_t item; expanded < TOGETHER && expanded < most; expanded++) {
        item = pop(search, queue, everything ? 0 : least_bucket(search));
        if (item == NONE) break;
        from[expanded] = search->found[item];
        const uint16_t *ground = search->segments[from[expanded].segment].ground;
        links[expanded] = ground + from[expanded].node * (2 * search->links + 1);
        __builtin_prefetch(links[expanded]);
        __builtin_prefetch(links[expanded] + 2 * search->links);
    }
    for (int place = 0; place < expanded; place++)
        for (int link = 1; link <= links[place][0]; link++) {
            struct found one = {.node = links[place][link], .segment = from[place].segment};
            fresh[count] = one;
            count += see(search, one.segment, one.node);
        }
    for (struct found *one = fresh; one < fresh + count; one++)
        prefetch(search, search->segments + one->segment, one->node);
    for (struct found *one = fresh; one < fresh + count; one++) {
        int32_t bucket = score_at(search, search->segments + one->segment, one->node);
        if (everything || bucket >= least_bucket(search))
            push(search, queue, note(search, one->segment, one->node, bucket));
    }
    return expanded;
}

/* Return the node of the lowest level but the ground that is closest, as a greedy descent finds it. */
static AVX2 int32_t descended(struct search *search, int64_t number)
{
    const struct segment *segment = search->segments + number;
    int64_t at = segment->entry;
    int32_t best = score_at(search, segment, at);
    for (int64_t level = segment->levels; level > 0;) {
        const uint16_t *links = segment->upper + segment->places[at] + (level - 1) * (search->links + 1);
        int64_t from = at;
        for (int link = 1; link <= links[0]; link++) prefetch(search, segment, links[link]);
        for (int link = 1; link <= links[0]; link++) {
            int32_t bucket = score_at(search, segment, links[link]);
            if (bucket > best) best = bucket, at = links[link];
        }
        if (at == from) level--;
    }
    see(search, number, at);
    return note(search, number, at, best);
}

static AVX2 void search_all(struct search *search, int64_t segments, int64_t least)
{
    int32_t item;
    for (int64_t number = 0; number < segments; number++) {
        const struct segment *segment = search->segments + number;
        if (!segment->ground) {
            for (int64_t node = 0; node < segment->count; node++) {
                int32_t bucket = score_at(search, segment, node);
                if (bucket >= least_bucket(search)) note(search, number, node, bucket);
            }
            continue;
        }
        empty(&search->local);
        push(search, &search->local, descended(search, number));
        for (int64_t left = least, done = 1; left > 0 && done; left -= done)
            done = expand(search, &search->local, left, 1);
        while ((item = pop(search, &search->local, least_bucket(search))) != NONE)
            push(search, &search->waiting, item);
    }
    while (expand(search, &search->waiting, TOGETHER, 0)) continue;
}

/* Write the living rows that are closest to a query, `wanted` or a few more of the last bucket, but
 * at most 2 `kept`; return how many, or -1 if there is no memory. The best `kept` nodes are expanded,
 * and at least `least` in each graph. The query has a byte for each field of a sketch: first all
 * first fields. */
EXPORT int64_t graph_near(
    const int8_t *query, int64_t width, float middle, float scale, const struct segment *segments,
    int64_t segment_count, int64_t links, const uint8_t *alive, int64_t least, int64_t kept, int64_t wanted,
    int64_t *found)
{
    struct search search = {
        .query = query, .width = width, .middle = middle, .scale = scale,
        .segments = segments, .links = links, .alive = alive, .wanted = kept,
    };
    int64_t nodes = 0, rows = -1;
    for (int64_t number = 0; number < segment_count; number++) nodes += segments[number].count;
    search.seen = calloc(segment_count, NODES / BITS);
    search.found = malloc(nodes * sizeof *search.found); /* pages that are never written take none */
    if (search.seen && search.found) {
        empty(&search.waiting);
        search_all(&search, segment_count, least);
        int32_t limit = search.limit;
        for (; search.close - search.counts[limit] >= wanted; limit++) search.close -= search.counts[limit];
        rows = 0;
        for (int32_t item = 0; item < search.count && rows < 2 * kept; item++) {
            struct found one = search.found[item];
            if (one.bucket >= limit && lives(&search, one.segment, one.node))
                found[rows++] = segments[one.segment].rows[one.node];
        }
    }
    free(search.seen);
    free(search.found);
    return rows;
}

/* Write two bits for each mixed coordinate of v - centre, `width` bytes for each row: whether it is
 * below zero, and whether it is far from it. A field of byte n is of the coordinate n, the next one
 * of that `width` further on. A row of -1 is left out. */
EXPORT AVX2 void graph_sketch(
    const int8_t *codes, const float *steps, int64_t dimension, const int32_t *rows, int64_t count,
    const float *centre, int64_t width, float *buffer, uint8_t *sketches)
{
    const int64_t mixed = width * FIELDS;
    for (int64_t node = 0; node < count; node++, sketches += width) {
        if (rows[node] < 0) continue;
        const int8_t *code = codes + rows[node] * dimension;
        const float step = steps[rows[node]];
        for (int64_t place = 0; place < dimension; place++) buffer[place] = code[place] * step - centre[place];
        for (int64_t place = dimension; place < mixed; place++) buffer[place] = 0;
        for (int64_t half = mixed / 2; half >= mixed / MIXED; half /= 2)
            for (float *one = buffer; one < buffer + mixed; one += 2 * half)
                for (int64_t place = 0; place < half; place++) {
                    float sum = one[place] + one[half + place];
                    one[half + place] = one[place] - one[half + place];
                    one[place] = sum;
                }
        float squares[LANES] = {0}, square = 0;
        for (int64_t place = 0; place < mixed; place += LANES)
            for (int lane = 0; lane < LANES; lane++) squares[lane] += buffer[place + lane] * buffer[place + lane];
        for (int lane = 0; lane < LANES; lane++) square += squares[lane];
        const float scale = square > 0 ? __builtin_sqrtf((float)mixed / square) : 0;
        for (int64_t place = 0; place < width; place++) {
            int byte = 0;
            for (int field = 0; field < FIELDS; field++) {
                float value = buffer[field * width + place] * scale + FIELDS / 2;
                int level = (int)(value < 0 ? 0 : value > FIELDS - 1 ? FIELDS - 1 : value);
                byte |= level << 2 * field;
            }
            sketches[place] = (uint8_t)byte;
        }
    }
}
