// SPDX-License-Identifier: Apache-2.0
// Precompiled headers of core, planner and launch: other people's headers only, those that most files read.
#pragma once

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>
