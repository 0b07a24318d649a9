// SPDX-License-Identifier: Apache-2.0
// Argument checks of the kernels, all before the first write. Pure functions.
#pragma once

#include "core/result.h"
#include "kernels/attention.h"
#include "kernels/edge_attention.h"

#include <string>

namespace megagraph::kernels {

constexpr int32_t kMaxHeadDim = 128;

/// A view must have the expected counts, data if there are rows, and rows that do not overlap themselves.
template <class T>
Result<Ok> checkView(const char* op, const char* name, const HeadView<T>& view, int64_t rows, int32_t heads, int32_t dim)
{
    const std::string place = std::string(op) + ": " + name;
    if (view.rows != rows || view.heads != heads || view.dim != dim)
        return Error{ErrorCode::InvalidInput, place + ": shape, got [" + std::to_string(view.rows) + ", " +
                                                  std::to_string(view.heads) + ", " + std::to_string(view.dim) + "], expected [" +
                                                  std::to_string(rows) + ", " + std::to_string(heads) + ", " +
                                                  std::to_string(dim) + "]; pass matching views."};
    if (rows == 0 || heads == 0)
        return Ok{};
    if (view.data == nullptr)
        return Error{ErrorCode::InvalidInput, place + ": pointer, got null, expected " + std::to_string(rows) + " rows; pass the tensor."};
    if ((rows > 1 && view.rowStride < dim) || (heads > 1 && view.headStride < dim))
        return Error{ErrorCode::InvalidInput, place + ": strides, got row " + std::to_string(view.rowStride) + " and head " +
                                                  std::to_string(view.headStride) + ", expected at least " + std::to_string(dim) +
                                                  "; heads must not overlap."};
    return Ok{};
}

Result<Ok> checkShape(const char* op, const AttentionShape& shape);
Result<Ok> checkBias(const char* op, const AttentionShape& shape, const Bias& bias);
Result<Ok> checkDropout(const char* op, const Dropout& dropout);
Result<Ok> checkPointer(const char* op, const char* name, const void* pointer, int64_t elements);
/// Row pointers ascend and end at the entry count, indices lie in [0, keys), self keys exist; `transposed` too for backward.
Result<Ok> checkGraph(const char* op, const EdgeGraph& graph, bool transposed);

} // namespace megagraph::kernels
