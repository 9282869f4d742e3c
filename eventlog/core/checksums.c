/* SHA-256 and CRC-32 of short data: what hashlib and zlib compute, without a call of Python for each.
 *
 * SHA-256 is that of a processor which has instructions for it (SHA-NI, or SHA2 of ARM). For another
 * one, a portable one was tried, and a verification took as long with it as with hashlib.
 */

#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#else
#include <arm_neon.h>
#endif
#ifdef __linux__
#include <sys/auxv.h>
#endif
#include <string.h>

#include "compiled.h"

enum { BLOCK_BYTES = 64, ROUNDS = 64, STATE_WORDS = 8, LENGTH_BYTES = 8 };
enum { SSE41 = 1 << 19, SSSE3 = 1 << 9, SHA = 1 << 29 }; /* bits of cpuid */
enum { SHA2 = 1 << 6 }; /* a bit of Linux's for ARM; each ARM processor of macOS has the instructions */

static const uint32_t START[STATE_WORDS] = {
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

static const uint32_t CONSTANTS[ROUNDS] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

/* 2 if this processor has the instructions, or 1. */
EXPORT int instruction_set(void)
{
#if defined(__x86_64__)
    unsigned eax, ebx, ecx, edx;
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & SSE41) || !(ecx & SSSE3)) return 1;
    return 1 + (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && (ebx & SHA));
#elif defined(__linux__)
    return 1 + !!(getauxval(AT_HWCAP) & SHA2);
#else
    return 2;
#endif
}

/* --- SHA-256 */

#ifdef __x86_64__
/* The instructions want the state's words as A, B, E, F and C, D, G, H, the last one lowest. Four
 * rounds take four words; `words` has the sixteen of the last rounds, four in each. */
__attribute__((target("sha,sse4.1"))) static void add_blocks(
    uint32_t *state, const uint8_t *data, size_t blocks)
{
    const __m128i swapped = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    __m128i badc = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)state), 0xb1);
    __m128i hgfe = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(state + 4)), 0x1b);
    __m128i abef = _mm_alignr_epi8(badc, hgfe, 8), cdgh = _mm_blend_epi16(hgfe, badc, 0xf0);
    for (; blocks; blocks--, data += BLOCK_BYTES) {
        __m128i abef_before = abef, cdgh_before = cdgh, words[4];
        for (int part = 0; part < 4; part++) {
            words[part] = _mm_loadu_si128((const __m128i *)(data + 16 * part));
            words[part] = _mm_shuffle_epi8(words[part], swapped);
        }
#pragma GCC unroll 16
        for (int step = 0; step < ROUNDS / 4; step++) {
            __m128i *now = words + step % 4, next = words[(step + 1) % 4], last = words[(step + 3) % 4];
            __m128i constants = _mm_loadu_si128((const __m128i *)(CONSTANTS + 4 * step));
            __m128i sum = _mm_add_epi32(*now, constants);
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
            __m128i seventh = _mm_alignr_epi8(last, words[(step + 2) % 4], 4);
            *now = _mm_add_epi32(_mm_sha256msg1_epu32(*now, next), seventh);
            *now = _mm_sha256msg2_epu32(*now, last);
        }
        abef = _mm_add_epi32(abef, abef_before);
        cdgh = _mm_add_epi32(cdgh, cdgh_before);
    }
    __m128i feba = _mm_shuffle_epi32(abef, 0x1b), dchg = _mm_shuffle_epi32(cdgh, 0xb1);
    _mm_storeu_si128((__m128i *)state, _mm_blend_epi16(feba, dchg, 0xf0));
    _mm_storeu_si128((__m128i *)(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}
#else
static void add_blocks(uint32_t *state, const uint8_t *data, size_t blocks)
{
    uint32x4_t abcd = vld1q_u32(state), efgh = vld1q_u32(state + 4);
    for (; blocks; blocks--, data += BLOCK_BYTES) {
        uint32x4_t abcd_before = abcd, efgh_before = efgh, words[4];
        for (int part = 0; part < 4; part++)
            words[part] = vreinterpretq_u32_u8(vrev32q_u8(vld1q_u8(data + 16 * part)));
#pragma GCC unroll 16
        for (int step = 0; step < ROUNDS / 4; step++) {
            uint32x4_t *now = words + step % 4, next = words[(step + 1) % 4], abcd_now = abcd;
            uint32x4_t sum = vaddq_u32(*now, vld1q_u32(CONSTANTS + 4 * step));
            abcd = vsha256hq_u32(abcd, efgh, sum);
            efgh = vsha256h2q_u32(efgh, abcd_now, sum);
            *now = vsha256su0q_u32(*now, next);
            *now = vsha256su1q_u32(*now, words[(step + 2) % 4], words[(step + 3) % 4]);
        }
        abcd = vaddq_u32(abcd, abcd_before);
        efgh = vaddq_u32(efgh, efgh_before);
    }
    vst1q_u32(state, abcd);
    vst1q_u32(state + 4, efgh);
}
#endif

void sha256(const uint8_t *data, size_t length, uint8_t digest[SHA256_BYTES])
{
    uint32_t state[STATE_WORDS];
    uint8_t end[2 * BLOCK_BYTES] = {0};
    size_t rest = length % BLOCK_BYTES, blocks = rest < BLOCK_BYTES - LENGTH_BYTES ? 1 : 2;
    memcpy(state, START, sizeof state);
    add_blocks(state, data, length / BLOCK_BYTES);
    memcpy(end, data + length - rest, rest);
    end[rest] = 0x80;
    put_u64(end + blocks * BLOCK_BYTES - LENGTH_BYTES, 8 * (uint64_t)length);
    add_blocks(state, end, blocks);
    for (int at = 0; at < STATE_WORDS; at++) put_u32(digest + 4 * at, state[at]);
}

/* --- CRC-32, eight bytes at a time */

static uint32_t tables[8][256]; /* what a byte does to the sum that many bytes later */

__attribute__((constructor)) static void fill_tables(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t sum = byte;
        for (int bit = 0; bit < 8; bit++) sum = sum & 1 ? 0xedb88320 ^ sum >> 1 : sum >> 1;
        tables[0][byte] = sum;
    }
    for (int later = 1; later < 8; later++)
        for (int byte = 0; byte < 256; byte++) {
            uint32_t sum = tables[later - 1][byte];
            tables[later][byte] = sum >> 8 ^ tables[0][sum & 255];
        }
}

uint32_t crc32_of(const uint8_t *data, size_t length)
{
    uint32_t sum = ~0u;
    for (; length >= 8; length -= 8, data += 8) {
        uint64_t eight;
        memcpy(&eight, data, sizeof eight);
        eight ^= sum;
        sum = 0;
        for (int at = 0; at < 8; at++) sum ^= tables[7 - at][eight >> 8 * at & 255];
    }
    for (; length; length--, data++) sum = tables[0][(sum ^ *data) & 255] ^ sum >> 8;
    return ~sum;
}
