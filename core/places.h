// SPDX-License-Identifier: Apache-2.0
// Where things live (overview, section 4). Reads the environment once per call; no state.
#pragma once

#include "core/result.h"

#include <string>

namespace megagraph {

std::string homeFolder();      ///< $MEGAGRAPH_HOME, else ${XDG_DATA_HOME:-~/.local/share}/megagraph
std::string resourcesFolder(); ///< $MEGAGRAPH_RESOURCES, else ../share/megagraph seen from the program
std::string programPath(const std::string& name); ///< beside this program, else on PATH, else ""
std::string datasetFolder(const std::string& home, const std::string& name);
std::string runFolder(const std::string& home, const std::string& id);
Result<Ok> makeFolders(const std::string& path); ///< mode 0700
const char* productVersion();  ///< "0.1.0"

} // namespace megagraph
