// SPDX-License-Identifier: Apache-2.0
#include "ui/pages/start_page.h"

#include "core/units.h"
#include "ui/session/units_text.h"
#include "ui/widgets/import_dialog.h"
#include "ui/widgets/state_frame.h"

#include <QComboBox>
#include <QDragEnterEvent>
#include <QFileDialog>
#include <QFileInfo>
#include <QFormLayout>
#include <QLineEdit>
#include <QListWidget>
#include <QMimeData>
#include <QScrollArea>
#include <QSpinBox>

namespace megagraph::ui {
namespace {

constexpr int kMaxRanks = 64;

void clear(QLayout* layout)
{
    while (QLayoutItem* item = layout->takeAt(0)) {
        if (item->widget())
            item->widget()->deleteLater();
        delete item;
    }
}

} // namespace

StartPage::StartPage(Session& session, QWidget* parent) : Page(session, tr("Start"), parent)
{
    setAcceptDrops(true);
    open_ = button(tr("Open project\u2026"), tr("Open a *.megagraph file (Ctrl+O)"), [this] {
        const QString path = QFileDialog::getOpenFileName(this, tr("Open project"), session_.home(), tr("Project (*.megagraph)"));
        if (!path.isEmpty())
            session_.openProject(path);
    });
    sample_ = button(tr("Open sample"), tr("A generated community graph of 2,003 nodes, with a small model"),
                     [this] { session_.openSample(); }, true);
    addCommand(open_);
    addCommand(sample_);
    projectProblem_ = (new Text)->wrapped();
    projectProblem_->setRole(Role::Error);
    content()->addWidget(projectProblem_);
    auto* top = new QHBoxLayout;
    top->setSpacing(10);
    top->addWidget(makeSteps(), 4);
    top->addWidget(makeScenario(), 5);
    auto* foot = new QHBoxLayout;
    foot->setSpacing(10);
    foot->addWidget(makeRuns(), 4);
    foot->addWidget(makeMachine(), 5);
    content()->addLayout(top);
    content()->addLayout(foot, 1);
    connect(&session_, &Session::projectChanged, this, &StartPage::showProject);
    connect(&session_, &Session::libraryChanged, this, [this] {
        showScenario();
        showSteps();
        showRuns();
    });
    connect(&session_, &Session::planStateChanged, this, &StartPage::showSteps);
    connect(&session_, &Session::tableChanged, this, &StartPage::showSteps);
    connect(&session_, &Session::machineChanged, this, &StartPage::showMachine);
    showProject();
    showRuns();
    showMachine();
}

QWidget* StartPage::makeSteps()
{
    auto* card = new Card(tr("First steps"));
    auto* grid = new QGridLayout;
    grid->setVerticalSpacing(7);
    grid->setHorizontalSpacing(10);
    grid->setColumnStretch(2, 1);
    const QString names[] = {tr("Import a graph"), tr("Choose a model"), tr("Measure this machine"), tr("Look at the plans"),
                             tr("Prove or run one")};
    for (int i = 0; i < 5; ++i) {
        auto* mark = new QLabel;
        mark->setFixedSize(20, 20);
        auto* name = new Text(QStringLiteral("%1  %2").arg(i + 1).arg(names[i]));
        auto* state = (new Text({}, TextStyle::Muted))->elided();
        grid->addWidget(mark, i, 0);
        grid->addWidget(name, i, 1);
        grid->addWidget(state, i, 2);
        steps_.append({mark, name, state});
    }
    card->body()->addLayout(grid);
    card->body()->addStretch(1);
    auto* row = new QHBoxLayout;
    row->setSpacing(6);
    import_ = button(tr("Import\u2026"), tr("A folder with a raw data set, or an NPZ file (Ctrl+I); dropping it here does the same"),
                     [this] { chooseImport(); });
    row->addWidget(import_);
    row->addStretch(1);
    card->body()->addLayout(row);
    return card;
}

QWidget* StartPage::makeScenario()
{
    auto* card = new Card(tr("What to plan"));
    auto* form = new QGridLayout;
    form->setHorizontalSpacing(12);
    form->setVerticalSpacing(7);
    data_ = new QComboBox;
    model_ = new QComboBox;
    ranks_ = new QSpinBox;
    ranks_->setRange(0, kMaxRanks);
    ranks_->setSpecialValueText(tr("automatic"));
    ranks_->setToolTip(tr("Ranks on CPU slots of this machine; automatic is 2, or 1 on a single core"));
    budget_ = new QLineEdit;
    budget_->setPlaceholderText(tr("automatic: 80 % of available memory over the ranks"));
    budget_->setToolTip(tr("Memory per rank, for example 1 GiB"));
    budgetProblem_ = (new Text({}, TextStyle::Muted))->wrapped();
    budgetProblem_->setRole(Role::Error);
    budgetProblem_->setVisible(false);
    dataFacts_ = (new Text({}, TextStyle::Muted))->wrapped();
    const auto add = [&](int line, const QString& name, QWidget* field) {
        auto* label = new Text(name);
        label->setBuddy(field);
        field->setAccessibleName(name);
        field->setMinimumHeight(28);
        form->addWidget(label, line, 0);
        form->addWidget(field, line, 1);
    };
    add(0, tr("Data set"), data_);
    form->addWidget(dataFacts_, 1, 1);
    add(2, tr("Model"), model_);
    add(3, tr("Ranks"), ranks_);
    add(4, tr("Budget per rank"), budget_);
    form->addWidget(budgetProblem_, 5, 1);
    form->setColumnStretch(1, 1);
    card->body()->addLayout(form);
    card->body()->addStretch(1);
    auto* row = new QHBoxLayout;
    row->setSpacing(6);
    row->addStretch(1);
    measure_ = button(tr("Measure"), tr("Profile this machine for this data set and model, about half a minute"), [this] { session_.measure(); });
    explore_ = button(tr("Explore plans"), tr("Go to Space (Ctrl+4)"), [this] { emit spaceOpened(); }, true);
    row->addWidget(measure_);
    row->addWidget(explore_);
    card->body()->addLayout(row);
    connect(data_, &QComboBox::activated, this, [this] { session_.setDataset(data_->currentText()); });
    connect(model_, &QComboBox::activated, this, [this] { session_.setModel(model_->currentData().toString()); });
    connect(ranks_, &QSpinBox::valueChanged, this, [this](int value) {
        if (!filling_)
            session_.setRanks(value);
    });
    connect(budget_, &QLineEdit::editingFinished, this, [this] {
        const QString text = budget_->text().trimmed();
        if (text.isEmpty()) {
            budgetProblem_->setVisible(false);
            session_.setBudget(0);
            return;
        }
        const auto bytes = parseBytes(text.toStdString());
        budgetProblem_->setVisible(!bytes.ok());
        if (bytes)
            session_.setBudget(*bytes);
        else
            budgetProblem_->setText(QString::fromStdString(bytes.error().message));
    });
    return card;
}

QWidget* StartPage::makeRuns()
{
    auto* card = new Card(tr("Runs"));
    runs_ = new QListWidget;
    runs_->setFrameShape(QFrame::NoFrame);
    runs_->setAccessibleName(tr("Runs"));
    runs_->setTabKeyNavigation(false);
    runs_->setUniformItemSizes(true);
    runs_->setTextElideMode(Qt::ElideRight);
    runs_->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    connect(runs_, &QListWidget::itemActivated, this, &StartPage::attachCurrent);
    runsFrame_ = new StateFrame(runs_);
    attach_ = button(tr("Open run"), tr("Watch the selected run (Enter)"), [this] { attachCurrent(); });
    card->addCorner(attach_);
    card->body()->addWidget(runsFrame_, 1);
    return card;
}

QWidget* StartPage::makeMachine()
{
    auto* card = new Card(tr("This machine"));
    auto* holder = new QWidget;
    machine_ = new QGridLayout(holder);
    machine_->setContentsMargins(0, 0, 0, 0);
    machine_->setHorizontalSpacing(10);
    machine_->setVerticalSpacing(6);
    machine_->setColumnStretch(2, 1);
    auto* scroll = new QScrollArea;
    scroll->setWidgetResizable(true);
    scroll->setFrameShape(QFrame::NoFrame);
    scroll->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    scroll->setWidget(holder);
    scroll->setAccessibleName(tr("Check of this machine"));
    scroll->viewport()->setAutoFillBackground(false);
    holder->setAutoFillBackground(false);
    machineFrame_ = new StateFrame(scroll);
    check_ = button(tr("Check again"), tr("Check this machine again (F5)"), [this] { session_.checkMachine(); });
    card->addCorner(check_);
    card->body()->addWidget(machineFrame_, 1);
    return card;
}

void StartPage::showProject()
{
    setState(session_.opening()      ? tr("opening\u2026")
             : session_.hasProject() ? tr("project %1").arg(session_.projectName())
                                     : tr("no project is open"));
    projectProblem_->setText(session_.projectProblem());
    projectProblem_->setVisible(!session_.projectProblem().isEmpty());
    sample_->setEnabled(!session_.opening());
    sample_->setProperty("primary", !session_.hasProject()); // one leading action at a time
    sample_->update();
    showScenario();
    showSteps();
}

void StartPage::showScenario()
{
    filling_ = true;
    const Scenario& scenario = session_.scenario();
    data_->clear();
    for (const DatasetInfo& info : session_.datasets())
        data_->addItem(info.name);
    if (data_->findText(scenario.dataset) < 0 && !scenario.dataset.isEmpty())
        data_->addItem(scenario.dataset);
    data_->setCurrentIndex(data_->findText(scenario.dataset));
    data_->setPlaceholderText(session_.datasets().empty() ? tr("none yet: open the sample or import") : tr("choose a data set"));
    model_->clear();
    for (const QString& name : session_.modelPresets())
        model_->addItem(name, name);
    if (!scenario.model.isEmpty() && model_->findData(scenario.model) < 0)
        model_->addItem(QFileInfo(scenario.model).completeBaseName(), scenario.model);
    model_->setCurrentIndex(model_->findData(scenario.model));
    model_->setPlaceholderText(tr("choose a model"));
    ranks_->setValue(int(scenario.constraints.ranks));
    if (!budget_->hasFocus())
        budget_->setText(scenario.constraints.budgetBytes > 0 ? QString::fromStdString(bytesText(scenario.constraints.budgetBytes)) : QString());
    const DatasetInfo* info = session_.dataset(scenario.dataset);
    dataFacts_->setText(info ? tr("%1 nodes, %2 undirected edges, %3 features, %4 classes")
                                   .arg(countText(info->spec.nodes), countText(info->spec.undirectedEdges),
                                        countText(info->spec.featureWidth), countText(int64_t(info->spec.classes.size())))
                             : QString());
    dataFacts_->setVisible(info != nullptr);
    const bool open = session_.hasProject();
    for (QWidget* field : std::initializer_list<QWidget*>{data_, model_, ranks_, budget_, measure_, explore_})
        field->setEnabled(open);
    filling_ = false;
}

void StartPage::showSteps()
{
    const Theme& theme = Theme::of(palette());
    const Scenario& scenario = session_.scenario();
    const TablePtr table = session_.table();
    const bool measured = session_.problem() && session_.problem()->profile.has_value();
    const bool done[] = {!scenario.dataset.isEmpty(), !scenario.model.isEmpty(), measured, table != nullptr,
                         !session_.project().runs.empty()};
    const QString words[] = {scenario.dataset, QFileInfo(scenario.model).completeBaseName(),
                             measured ? tr("profile %1").arg(QString::fromStdString(session_.problem()->profile->id).left(8)) : QString(),
                             table ? tr("%1 plans, %2 fit").arg(countText(int64_t(table->rows.size())), countText(table->feasible))
                                   : session_.planState().busy() ? tr("searching\u2026") : QString(),
                             tr("runs: %1").arg(session_.project().runs.size())};
    bool nextShown = false;
    for (int i = 0; i < steps_.size(); ++i) {
        const bool next = !done[i] && !nextShown;
        nextShown = nextShown || next;
        steps_[i].mark->setPixmap(done[i] ? iconPixmap(QStringLiteral("ok"), theme.color(Role::Ok), 18, devicePixelRatioF())
                                          : iconPixmap(next ? QStringLiteral("run") : QStringLiteral("missing"),
                                                       theme.color(next ? Role::Accent : Role::Muted), 18, devicePixelRatioF()));
        steps_[i].mark->setAccessibleName(done[i] ? tr("done") : next ? tr("next") : tr("open"));
        steps_[i].state->setText(done[i] ? words[i] : i == 2 ? tr("optional; until then constants are assumed")
                                           : next ? tr("next")
                                                  : words[i].isEmpty() || i == 4 ? tr("open") : words[i]);
    }
}

void StartPage::showRuns()
{
    const QString current = runs_->currentItem() ? runs_->currentItem()->data(Qt::UserRole).toString() : QString();
    runs_->clear();
    for (const RunInfo& run : session_.runs()) {
        QString text = QStringLiteral("%1  %2").arg(run.state, run.id);
        if (run.kind != QLatin1String("train"))
            text += QStringLiteral("  ") + run.kind;
        if (run.steps > 0)
            text += tr(", step %1 of %2").arg(countText(run.step), countText(run.steps));
        if (run.alive && run.etaS > 0)
            text += tr(", %1 left").arg(clockText(run.etaS));
        auto* item = new QListWidgetItem(text);
        item->setData(Qt::UserRole, run.id);
        item->setSizeHint(QSize(0, 26));
        item->setToolTip(plainTip(run.name.isEmpty() ? run.id : run.name));
        runs_->addItem(item);
        if (run.id == current)
            runs_->setCurrentItem(item);
    }
    if (!runs_->currentItem() && runs_->count() > 0)
        runs_->setCurrentRow(0);
    attach_->setEnabled(runs_->count() > 0);
    if (session_.runs().empty())
        runsFrame_->showMessage(session_.libraryLoaded() ? StateFrame::State::Empty : StateFrame::State::Loading,
                                session_.libraryLoaded() ? tr("No runs yet. A run of any plan appears here, also one started in a shell.")
                                                         : tr("Reading the run folder"));
    else
        runsFrame_->showContent();
}

void StartPage::showMachine()
{
    check_->setEnabled(!session_.checkingMachine());
    if (!session_.machineProblem().isEmpty()) {
        machineFrame_->showMessage(StateFrame::State::Error, session_.machineProblem(), tr("Check again"), [this] { session_.checkMachine(); });
        return;
    }
    if (!session_.machine()) {
        if (session_.checkingMachine())
            machineFrame_->showProgress(tr("Checking this machine"), 0, 0, nullptr);
        else
            machineFrame_->showMessage(StateFrame::State::Empty, tr("This machine has not been checked."), tr("Check"), [this] { session_.checkMachine(); });
        return;
    }
    clear(machine_);
    const Theme& theme = Theme::of(palette());
    const Json& document = *session_.machine();
    int line = 0;
    if (const auto rows = document.find("rows"); rows != document.end() && rows->is_array()) {
        for (const Json& row : *rows) {
            const std::string state = row.value("state", std::string());
            const QString name = state == "ok" ? QStringLiteral("ok") : state == "warn" ? QStringLiteral("warning") : QStringLiteral("missing");
            auto* mark = new QLabel;
            mark->setPixmap(iconPixmap(name, theme.color(state == "ok" ? Role::Ok : state == "warn" ? Role::Warning : Role::Muted), 18,
                                       devicePixelRatioF()));
            mark->setAccessibleName(name);
            machine_->addWidget(mark, line, 0, Qt::AlignTop);
            machine_->addWidget(new Text(QString::fromStdString(row.value("label", std::string()))), line, 1, Qt::AlignTop);
            machine_->addWidget((new Text(QString::fromStdString(row.value("value", std::string())), TextStyle::Muted))->elided(), line, 2);
            ++line;
            const std::string note = row.value("note", std::string());
            if (!note.empty())
                machine_->addWidget((new Text(QString::fromStdString(note), TextStyle::Muted))->wrapped(), line++, 2);
        }
    }
    machine_->setRowStretch(line, 1);
    machineFrame_->showContent();
}

void StartPage::attachCurrent()
{
    if (!runs_->currentItem())
        return;
    session_.attach(runs_->currentItem()->data(Qt::UserRole).toString());
    emit runOpened();
}

void StartPage::chooseImport()
{
    auto* dialog = new ImportDialog(this);
    dialog->setAttribute(Qt::WA_DeleteOnClose);
    connect(dialog, &QDialog::accepted, this, [this, dialog] { session_.importData(dialog->path(), dialog->name()); });
    dialog->open();
}

void StartPage::takePath(const QString& path)
{
    if (path.endsWith(QStringLiteral(".megagraph")))
        session_.openProject(path);
    else
        session_.importData(path, importNameFrom(path));
}

void StartPage::dragEnterEvent(QDragEnterEvent* event)
{
    const QList<QUrl> urls = event->mimeData()->urls();
    if (urls.size() == 1 && urls.first().isLocalFile()) {
        setState(urls.first().toLocalFile().endsWith(QStringLiteral(".megagraph")) ? tr("drop to open this project") : tr("drop to import this graph"));
        event->acceptProposedAction();
    }
}

void StartPage::dropEvent(QDropEvent* event)
{
    takePath(event->mimeData()->urls().first().toLocalFile());
    event->acceptProposedAction();
    showProject();
}

void StartPage::refresh()
{
    session_.refreshLibrary();
    session_.checkMachine();
}

bool StartPage::settled() const
{
    return session_.libraryLoaded() && !session_.opening() && !session_.checkingMachine() && !session_.planState().busy() &&
           (session_.machine() || !session_.machineProblem().isEmpty());
}

void StartPage::focusFirst()
{
    (session_.hasProject() ? explore_ : sample_)->setFocus(Qt::ShortcutFocusReason);
}

} // namespace megagraph::ui
