// SPDX-License-Identifier: Apache-2.0
// A case through the fp32 CPU kernels, and the limits that results are held to. Allocates; calls share nothing.
#pragma once

#include "core/result.h"
#include "tests/gpu/golden_file.h"

namespace megagraph::kernels::goldens {

/// The arrays of `referenceOf`, computed by attentionForward/Backward or edgeAttentionForward/Backward.
Result<std::vector<Array>> runOnCpu(const Case& c, const Inputs& inputs, const ParallelFor& parallel);

/// [H, rows] -> [rows, H]; [rows, H, d_h] is kept.
Array fromHeadRows(const char* name, int64_t rows, int64_t heads, std::span<const float> values);
Array fromRows(const char* name, int64_t rows, int64_t width, std::span<const float> values);

enum class Precision { Float, Bf16 };
/// Largest relative L2 error of an array (models design, section 8).
double limitOf(const Case& c, Precision precision, std::string_view array);
/// Norm below which an array counts as rounding. A softmax that is one-hot has dS = 0, so its gradients hold rounding only.
double floorOf(const Case& c, const StoredArray& array);

struct Comparison {
    std::string array;
    double error = 0, limit = 0;
    bool passed = false;
};
/// Each stored array against the computed one; an array that was not computed fails.
std::vector<Comparison> compare(const Case& c, const Golden& golden, const std::vector<Array>& got, Precision precision);

} // namespace megagraph::kernels::goldens
