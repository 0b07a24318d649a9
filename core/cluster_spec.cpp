// SPDX-License-Identifier: Apache-2.0
#include "core/cluster_spec.h"

#include "core/machine.h"

#include <algorithm>
#include <fmt/format.h>
#include <tuple>

namespace megagraph {

namespace {

constexpr int64_t kMaxBytes = int64_t(1) << 50;
constexpr int64_t kMaxRanks = 4096;

const std::vector<std::string>& knobNames()
{
    static const std::vector<std::string> names{"replicas", "ulysses", "ring", "exchange", "zero", "recompute", "attention",
                                                "precision", "bias", "order", "schedule", "stages", "micro_batches", "mode"};
    return names;
}

/// Values of the knobs that are words; an empty list means a positive integer.
std::vector<std::string> knobValues(const std::string& knob)
{
    if (knob == "exchange") return {"none", "ring", "ulysses", "ulysses_ring", "gather", "halo", "reduce"};
    if (knob == "zero") return {"0", "1", "2", "3", "hsdp"};
    if (knob == "recompute") return {"none", "attention", "block"};
    if (knob == "attention") return {"fused", "materialised"};
    if (knob == "precision") return {"fp32", "bf16"};
    if (knob == "bias") return {"lists", "strips", "planes"};
    if (knob == "order") return {"metis", "natural"};
    if (knob == "schedule") return {"gpipe", "1f1b", "interleaved", "zero_bubble"};
    if (knob == "mode") return {"full", "clusters", "packs"};
    return {};
}

/// "" when `value` may stand for `knob`, else the rule.
std::string valueRule(const std::string& knob, const std::string& value)
{
    const std::vector<std::string> words = knobValues(knob);
    if (words.empty()) {
        const bool digits = !value.empty() && value.size() <= 9 && value.find_first_not_of("0123456789") == std::string::npos;
        return digits && value != "0" && value.front() != '0' ? "" : "a positive integer";
    }
    if (std::find(words.begin(), words.end(), value) != words.end())
        return "";
    return fmt::format("one of {}", fmt::join(words, ", "));
}

/// A name for people. It must not carry a host, path or control character.
void readName(ObjectReader& reader, const char* key, std::string& out, bool mayBeEmpty)
{
    reader.get(key, out);
    const bool plain = std::all_of(out.begin(), out.end(), [](unsigned char c) { return c >= 0x20 && c != 0x7f && c != '/'; });
    if (!plain || out.size() > 128 || (out.empty() && !mayBeEmpty))
        reader.fail(key, fmt::format("not a name, got {} bytes, expected {} to 128 bytes without slashes and control characters",
                                     out.size(), mayBeEmpty ? 0 : 1));
}

DeviceSpec readDevice(ObjectReader& reader)
{
    DeviceSpec device;
    int kind = 0;
    reader.getChoice("kind", kind, {"cpu_slot", "gpu"});
    device.kind = kind == 0 ? "cpu_slot" : "gpu";
    readName(reader, "name", device.name, true);
    reader.get("cores", device.cores);
    for (const int64_t core : device.cores)
        if (core < 0 || core > 1 << 20)
            reader.fail("cores", fmt::format("out of range, got {}, expected core numbers from 0 to {}", core, 1 << 20));
    reader.get("numa_node", device.numaNode, 0, 4096);
    reader.get("threads", device.threads, 1, 4096);
    reader.get("memory_bytes", device.memoryBytes, 1 << 20, kMaxBytes);
    reader.get("kept_free_bytes", device.keptFreeBytes, 0, kMaxBytes);
    readName(reader, "preset", device.preset, true);
    if (device.keptFreeBytes >= device.memoryBytes && device.memoryBytes > 0)
        reader.fail("kept_free_bytes", fmt::format("nothing is left, got {}, expected less than memory_bytes {}",
                                                   device.keptFreeBytes, device.memoryBytes));
    return device;
}

Json deviceToJson(const DeviceSpec& d)
{
    return {{"kind", d.kind}, {"name", d.name}, {"cores", d.cores}, {"numa_node", d.numaNode}, {"threads", d.threads},
            {"memory_bytes", d.memoryBytes}, {"kept_free_bytes", d.keptFreeBytes}, {"preset", d.preset}};
}

/// A core may serve two slots of a node only if the file says so.
void checkCores(ObjectReader& reader, const NodeSpec& node)
{
    std::vector<int64_t> used;
    for (const DeviceSpec& device : node.devices)
        used.insert(used.end(), device.cores.begin(), device.cores.end());
    std::sort(used.begin(), used.end());
    const auto twice = std::adjacent_find(used.begin(), used.end());
    if (!node.shared && twice != used.end())
        reader.fail("devices", fmt::format("core {} is in two slots, expected each core once; set \"shared\": true to allow it", *twice));
}

} // namespace

std::vector<DeviceSpec> ClusterSpec::devices() const
{
    std::vector<DeviceSpec> all;
    for (const NodeSpec& node : nodes)
        all.insert(all.end(), node.devices.begin(), node.devices.end());
    return all;
}

void readCluster(ObjectReader& reader, ClusterSpec& spec)
{
    reader.expectFormat("megagraph.cluster", 1);
    readName(reader, "name", spec.name, true);
    for (ObjectReader& item : reader.children("nodes")) {
        NodeSpec node;
        readName(item, "name", node.name, false);
        for (ObjectReader& device : item.children("devices"))
            node.devices.push_back(readDevice(device));
        item.get("shared", node.shared);
        checkCores(item, node);
        spec.nodes.push_back(node);
    }
    if (spec.devices().empty())
        reader.fail("nodes", "no device, got 0, expected at least 1");
    for (ObjectReader& item : reader.children("links")) {
        LinkSpec link;
        readName(item, "class", link.linkClass, false);
        item.get("alpha_ns", link.alphaNs, 0, 1'000'000'000'000);
        item.get("bytes_per_s", link.bytesPerS, 1, int64_t(1) << 50);
        const std::vector<std::string> names{"measured", "interpolated", "extrapolated", "transferred", "assumed"};
        int provenance = 4;
        item.getChoice("provenance", provenance, names);
        link.provenance = names[static_cast<size_t>(provenance)];
        spec.links.push_back(link);
    }
    reader.get("detected", spec.detected);
}

Result<ClusterSpec> clusterFromJson(const Json& value, const std::string& file)
{
    ClusterSpec spec;
    ObjectReader reader(value, file, "");
    readCluster(reader, spec);
    MEGAGRAPH_TRY(std::ignore, reader.finish());
    return spec;
}

Json clusterToJson(const ClusterSpec& spec)
{
    Json nodes = Json::array();
    for (const NodeSpec& node : spec.nodes) {
        Json devices = Json::array();
        for (const DeviceSpec& device : node.devices)
            devices.push_back(deviceToJson(device));
        nodes.push_back({{"name", node.name}, {"devices", devices}, {"shared", node.shared}});
    }
    Json links = Json::array();
    for (const LinkSpec& l : spec.links)
        links.push_back({{"class", l.linkClass}, {"alpha_ns", l.alphaNs}, {"bytes_per_s", l.bytesPerS}, {"provenance", l.provenance}});
    return {{"format", "megagraph.cluster"}, {"version", 1}, {"name", spec.name}, {"nodes", nodes}, {"links", links}, {"detected", spec.detected}};
}

Result<ClusterSpec> localCluster(int64_t ranks, int64_t budgetBytes)
{
    const std::vector<CoreFact> cores = usableCores();
    const auto coreCount = static_cast<int64_t>(cores.size());
    if (ranks < 0 || ranks > kMaxRanks)
        return Error{ErrorCode::InvalidInput, fmt::format("--ranks: out of range, got {}, expected 1 to {}", ranks, kMaxRanks)};
    const int64_t slots = ranks == 0 ? std::min<int64_t>(2, coreCount) : ranks;
    constexpr int64_t kLeastBudget = 1 << 20;
    const int64_t available = availableMemoryBytes();
    const int64_t budget = budgetBytes == 0 ? available / 5 * 4 / slots : budgetBytes;
    if (budget < kLeastBudget || budget > kMaxBytes)
        return Error{ErrorCode::InvalidInput,
                     fmt::format("--budget: out of range, got {} bytes per rank ({} bytes of memory are available), expected {} to {}",
                                 budget, available, kLeastBudget, kMaxBytes)};
    NodeSpec node;
    node.name = "local";
    node.shared = slots > coreCount;
    for (int64_t slot = 0; slot < slots; ++slot) {
        DeviceSpec device;
        device.name = fmt::format("slot {}", slot);
        device.memoryBytes = budget;
        const int64_t first = node.shared ? slot % coreCount : slot * coreCount / slots;
        const int64_t last = node.shared ? first + 1 : (slot + 1) * coreCount / slots;
        for (int64_t c = first; c < last; ++c)
            device.cores.push_back(cores[static_cast<size_t>(c)].cpu);
        device.numaNode = cores[static_cast<size_t>(first)].numaNode;
        device.threads = last - first;
        node.devices.push_back(device);
    }
    ClusterSpec spec;
    spec.name = "this-machine";
    spec.nodes = {node};
    spec.links = {{"same_numa", 30'000, 2'000'000'000, "assumed"}}; // local sockets, as in resources/hardware/cpu-slot.json
    spec.detected = true;
    return spec;
}

Result<ConstraintsSpec> constraintsFromJson(const Json& value, const std::string& file)
{
    ConstraintsSpec spec;
    ObjectReader reader(value, file, "");
    reader.expectFormat("megagraph.constraints", 1);
    reader.get("budget_bytes", spec.budgetBytes, 0, kMaxBytes);
    reader.get("kept_free_share", spec.keptFreeShare, 0, 0.9);
    reader.get("least_p_fit", spec.leastPFit, 0, 1);
    reader.get("ranks", spec.ranks, 0, kMaxRanks);
    reader.get("global_batch", spec.globalBatch, 0, int64_t(1) << 32);
    const std::vector<std::string> objectives{"mean", "p90", "robust", "memory", "cost"};
    int objective = 0;
    reader.getChoice("objective", objective, objectives);
    spec.objective = objectives[static_cast<size_t>(objective)];
    ObjectReader allow = reader.child("allow");
    for (const std::string& knob : knobNames()) {
        if (!allow.has(knob.c_str()))
            continue;
        std::vector<std::string>& values = spec.allow[knob];
        allow.get(knob.c_str(), values);
        if (values.empty())
            allow.fail(knob.c_str(), "allows nothing, got [], expected at least one value; leave the key out to allow all");
        for (const std::string& item : values)
            if (const std::string rule = valueRule(knob, item); !rule.empty())
                allow.fail(knob.c_str(), fmt::format("unknown value, got \"{}\", expected {}", item, rule));
    }
    reader.get("restrictions", spec.restrictions);
    MEGAGRAPH_TRY(std::ignore, reader.finish());
    return spec;
}

Json constraintsToJson(const ConstraintsSpec& spec)
{
    Json allow = Json::object();
    for (const auto& [knob, values] : spec.allow)
        allow[knob] = values;
    return {{"format", "megagraph.constraints"}, {"version", 1},
            {"budget_bytes", spec.budgetBytes},  {"kept_free_share", spec.keptFreeShare},
            {"least_p_fit", spec.leastPFit},     {"ranks", spec.ranks},
            {"global_batch", spec.globalBatch},  {"objective", spec.objective},
            {"allow", allow},                    {"restrictions", spec.restrictions}};
}

Result<Ok> addAllowed(ConstraintsSpec& spec, const std::string& assignment)
{
    const size_t equals = assignment.find('=');
    const std::string knob = assignment.substr(0, equals);
    const auto& names = knobNames();
    if (equals == std::string::npos || std::find(names.begin(), names.end(), knob) == names.end()) {
        const std::string near = nearestName(knob, names);
        return Error{ErrorCode::Usage, fmt::format("--allow \"{}\": expected KNOB=VALUE,.. with KNOB one of {}{}", assignment,
                                                   fmt::join(names, ", "), near.empty() || near == knob ? "" : "; did you mean \"" + near + "\"?")};
    }
    std::vector<std::string> values;
    for (size_t start = equals + 1; start <= assignment.size();) {
        const size_t end = std::min(assignment.find(',', start), assignment.size());
        const std::string value = assignment.substr(start, end - start);
        if (const std::string rule = valueRule(knob, value); !rule.empty())
            return Error{ErrorCode::Usage, fmt::format("--allow {}: unknown value, got \"{}\", expected {}", knob, value, rule)};
        values.push_back(value);
        start = end + 1;
    }
    auto& allowed = spec.allow[knob];
    for (const std::string& value : values)
        if (std::find(allowed.begin(), allowed.end(), value) == allowed.end())
            allowed.push_back(value);
    return Ok{};
}

} // namespace megagraph
