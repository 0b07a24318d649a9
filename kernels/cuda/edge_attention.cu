// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/edge_calls.cuh"
