// SPDX-License-Identifier: Apache-2.0
// Two figures of a plan or run: stacked memory bars per device on one scale with the budget line, and the step time as a
// waterfall of its eight terms. Shown parts add up to the shown total. GUI thread.
#pragma once

#include "core/plan.h"
#include "ui/widgets/plot_theme.h"

#include <QStringList>

namespace megagraph::ui {

struct MemoryBar { QString label; MemoryBytes parts{}; };

class MemoryBars : public Plot {
    Q_OBJECT
  public:
    explicit MemoryBars(QWidget* parent = nullptr);
    /// Bars from top to bottom; budget 0 = none.
    void setBars(const std::vector<MemoryBar>& bars, int64_t budgetBytes);
    QString summary() const;

  protected:
    void restyle() override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void resizeEvent(QResizeEvent* event) override;

  private:
    void fitLabels();
    std::vector<MemoryBar> bars_;
    std::vector<QCPBars*> stacks_;
    QSharedPointer<QCPAxisTickerText> names_{new QCPAxisTickerText};
    QCPItemStraightLine* budget_;
    QCPItemText* budgetText_;
    int64_t budgetBytes_ = 0;
    double unit_ = 1, longest_ = 1;
    QList<QCPItemText*> totals_;
};

class Waterfall : public Plot {
    Q_OBJECT
  public:
    explicit Waterfall(QWidget* parent = nullptr);
    void setTerms(const TimeNs& terms, int64_t stepNs);
    QString summary() const;

  protected:
    void restyle() override;

  private:
    TimeNs terms_{};
    int64_t stepNs_ = 0;
    std::vector<QCPBars*> bars_;
    QCPBars *lift_, *total_;
    QSharedPointer<QCPAxisTickerText> names_{new QCPAxisTickerText};
    QList<QCPItemText*> values_;
};

/// Swatch, name and amount of each category above zero: the key and the table of MemoryBars.
class MemoryKey : public QWidget {
    Q_OBJECT
  public:
    explicit MemoryKey(QWidget* parent = nullptr);
    /// Second column: for the run page, what was measured.
    void setAmounts(const QStringList& headers, const std::vector<MemoryBytes>& columns);
    QSize sizeHint() const override;
    QSize minimumSizeHint() const override { return sizeHint(); }

  protected:
    void paintEvent(QPaintEvent* event) override;

  private:
    std::vector<int> shown() const;
    QStringList headers_;
    std::vector<MemoryBytes> columns_;
};

} // namespace megagraph::ui
