// SPDX-License-Identifier: Apache-2.0
#include "ui/widgets/trade_off_plot.h"

#include "ui/models/plan_table_model.h"
#include "ui/session/units_text.h"
#include "ui/widgets/parts.h"

#include <QToolTip>

#include <cmath>

namespace megagraph::ui {
namespace {

constexpr double kHitRadius = 12;
constexpr double kLogRatio = 12;    // an axis that spans more than this is logarithmic
constexpr double kBudgetInView = 4; // the budget line is drawn when it is at most this times the largest peak
constexpr double kGib = 1024.0 * 1024.0 * 1024.0;

std::pair<double, double> padded(double low, double high, bool logarithmic)
{
    if (logarithmic)
        return {low / std::pow(high / low, 0.07), high * std::pow(high / low, 0.12)};
    const double span = high > low ? high - low : std::max(high, 1e-3);
    return {std::max(0.0, low - 0.10 * span), high + 0.14 * span};
}

} // namespace

TradeOffPlot::TradeOffPlot(Session& session, QWidget* parent)
    : Plot(tr("Trade-off: step time against peak memory"), parent), session_(session)
{
    // the table carries the selection; the plot's own selection rectangles stay off
    setInteractions(QCP::iRangeDrag | QCP::iRangeZoom);
    xAxis->setLabel(tr("Step time (ms)"));
    yAxis->setLabel(tr("Peak of the worst device, counted (GiB)"));
    xAxis->setTicker(xTicker_);
    yAxis->setTicker(yTicker_);
    infeasible_ = addGraph();
    infeasible_->setName(tr("does not fit"));
    unsupported_ = addGraph();
    unsupported_->setName(tr("cannot run yet"));
    feasible_ = addGraph();
    feasible_->setName(tr("fits"));
    front_ = addGraph();
    front_->setName(tr("front"));
    for (QCPGraph* graph : {infeasible_, unsupported_, feasible_})
        graph->setLineStyle(QCPGraph::lsNone);
    front_->setLineStyle(QCPGraph::lsStepLeft);
    budget_ = new QCPItemStraightLine(this);
    budgetText_ = new QCPItemText(this);
    addLayer(QStringLiteral("hover"), layer(QStringLiteral("overlay")), QCustomPlot::limBelow);
    layer(QStringLiteral("hover"))->setMode(QCPLayer::lmBuffered);
    focusRing_ = new QCPItemEllipse(this);
    hoverRing_ = new QCPItemEllipse(this);
    hoverRing_->setLayer(QStringLiteral("hover"));
    for (QCPItemEllipse* ring : {focusRing_, hoverRing_}) {
        ring->topLeft->setType(QCPItemPosition::ptAbsolute);
        ring->bottomRight->setType(QCPItemPosition::ptAbsolute);
        ring->setVisible(false);
    }
    // a strip of keys above the axes costs less room than a box inside them
    plotLayout()->insertRow(0);
    auto* strip = new QCPLegend;
    plotLayout()->addElement(0, 0, strip);
    strip->setLayer(QStringLiteral("legend"));
    strip->setFillOrder(QCPLegend::foColumnsFirst);
    strip->setMargins(QMargins(4, 0, 4, 0));
    for (QCPGraph* graph : {front_, feasible_, infeasible_, unsupported_})
        graph->addToLegend(strip);
    legend = strip;
    plotLayout()->setRowStretchFactor(0, 0.001);
    plotLayout()->setRowSpacing(2);
    setMouseTracking(true);
    connect(&session_, &Session::tableChanged, this, [this] {
        rebuild();
        fit();
    });
    connect(&session_, &Session::selectionChanged, this, [this] { rebuild(); });
    // rings and notes are placed in pixels, so they follow every change of the axes
    connect(this, &QCustomPlot::afterLayout, this, &TradeOffPlot::placeSelection);
    restyle();
    rebuild();
    fit();
}

void TradeOffPlot::restyle()
{
    const Theme& theme = Theme::of(palette());
    applyTheme(*this);
    const QColor accent = theme.color(Role::Accent), page = theme.color(Role::Page);
    front_->setPen(QPen(accent, 1.5));
    front_->setScatterStyle(QCPScatterStyle(QCPScatterStyle::ssCircle, QPen(page, 1), QBrush(accent), 10));
    const QColor quiet = theme.color(Role::Line);
    feasible_->setScatterStyle(QCPScatterStyle(QCPScatterStyle::ssCircle, QPen(page, 1), QBrush(quiet), 9));
    infeasible_->setScatterStyle(QCPScatterStyle(QCPScatterStyle::ssCross, QPen(theme.color(Role::Error), 1.6), Qt::NoBrush, 8));
    unsupported_->setScatterStyle(QCPScatterStyle(QCPScatterStyle::ssDiamond, QPen(quiet, 1.4), QBrush(page), 9));
    budget_->setPen(QPen(theme.color(Role::Error), 1.2, Qt::DashLine));
    budgetText_->setColor(theme.color(Role::Error));
    focusRing_->setPen(QPen(theme.color(Role::Text), 1.8));
    hoverRing_->setPen(QPen(accent, 1.5));
    placeSelection();
    replot(QCustomPlot::rpQueuedReplot);
}

void TradeOffPlot::rebuild()
{
    placeMarks();
    placeSelection();
    setAccessibleDescription(summary());
    replot(QCustomPlot::rpQueuedReplot);
}

void TradeOffPlot::placeMarks()
{
    marks_.clear();
    budgetGib_ = 0;
    QVector<double> keys[4], values[4];
    const TablePtr table = session_.table();
    for (size_t i = 0; table && i < table->rows.size(); ++i) {
        const planner::PlanRow& row = table->rows[i];
        if (row.budgetBytes > 0)
            budgetGib_ = std::max(budgetGib_, double(row.budgetBytes) / kGib);
        if (i >= session_.shown().size() || !session_.shown()[i] || row.stepNs <= 0 || row.peakBytes <= 0)
            continue;
        marks_.push_back({row.id, double(row.stepNs) / 1e6, double(row.peakBytes) / kGib, int(i)});
    }
    std::sort(marks_.begin(), marks_.end(), [](const Mark& a, const Mark& b) { return std::tie(a.x, a.y) < std::tie(b.x, b.y); });
    for (const Mark& mark : marks_) {
        const auto state = PlanTableModel::stateOf(table->rows[size_t(mark.row)]);
        using State = PlanTableModel::RowState;
        const int kind = state == State::Front ? 0 : state == State::Feasible ? 1 : state == State::Infeasible ? 2 : 3;
        keys[kind] << mark.x;
        values[kind] << mark.y;
    }
    QCPGraph* const graphs[] = {front_, feasible_, infeasible_, unsupported_};
    for (int i = 0; i < 4; ++i)
        graphs[i]->setData(keys[i], values[i], true);
}

void TradeOffPlot::fit()
{
    if (marks_.empty())
        return;
    double x0 = marks_.front().x, x1 = x0, y0 = marks_.front().y, y1 = y0;
    for (const Mark& mark : marks_) {
        x0 = std::min(x0, mark.x);
        x1 = std::max(x1, mark.x);
        y0 = std::min(y0, mark.y);
        y1 = std::max(y1, mark.y);
    }
    if (budgetGib_ > 0 && budgetGib_ < kBudgetInView * y1) {
        y0 = std::min(y0, budgetGib_);
        y1 = std::max(y1, budgetGib_);
    }
    const bool logX = x1 / x0 > kLogRatio, logY = y1 / y0 > kLogRatio;
    xAxis->setScaleType(logX ? QCPAxis::stLogarithmic : QCPAxis::stLinear);
    yAxis->setScaleType(logY ? QCPAxis::stLogarithmic : QCPAxis::stLinear);
    xTicker_->setLogarithmic(logX);
    yTicker_->setLogarithmic(logY);
    xAxis->setLabel(logX ? tr("Step time (ms, logarithmic)") : tr("Step time (ms)"));
    yAxis->setLabel(logY ? tr("Worst device's peak, counted (GiB, logarithmic)") : tr("Worst device's peak, counted (GiB)"));
    const auto [xl, xh] = padded(x0, x1, logX);
    const auto [yl, yh] = padded(y0, y1, logY);
    xAxis->setRange(xl, xh);
    yAxis->setRange(yl, yh);
    placeSelection();
    replot(QCustomPlot::rpQueuedReplot);
}

QPointF TradeOffPlot::pixelOf(const Mark& mark) const
{
    return {xAxis->coordToPixel(mark.x), yAxis->coordToPixel(mark.y)};
}

QPointF TradeOffPlot::positionOf(uint64_t id) const
{
    for (const Mark& mark : marks_)
        if (mark.id == id)
            return pixelOf(mark);
    return {-1, -1};
}

void TradeOffPlot::placeSelection()
{
    const QPointF at = positionOf(session_.focus());
    focusRing_->setVisible(at.x() >= 0 && axisRect()->rect().contains(at.toPoint()));
    focusRing_->topLeft->setCoords(at - QPointF(9, 9));
    focusRing_->bottomRight->setCoords(at + QPointF(9, 9));
    const bool inView = budgetGib_ > 0 && yAxis->range().contains(budgetGib_);
    budget_->setVisible(inView);
    budget_->point1->setCoords(xAxis->range().lower > 0 ? xAxis->range().lower : 1, std::max(budgetGib_, 1e-9));
    budget_->point2->setCoords(xAxis->range().upper, std::max(budgetGib_, 1e-9));
    placeNotes();
}

void TradeOffPlot::addNote(const QPointF& at, const QString& text, QColor color, bool bold, QList<QRectF>& taken)
{
    QFont small = font();
    small.setPointSizeF(QFont().pointSizeF() * 0.9);
    small.setBold(bold);
    const QSizeF size = QFontMetricsF(small).boundingRect(text).size() + QSizeF(4, 1);
    const QRectF inside = QRectF(axisRect()->rect()).adjusted(2, 2, -2, -2);
    const double gap = 9;
    const QPointF corners[] = {at + QPointF(gap, -size.height() / 2), at + QPointF(-gap - size.width(), -size.height() / 2),
                               at + QPointF(-size.width() / 2, -gap - size.height()), at + QPointF(-size.width() / 2, gap),
                               at + QPointF(gap, gap - 2), at + QPointF(gap, -gap - size.height() + 2)};
    for (const QPointF& corner : corners) {
        const QRectF box(corner, size);
        const bool free = inside.contains(box) &&
                          std::none_of(taken.begin(), taken.end(), [&](const QRectF& t) { return t.intersects(box); });
        if (!free)
            continue;
        taken << box;
        auto* note = new QCPItemText(this);
        note->position->setType(QCPItemPosition::ptAbsolute);
        note->position->setCoords(box.center());
        note->setText(text);
        note->setFont(small);
        note->setColor(color);
        note->setClipToAxisRect(true);
        notes_ << note;
        return;
    }
}

void TradeOffPlot::placeNotes()
{
    for (QCPItemText* note : std::as_const(notes_))
        removeItem(note);
    notes_.clear();
    const Theme& theme = Theme::of(palette());
    QList<QRectF> taken;
    for (const Mark& mark : marks_) // marks may not be covered by words
        taken << QRectF(pixelOf(mark) - QPointF(5, 5), QSizeF(10, 10));
    QFont small = font();
    small.setPointSizeF(QFont().pointSizeF() * 0.9);
    budgetText_->setVisible(budgetGib_ > 0);
    const QRectF inside = axisRect()->rect();
    const bool inView = yAxis->range().contains(budgetGib_);
    budgetText_->setFont(small);
    budgetText_->setText(inView ? tr("budget %1").arg(memoryText(budgetGib_ * kGib))
                                : budgetGib_ > yAxis->range().upper ? tr("budget %1, above this view").arg(memoryText(budgetGib_ * kGib))
                                                                    : tr("budget %1, below this view").arg(memoryText(budgetGib_ * kGib)));
    budgetText_->setPositionAlignment(Qt::AlignRight | (inView ? Qt::AlignBottom : Qt::AlignTop));
    budgetText_->position->setType(QCPItemPosition::ptAbsolute);
    budgetText_->position->setCoords(inside.right() - 4, inView ? yAxis->coordToPixel(budgetGib_) - 1 : inside.top() + 3);
    const QSizeF budgetSize = QFontMetricsF(small).boundingRect(budgetText_->text()).size();
    taken << QRectF(inside.right() - 8 - budgetSize.width(), budgetText_->position->coords().y() - (inView ? budgetSize.height() : 0),
                    budgetSize.width() + 8, budgetSize.height());
    if (!session_.table())
        return;
    for (const Mark& mark : marks_) {
        const planner::PlanRow& row = session_.table()->rows[size_t(mark.row)];
        const QString letter = session_.pinLetter(row.id);
        if (!letter.isEmpty())
            addNote(pixelOf(mark), letter, theme.color(Role::Text), true, taken);
    }
    for (const Mark& mark : marks_) {
        const planner::PlanRow& row = session_.table()->rows[size_t(mark.row)];
        if (!row.baseline.empty())
            addNote(pixelOf(mark), QString::fromStdString(row.baseline), theme.color(Role::Muted), false, taken);
    }
}

uint64_t TradeOffPlot::planAt(const QPointF& position) const
{
    uint64_t found = 0;
    double nearest = kHitRadius;
    for (const Mark& mark : marks_) {
        const QPointF d = pixelOf(mark) - position;
        const double distance = std::hypot(d.x(), d.y());
        if (distance <= nearest) {
            nearest = distance;
            found = mark.id;
        }
    }
    return found;
}

QString TradeOffPlot::tipOf(const planner::PlanRow& row) const
{
    QStringList lines{QString::fromStdString(row.plan.name)};
    if (!row.baseline.empty())
        lines << tr("baseline %1").arg(QString::fromStdString(row.baseline));
    lines << tr("step %1").arg(intervalText(row.stepNs, row.stepLoNs, row.stepHiNs))
          << tr("peak %1 of %2, counted, rank %3").arg(memoryText(double(row.peakBytes)), memoryText(double(row.budgetBytes))).arg(row.worstRank)
          << tr("P(fit) %1").arg(chanceText(row.pFit)) << tr("moved per step %1").arg(memoryText(double(row.movedBytes)));
    if (!row.whyNot.empty())
        lines << QString::fromStdString(row.whyNot);
    return lines.join(QLatin1Char('\n'));
}

void TradeOffPlot::setHover(uint64_t id)
{
    if (id == hover_)
        return;
    hover_ = id;
    const QPointF at = positionOf(id);
    hoverRing_->setVisible(at.x() >= 0);
    hoverRing_->topLeft->setCoords(at - QPointF(8, 8));
    hoverRing_->bottomRight->setCoords(at + QPointF(8, 8));
    layer(QStringLiteral("hover"))->replot(); // this layer alone, never the whole plot
    const planner::PlanRow* row = session_.rowOf(id);
    if (row)
        QToolTip::showText(mapToGlobal(at.toPoint()), plainTip(tipOf(*row)), this);
    else
        QToolTip::hideText();
}

void TradeOffPlot::mouseMoveEvent(QMouseEvent* event)
{
    Plot::mouseMoveEvent(event);
    if (event->buttons() == Qt::NoButton)
        setHover(planAt(event->position()));
}

void TradeOffPlot::leaveEvent(QEvent* event)
{
    Plot::leaveEvent(event);
    setHover(0);
}

void TradeOffPlot::mousePressEvent(QMouseEvent* event)
{
    pressed_ = event->position();
    Plot::mousePressEvent(event);
}

void TradeOffPlot::mouseReleaseEvent(QMouseEvent* event)
{
    Plot::mouseReleaseEvent(event);
    if ((event->position() - pressed_).manhattanLength() > 4)
        return; // a drag
    const uint64_t id = planAt(event->position());
    if (id == 0)
        return;
    if (event->modifiers() & Qt::ControlModifier)
        session_.togglePin(id);
    else
        session_.setFocus(id);
}

void TradeOffPlot::mouseDoubleClickEvent(QMouseEvent* event)
{
    const uint64_t id = planAt(event->position());
    if (id)
        emit opened(id);
    else
        fit();
}

void TradeOffPlot::step(int direction)
{
    if (marks_.empty())
        return;
    const auto at = std::find_if(marks_.begin(), marks_.end(), [this](const Mark& m) { return m.id == session_.focus(); });
    const auto index = at == marks_.end() ? (direction > 0 ? 0 : qsizetype(marks_.size()) - 1)
                                          : std::clamp<qsizetype>(at - marks_.begin() + direction, 0, qsizetype(marks_.size()) - 1);
    session_.setFocus(marks_[size_t(index)].id);
}

void TradeOffPlot::keyPressEvent(QKeyEvent* event)
{
    switch (event->key()) {
    case Qt::Key_Right:
    case Qt::Key_Up: step(1); return;
    case Qt::Key_Left:
    case Qt::Key_Down: step(-1); return;
    case Qt::Key_0: fit(); return;
    case Qt::Key_P:
    case Qt::Key_Space: session_.togglePin(session_.focus()); return;
    case Qt::Key_Return:
    case Qt::Key_Enter: emit opened(session_.focus()); return;
    default: Plot::keyPressEvent(event);
    }
}

QString TradeOffPlot::summary() const
{
    const TablePtr table = session_.table();
    if (!table || marks_.empty())
        return tr("No plans to show.");
    int fronts = 0;
    for (const Mark& mark : marks_)
        fronts += table->rows[size_t(mark.row)].front;
    double low = marks_.front().y, high = low;
    for (const Mark& mark : marks_) {
        low = std::min(low, mark.y);
        high = std::max(high, mark.y);
    }
    return tr("%1 plans, %2 on the front, %3 to %4 ms, %5 to %6 GiB.")
        .arg(marks_.size())
        .arg(fronts)
        .arg(significantText(marks_.front().x), significantText(marks_.back().x), significantText(low), significantText(high));
}

} // namespace megagraph::ui
