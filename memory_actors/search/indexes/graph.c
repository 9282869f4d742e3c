/* Search of HNSW graphs over coded rows: see graph.py.
 *
 * A query descends each segment through its upper levels. Then one best-first search goes through the
 * ground levels of all segments together: their rows share one list of the best, so a segment that has
 * nothing close costs little. Rows are scored by the centred cosine, from their int8 codes.
 */

#include <immintrin.h>
#include <stdint.h>
#include <stdlib.h>

#include "../compiled.h"

enum { BITS = 8, CACHE_LINE = 64 };

struct rows {
    const int8_t *codes;
    int64_t width, count;
    const float *steps;
    const float *lengths; /* of v - mu; NULL if mu is zero */
    const uint8_t *alive;
};

struct query {
    const int8_t *codes;
    float step, middle; /* mu times the query */
    int32_t sum;
};

struct segment { /* laid out as graph.py packs it */
    const int32_t *rows; /* by node; -1 for one that was removed before the file was read */
    const uint16_t *ground, *upper; /* of each node and level: how many links, then the links */
    const int32_t *places; /* of each node in `upper` */
    int64_t entry, levels;
};

struct found {
    float score;
    int32_t node, segment, row;
};

struct heap {
    struct found *items;
    int64_t count, room;
    int sign; /* 1: the best is first; -1: the worst is */
};

AVX2 static int32_t product_avx2(const int8_t *one, const int8_t *other, int64_t width)
{
    __m256i sums = _mm256_setzero_si256();
    int64_t place = 0;
    for (; place + 16 <= width; place += 16) {
        __m256i left = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(one + place)));
        __m256i right = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(other + place)));
        sums = _mm256_add_epi32(sums, _mm256_madd_epi16(left, right));
    }
    int32_t parts[8], sum = 0;
    _mm256_storeu_si256((__m256i *)parts, sums);
    for (int part = 0; part < 8; part++) sum += parts[part];
    for (; place < width; place++) sum += one[place] * other[place];
    return sum;
}

AVX512_VNNI static int32_t product_avx512(const int8_t *row, const int8_t *query, int64_t width, int32_t query_sum)
{
    const __m512i sign = _mm512_set1_epi8(-128);
    __m512i sums = _mm512_setzero_si512();
    for (int64_t place = 0; place < width; place += CACHE_LINE) {
        __m512i bytes = _mm512_xor_si512(_mm512_loadu_si512(row + place), sign);
        sums = _mm512_dpbusd_epi32(sums, bytes, _mm512_loadu_si512(query + place));
    }
    return _mm512_reduce_add_epi32(sums) - 128 * query_sum;
}

static float score_of(int instruction_set, const struct rows *rows, const struct query *query, int64_t row)
{
    const int8_t *codes = rows->codes + row * rows->width;
    int32_t sum = instruction_set == 2 && rows->width % CACHE_LINE == 0
        ? product_avx512(codes, query->codes, rows->width, query->sum)
        : product_avx2(codes, query->codes, rows->width);
    float score = (float)sum * query->step * rows->steps[row] - query->middle;
    return rows->lengths ? score / rows->lengths[row] : score;
}

/* Put one into a heap, at its end or at its root. */
static void raise_to(struct heap *heap, int64_t place, struct found one)
{
    while (place) {
        int64_t above = (place - 1) / 2;
        if (heap->sign * heap->items[above].score >= heap->sign * one.score) break;
        heap->items[place] = heap->items[above];
        place = above;
    }
    heap->items[place] = one;
}

static void sink(struct heap *heap, struct found one)
{
    int64_t place = 0;
    for (int64_t below = 1; below < heap->count; below = 2 * place + 1) {
        if (below + 1 < heap->count && heap->sign * heap->items[below + 1].score > heap->sign * heap->items[below].score)
            below++;
        if (heap->sign * one.score >= heap->sign * heap->items[below].score) break;
        heap->items[place] = heap->items[below];
        place = below;
    }
    heap->items[place] = one;
}

static int push(struct heap *heap, struct found one)
{
    if (heap->count == heap->room) {
        struct found *larger = realloc(heap->items, 2 * heap->room * sizeof one);
        if (!larger) return 0;
        heap->items = larger;
        heap->room *= 2;
    }
    raise_to(heap, heap->count++, one);
    return 1;
}

static struct found pop(struct heap *heap)
{
    struct found first = heap->items[0];
    heap->count--;
    if (heap->count) sink(heap, heap->items[heap->count]);
    return first;
}

/* One search. */
struct search {
    int instruction_set;
    struct rows rows;
    struct query query;
    const struct segment *segments;
    int64_t links; /* at most of a node, at upper levels; twice as many at the ground */
    uint8_t *seen; /* a bit for each row */
    struct heap waiting, best;
    int64_t wanted;
};

static void prefetch(const struct search *search, int64_t row)
{
    const int8_t *codes = search->rows.codes + row * search->rows.width;
    for (int64_t place = 0; place < search->rows.width; place += CACHE_LINE) __builtin_prefetch(codes + place);
}

