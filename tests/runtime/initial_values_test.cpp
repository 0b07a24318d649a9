// SPDX-License-Identifier: Apache-2.0
#include "runtime/initial_values.h"

#include <cmath>
#include <gtest/gtest.h>
#include <vector>

namespace megagraph::runtime {
namespace {

ParameterSpec spec(InitKind kind, std::vector<int64_t> shape, double scale = 1.0, int64_t fanIn = 0)
{
    ParameterSpec s;
    s.name = "a.weight";
    s.shape = std::move(shape);
    s.init = kind;
    s.initScale = scale;
    s.fanIn = fanIn;
    return s;
}

std::vector<float> values(const ParameterSpec& s, uint64_t seed)
{
    std::vector<float> out(size_t(s.elements()));
    initialValues(s, seed, 0, out);
    return out;
}

TEST(InitialValues, ASliceEqualsTheWhole)
{
    for (const InitKind kind : {InitKind::LinearUniform, InitKind::Normal, InitKind::Glorot, InitKind::DecayTable, InitKind::One}) {
        const ParameterSpec s = spec(kind, {6, 9}, 0.02, 9);
        const std::vector<float> whole = values(s, 3);
        for (int64_t begin = 0; begin < 54; begin += 7) {
            std::vector<float> slice(size_t(std::min<int64_t>(7, 54 - begin)));
            initialValues(s, 3, begin, slice);
            for (size_t i = 0; i < slice.size(); ++i)
                EXPECT_EQ(slice[i], whole[size_t(begin) + i]);
        }
    }
}

TEST(InitialValues, SeedAndNameChangeEveryDraw)
{
    ParameterSpec s = spec(InitKind::Normal, {64, 64}, 0.02);
    const auto first = values(s, 1), seeded = values(s, 2);
    s.name = "b.weight";
    const auto named = values(s, 1);
    int equal = 0;
    for (size_t i = 0; i < first.size(); ++i)
        equal += int(first[i] == seeded[i]) + int(first[i] == named[i]);
    EXPECT_LE(equal, 2);
}

TEST(InitialValues, MomentsAndBoundsAreThoseOfTheDistribution)
{
    const auto normal = values(spec(InitKind::Normal, {200, 200}, 0.02), 5);
    double sum = 0, squares = 0;
    for (const float v : normal)
        sum += v, squares += double(v) * v;
    EXPECT_NEAR(sum / 40000, 0.0, 4 * 0.02 / 200);
    EXPECT_NEAR(std::sqrt(squares / 40000), 0.02, 0.0005);
    double highest = 0, lowest = 0, spread = 0;
    for (const float v : values(spec(InitKind::LinearUniform, {200, 200}, 1.0, 25), 5)) {
        highest = std::max(highest, double(v)), lowest = std::min(lowest, double(v));
        spread += double(v) * v;
    }
    EXPECT_LE(highest, 0.2);
    EXPECT_GE(lowest, -0.2);
    EXPECT_GT(highest, 0.199);
    EXPECT_LT(lowest, -0.199);
    EXPECT_NEAR(spread / 40000, 0.04 / 3, 0.0003);
    double bound = 0;
    for (const float v : values(spec(InitKind::Glorot, {50, 100}, 1.0, 100), 5))
        bound = std::max(bound, double(std::fabs(v)));
    EXPECT_LE(bound, 0.2); // sqrt(6 / 150)
    EXPECT_GT(bound, 0.198);
    for (const float v : values(spec(InitKind::LinearUniformScaled, {20, 20}, 0.1, 25), 5))
        EXPECT_LE(std::fabs(v), 0.02);
}

TEST(InitialValues, DecayTableIsThePublishedLadder)
{
    const auto table = values(spec(InitKind::DecayTable, {3, 7}), 1); // K = 3
    const float slopes[] = {1.5f, 2.25f, 3.0f};
    const float steps[] = {0, 1, 2, 3, 5, 7, 0};
    for (size_t h = 0; h < 3; ++h)
        for (size_t c = 0; c < 7; ++c)
            EXPECT_FLOAT_EQ(table[h * 7 + c], -slopes[h] * steps[c]);
}

} // namespace
} // namespace megagraph::runtime
