// SPDX-License-Identifier: Apache-2.0
// The search for any CPU.
#define MEGAGRAPH_LANES 4
#define MEGAGRAPH_SET search_portable
#define MEGAGRAPH_SET_NAME "portable"
#define MEGAGRAPH_SEARCH_SYMBOL portableSearch
#include "kernels/cpu/search.inc"
