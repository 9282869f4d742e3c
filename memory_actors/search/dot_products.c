/* Products of rows with vectors: what dot_products.py does by numpy, in one pass and one thread. */

#include <stdint.h>

#include "compiled.h"

enum { AT_ONCE = 64, LANES = 16 };

static inline AVX2 int32_t byte_dot(const int8_t *some, const int8_t *others, int64_t width)
{
    int32_t sum = 0;
    for (int64_t place = 0; place < width; place++)
        sum += (int16_t)some[place] * (int16_t)others[place];
    return sum;
}

/* Write the product of each row with each vector; sums are exact. */
AVX2 EXPORT void byte_dots(
    const int8_t *rows, int64_t count, int64_t width, const int8_t *vectors, int64_t asked,
    int32_t *products)
{
    for (int64_t row = 0; row < count; row++, rows += width)
        for (int64_t one = 0; one < asked; one++)
            *products++ = byte_dot(rows, vectors + one * width, width);
}

/* Write the product of each row with itself. */
AVX2 EXPORT void byte_squares(const int8_t *rows, int64_t count, int64_t width, int32_t *products)
{
    for (int64_t row = 0; row < count; row++, rows += width)
        products[row] = byte_dot(rows, rows, width);
}

/* Write the product of each row with each vector: the same for a pair wherever it stands. */
AVX2 EXPORT void float_dots(
    const float *rows, int64_t count, int64_t width, const float *vectors, int64_t asked,
    float *products)
{
    for (int64_t row = 0; row < count; row++, rows += width)
        for (int64_t one = 0; one < asked; one++) {
            const float *vector = vectors + one * width;
            float sums[LANES] = {0};
            int64_t place = 0;
            for (; place + LANES <= width; place += LANES)
                for (int lane = 0; lane < LANES; lane++)
                    sums[lane] += rows[place + lane] * vector[place + lane];
            for (int lane = 0; place < width; place++, lane++)
                sums[lane] += rows[place] * vector[place];
            for (int half = LANES / 2; half; half /= 2)
                for (int lane = 0; lane < half; lane++) sums[lane] += sums[lane + half];
            *products++ = sums[0];
        }
}

#ifdef __x86_64__

static int32_t sum_of(const int8_t *numbers, int64_t count)
{
    int32_t sum = 0;
    for (int64_t place = 0; place < count; place++) sum += numbers[place];
    return sum;
}

/* Write (row * high * high_step + row * low * low_step) * its step, of each row; a row has `width`
 * bytes, a multiple of 64. It takes what reading the rows takes, and rounds as numpy does: results
 * are the same, bit for bit. One side of an instruction has no sign: a row's bytes are taken + 128. */
AVX512_VNNI EXPORT void coded_dots(
    const int8_t *rows, const float *steps, int64_t count, int64_t width, const int8_t *high,
    float high_step, const int8_t *low, float low_step, float *products)
{
    const __m512i sign = _mm512_set1_epi8(-128);
    const int32_t high_flipped = -128 * sum_of(high, width), low_flipped = -128 * sum_of(low, width);
    for (int64_t row = 0; row < count; row++, rows += width) {
        __m512i with_high = _mm512_setzero_si512(), with_low = _mm512_setzero_si512();
        for (int64_t place = 0; place < width; place += AT_ONCE) {
            __m512i bytes = _mm512_xor_si512(_mm512_loadu_si512(rows + place), sign);
            with_high = _mm512_dpbusd_epi32(with_high, bytes, _mm512_loadu_si512(high + place));
            with_low = _mm512_dpbusd_epi32(with_low, bytes, _mm512_loadu_si512(low + place));
        }
        float of_high = (float)(_mm512_reduce_add_epi32(with_high) + high_flipped) * high_step;
        float of_low = (float)(_mm512_reduce_add_epi32(with_low) + low_flipped) * low_step;
        products[row] = (of_high + of_low) * steps[row];
    }
}

#endif
