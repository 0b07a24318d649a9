// SPDX-License-Identifier: Apache-2.0
// Fusion, drawn flat with our palette: buttons, header sections, and a 2 px focus ring that follows the keyboard focus.
// GUI thread.
#pragma once

#include <QFocusFrame>
#include <QProxyStyle>

namespace megagraph::ui {

class StudioStyle : public QProxyStyle {
    Q_OBJECT
  public:
    StudioStyle();
    void drawPrimitive(PrimitiveElement element, const QStyleOption* option, QPainter* painter,
                       const QWidget* widget) const override;
    void drawControl(ControlElement element, const QStyleOption* option, QPainter* painter,
                     const QWidget* widget) const override;
    void drawComplexControl(ComplexControl control, const QStyleOptionComplex* option, QPainter* painter, const QWidget* widget) const override;
    int pixelMetric(PixelMetric metric, const QStyleOption* option, const QWidget* widget) const override;
    QSize sizeFromContents(ContentsType type, const QStyleOption* option, const QSize& size, const QWidget* widget) const override;
    int styleHint(StyleHint hint, const QStyleOption* option, const QWidget* widget, QStyleHintReturn* data) const override;
};

/// One ring for the whole application, around whatever has the focus.
class FocusRing : public QObject {
    Q_OBJECT
  public:
    explicit FocusRing(QObject* parent);

  private:
    void follow(QWidget* now);
    QPointer<QFocusFrame> frame_;
};

} // namespace megagraph::ui
