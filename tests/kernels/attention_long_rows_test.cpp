// SPDX-License-Identifier: Apache-2.0
// Thousands of far keys under a steep table: each adds a term near the rounding unit of the row sum, and all round alike.
#include "core/random.h"
#include "kernels/attention.h"
#include "kernels/graph/tiles.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <gtest/gtest.h>
#include <memory>
#include <vector>

namespace megagraph::kernels {
namespace {

constexpr int64_t kTokens = 2708;
constexpr int32_t kHeads = 2, kDim = 8, kHops = 3;

std::vector<float> draws(uint64_t stream, double spread, double mean)
{
    std::vector<float> out(size_t(kTokens) * kHeads * kDim);
    for (size_t i = 0; i < out.size(); ++i)
        out[i] = float((drawUniform(2, stream, i) - 0.5) * spread + mean);
    return out;
}

Csr ring()
{
    Csr graph;
    graph.indptr.push_back(0);
    for (int64_t v = 0; v < kTokens; ++v) {
        const auto before = int32_t((v + kTokens - 1) % kTokens), after = int32_t((v + 1) % kTokens);
        graph.indices.push_back(std::min(before, after));
        graph.indices.push_back(std::max(before, after));
        graph.indptr.push_back(2 * (v + 1));
    }
    return graph;
}

TEST(AttentionOfLongRows, FarTermsKeepTheirShareOfTheRowSum)
{
    const Csr graph = ring();
    const SerialFor serial;
    const std::vector<int64_t> cuts{0, kTokens};
    const auto lists = buildTileLists(graph.view(), kHops, 0, kTokens, cuts, serial, {});
    ASSERT_TRUE(lists.ok());
    auto q = draws(1, 0.3, 0.1), k = draws(2, 0.3, 0.1), v = draws(3, 1.0, 0.5);
    std::vector<float> table;
    for (int32_t h = 0; h < kHeads; ++h)
        for (const double steps : {0, 1, 2, 3, 5, 7, 0}) // slopes 1.5 and 3, far subtracted
            table.push_back(float((h + 1) * 1.5 * (5 - steps)));
    const std::vector<int32_t> component(kTokens, 0);
    AttentionShape shape{kTokens, kTokens, 0, 0, kHeads, kDim, 0, 1 / std::sqrt(double(kDim)), 1};
    Bias bias;
    bias.hops = kHops, bias.classes = kHops + 4;
    bias.table = table.data();
    bias.queryComponent = bias.keyComponent = component;
    bias.lists = lists.value()[0].view();
    std::vector<float> o(q.size()), lse(size_t(kTokens) * kHeads);
    const std::unique_ptr<void, void (*)(void*)> work(
        std::aligned_alloc(64, size_t(attentionForwardWorkspace(shape, 1) + 63) / 64 * 64), std::free);
    const auto view = [](std::vector<float>& x) { return contiguousHeads(x.data(), kTokens, kHeads, kDim); };
    ASSERT_TRUE(attentionForward(shape, view(q), view(k), view(v), bias, {}, view(o), lse.data(), work.get(), serial).ok());
    double worst = 0;
    for (int64_t i = 0; i < kTokens; i += 97) {
        const std::vector<uint8_t> distance = plainDistances(graph.view(), i, kHops);
        for (int32_t h = 0; h < kHeads; ++h) {
            double sum = 0;
            for (int64_t j = 0; j < kTokens; ++j) {
                double score = 0;
                for (int32_t x = 0; x < kDim; ++x)
                    score += double(q[size_t((i * kHeads + h) * kDim + x)]) * double(k[size_t((j * kHeads + h) * kDim + x)]);
                sum += std::exp(score * shape.scale + double(table[size_t(h * 7 + distance[size_t(j)])]));
            }
            worst = std::max(worst, std::fabs(double(lse[size_t(h * kTokens + i)]) - std::log(sum)));
        }
    }
    EXPECT_LE(worst, 1e-5); // 2e-6 measured, mostly the rounding of lse near 15; one term at a time gave 1.1e-4
}

} // namespace
} // namespace megagraph::kernels
