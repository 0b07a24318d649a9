// SPDX-License-Identifier: Apache-2.0
#include "planner/hardware.h"

#include "core/json.h"

#include <tuple>

namespace megagraph::planner {

Result<Hardware> hardwareFromJson(const Json& value, const std::string& file)
{
    constexpr int64_t most = int64_t(1) << 60;
    Hardware out;
    std::string provenance;
    ObjectReader reader(value, file, "");
    reader.expectFormat("megagraph.hardware", 1);
    reader.get("name", out.name);
    reader.get("kind", out.kind);
    reader.get("memory_bytes", out.memoryBytes, 0, most);
    ObjectReader flops = reader.child("peak_flops");
    flops.get("fp32", out.flopsFp32, 1, 1e18);
    flops.get("bf16", out.flopsBf16, 1, 1e18);
    reader.get("memory_bytes_per_s", out.memoryBytesPerS, 1, most);
    reader.get("launch_ns", out.launchNs, 0, most);
    reader.get("context_bytes", out.contextBytes, 0, most);
    reader.get("communicator_bytes", out.communicatorBytes, 0, most);
    for (ObjectReader& link : reader.children("links")) {
        LinkSpec spec;
        link.get("class", spec.linkClass);
        link.get("alpha_ns", spec.alphaNs, 0, most);
        link.get("bytes_per_s", spec.bytesPerS, 1, most);
        out.links.push_back(spec);
    }
    reader.get("source", out.source);
    reader.get("provenance", provenance);
    if (provenance != "assumed")
        reader.fail("provenance", "a preset is always \"assumed\", got \"" + provenance + "\"");
    MEGAGRAPH_TRY(std::ignore, reader.finish());
    if (out.links.empty())
        return Error{ErrorCode::InvalidInput, file + ": links: there is none, expected at least one"};
    return out;
}

Result<Hardware> loadHardware(const std::string& resources, const std::string& name)
{
    const std::string path = resources + "/hardware/" + name + ".json";
    MEGAGRAPH_TRY(const Json value, readJsonFile(path));
    return hardwareFromJson(value, path);
}

} // namespace megagraph::planner
