// SPDX-License-Identifier: Apache-2.0
#include "core/profile.h"

#include "core/hash.h"
#include "core/machine.h"
#include "core/places.h"

#include <algorithm>
#include <fmt/format.h>
#include <tuple>

namespace megagraph {

namespace {

constexpr int64_t kMostNs = int64_t(1) << 50; // 13 days
constexpr int64_t kMostBytes = int64_t(1) << 50;

const std::vector<std::string>& pointKinds()
{
    static const std::vector<std::string> kinds{"layer", "attention", "optimizer", "p2p", "collective", "memory", "host", "corun"};
    return kinds;
}

void readChoice(ObjectReader& reader, const char* key, std::string& out, const std::vector<std::string>& names)
{
    int position = -1;
    reader.getChoice(key, position, names);
    if (position >= 0)
        out = names[static_cast<size_t>(position)];
}

/// An object whose keys are free and whose values are all strings.
void readWords(ObjectReader& reader, const char* key, std::map<std::string, std::string>& out)
{
    const Json* value = reader.raw(key);
    if (value == nullptr)
        return;
    ObjectReader words = reader.child(key);
    words.allowUnknown();
    if (!value->is_object())
        return;
    for (const auto& [name, item] : value->items())
        words.get(name.c_str(), out[name]);
}

/// An object whose keys are free and whose values are all numbers.
void readSizes(ObjectReader& reader, const char* key, std::map<std::string, double>& out)
{
    const Json* value = reader.raw(key);
    if (value == nullptr)
        return;
    ObjectReader sizes = reader.child(key);
    sizes.allowUnknown();
    if (!value->is_object())
        return;
    for (const auto& [name, item] : value->items())
        sizes.get(name.c_str(), out[name], -1e18, 1e18);
}

void readFingerprint(ObjectReader& reader, Fingerprint& f)
{
    readChoice(reader, "device_kind", f.deviceKind, {"cpu_slot", "gpu"});
    reader.get("device_name", f.deviceName);
    reader.get("device_count", f.deviceCount, 0, 1 << 20);
    reader.get("memory_bytes", f.memoryBytes, 0, kMostBytes);
    reader.get("driver", f.driver);
    reader.get("cuda", f.cuda);
    reader.get("nccl", f.nccl);
    reader.get("libtorch", f.libtorch);
    reader.get("transport", f.transport);
    reader.get("allocator", f.allocator);
    reader.get("cpu_model", f.cpuModel);
    reader.get("cores", f.cores, 0, 1 << 20);
    reader.get("threads_per_slot", f.threadsPerSlot, 1, 1 << 20);
    reader.get("numa_nodes", f.numaNodes, 1, 4096);
    reader.get("instruction_level", f.instructionLevel);
    reader.get("governor", f.governor);
    reader.get("clock_mhz", f.clockMhz, 0, 1'000'000);
    reader.get("product_version", f.productVersion);
    reader.get("shared_cores", f.sharedCores);
}

Json fingerprintToJson(const Fingerprint& f)
{
    return {{"device_kind", f.deviceKind}, {"device_name", f.deviceName},   {"device_count", f.deviceCount},
            {"memory_bytes", f.memoryBytes}, {"driver", f.driver},          {"cuda", f.cuda},
            {"nccl", f.nccl},              {"libtorch", f.libtorch},        {"transport", f.transport},
            {"allocator", f.allocator},    {"cpu_model", f.cpuModel},       {"cores", f.cores},
            {"threads_per_slot", f.threadsPerSlot}, {"numa_nodes", f.numaNodes}, {"instruction_level", f.instructionLevel},
            {"governor", f.governor},      {"clock_mhz", f.clockMhz},       {"product_version", f.productVersion},
            {"shared_cores", f.sharedCores}};
}

int64_t medianOf(std::vector<int64_t> values)
{
    std::sort(values.begin(), values.end());
    const size_t half = values.size() / 2;
    return values.size() % 2 == 1 ? values[half] : values[half - 1] + (values[half] - values[half - 1]) / 2;
}

void readPoint(ObjectReader& reader, ProfilePoint& point)
{
    readChoice(reader, "kind", point.kind, pointKinds());
    readWords(reader, "key", point.key);
    readSizes(reader, "x", point.x);
    readChoice(reader, "dtype", point.dtype, {"fp32", "bf16", "fp64"});
    reader.get("median_ns", point.medianNs, 0, kMostNs);
    reader.get("mad_ns", point.madNs, 0, kMostNs);
    reader.get("repeats", point.repeats);
    for (const int64_t repeat : point.repeats)
        if (repeat < 0 || repeat > kMostNs)
            reader.fail("repeats", fmt::format("out of range, got {}, expected 0 to {}", repeat, kMostNs));
    reader.get("saved_bytes", point.savedBytes, -kMostBytes, kMostBytes);
    reader.get("peak_bytes", point.peakBytes, -kMostBytes, kMostBytes);
    reader.get("clock_mhz", point.clockMhz, 0, 1'000'000);
    readChoice(reader, "status", point.status, {"ok", "oom", "timeout", "unstable", "skipped"});
    // the median is never taken on trust; an even count leaves it free between the two middle values
    if (point.repeats.empty())
        return;
    std::vector<int64_t> sorted = point.repeats;
    std::sort(sorted.begin(), sorted.end());
    const int64_t low = sorted[(sorted.size() - 1) / 2], high = sorted[sorted.size() / 2];
    if (point.medianNs < low || point.medianNs > high)
        reader.fail("median_ns", fmt::format("not the median of repeats, got {}, expected {}", point.medianNs, medianOf(point.repeats)));
}

} // namespace

std::string Fingerprint::id() const
{
    Json value = fingerprintToJson(*this);
    value.erase("clock_mhz");
    value.erase("memory_bytes");
    return sha256Hex(canonicalText(value));
}

Fingerprint localFingerprint(int64_t ranks, int64_t threads, bool sharedCores)
{
    Fingerprint f;
    f.cpuModel = cpuModelName();
    f.deviceName = f.cpuModel;
    f.deviceCount = ranks;
    f.libtorch = "2.11.0"; // the one version that the worker is built against
    f.cores = static_cast<int64_t>(usableCores().size());
    f.threadsPerSlot = std::max<int64_t>(1, threads);
    f.numaNodes = numaNodeCount();
    f.instructionLevel = instructionLevel();
    f.governor = cpuGovernor();
    f.clockMhz = cpuClockMhz();
    f.productVersion = productVersion();
    f.sharedCores = sharedCores;
    return f;
}

const ProfileConstant* Profile::constant(const std::string& name) const
{
    const auto found = std::find_if(constants.begin(), constants.end(), [&](const ProfileConstant& c) { return c.name == name; });
    return found == constants.end() ? nullptr : &*found;
}

Result<ProfilePoint> profilePointFromJson(const Json& value, const std::string& file, const std::string& path)
{
    ProfilePoint point;
    ObjectReader reader(value, file, path);
    readPoint(reader, point);
    MEGAGRAPH_TRY(std::ignore, reader.finish());
    return point;
}

Json profilePointToJson(const ProfilePoint& p)
{
    return {{"kind", p.kind},           {"key", Json(p.key)},           {"x", Json(p.x)},           {"dtype", p.dtype},
            {"median_ns", p.medianNs},  {"mad_ns", p.madNs},            {"repeats", p.repeats},     {"saved_bytes", p.savedBytes},
            {"peak_bytes", p.peakBytes}, {"clock_mhz", p.clockMhz},     {"status", p.status}};
}

Json profileJobToJson(const ProfileJob& job)
{
    return {{"kind", job.kind}, {"key", Json(job.key)}, {"x", Json(job.x)}, {"repeats", job.repeats}, {"seconds", job.seconds}};
}

void readProfileJob(ObjectReader& reader, ProfileJob& job)
{
    readChoice(reader, "kind", job.kind, pointKinds());
    readWords(reader, "key", job.key);
    readSizes(reader, "x", job.x);
    reader.get("repeats", job.repeats, 1, 100000);
    reader.get("seconds", job.seconds, 0, 3600);
}

Result<ProfileJob> profileJobFromJson(const Json& value, const std::string& file, const std::string& path)
{
    ProfileJob job;
    ObjectReader reader(value, file, path);
    readProfileJob(reader, job);
    MEGAGRAPH_TRY(std::ignore, reader.finish());
    return job;
}

Result<Profile> profileFromJson(const Json& value, const std::string& file)
{
    Profile profile;
    ObjectReader reader(value, file, "");
    reader.expectFormat("megagraph.profile", 1);
    reader.get("id", profile.id);
    reader.get("created_utc", profile.createdUtc);
    readChoice(reader, "level", profile.level, {"quick", "full", "partial", "imported"});
    reader.get("model_signature", profile.modelSignature);
    reader.get("dataset_key", profile.datasetKey);
    reader.get("seconds", profile.seconds, 0, 1e7);
    if (reader.has("note"))
        reader.get("note", profile.note);
    ObjectReader fingerprint = reader.child("fingerprint");
    readFingerprint(fingerprint, profile.fingerprint);
    for (ObjectReader& item : reader.children("constants")) {
        ProfileConstant constant;
        item.get("name", constant.name);
        item.get("value", constant.value, -1e18, 1e18);
        item.get("unit", constant.unit);
        readChoice(item, "provenance", constant.provenance, {"measured", "interpolated", "extrapolated", "transferred", "assumed"});
        profile.constants.push_back(constant);
    }
    for (ObjectReader& item : reader.children("points"))
        readPoint(item, profile.points.emplace_back());
    for (ObjectReader& item : reader.children("holes")) {
        ProfileHole hole;
        readChoice(item, "kind", hole.kind, pointKinds());
        readWords(item, "key", hole.key);
        item.get("reason", hole.reason);
        item.get("est_seconds", hole.estSeconds, 0, 1e7);
        profile.holes.push_back(hole);
    }
    MEGAGRAPH_TRY(std::ignore, reader.finish());
    return profile;
}

Json profileToJson(const Profile& p)
{
    Json constants = Json::array(), points = Json::array(), holes = Json::array();
    for (const ProfileConstant& c : p.constants)
        constants.push_back({{"name", c.name}, {"value", c.value}, {"unit", c.unit}, {"provenance", c.provenance}});
    for (const ProfilePoint& point : p.points)
        points.push_back(profilePointToJson(point));
    for (const ProfileHole& h : p.holes)
        holes.push_back({{"kind", h.kind}, {"key", Json(h.key)}, {"reason", h.reason}, {"est_seconds", h.estSeconds}});
    return {{"format", "megagraph.profile"}, {"version", 1},
            {"id", p.id},                    {"created_utc", p.createdUtc},
            {"level", p.level},              {"model_signature", p.modelSignature},
            {"dataset_key", p.datasetKey},   {"seconds", p.seconds},
            {"note", p.note},                {"fingerprint", fingerprintToJson(p.fingerprint)},
            {"constants", constants},        {"points", points},
            {"holes", holes}};
}

std::string profileId(const Profile& profile)
{
    Json value = profileToJson(profile);
    value.erase("id");
    value.erase("created_utc");
    value.erase("note");
    return sha256Hex(canonicalText(value));
}

} // namespace megagraph
