// SPDX-License-Identifier: Apache-2.0
// The four steps of linear attention against the quadratic formula, over shards, and their gradients by central
// differences; the fp32 kernels against the fp64 steps.
#include "kernels/linear_attention.h"
#include "kernels/reference/linear_attention.h"

#include "core/random.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <gtest/gtest.h>
#include <limits>
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
    const auto cut = [&](const std::vector<double>& x) {
        return std::vector<double>(x.begin() + begin * width, x.begin() + end * width);
    };
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

/// fp32 tensors of a problem, [tokens, H, d].
struct Tensors {
    LinearShape shape;
    std::vector<float> q, k, v;

    explicit Tensors(const Linear& p)
        : shape{p.tokens, p.tokens, p.heads, p.dim}, q(p.q.begin(), p.q.end()), k(p.k.begin(), p.k.end()),
          v(p.v.begin(), p.v.end())
    {
    }
    HeadView<const float> view(const std::vector<float>& x, int64_t begin, int64_t end) const
    {
        return contiguousHeads(x.data() + begin * shape.heads * shape.dim, end - begin, shape.heads, shape.dim);
    }
};

struct LinearFast {
    std::vector<float> y, dq, dk, dv;
    bool operator==(const LinearFast&) const = default;
};

void expectDone(const Result<Ok>& done)
{
    EXPECT_TRUE(done.ok()) << (done.ok() ? "" : done.error().message);
}

/// All four steps over the shards that `cuts` make; states are added in shard order.
LinearFast runShards(const Tensors& t, const std::vector<float>& dy, const std::vector<int64_t>& cuts,
                     const ParallelFor& parallel)
{
    const int32_t heads = t.shape.heads, dim = t.shape.dim;
    const float nan = std::numeric_limits<float>::quiet_NaN();
    std::vector<float> state(size_t(linearStateFloats(heads, dim)), 0.0f),
        backward(size_t(linearBackwardStateFloats(heads, dim)), 0.0f);
    std::vector<float> rows(size_t(linearBackwardWorkspace(t.shape.tokens, heads)) / 4, nan);
    LinearFast out{std::vector<float>(dy.size(), nan), std::vector<float>(t.q.size(), nan),
                   std::vector<float>(t.q.size(), nan), std::vector<float>(t.q.size(), nan)};
    const auto overShards = [&](auto body) {
        for (size_t s = 0; s + 1 < cuts.size(); ++s) {
            LinearShape shape = t.shape;
            shape.tokens = cuts[s + 1] - cuts[s];
            body(shape, cuts[s], cuts[s + 1]);
        }
    };
    overShards([&](const LinearShape& shape, int64_t begin, int64_t end) {
        std::vector<float> part(state.size(), nan);
        expectDone(linearAttentionState(shape, t.view(t.q, begin, end), t.view(t.k, begin, end),
                                        t.view(t.v, begin, end), part.data(), parallel));
        std::transform(state.begin(), state.end(), part.begin(), state.begin(), std::plus<float>());
    });
    overShards([&](const LinearShape& shape, int64_t begin, int64_t end) {
        expectDone(linearAttentionApply(shape, t.view(t.q, begin, end), t.view(t.v, begin, end), state.data(),
                                        out.y.data() + begin * dim, parallel));
        std::vector<float> part(backward.size(), nan);
        expectDone(linearAttentionBackwardState(shape, t.view(t.q, begin, end), t.view(t.v, begin, end), state.data(),
                                                dy.data() + begin * dim, part.data(), rows.data() + begin * heads * 2,
                                                parallel));
        std::transform(backward.begin(), backward.end(), part.begin(), backward.begin(), std::plus<float>());
    });
    overShards([&](const LinearShape& shape, int64_t begin, int64_t end) {
        const int64_t at = begin * heads * dim;
        expectDone(linearAttentionBackwardApply(shape, t.view(t.q, begin, end), t.view(t.k, begin, end),
                                                t.view(t.v, begin, end), state.data(), backward.data(),
                                                dy.data() + begin * dim, rows.data() + begin * heads * 2,
                                                out.dq.data() + at, out.dk.data() + at, out.dv.data() + at, parallel));
    });
    return out;
}

double off(const std::vector<float>& got, const std::vector<double>& expected)
{
    double difference = 0, norm = 0;
    EXPECT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
        difference += (double(got[i]) - expected[i]) * (double(got[i]) - expected[i]);
        norm += expected[i] * expected[i];
    }
    return std::sqrt(difference / std::max(norm, 1e-6));
}

std::vector<float> someGradient(int64_t count)
{
    std::vector<float> dy;
    for (int64_t i = 0; i < count; ++i)
        dy.push_back(float(drawUniform(5, 1, uint64_t(i)) - 0.5));
    return dy;
}

