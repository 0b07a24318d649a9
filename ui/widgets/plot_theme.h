// SPDX-License-Identifier: Apache-2.0
// Makes a QCustomPlot look like the rest: colours, fonts, ticks with three significant digits. GUI thread.
#pragma once

#include "ui/session/theme.h"

#include <qcustomplot.h>

namespace megagraph::ui {

/// Background, axes, ticks, labels, grid, legend. Called at construction and on every palette change.
void applyTheme(QCustomPlot& plot);

/// Ticks at 1, 2, 5 times powers of ten on logarithmic axes, and labels in the locale with at most three digits.
class ReadableTicker : public QCPAxisTicker {
  public:
    explicit ReadableTicker(bool logarithmic = false) : logarithmic_(logarithmic) {}
    void setLogarithmic(bool on) { logarithmic_ = on; }

  protected:
    QString getTickLabel(double tick, const QLocale& locale, QChar formatChar, int precision) override;
    QVector<double> createTickVector(double tickStep, const QCPRange& range) override;
    int getSubTickCount(double) override { return 0; }

  private:
    bool logarithmic_;
};

/// A brush of diagonal lines that keeps its period on the screen at any pixel ratio.
QBrush hatchBrush(const QColor& color, double pixelRatio);

/// Base of our plots: theme follows the palette, keyboard focus, sizes in text heights.
class Plot : public QCustomPlot {
    Q_OBJECT
  public:
    explicit Plot(const QString& name, QWidget* parent = nullptr);

  protected:
    void changeEvent(QEvent* event) override;
    virtual void restyle() = 0; ///< sets pens and brushes from the theme and queues a replot
};

} // namespace megagraph::ui
