// SPDX-License-Identifier: Apache-2.0
// Parts of the window's frame: the rail of pages on the left, the line of notices and jobs at the foot. GUI thread.
#pragma once

#include "ui/session/session.h"
#include "ui/widgets/parts.h"

#include <QButtonGroup>
#include <QToolButton>

namespace megagraph::ui {

class Rail : public QWidget {
    Q_OBJECT
  public:
    explicit Rail(QWidget* parent = nullptr);
    void addPage(const QString& iconName, const QString& text, const QKeySequence& key);
    void setCurrent(int index);
    void setBadge(int index, const QString& badge);
    void focusCurrent();

  signals:
    void chosen(int index);

  protected:
    void changeEvent(QEvent* event) override;
    void paintEvent(QPaintEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;

  private:
    struct Entry { QToolButton* button; QString iconName, text; };
    QVBoxLayout* column_;
    QButtonGroup group_;
    QList<Entry> entries_;
};

/// Icon, one sentence, one action. Errors stay until dismissed, the rest 8 s.
class NoticeLine : public QWidget {
    Q_OBJECT
  public:
    explicit NoticeLine(Session& session, QWidget* parent = nullptr);

  protected:
    void changeEvent(QEvent* event) override;
    void paintEvent(QPaintEvent* event) override;

  private:
    void show(const Notice& notice);
    void clear();
    void restyle();
    void showJobs();

    Session& session_;
    Notice notice_;
    QList<Notice> history_;
    QLabel* mark_;
    Text* text_;
    QPushButton *action_, *dismiss_;
    Text* jobs_;
    QPushButton* cancelJobs_;
    QTimer hide_;
};

} // namespace megagraph::ui
