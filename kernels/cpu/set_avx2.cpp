// SPDX-License-Identifier: Apache-2.0
// The kernels for x86-64-v3 (AVX2, FMA): vectors of eight floats.
#define MEGAGRAPH_LANES 8
#define MEGAGRAPH_SET avx2
#define MEGAGRAPH_SET_NAME "avx2"
#define MEGAGRAPH_SET_SYMBOL avx2Kernels
#define MEGAGRAPH_SET_SUPPORTED (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
#include "kernels/cpu/set.inc"
