// SPDX-License-Identifier: Apache-2.0
#include "ui/pages/page.h"

namespace megagraph::ui {

Page::Page(Session& session, const QString& title, QWidget* parent) : QWidget(parent), session_(session), title_(title)
{
    auto* outer = new QVBoxLayout(this);
    outer->setContentsMargins(14, 10, 14, 10);
    outer->setSpacing(10);
    auto* top = new QHBoxLayout;
    top->setSpacing(10);
    auto* name = new Text(title, TextStyle::Title);
    state_ = (new Text({}, TextStyle::Muted))->elided();
    state_->setAlignment(Qt::AlignLeft | Qt::AlignVCenter);
    commands_ = new QHBoxLayout;
    commands_->setSpacing(6);
    top->addWidget(name);
    top->addWidget(state_, 1);
    top->addLayout(commands_);
    outer->addLayout(top);
    content_ = new QVBoxLayout;
    content_->setSpacing(10);
    outer->addLayout(content_, 1);
    setAccessibleName(title);
}

} // namespace megagraph::ui
