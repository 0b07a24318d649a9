// SPDX-License-Identifier: Apache-2.0
// Around each figure: shows its content, or one sentence (what, why, how) with one action while it is empty, loading or
// in error. GUI thread.
#pragma once

#include "ui/widgets/parts.h"

#include <QProgressBar>
#include <QStackedLayout>

namespace megagraph::ui {

class StateFrame : public QWidget {
    Q_OBJECT
  public:
    enum class State { Empty, Loading, Ready, Error };
    explicit StateFrame(QWidget* content, QWidget* parent = nullptr);

    void showContent();
    void showMessage(State state, const QString& text, const QString& actionText = {}, std::function<void()> action = {});
    /// Loading with amounts; total 0 = unknown.
    void showProgress(const QString& text, int64_t done, int64_t total, std::function<void()> cancel);
    State state() const { return state_; }

  private:
    QStackedLayout* stack_;
    QWidget* message_;
    QLabel* mark_;
    Text* text_;
    QProgressBar* bar_;
    QPushButton* button_;
    std::function<void()> action_;
    State state_ = State::Ready;
};

} // namespace megagraph::ui
