// SPDX-License-Identifier: Apache-2.0
// Softmax attention over the entries of a CSR graph: out[n,h,:] = sum_{j in row n} softmax_j(scale q_n.k_j + bias) v_j.
// Keys may be more than rows (gathered or halo keys). Optional self key: row n also attends to key selfOffset + n.
// Dropout as in dense attention with global row and column. Deterministic: backward by row (dq), then by column (dk, dv).
#pragma once

#include "core/result.h"
#include "kernels/types.h"

namespace megagraph::kernels {

struct EdgeGraph {
    int64_t rows = 0, keys = 0;
    std::span<const int64_t> indptr;  // [rows + 1]
    std::span<const int32_t> indices; // local key numbers in [0, keys)
    /// Transposed: for key j the entries [t_indptr[j], t_indptr[j+1]) name row and entry number. Needed by backward.
    std::span<const int64_t> transposedIndptr;  // [keys + 1]
    std::span<const int32_t> transposedRows;    // [entries]
    std::span<const int64_t> transposedEntries; // [entries]
    bool selfKey = false;       // adds the pair (n, selfOffset + n), not stored in the CSR
    int64_t selfOffset = 0;
    int64_t queryOffset = 0, keyOffset = 0; // global numbers for dropout
};

Result<Ok> edgeAttentionForward(const EdgeGraph& graph, double scale, HeadView<const float> q, HeadView<const float> k,
                                HeadView<const float> v, const Dropout& dropout, HeadView<float> o, float* lse /*[H, rows]*/,
                                const ParallelFor& parallel);
/// dq [rows,H,d_h], dk, dv [keys,H,d_h] contiguous fp32, written (not added).
Result<Ok> edgeAttentionBackward(const EdgeGraph& graph, double scale, HeadView<const float> q, HeadView<const float> k,
                                 HeadView<const float> v, HeadView<const float> dO, const float* lse,
                                 const float* delta /*[H, rows]*/, const Dropout& dropout, float* dq, float* dk, float* dv,
                                 const ParallelFor& parallel);

} // namespace megagraph::kernels
