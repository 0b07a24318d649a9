// SPDX-License-Identifier: Apache-2.0
// Start, watch, stop, come back: one run, read from its directory alone, so a run of a shell or of another window looks
// the same.
#pragma once

#include "ui/pages/page.h"

#include <QPlainTextEdit>

class QComboBox;
class QProgressBar;
class QTabWidget;
class QTableWidget;

namespace megagraph::ui {

class MemoryBars;
class MemoryKey;
class SeriesPlot;
class StateFrame;

class RunPage : public Page {
    Q_OBJECT
  public:
    explicit RunPage(Session& session, QWidget* parent = nullptr);

    bool settled() const override;
    QStringList commandLine() const override;
    void focusFirst() override;
    void refresh() override { session_.refreshLibrary(); }

  protected:
    void showEvent(QShowEvent* event) override;
    void hideEvent(QHideEvent* event) override;

  private:
    QWidget* makeStrip();
    QWidget* makeCurves();
    QWidget* makeMemory();
    QWidget* makeDetails();
    void showAll();
    void showStrip(const RunRecord& record);
    void showFailure(const RunRecord& record);
    void showCurves(const RunRecord& record);
    void showMemory(const RunRecord& record);
    void showDetails(const RunRecord& record);
    void showButtons();
    void showRuns();
    void startFocus();

    StateFrame* frame_;
    QComboBox* chooser_;
    QPushButton *start_, *stop_, *resume_;
    QLabel* stateMark_;
    Text *stateText_, *stepText_, *leftText_, *timeText_, *timeNote_, *metricCaption_, *metricText_, *metricNote_, *commitText_;
    QProgressBar* bar_;
    Card* failure_;
    Text *failureText_, *failureAction_;
    QLabel* failureMark_;
    Card* metricCard_;
    SeriesPlot *loss_, *metric_, *time_;
    MemoryBars* bars_;
    MemoryKey* key_;
    QTabWidget* tabs_;
    QPlainTextEdit* log_;
    QTableWidget *preflight_, *events_;
    size_t shownLog_ = 0;
    int64_t shownDropped_ = 0;
    QString shownRun_;
    bool filling_ = false;
};

} // namespace megagraph::ui
