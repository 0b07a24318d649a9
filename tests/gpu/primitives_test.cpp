// SPDX-License-Identifier: Apache-2.0
// The stored results of the primitives: what the emulation says today, in every order; readers refuse damage.
#include "core/file.h"
#include "tests/gpu/primitives_on_cpu.h"

#include <bit>

#include <gtest/gtest.h>

namespace megagraph::kernels::goldens {
namespace {

std::vector<StoredWords> stored()
{
    const auto bytes = readSmallFile(MEGAGRAPH_TEST_DATA "/kernels/primitives.words", 1 << 20);
    EXPECT_TRUE(bytes.ok());
    const auto entries = decodeWords("primitives.words", bytes.ok() ? bytes.value() : std::string());
    EXPECT_TRUE(entries.ok()) << (entries.ok() ? "" : entries.error().message);
    return entries.ok() ? entries.value() : std::vector<StoredWords>();
}

TEST(GpuPrimitives, TheStoredWordsAreTheEmulationsInEveryOrder)
{
    const std::vector<StoredWords> expected = stored();
    ASSERT_EQ(expected.size(), allPrimitives().size());
    for (const uint64_t seed : {0, 1, 2, 3}) {
        const std::vector<StoredWords> now = emulatePrimitives(seed);
        ASSERT_EQ(now.size(), expected.size());
        for (size_t i = 0; i < now.size(); ++i)
            EXPECT_EQ(differsFrom(allPrimitives()[i], expected[i].words, now[i].words), "") << now[i].name << ", seed " << seed;
    }
}

/// D = A B + D for one warp by plain loops over the matrices, from the register layout of the PTX manual.
TEST(GpuPrimitives, TheProductIsThatOfTheMatrices)
{
    const Primitive& p = allPrimitives()[0];
    const std::vector<uint32_t> in = primitiveInput(p), out = stored()[0].words;
    const auto half = [](uint32_t w, int i) { return std::bit_cast<float>(i == 0 ? w << 16 : w & 0xFFFF0000u); };
    for (int lane = 0; lane < 32; ++lane) {
        const int g = lane / 4, t = lane % 4;
        for (int i = 0; i < 4; ++i) {
            const int row = g + 8 * (i / 2), column = 2 * t + i % 2;
            float sum = std::bit_cast<float>(in[size_t(lane * 10 + 6 + i)]);
            for (int k = 0; k < 16; ++k) {
                const int aLane = row % 8 * 4 + k % 8 / 2, aWord = row / 8 + 2 * (k / 8), bLane = column * 4 + k % 8 / 2;
                sum += half(in[size_t(aLane * 10 + aWord)], k % 2) * half(in[size_t(bLane * 10 + 4 + k / 8)], k % 2);
            }
            EXPECT_EQ(std::bit_cast<float>(out[size_t(lane * 4 + i)]), sum) << "lane " << lane << " sum " << i;
        }
    }
}

/// Q K^T and A V of a warp group by plain loops over the matrices before the swizzle.
TEST(GpuPrimitives, TheGroupProductsAreThoseOfTheMatrices)
{
    const Primitive& p = allPrimitives().back();
    ASSERT_STREQ(p.name, "group_products");
    const std::vector<uint32_t> in = primitiveInput(p), out = stored().back().words;
    const auto half = [](uint32_t w, int i) { return std::bit_cast<float>(i == 0 ? w << 16 : w & 0xFFFF0000u); };
    const auto panel = [&](int which, int row, int column) { return half(in[size_t(which * 2048 + row * 32 + column / 2)], column % 2); };
    for (int thread = 0; thread < 128; ++thread) {
        const int warp = thread / 32, g = thread % 32 / 4, t = thread % 4;
        for (int j = 0; j < 16; ++j) {
            for (int i = 0; i < 4; ++i) {
                const int row = 16 * warp + g + 8 * (i / 2), column = 8 * j + 2 * t + i % 2;
                float score = 0, value = 0;
                for (int k = 0; k < 64; ++k) {
                    const int step = k / 16, inside = k % 16, owner = (thread & ~31) + g * 4 + inside % 8 / 2;
                    const float left = half(in[size_t(4 * 2048 + owner * 16 + step * 4 + 2 * (inside / 8) + i / 2)], inside % 2);
                    value += left * panel(2 + column / 64, k, column % 64);
                    score += j < 8 ? panel(0, row, k) * panel(1, column, k) : 0.0f;
                }
                EXPECT_EQ(std::bit_cast<float>(out[size_t(thread * 128 + 64 + j * 4 + i)]), value) << thread << " " << j << " " << i;
                if (j < 8) {
                    EXPECT_EQ(std::bit_cast<float>(out[size_t(thread * 128 + j * 4 + i)]), score) << thread << " " << j << " " << i;
                    EXPECT_EQ(std::bit_cast<float>(out[size_t(thread * 128 + 32 + j * 4 + i)]), value) << thread << " " << j << " " << i;
                }
            }
        }
    }
}

TEST(GpuPrimitives, AWrongWordIsNoticedAndDamageIsRefused)
{
    std::vector<StoredWords> entries = stored();
    for (size_t i = 0; i < entries.size(); ++i) {
        std::vector<uint32_t> wrong = entries[i].words;
        wrong.back() ^= 0x80u;
        EXPECT_NE(differsFrom(allPrimitives()[i], entries[i].words, wrong), "") << entries[i].name;
    }
    const std::string bytes = encodeWords(entries);
    EXPECT_TRUE(decodeWords("x", bytes).ok());
    for (const size_t length : {size_t(0), size_t(12), size_t(30), bytes.size() - 4})
        EXPECT_FALSE(decodeWords("x", std::string_view(bytes).substr(0, length)).ok());
    std::string flipped = bytes;
    flipped[100] ^= 1;
    EXPECT_FALSE(decodeWords("x", flipped).ok());
}

} // namespace
} // namespace megagraph::kernels::goldens
