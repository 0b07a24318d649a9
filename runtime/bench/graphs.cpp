// SPDX-License-Identifier: Apache-2.0
#include "runtime/bench/graphs.h"

#include "core/random.h"
#include "kernels/graph/token_order.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

namespace megagraph::runtime::bench {
namespace {

using kernels::Csr;
using Pairs = std::vector<std::pair<int32_t, int32_t>>;

enum Stream : uint64_t { kWeight = 1, kInside, kPartner, kShuffle, kQuadrant };

std::vector<int32_t> shuffled(int64_t nodes, uint64_t seed)
{
    std::vector<int32_t> order(static_cast<size_t>(nodes));
    std::iota(order.begin(), order.end(), 0);
    for (int64_t i = nodes - 1; i > 0; --i)
        std::swap(order[size_t(i)], order[drawBelow(seed, kShuffle, uint64_t(i), uint64_t(i + 1))]);
    return order;
}

/// Both directions of every pair, in shuffled numbers.
Csr fromPairs(int64_t nodes, const Pairs& pairs, uint64_t seed)
{
    const std::vector<int32_t> name = shuffled(nodes, seed);
    Csr csr;
    csr.indptr.assign(size_t(nodes) + 1, 0);
    for (const auto& [a, b] : pairs) {
        ++csr.indptr[size_t(name[size_t(a)]) + 1];
        ++csr.indptr[size_t(name[size_t(b)]) + 1];
    }
    std::partial_sum(csr.indptr.begin(), csr.indptr.end(), csr.indptr.begin());
    csr.indices.resize(pairs.size() * 2);
    std::vector<int64_t> next(csr.indptr.begin(), csr.indptr.end() - 1);
    for (const auto& [a, b] : pairs) {
        const int32_t x = name[size_t(a)], y = name[size_t(b)];
        csr.indices[size_t(next[size_t(x)]++)] = y;
        csr.indices[size_t(next[size_t(y)]++)] = x;
    }
    for (int64_t i = 0; i < nodes; ++i)
        std::sort(csr.indices.begin() + csr.indptr[size_t(i)], csr.indices.begin() + csr.indptr[size_t(i) + 1]);
    return kernels::symmetrised(csr.view()); // drops repeats and loops
}

Csr communitiesOf(int64_t nodes, double degree, uint64_t seed)
{
    constexpr int64_t kCommunity = 256;
    // stubs[i] .. stubs[i + 1]: the ends of node i. Mean of (1 - u)^(-2/3) is 3; the tail is cut at sqrt(nodes).
    std::vector<int64_t> stubs(size_t(nodes) + 1, 0);
    const double most = std::sqrt(double(nodes));
    for (int64_t i = 0; i < nodes; ++i) {
        const double weight = std::pow(1 - drawUniform(seed, kWeight, uint64_t(i)), -2.0 / 3) * degree / 3;
        stubs[size_t(i) + 1] = stubs[size_t(i)] + std::max<int64_t>(1, std::llround(std::min(weight, most)));
    }
    const auto nodeOf = [&](int64_t stub) { return int32_t(std::upper_bound(stubs.begin(), stubs.end(), stub) - stubs.begin() - 1); };
    Pairs pairs;
    for (int64_t i = 0; i < nodes; ++i) {
        const int64_t first = i / kCommunity * kCommunity, last = std::min(nodes, first + kCommunity);
        for (int64_t s = stubs[size_t(i)]; s < stubs[size_t(i) + 1]; s += 2) {
            const bool inside = drawUniform(seed, kInside, uint64_t(s)) < 0.9;
            const int64_t low = inside ? stubs[size_t(first)] : 0, high = inside ? stubs[size_t(last)] : stubs.back();
            const int32_t j = nodeOf(low + int64_t(drawBelow(seed, kPartner, uint64_t(s), uint64_t(high - low))));
            if (j != i)
                pairs.emplace_back(int32_t(i), j);
        }
    }
    return fromPairs(nodes, pairs, seed);
}

} // namespace

Csr communities(int64_t nodes, int64_t degree, uint64_t seed)
{
    const double wanted = double(degree);
    double drawn = wanted; // repeats, loops and the cut tail cost edges: draw more until enough are left
    for (int attempt = 0;; ++attempt) {
        Csr graph = communitiesOf(nodes, drawn, seed);
        const double found = double(graph.indices.size()) / double(nodes);
        if (attempt == 6 || std::abs(found - wanted) <= 0.02 * wanted)
            return graph;
        drawn *= wanted / found;
    }
}

Csr rmat(int64_t scale, int64_t degree, uint64_t seed)
{
    const int64_t nodes = int64_t(1) << scale;
    Pairs pairs;
    for (int64_t e = 0; e < nodes * degree / 2; ++e) {
        int64_t a = 0, b = 0;
        for (int64_t level = 0; level < scale; ++level) {
            const double u = drawUniform(seed, kQuadrant, uint64_t(e * scale + level));
            a = a * 2 + (u >= 0.76 ? 1 : 0);
            b = b * 2 + ((u >= 0.57 && u < 0.76) || u >= 0.95 ? 1 : 0);
        }
        if (a != b)
            pairs.emplace_back(int32_t(a), int32_t(b));
    }
    return fromPairs(nodes, pairs, seed);
}

Csr grid(int64_t rows, int64_t columns, uint64_t seed)
{
    Pairs pairs;
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < columns; ++c) {
            const auto here = int32_t(r * columns + c);
            if (c + 1 < columns)
                pairs.emplace_back(here, here + 1);
            if (r + 1 < rows)
                pairs.emplace_back(here, here + int32_t(columns));
        }
    return fromPairs(rows * columns, pairs, seed);
}

Csr metisOrder(kernels::CsrView graph)
{
    const auto order = kernels::buildTokenOrder(graph, "metis", 1, [](const std::string&, int64_t, int64_t) {}, {});
    if (!order.ok())
        throw std::runtime_error(order.error().message);
    return kernels::permute(graph, order->order);
}

} // namespace megagraph::runtime::bench
