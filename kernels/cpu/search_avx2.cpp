// SPDX-License-Identifier: Apache-2.0
// The search for x86-64-v3 (AVX2).
#define MEGAGRAPH_LANES 8
#define MEGAGRAPH_SET search_avx2
#define MEGAGRAPH_SET_NAME "avx2"
#define MEGAGRAPH_SEARCH_SYMBOL avx2Search
#include "kernels/cpu/search.inc"
