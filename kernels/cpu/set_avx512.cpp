// SPDX-License-Identifier: Apache-2.0
// The kernels for x86-64-v4 (AVX-512 F, BW, DQ, VL): vectors of sixteen floats.
#define MEGAGRAPH_LANES 16
#define MEGAGRAPH_SET avx512
#define MEGAGRAPH_SET_NAME "avx512"
#define MEGAGRAPH_SET_SYMBOL avx512Kernels
#define MEGAGRAPH_SET_SUPPORTED                                                                                        \
    (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&   \
     __builtin_cpu_supports("avx512vl"))
#include "kernels/cpu/set.inc"
