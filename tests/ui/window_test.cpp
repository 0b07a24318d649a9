// SPDX-License-Identifier: Apache-2.0
// The whole window: pages, keys, names for tools that read the screen, no cut text.
#include "tests/ui/fixture.h"
#include "ui/pages/main_window.h"
#include "ui/widgets/bar_plots.h"
#include "ui/widgets/import_dialog.h"

#include <QAbstractButton>
#include <QApplication>
#include <QClipboard>
#include <QComboBox>
#include <QLineEdit>
#include <QPushButton>
#include <QTemporaryDir>
#include <QTableView>
#include <QtTest/QSignalSpy>
#include <QtTest/QTest>

#include <gtest/gtest.h>

namespace megagraph::ui {
namespace {

class Window : public ::testing::Test {
  protected:
    Window() : session_(home_.options()), window_(session_, false)
    {
        window_.resize(1280, 800);
        window_.show();
        session_.setTable(exampleTable());
        QApplication::setActiveWindow(&window_);
        QCoreApplication::processEvents();
    }
    void press(Qt::Key key, Qt::KeyboardModifiers modifiers = Qt::NoModifier)
    {
        if (QApplication::activeWindow() != &window_) // the offscreen platform does not hand activation back when a popup closes
            QApplication::setActiveWindow(&window_);
        QTest::keyClick(QApplication::focusWidget() ? QApplication::focusWidget() : &window_, key, modifiers);
        QCoreApplication::processEvents();
    }
    Home home_;
    Session session_;
    MainWindow window_;
};

TEST_F(Window, ReachesEveryPageByItsKey)
{
    press(Qt::Key_4, Qt::ControlModifier);
    EXPECT_EQ(window_.currentPage(), MainWindow::SpaceIndex);
    press(Qt::Key_5, Qt::ControlModifier);
    EXPECT_EQ(window_.currentPage(), MainWindow::PlanIndex);
    press(Qt::Key_8, Qt::ControlModifier);
    EXPECT_EQ(window_.currentPage(), MainWindow::RunIndex);
    press(Qt::Key_1, Qt::ControlModifier);
    EXPECT_EQ(window_.currentPage(), MainWindow::StartIndex);
    press(Qt::Key_Left, Qt::AltModifier);
    EXPECT_EQ(window_.currentPage(), MainWindow::RunIndex) << "back in the history of pages";
}

TEST_F(Window, AsksForAPathAndANameOnCtrlI)
{
    press(Qt::Key_I, Qt::ControlModifier);
    auto* dialog = window_.findChild<ImportDialog*>();
    ASSERT_NE(dialog, nullptr);
    const QTemporaryDir folder;
    ASSERT_TRUE(QDir(folder.path()).mkdir(QStringLiteral("My Graph.v2")));
    auto* path = dialog->findChildren<QLineEdit*>().at(0);
    auto* name = dialog->findChildren<QLineEdit*>().at(1);
    QPushButton* import = nullptr;
    for (QPushButton* each : dialog->findChildren<QPushButton*>())
        if (each->isDefault())
            import = each;
    ASSERT_NE(import, nullptr);
    EXPECT_FALSE(import->isEnabled()) << "nothing typed yet";
    QTest::keyClicks(path, folder.path() + QStringLiteral("/My Graph.v3"));
    EXPECT_FALSE(import->isEnabled()) << "no such folder";
    QTest::keyClick(path, Qt::Key_Backspace);
    QTest::keyClicks(path, QStringLiteral("2/"));
    EXPECT_TRUE(import->isEnabled());
    EXPECT_EQ(dialog->path(), folder.path() + QStringLiteral("/My Graph.v2"));
    EXPECT_EQ(dialog->name().toStdString(), "my-graph") << "a name follows from the path";
    name->selectAll();
    QTest::keyClicks(name, QStringLiteral("mine"));
    path->setText(folder.path());
    EXPECT_EQ(dialog->name().toStdString(), "mine") << "a typed name stays";
    QSignalSpy accepted(dialog, &QDialog::accepted);
    QTest::keyClick(path, Qt::Key_Return);
    EXPECT_EQ(accepted.count(), 1);
}

TEST_F(Window, FiltersPinsAndOpensAPlanByKeyboardAlone)
{
    press(Qt::Key_Slash);
    ASSERT_EQ(window_.currentPage(), MainWindow::SpaceIndex);
    auto* filter = qobject_cast<QLineEdit*>(QApplication::focusWidget());
    ASSERT_NE(filter, nullptr);
    QTest::keyClicks(filter, QStringLiteral("step_ms < 200"));
    EXPECT_EQ(session_.shownCount(), 2);
    auto* table = window_.page(MainWindow::SpaceIndex)->findChild<QTableView*>();
    QStringList way;
    for (int i = 0; i < 60 && QApplication::focusWidget() != table; ++i) {
        press(Qt::Key_Tab);
        const auto* button = qobject_cast<QAbstractButton*>(QApplication::focusWidget());
        way << (button ? button->text() : QApplication::focusWidget() ? QApplication::focusWidget()->accessibleName() : QStringLiteral("none"));
    }
    ASSERT_EQ(QApplication::focusWidget(), table) << "Tab reaches the table, active window " << (QApplication::activeWindow() == &window_) << ", popup " << (QApplication::activePopupWidget() != nullptr) << ": " << way.mid(0, 20).join(QStringLiteral(", ")).toStdString();
    press(Qt::Key_Home, Qt::ControlModifier);
    press(Qt::Key_Down);
    EXPECT_EQ(session_.focusRow()->plan.name, "E+2B+H:r2 gather | m1 fp32 fused lists") << "the table leads the selection";
    press(Qt::Key_P);
    EXPECT_EQ(session_.pinLetter(session_.focus()).toStdString(), "A");
    press(Qt::Key_Return);
    EXPECT_EQ(window_.currentPage(), MainWindow::PlanIndex);
    press(Qt::Key_4, Qt::ControlModifier);
    press(Qt::Key_Escape);
    EXPECT_TRUE(session_.filterText().isEmpty()) << "Esc peels the filter";
}

TEST_F(Window, CopiesTheCommandOfThePlanInFocus)
{
    press(Qt::Key_5, Qt::ControlModifier);
    press(Qt::Key_K, Qt::ControlModifier | Qt::ShiftModifier);
    // without a project there is nothing to repeat yet
    EXPECT_FALSE(QApplication::clipboard()->text().startsWith(QStringLiteral("megagraph")));
    session_.newProject(home_.path() + QStringLiteral("/p/p.megagraph"), QStringLiteral("sample"), QStringLiteral("graphormer-sample"));
    session_.setTable(exampleTable());
    press(Qt::Key_K, Qt::ControlModifier | Qt::ShiftModifier);
    EXPECT_TRUE(QApplication::clipboard()->text().startsWith(QStringLiteral("megagraph train --plan "))) << QApplication::clipboard()->text().toStdString();
}

TEST_F(Window, ShowsThePlannersNumbersOnThePlanPage)
{
    window_.showPage(MainWindow::PlanIndex);
    QCoreApplication::processEvents();
    QStringList texts;
    for (const QLabel* label : window_.page(MainWindow::PlanIndex)->findChildren<QLabel*>())
        texts << label->text();
    const std::string all = texts.join(QStringLiteral(" | ")).toStdString();
    EXPECT_TRUE(texts.contains(QStringLiteral("180\u00A0ms (162\u2013216)"))) << all;
    EXPECT_TRUE(texts.contains(QStringLiteral("300\u00A0MiB of 600\u00A0MiB"))) << all;
    const auto* bars = window_.page(MainWindow::PlanIndex)->findChild<MemoryBars*>();
    EXPECT_EQ(bars->summary().toStdString(), "rank 0 300\u00A0MiB, rank 1 300\u00A0MiB") << "shown parts add up to the total";
    session_.setFocus(session_.table()->rows[4].id);
    QCoreApplication::processEvents();
    EXPECT_TRUE(bars->summary().startsWith(QStringLiteral("rank 0 1.86"))) << bars->summary().toStdString();
}

TEST_F(Window, GivesEveryFocusableControlANameOrText)
{
    for (int page = 0; page < 4; ++page) {
        window_.showPage(page);
        for (QWidget* widget : window_.findChildren<QWidget*>()) {
            if (!widget->isVisible() || widget->focusPolicy() == Qt::NoFocus || !widget->isEnabled() || !(widget->focusPolicy() & Qt::TabFocus))
                continue;
            const auto* button = qobject_cast<QAbstractButton*>(widget);
            const bool named = !widget->accessibleName().isEmpty() || (button && !button->text().isEmpty()) ||
                               (widget->parentWidget() && !widget->parentWidget()->accessibleName().isEmpty());
            EXPECT_TRUE(named) << "page " << page << ": " << widget->metaObject()->className() << " in " << widget->parentWidget()->metaObject()->className();
        }
    }
}

TEST_F(Window, HasNoTrapForTheTabKey)
{
    for (int page = 0; page < 4; ++page) {
        window_.showPage(page);
        QCoreApplication::processEvents();
        window_.page(page)->focusFirst();
        QWidget* first = QApplication::focusWidget();
        ASSERT_NE(first, nullptr) << "page " << page;
        bool left = false, back = false;
        for (int i = 0; i < 80 && !back; ++i) {
            press(Qt::Key_Tab);
            left = left || QApplication::focusWidget() != first;
            back = left && QApplication::focusWidget() == first;
        }
        EXPECT_TRUE(back) << "page " << page << ": Tab does not come round";
    }
}

/// Buttons and plain labels get at least the room their text needs; labels that shorten themselves are exempt.
void expectNoCutText(MainWindow& window, const char* what)
{
    for (int page = 0; page < 4; ++page) {
        window.showPage(page);
        QCoreApplication::processEvents();
        for (const QLabel* label : window.findChildren<QLabel*>()) {
            if (!label->isVisible() || label->text().isEmpty() || label->sizePolicy().horizontalPolicy() == QSizePolicy::Ignored)
                continue;
            const QRect room(QPoint(0, 0), label->size());
            const QRect need = label->fontMetrics().boundingRect(QRect(0, 0, room.width(), 10000), label->wordWrap() ? int(Qt::TextWordWrap) : 0, label->text());
            EXPECT_LE(need.width(), room.width() + 1) << what << ", page " << page << ": " << label->text().toStdString();
            EXPECT_LE(need.height(), room.height() + 2) << what << ", page " << page << ": " << label->text().toStdString();
        }
        for (const QAbstractButton* button : window.findChildren<QAbstractButton*>()) {
            if (!button->isVisible() || button->text().isEmpty())
                continue;
            EXPECT_LE(button->fontMetrics().horizontalAdvance(button->text()), button->width() - 6)
                << what << ", page " << page << ": " << button->text().toStdString();
        }
        EXPECT_LE(window.page(page)->minimumSizeHint().width(), window.width()) << what << ", page " << page;
    }
}

TEST_F(Window, CutsNoTextAtTheDesignSize)
{
    expectNoCutText(window_, "1280x800");
}

TEST_F(Window, CutsNoTextWithLettersHalfAsLargeAgain)
{
    const QFont usual = QApplication::font();
    QFont large = usual;
    large.setPointSizeF(usual.pointSizeF() * 1.25);
    QApplication::setFont(large);
    {
        Session session(home_.options());
        MainWindow window(session, false);
        window.resize(1600, 1000);
        window.show();
        session.setTable(exampleTable());
        QCoreApplication::processEvents();
        expectNoCutText(window, "text 125 %");
    }
    QApplication::setFont(usual);
}

TEST_F(Window, ChangesItsThemeInPlace)
{
    applyApplicationTheme(ThemeMode::Dark);
    QCoreApplication::processEvents();
    EXPECT_TRUE(Theme::of(window_.palette()).isDark());
    const QImage dark = window_.grab().toImage();
    applyApplicationTheme(ThemeMode::Light);
    QCoreApplication::processEvents();
    EXPECT_LT(dark.pixelColor(640, 30).lightness(), 80);
    EXPECT_GT(window_.grab().toImage().pixelColor(640, 30).lightness(), 200);
}

} // namespace
} // namespace megagraph::ui
