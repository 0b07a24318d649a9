// SPDX-License-Identifier: Apache-2.0
// Pictures of pages without a display: opens the project as the window would, waits until the page's figures are in a
// final state, draws it. Needs an application object on the offscreen platform. GUI thread.
#pragma once

#include "ui/session/session.h"
#include "ui/session/theme.h"

#include <QSize>

namespace megagraph::ui {

struct RenderRequest {
    QString page = QStringLiteral("space"), project, run, plan, filter, out;
    QSize size{1280, 800};
    ThemeMode theme = ThemeMode::Light;
    int deadlineMs = 60000;
};

/// Exit code of the program: 0 drawn, 3 InvalidInput, 4 NotFound, 6 Io, 9 Timeout (the picture is written all the same).
/// The reason goes to stderr.
int renderPage(const Session::Options& options, const RenderRequest& request);

} // namespace megagraph::ui
