// SPDX-License-Identifier: Apache-2.0
// SGFormer's linear attention (Wu et al. 2023; models design, 1.5) as one autograd function. With a = 1/||q||_F, b = 1/||k||_F
// over all tokens and heads of the whole sequence, S = sum_j k_j v_j^T, s1 = sum_j k_j:
//   y_i = (N v_i + ab S^T q_i) / (N + ab s1.q_i),   result = mean of y over heads.
// Context ranks exchange one sum of [S, s1, |q|^2, |k|^2] forward and of [G, g1] backward. Nothing is N x N.
#pragma once

#include "runtime/comm.h"

#include <ATen/core/Tensor.h>
#include <cstdint>

namespace megagraph::runtime {

/// q, k, v [n, heads * d] of own tokens, `total` = N of the sequence; `context` may be null or of size 1. -> [n, d].
at::Tensor linearAttention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, int64_t heads, int64_t total,
                           Communicator* context, double* seconds);

} // namespace megagraph::runtime
