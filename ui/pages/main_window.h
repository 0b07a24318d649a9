// SPDX-License-Identifier: Apache-2.0
// The shell: rail, pages, notice line, menus, keys. Holds no state worth saving beyond page, geometry and theme. GUI thread.
#pragma once

#include "ui/pages/page.h"
#include "ui/widgets/shell_parts.h"

#include <QMainWindow>
#include <QStackedWidget>

namespace megagraph::ui {

class MainWindow : public QMainWindow {
    Q_OBJECT
  public:
    enum PageIndex { StartIndex, SpaceIndex, PlanIndex, RunIndex };
    /// `restores`: geometry, theme and page of the last time are taken and kept.
    MainWindow(Session& session, bool restores, QWidget* parent = nullptr);

    Page* page(int index);
    void showPage(int index);
    int currentPage() const { return stack_->currentIndex(); }
    static int pageNamed(const QString& name); ///< "start" ..., -1 when unknown

  protected:
    void closeEvent(QCloseEvent* event) override;

  private:
    void makeMenus();
    QAction* addCommand(QMenu* menu, const QString& text, const QKeySequence& key, std::function<void()> run);
    void copyCommand();
    void setTheme(ThemeMode mode);
    void showKeys();
    void showTitle();

    Session& session_;
    bool restores_;
    Rail* rail_;
    QStackedWidget* stack_;
    NoticeLine* notices_;
    QList<int> history_;
    int historyAt_ = -1;
    bool walking_ = false;
};

/// Style, palette and fonts of the application; called once, and on every choice of theme.
void applyApplicationTheme(ThemeMode mode);

} // namespace megagraph::ui
