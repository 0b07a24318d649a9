// SPDX-License-Identifier: Apache-2.0
// One or more live curves over steps, with an optional predicted value and its band. GUI thread.
#pragma once

#include "ui/session/run_record.h"
#include "ui/widgets/plot_theme.h"

#include <QStringList>

namespace megagraph::ui {

class SeriesPlot : public Plot {
    Q_OBJECT
  public:
    /// `curves`: name of each curve, in the order of setData.
    SeriesPlot(const QString& name, const QString& yLabel, const QStringList& curves, QWidget* parent = nullptr);
    void setData(const std::vector<const Series*>& series);
    /// Predicted value with its 90 % interval; NaN = none.
    void setPrediction(double value, double low, double high);
    /// The value axis starts at 0 (times), or hugs the data (loss).
    void setFromZero(bool on) { fromZero_ = on; }
    QString summary() const;

  protected:
    void restyle() override;

  private:
    void fit();
    QStringList names_;
    std::vector<QCPGraph*> curves_;
    QCPItemRect* band_;
    QCPItemStraightLine* predicted_;
    QCPItemText* empty_;
    double prediction_, low_, high_;
    bool fromZero_ = false;
};

} // namespace megagraph::ui
