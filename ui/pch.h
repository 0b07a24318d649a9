// SPDX-License-Identifier: Apache-2.0
// Precompiled headers of the studio and its tests: other people's headers only.
#pragma once

#include <QtWidgets>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <qcustomplot.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>
