// SPDX-License-Identifier: Apache-2.0
// Counter-based dropout (models design, 3.3): keep if the 16-bit draw >= T, T = round(65536 p); scale 65536 / (65536 - T).
// Column c uses word (c & 7) >> 1 of its Philox4x32-7 block, low half if c is even. Pure functions of global positions.
#pragma once

#include "kernels/types.h"

namespace megagraph::kernels {

/// y[i, c] = x[i, c] * mask(row0 + i, col0 + c) * scale; x, y [rows, cols] contiguous; in place allowed. head = 0.
void dropoutApply(const Dropout& dropout, int64_t rows, int64_t cols, int64_t row0, int64_t col0, const float* x, float* y,
                  const ParallelFor& parallel);
/// 8 keep bits (bit c = column 8 * block + c) for one (row, head).
uint8_t dropoutKeep8(const Dropout& dropout, uint32_t head, uint64_t row, uint64_t columnBlock);
float dropoutScale(double p);

} // namespace megagraph::kernels
