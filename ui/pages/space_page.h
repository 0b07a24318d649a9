// SPDX-License-Identifier: Apache-2.0
// From all plans to a handful: filter line, trade-off figure, table of plans, named picks; one selection for all of them.
#pragma once

#include "ui/pages/page.h"

#include <QLineEdit>

class QTableView;

namespace megagraph::ui {

class PlanTableModel;
class StateFrame;
class TradeOffPlot;

class SpacePage : public Page {
    Q_OBJECT
  public:
    explicit SpacePage(Session& session, QWidget* parent = nullptr);

    bool settled() const override;
    QStringList commandLine() const override { return session_.planCommand(); }
    void focusFirst() override;
    void focusFilter() override;
    void refresh() override { session_.replan(); }
    bool peel() override;

  private:
    QWidget* makeFilterRow();
    QWidget* makePicks();
    QWidget* makeTable();
    void showState();
    void showSelection();
    void showPicks();
    void followTable();

    PlanTableModel* model_;
    TradeOffPlot* plot_;
    QTableView* table_;
    QLineEdit* filter_;
    Text *filterProblem_, *counts_, *certificate_;
    QLabel* problemMark_;
    QHBoxLayout* picks_;
    StateFrame* frame_;
    QPushButton *open_, *pin_;
    bool following_ = false;
};

} // namespace megagraph::ui
