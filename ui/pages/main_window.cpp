// SPDX-License-Identifier: Apache-2.0
#include "ui/pages/main_window.h"

#include "core/places.h"
#include "ui/pages/plan_page.h"
#include "ui/pages/run_page.h"
#include "ui/pages/space_page.h"
#include "ui/pages/start_page.h"
#include "ui/widgets/studio_style.h"

#include <QActionGroup>
#include <QApplication>
#include <QClipboard>
#include <QCloseEvent>
#include <QFileDialog>
#include <QGuiApplication>
#include <QMenuBar>
#include <QMessageBox>
#include <QScreen>
#include <QSettings>
#include <QToolTip>

static void loadIcons() // the macro has to be used outside of any namespace
{
    Q_INIT_RESOURCE(icons);
}

namespace megagraph::ui {
namespace {

struct PageEntry { const char *name, *iconName, *title, *key; };
// numbers are those of the complete set of pages, so that a key never changes its meaning
constexpr PageEntry kPages[] = {{"start", "start", QT_TRANSLATE_NOOP("pages", "Start"), "Ctrl+1"},
                                {"space", "space", QT_TRANSLATE_NOOP("pages", "Space"), "Ctrl+4"},
                                {"plan", "plan", QT_TRANSLATE_NOOP("pages", "Plan"), "Ctrl+5"},
                                {"run", "run", QT_TRANSLATE_NOOP("pages", "Run"), "Ctrl+8"}};

QSettings settings()
{
    return QSettings(QSettings::IniFormat, QSettings::UserScope, QStringLiteral("megagraph"), QStringLiteral("studio"));
}

} // namespace

void applyApplicationTheme(ThemeMode mode)
{
    loadIcons();
    static const QPalette system = QApplication::palette(); // before ours replaces it
    if (!qobject_cast<StudioStyle*>(QApplication::style())) {
        QApplication::setStyle(new StudioStyle);
        new FocusRing(qApp);
    }
    const QPalette palette = Theme::choose(mode, system).palette();
    QApplication::setPalette(palette);
    QToolTip::setPalette(palette);
}

MainWindow::MainWindow(Session& session, bool restores, QWidget* parent)
    : QMainWindow(parent), session_(session), restores_(restores)
{
    rail_ = new Rail;
    for (const PageEntry& entry : kPages)
        rail_->addPage(QString::fromLatin1(entry.iconName), QCoreApplication::translate("pages", entry.title),
                       QKeySequence(QString::fromLatin1(entry.key)));
    stack_ = new QStackedWidget;
    for (Page* page : std::initializer_list<Page*>{new StartPage(session), new SpacePage(session), new PlanPage(session), new RunPage(session)}) {
        stack_->addWidget(page);
        connect(page, &Page::startOpened, this, [this] { showPage(StartIndex); });
        connect(page, &Page::spaceOpened, this, [this] { showPage(SpaceIndex); });
        connect(page, &Page::planOpened, this, [this] { showPage(PlanIndex); });
        connect(page, &Page::runOpened, this, [this] { showPage(RunIndex); });
    }
    notices_ = new NoticeLine(session);
    auto* middle = new QWidget;
    auto* column = new QVBoxLayout(middle);
    column->setContentsMargins(0, 0, 0, 0);
    column->setSpacing(0);
    auto* row = new QHBoxLayout;
    row->setSpacing(0);
    row->addWidget(rail_);
    row->addWidget(stack_, 1);
    column->addLayout(row, 1);
    column->addWidget(notices_);
    setCentralWidget(middle);
    makeMenus();
    connect(rail_, &Rail::chosen, this, &MainWindow::showPage);
    connect(&session_, &Session::projectChanged, this, &MainWindow::showTitle);
    connect(&session_, &Session::runStarted, this, [this] { showPage(RunIndex); });
    const auto badge = [this] { rail_->setBadge(RunIndex, session_.run() && session_.run()->record().isAlive() ? QStringLiteral("\u25CF") : QString()); };
    connect(&session_, &Session::runUpdated, this, badge);
    connect(&session_, &Session::runChanged, this, badge);
    setWindowIcon(icon(QStringLiteral("app"), palette()));
    resize(1280, 800);
    if (restores_) {
        restoreGeometry(settings().value(QStringLiteral("geometry")).toByteArray());
        if (const QScreen* here = screen()) // a screen may be gone since the last time
            resize(size().boundedTo(here->availableSize() - QSize(8, style()->pixelMetric(QStyle::PM_TitleBarHeight) + 8)));
    }
    showTitle();
    showPage(StartIndex);
}

int MainWindow::pageNamed(const QString& name)
{
    for (int i = 0; i < int(std::size(kPages)); ++i)
        if (name == QLatin1String(kPages[i].name))
            return i;
    return -1;
}

Page* MainWindow::page(int index)
{
    return static_cast<Page*>(stack_->widget(index));
}

void MainWindow::showPage(int index)
{
    if (!walking_ && (historyAt_ < 0 || history_[historyAt_] != index)) {
        history_.resize(historyAt_ + 1);
        history_.append(index);
        historyAt_ = int(history_.size()) - 1;
    }
    rail_->setCurrent(index);
    if (stack_->currentIndex() == index && isVisible())
        return;
    stack_->setCurrentIndex(index);
    if (isVisible())
        page(index)->focusFirst();
}

QAction* MainWindow::addCommand(QMenu* menu, const QString& text, const QKeySequence& key, std::function<void()> run)
{
    QAction* action = menu->addAction(text);
    action->setShortcut(key);
    connect(action, &QAction::triggered, this, std::move(run));
    return action;
}

void MainWindow::makeMenus()
{
    QMenu* project = menuBar()->addMenu(tr("&Project"));
    addCommand(project, tr("Open &sample"), {}, [this] { session_.openSample(); });
    addCommand(project, tr("&Open\u2026"), QKeySequence::Open, [this] {
        const QString path = QFileDialog::getOpenFileName(this, tr("Open project"), session_.home(), tr("Project (*.megagraph)"));
        if (!path.isEmpty())
            session_.openProject(path);
    });
    addCommand(project, tr("&Import a graph\u2026"), QKeySequence(Qt::CTRL | Qt::Key_I), [this] {
        showPage(StartIndex);
        static_cast<StartPage*>(page(StartIndex))->chooseImport();
    });
    addCommand(project, tr("&Save"), QKeySequence::Save, [this] {
        session_.saveProject();
        session_.notify(NoticeKind::Ok, tr("Project saved."));
    });
    project->addSeparator();
    addCommand(project, tr("&Quit"), QKeySequence(Qt::CTRL | Qt::Key_Q), [this] { close(); });
    QMenu* edit = menuBar()->addMenu(tr("&Edit"));
    addCommand(edit, tr("Copy as &command"), QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_K), [this] { copyCommand(); });
    addCommand(edit, tr("&Filter"), QKeySequence(Qt::Key_Slash), [this] {
        showPage(SpaceIndex);
        page(SpaceIndex)->focusFilter();
    });
    addCommand(edit, tr("C&lear filter"), QKeySequence(Qt::Key_Escape), [this] {
        if (!page(currentPage())->peel())
            rail_->focusCurrent();
    });
    QMenu* view = menuBar()->addMenu(tr("&View"));
    auto* themes = new QActionGroup(this);
    const ThemeMode kept = ThemeMode(std::clamp(settings().value(QStringLiteral("theme"), 0).toInt(), 0, 2));
    const QString names[] = {tr("Follow &system"), tr("&Light"), tr("&Dark")};
    for (int i = 0; i < 3; ++i) {
        QAction* action = addCommand(view, names[i], {}, [this, i] { setTheme(ThemeMode(i)); });
        action->setCheckable(true);
        action->setChecked(restores_ && i == int(kept));
        themes->addAction(action);
    }
    view->addSeparator();
    addCommand(view, tr("&Refresh"), QKeySequence(Qt::Key_F5), [this] { page(currentPage())->refresh(); });
    QMenu* go = menuBar()->addMenu(tr("&Go"));
    for (int i = 0; i < int(std::size(kPages)); ++i)
        addCommand(go, QCoreApplication::translate("pages", kPages[i].title), QKeySequence(QString::fromLatin1(kPages[i].key)), [this, i] { showPage(i); });
    go->addSeparator();
    const auto walk = [this](int by) {
        if (historyAt_ + by < 0 || historyAt_ + by >= history_.size())
            return;
        walking_ = true;
        historyAt_ += by;
        showPage(history_[historyAt_]);
        walking_ = false;
    };
    addCommand(go, tr("&Back"), QKeySequence(Qt::ALT | Qt::Key_Left), [walk] { walk(-1); });
    addCommand(go, tr("F&orward"), QKeySequence(Qt::ALT | Qt::Key_Right), [walk] { walk(1); });
    addCommand(go, tr("Next &pane"), QKeySequence(Qt::Key_F6), [this] {
        if (rail_->isAncestorOf(QApplication::focusWidget()))
            page(currentPage())->focusFirst();
        else
            rail_->focusCurrent();
    });
    QMenu* run = menuBar()->addMenu(tr("&Run"));
    addCommand(run, tr("&Start the plan in focus"), QKeySequence(Qt::CTRL | Qt::Key_Return), [this] {
        const planner::PlanRow* row = session_.focusRow();
        if (row && row->legal && row->runnable)
            session_.startRun(*row, !row->feasible);
        else
            session_.notify(NoticeKind::Warning, tr("No plan that can run is in focus."));
    });
    addCommand(run, tr("S&top"), QKeySequence(Qt::CTRL | Qt::Key_Period), [this] { session_.stopRun(); });
    QMenu* help = menuBar()->addMenu(tr("&Help"));
    addCommand(help, tr("&Keys"), QKeySequence(Qt::Key_F1), [this] { showKeys(); });
    addCommand(help, tr("&Version"), {}, [this] {
        session_.notify(NoticeKind::Info, tr("MegaGraph Studio %1, home %2").arg(QString::fromLatin1(productVersion()), session_.home()));
    });
}

