// SPDX-License-Identifier: Apache-2.0
// The search for x86-64-v4 (AVX-512): a line is one register.
#define MEGAGRAPH_LANES 16
#define MEGAGRAPH_SET search_avx512
#define MEGAGRAPH_SET_NAME "avx512"
#define MEGAGRAPH_SEARCH_SYMBOL avx512Search
#include "kernels/cpu/search.inc"
