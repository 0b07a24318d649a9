// SPDX-License-Identifier: Apache-2.0
#include "ui/widgets/parts.h"

#include <QEvent>
#include <QFile>
#include <QFontDatabase>
#include <QPainter>
#include <QSvgRenderer>

namespace megagraph::ui {
namespace {

constexpr int kCardPad = 12;

QFont fontOf(TextStyle style, QFont font)
{
    switch (style) {
    case TextStyle::Normal: break;
    case TextStyle::Muted: font.setPointSizeF(font.pointSizeF() * 0.93); break;
    case TextStyle::Strong: font.setBold(true); break;
    case TextStyle::Title:
        font.setPointSizeF(font.pointSizeF() * 1.5);
        font.setBold(true);
        break;
    case TextStyle::Big:
        font.setPointSizeF(font.pointSizeF() * 1.35);
        font.setBold(true);
        break;
    case TextStyle::Mono: return monoFont();
    }
    return font;
}

} // namespace

QFont monoFont()
{
    QFont font = QFontDatabase::systemFont(QFontDatabase::FixedFont);
    font.setPointSizeF(QFont().pointSizeF() * 0.93);
    return font;
}

Text::Text(const QString& text, TextStyle style, QWidget* parent)
    : QLabel(parent), role_(style == TextStyle::Muted ? Role::Muted : Role::Text)
{
    setTextFormat(Qt::PlainText);
    setFont(fontOf(style, font()));
    QLabel::setText(text);
    setTextInteractionFlags(Qt::NoTextInteraction);
    recolor();
}

void Text::setRole(Role role)
{
    if (role == role_)
        return;
    role_ = role;
    recolor();
}

Text* Text::wrapped()
{
    setWordWrap(true);
    return this;
}

Text* Text::elided()
{
    elide_ = true;
    setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
    setToolTip(plainTip(text()));
    return this;
}

void Text::setText(const QString& text)
{
    if (text == this->text())
        return;
    QLabel::setText(text);
    if (elide_)
        setToolTip(plainTip(text));
}

QSize Text::minimumSizeHint() const
{
    if (elide_)
        return {fontMetrics().averageCharWidth() * 6, fontMetrics().height()};
    return QLabel::minimumSizeHint();
}

void Text::changeEvent(QEvent* event)
{
    QLabel::changeEvent(event);
    if (event->type() == QEvent::PaletteChange || event->type() == QEvent::ApplicationPaletteChange)
        recolor();
}

void Text::paintEvent(QPaintEvent* event)
{
    if (!elide_) {
        QLabel::paintEvent(event);
        return;
    }
    QPainter painter(this);
    painter.setPen(palette().color(isEnabled() ? QPalette::Normal : QPalette::Disabled, QPalette::WindowText));
    painter.drawText(contentsRect(), int(alignment()),
                     fontMetrics().elidedText(text(), Qt::ElideRight, contentsRect().width()));
}

void Text::recolor()
{
    const QColor wanted = Theme::of(parentWidget() ? parentWidget()->palette() : palette()).color(role_);
    if (palette().color(QPalette::Active, QPalette::WindowText) == wanted)
        return;
    QPalette p;
    p.setColor(QPalette::WindowText, wanted);
    setPalette(p);
}

Card::Card(const QString& heading, QWidget* parent) : QFrame(parent)
{
    auto* outer = new QVBoxLayout(this);
    outer->setContentsMargins(kCardPad, kCardPad - 2, kCardPad, kCardPad);
    outer->setSpacing(8);
    if (!heading.isEmpty()) {
        top_ = new QHBoxLayout;
        heading_ = new Text(heading, TextStyle::Strong);
        top_->addWidget(heading_);
        top_->addStretch(1);
        outer->addLayout(top_);
        setAccessibleName(heading);
    }
    body_ = new QVBoxLayout;
    body_->setContentsMargins(0, 0, 0, 0);
    body_->setSpacing(6);
    outer->addLayout(body_, 1);
}

void Card::addCorner(QWidget* widget)
{
    top_->addWidget(widget);
}

void Card::paintEvent(QPaintEvent*)
{
    const Theme& theme = Theme::of(palette());
    QPainter painter(this);
    painter.setRenderHint(QPainter::Antialiasing);
    painter.setPen(QPen(theme.hairline(), 1));
    painter.setBrush(theme.color(Role::Page));
    painter.drawRoundedRect(QRectF(rect()).adjusted(0.5, 0.5, -0.5, -0.5), 6, 6);
}

QPushButton* button(const QString& text, const QString& tip, std::function<void()> clicked, bool primary)
{
    auto* result = new QPushButton(text);
    result->setProperty("primary", primary);
    result->setToolTip(tip);
    result->setAccessibleDescription(tip);
    result->setMinimumHeight(28);
    result->setAutoDefault(true); // Enter presses it, also outside dialogs
    QObject::connect(result, &QPushButton::clicked, result, std::move(clicked));
    return result;
}

QPixmap iconPixmap(const QString& name, const QColor& color, int size, double pixelRatio)
{
    QPixmap pixmap(QSize(size, size) * pixelRatio);
    pixmap.setDevicePixelRatio(pixelRatio);
    pixmap.fill(Qt::transparent);
    QFile file(QStringLiteral(":/icons/%1.svg").arg(name));
    if (!file.open(QIODevice::ReadOnly))
        return pixmap;
    QByteArray svg = file.readAll();
    svg.replace("currentColor", color.name().toLatin1());
    QSvgRenderer renderer(svg);
    QPainter painter(&pixmap);
    renderer.render(&painter, QRectF(0, 0, size, size));
    return pixmap;
}

QIcon icon(const QString& name, const QPalette& palette)
{
    const Theme& theme = Theme::of(palette);
    QIcon result;
    for (double ratio : {1.0, 1.5, 2.0, 3.0}) {
        result.addPixmap(iconPixmap(name, theme.color(Role::Text), 18, ratio), QIcon::Normal, QIcon::Off);
        result.addPixmap(iconPixmap(name, theme.color(Role::Accent), 18, ratio), QIcon::Normal, QIcon::On);
        result.addPixmap(iconPixmap(name, theme.color(Role::Muted), 18, ratio), QIcon::Disabled, QIcon::Off);
    }
    return result;
}

QString plainTip(const QString& text)
{
    return Qt::mightBeRichText(text) ? text.toHtmlEscaped() : text;
}

} // namespace megagraph::ui
