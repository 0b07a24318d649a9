// SPDX-License-Identifier: Apache-2.0
// Rows of format megagraph.kernel_bench as text for people. Pure.
#pragma once

#include "core/json.h"

#include <string>

namespace megagraph::app {

std::string machineText(const Json& machine); ///< with an empty line after it
std::string peaksText(const Json& peaks);     ///< and the head of the table
std::string caseText(const Json& row);        ///< one or two lines
std::string summaryText(const Json& cases);

} // namespace megagraph::app
