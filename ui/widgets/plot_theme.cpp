// SPDX-License-Identifier: Apache-2.0
#include "ui/widgets/plot_theme.h"

#include "ui/session/units_text.h"

#include <cmath>

namespace megagraph::ui {

void applyTheme(QCustomPlot& plot)
{
    const Theme& theme = Theme::of(plot.palette());
    const QPen axis(theme.color(Role::Line), 1), grid(theme.hairline(), 1);
    plot.setBackground(QBrush(theme.color(Role::Page)));
    QFont small = plot.font();
    small.setPointSizeF(QFont().pointSizeF() * 0.9);
    for (QCPAxisRect* rect : plot.axisRects()) {
        for (QCPAxis* a : rect->axes()) {
            a->setBasePen(axis);
            a->setTickPen(axis);
            a->setSubTickPen(axis);
            a->setSelectedBasePen(axis);
            a->setSelectedTickPen(axis);
            a->setTickLabelColor(theme.color(Role::Muted));
            a->setSelectedTickLabelColor(theme.color(Role::Muted));
            a->setLabelColor(theme.color(Role::Text));
            a->setSelectedLabelColor(theme.color(Role::Text));
            a->setTickLabelFont(small);
            a->setLabelFont(small);
            a->setTickLength(0, 4);
            a->setLabelPadding(4);
            a->grid()->setPen(QPen(blend(theme.hairline(), theme.color(Role::Page), 0.55), 1));
            a->grid()->setSubGridVisible(false);
            a->grid()->setZeroLinePen(grid);
        }
    }
    if (plot.legend) {
        plot.legend->setBrush(Qt::NoBrush);
        plot.legend->setBorderPen(Qt::NoPen);
        plot.legend->setTextColor(theme.color(Role::Text));
        plot.legend->setFont(small);
    }
}

QString ReadableTicker::getTickLabel(double tick, const QLocale& locale, QChar, int)
{
    if (std::abs(tick) < 1e-12)
        return locale.toString(0);
    const double size = std::abs(tick);
    const int decimals = size >= 100 ? 0 : std::clamp(int(std::ceil(-std::log10(size))) + 2, 0, 9);
    QString text = locale.toString(tick, 'f', decimals);
    if (decimals > 0) { // 0.200 reads 0.2
        while (text.endsWith(QLatin1Char('0')))
            text.chop(1);
        if (!text.back().isDigit())
            text.chop(1);
    }
    return text;
}

QVector<double> ReadableTicker::createTickVector(double tickStep, const QCPRange& range)
{
    if (!logarithmic_ || range.lower <= 0)
        return QCPAxisTicker::createTickVector(tickStep, range);
    QVector<double> ticks;
    const int from = int(std::floor(std::log10(range.lower))), to = int(std::ceil(std::log10(range.upper)));
    for (int decade = from; decade <= to; ++decade)
        for (double step : {1.0, 2.0, 5.0})
            ticks << step * std::pow(10.0, decade);
    const auto inside = [&range](const QVector<double>& all) {
        return std::count_if(all.begin(), all.end(), [&](double t) { return range.contains(t); });
    };
    if (inside(ticks) < 3) // less than a decade: evenly spaced values read better
        return QCPAxisTicker::createTickVector(tickStep, range);
    return ticks;
}

QBrush hatchBrush(const QColor& color, double pixelRatio)
{
    constexpr int kPeriod = 6;
    QPixmap tile(QSize(kPeriod, kPeriod) * pixelRatio);
    tile.setDevicePixelRatio(pixelRatio);
    tile.fill(Qt::transparent);
    QPainter painter(&tile);
    painter.setRenderHint(QPainter::Antialiasing);
    painter.setPen(QPen(color, 1.2));
    for (int shift : {-kPeriod, 0, kPeriod})
        painter.drawLine(QPointF(shift, kPeriod), QPointF(shift + kPeriod, 0));
    painter.end();
    return QBrush(tile);
}

Plot::Plot(const QString& name, QWidget* parent) : QCustomPlot(parent)
{
    setAccessibleName(name);
    setFocusPolicy(Qt::StrongFocus);
    setLocale(QLocale());
    setNoAntialiasingOnDrag(true);
    setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Expanding);
    xAxis->setTicker(QSharedPointer<QCPAxisTicker>(new ReadableTicker));
    yAxis->setTicker(QSharedPointer<QCPAxisTicker>(new ReadableTicker));
    setBufferDevicePixelRatio(devicePixelRatioF());
    applyTheme(*this);
}

void Plot::changeEvent(QEvent* event)
{
    QCustomPlot::changeEvent(event);
    if (event->type() == QEvent::PaletteChange) {
        applyTheme(*this);
        restyle();
    }
}

} // namespace megagraph::ui
