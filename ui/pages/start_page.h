// SPDX-License-Identifier: Apache-2.0
// From nothing to a useful view: first steps, the scenario (data, model, ranks, budget), recent runs, this machine.
#pragma once

#include "ui/pages/page.h"

#include <QGridLayout>

class QComboBox;
class QLineEdit;
class QListWidget;
class QSpinBox;

namespace megagraph::ui {

class StateFrame;

class StartPage : public Page {
    Q_OBJECT
  public:
    explicit StartPage(Session& session, QWidget* parent = nullptr);

    bool settled() const override;
    QStringList commandLine() const override { return session_.planCommand(); }
    void focusFirst() override;
    void refresh() override;
    /// Asks for a path and a name, then imports.
    void chooseImport();

  protected:
    void dragEnterEvent(QDragEnterEvent* event) override;
    void dropEvent(QDropEvent* event) override;

  private:
    QWidget* makeSteps();
    QWidget* makeScenario();
    QWidget* makeRuns();
    QWidget* makeMachine();
    void showProject();
    void showScenario();
    void showSteps();
    void showRuns();
    void showMachine();
    void takePath(const QString& path);
    void attachCurrent();

    struct Step { QLabel* mark; Text *name, *state; };
    QList<Step> steps_;
    QPushButton *sample_, *open_, *import_, *measure_, *explore_, *check_;
    QComboBox *data_, *model_;
    QSpinBox* ranks_;
    QLineEdit* budget_;
    Text *budgetProblem_, *dataFacts_, *projectProblem_;
    QListWidget* runs_;
    StateFrame *runsFrame_, *machineFrame_;
    QGridLayout* machine_;
    QPushButton* attach_;
    bool filling_ = false;
};

} // namespace megagraph::ui
