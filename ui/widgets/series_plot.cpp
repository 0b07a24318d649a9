// SPDX-License-Identifier: Apache-2.0
#include "ui/widgets/series_plot.h"

#include "ui/session/units_text.h"

#include <cmath>
#include <limits>

namespace megagraph::ui {

SeriesPlot::SeriesPlot(const QString& name, const QString& yLabel, const QStringList& curves, QWidget* parent)
    : Plot(name, parent), names_(curves), prediction_(std::nan("")), low_(prediction_), high_(prediction_)
{
    xAxis->setLabel(tr("Step"));
    yAxis->setLabel(yLabel);
    band_ = new QCPItemRect(this);
    band_->setLayer(QStringLiteral("background"));
    predicted_ = new QCPItemStraightLine(this);
    empty_ = new QCPItemText(this);
    empty_->position->setType(QCPItemPosition::ptAxisRectRatio);
    empty_->position->setCoords(0.5, 0.5);
    empty_->setText(tr("No values yet"));
    for (const QString& curve : curves) {
        QCPGraph* graph = addGraph();
        graph->setName(curve);
        graph->setAdaptiveSampling(true);
        curves_.push_back(graph);
    }
    if (curves.size() > 1)
        axisRect()->insetLayout()->setInsetAlignment(0, Qt::AlignRight | Qt::AlignBottom);
    restyle();
}

void SeriesPlot::setData(const std::vector<const Series*>& series)
{
    for (size_t i = 0; i < curves_.size() && i < series.size(); ++i)
        curves_[i]->setData(QVector<double>(series[i]->step.begin(), series[i]->step.end()),
                            QVector<double>(series[i]->value.begin(), series[i]->value.end()), true);
    for (QCPGraph* curve : curves_) // one value alone makes no line
        curve->setScatterStyle(curve->dataCount() == 1 ? QCPScatterStyle(QCPScatterStyle::ssDisc, 6) : QCPScatterStyle(QCPScatterStyle::ssNone));
    const auto filled = std::count_if(series.begin(), series.end(), [](const Series* s) { return !s->step.empty(); });
    legend->setVisible(filled > 1);
    fit();
    setAccessibleDescription(summary());
    if (isVisible())
        replot(QCustomPlot::rpQueuedReplot);
}

void SeriesPlot::setPrediction(double value, double low, double high)
{
    prediction_ = value;
    low_ = low;
    high_ = high;
    fit();
}

void SeriesPlot::fit()
{
    double x1 = 1, y0 = std::numeric_limits<double>::infinity(), y1 = -y0;
    for (const QCPGraph* graph : curves_) {
        for (const QCPGraphData& point : *graph->data()) {
            x1 = std::max(x1, point.key);
            if (std::isnan(point.value))
                continue;
            y0 = std::min(y0, point.value);
            y1 = std::max(y1, point.value);
        }
    }
    const bool predicted = std::isfinite(prediction_);
    if (predicted) {
        y0 = std::min({y0, prediction_, std::isfinite(low_) ? low_ : prediction_});
        y1 = std::max({y1, prediction_, std::isfinite(high_) ? high_ : prediction_});
    }
    const bool nothing = std::all_of(curves_.begin(), curves_.end(), [](const QCPGraph* g) { return g->dataCount() == 0; });
    empty_->setVisible(nothing);
    for (QCPAxis* axis : {xAxis, yAxis})
        axis->setTickLabels(!nothing || (axis == yAxis && predicted));
    if (!(y1 >= y0)) {
        y0 = 0;
        y1 = 1;
    }
    if (fromZero_)
        y0 = 0;
    const double span = y1 > y0 ? y1 - y0 : std::max(std::abs(y1), 1e-6);
    xAxis->setRange(0, x1 * 1.02);
    yAxis->setRange(fromZero_ ? 0 : y0 - 0.08 * span, y1 + 0.1 * span);
    predicted_->setVisible(predicted);
    predicted_->point1->setCoords(0, prediction_);
    predicted_->point2->setCoords(1, prediction_);
    const bool banded = predicted && std::isfinite(low_) && std::isfinite(high_) && high_ > low_;
    band_->setVisible(banded);
    if (banded) {
        band_->topLeft->setCoords(xAxis->range().lower, high_);
        band_->bottomRight->setCoords(xAxis->range().upper, low_);
    }
}

void SeriesPlot::restyle()
{
    const Theme& theme = Theme::of(palette());
    applyTheme(*this);
    for (size_t i = 0; i < curves_.size(); ++i) {
        const QColor color = i == 0 ? theme.color(Role::Accent) : theme.series(int(i) == 1 ? 1 : 3);
        curves_[i]->setPen(QPen(color, 1.6, i == 0 ? Qt::SolidLine : Qt::DashLine));
    }
    band_->setPen(Qt::NoPen);
    band_->setBrush(blend(theme.color(Role::Ok), theme.color(Role::Page), 0.18));
    empty_->setColor(theme.color(Role::Muted));
    predicted_->setPen(QPen(theme.color(Role::Ok), 1.3, Qt::DashLine));
    replot(QCustomPlot::rpQueuedReplot);
}

QString SeriesPlot::summary() const
{
    QStringList parts;
    for (size_t i = 0; i < curves_.size(); ++i) {
        const auto data = curves_[i]->data();
        if (!data->isEmpty())
            parts << tr("%1 %2 at step %3").arg(names_[qsizetype(i)], significantText((data->constEnd() - 1)->value)).arg((data->constEnd() - 1)->key);
    }
    return parts.isEmpty() ? tr("No values yet.") : parts.join(QStringLiteral(", "));
}

} // namespace megagraph::ui
