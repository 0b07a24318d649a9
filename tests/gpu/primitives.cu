// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/primitive_kernels.cuh"
