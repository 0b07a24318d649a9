// SPDX-License-Identifier: Apache-2.0
#include "ui/pages/plan_page.h"

#include "ui/models/plan_table_model.h"
#include "ui/session/units_text.h"
#include "ui/widgets/bar_plots.h"
#include "ui/widgets/state_frame.h"

#include <QApplication>
#include <QClipboard>
#include <QFileDialog>
#include <QScrollArea>

#include <fmt/format.h>

namespace megagraph::ui {
namespace {

void clear(QLayout* layout)
{
    while (QLayoutItem* item = layout->takeAt(0)) {
        if (item->widget())
            item->widget()->deleteLater();
        delete item;
    }
}

QWidget* number(const QString& caption, Text*& value, Text** below = nullptr)
{
    auto* holder = new QWidget;
    auto* column = new QVBoxLayout(holder);
    column->setContentsMargins(0, 0, 0, 0);
    column->setSpacing(1);
    column->addWidget(new Text(caption, TextStyle::Muted));
    value = new Text({}, TextStyle::Big);
    column->addWidget(value);
    if (below) {
        *below = new Text({}, TextStyle::Muted);
        column->addWidget(*below);
    }
    return holder;
}

QString layersText(const StagePlan& stage, int64_t blocks)
{
    QStringList parts;
    if (stage.firstLayer == 0)
        parts << PlanPage::tr("embed");
    const int64_t first = std::max<int64_t>(1, stage.firstLayer), last = std::min(blocks, stage.lastLayer - 1);
    if (last >= first)
        parts << (first == last ? PlanPage::tr("block %1").arg(first) : PlanPage::tr("blocks %1\u2013%2").arg(first).arg(last));
    if (stage.lastLayer == blocks + 2)
        parts << PlanPage::tr("head");
    return parts.join(QStringLiteral(" \u2192 "));
}

QString listText(const std::vector<int64_t>& values)
{
    QStringList words;
    for (int64_t value : values)
        words << countText(value);
    return words.join(QStringLiteral(", "));
}

QString tokensText(const StagePlan& stage)
{
    if (stage.cuts.size() < 2)
        return PlanPage::tr("cut for each sequence");
    QStringList words;
    for (size_t i = 1; i < stage.cuts.size(); ++i)
        words << countText(stage.cuts[i] - stage.cuts[i - 1]);
    return words.join(QStringLiteral(" + "));
}

} // namespace

PlanPage::PlanPage(Session& session, QWidget* parent) : Page(session, tr("Plan"), parent)
{
    copy_ = button(tr("Copy as command"), tr("Copy the command that trains this plan (Ctrl+Shift+K)"), [this] {
        QApplication::clipboard()->setText(shellLine(commandLine()));
        session_.notify(NoticeKind::Ok, tr("Copied: %1").arg(shellLine(commandLine())));
    });
    save_ = button(tr("Save plan\u2026"), tr("Write plan.json"), [this] { save(); });
    verify_ = button(tr("Prove sameness"), tr("Run 50 steps beside the serial run and compare loss and gradients"), [this] {
        if (const planner::PlanRow* row = session_.focusRow())
            session_.verify(*row);
    });
    train_ = button(tr("Train"), tr("Start a run of this plan (Ctrl+Return)"), [this] { train(); }, true);
    for (QPushButton* b : {copy_, save_, verify_, train_})
        addCommand(b);

    auto* body = new QWidget;
    auto* column = new QVBoxLayout(body);
    column->setContentsMargins(0, 0, 0, 0);
    column->setSpacing(10);
    column->addWidget(makeHeadline());
    reason_ = new Card;
    reasonText_ = (new Text)->wrapped();
    reason_->body()->addWidget(reasonText_);
    column->addWidget(reason_);
    auto* figures = new QHBoxLayout;
    figures->setSpacing(10);
    auto* memory = new Card(tr("Memory per device"));
    bars_ = new MemoryBars;
    key_ = new MemoryKey;
    auto* memoryRow = new QHBoxLayout;
    memoryRow->setSpacing(12);
    memoryRow->addWidget(bars_, 1);
    auto* keyColumn = new QVBoxLayout;
    keyColumn->addWidget(key_);
    keyColumn->addStretch(1);
    memoryRow->addLayout(keyColumn);
    memory->body()->addLayout(memoryRow, 1);
    auto* time = new Card(tr("Where the step time goes"));
    waterfall_ = new Waterfall;
    time->body()->addWidget(waterfall_, 1);
    figures->addWidget(memory, 11);
    figures->addWidget(time, 9);
    column->addLayout(figures, 5);
    auto* foot = new QHBoxLayout;
    foot->setSpacing(10);
    foot->addWidget(makeFacts(), 11);
    foot->addWidget(makeWhy(), 9);
    column->addLayout(foot, 4);
    frame_ = new StateFrame(body);
    content()->addWidget(frame_, 1);

    connect(&session_, &Session::selectionChanged, this, [this] {
        if (session_.focus() != shown_)
            showPlan();
    });
    connect(&session_, &Session::tableChanged, this, &PlanPage::showPlan);
    connect(&session_, &Session::planStateChanged, this, [this] {
        if (!session_.table())
            showPlan();
    });
    connect(&session_, &Session::runChanged, this, &PlanPage::showPlan);
    connect(&session_, &Session::certificateChanged, this, &PlanPage::showPlan);
    showPlan();
}

QWidget* PlanPage::makeHeadline()
{
    auto* card = new Card;
    auto* row = new QHBoxLayout;
    row->setSpacing(28);
    auto* names = new QVBoxLayout;
    names->setSpacing(1);
    name_ = (new Text({}, TextStyle::Big))->elided();
    origin_ = (new Text({}, TextStyle::Muted))->elided();
    provenance_ = (new Text({}, TextStyle::Muted))->elided();
    names->addWidget(name_);
    names->addWidget(origin_);
    names->addWidget(provenance_);
    row->addLayout(names, 1);
    row->addWidget(number(tr("Step time, 90 % interval"), step_));
    row->addWidget(number(tr("Peak of the worst device, counted"), peak_));
    auto* fit = new QHBoxLayout;
    fit->setSpacing(6);
    fitMark_ = new QLabel;
    fit->addWidget(number(tr("P(fit)"), fit_));
    fit->addWidget(fitMark_, 0, Qt::AlignBottom);
    row->addLayout(fit);
    card->body()->addLayout(row);
    return card;
}

QWidget* PlanPage::makeFacts()
{
    auto* card = new Card(tr("Stages and knobs"));
    auto* holder = new QWidget;
    facts_ = new QGridLayout(holder);
    facts_->setContentsMargins(0, 0, 0, 0);
    facts_->setHorizontalSpacing(14);
    facts_->setVerticalSpacing(3);
    facts_->setColumnStretch(1, 3);
    facts_->setColumnStretch(3, 2);
    card->body()->addWidget(holder);
    card->body()->addStretch(1);
    return card;
}

QWidget* PlanPage::makeWhy()
{
    auto* card = new Card(tr("Why"));
    auto* holder = new QWidget;
    why_ = new QVBoxLayout(holder);
    why_->setContentsMargins(0, 0, 0, 0);
    why_->setSpacing(5);
    auto* scroll = new QScrollArea;
    scroll->setWidgetResizable(true);
    scroll->setFrameShape(QFrame::NoFrame);
    scroll->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    scroll->setWidget(holder);
    scroll->setAccessibleName(tr("Why this plan"));
    scroll->viewport()->setAutoFillBackground(false);
    holder->setAutoFillBackground(false);
    card->body()->addWidget(scroll, 1);
    auto* row = new QHBoxLayout;
    row->setSpacing(6);
    certificateMark_ = new QLabel;
    certificate_ = (new Text)->wrapped();
    row->addWidget(certificateMark_, 0, Qt::AlignTop);
    row->addWidget(certificate_, 1);
    card->body()->addLayout(row);
    return card;
}

void PlanPage::showPlan()
{
    const planner::PlanRow* row = session_.focusRow();
    for (QPushButton* b : {copy_, save_, verify_, train_})
        b->setEnabled(row != nullptr);
    shown_ = row ? row->id : 0;
    if (!row) {
        const PlanState& state = session_.planState();
        setState({});
        if (state.busy())
            frame_->showProgress(state.text, state.done, state.total, nullptr);
        else if (state.phase == PlanPhase::Failed)
            frame_->showMessage(StateFrame::State::Error, state.text, tr("Try again"), [this] { session_.replan(); });
        else
            frame_->showMessage(StateFrame::State::Empty, tr("No plan is in focus. Pick one in Space."), tr("Go to Space"),
                                [this] { emit spaceOpened(); });
        return;
    }
    const auto state = PlanTableModel::stateOf(*row);
    using RowState = PlanTableModel::RowState;
    const bool runs = row->legal && row->runnable;
    const bool fits = runs && row->feasible;
    setState(PlanTableModel::stateText(state));
    train_->setEnabled(runs && !session_.startingRun());
    train_->setText(session_.startingRun() ? tr("Starting\u2026") : fits || !runs ? tr("Train") : tr("Train all the same"));
    train_->setProperty("primary", fits || !runs);
    train_->setToolTip(!runs  ? plainTip(QString::fromStdString(row->whyNot))
                       : fits ? tr("Start a run of this plan (Ctrl+Return)")
                              : tr("Predicted not to fit: the run may end out of memory (Ctrl+Return)"));
    verify_->setEnabled(fits);
    reason_->setVisible(state != RowState::Front && state != RowState::Feasible);
    reasonText_->setText(session_.table() && runs && !fits
                             ? QString::fromStdString(planner::infeasibleText(*session_.table(), *row))
                             : QString::fromStdString(row->whyNot));
    showHeadline(*row);
    showFacts(*row);
    showMemory(*row);
    showWhy(*row);
    showCertificate(*row);
    frame_->showContent();
}

void PlanPage::showHeadline(const planner::PlanRow& row)
{
    const Theme& theme = Theme::of(palette());
    name_->setText(QString::fromStdString(row.plan.name.empty() ? planName(row.plan) : row.plan.name));
    QStringList origin{tr("plan %1").arg(QString::fromStdString(fmt::format("{:016x}", row.id)).left(8))};
    if (!row.baseline.empty())
        origin << tr("baseline %1").arg(QString::fromStdString(row.baseline));
    const QString pin = session_.pinLetter(row.id);
    if (!pin.isEmpty())
        origin << tr("pin %1").arg(pin);
    if (session_.table() && session_.table()->picked >= 0 && session_.table()->rows[size_t(session_.table()->picked)].id == row.id)
        origin << tr("picked by the search");
    origin_->setText(origin.join(QStringLiteral("  \u00B7  ")));
    QStringList shares;
    static const char* const kWords[] = {QT_TR_NOOP("measured"), QT_TR_NOOP("interpolated"), QT_TR_NOOP("extrapolated"),
                                         QT_TR_NOOP("transferred"), QT_TR_NOOP("assumed")};
    for (size_t i = 0; i < row.share.size(); ++i)
        if (row.share[i] > 0.005f)
            shares << QStringLiteral("%1 %2 %3").arg(provenanceMark(planner::Provenance(i)), shareText(double(row.share[i])), tr(kWords[i]));
    provenance_->setText(shares.isEmpty() ? tr("no prediction") : tr("Step time: %1").arg(shares.join(QStringLiteral(", "))));
    step_->setText(row.stepNs > 0 ? intervalText(row.stepNs, row.stepLoNs, row.stepHiNs) : tr("n/a"));
    peak_->setText(row.peakBytes > 0 ? tr("%1 of %2").arg(memoryText(double(row.peakBytes)), memoryText(double(row.budgetBytes))) : tr("n/a"));
    fit_->setText(row.stepNs > 0 ? chanceText(row.pFit) : tr("n/a"));
    fitMark_->setVisible(row.stepNs > 0);
    fitMark_->setPixmap(iconPixmap(row.feasible ? QStringLiteral("ok") : QStringLiteral("error"),
                                   theme.color(row.feasible ? Role::Ok : Role::Error), 20, devicePixelRatioF()));
    fitMark_->setAccessibleName(row.feasible ? tr("fits") : tr("does not fit"));
}

void PlanPage::showFacts(const planner::PlanRow& row)
{
    clear(facts_);
    int line = 0;
    const auto add = [&](int column, const QString& name, const QString& value) {
        facts_->addWidget(new Text(name, TextStyle::Muted), line, column);
        facts_->addWidget((new Text(value))->elided(), line, column + 1);
    };
    const Plan& plan = row.plan;
    for (size_t s = 0; s < plan.stages.size(); ++s) {
        const StagePlan& stage = plan.stages[s];
        add(0, plan.stages.size() == 1 ? tr("Layers") : tr("Stage %1").arg(s), layersText(stage, plan.model.blocks));
        add(2, tr("Devices"), listText(stage.devices));
        ++line;
        add(0, tr("Replicas \u00D7 ulysses \u00D7 ring"), QStringLiteral("%1 \u00D7 %2 \u00D7 %3").arg(stage.replicas).arg(stage.ulysses).arg(stage.ring));
        add(2, tr("Exchange"), QString::fromLatin1(exchangeName(stage.exchange)));
        ++line;
        add(0, tr("Recompute"), QString::fromLatin1(recomputeName(stage.recompute)));
        add(2, tr("ZeRO"), QString::fromLatin1(zeroName(stage.zero)));
        ++line;
        add(0, tr("Tokens"), tokensText(stage));
        add(2, tr("Imbalance"), significantText(row.imbalance));
        ++line;
    }
    add(0, tr("Attention"), tr("%1, %2").arg(QString::fromLatin1(attentionPathName(plan.attention)), QString::fromLatin1(biasPolicyName(plan.bias))));
    add(2, tr("Precision"), QString::fromLatin1(precisionName(plan.precision)));
    ++line;
    add(0, tr("Sequence"), tr("%1, order %2").arg(QString::fromLatin1(sequenceModeName(plan.mode)), QString::fromStdString(plan.order)));
    add(2, tr("Micro-batches"), countText(plan.microBatches));
    ++line;
    add(0, tr("Moved per step"), memoryText(double(row.movedBytes)));
    add(2, tr("Kept edges"), shareText(row.keptEdges));
}

void PlanPage::showMemory(const planner::PlanRow& row)
{
    std::vector<MemoryBar> bars;
    for (const RankPrediction& rank : row.plan.prediction.ranks)
        bars.push_back({tr("rank %1").arg(rank.rank), rank.categories});
    if (bars.empty() && row.peakBytes > 0)
        bars.push_back({tr("rank %1").arg(row.worstRank), row.worst});
    bars_->setBars(bars, row.budgetBytes);
    key_->setAmounts({tr("rank %1").arg(row.worstRank)}, {row.worst});
    waterfall_->setTerms(row.terms, row.stepNs);
}

void PlanPage::showWhy(const planner::PlanRow& row)
{
    clear(why_);
    const TablePtr table = session_.table();
    const int64_t index = session_.rowIndexOf(row.id);
    QStringList lines;
    if (table && index >= 0)
        for (const std::string& line : planner::whyLines(*table, index))
            lines << QString::fromStdString(line);
    if (!row.peakAction.empty())
        lines << tr("Memory peaks at %1 on rank %2.").arg(QString::fromStdString(row.peakAction)).arg(row.worstRank);
    if (lines.isEmpty())
        lines << tr("Nothing to explain: this plan has no prediction.");
    for (const QString& line : lines)
        why_->addWidget((new Text(line))->wrapped());
    why_->addStretch(1);
}

void PlanPage::showCertificate(const planner::PlanRow& row)
{
    const Theme& theme = Theme::of(palette());
    const std::optional<Json>& document = session_.certificate(row.id);
    if (!document) {
        certificateMark_->setPixmap(iconPixmap(QStringLiteral("missing"), theme.color(Role::Muted), 18, devicePixelRatioF()));
        certificate_->setText(tr("Sameness with the serial run: not proved."));
        certificate_->setRole(Role::Muted);
        return;
    }
    const std::string verdict = document->value("verdict", std::string());
    const bool same = verdict == "same";
    certificateMark_->setPixmap(iconPixmap(same ? QStringLiteral("ok") : QStringLiteral("error"),
                                           theme.color(same ? Role::Ok : Role::Error), 18, devicePixelRatioF()));
    certificate_->setRole(Role::Text);
    const auto number = [&](const char* key) {
        const auto it = document->find(key);
        return it != document->end() && it->is_number() ? QString::number(it->get<double>(), 'g', 3) : tr("n/a");
    };
    certificate_->setText(tr("Sameness over %1 steps: %2. Worst relative difference: loss %3, gradients %4.")
                              .arg(document->value("steps", int64_t(0)))
                              .arg(QString::fromStdString(verdict), number("loss_rel_max"), number("gradient_rel_max")));
}

void PlanPage::save()
{
    const planner::PlanRow* row = session_.focusRow();
    if (!row)
        return;
    const planner::PlanRow copy = *row; // the table may change while the dialog is open
    const QString path = QFileDialog::getSaveFileName(this, tr("Save plan"), QStringLiteral("plan.json"), tr("Plan (*.json)"));
    if (path.isEmpty())
        return;
    session_.savePlan(copy, path);
    session_.notify(NoticeKind::Ok, tr("Plan written to %1.").arg(path));
}

void PlanPage::train()
{
    const planner::PlanRow* row = session_.focusRow();
    if (row && row->legal && row->runnable)
        session_.startRun(*row, !row->feasible);
}

QStringList PlanPage::commandLine() const
{
    const planner::PlanRow* row = session_.focusRow();
    return row ? session_.trainCommand(*row) : QStringList();
}

bool PlanPage::settled() const
{
    return !session_.opening() && !session_.planState().busy() &&
           (session_.hasProject() || !session_.projectProblem().isEmpty() || session_.table());
}

void PlanPage::focusFirst()
{
    if (train_->isEnabled())
        train_->setFocus(Qt::ShortcutFocusReason);
    else
        nextInFocusChain()->setFocus(Qt::ShortcutFocusReason);
}

} // namespace megagraph::ui
