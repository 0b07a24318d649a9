// SPDX-License-Identifier: Apache-2.0
// Hardware presets (resources/hardware/*.json, "megagraph.hardware" version 1; planner design, section 7). Every value of a
// preset is `assumed`. Values only.
#pragma once

#include "core/cluster_spec.h"
#include "core/result.h"

#include <cstdint>
#include <string>
#include <vector>

namespace megagraph::planner {

struct Hardware {
    std::string name, kind, source;
    int64_t memoryBytes = 0;
    double flopsFp32 = 0, flopsBf16 = 0; // per second and device
    int64_t memoryBytesPerS = 0, launchNs = 0, contextBytes = 0, communicatorBytes = 0;
    std::vector<LinkSpec> links;
};
Result<Hardware> hardwareFromJson(const Json& value, const std::string& file);
/// Preset `name` of `resources`/hardware. NotFound names the file.
Result<Hardware> loadHardware(const std::string& resources, const std::string& name);

} // namespace megagraph::planner
