// SPDX-License-Identifier: Apache-2.0
// Dense attention with the learned topology bias as autograd functions over kernels/attention: `fused` on keys that this rank
// holds (serial, gather), `ring` on keys that travel, and the two look-ups of the materialised baseline.
//   s_hij = q_hi.k_hj / sqrt(d_h) + b[h, c(i,j)];   o_i = sum_j drop(softmax_j s_hij) v_j      (models design, 1.2, 2.2)
// Gradients are local sums over own query rows. The far bin of the table gradient is minus the sum of the others: closed once
// per rank and block, after the last ring step. Closing is linear in the bins, so the sum of closed gradients over ranks and
// blocks equals the closed sum. Training thread only; topologies outlive the backward pass.
#pragma once

#include "kernels/graph/planes.h"
#include "kernels/graph/tiles.h"
#include "kernels/types.h"
#include "runtime/comm.h"

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

namespace megagraph::runtime {

/// Bias policy `strips` keeps nothing but the graph [tokens without graph token], which the searches of every call read.
struct DistanceStrips { kernels::CsrView graph; };
/// Near pairs of own query rows with one interval of keys, in the storage of the bias policy. All give the same bits.
using DistanceStore = std::variant<kernels::TileLists, kernels::TilePlanes, DistanceStrips>;

/// Distance structure of own query rows. One store per key interval: {0, N} for fused, the context cuts for ring.
struct DenseTopology {
    int32_t hops = 0, classes = 0;        // K, B
    int64_t queryBegin = 0;               // global number of the first own token
    std::vector<int64_t> cuts;            // intervals of all tokens, graph token included: C + 1
    std::span<const int32_t> components;  // [tokens], -1 = graph token
    std::vector<DistanceStore> stores;    // 1 over all keys, or C; empty for the materialised path
};

struct AttentionOptions {
    int32_t heads = 1;
    kernels::Dropout dropout;  // on probabilities
    int64_t threads = 1;
    double* seconds = nullptr; // time of the kernels, forward and backward
};

/// q [n_q, H d_h]; k, v [tokens, H d_h]; table [H, B] -> o [n_q, H d_h]. Throws std::runtime_error on what kernels refuse.
at::Tensor fusedAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& table,
                          const DenseTopology& topology, const AttentionOptions& options);
/// q, k, v [n_q, H d_h] of own tokens; K and V of the others arrive over the ring (two buffers, transfer under compute).
at::Tensor ringAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& table,
                         const DenseTopology& topology, const AttentionOptions& options, Communicator& ring);
/// Same numbers by plain Torch operations with bias and probabilities [H, n_q, n_k] in memory. classes uint8 [n_q, n_k].
at::Tensor materialisedAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& table,
                                 const at::Tensor& classes, int64_t queryBegin, const AttentionOptions& options);

} // namespace megagraph::runtime
