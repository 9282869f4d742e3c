/* Products of coded rows with one vector: what dot_products.py does by numkong and numpy, in one pass.
 *
 * Where the processor has AVX-512 with VNNI, it takes what reading the rows takes. The sums are exact,
 * and what follows is rounded as numpy does it: results are the same, bit for bit.
 */

#include <immintrin.h>
#include <stdint.h>

#include "compiled.h"

enum { AT_ONCE = 64 };

static int32_t sum_of(const int8_t *numbers, int64_t count)
{
    int32_t sum = 0;
    for (int64_t place = 0; place < count; place++) sum += numbers[place];
    return sum;
}

/* Write (row * high * high_step + row * low * low_step) * its step, of each row; a row has `width`
 * bytes, a multiple of 64. One side of an instruction has no sign: a row's bytes are taken + 128. */
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
