// SPDX-License-Identifier: Apache-2.0
// The studio's tests need an application object, but no display.
#include "ui/pages/main_window.h"

#include <QApplication>
#include <gtest/gtest.h>

int main(int argc, char** argv)
{
    qputenv("QT_QPA_PLATFORM", "offscreen");
    QLocale::setDefault(QLocale(QLocale::English, QLocale::UnitedStates));
    ::testing::InitGoogleTest(&argc, argv);
    QApplication application(argc, argv);
    QFont font = QApplication::font();
    font.setPointSizeF(10);
    QApplication::setFont(font);
    megagraph::ui::applyApplicationTheme(megagraph::ui::ThemeMode::Light);
    return RUN_ALL_TESTS();
}
