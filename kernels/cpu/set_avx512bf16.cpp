// SPDX-License-Identifier: Apache-2.0
// Dense attention on bf16 pairs with the dot products of AVX-512 BF16; the rest of this set is the one of avx512.
#define MEGAGRAPH_SET avx512bf16
#define MEGAGRAPH_SET_SYMBOL avx512bf16Pairs
#include "kernels/cpu/pair_set.inc"
