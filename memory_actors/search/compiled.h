/* Shared by the compiled parts of the search: see dot_products.py. */

#define EXPORT __attribute__((visibility("default")))

/* On ARM there are no intrinsics here: the compiler vectorises the loops with NEON. */
#ifdef __x86_64__
#include <immintrin.h>
#define AVX512_VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))
#define AVX2 __attribute__((target("avx2")))
#else
#define AVX2
#endif
