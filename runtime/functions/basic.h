// SPDX-License-Identifier: Apache-2.0
// Autograd functions that models share: counter-based dropout, gathers of rows over context ranks, sparse products, and
// recomputation of a block in the backward pass. All results are independent of thread counts. Training thread only.
#pragma once

#include "kernels/types.h"
#include "runtime/comm.h"

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace megagraph::runtime {

/// x [n, d] times the mask of global rows row0 + i and columns c (models design, 3.3). p = 0: x itself.
at::Tensor dropout(const at::Tensor& x, const kernels::Dropout& dropout, int64_t row0, int64_t threads);

/// Rows of all context ranks [sum rows, d]; backward: own rows of the sum over ranks. One rank: x itself.
at::Tensor gatherRows(const at::Tensor& x, const std::vector<int64_t>& rows, Communicator* context);
/// K and V in one exchange each way.
std::pair<at::Tensor, at::Tensor> gatherPair(const at::Tensor& k, const at::Tensor& v, const std::vector<int64_t>& rows,
                                             Communicator* context);

/// A CSR matrix and its transpose [columns] -> (row, entry). Spans outlive the backward pass.
struct SparsePattern {
    int64_t rows = 0, columns = 0;
    std::span<const int64_t> indptr;
    std::span<const int32_t> indices;
    std::span<const int64_t> transposedIndptr;
    std::span<const int32_t> transposedRows;
    std::span<const int64_t> transposedEntries;
};
/// A x: values [entries] fp32 without gradient, x [columns, d] -> [rows, d]; backward A^T dy. Sums in index order.
at::Tensor sparseProduct(const SparsePattern& pattern, const at::Tensor& values, const at::Tensor& x, int64_t threads);
/// values * mask of (row0 + row, column) per entry, as `dropout` would on the dense matrix.
at::Tensor dropoutEntries(const SparsePattern& pattern, const at::Tensor& values, const kernels::Dropout& dropout, int64_t row0);

/// run(h) without keeping what lies between; backward runs it again under the same draws and collectives, so gradients have
/// equal bits. `parameters` are the leaves that `run` reads.
at::Tensor recomputed(const std::function<at::Tensor(const at::Tensor&)>& run, const at::Tensor& h,
                      const std::vector<at::Tensor>& parameters);

} // namespace megagraph::runtime
