// SPDX-License-Identifier: Apache-2.0
#include "ui/session/theme.h"

#include <gtest/gtest.h>

namespace megagraph::ui {
namespace {

class ThemeContrast : public ::testing::TestWithParam<bool> {
  protected:
    const Theme& theme() const { return GetParam() ? Theme::dark() : Theme::light(); }
    QList<QColor> grounds() const { return {theme().color(Role::Page), theme().color(Role::Panel)}; }
};

TEST_P(ThemeContrast, TextRolesReachFourAndAHalfToOneOnPageAndPanel)
{
    for (Role role : {Role::Text, Role::Muted, Role::Accent, Role::Ok, Role::Warning, Role::Error})
        for (const QColor& ground : grounds())
            EXPECT_GE(contrastRatio(theme().color(role), ground), 4.5) << "role " << int(role) << " on " << ground.name().toStdString();
}

TEST_P(ThemeContrast, MarksReachThreeToOneOnPageAndPanel)
{
    for (const QColor& ground : grounds()) {
        EXPECT_GE(contrastRatio(theme().color(Role::Line), ground), 3.0);
        for (int i = 0; i < kSeriesColors; ++i)
            EXPECT_GE(contrastRatio(theme().series(i), ground), 3.0) << "series " << i << " on " << ground.name().toStdString();
    }
}

TEST_P(ThemeContrast, SelectedRowsAndPrimaryButtonsStayReadable)
{
    EXPECT_GE(contrastRatio(theme().color(Role::Text), theme().selection()), 4.5);
    EXPECT_GE(contrastRatio(theme().color(Role::Page), theme().color(Role::Accent)), 4.5);
}

TEST_P(ThemeContrast, IsFoundAgainFromItsOwnPalette)
{
    EXPECT_EQ(Theme::of(theme().palette()).isDark(), GetParam());
}

INSTANTIATE_TEST_SUITE_P(Both, ThemeContrast, ::testing::Bool(),
                         [](const auto& info) { return std::string(info.param ? "Dark" : "Light"); });

TEST(Theme, FollowsTheSystemPaletteUnlessChosen)
{
    EXPECT_TRUE(Theme::choose(ThemeMode::System, Theme::dark().palette()).isDark());
    EXPECT_FALSE(Theme::choose(ThemeMode::Light, Theme::dark().palette()).isDark());
    EXPECT_TRUE(Theme::choose(ThemeMode::Dark, Theme::light().palette()).isDark());
}

TEST(Theme, GivesEveryMemoryCategoryAColourOfItsOwnAndSlackAHatch)
{
    QStringList names;
    for (int c = 0; c < kMemoryCategories; ++c)
        if (!Theme::isHatched(MemoryCategory(c)))
            names << Theme::light().memory(MemoryCategory(c)).name();
    EXPECT_EQ(names.size(), kMemoryCategories - 1);
    names.removeDuplicates();
    EXPECT_EQ(names.size(), kMemoryCategories - 1);
}

TEST(Theme, KnowsTheContrastOfBlackOnWhite)
{
    EXPECT_NEAR(contrastRatio(QColor(0, 0, 0), QColor(255, 255, 255)), 21.0, 1e-9);
}

} // namespace
} // namespace megagraph::ui
