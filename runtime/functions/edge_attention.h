// SPDX-License-Identifier: Apache-2.0
// Attention over the edges of own rows as an autograd function over kernels/edge_attention (models design, 1.4):
//   o_i = sum_{j in N(i) (+ i)} softmax_j(q_i.k_j / sqrt(d_h)) v_j
// Keys are the tokens of the whole sequence (gathered), gradients of K and V are local sums. Training thread only.
#pragma once

#include "kernels/edge_attention.h"
#include "runtime/functions/dense_attention.h"

namespace megagraph::runtime {

/// `graph` and the arrays it names outlive the backward pass. q [rows, H d_h]; k, v [keys, H d_h] -> o [rows, H d_h].
at::Tensor edgeAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const kernels::EdgeGraph& graph,
                         const AttentionOptions& options);

} // namespace megagraph::runtime
