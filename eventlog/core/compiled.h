/* What the compiled parts of the log have in common: see compiled.py. */

#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

enum { SHA256_BYTES = 32 };

/* SHA-256 of the data, on a processor that has the instructions: see instruction_set(). */
void sha256(const uint8_t *data, size_t length, uint8_t digest[SHA256_BYTES]);

/* CRC-32 as zlib computes it. */
uint32_t crc32_of(const uint8_t *data, size_t length);

/* Numbers of a row are big-endian, and lie at any address. */
static inline uint32_t u32_at(const uint8_t *data)
{
    uint32_t number;
    __builtin_memcpy(&number, data, sizeof number);
    return __builtin_bswap32(number);
}

static inline uint64_t u64_at(const uint8_t *data)
{
    uint64_t number;
    __builtin_memcpy(&number, data, sizeof number);
    return __builtin_bswap64(number);
}

static inline void put_u32(uint8_t *to, uint32_t number)
{
    number = __builtin_bswap32(number);
    __builtin_memcpy(to, &number, sizeof number);
}

static inline void put_u64(uint8_t *to, uint64_t number)
{
    number = __builtin_bswap64(number);
    __builtin_memcpy(to, &number, sizeof number);
}
