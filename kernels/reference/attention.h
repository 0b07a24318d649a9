// SPDX-License-Identifier: Apache-2.0
// The oracle of dense attention (sparse: edge_attention.h): fp64 loops over pairs, no tiles, no online softmax, no identities. Allocates,
// one thread; for tests and accuracy reports only. Pure.
#pragma once

#include "kernels/types.h"

#include <vector>

namespace megagraph::kernels::reference {

constexpr uint8_t kMasked = 255;

/// One dense problem. Arrays are contiguous [tokens, heads, dim]; classes [queries, keys], kMasked = pair not allowed.
struct Dense {
    int64_t queries = 0, keys = 0, queryOffset = 0, keyOffset = 0;
    int32_t heads = 0, dim = 0, headOffset = 0, classCount = 0;
    double scale = 1.0;
    std::vector<double> q, k, v;
    std::vector<uint8_t> classes; // empty = every pair allowed, no bias
    std::vector<double> table;    // [heads, classCount] as learned, far not subtracted; empty = no bias
    Dropout dropout;
    std::vector<int64_t> pairs{};      // query * keys + key of each edge value, no pair twice
    std::vector<double> pairValues{};  // [heads, pairs], added to the scores
};
struct Output {
    std::vector<double> o, lse; // [queries, heads, dim], [heads, queries] natural log
};
struct Gradients {
    std::vector<double> dq, dk, dv, table; // table: all bins, also far
    std::vector<double> pairValues{};      // [heads, pairs]
};
Output denseForward(const Dense& problem);
Gradients denseBackward(const Dense& problem, const std::vector<double>& dO);

/// 0 or 65536 / (65536 - T) of one attention pair at global positions.
double keepFactor(const Dropout& dropout, int32_t head, int64_t row, int64_t column);

} // namespace megagraph::kernels::reference
