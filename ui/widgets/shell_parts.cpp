// SPDX-License-Identifier: Apache-2.0
#include "ui/widgets/shell_parts.h"

#include "ui/session/units_text.h"

#include <QAccessible>
#include <QEvent>
#include <QKeyEvent>
#include <QPainter>

namespace megagraph::ui {
namespace {

constexpr int kNoticeMs = 8000;
constexpr int kHistory = 200;
constexpr int kRailWidth = 128;

class RailButton : public QToolButton {
  public:
    using QToolButton::QToolButton;

  protected:
    void paintEvent(QPaintEvent*) override
    {
        const Theme& theme = Theme::of(palette());
        QPainter painter(this);
        painter.setRenderHint(QPainter::Antialiasing);
        const QRectF box = QRectF(rect()).adjusted(2, 1, -2, -1);
        painter.setPen(Qt::NoPen);
        if (isChecked() || underMouse()) {
            painter.setBrush(isChecked() ? theme.selection() : theme.hover());
            painter.drawRoundedRect(box, 6, 6);
        }
        const int size = 18;
        icon().paint(&painter, QRect(12, (height() - size) / 2, size, size), Qt::AlignCenter, QIcon::Normal,
                     isChecked() ? QIcon::On : QIcon::Off);
        QFont words = font();
        words.setBold(isChecked());
        painter.setFont(words);
        painter.setPen(theme.color(Role::Text));
        painter.drawText(QRect(40, 0, width() - 44, height()), Qt::AlignLeft | Qt::AlignVCenter, text());
    }
};

} // namespace

Rail::Rail(QWidget* parent) : QWidget(parent)
{
    setFixedWidth(kRailWidth);
    setAccessibleName(tr("Pages"));
    column_ = new QVBoxLayout(this);
    column_->setContentsMargins(8, 10, 8, 10);
    column_->setSpacing(4);
    column_->addStretch(1);
    group_.setExclusive(true);
    connect(&group_, &QButtonGroup::idClicked, this, &Rail::chosen);
}

void Rail::addPage(const QString& iconName, const QString& text, const QKeySequence& key)
{
    auto* entry = new RailButton;
    entry->setText(text);
    entry->setCheckable(true);
    entry->setMinimumHeight(36);
    entry->setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
    entry->setFocusPolicy(Qt::StrongFocus);
    entry->setAccessibleName(text);
    entry->setToolTip(QStringLiteral("%1  %2").arg(text, key.toString(QKeySequence::NativeText)));
    entry->setIcon(icon(iconName, palette()));
    const int index = int(entries_.size());
    group_.addButton(entry, index);
    column_->insertWidget(index, entry);
    entries_.append({entry, iconName, text});
}

void Rail::setCurrent(int index)
{
    entries_[index].button->setChecked(true);
}

void Rail::setBadge(int index, const QString& badge)
{
    const Entry& entry = entries_[index];
    entry.button->setText(badge.isEmpty() ? entry.text : entry.text + QStringLiteral("  ") + badge);
}

void Rail::focusCurrent()
{
    if (QAbstractButton* current = group_.checkedButton())
        current->setFocus(Qt::ShortcutFocusReason);
}

void Rail::keyPressEvent(QKeyEvent* event)
{
    if (event->key() == Qt::Key_Down || event->key() == Qt::Key_Up)
        focusNextPrevChild(event->key() == Qt::Key_Down);
    else
        QWidget::keyPressEvent(event);
}

void Rail::changeEvent(QEvent* event)
{
    QWidget::changeEvent(event);
    if (event->type() == QEvent::PaletteChange)
        for (const Entry& entry : std::as_const(entries_))
            entry.button->setIcon(icon(entry.iconName, palette()));
}

void Rail::paintEvent(QPaintEvent*)
{
    const Theme& theme = Theme::of(palette());
    QPainter painter(this);
    painter.fillRect(rect(), theme.color(Role::Panel));
    painter.setPen(theme.hairline());
    painter.drawLine(width() - 1, 0, width() - 1, height());
}

NoticeLine::NoticeLine(Session& session, QWidget* parent) : QWidget(parent), session_(session)
{
    auto* row = new QHBoxLayout(this);
    row->setContentsMargins(12, 3, 8, 3);
    row->setSpacing(8);
    mark_ = new QLabel;
    text_ = (new Text)->elided();
    action_ = button({}, {}, [this] {
        const auto run = notice_.action;
        clear();
        if (run)
            run();
    });
    dismiss_ = button(tr("Dismiss"), tr("Take this message away"), [this] { clear(); });
    jobs_ = new Text({}, TextStyle::Muted);
    cancelJobs_ = button(tr("Cancel"), tr("Cancel the running jobs"), [this] { session_.jobs().cancelAll(); });
    for (QPushButton* b : {action_, dismiss_, cancelJobs_}) {
        b->setMinimumHeight(24);
        b->setVisible(false);
    }
    row->addWidget(mark_);
    row->addWidget(text_, 1);
    row->addWidget(action_);
    row->addWidget(dismiss_);
    row->addWidget(jobs_);
    row->addWidget(cancelJobs_);
    setMinimumHeight(34);
    setAccessibleName(tr("Notices"));
    hide_.setSingleShot(true);
    hide_.setInterval(kNoticeMs);
    connect(&hide_, &QTimer::timeout, this, &NoticeLine::clear);
    connect(&session_, &Session::noticed, this, &NoticeLine::show);
    connect(&session_.jobs(), &JobRunner::jobsChanged, this, &NoticeLine::showJobs);
    clear();
}

void NoticeLine::show(const Notice& notice)
{
    history_.prepend(notice);
    while (history_.size() > kHistory)
        history_.removeLast();
    notice_ = notice;
    text_->setText(notice.text.simplified());
    action_->setText(notice.actionText);
    action_->setVisible(!notice.actionText.isEmpty());
    dismiss_->setVisible(true);
    mark_->setVisible(true);
    restyle();
    if (notice.kind == NoticeKind::Error)
        hide_.stop();
    else
        hide_.start();
    QAccessibleEvent alert(text_, QAccessible::Alert);
    QAccessible::updateAccessibility(&alert);
}

void NoticeLine::clear()
{
    notice_ = {};
    hide_.stop();
    text_->setText({});
    action_->setVisible(false);
    dismiss_->setVisible(false);
    mark_->setVisible(false);
}

void NoticeLine::restyle()
{
    const Theme& theme = Theme::of(palette());
    struct Look { const char* name; Role role; };
    static constexpr Look kLooks[] = {{"info", Role::Accent}, {"ok", Role::Ok}, {"warning", Role::Warning}, {"error", Role::Error}};
    const Look look = kLooks[int(notice_.kind)];
    mark_->setPixmap(iconPixmap(QString::fromLatin1(look.name), theme.color(look.role), 18, devicePixelRatioF()));
    mark_->setAccessibleName(QString::fromLatin1(look.name));
}

void NoticeLine::showJobs()
{
    const QList<Job*>& running = session_.jobs().running();
    cancelJobs_->setVisible(!running.isEmpty());
    if (running.isEmpty()) {
        jobs_->setText({});
        return;
    }
    const Job* job = running.last();
    QString text = job->title();
    if (job->total() > 0)
        text += QStringLiteral(", %1 %").arg(100 * job->done() / job->total());
    if (running.size() > 1)
        text += tr(", and %1 more").arg(running.size() - 1);
    jobs_->setText(text);
}

void NoticeLine::changeEvent(QEvent* event)
{
    QWidget::changeEvent(event);
    if (event->type() == QEvent::PaletteChange)
        restyle();
}

void NoticeLine::paintEvent(QPaintEvent*)
{
    const Theme& theme = Theme::of(palette());
    QPainter painter(this);
    painter.fillRect(rect(), theme.color(Role::Panel));
    painter.setPen(theme.hairline());
    painter.drawLine(0, 0, width(), 0);
}

} // namespace megagraph::ui
