// SPDX-License-Identifier: Apache-2.0
#include "core/event.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>

namespace megagraph {
namespace {

TEST(EventLine, MatchesThePublishedTestVector)
{
    const Json fields{{"utc", "2026-01-05T10:11:12.345Z"}, {"mono_s", 0.012}, {"attempt", 1}, {"kind", "attempt.start"}, {"world", 4}, {"resume_step", 0}};
    EXPECT_EQ(encodeJournalLine(1, fields),
              R"({"seq":1,"utc":"2026-01-05T10:11:12.345Z","mono_s":0.012,"attempt":1,"kind":"attempt.start","world":4,"resume_step":0,"crc":"5c2adbff"})"
              "\n");
}

TEST(EventLine, ReadsBackWhatItWrote)
{
    const auto line = decodeJournalLine(encodeJournalLine(42, Json{{"kind", "eval"}, {"value", 0.5}}));
    ASSERT_TRUE(line.ok());
    EXPECT_EQ((*line)["seq"], 42);
    EXPECT_EQ((*line)["value"], 0.5);
}

TEST(EventLine, AnyChangedByteIsFound)
{
    const std::string good = encodeJournalLine(7, Json{{"kind", "rank.exit"}, {"code", 1}, {"text", "a \"quoted\" text"}});
    for (size_t at = 0; at < good.size(); ++at)
        for (const char flip : {char(1), char(0x20), char(0x80)}) {
            std::string bad = good;
            bad[at] = char(bad[at] ^ flip);
            const auto line = decodeJournalLine(bad);
            if (line.ok()) // a checksum digit in another case would be the same number; nothing else may pass
                ADD_FAILURE() << "byte " << at << " changed to " << int(bad[at]) << " was not found";
        }
}

TEST(EventLine, EveryCutIsFound)
{
    const std::string good = encodeJournalLine(7, Json{{"kind", "rank.exit"}, {"code", 1}});
    for (size_t size = 0; size < good.size(); ++size)
        EXPECT_FALSE(decodeJournalLine(std::string_view(good).substr(0, size)).ok()) << size;
}

TEST(EventLine, NonFiniteNumbersAreSpelt)
{
    const double inf = std::numeric_limits<double>::infinity();
    const std::string line = encodeLine(Json{{"loss", {std::nan(""), inf, -inf, 1.5}}});
    EXPECT_EQ(line, "{\"loss\":[\"nan\",\"inf\",\"-inf\",1.5]}\n");
    const auto back = decodeLine(line);
    ASSERT_TRUE(back.ok());
    EXPECT_TRUE(std::isnan(numberOf((*back)["loss"][0])));
    EXPECT_EQ(numberOf((*back)["loss"][1]), inf);
    EXPECT_EQ(numberOf((*back)["loss"][2]), -inf);
    EXPECT_EQ(numberOf((*back)["loss"][3]), 1.5);
}

TEST(EventLine, OverLongFieldsAreCutAndTheLineStaysValid)
{
    const std::string line = encodeJournalLine(1, Json{{"kind", "failure"}, {"sentence", std::string(100'000, 'x')}, {"list", std::vector<int>(9000, 1)}});
    EXPECT_LE(line.size(), kMaxEventLine);
    const auto back = decodeJournalLine(line);
    ASSERT_TRUE(back.ok()) << back.error().message;
    EXPECT_EQ((*back)["kind"], "failure");
    EXPECT_EQ((*back)["cut"], true);
}

TEST(EventLine, TextThatIsNoUtf8DoesNotThrow)
{
    EXPECT_TRUE(decodeJournalLine(encodeJournalLine(1, Json{{"text", "\xff\xfe broken"}})).ok());
    EXPECT_FALSE(decodeLine("}{").ok());
    EXPECT_FALSE(decodeLine("[1,2]").ok());
    EXPECT_FALSE(decodeLine(std::string(20'000, '[')).ok());
}

} // namespace
} // namespace megagraph
