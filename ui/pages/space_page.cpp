// SPDX-License-Identifier: Apache-2.0
#include "ui/pages/space_page.h"

#include "ui/models/plan_table_model.h"
#include "ui/session/units_text.h"
#include "ui/widgets/state_frame.h"
#include "ui/widgets/trade_off_plot.h"

#include <QAbstractItemView>
#include <QCompleter>
#include <QFileInfo>
#include <QHeaderView>
#include <QKeyEvent>
#include <QPainter>
#include <QShortcut>
#include <QSplitter>
#include <QStyledItemDelegate>
#include <QTableView>

namespace megagraph::ui {
namespace {

constexpr int kRowHeight = 26;

/// Paints the state mark and pin letter of the first column: shape and letter, never colour alone.
class MarkDelegate : public QStyledItemDelegate {
  public:
    using QStyledItemDelegate::QStyledItemDelegate;
    void paint(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const override
    {
        QStyleOptionViewItem item = option;
        initStyleOption(&item, index);
        item.text.clear();
        option.widget->style()->drawControl(QStyle::CE_ItemViewItem, &item, painter, option.widget);
        const Theme& theme = Theme::of(option.palette);
        painter->save();
        painter->setRenderHint(QPainter::Antialiasing);
        const QPointF at(option.rect.left() + 14, option.rect.center().y() + 0.5);
        using State = PlanTableModel::RowState;
        const auto state = State(index.data(PlanTableModel::StateRole).toInt());
        const QColor quiet = theme.color(Role::Line);
        if (state == State::Front || state == State::Feasible) {
            painter->setPen(Qt::NoPen);
            painter->setBrush(state == State::Front ? theme.color(Role::Accent) : quiet);
            painter->drawEllipse(at, 4.5, 4.5);
        } else if (state == State::Infeasible) {
            painter->setPen(QPen(theme.color(Role::Error), 1.7));
            painter->drawLine(at - QPointF(3.5, 3.5), at + QPointF(3.5, 3.5));
            painter->drawLine(at - QPointF(3.5, -3.5), at + QPointF(3.5, -3.5));
        } else {
            painter->setPen(QPen(quiet, 1.4));
            painter->setBrush(Qt::NoBrush);
            painter->drawPolygon(QPolygonF({at - QPointF(0, 5), at + QPointF(5, 0), at + QPointF(0, 5), at - QPointF(5, 0)}));
        }
        painter->setPen(theme.color(Role::Text));
        QFont bold = option.font;
        bold.setBold(true);
        painter->setFont(bold);
        painter->drawText(QRectF(option.rect).adjusted(26, 0, -2, 0), Qt::AlignLeft | Qt::AlignVCenter,
                          index.data(PlanTableModel::MarkRole).toString());
        painter->restore();
    }
};

/// Completes the word before the cursor with column names.
void completeColumns(QLineEdit* edit)
{
    QStringList names;
    for (const planner::Column& column : planner::planColumns())
        names << QString::fromStdString(column.name);
    auto* completer = new QCompleter(names, edit);
    completer->setCaseSensitivity(Qt::CaseInsensitive);
    completer->setWidget(edit);
    QObject::connect(edit, &QLineEdit::textEdited, completer, [edit, completer] {
        const QString word = edit->text().left(edit->cursorPosition()).section(QLatin1Char(' '), -1);
        completer->setCompletionPrefix(word);
        const bool useful = word.size() >= 2 && completer->completionCount() > 0 && completer->currentCompletion() != word;
        if (useful)
            completer->complete();
        else
            completer->popup()->hide();
    });
    QObject::connect(completer, qOverload<const QString&>(&QCompleter::activated), edit, [edit](const QString& name) {
        const int cursor = edit->cursorPosition();
        const QString before = edit->text().left(cursor);
        const qsizetype wordAt = before.lastIndexOf(QLatin1Char(' ')) + 1;
        edit->setText(before.left(wordAt) + name + QLatin1Char(' ') + edit->text().mid(cursor));
        edit->setCursorPosition(int(wordAt + name.size() + 1));
    });
}

} // namespace

SpacePage::SpacePage(Session& session, QWidget* parent) : Page(session, tr("Space"), parent)
{
    model_ = new PlanTableModel(session, this);
    plot_ = new TradeOffPlot(session);
    open_ = button(tr("Open plan"), tr("Show the plan in focus (Enter)"), [this] { emit planOpened(); }, true);
    pin_ = button(tr("Pin"), tr("Pin the plan in focus (P)"), [this] { session_.togglePin(session_.focus()); });
    addCommand(button(tr("Search again"), tr("Search the plans again (F5)"), [this] { session_.replan(); }));
    addCommand(pin_);
    addCommand(open_);

    auto* body = new QWidget;
    auto* column = new QVBoxLayout(body);
    column->setContentsMargins(0, 0, 0, 0);
    column->setSpacing(10);
    column->addWidget(makeFilterRow());
    auto* splitter = new QSplitter(Qt::Horizontal);
    splitter->setChildrenCollapsible(false);
    splitter->setHandleWidth(10);
    auto* left = new QWidget;
    auto* leftColumn = new QVBoxLayout(left);
    leftColumn->setContentsMargins(0, 0, 0, 0);
    leftColumn->setSpacing(10);
    auto* figure = new Card(tr("Step time against peak memory"));
    figure->addCorner(button(tr("Fit"), tr("Fit the axes to the shown plans (0)"), [this] { plot_->fit(); }));
    figure->body()->addWidget(plot_, 1);
    leftColumn->addWidget(figure, 1);
    splitter->addWidget(left);
    splitter->addWidget(makeTable());
    splitter->setStretchFactor(0, 5);
    splitter->setStretchFactor(1, 6);
    splitter->setSizes({520, 620});
    column->addWidget(splitter, 1);
    column->addWidget(makePicks());
    frame_ = new StateFrame(body);
    content()->addWidget(frame_, 1);

    connect(plot_, &TradeOffPlot::opened, this, [this](quint64 id) {
        session_.setFocus(id);
        emit planOpened();
    });
    connect(&session_, &Session::planStateChanged, this, &SpacePage::showState);
    connect(&session_, &Session::tableChanged, this, [this] {
        showState();
        showPicks();
        showSelection();
    });
    connect(&session_, &Session::selectionChanged, this, &SpacePage::showSelection);
    connect(&session_, &Session::projectChanged, this, &SpacePage::showState);
    showState();
    showPicks();
    showSelection();
}

QWidget* SpacePage::makeFilterRow()
{
    auto* holder = new QWidget;
    auto* column = new QVBoxLayout(holder);
    column->setContentsMargins(0, 0, 0, 0);
    column->setSpacing(3);
    auto* row = new QHBoxLayout;
    row->setSpacing(8);
    filter_ = new QLineEdit;
    filter_->setClearButtonEnabled(true);
    filter_->setMinimumHeight(28);
    filter_->setPlaceholderText(tr("Filter, for example: step_ms < 200 and peak_gib < 0.5 and exchange = ring"));
    filter_->setAccessibleName(tr("Filter of plans"));
    filter_->setToolTip(tr("column, comparison, number; joined by \"and\" (/)"));
    completeColumns(filter_);
    counts_ = new Text({}, TextStyle::Muted);
    row->addWidget(filter_, 1);
    row->addWidget(counts_);
    column->addLayout(row);
    auto* problemRow = new QHBoxLayout;
    problemRow->setSpacing(6);
    problemMark_ = new QLabel;
    filterProblem_ = (new Text)->elided();
    filterProblem_->setRole(Role::Error);
    problemRow->addWidget(problemMark_);
    problemRow->addWidget(filterProblem_, 1);
    column->addLayout(problemRow);
    connect(filter_, &QLineEdit::textChanged, this, [this](const QString& text) { session_.setFilter(text); });
    return holder;
}

QWidget* SpacePage::makeTable()
{
    auto* card = new Card(tr("Plans"));
    table_ = new QTableView;
    table_->setModel(model_);
    table_->setItemDelegateForColumn(0, new MarkDelegate(table_));
    table_->setSelectionBehavior(QAbstractItemView::SelectRows);
    table_->setSelectionMode(QAbstractItemView::SingleSelection);
    table_->setEditTriggers(QAbstractItemView::NoEditTriggers);
    table_->setShowGrid(false);
    table_->setFrameShape(QFrame::NoFrame);
    table_->setWordWrap(false);
    table_->setTabKeyNavigation(false); // Tab leaves the table
    table_->setCornerButtonEnabled(false);
    table_->setAccessibleName(tr("Table of plans"));
    table_->setHorizontalScrollMode(QAbstractItemView::ScrollPerPixel);
    table_->verticalHeader()->setVisible(false);
    table_->verticalHeader()->setDefaultSectionSize(kRowHeight);
    table_->verticalHeader()->setSectionResizeMode(QHeaderView::Fixed);
    QHeaderView* header = table_->horizontalHeader();
    header->setHighlightSections(false);
    header->setSectionsClickable(true);
    header->setSortIndicatorShown(true);
    header->setMinimumSectionSize(40);
    header->setStretchLastSection(true);
    table_->setSortingEnabled(true);
    table_->sortByColumn(model_->columnOf(QStringLiteral("step_ms")), Qt::AscendingOrder);
    for (const QKeySequence& key : {QKeySequence(Qt::Key_P), QKeySequence(Qt::Key_Space)}) {
        auto* shortcut = new QShortcut(key, table_, nullptr, nullptr, Qt::WidgetShortcut);
        connect(shortcut, &QShortcut::activated, this, [this] { session_.togglePin(session_.focus()); });
    }
    connect(table_->selectionModel(), &QItemSelectionModel::currentRowChanged, this, [this](const QModelIndex& now) {
        if (!following_ && now.isValid())
            session_.setFocus(now.data(PlanTableModel::PlanIdRole).toULongLong());
    });
    connect(table_, &QTableView::activated, this, [this] { emit planOpened(); });
    connect(model_, &QAbstractItemModel::modelReset, this, &SpacePage::followTable);
    connect(model_, &QAbstractItemModel::layoutChanged, this, &SpacePage::followTable);
    card->body()->addWidget(table_, 1);
    certificate_ = (new Text({}, TextStyle::Muted))->wrapped();
    card->body()->addWidget(certificate_);
    return card;
}

QWidget* SpacePage::makePicks()
{
    auto* holder = new Card;
    picks_ = new QHBoxLayout;
    picks_->setSpacing(8);
    holder->body()->addLayout(picks_);
    holder->setAccessibleName(tr("Named picks"));
    return holder;
}

void SpacePage::showPicks()
{
    while (QLayoutItem* item = picks_->takeAt(0)) {
        if (item->widget())
            item->widget()->deleteLater();
        delete item;
    }
    const std::vector<Session::Pick> picks = session_.picks();
    if (picks.empty()) {
        picks_->addWidget(new Text(session_.table() ? tr("No named picks, because no plan fits. A larger budget or more ranks are set on Start.")
                                                   : tr("No named picks yet."),
                                   TextStyle::Muted),
                          1);
        return;
    }
    for (const Session::Pick& pick : picks) {
        auto* cell = new QWidget;
        auto* row = new QHBoxLayout(cell);
        row->setContentsMargins(0, 0, 0, 0);
        row->setSpacing(8);
        const planner::PlanRow* plan = session_.rowOf(pick.id);
        auto* choose = button(pick.name, plan ? QString::fromStdString(plan->plan.name) : QString(),
                              [this, id = pick.id] { session_.setFocus(id); });
        choose->setAccessibleName(tr("%1: %2").arg(pick.name, pick.reason));
        row->addWidget(choose);
        row->addWidget((new Text(pick.reason, TextStyle::Muted))->elided(), 1);
        picks_->addWidget(cell, 1);
    }
}

void SpacePage::showState()
{
    const PlanState& state = session_.planState();
    const TablePtr table = session_.table();
    open_->setEnabled(session_.focusRow());
    pin_->setEnabled(session_.focusRow());
    if (state.busy()) {
        setState(state.text);
        if (!table)
            frame_->showProgress(state.text, state.done, state.total, nullptr);
        return;
    }
    if (state.phase == PlanPhase::Failed) {
        setState(tr("No plans"));
        frame_->showMessage(StateFrame::State::Error, state.text, tr("Try again"), [this] { session_.replan(); });
        return;
    }
    if (!table) {
        setState(session_.hasProject() ? session_.projectName() : tr("no project"));
        frame_->showMessage(StateFrame::State::Empty, state.text, tr("Go to Start"), [this] { emit startOpened(); });
        return;
    }
    QStringList parts{tr("%1 with %2").arg(session_.scenario().dataset, QFileInfo(session_.scenario().model).completeBaseName())};
    if (!table->profileNote.empty())
        parts << QString::fromStdString(table->profileNote);
    setState(parts.join(QStringLiteral("  \u00B7  ")));
    QStringList notes;
    if (!table->certificate.empty())
        notes << QString::fromStdString(table->certificate);
    if (!table->binding.empty() && table->binding != table->certificate)
        notes << QString::fromStdString(table->binding);
    certificate_->setText(notes.join(QLatin1Char(' ')));
    frame_->showContent();
}

void SpacePage::showSelection()
{
    const TablePtr table = session_.table();
    if (filter_->text() != session_.filterText())
        filter_->setText(session_.filterText());
    const bool bad = !session_.filterProblem().isEmpty();
    problemMark_->setVisible(bad);
    filterProblem_->setVisible(bad);
    filterProblem_->setText(session_.filterProblem().simplified());
    if (bad)
        problemMark_->setPixmap(iconPixmap(QStringLiteral("error"), Theme::of(palette()).color(Role::Error), 16, devicePixelRatioF()));
    if (table) {
        const auto fronts = std::count_if(table->rows.begin(), table->rows.end(), [](const auto& r) { return r.front; });
        counts_->setText(tr("front %1, shown %2 of %3, fit %4")
                             .arg(countText(fronts), countText(session_.shownCount()), countText(int64_t(table->rows.size())),
                                  countText(table->feasible)));
    } else {
        counts_->setText({});
    }
    const planner::PlanRow* focus = session_.focusRow();
    open_->setEnabled(focus);
    pin_->setEnabled(focus);
    pin_->setText(focus && !session_.pinLetter(focus->id).isEmpty() ? tr("Unpin %1").arg(session_.pinLetter(focus->id)) : tr("Pin"));
    followTable();
}

void SpacePage::followTable()
{
    if (following_)
        return;
    following_ = true;
    const int row = model_->rowOfPlan(session_.focus());
    if (row >= 0 && table_->currentIndex().row() != row) {
        table_->setCurrentIndex(model_->index(row, std::max(0, table_->currentIndex().column())));
        table_->scrollTo(model_->index(row, 0));
    } else if (row < 0) {
        table_->clearSelection();
    }
    if (model_->rowCount() > 0 && !table_->property("sized").toBool()) {
        table_->resizeColumnsToContents();
        table_->setColumnWidth(0, 44);
        table_->setColumnWidth(1, std::min(table_->columnWidth(1), table_->fontMetrics().averageCharWidth() * 34)); // numbers first; the tooltip has it all
        table_->setProperty("sized", true);
    }
    following_ = false;
}

bool SpacePage::settled() const
{
    return !session_.opening() && !session_.planState().busy() && (session_.table() || session_.planState().phase != PlanPhase::Ready) &&
           (session_.hasProject() || !session_.projectProblem().isEmpty() || session_.table());
}

void SpacePage::focusFirst()
{
    if (frame_->state() == StateFrame::State::Ready)
        table_->setFocus(Qt::ShortcutFocusReason);
    else
        nextInFocusChain()->setFocus(Qt::ShortcutFocusReason);
}

void SpacePage::focusFilter()
{
    filter_->setFocus(Qt::ShortcutFocusReason);
    filter_->selectAll();
}

bool SpacePage::peel()
{
    if (filter_->text().isEmpty())
        return false;
    filter_->clear();
    return true;
}

} // namespace megagraph::ui
