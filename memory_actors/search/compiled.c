/* Which of the compiled parts of the search this processor can run: see compiled.py. */

#include "compiled.h"

/* 2 for AVX-512 with VNNI; 1 for AVX2, or another kind of processor; 0 for neither. */
EXPORT int instruction_set(void)
{
#ifdef __x86_64__
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni"))
        return 2;
    return __builtin_cpu_supports("avx2") ? 1 : 0;
#else
    return 1;
#endif
}
