// SPDX-License-Identifier: Apache-2.0
// SGFormer's linear attention (Wu et al. 2023; models design, 1.5) in four steps over a shard of the tokens. With a = 1
// / |q|_F, b = 1 / |k|_F over all tokens and heads, S = sum_j k_j v_j^T, s1 = sum_j k_j, N tokens in the whole
// sequence:
//   y_i = (N v_i + ab S^T q_i) / (N + ab s1.q_i),   result = mean of y over heads.
// Between the steps the caller adds the states of all shards. The runtime does the same with matrix products; these
// plain loops are what it is held against. fp32, sums of tokens in blocks with fp64 totals; no allocation, nothing N x
// N; bits do not depend on ParallelFor. Errors (InvalidInput) come before the first write.
#pragma once

#include "core/result.h"
#include "kernels/types.h"

namespace megagraph::kernels {

struct LinearShape {
    int64_t tokens = 0; // of this shard
    int64_t total = 0;  // N
    int32_t heads = 0, dim = 0;
};
/// Floats of a state: S [H, d, d], s1 [H, d], |q|^2, |k|^2; and of a backward state: G [H, d, d], g1 [H, d].
int64_t linearStateFloats(int32_t heads, int32_t dim);
int64_t linearBackwardStateFloats(int32_t heads, int32_t dim);
/// Bytes that backward keeps per shard: denominator and dd of each row and head.
int64_t linearBackwardWorkspace(int64_t tokens, int32_t heads);

/// state of this shard (written). q, k, v [tokens, H, d].
Result<Ok> linearAttentionState(const LinearShape& shape, HeadView<const float> q, HeadView<const float> k,
                                HeadView<const float> v, float* state, const ParallelFor& parallel);
/// y [tokens, d] from the summed state.
Result<Ok> linearAttentionApply(const LinearShape& shape, HeadView<const float> q, HeadView<const float> v,
                                const float* state, float* y, const ParallelFor& parallel);
/// backward = G, g1 of this shard (written) for the gradient dy [tokens, d]; fills the workspace.
Result<Ok> linearAttentionBackwardState(const LinearShape& shape, HeadView<const float> q, HeadView<const float> v,
                                        const float* state, const float* dy, float* backward, void* workspace,
                                        const ParallelFor& parallel);
/// dq, dk, dv [tokens, H, d] contiguous (written) from the summed states and the workspace of
/// linearAttentionBackwardState.
Result<Ok> linearAttentionBackwardApply(const LinearShape& shape, HeadView<const float> q, HeadView<const float> k,
                                        HeadView<const float> v, const float* state, const float* backward,
                                        const float* dy, const void* workspace, float* dq, float* dk, float* dv,
                                        const ParallelFor& parallel);

} // namespace megagraph::kernels
