// SPDX-License-Identifier: Apache-2.0
#include "ui/widgets/state_frame.h"

#include "ui/session/units_text.h"

namespace megagraph::ui {
namespace {

constexpr int kMessageWidth = 460;

} // namespace

StateFrame::StateFrame(QWidget* content, QWidget* parent) : QWidget(parent)
{
    stack_ = new QStackedLayout(this);
    stack_->setContentsMargins(0, 0, 0, 0);
    message_ = new QWidget;
    auto* column = new QVBoxLayout(message_);
    column->setSpacing(10);
    mark_ = new QLabel;
    mark_->setAlignment(Qt::AlignCenter);
    text_ = (new Text)->wrapped();
    text_->setAlignment(Qt::AlignCenter);
    text_->setMinimumWidth(kMessageWidth / 2);
    text_->setMaximumWidth(kMessageWidth);
    text_->setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Preferred);
    bar_ = new QProgressBar;
    bar_->setTextVisible(false);
    bar_->setFixedWidth(kMessageWidth / 2);
    bar_->setMaximumHeight(8);
    button_ = button({}, {}, [this] {
        if (action_)
            action_();
    });
    column->addStretch(1);
    column->addWidget(mark_, 0, Qt::AlignHCenter);
    auto* row = new QHBoxLayout;
    row->addStretch(1);
    row->addWidget(text_, 100);
    row->addStretch(1);
    column->addLayout(row);
    column->addWidget(bar_, 0, Qt::AlignHCenter);
    column->addWidget(button_, 0, Qt::AlignHCenter);
    column->addStretch(1);
    stack_->addWidget(content);
    stack_->addWidget(message_);
}

void StateFrame::showContent()
{
    state_ = State::Ready;
    stack_->setCurrentIndex(0);
}

void StateFrame::showMessage(State state, const QString& text, const QString& actionText, std::function<void()> action)
{
    state_ = state;
    text_->setText(text);
    text_->setRole(state == State::Error ? Role::Text : Role::Muted);
    mark_->setVisible(state == State::Error);
    if (state == State::Error)
        mark_->setPixmap(iconPixmap(QStringLiteral("error"), Theme::of(palette()).color(Role::Error), 24, devicePixelRatioF()));
    bar_->setVisible(false);
    button_->setText(actionText);
    button_->setAccessibleName(actionText);
    button_->setVisible(!actionText.isEmpty());
    action_ = std::move(action);
    stack_->setCurrentIndex(1);
}

void StateFrame::showProgress(const QString& text, int64_t done, int64_t total, std::function<void()> cancel)
{
    const QString amounts = total > 0 ? tr("%1: %2 of %3").arg(text, countText(done), countText(total)) : text;
    showMessage(State::Loading, amounts, cancel ? tr("Cancel") : QString(), std::move(cancel));
    bar_->setVisible(true);
    bar_->setRange(0, total > 0 ? 1000 : 0);
    bar_->setValue(total > 0 ? int(1000 * done / total) : 0);
}

} // namespace megagraph::ui
