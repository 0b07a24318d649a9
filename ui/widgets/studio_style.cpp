// SPDX-License-Identifier: Apache-2.0
#include "ui/widgets/studio_style.h"

#include "ui/session/theme.h"

#include <QAbstractSpinBox>
#include <QApplication>
#include <QPainter>
#include <QPainterPath>
#include <QStyleFactory>
#include <QStyleOption>

namespace megagraph::ui {
namespace {

constexpr double kRadius = 5;
constexpr int kRing = 2;
constexpr int kButtonRoom = 14; // left and right of the words together

bool isPrimary(const QWidget* widget)
{
    return widget && widget->property("primary").toBool();
}

void drawButton(const QStyleOption* option, QPainter* painter, const QWidget* widget)
{
    const Theme& theme = Theme::of(option->palette);
    const bool enabled = option->state & QStyle::State_Enabled;
    QColor fill = enabled ? theme.color(Role::Page) : theme.color(Role::Panel);
    QColor edge = theme.hairline();
    if (isPrimary(widget) && enabled) {
        fill = theme.color(Role::Accent);
        edge = fill;
    }
    if (enabled && (option->state & (QStyle::State_Sunken | QStyle::State_On)))
        fill = blend(theme.color(Role::Accent), fill, isPrimary(widget) ? 0.7 : 0.22);
    else if (enabled && (option->state & QStyle::State_MouseOver))
        fill = blend(isPrimary(widget) ? theme.color(Role::Text) : theme.color(Role::Accent), fill, 0.1);
    painter->save();
    painter->setRenderHint(QPainter::Antialiasing);
    painter->setPen(QPen(edge, 1));
    painter->setBrush(fill);
    painter->drawRoundedRect(QRectF(option->rect).adjusted(0.5, 0.5, -0.5, -0.5), kRadius, kRadius);
    painter->restore();
}

/// Edge of an entry field in the line colour, which keeps 3:1 in both themes.
void drawField(const QStyleOption* option, QPainter* painter, bool filled)
{
    const Theme& theme = Theme::of(option->palette);
    const bool enabled = option->state & QStyle::State_Enabled;
    painter->save();
    painter->setRenderHint(QPainter::Antialiasing);
    painter->setPen(QPen(enabled ? theme.color(Role::Line) : theme.hairline(), 1));
    painter->setBrush(filled ? QBrush(enabled ? theme.color(Role::Page) : theme.color(Role::Panel)) : QBrush(Qt::NoBrush));
    painter->drawRoundedRect(QRectF(option->rect).adjusted(0.5, 0.5, -0.5, -0.5), kRadius, kRadius);
    painter->restore();
}

} // namespace

StudioStyle::StudioStyle() : QProxyStyle(QStyleFactory::create(QStringLiteral("Fusion"))) {}

void StudioStyle::drawPrimitive(PrimitiveElement element, const QStyleOption* option, QPainter* painter,
                                const QWidget* widget) const
{
    switch (element) {
    case PE_PanelButtonCommand: drawButton(option, painter, widget); return;
    case PE_FrameFocusRect: return; // the ring shows the focus
    case PE_PanelLineEdit:
        if (widget && qobject_cast<const QAbstractSpinBox*>(widget->parentWidget()))
            return; // the box around it has the edge
        drawField(option, painter, true);
        return;
    default: QProxyStyle::drawPrimitive(element, option, painter, widget);
    }
}

void StudioStyle::drawControl(ControlElement element, const QStyleOption* option, QPainter* painter,
                              const QWidget* widget) const
{
    const Theme& theme = Theme::of(option->palette);
    if (element == CE_FocusFrame) {
        painter->save();
        painter->setRenderHint(QPainter::Antialiasing);
        painter->setPen(QPen(theme.color(Role::Accent), kRing));
        painter->setBrush(Qt::NoBrush);
        painter->drawRoundedRect(QRectF(option->rect).adjusted(1, 1, -1, -1), kRadius + 1, kRadius + 1);
        painter->restore();
        return;
    }
    if (element == CE_HeaderSection) {
        painter->fillRect(option->rect, theme.color(Role::Panel));
        painter->setPen(theme.hairline());
        painter->drawLine(option->rect.bottomLeft(), option->rect.bottomRight());
        return;
    }
    if (element == CE_ProgressBarGroove) {
        painter->save();
        painter->setRenderHint(QPainter::Antialiasing);
        painter->setPen(Qt::NoPen);
        painter->setBrush(theme.hairline());
        painter->drawRoundedRect(option->rect, 3, 3);
        painter->restore();
        return;
    }
    if (const auto* bar = qstyleoption_cast<const QStyleOptionProgressBar*>(option);
        bar && element == CE_ProgressBarContents && bar->maximum > bar->minimum) {
        QRectF done = option->rect;
        done.setWidth(done.width() * double(bar->progress - bar->minimum) / double(bar->maximum - bar->minimum));
        painter->save();
        painter->setRenderHint(QPainter::Antialiasing);
        painter->setPen(Qt::NoPen);
        painter->setBrush(theme.color(Role::Accent));
        painter->drawRoundedRect(done, 3, 3);
        painter->restore();
        return;
    }
    if (element == CE_PushButtonLabel && isPrimary(widget) && (option->state & State_Enabled)) {
        QStyleOptionButton label = *qstyleoption_cast<const QStyleOptionButton*>(option);
        label.palette.setColor(QPalette::ButtonText, theme.color(Role::Page));
        QProxyStyle::drawControl(element, &label, painter, widget);
        return;
    }
    QProxyStyle::drawControl(element, option, painter, widget);
}

int StudioStyle::pixelMetric(PixelMetric metric, const QStyleOption* option, const QWidget* widget) const
{
    switch (metric) {
    case PM_FocusFrameHMargin:
    case PM_FocusFrameVMargin: return kRing;
    case PM_ButtonShiftHorizontal:
    case PM_ButtonShiftVertical: return 0;
    default: return QProxyStyle::pixelMetric(metric, option, widget);
    }
}

void StudioStyle::drawComplexControl(ComplexControl control, const QStyleOptionComplex* option, QPainter* painter, const QWidget* widget) const
{
    QProxyStyle::drawComplexControl(control, option, painter, widget);
    if (control == CC_SpinBox)
        drawField(option, painter, false);
}

QSize StudioStyle::sizeFromContents(ContentsType type, const QStyleOption* option, const QSize& size, const QWidget* widget) const
{
    const QSize usual = QProxyStyle::sizeFromContents(type, option, size, widget);
    return type == CT_PushButton ? usual + QSize(kButtonRoom, 0) : usual;
}

int StudioStyle::styleHint(StyleHint hint, const QStyleOption* option, const QWidget* widget, QStyleHintReturn* data) const
{
    switch (hint) {
    case SH_FocusFrame_AboveWidget: return 1;
    case SH_FocusFrame_Mask: {
        auto* mask = qstyleoption_cast<QStyleHintReturnMask*>(data);
        if (!mask)
            return 0;
        mask->region = QRegion(option->rect) - QRegion(option->rect.adjusted(kRing + 1, kRing + 1, -kRing - 1, -kRing - 1));
        return 1;
    }
    default: return QProxyStyle::styleHint(hint, option, widget, data);
    }
}

FocusRing::FocusRing(QObject* parent) : QObject(parent)
{
    connect(qApp, &QApplication::focusChanged, this, [this](QWidget*, QWidget* now) { follow(now); });
}

void FocusRing::follow(QWidget* now)
{
    if (!now || now->isWindow()) {
        if (frame_)
            frame_->setWidget(nullptr);
        return;
    }
    if (frame_ && frame_->widget() == now)
        return;
    delete frame_; // a frame belongs to the window of its widget
    frame_ = new QFocusFrame(now->window());
    frame_->setWidget(now);
}

} // namespace megagraph::ui
