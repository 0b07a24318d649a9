// SPDX-License-Identifier: Apache-2.0
// What the studio's tests share: a home in a temporary folder, a table of plans whose parts add up, run directories.
#pragma once

#include "core/json.h"
#include "ui/session/session.h"

#include <QTemporaryDir>

#include <functional>

namespace megagraph::ui {

/// Feasible, infeasible, not executable and illegal rows; two of them on the front. Names, terms and memory are consistent.
TablePtr exampleTable();

class Home {
  public:
    Home();
    QString path() const { return folder_.path(); }
    Session::Options options() const;
    /// A run directory with documents and the given lines; returns its id.
    QString writeRun(const QString& id, const std::vector<Json>& events, const std::vector<Json>& samples, const Json& status) const;
    void write(const QString& file, const std::string& bytes) const;

  private:
    QTemporaryDir folder_;
};

/// Events are processed until `ready` holds, at most `ms`.
bool eventually(const std::function<bool()>& ready, int ms = 10000);

} // namespace megagraph::ui