TEST(LinearAttention, AgreesWithTheQuadraticFormulaAndItsGradientsOverShards)
{
    for (const auto& [tokens, heads, dim] : std::vector<std::tuple<int64_t, int32_t, int32_t>>{
             {1, 1, 1}, {23, 3, 5}, {300, 1, 64}, {600, 2, 72}, {70, 1, 256}}) {
        SCOPED_TRACE(std::to_string(tokens) + " tokens");
        Linear p = makeLinear(tokens, heads, dim);
        const Tensors t(p);
        p.q.assign(t.q.begin(), t.q.end()), p.k.assign(t.k.begin(), t.k.end()), p.v.assign(t.v.begin(), t.v.end());
        const std::vector<float> dy = someGradient(tokens * dim);
        const std::vector<double> gradient(dy.begin(), dy.end()), y = linearQuadratic(p);
        const LinearState state = linearState(p);
        const LinearGradients g =
            linearBackwardApply(p, state, linearBackwardState(p, state, tokens, gradient), tokens, gradient);
        for (const std::vector<int64_t>& cuts :
             {std::vector<int64_t>{0, tokens}, {0, tokens / 3, tokens}, {0, tokens / 4, tokens / 4, tokens}}) {
            const LinearFast fast = runShards(t, dy, cuts, SerialFor());
            EXPECT_LE(off(fast.y, y), 2e-6);
            EXPECT_LE(off(fast.dq, g.dq), 2e-5);
            EXPECT_LE(off(fast.dk, g.dk), 2e-5);
            EXPECT_LE(off(fast.dv, g.dv), 2e-6);
        }
    }
}

TEST(LinearAttention, BitsDoNotDependOnThreads)
{
    const Tensors t(makeLinear(1000, 3, 40));
    const std::vector<float> dy = someGradient(1000 * 40);
    const LinearFast one = runShards(t, dy, {0, 400, 1000}, SerialFor());
    for (const int32_t threads : {1, 2, 3, 8})
        EXPECT_TRUE(one == runShards(t, dy, {0, 400, 1000}, ForkJoinFor(threads))) << threads << " threads";
}

TEST(LinearAttention, ZeroQueriesAndKeysGiveTheValues)
{
    Linear p = makeLinear(9, 2, 4);
    std::fill(p.q.begin(), p.q.end(), 0.0);
    std::fill(p.k.begin(), p.k.end(), 0.0);
    const LinearFast fast = runShards(Tensors(p), someGradient(9 * 4), {0, 9}, SerialFor());
    for (int64_t i = 0; i < 9; ++i) {
        for (int64_t x = 0; x < 4; ++x)
            EXPECT_NEAR(fast.y[size_t(i * 4 + x)], (p.v[size_t(i * 8 + x)] + p.v[size_t(i * 8 + 4 + x)]) / 2, 1e-6);
    }
    for (const float x : fast.dq)
        EXPECT_EQ(x, 0.0f);
}

TEST(LinearAttention, AHundredThousandTokensNeedNoSquareOfThem) // N x N fp32 would be 40 GB
{
    const Tensors t(makeLinear(100000, 1, 8));
    const LinearFast fast = runShards(t, someGradient(100000 * 8), {0, 50000, 100000}, ForkJoinFor(2));
    for (const float x : fast.y)
        ASSERT_TRUE(std::isfinite(x));
}

TEST(LinearAttention, RefusesBadShapesBeforeWriting)
{
    const Tensors t(makeLinear(4, 1, 4));
    std::vector<float> y(16, 7.0f), state(size_t(linearStateFloats(1, 4)), 1.0f);
    const auto refuses = [&](const char* text, LinearShape shape, const float* from, float* to) {
        const auto done = linearAttentionApply(shape, t.view(t.q, 0, 4), t.view(t.v, 0, 4), from, to, SerialFor());
        ASSERT_FALSE(done.ok()) << text;
        EXPECT_EQ(done.error().code, ErrorCode::InvalidInput);
        EXPECT_NE(done.error().message.find(text), std::string::npos) << done.error().message;
        EXPECT_EQ(y, std::vector<float>(16, 7.0f));
    };
    refuses("shape", {4, 3, 1, 4}, state.data(), y.data());
    refuses("shape", {4, 4, 1, 0}, state.data(), y.data());
    refuses("q: shape", {3, 4, 1, 4}, state.data(), y.data());
    refuses("state", {4, 4, 1, 4}, nullptr, y.data());
    refuses("y", {4, 4, 1, 4}, state.data(), nullptr);
}

} // namespace
} // namespace megagraph::kernels::reference
