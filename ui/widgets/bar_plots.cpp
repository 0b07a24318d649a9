// SPDX-License-Identifier: Apache-2.0
#include "ui/widgets/bar_plots.h"

#include "ui/session/units_text.h"
#include "ui/widgets/parts.h"

#include <QToolTip>

#include <numeric>

namespace megagraph::ui {
namespace {

constexpr double kMib = 1024.0 * 1024.0;
constexpr double kGib = kMib * 1024.0;
constexpr double kBarWidth = 0.62;
constexpr double kBudgetInView = 2.5; // the budget is on the scale when it is at most this times the longest bar

int64_t total(const MemoryBytes& parts)
{
    return std::accumulate(parts.begin(), parts.end(), int64_t(0));
}

void quietAxes(QCustomPlot& plot)
{
    plot.yAxis->setRangeReversed(true); // first bar on top
    plot.yAxis->setTickLength(0, 0);
    plot.yAxis->grid()->setVisible(false);
    plot.xAxis->setSubTicks(false);
    plot.yAxis->setSubTicks(false);
}

QFont smallFont()
{
    QFont font;
    font.setPointSizeF(font.pointSizeF() * 0.9);
    return font;
}

QCPItemText* valueText(QCustomPlot& plot, double x, double key, const QString& text, const QColor& color)
{
    auto* item = new QCPItemText(&plot);
    item->position->setType(QCPItemPosition::ptPlotCoords);
    item->position->setCoords(x, key);
    item->setPositionAlignment(Qt::AlignLeft | Qt::AlignVCenter);
    item->setPadding(QMargins(5, 0, 0, 0));
    item->setText(text);
    item->setFont(smallFont());
    item->setColor(color);
    item->setClipToAxisRect(false);
    return item;
}

} // namespace

MemoryBars::MemoryBars(QWidget* parent) : Plot(tr("Memory per device"), parent)
{
    quietAxes(*this);
    yAxis->setTicker(names_);
    QCPBars* below = nullptr;
    for (int c = 0; c < kMemoryCategories; ++c) {
        // base first, as the design orders them: it is under everything else
        const auto category = c == 0 ? MemoryCategory::Base : MemoryCategory(c <= int(MemoryCategory::Base) ? c - 1 : c);
        auto* bars = new QCPBars(yAxis, xAxis);
        bars->setName(QString::number(int(category)));
        bars->setWidth(kBarWidth);
        bars->setStackingGap(0);
        if (below)
            bars->moveAbove(below);
        below = bars;
        stacks_.push_back(bars);
    }
    budget_ = new QCPItemStraightLine(this);
    budgetText_ = new QCPItemText(this);
    setMouseTracking(true);
    restyle();
}

void MemoryBars::setBars(const std::vector<MemoryBar>& bars, int64_t budgetBytes)
{
    bars_ = bars;
    budgetBytes_ = budgetBytes;
    int64_t longest = int64_t(kMib); // an empty figure keeps readable ticks
    for (const MemoryBar& bar : bars_)
        longest = std::max(longest, total(bar.parts));
    unit_ = double(longest) >= kGib ? kGib : kMib;
    xAxis->setLabel(unit_ == kGib ? tr("Peak, counted (GiB)") : tr("Peak, counted (MiB)"));
    QMap<double, QString> ticks;
    for (size_t i = 0; i < bars_.size(); ++i)
        ticks.insert(double(i), bars_[i].label);
    names_->setTicks(ticks);
    for (QCPBars* stack : stacks_) {
        QVector<double> keys, values;
        for (size_t i = 0; i < bars_.size(); ++i) {
            keys << double(i);
            values << double(bars_[i].parts[size_t(stack->name().toInt())]) / unit_;
        }
        stack->setData(keys, values, true);
    }
    const bool budgetShown = budgetBytes_ > 0 && double(budgetBytes_) <= kBudgetInView * double(longest);
    const double right = double(budgetShown ? std::max(longest, budgetBytes_) : longest) / unit_;
    longest_ = right;
    yAxis->setRange(budgetBytes_ > 0 ? -0.5 - 0.16 * double(bars_.size() + 1) : -0.75, std::max(0.75, double(bars_.size()) - 0.25));
    budget_->setVisible(budgetShown);
    budget_->point1->setCoords(double(budgetBytes_) / unit_, 0);
    budget_->point2->setCoords(double(budgetBytes_) / unit_, 1);
    budgetText_->setVisible(budgetBytes_ > 0);
    const QString text = tr("budget %1").arg(memoryText(double(budgetBytes_)));
    budgetText_->setText(budgetShown ? text : text + QStringLiteral(" \u2192"));
    const bool rightOfLine = budgetShown && double(budgetBytes_) < 0.5 * double(longest); // words stay inside the axes
    budgetText_->setPositionAlignment((rightOfLine ? Qt::AlignLeft : Qt::AlignRight) | Qt::AlignTop);
    if (budgetShown) {
        budgetText_->position->setType(QCPItemPosition::ptPlotCoords);
        budgetText_->position->setCoords(double(budgetBytes_) / unit_, yAxis->range().lower);
    } else {
        budgetText_->position->setType(QCPItemPosition::ptAxisRectRatio);
        budgetText_->position->setCoords(1.0, 0.0);
    }
    setAccessibleDescription(summary());
    fitLabels();
    restyle();
}

void MemoryBars::fitLabels()
{
    // the amount behind the longest bar needs its room at every width
    const double label = QFontMetrics(smallFont()).horizontalAdvance(QStringLiteral("0000 MiB")) + 12;
    const double room = axisRect()->width() > 60 ? axisRect()->width() : width() * 0.6;
    xAxis->setRange(0, longest_ / (1 - std::clamp(label / std::max(room, 1.0), 0.05, 0.5)));
}

void MemoryBars::resizeEvent(QResizeEvent* event)
{
    Plot::resizeEvent(event);
    fitLabels();
}

void MemoryBars::restyle()
{
    const Theme& theme = Theme::of(palette());
    applyTheme(*this);
    yAxis->setTickLabelColor(theme.color(Role::Text));
    yAxis->setBasePen(QPen(theme.hairline()));
    for (QCPBars* stack : stacks_) {
        const auto category = MemoryCategory(stack->name().toInt());
        const QColor color = theme.memory(category);
        stack->setPen(QPen(theme.color(Role::Page), 1));
        stack->setBrush(Theme::isHatched(category) ? hatchBrush(color, devicePixelRatioF()) : QBrush(color));
    }
    budget_->setPen(QPen(theme.color(Role::Error), 1.3, Qt::DashLine));
    budgetText_->setColor(theme.color(Role::Error));
    budgetText_->setFont(smallFont());
    budgetText_->setPadding(QMargins(4, 0, 4, 0));
    for (QCPItemText* item : std::as_const(totals_))
        removeItem(item);
    totals_.clear();
    for (size_t i = 0; i < bars_.size(); ++i) {
        const auto bytes = double(total(bars_[i].parts));
        if (bytes > 0)
            totals_ << valueText(*this, bytes / unit_, double(i), memoryText(bytes), theme.color(Role::Text));
    }
    replot(QCustomPlot::rpQueuedReplot);
}

void MemoryBars::mouseMoveEvent(QMouseEvent* event)
{
    Plot::mouseMoveEvent(event);
    const double key = yAxis->pixelToCoord(event->position().y()), at = xAxis->pixelToCoord(event->position().x()) * unit_;
    const auto index = qsizetype(std::lround(key));
    if (index < 0 || index >= qsizetype(bars_.size()) || std::abs(key - double(index)) > kBarWidth / 2) {
        QToolTip::hideText();
        return;
    }
    double sum = 0;
    for (const QCPBars* stack : stacks_) {
        const int category = stack->name().toInt();
        const auto bytes = double(bars_[size_t(index)].parts[size_t(category)]);
        sum += bytes;
        if (at >= 0 && at <= sum && bytes > 0) {
            QToolTip::showText(event->globalPosition().toPoint(),
                               QStringLiteral("%1: %2").arg(memoryCategoryText(MemoryCategory(category)), memoryText(bytes)), this);
            return;
        }
    }
    QToolTip::hideText();
}

QString MemoryBars::summary() const
{
    QStringList parts;
    for (const MemoryBar& bar : bars_)
        parts << QStringLiteral("%1 %2").arg(bar.label, memoryText(double(total(bar.parts))));
    return parts.join(QStringLiteral(", "));
}

Waterfall::Waterfall(QWidget* parent) : Plot(tr("Step time by term"), parent)
{
    quietAxes(*this);
    yAxis->setTicker(names_);
    xAxis->setLabel(tr("Step time on the critical rank (ms)"));
    lift_ = new QCPBars(yAxis, xAxis); // carries each term to where the one above it ended
    lift_->setPen(Qt::NoPen);
    lift_->setBrush(Qt::NoBrush);
    lift_->setWidth(kBarWidth);
    for (int t = 0; t < kTimeTerms; ++t) {
        auto* bars = new QCPBars(yAxis, xAxis);
        bars->setWidth(kBarWidth);
        bars->moveAbove(bars_.empty() ? lift_ : bars_.back());
        bars_.push_back(bars);
    }
    total_ = new QCPBars(yAxis, xAxis);
    total_->setWidth(kBarWidth);
    restyle();
}

void Waterfall::setTerms(const TimeNs& terms, int64_t stepNs)
{
    terms_ = terms;
    stepNs_ = stepNs;
    QMap<double, QString> ticks;
    QVector<double> liftKeys, lifts;
    double sum = 0;
    for (int t = 0; t < kTimeTerms; ++t) {
        const double ms = double(terms_[size_t(t)]) / 1e6;
        ticks.insert(t, timeTermText(TimeTerm(t)));
        liftKeys << t;
        lifts << sum;
        bars_[size_t(t)]->setData(QVector<double>{double(t)}, QVector<double>{ms}, true);
        sum += ms;
    }
    ticks.insert(kTimeTerms, tr("Step"));
    names_->setTicks(ticks);
    lift_->setData(liftKeys, lifts, true);
    total_->setData(QVector<double>{double(kTimeTerms)}, QVector<double>{double(stepNs_) / 1e6}, true);
    xAxis->setRange(0, std::max(sum, double(stepNs_) / 1e6) * 1.5);
    yAxis->setRange(-0.6, kTimeTerms + 0.6);
    setAccessibleDescription(summary());
    restyle();
}

void Waterfall::restyle()
{
    const Theme& theme = Theme::of(palette());
    applyTheme(*this);
    yAxis->setTickLabelColor(theme.color(Role::Text));
    yAxis->setBasePen(QPen(theme.hairline()));
    for (int t = 0; t < kTimeTerms; ++t) {
        bars_[size_t(t)]->setPen(QPen(theme.color(Role::Page), 1));
        bars_[size_t(t)]->setBrush(theme.term(TimeTerm(t)));
    }
    total_->setPen(QPen(theme.color(Role::Page), 1));
    total_->setBrush(theme.color(Role::Line));
    for (QCPItemText* item : std::as_const(values_))
        removeItem(item);
    values_.clear();
    double end = 0;
    for (int t = 0; stepNs_ > 0 && t < kTimeTerms; ++t) {
        const auto ns = double(terms_[size_t(t)]);
        end += ns / 1e6;
        const double share = ns / double(stepNs_);
        const QString text = ns == 0        ? QStringLiteral("0")
                             : share < 0.01 ? tr("%1, < 1 %").arg(timeText(ns))
                                            : tr("%1, %2").arg(timeText(ns), shareText(share));
        values_ << valueText(*this, end, t, text, theme.color(ns == 0 ? Role::Muted : Role::Text));
    }
    if (stepNs_ > 0)
        values_ << valueText(*this, double(stepNs_) / 1e6, kTimeTerms, timeText(double(stepNs_)), theme.color(Role::Text));
    replot(QCustomPlot::rpQueuedReplot);
}

QString Waterfall::summary() const
{
    QStringList parts;
    for (int t = 0; t < kTimeTerms; ++t)
        if (terms_[size_t(t)] > 0)
            parts << QStringLiteral("%1 %2").arg(timeTermText(TimeTerm(t)), timeText(double(terms_[size_t(t)])));
    return tr("Step %1: %2").arg(timeText(double(stepNs_)), parts.join(QStringLiteral(", ")));
}

MemoryKey::MemoryKey(QWidget* parent) : QWidget(parent)
{
    setFont(smallFont());
    setSizePolicy(QSizePolicy::Preferred, QSizePolicy::Fixed);
}

std::vector<int> MemoryKey::shown() const
{
    std::vector<int> found;
    for (int c = 0; c < kMemoryCategories; ++c)
        for (const MemoryBytes& column : columns_)
            if (column[size_t(c)] > 0) {
                found.push_back(c);
                break;
            }
    return found;
}

void MemoryKey::setAmounts(const QStringList& headers, const std::vector<MemoryBytes>& columns)
{
    headers_ = headers;
    columns_ = columns;
    QStringList words;
    for (int c : shown())
        words << memoryCategoryText(MemoryCategory(c)) + QLatin1Char(' ') + memoryText(double(columns_.front()[size_t(c)]));
    setAccessibleName(tr("Memory by category"));
    setAccessibleDescription(words.join(QStringLiteral(", ")));
    updateGeometry();
    update();
}

QSize MemoryKey::sizeHint() const
{
    const QFontMetrics metrics(font());
    int name = 0;
    for (int c : shown())
        name = std::max(name, metrics.horizontalAdvance(memoryCategoryText(MemoryCategory(c))));
    const int amount = metrics.horizontalAdvance(QStringLiteral("0000 MiB")) + 14;
    const int rows = int(shown().size()) + (headers_.isEmpty() ? 1 : 2);
    return {18 + name + amount * int(std::max<size_t>(1, columns_.size())) + 6, rows * (metrics.height() + 3) + 4};
}

void MemoryKey::paintEvent(QPaintEvent*)
{
    const Theme& theme = Theme::of(palette());
    QPainter painter(this);
    const QFontMetrics metrics(font());
    const int line = metrics.height() + 3;
    const int amount = metrics.horizontalAdvance(QStringLiteral("0000 MiB")) + 14;
    const auto columnRect = [&](size_t column, int y) {
        return QRect(width() - amount * int(columns_.size() - column), y, amount - 2, line);
    };
    int y = 0;
    if (!headers_.isEmpty()) {
        painter.setPen(theme.color(Role::Muted));
        for (size_t i = 0; i < columns_.size() && i < size_t(headers_.size()); ++i)
            painter.drawText(columnRect(i, y), Qt::AlignRight | Qt::AlignVCenter, headers_[qsizetype(i)]);
        y += line;
    }
    const auto amounts = [&](const std::function<int64_t(const MemoryBytes&)>& of) {
        painter.setPen(theme.color(Role::Text));
        for (size_t i = 0; i < columns_.size(); ++i)
            painter.drawText(columnRect(i, y), Qt::AlignRight | Qt::AlignVCenter, memoryText(double(of(columns_[i]))));
        y += line;
    };
    for (int c : shown()) {
        const auto category = MemoryCategory(c);
        const QRect swatch(1, y + (line - 10) / 2, 10, 10);
        painter.fillRect(swatch, Theme::isHatched(category) ? hatchBrush(theme.memory(category), devicePixelRatioF())
                                                            : QBrush(theme.memory(category)));
        painter.setPen(theme.color(Role::Text));
        painter.drawText(QRect(18, y, width(), line), Qt::AlignLeft | Qt::AlignVCenter, memoryCategoryText(category));
        amounts([c](const MemoryBytes& column) { return column[size_t(c)]; });
    }
    painter.setPen(theme.hairline());
    painter.drawLine(0, y, width(), y);
    painter.setPen(theme.color(Role::Text));
    painter.drawText(QRect(18, y, width(), line), Qt::AlignLeft | Qt::AlignVCenter, tr("Total"));
    amounts([](const MemoryBytes& column) { return total(column); });
}

} // namespace megagraph::ui
