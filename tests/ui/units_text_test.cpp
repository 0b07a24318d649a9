// SPDX-License-Identifier: Apache-2.0
#include "ui/session/units_text.h"

#include <gtest/gtest.h>

namespace megagraph::ui {
namespace {

std::string plain(QString text)
{
    return text.replace(QChar(0x00A0), QLatin1Char(' ')).toStdString();
}

TEST(UnitsText, KeepsThreeSignificantDigits)
{
    const QLocale c = QLocale::c();
    EXPECT_EQ(plain(significantText(0.01234, c)), "0.0123");
    EXPECT_EQ(plain(significantText(1.2345, c)), "1.23");
    EXPECT_EQ(plain(significantText(9.996, c)), "10.0");
    EXPECT_EQ(plain(significantText(99.96, c)), "100");
    EXPECT_EQ(plain(significantText(0.0, c)), "0");
    EXPECT_EQ(plain(significantText(-12.345, c)), "-12.3");
    EXPECT_EQ(plain(significantText(std::nan(""), c)), "n/a");
}

TEST(UnitsText, ShowsMillisecondsBelowTenSecondsThenSecondsThenAClock)
{
    const QLocale c = QLocale::c();
    EXPECT_EQ(plain(timeText(142.4e6, c)), "142 ms");
    EXPECT_EQ(plain(timeText(0.4123e6, c)), "0.412 ms");
    EXPECT_EQ(plain(timeText(12.34e9, c)), "12.3 s");
    EXPECT_EQ(plain(timeText(102e9, c)), "1:42");
    EXPECT_EQ(plain(timeText(3723e9, c)), "1:02:03");
}

TEST(UnitsText, WritesIntervalsInTheUnitOfTheValue)
{
    EXPECT_EQ(plain(intervalText(142000000, 131000000, 155000000, QLocale::c())), "142 ms (131\u2013155)");
    EXPECT_EQ(plain(intervalText(142000000, 0, 0, QLocale::c())), "142 ms");
}

TEST(UnitsText, CountsMemoryInBinaryUnits)
{
    const QLocale c = QLocale::c();
    EXPECT_EQ(plain(memoryText(12, c)), "12 B");
    EXPECT_EQ(plain(memoryText(812.0 * 1024, c)), "812 KiB");
    EXPECT_EQ(plain(memoryText(61.2 * 1024 * 1024 * 1024, c)), "61.2 GiB");
    EXPECT_EQ(plain(memoryText(1020.0 * 1024, c)), "0.996 MiB");
    EXPECT_EQ(plain(gibText(1536.0 * 1024 * 1024, c)), "1.50");
}

TEST(UnitsText, NeverSaysABareFits)
{
    const QLocale c = QLocale::c();
    EXPECT_EQ(plain(chanceText(0.973, c)), "97 %");
    EXPECT_EQ(plain(chanceText(0.999, c)), "> 99 %");
    EXPECT_EQ(plain(chanceText(0.0, c)), "< 1 %");
    EXPECT_EQ(plain(chanceText(std::nan(""), c)), "n/a");
}

TEST(UnitsText, FollowsTheLocaleOnDisplay)
{
    EXPECT_EQ(plain(significantText(1.234, QLocale(QLocale::German))), "1,23");
    EXPECT_EQ(plain(countText(1204112, QLocale(QLocale::German))), "1.204.112");
}

TEST(UnitsText, MarksEachProvenanceByAShapeOfItsOwn)
{
    using planner::Provenance;
    QStringList marks;
    for (int p = 0; p < 5; ++p)
        marks << provenanceMark(Provenance(p));
    marks.removeDuplicates();
    EXPECT_EQ(marks.size(), 5);
}

} // namespace
} // namespace megagraph::ui
