// SPDX-License-Identifier: Apache-2.0
// Dense attention on bf16 pairs with the tile products of AMX; the rest of this set is the one of avx512.
#define MEGAGRAPH_AMX
#define MEGAGRAPH_SET amxbf16
#define MEGAGRAPH_SET_SYMBOL amxbf16Pairs
#include "kernels/cpu/pair_set.inc"
