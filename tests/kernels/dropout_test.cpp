// SPDX-License-Identifier: Apache-2.0
// Counter-based dropout: known answers, rate, one mask whatever the cut.
#include "kernels/dropout.h"
#include "tests/kernels/attention_cases.h"

namespace megagraph::kernels::testing {
namespace {

TEST(Dropout, PhiloxGivesThePublishedAnswers)
{
    // Random123 kat_vectors, philox4x32 with 7 rounds
    EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}, 7), (PhiloxBlock{0x5F6FB709u, 0x0D893F64u, 0x4F121F81u, 0x4F730A48u}));
    EXPECT_EQ(philox4x32({0xFFFFFFFFu, 0xFFFFFFFFu, 0xFFFFFFFFu, 0xFFFFFFFFu}, {0xFFFFFFFFu, 0xFFFFFFFFu}, 7),
              (PhiloxBlock{0x5207DDC2u, 0x45165E59u, 0x4D8EE751u, 0x8C52F662u}));
}

TEST(Dropout, KeepsTheExpectedShareAndScalesToTheMean)
{
    forEachSet([] {
        for (const double p : {0.0, 0.1, 0.5, 0.9}) {
            const Dropout dropout{p, 3, 5, 0, 1, kSiteFfn};
            const int64_t rows = 300, cols = 401;
            const std::vector<float> x(size_t(rows * cols), 1.0f);
            Guarded<float> y(x.size());
            dropoutApply(dropout, rows, cols, 0, 0, x.data(), y.data(), SerialFor());
            double kept = 0, sum = 0;
            for (const float v : y.values()) {
                EXPECT_TRUE(v == 0.0f || v == dropoutScale(p));
                kept += v != 0.0f;
                sum += double(v);
            }
            const double n = double(rows * cols), sigma = std::sqrt(n * p * (1 - p));
            EXPECT_LE(std::abs(kept - n * (1 - p)), 4 * sigma + 1e-9 + n / 65536.0) << p;
            EXPECT_LE(std::abs(sum - n), (4 * sigma + 1) * double(dropoutScale(p))) << p;
        }
    });
}

TEST(Dropout, MaskIsThatOfTheEightBitWordsAtGlobalPositions)
{
    forEachSet([] {
        const Dropout dropout{0.4, 7, 9, 2, 3, kSiteResidual1};
        const int64_t rows = 5, cols = 333, row0 = (int64_t(1) << 32) - 2, col0 = 1003;
        const std::vector<float> x = randomFloats(size_t(rows * cols), 1, 1);
        Guarded<float> y(x.size());
        dropoutApply(dropout, rows, cols, row0, col0, x.data(), y.data(), SerialFor());
        const std::vector<float> got = y.values();
        for (int64_t i = 0; i < rows; ++i) {
            for (int64_t c = 0; c < cols; ++c) {
                const uint8_t bits = dropoutKeep8(dropout, 0, uint64_t(row0 + i), uint64_t(col0 + c) >> 3);
                const bool keep = (bits >> ((col0 + c) & 7) & 1) != 0;
                const float expected = keep ? x[size_t(i * cols + c)] * dropoutScale(0.4) : 0.0f;
                ASSERT_EQ(got[size_t(i * cols + c)], expected) << i << ", " << c;
            }
        }
    });
}

TEST(Dropout, CutsThreadsAndSetsDoNotChangeTheMask)
{
    const Dropout dropout{0.3, 1, 2, 3, 4, kSiteInput};
    const int64_t rows = 700, cols = 130;
    const std::vector<float> x = randomFloats(size_t(rows * cols), 2, 1);
    std::vector<float> first;
    forEachSet([&] {
        std::vector<float> whole(x.size()), parts(x.size());
        dropoutApply(dropout, rows, cols, 0, 0, x.data(), whole.data(), ForkJoinFor(3));
        for (int64_t begin = 0; begin < rows; begin += 99)
            dropoutApply(dropout, std::min<int64_t>(99, rows - begin), cols, begin, 0, x.data() + begin * cols, parts.data() + begin * cols,
                         SerialFor());
        EXPECT_EQ(whole, parts);
        std::vector<float> place = x;
        dropoutApply(dropout, rows, cols, 0, 0, place.data(), place.data(), SerialFor());
        EXPECT_EQ(whole, place);
        if (first.empty())
            first = whole;
        EXPECT_EQ(whole, first);
    });
}

TEST(Dropout, EveryPartOfTheKeyChangesTheMask)
{
    const Dropout base{0.5, 1, 1, 1, 1, kSiteFfn};
    std::vector<Dropout> others(5, base);
    others[0].seed = 2;
    others[1].step = 2;
    others[2].item = 2;
    others[3].layer = 2;
    others[4].site = kSiteInput;
    for (const Dropout& other : others) {
        int same = 0;
        for (uint64_t row = 0; row < 64; ++row)
            same += dropoutKeep8(base, 0, row, 0) == dropoutKeep8(other, 0, row, 0);
        EXPECT_LE(same, 8);
    }
}

TEST(Dropout, DroppedNotANumberDoesNotLeak)
{
    const Dropout dropout{0.5, 1, 1, 0, 0, kSiteInput};
    const std::vector<float> x(64, std::numeric_limits<float>::quiet_NaN());
    std::vector<float> y(64);
    dropoutApply(dropout, 1, 64, 0, 0, x.data(), y.data(), SerialFor());
    int zeros = 0;
    for (const float v : y)
        zeros += v == 0.0f;
    EXPECT_GT(zeros, 10);
}

} // namespace
} // namespace megagraph::kernels::testing
