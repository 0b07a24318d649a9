// SPDX-License-Identifier: Apache-2.0
// The kernels for any CPU: vectors of four floats.
#define MEGAGRAPH_LANES 4
#define MEGAGRAPH_SET portable
#define MEGAGRAPH_SET_NAME "portable"
#define MEGAGRAPH_SET_SYMBOL portableKernels
#define MEGAGRAPH_SET_SUPPORTED true
#include "kernels/cpu/set.inc"
