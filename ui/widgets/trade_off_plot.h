// SPDX-License-Identifier: Apache-2.0
// Step time against the worst device's peak memory: one mark per shown plan, the Pareto front as a stepped line, crosses
// for plans that do not fit, the budget line, names of the baselines, focus and pins. GUI thread; for thousands of plans
// (one mark each), not for millions.
#pragma once

#include "ui/session/session.h"
#include "ui/widgets/plot_theme.h"

namespace megagraph::ui {

class TradeOffPlot : public Plot {
    Q_OBJECT
  public:
    explicit TradeOffPlot(Session& session, QWidget* parent = nullptr);

    /// One sentence for tools that read the screen, and for tests.
    QString summary() const;
    /// Plan under a position, 0 = none within 12 px.
    uint64_t planAt(const QPointF& position) const;
    QPointF positionOf(uint64_t id) const;
    void fit();

  signals:
    void opened(quint64 id);

  protected:
    void restyle() override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void mouseReleaseEvent(QMouseEvent* event) override;
    void mouseDoubleClickEvent(QMouseEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;
    void leaveEvent(QEvent* event) override;

  private:
    struct Mark { uint64_t id = 0; double x = 0, y = 0; int row = 0; };
    void rebuild();
    void placeMarks();
    void placeNotes();
    void placeSelection();
    void setHover(uint64_t id);
    QString tipOf(const planner::PlanRow& row) const;
    void step(int direction);
    QPointF pixelOf(const Mark& mark) const;
    void addNote(const QPointF& at, const QString& text, QColor color, bool bold, QList<QRectF>& taken);

    Session& session_;
    std::vector<Mark> marks_; // shown plans with numbers, by step time
    QSharedPointer<ReadableTicker> xTicker_{new ReadableTicker}, yTicker_{new ReadableTicker};
    QCPGraph *front_, *feasible_, *infeasible_, *unsupported_;
    QCPItemStraightLine* budget_;
    QCPItemText* budgetText_;
    QCPItemEllipse *focusRing_, *hoverRing_;
    QList<QCPItemText*> notes_;
    double budgetGib_ = 0;
    uint64_t hover_ = 0;
    QPointF pressed_;
};

} // namespace megagraph::ui
