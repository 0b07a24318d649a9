// SPDX-License-Identifier: Apache-2.0
// Times of our kernels alone, by CUDA events, one JSON line per case; the peers' script compares them with other libraries on the
// same tensors. TFLOP/s by the project's convention: 4 N^2 d_h H forward, 10 N^2 d_h H backward, 4 and 10 E d_h H on edges.
#pragma once

#include "core/json.h"
#include "core/result.h"
#include "kernels/cuda/api.h"

#include <functional>

namespace megagraph::kernels::goldens {

using BenchLine = std::function<void(const Json&)>;

/// Runs cases in order of value and starts none after `seconds`; those left out get a line with status "not run".
void benchOurs(const MegagraphCudaTable& table, double seconds, const BenchLine& line);

} // namespace megagraph::kernels::goldens
