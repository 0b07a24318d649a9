// SPDX-License-Identifier: Apache-2.0
// Small building blocks: plain-text labels, cards, icons, buttons. GUI thread. Every label is plain text, because Qt would
// otherwise draw markup from a data set's name.
#pragma once

#include "ui/session/theme.h"

#include <QFrame>
#include <QIcon>
#include <QLabel>
#include <QPushButton>
#include <QVBoxLayout>

#include <functional>

namespace megagraph::ui {

enum class TextStyle { Normal, Muted, Strong, Title, Big, Mono };

/// A plain-text label whose colour follows a role through changes of theme; elides nothing, wraps on request.
class Text : public QLabel {
    Q_OBJECT
  public:
    explicit Text(const QString& text = {}, TextStyle style = TextStyle::Normal, QWidget* parent = nullptr);
    void setRole(Role role);
    Text* wrapped();
    /// Takes one line and shows "..." with the whole text as tooltip when there is less room.
    Text* elided();
    void setText(const QString& text);
    QSize minimumSizeHint() const override;

  protected:
    void changeEvent(QEvent* event) override;
    void paintEvent(QPaintEvent* event) override;

  private:
    void recolor();
    Role role_;
    bool elide_ = false;
};

/// A panel with a hairline border, a heading and a body.
class Card : public QFrame {
    Q_OBJECT
  public:
    explicit Card(const QString& heading = {}, QWidget* parent = nullptr);
    QVBoxLayout* body() const { return body_; }
    /// Right end of the heading row.
    void addCorner(QWidget* widget);
    Text* heading() const { return heading_; }

  protected:
    void paintEvent(QPaintEvent* event) override;

  private:
    Text* heading_ = nullptr;
    QHBoxLayout* top_ = nullptr;
    QVBoxLayout* body_;
};

QPushButton* button(const QString& text, const QString& tip, std::function<void()> clicked, bool primary = false);
/// "ok", "warning", "error", "info" ... in the colour of the role.
QPixmap iconPixmap(const QString& name, const QColor& color, int size, double pixelRatio);
QIcon icon(const QString& name, const QPalette& palette);
/// Text that a tooltip shows as it is.
QString plainTip(const QString& text);
QFont monoFont();

} // namespace megagraph::ui
