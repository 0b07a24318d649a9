// SPDX-License-Identifier: Apache-2.0
// Cost-balanced uneven cuts of a token order into contiguous intervals. Pure and deterministic.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace megagraph {

/// `cost` [n]: cost per token, non-negative. Returns C + 1 offsets, 0 first and n last, at the C-quantiles of the prefix
/// sums (nearest, ties to the lower token). Empty intervals occur when C > n.
std::vector<int64_t> costCuts(std::span<const int64_t> cost, int64_t parts);
/// Cost per token under dense attention (all equal: n pairs each) or edge attention (degree + 1), as planner and runtime
/// use it. `degree` may be empty for dense.
std::vector<int64_t> tokenCost(bool dense, int64_t tokens, std::span<const int64_t> degree);

} // namespace megagraph
