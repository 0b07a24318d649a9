// SPDX-License-Identifier: Apache-2.0
// Project files *.megagraph and the lists of a home folder. Blocking file access: for lanes, never the GUI thread.
#pragma once

#include "ui/session/session.h"

namespace megagraph::ui {

struct LoadedProject { ProjectSpec project; Scenario scenario; };

/// Reads the project and the documents it points to (paths relative to it).
Result<LoadedProject> loadProject(const std::string& path);
/// Writes the project and its constraints atomically; the former project stays as .bak.
Result<Ok> storeProject(const std::string& path, ProjectSpec project, const Scenario& scenario);

std::vector<DatasetInfo> listDatasets(const std::string& home);
/// Newest first, at most `limit`.
std::vector<RunInfo> listRuns(const std::string& home, size_t limit);
QStringList listModels(const std::string& resources);

} // namespace megagraph::ui
