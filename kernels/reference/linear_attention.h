// SPDX-License-Identifier: Apache-2.0
// Oracle of SGFormer's linear attention (Wu et al. 2023; models design, 1.5), fp64: the quadratic formula as it is written, and
// the four steps that the runtime does with matrix products, so that shards can be tested alone. Pure, allocates, one thread.
//   y_i = (N v_i + ab sum_j (k_j.q_i) v_j) / (N + ab sum_j k_j.q_i),  a = 1 / |q|_F, b = 1 / |k|_F over all tokens and heads;
//   result = mean of y over heads.
#pragma once

#include <cstdint>
#include <vector>

namespace megagraph::kernels::reference {

/// Tokens of one shard; q, k, v [tokens, heads, dim].
struct Linear {
    int64_t tokens = 0;
    int32_t heads = 1, dim = 1;
    std::vector<double> q, k, v;
};
/// [tokens, dim] by the formula over pairs: O(tokens^2). The shard must be the whole sequence.
std::vector<double> linearQuadratic(const Linear& whole);

/// What shards add up: S = sum_j k_j v_j^T [heads, dim, dim], s1 = sum_j k_j [heads, dim], |q|^2, |k|^2.
struct LinearState {
    std::vector<double> S, s1;
    double q2 = 0, k2 = 0;
};
LinearState linearState(const Linear& shard);
LinearState sum(LinearState a, const LinearState& b);
/// [tokens, dim] of the shard; `total` = N of the sequence.
std::vector<double> linearApply(const Linear& shard, const LinearState& state, int64_t total);
/// G = sum_i q_i dn_i^T, g1 = sum_i q_i dd_i in S and s1 (q2, k2 unused); gradient [tokens, dim] of the result.
LinearState linearBackwardState(const Linear& shard, const LinearState& state, int64_t total, const std::vector<double>& gradient);
struct LinearGradients {
    std::vector<double> dq, dk, dv; // [tokens, heads, dim]
};
LinearGradients linearBackwardApply(const Linear& shard, const LinearState& state, const LinearState& backward, int64_t total,
                                    const std::vector<double>& gradient);

} // namespace megagraph::kernels::reference
