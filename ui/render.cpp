// SPDX-License-Identifier: Apache-2.0
#include "ui/render.h"

#include "core/places.h"
#include "ui/pages/main_window.h"

#include <QApplication>
#include <QEventLoop>
#include <QFileInfo>
#include <QTimer>

#include <cstdio>
#include <fmt/format.h>

namespace megagraph::ui {
namespace {

constexpr int kPollMs = 50;
constexpr int kQuietPolls = 4; // queued replots and layout passes follow the last piece of data

int fail(ErrorCode code, const QString& text)
{
    fmt::print(stderr, "megagraph-studio: {}\n", text.toStdString());
    return exitCode(code);
}

bool focusPlan(Session& session, const QString& wanted)
{
    if (wanted.isEmpty() || !session.table())
        return wanted.isEmpty();
    for (const planner::PlanRow& row : session.table()->rows) {
        const std::string id = fmt::format("{:016x}", row.id);
        if (id.rfind(wanted.toStdString(), 0) == 0 || row.baseline == wanted.toStdString()) {
            session.setFocus(row.id);
            return true;
        }
    }
    return false;
}

/// True when `ready` held for some polls in a row; false at the deadline.
bool waitFor(const std::function<bool()>& ready, int deadlineMs)
{
    QEventLoop loop;
    QTimer poll, deadline;
    int quiet = 0;
    bool reached = false;
    QObject::connect(&poll, &QTimer::timeout, &loop, [&] {
        quiet = ready() ? quiet + 1 : 0;
        if (quiet >= kQuietPolls) {
            reached = true;
            loop.quit();
        }
    });
    deadline.setSingleShot(true);
    QObject::connect(&deadline, &QTimer::timeout, &loop, &QEventLoop::quit);
    poll.start(kPollMs);
    deadline.start(deadlineMs);
    loop.exec();
    return reached;
}

} // namespace

int renderPage(const Session::Options& options, const RenderRequest& request)
{
    const int index = MainWindow::pageNamed(request.page);
    applyApplicationTheme(request.theme);
    Session session(options);
    MainWindow window(session, false);
    window.resize(request.size);
    window.showPage(index);
    window.show();
    session.refreshLibrary();
    if (index == MainWindow::StartIndex)
        session.checkMachine();
    if (request.project.isEmpty())
        session.openSample();
    else
        session.openProject(request.project);
    if (!request.run.isEmpty()) {
        const std::string folder = runFolder(options.home.toStdString(), request.run.toStdString());
        if (!QFileInfo::exists(QString::fromStdString(folder)))
            return fail(ErrorCode::NotFound, QStringLiteral("--run: %1: no such run in %2; see `megagraph runs`.").arg(request.run, options.home));
        session.attach(request.run);
    }
    bool reached = waitFor([&] { return window.page(index)->settled(); }, request.deadlineMs);
    if (!session.projectProblem().isEmpty())
        return fail(ErrorCode::InvalidInput, session.projectProblem());
    if (index == MainWindow::RunIndex && request.run.isEmpty() && !session.runs().empty()) {
        const auto training = std::find_if(session.runs().begin(), session.runs().end(), [](const RunInfo& run) { return run.kind == QLatin1String("train"); });
        session.attach(training != session.runs().end() ? training->id : session.runs().front().id);
        reached = waitFor([&] { return window.page(index)->settled(); }, request.deadlineMs) && reached;
    }
    if (!focusPlan(session, request.plan))
        return fail(ErrorCode::NotFound, QStringLiteral("--plan: %1: no such plan; use the first digits of its id, or a baseline's name.").arg(request.plan));
    session.setFilter(request.filter);
    if (QWidget* focused = QApplication::focusWidget())
        focused->clearFocus();
    waitFor([] { return true; }, request.deadlineMs);
    if (!reached)
        session.notify(NoticeKind::Warning, QStringLiteral("partial: the page was not complete after %1 s").arg(request.deadlineMs / 1000));
    if (!window.grab().save(request.out, "PNG"))
        return fail(ErrorCode::Io, QStringLiteral("%1: cannot be written; choose another folder.").arg(request.out));
    return reached ? 0 : fail(ErrorCode::Timeout, QStringLiteral("the page was not complete in time; the picture shows what there was."));
}

} // namespace megagraph::ui
