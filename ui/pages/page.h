// SPDX-License-Identifier: Apache-2.0
// The frame of every page: a title row with one sentence of state and the page's commands, and the content. Pages never
// include each other; they meet in Session. GUI thread.
#pragma once

#include "ui/session/session.h"
#include "ui/widgets/parts.h"

#include <QBoxLayout>

namespace megagraph::ui {

class Page : public QWidget {
    Q_OBJECT
  public:
    Page(Session& session, const QString& title, QWidget* parent = nullptr);

    /// All figures are in a final state (drawn, empty or in error): a picture may be taken.
    virtual bool settled() const { return true; }
    /// The command line twin of what the page shows; empty = none.
    virtual QStringList commandLine() const { return {}; }
    virtual void focusFirst() = 0;
    /// `/`: the filter, where there is one.
    virtual void focusFilter() {}
    /// F5.
    virtual void refresh() {}
    /// Esc; true when something was peeled off.
    virtual bool peel() { return false; }
    const QString& title() const { return title_; }

  signals:
    void planOpened();
    void spaceOpened();
    void runOpened();
    void startOpened();

  protected:
    void setState(const QString& sentence) { state_->setText(sentence); }
    void addCommand(QWidget* widget) { commands_->addWidget(widget); }
    QVBoxLayout* content() const { return content_; }

    Session& session_;

  private:
    QString title_;
    Text* state_;
    QHBoxLayout* commands_;
    QVBoxLayout* content_;
};

} // namespace megagraph::ui
