// SPDX-License-Identifier: Apache-2.0
#include "ui/pages/run_page.h"

#include "ui/session/units_text.h"
#include "ui/widgets/bar_plots.h"
#include "ui/widgets/series_plot.h"
#include "ui/widgets/state_frame.h"

#include <QComboBox>
#include <QHeaderView>
#include <QProgressBar>
#include <QScrollBar>
#include <QTabWidget>
#include <QTableWidget>

#include <cmath>

namespace megagraph::ui {
namespace {

constexpr int kLogLines = 4000;
constexpr int kRowHeight = 24;

struct StateLook { const char* iconName; Role role; QString text; };

StateLook lookOf(const RunStatus& status)
{
    if (status.state == "finished")
        return {"ok", Role::Ok, RunPage::tr("finished")};
    if (status.state == "running")
        return {"run", Role::Accent, RunPage::tr("running")};
    if (status.state == "failed")
        return {"error", Role::Error, RunPage::tr("failed")};
    if (status.state == "lost")
        return {"warning", Role::Warning, RunPage::tr("lost")};
    if (status.state == "stopping")
        return {"warning", Role::Warning, RunPage::tr("stopping")};
    if (status.state == "stopped")
        return {"missing", Role::Muted, RunPage::tr("stopped")};
    if (status.state == "queued")
        return {"info", Role::Muted, RunPage::tr("queued")};
    if (status.state == "starting")
        return {"info", Role::Accent, RunPage::tr("starting")};
    return {"info", Role::Muted, RunPage::tr("reading")};
}

QWidget* fact(const QString& caption, Text*& value, Text*& note, Text** captionText = nullptr)
{
    auto* holder = new QWidget;
    auto* column = new QVBoxLayout(holder);
    column->setContentsMargins(0, 0, 0, 0);
    column->setSpacing(1);
    auto* name = new Text(caption, TextStyle::Muted);
    if (captionText)
        *captionText = name;
    value = new Text({}, TextStyle::Strong);
    note = new Text({}, TextStyle::Muted);
    column->addWidget(name);
    column->addWidget(value);
    column->addWidget(note);
    return holder;
}

QString metricTextOf(const std::string& metric)
{
    if (metric == "accuracy")
        return RunPage::tr("Accuracy");
    if (metric == "auc")
        return RunPage::tr("AUC");
    if (metric == "mae")
        return RunPage::tr("Mean absolute error");
    if (metric == "rmse")
        return RunPage::tr("Root mean square error");
    return QString::fromStdString(metric);
}

QString metricValue(const std::string& metric, double value)
{
    if (!std::isfinite(value))
        return RunPage::tr("n/a");
    return metric == "accuracy" || metric == "auc" ? shareText(value) : significantText(value);
}

QTableWidget* plainTable(const QStringList& headers, const QString& name)
{
    auto* table = new QTableWidget(0, int(headers.size()));
    table->setHorizontalHeaderLabels(headers);
    table->setAccessibleName(name);
    table->setFrameShape(QFrame::NoFrame);
    table->setShowGrid(false);
    table->setEditTriggers(QAbstractItemView::NoEditTriggers);
    table->setSelectionBehavior(QAbstractItemView::SelectRows);
    table->setTabKeyNavigation(false);
    table->setWordWrap(false);
    table->verticalHeader()->setVisible(false);
    table->verticalHeader()->setDefaultSectionSize(kRowHeight);
    table->horizontalHeader()->setDefaultAlignment(Qt::AlignLeft | Qt::AlignVCenter);
    table->horizontalHeader()->setHighlightSections(false);
    table->horizontalHeader()->setStretchLastSection(true);
    return table;
}

void setCell(QTableWidget* table, int row, int column, const QString& text, const QColor& color = {})
{
    QTableWidgetItem* item = table->item(row, column);
    if (!item) {
        item = new QTableWidgetItem;
        table->setItem(row, column, item);
    }
    if (item->text() != text) {
        item->setText(text);
        item->setToolTip(plainTip(text));
    }
    if (color.isValid())
        item->setForeground(color);
}

double number(const Json& document, std::initializer_list<const char*> path)
{
    const Json* at = &document;
    for (const char* key : path) {
        const auto it = at->is_object() ? at->find(key) : at->end();
        if (!at->is_object() || it == at->end())
            return std::nan("");
        at = &*it;
    }
    return at->is_number() ? at->get<double>() : std::nan("");
}

} // namespace

RunPage::RunPage(Session& session, QWidget* parent) : Page(session, tr("Run"), parent)
{
    chooser_ = new QComboBox;
    chooser_->setAccessibleName(tr("Run to watch"));
    chooser_->setMinimumHeight(28);
    chooser_->setMinimumContentsLength(28);
    chooser_->setPlaceholderText(tr("choose a run"));
    resume_ = button(tr("Resume"), tr("Go on from the last committed checkpoint"), [this] {
        if (session_.run())
            session_.resumeRun(session_.run()->id());
    });
    stop_ = button(tr("Stop"), {}, [this] { session_.stopRun(); });
    start_ = button(tr("Start plan"), tr("Start a run of the plan in focus (Ctrl+Return)"), [this] { startFocus(); }, true);
    addCommand(chooser_);
    addCommand(resume_);
    addCommand(stop_);
    addCommand(start_);
    auto* body = new QWidget;
    auto* column = new QVBoxLayout(body);
    column->setContentsMargins(0, 0, 0, 0);
    column->setSpacing(10);
    column->addWidget(makeStrip());
    failure_ = new Card;
    auto* failureRow = new QHBoxLayout;
    failureMark_ = new QLabel;
    auto* failureWords = new QVBoxLayout;
    failureText_ = (new Text)->wrapped();
    failureAction_ = (new Text({}, TextStyle::Muted))->wrapped();
    failureWords->addWidget(failureText_);
    failureWords->addWidget(failureAction_);
    failureRow->addWidget(failureMark_, 0, Qt::AlignTop);
    failureRow->addLayout(failureWords, 1);
    failure_->body()->addLayout(failureRow);
    failure_->setVisible(false);
    column->addWidget(failure_);
    column->addWidget(makeCurves(), 5);
    auto* foot = new QHBoxLayout;
    foot->setSpacing(10);
    foot->addWidget(makeMemory(), 1);
    foot->addWidget(makeDetails(), 1);
    column->addLayout(foot, 4);
    frame_ = new StateFrame(body);
    content()->addWidget(frame_, 1);

    connect(chooser_, &QComboBox::activated, this, [this] { session_.attach(chooser_->currentData().toString()); });
    connect(&session_, &Session::libraryChanged, this, &RunPage::showRuns);
    connect(&session_, &Session::runChanged, this, [this] {
        showRuns();
        showAll();
    });
    connect(&session_, &Session::runUpdated, this, [this] {
        if (isVisible())
            showAll();
        else
            showButtons();
    });
    connect(&session_, &Session::selectionChanged, this, &RunPage::showButtons);
    showRuns();
    showAll();
}

QWidget* RunPage::makeStrip()
{
    auto* card = new Card;
    auto* row = new QHBoxLayout;
    row->setSpacing(26);
    auto* state = new QVBoxLayout;
    state->setSpacing(4);
    auto* stateRow = new QHBoxLayout;
    stateRow->setSpacing(6);
    stateMark_ = new QLabel;
    stateText_ = new Text({}, TextStyle::Strong);
    stepText_ = new Text({}, TextStyle::Normal);
    stateRow->addWidget(stateMark_);
    stateRow->addWidget(stateText_);
    stateRow->addSpacing(8);
    stateRow->addWidget(stepText_);
    stateRow->addStretch(1);
    bar_ = new QProgressBar;
    bar_->setTextVisible(false);
    bar_->setMaximumHeight(8);
    bar_->setAccessibleName(tr("Progress of the run"));
    leftText_ = (new Text({}, TextStyle::Muted))->elided();
    state->addLayout(stateRow);
    state->addWidget(bar_);
    state->addWidget(leftText_);
    row->addLayout(state, 1);
    row->addWidget(fact(tr("Step time, median of 50"), timeText_, timeNote_));
    row->addWidget(fact(tr("Metric"), metricText_, metricNote_, &metricCaption_));
    Text* commit = nullptr;
    row->addWidget(fact(tr("Last checkpoint"), commitText_, commit));
    card->body()->addLayout(row);
    return card;
}

QWidget* RunPage::makeCurves()
{
    auto* holder = new QWidget;
    auto* row = new QHBoxLayout(holder);
    row->setContentsMargins(0, 0, 0, 0);
    row->setSpacing(10);
    const auto add = [row](const QString& heading, SeriesPlot* plot) {
        auto* card = new Card(heading);
        card->body()->addWidget(plot, 1);
        row->addWidget(card, 1);
        return card;
    };
    loss_ = new SeriesPlot(tr("Training loss"), tr("Loss"), {tr("loss")});
    metric_ = new SeriesPlot(tr("Metric on the validation split"), tr("Value"), {tr("valid"), tr("test")});
    time_ = new SeriesPlot(tr("Step time"), tr("Step time (ms)"), {tr("measured")});
    time_->setFromZero(true);
    add(tr("Training loss"), loss_);
    metricCard_ = add(tr("Validation metric"), metric_);
    add(tr("Step time, predicted band shaded"), time_);
    return holder;
}

QWidget* RunPage::makeMemory()
{
    auto* card = new Card(tr("Memory per rank, predicted and measured"));
    auto* row = new QHBoxLayout;
    row->setSpacing(12);
    bars_ = new MemoryBars;
    key_ = new MemoryKey;
    auto* column = new QVBoxLayout;
    column->addWidget(key_);
    column->addStretch(1);
    row->addWidget(bars_, 1);
    row->addLayout(column);
    card->body()->addLayout(row, 1);
    return card;
}

QWidget* RunPage::makeDetails()
{
    auto* card = new Card;
    tabs_ = new QTabWidget;
    tabs_->setDocumentMode(true);
    log_ = new QPlainTextEdit;
    log_->setReadOnly(true);
    log_->setMaximumBlockCount(kLogLines);
    log_->setLineWrapMode(QPlainTextEdit::NoWrap);
    log_->setFont(monoFont());
    log_->setFrameShape(QFrame::NoFrame);
    log_->setAccessibleName(tr("Log of supervisor and ranks"));
    log_->setTabChangesFocus(true);
    log_->setPlaceholderText(tr("Nothing has been written yet."));
    preflight_ = plainTable({tr("Check"), tr("Verdict"), tr("Got"), tr("Expected")}, tr("Pre-flight checks"));
    events_ = plainTable({tr("Time"), tr("Event"), tr("What")}, tr("Events of the run"));
    tabs_->addTab(log_, tr("Log"));
    tabs_->addTab(events_, tr("Events"));
    tabs_->addTab(preflight_, tr("Pre-flight"));
    card->body()->addWidget(tabs_, 1);
    return card;
}

void RunPage::showRuns()
{
    filling_ = true;
    const QString current = session_.run() ? session_.run()->id() : QString();
    chooser_->clear();
    bool found = false;
    for (const RunInfo& run : session_.runs()) {
        chooser_->addItem(QStringLiteral("%1  %2").arg(run.id, run.state), run.id);
        found = found || run.id == current;
    }
    if (!found && !current.isEmpty())
        chooser_->insertItem(0, current, current);
    chooser_->setCurrentIndex(current.isEmpty() ? -1 : chooser_->findData(current));
    chooser_->setEnabled(chooser_->count() > 0);
    filling_ = false;
    if (!session_.run())
        showAll();
}

void RunPage::showButtons()
{
    const RunWatch* run = session_.run();
    const planner::PlanRow* focus = session_.focusRow();
    start_->setEnabled(focus && focus->legal && focus->runnable && !session_.startingRun());
    start_->setText(session_.startingRun() ? tr("Starting\u2026") : tr("Start plan"));
    start_->setToolTip(focus ? plainTip(tr("Start a run of %1 (Ctrl+Return)").arg(QString::fromStdString(focus->plan.name)))
                             : tr("Choose a plan in Space first"));
    const bool alive = run && run->record().isAlive();
    stop_->setEnabled(alive);
    static const char* const kLadder[] = {QT_TR_NOOP("Stop"), QT_TR_NOOP("Terminate"), QT_TR_NOOP("Kill")};
    static const char* const kTips[] = {QT_TR_NOOP("Finish the step and save (Ctrl+.)"), QT_TR_NOOP("End the ranks at once, without saving (Ctrl+.)"),
                                        QT_TR_NOOP("Kill the ranks (Ctrl+.)")};
    const int rung = alive ? std::min(run->stopPresses(), 2) : 0;
    stop_->setText(tr(kLadder[rung]));
    stop_->setToolTip(tr(kTips[rung]));
    const bool ended = run && run->loaded() && run->record().isFinal() && run->record().status.state != "finished";
    resume_->setVisible(ended && run->record().status.lastCommitStep > 0 && !session_.startingRun());
}

void RunPage::showAll()
{
    showButtons();
    RunWatch* run = session_.run();
    if (!run) {
        shownRun_.clear();
        setState({});
        if (!session_.libraryLoaded())
            frame_->showProgress(tr("Reading the run folder"), 0, 0, nullptr);
        else if (session_.startingRun())
            frame_->showProgress(tr("Starting the run"), 0, 0, nullptr);
        else if (session_.focusRow() && start_->isEnabled())
            frame_->showMessage(StateFrame::State::Empty,
                                tr("No run is being watched. Start the plan in focus, or choose an earlier run above."), tr("Start plan"),
                                [this] { startFocus(); });
        else
            frame_->showMessage(StateFrame::State::Empty, tr("No run yet: choose a plan first."), tr("Go to Space"),
                                [this] { emit spaceOpened(); });
        return;
    }
    const RunRecord& record = run->record();
    if (run->id() != shownRun_) {
        shownRun_ = run->id();
        log_->clear();
        events_->setRowCount(0);
        preflight_->setRowCount(0);
        shownLog_ = 0;
        shownDropped_ = 0;
    }
    run->setVisible(isVisible());
    if (!run->loaded()) {
        frame_->showProgress(tr("Reading run %1").arg(run->id()), 0, 0, nullptr);
        return;
    }
    if (!record.problem.empty() && !record.spec && record.events.empty()) {
        frame_->showMessage(StateFrame::State::Error, QString::fromStdString(record.problem), tr("Back to Start"), [this] { emit startOpened(); });
        return;
    }
    QStringList about;
    if (record.plan)
        about << tr("%1 on %2").arg(QString::fromStdString(record.plan->model.name), QString::fromStdString(record.plan->datasetName))
              << QString::fromStdString(record.plan->name);
    else
        about << run->id();
    setState(about.join(QStringLiteral("  \u00B7  ")));
    frame_->showContent();
    showStrip(record);
    showFailure(record);
    showCurves(record);
    showMemory(record);
    showDetails(record);
}

void RunPage::showStrip(const RunRecord& record)
{
    const Theme& theme = Theme::of(palette());
    const StateLook look = lookOf(record.status);
    stateMark_->setPixmap(iconPixmap(QString::fromLatin1(look.iconName), theme.color(look.role), 18, devicePixelRatioF()));
    stateText_->setText(look.text);
    const int64_t steps = record.status.steps > 0 ? record.status.steps : record.spec ? record.spec->steps : 0;
    const int64_t step = record.status.step;
    stepText_->setText(steps > 0 ? tr("step %1 of %2").arg(countText(step), countText(steps)) : tr("step %1").arg(countText(step)));
    bar_->setRange(0, 1000);
    bar_->setValue(steps > 0 ? int(1000 * std::min(step, steps) / steps) : 0);
    QStringList left;
    if (record.isAlive() && record.status.etaS > 0)
        left << tr("%1 left").arg(clockText(record.status.etaS));
    if (!record.status.reason.empty())
        left << QString::fromStdString(record.status.reason);
    if (record.status.attempt > 1)
        left << tr("attempt %1").arg(record.status.attempt);
    if (!record.problem.empty())
        left << QString::fromStdString(record.problem);
    leftText_->setText(left.join(QStringLiteral("  \u00B7  ")));
    const double measured = record.measuredStepMs(), predicted = record.predictedStepMs();
    timeText_->setText(std::isfinite(measured) ? timeText(measured * 1e6) : tr("n/a"));
    timeNote_->setText(std::isfinite(predicted) ? std::isfinite(measured) ? tr("predicted %1, %2").arg(timeText(predicted * 1e6), differenceText(measured, predicted))
                                                                          : tr("predicted %1").arg(timeText(predicted * 1e6))
                                                : tr("no prediction"));
    metricCaption_->setText(tr("%1, best validation").arg(metricTextOf(record.metric)));
    double best = record.bestStep >= 0 ? record.bestValid : std::nan(""), test = std::nan("");
    int64_t bestStep = record.bestStep;
    if (record.result) {
        const double value = number(*record.result, {"valid", "value"});
        best = std::isfinite(value) ? value : best;
        test = number(*record.result, {"test", "value"});
        const double at = number(*record.result, {"best_step"});
        bestStep = std::isfinite(at) ? int64_t(at) : bestStep;
    }
    metricText_->setText(metricValue(record.metric, best));
    metricNote_->setText(std::isfinite(test)  ? tr("test %1, step %2").arg(metricValue(record.metric, test), countText(bestStep))
                         : bestStep >= 0 ? tr("at step %1").arg(countText(bestStep))
                                         : QString());
    commitText_->setText(record.checkpoints.empty() ? record.status.lastCommitStep > 0 ? tr("step %1").arg(countText(record.status.lastCommitStep)) : tr("none")
                                                    : tr("step %1, %2").arg(countText(record.checkpoints.back().step), memoryText(double(record.checkpoints.back().bytes))));
}

void RunPage::showFailure(const RunRecord& record)
{
    const bool lost = record.status.state == "lost";
    const bool failed = record.failure && record.status.state == "failed";
    const bool mute = record.status.state == "failed" && !record.failure;
    failure_->setVisible(failed || lost || mute || record.certificate);
    if (!failure_->isVisibleTo(this))
        return;
    const Theme& theme = Theme::of(palette());
    if (record.certificate && !failed && !lost && !mute) {
        const bool same = record.certificate->value("verdict", std::string()) == "same";
        failureMark_->setPixmap(iconPixmap(same ? QStringLiteral("ok") : QStringLiteral("error"), theme.color(same ? Role::Ok : Role::Error), 20,
                                           devicePixelRatioF()));
        failureText_->setText(same ? tr("The same as the serial run.") : tr("Different from the serial run."));
        failureAction_->setText(tr("Worst relative difference over %1 steps: loss %2, gradients %3.")
                                    .arg(record.certificate->value("steps", int64_t(0)))
                                    .arg(number(*record.certificate, {"loss_rel_max"}), 0, 'g', 3)
                                    .arg(number(*record.certificate, {"gradient_rel_max"}), 0, 'g', 3));
        return;
    }
    failureMark_->setPixmap(iconPixmap(lost ? QStringLiteral("warning") : QStringLiteral("error"),
                                       theme.color(lost ? Role::Warning : Role::Error), 20, devicePixelRatioF()));
    if (lost) {
        failureText_->setText(tr("The supervisor of this run is gone and left no end. Its last state was written at step %1.").arg(countText(record.status.step)));
        failureAction_->setText(record.status.lastCommitStep > 0 ? tr("Resume goes on from step %1.").arg(countText(record.status.lastCommitStep))
                                                                 : tr("No checkpoint was committed; start the plan again."));
        return;
    }
    if (mute) {
        failureText_->setText(record.status.cause.empty() ? tr("The run failed; the log says more.") : QString::fromStdString(record.status.cause));
        failureAction_->setText({});
        return;
    }
    const FailureCard& card = *record.failure;
    failureText_->setText(QString::fromStdString(card.sentence.empty() ? card.cause : card.sentence));
    QStringList action;
    if (card.lastCommit >= 0)
        action << tr("Last good checkpoint: step %1.").arg(countText(card.lastCommit));
    if (!card.actionText.empty())
        action << QString::fromStdString(card.actionText);
    if (!card.actionCommand.empty())
        action << QString::fromStdString(card.actionCommand);
    failureAction_->setText(action.join(QLatin1Char(' ')));
}

void RunPage::showCurves(const RunRecord& record)
{
    loss_->setData({&record.loss});
    metricCard_->heading()->setText(tr("%1, validation").arg(metricTextOf(record.metric)));
    metric_->setData({&record.validMetric, &record.testMetric});
    const double none = std::nan("");
    if (record.plan && record.plan->prediction.stepNs > 0) {
        const PlanPrediction& p = record.plan->prediction;
        time_->setPrediction(double(p.stepNs) / 1e6, p.stepLoNs > 0 ? double(p.stepLoNs) / 1e6 : none,
                             p.stepHiNs > 0 ? double(p.stepHiNs) / 1e6 : none);
    } else {
        time_->setPrediction(none, none, none);
    }
    time_->setData({&record.stepMs});
}

void RunPage::showMemory(const RunRecord& record)
{
    std::vector<MemoryBar> bars;
    const std::vector<RankPrediction> none;
    const auto& predicted = record.plan ? record.plan->prediction.ranks : none;
    int64_t budget = 0;
    MemoryBytes worstPredicted{}, worstMeasured{};
    int64_t worst = -1;
    const auto devices = record.plan ? record.plan->cluster.devices() : std::vector<DeviceSpec>();
    for (const DeviceSpec& device : devices)
        budget = std::max(budget, device.memoryBytes - device.keptFreeBytes);
    const size_t count = std::max(predicted.size(), record.ranks.size());
    for (size_t r = 0; r < count; ++r) {
        if (r < predicted.size())
            bars.push_back({tr("%1 predicted").arg(r), predicted[r].categories});
        const auto state = std::find_if(record.ranks.begin(), record.ranks.end(), [r](const RankState& s) { return s.rank == int64_t(r); });
        if (state == record.ranks.end())
            continue;
        int64_t sum = 0;
        for (int64_t bytes : state->categories)
            sum += bytes;
        if (sum == 0)
            continue; // no memory sample of this rank yet
        bars.push_back({tr("%1 measured").arg(r), state->categories});
        if (sum > worst) {
            worst = sum;
            worstMeasured = state->categories;
            worstPredicted = r < predicted.size() ? predicted[r].categories : MemoryBytes{};
        }
    }
    if (worst < 0 && !predicted.empty())
        worstPredicted = predicted.front().categories;
    bars_->setBars(bars, budget);
    key_->setAmounts({tr("predicted"), tr("measured")}, {worstPredicted, worstMeasured});
}

void RunPage::showDetails(const RunRecord& record)
{
    const Theme& theme = Theme::of(palette());
    // only what is new is appended; a scrolled-up view stays where it is
    const size_t known = shownDropped_ == record.droppedLogBytes ? shownLog_ : 0;
    if (known == 0 && shownLog_ > 0)
        log_->clear();
    if (record.log.size() > known) {
        QScrollBar* bar = log_->verticalScrollBar();
        const bool follow = bar->value() >= bar->maximum() - 2;
        QString text = QString::fromUtf8(record.log.data() + known, qsizetype(record.log.size() - known));
        if (text.endsWith(QLatin1Char('\n')))
            text.chop(1);
        for (QChar& c : text)
            if (c.unicode() < 32 && c != QLatin1Char('\n') && c != QLatin1Char('\t'))
                c = QChar(0x2423); // control characters are shown, not obeyed
        log_->appendPlainText(text);
        if (follow)
            bar->setValue(bar->maximum());
    }
    shownLog_ = record.log.size();
    shownDropped_ = record.droppedLogBytes;
    preflight_->setRowCount(int(record.preflight.size()));
    for (size_t i = 0; i < record.preflight.size(); ++i) {
        const PreflightRow& row = record.preflight[i];
        const Role role = row.verdict == "ok" ? Role::Ok : row.verdict == "warn" ? Role::Warning : Role::Error;
        setCell(preflight_, int(i), 0, QString::fromStdString(row.check));
        setCell(preflight_, int(i), 1, QString::fromStdString(row.verdict), theme.color(role));
        setCell(preflight_, int(i), 2, QString::fromStdString(row.got));
        setCell(preflight_, int(i), 3, QString::fromStdString(row.hint.empty() ? row.expected : row.expected + "; " + row.hint));
    }
    const bool follow = events_->verticalScrollBar()->value() >= events_->verticalScrollBar()->maximum() - 2;
    const int before = events_->rowCount();
    events_->setRowCount(int(record.events.size()));
    for (int i = before < int(record.events.size()) ? before : 0; i < int(record.events.size()); ++i) {
        const EventRow& row = record.events[size_t(i)];
        setCell(events_, i, 0, QString::fromStdString(row.utc).mid(11, 8));
        setCell(events_, i, 1, QString::fromStdString(row.kind));
        setCell(events_, i, 2, QString::fromStdString(row.text), row.bad ? theme.color(Role::Error) : theme.color(Role::Text));
    }
    if (before == 0 && events_->rowCount() > 0) {
        events_->resizeColumnToContents(0);
        events_->setColumnWidth(1, 160);
    }
    if (preflight_->rowCount() > 0 && !preflight_->property("sized").toBool()) {
        preflight_->resizeColumnsToContents();
        preflight_->setProperty("sized", true);
    }
    if (follow && before != events_->rowCount())
        events_->scrollToBottom();
}

void RunPage::startFocus()
{
    const planner::PlanRow* row = session_.focusRow();
    if (row && row->legal && row->runnable)
        session_.startRun(*row, !row->feasible);
}

void RunPage::showEvent(QShowEvent* event)
{
    Page::showEvent(event);
    showAll();
}

void RunPage::hideEvent(QHideEvent* event)
{
    Page::hideEvent(event);
    if (session_.run())
        session_.run()->setVisible(false);
}

QStringList RunPage::commandLine() const
{
    return session_.run() ? QStringList{QStringLiteral("megagraph"), QStringLiteral("watch"), session_.run()->id()} : QStringList();
}

bool RunPage::settled() const
{
    return session_.libraryLoaded() && !session_.opening() && !session_.planState().busy() && (!session_.run() || session_.run()->loaded());
}

void RunPage::focusFirst()
{
    (stop_->isEnabled() ? static_cast<QWidget*>(stop_) : static_cast<QWidget*>(chooser_))->setFocus(Qt::ShortcutFocusReason);
}

} // namespace megagraph::ui