static int is_close(const struct search *search, float score)
{
    return search->best.count < search->wanted || score > search->best.items[0].score;
}

/* Keep a node among the best, unless it was removed. */
static int keep(struct search *search, struct found one)
{
    if (!search->rows.alive[one.row] || !is_close(search, one.score)) return 1;
    if (search->best.count < search->wanted) return push(&search->best, one);
    sink(&search->best, one);
    return 1;
}

static int see(struct search *search, int64_t row)
{
    uint8_t bit = (uint8_t)(1 << row % BITS), *byte = search->seen + row / BITS;
    if (*byte & bit) return 0;
    *byte |= bit;
    return 1;
}

/* Score the links of a node that nobody has seen. The close ones wait in a heap; with `all`, the others
 * do too. Returns 0 if there is no memory. */
static int expand(struct search *search, struct found from, struct heap *waiting, int all)
{
    const struct segment *segment = search->segments + from.segment;
    const uint16_t *links = segment->ground + from.node * (2 * search->links + 1);
    struct found fresh[UINT8_MAX];
    int count = 0;
    for (int link = 1; link <= links[0]; link++) {
        int32_t node = links[link], row = segment->rows[node];
        if (row < 0 || !see(search, row)) continue;
        prefetch(search, row);
        fresh[count++] = (struct found){0, node, from.segment, row};
    }
    for (int place = 0; place < count; place++) {
        struct found one = fresh[place];
        one.score = score_of(search->instruction_set, &search->rows, &search->query, one.row);
        if ((all || is_close(search, one.score)) && !push(waiting, one)) return 0;
        if (!keep(search, one)) return 0;
    }
    return 1;
}

/* Return the node of the lowest level but the ground that is closest, as a greedy descent finds it. */
static struct found descended(const struct search *search, int32_t number)
{
    const struct segment *segment = search->segments + number;
    struct found at = {0, (int32_t)segment->entry, number, segment->rows[segment->entry]};
    at.score = score_of(search->instruction_set, &search->rows, &search->query, at.row);
    for (int64_t level = segment->levels; level > 0;) {
        const uint16_t *links = segment->upper + segment->places[at.node] + (level - 1) * (search->links + 1);
        struct found best = at;
        for (int link = 1; link <= links[0]; link++)
            if (segment->rows[links[link]] >= 0) prefetch(search, segment->rows[links[link]]);
        for (int link = 1; link <= links[0]; link++) {
            struct found one = {0, links[link], number, segment->rows[links[link]]};
            if (one.row < 0) continue;
            one.score = score_of(search->instruction_set, &search->rows, &search->query, one.row);
            if (one.score > best.score) best = one;
        }
        if (best.node == at.node) level--;
        at = best;
    }
    return at;
}

static int searched(struct search *search, int64_t segments, int64_t least, struct heap *local)
{
    for (int32_t number = 0; number < segments; number++) {
        struct found entry = descended(search, number);
        see(search, entry.row);
        if (!keep(search, entry)) return 0;
        local->count = 0;
        if (!push(local, entry)) return 0;
        for (int64_t left = least; left > 0 && local->count; left--)
            if (!expand(search, pop(local), local, 1)) return 0;
        for (int64_t place = 0; place < local->count; place++)
            if (is_close(search, local->items[place].score) && !push(&search->waiting, local->items[place])) return 0;
    }
    while (search->waiting.count) {
        struct found next = pop(&search->waiting);
        if (!is_close(search, next.score)) break;
        if (!expand(search, next, &search->waiting, 0)) return 0;
    }
    return 1;
}

/* Write the living rows that are closest to a query; return how many, at most `wanted`, or -1 if there
 * is no memory. In each segment at least `least` nodes are expanded. */
EXPORT int64_t graph_near(
    int instruction_set, const int8_t *codes, int64_t width, int64_t count, const float *steps,
    const float *lengths, const uint8_t *alive, const int8_t *query, float step, float middle,
    const struct segment *segments, int64_t segment_count, int64_t links, int64_t least, int64_t wanted,
    int64_t *found)
{
    struct search search = {
        .instruction_set = instruction_set,
        .rows = {codes, width, count, steps, lengths, alive},
        .query = {query, step, middle, 0},
        .segments = segments, .links = links, .wanted = wanted,
        .seen = calloc(count / BITS + 1, 1),
        .waiting = {malloc(wanted * sizeof(struct found)), 0, wanted, 1},
        .best = {malloc(wanted * sizeof(struct found)), 0, wanted, -1},
    };
    struct heap local = {malloc(wanted * sizeof(struct found)), 0, wanted, 1};
    for (int64_t place = 0; place < width; place++) search.query.sum += query[place];
    int64_t rows = -1;
    if (search.seen && search.waiting.items && search.best.items && local.items &&
        searched(&search, segment_count, least, &local)) {
        rows = search.best.count;
        for (int64_t place = 0; place < rows; place++) found[place] = search.best.items[place].row;
    }
    free(search.seen);
    free(search.waiting.items);
    free(search.best.items);
    free(local.items);
    return rows;
}
