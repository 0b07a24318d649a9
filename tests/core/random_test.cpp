// SPDX-License-Identifier: Apache-2.0
#include "core/random.h"

#include <gtest/gtest.h>
#include <vector>

using namespace megagraph;

TEST(Random, PhiloxMatchesPublishedKnownAnswers) // Random123, kat_vectors, philox4x32
{
    const PhiloxBlock zeros = philox4x32({0, 0, 0, 0}, {0, 0}, 10);
    EXPECT_EQ(zeros, (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
    const PhiloxBlock ones = philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, 10);
    EXPECT_EQ(ones, (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
    const PhiloxBlock digits = philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}, 10);
    EXPECT_EQ(digits, (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
    EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}, 7), (PhiloxBlock{0x5f6fb709, 0x0d893f64, 0x4f121f81, 0x4f730a48}));
}

TEST(Random, UniformDrawsLieInTheUnitIntervalWithItsMoments)
{
    double sum = 0, squares = 0;
    constexpr int kDraws = 20000;
    for (int i = 0; i < kDraws; ++i) {
        const double u = drawUniform(1, 2, static_cast<uint64_t>(i));
        ASSERT_GE(u, 0.0);
        ASSERT_LT(u, 1.0);
        sum += u;
        squares += u * u;
    }
    EXPECT_NEAR(sum / kDraws, 0.5, 0.01);          // five standard errors
    EXPECT_NEAR(squares / kDraws, 1.0 / 3, 0.011);
}

TEST(Random, DrawsBelowABoundCoverItEvenly)
{
    std::vector<int> seen(7, 0);
    for (uint64_t i = 0; i < 14000; ++i)
        ++seen.at(drawBelow(3, 4, i, 7));
    for (const int count : seen)
        EXPECT_NEAR(count, 2000, 220);
    EXPECT_EQ(drawBelow(3, 4, 5, 1), 0u);
}

TEST(Random, DrawBelowIsTheHighHalfOfTheFullProduct)
{
    for (uint64_t i = 0; i < 1000; ++i) {
        const PhiloxBlock words = drawWords(9, 8, i);
        const uint64_t bits = uint64_t(words[0]) << 32 | words[1];
        const uint64_t bound = splitmix64(i) | 1;
        __extension__ using Wide = unsigned __int128;
        EXPECT_EQ(drawBelow(9, 8, i, bound), static_cast<uint64_t>(Wide(bits) * bound >> 64));
    }
}

TEST(Random, SeedStreamAndIndexEachChangeTheDraw)
{
    const PhiloxBlock base = drawWords(1, 1, 1);
    EXPECT_NE(drawWords(2, 1, 1), base);
    EXPECT_NE(drawWords(1, 2, 1), base);
    EXPECT_NE(drawWords(1, 1, 2), base);
    EXPECT_NE(drawWords(uint64_t(1) << 32 | 1, 1, 1), base) << "the high half of the seed counts";
    EXPECT_EQ(drawWords(1, 1, 1), base);
}
