// SPDX-License-Identifier: Apache-2.0
// The four steps of linear attention against the quadratic formula, over shards, and their gradients by central differences.
#include "kernels/reference/linear_attention.h"

#include "core/random.h"

#include <gtest/gtest.h>
#include <numeric>

namespace megagraph::kernels::reference {
namespace {

Linear makeLinear(int64_t tokens, int32_t heads, int32_t dim)
{
    Linear p;
    p.tokens = tokens;
    p.heads = heads;
    p.dim = dim;
    const auto random = [&](uint64_t stream) {
        std::vector<double> values(size_t(tokens * heads * dim));
        for (size_t i = 0; i < values.size(); ++i)
            values[i] = 2 * drawUniform(3, stream, i) - 1;
        return values;
    };
    p.q = random(1);
    p.k = random(2);
    p.v = random(3);
    return p;
}

Linear shardOf(const Linear& p, int64_t begin, int64_t end)
{
    const int64_t width = int64_t(p.heads) * p.dim;
    const auto cut = [&](const std::vector<double>& x) { return std::vector<double>(x.begin() + begin * width, x.begin() + end * width); };
    return {end - begin, p.heads, p.dim, cut(p.q), cut(p.k), cut(p.v)};
}

TEST(LinearAttentionReference, ShardsEqualTheQuadraticFormula)
{
    for (const int32_t heads : {1, 3}) {
        const Linear whole = makeLinear(23, heads, 5);
        const std::vector<double> expected = linearQuadratic(whole);
        for (const std::vector<int64_t>& cuts : {std::vector<int64_t>{0, 23}, {0, 9, 23}, {0, 1, 1, 23}}) {
            LinearState state = linearState(shardOf(whole, 0, cuts[1]));
            for (size_t s = 1; s + 1 < cuts.size(); ++s)
                state = sum(state, linearState(shardOf(whole, cuts[s], cuts[s + 1])));
            std::vector<double> got;
            for (size_t s = 0; s + 1 < cuts.size(); ++s) {
                const std::vector<double> part = linearApply(shardOf(whole, cuts[s], cuts[s + 1]), state, 23);
                got.insert(got.end(), part.begin(), part.end());
            }
            ASSERT_EQ(got.size(), expected.size());
            for (size_t i = 0; i < got.size(); ++i)
                ASSERT_NEAR(got[i], expected[i], 1e-13);
        }
    }
}

TEST(LinearAttentionReference, GradientsAreCentralDifferencesWithBothNorms)
{
    Linear p = makeLinear(7, 2, 4);
    std::vector<double> gradient(7 * 4);
    for (size_t i = 0; i < gradient.size(); ++i)
        gradient[i] = drawUniform(5, 1, i) - 0.5;
    const LinearState state = linearState(p);
    const LinearState backward = linearBackwardState(p, state, 7, gradient);
    const LinearGradients g = linearBackwardApply(p, state, backward, 7, gradient);
    const auto loss = [&] {
        const std::vector<double> y = linearQuadratic(p);
        return std::inner_product(y.begin(), y.end(), gradient.begin(), 0.0);
    };
    const auto check = [&](std::vector<double>& x, const std::vector<double>& expected) {
        for (size_t i = 0; i < x.size(); ++i) {
            const double kept = x[i], step = 1e-5;
            x[i] = kept + step;
            const double up = loss();
            x[i] = kept - step;
            const double down = loss();
            x[i] = kept;
            EXPECT_NEAR((up - down) / (2 * step), expected[i], 1e-9) << "element " << i;
        }
    };
    check(p.q, g.dq);
    check(p.k, g.dk);
    check(p.v, g.dv);
}

} // namespace
} // namespace megagraph::kernels::reference