void MainWindow::copyCommand()
{
    const QStringList command = page(currentPage())->commandLine();
    if (command.isEmpty() || (currentPage() != RunIndex && session_.scenario().dataset.isEmpty())) {
        session_.notify(NoticeKind::Warning, tr("There is nothing to copy yet: open a project first."));
        return;
    }
    QApplication::clipboard()->setText(shellLine(command));
    session_.notify(NoticeKind::Ok, tr("Copied: %1").arg(shellLine(command)));
}

void MainWindow::setTheme(ThemeMode mode)
{
    applyApplicationTheme(mode);
    if (restores_)
        settings().setValue(QStringLiteral("theme"), int(mode));
}

void MainWindow::showKeys()
{
    session_.notify(NoticeKind::Info,
                    tr("Ctrl+1 Start, Ctrl+4 Space, Ctrl+5 Plan, Ctrl+8 Run, / filter, P pin, Enter open, Ctrl+Return start, Ctrl+. stop, F5 refresh, F6 next pane"));
}

void MainWindow::showTitle()
{
    setWindowTitle(session_.hasProject() ? tr("%1 \u2013 MegaGraph Studio").arg(session_.projectName()) : tr("MegaGraph Studio"));
}

void MainWindow::closeEvent(QCloseEvent* event)
{
    if (restores_) {
        QSettings kept = settings();
        kept.setValue(QStringLiteral("geometry"), saveGeometry());
        kept.setValue(QStringLiteral("project"), session_.projectPath());
    }
    if (!session_.jobs().running().isEmpty()) {
        QMessageBox question(QMessageBox::Question, tr("Jobs are running"), tr("Jobs that end with the window: %1. Runs go on.").arg(session_.jobs().running().size()),
                             QMessageBox::NoButton, this);
        question.setTextFormat(Qt::PlainText);
        QPushButton* cancel = question.addButton(tr("Cancel jobs and close"), QMessageBox::AcceptRole);
        question.addButton(tr("Stay"), QMessageBox::RejectRole);
        question.exec();
        if (question.clickedButton() != cancel) {
            event->ignore();
            return;
        }
        session_.jobs().cancelAll();
    }
    event->accept();
}

} // namespace megagraph::ui
