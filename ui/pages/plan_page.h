// SPDX-License-Identifier: Apache-2.0
// The plan in focus: will it fit, why this fast, what binds; train it, prove it, save it.
#pragma once

#include "ui/pages/page.h"

#include <QGridLayout>

namespace megagraph::ui {

class MemoryBars;
class MemoryKey;
class StateFrame;
class Waterfall;

class PlanPage : public Page {
    Q_OBJECT
  public:
    explicit PlanPage(Session& session, QWidget* parent = nullptr);

    bool settled() const override;
    QStringList commandLine() const override;
    void focusFirst() override;

  private:
    QWidget* makeHeadline();
    QWidget* makeFacts();
    QWidget* makeWhy();
    void showPlan();
    void showHeadline(const planner::PlanRow& row);
    void showFacts(const planner::PlanRow& row);
    void showMemory(const planner::PlanRow& row);
    void showWhy(const planner::PlanRow& row);
    void showCertificate(const planner::PlanRow& row);
    void save();
    void train();

    StateFrame* frame_;
    Text *name_, *step_, *peak_, *fit_, *origin_, *provenance_;
    QLabel *fitMark_;
    Card* reason_;
    Text* reasonText_;
    QGridLayout* facts_;
    MemoryBars* bars_;
    MemoryKey* key_;
    Waterfall* waterfall_;
    QVBoxLayout* why_;
    Text* certificate_;
    QLabel* certificateMark_;
    QPushButton *train_, *verify_, *save_, *copy_;
    uint64_t shown_ = 0;
};

} // namespace megagraph::ui
