// SPDX-License-Identifier: Apache-2.0
#include "core/units.h"

#include <cstdlib>
#include <gtest/gtest.h>

using namespace megagraph;

TEST(Units, DurationsHaveThreeSignificantDigits)
{
    EXPECT_EQ(durationText(0), "0 ns");
    EXPECT_EQ(durationText(999), "999 ns");
    EXPECT_EQ(durationText(412'000), "412 us");
    EXPECT_EQ(durationText(142'000'000), "142 ms");
    EXPECT_EQ(durationText(1'310'000'000), "1.31 s");
    EXPECT_EQ(durationText(41'234'000), "41.2 ms");
    EXPECT_EQ(durationText(999'600'000), "1.00 s") << "rounding must not show 1000 ms";
    EXPECT_EQ(durationText(600'000'000'000), "10.0 min");
    EXPECT_EQ(durationText(36'000'000'000'000), "10.0 h");
    EXPECT_EQ(durationText(-5'000'000), "-5.00 ms");
}

TEST(Units, BytesAreBinaryWithThreeSignificantDigits)
{
    EXPECT_EQ(bytesText(12), "12 B");
    EXPECT_EQ(bytesText(831'488), "812 KiB");
    EXPECT_EQ(bytesText(65'713'000'448), "61.2 GiB");
    EXPECT_EQ(bytesText(int64_t(2) << 30), "2.00 GiB");
    EXPECT_EQ(bytesText(1023 * 1024), "0.999 MiB");
    EXPECT_EQ(bytesText(-1024 * 1024), "-1.00 MiB");
    EXPECT_EQ(bytesText(INT64_MAX), "8.00 EiB");
}

TEST(Units, SizesAreParsedWithEveryUnit)
{
    EXPECT_EQ(*parseBytes("1GiB"), int64_t(1) << 30);
    EXPECT_EQ(*parseBytes("512 MiB"), int64_t(512) << 20);
    EXPECT_EQ(*parseBytes("2GB"), 2'000'000'000);
    EXPECT_EQ(*parseBytes("4096"), 4096);
    EXPECT_EQ(*parseBytes(" 1.5 kib "), 1536);
    EXPECT_EQ(*parseBytes("0"), 0);
}

TEST(Units, BadSizesNameTheTextAndTheUnits)
{
    for (const char* text : {"", "GiB", "-1GiB", "1 parsec", "nan", "inf", "1e300", "1.2.3MiB", "0x10"}) {
        const auto size = parseBytes(text);
        ASSERT_FALSE(size.ok()) << text;
        EXPECT_EQ(size.error().code, ErrorCode::InvalidInput);
        EXPECT_NE(size.error().message.find("\"" + std::string(text) + "\""), std::string::npos);
        EXPECT_NE(size.error().message.find("MiB"), std::string::npos);
    }
}

TEST(Units, NowIsWrittenInUtcWithMilliseconds)
{
    const std::string now = utcNow();
    ASSERT_EQ(now.size(), 24u);
    EXPECT_EQ(now[10], 'T');
    EXPECT_EQ(now[19], '.');
    EXPECT_EQ(now[23], 'Z');
    EXPECT_GE(std::atoi(now.substr(0, 4).c_str()), 2024);
}

TEST(Units, IndicesOfDifferentKindsDoNotMix)
{
    static_assert(!std::is_convertible_v<Rank, StageId>);
    static_assert(!std::is_convertible_v<int64_t, Rank>);
    EXPECT_LT(Rank(1), Rank(2));
}
