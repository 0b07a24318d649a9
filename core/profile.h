// SPDX-License-Identifier: Apache-2.0
// profile.json ("megagraph.profile", version 1): measured layer, attention, collective and memory points with raw repeats,
// under a hardware fingerprint. Values only.
#pragma once

#include "core/json.h"
#include "core/result.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace megagraph {

struct Fingerprint {
    std::string deviceKind = "cpu_slot", deviceName;
    int64_t deviceCount = 0, memoryBytes = 0;
    std::string driver, cuda, nccl, libtorch, transport = "gloo", allocator = "counting";
    std::string cpuModel;
    int64_t cores = 0, threadsPerSlot = 1, numaNodes = 1;
    std::string instructionLevel, governor;
    int64_t clockMhz = 0;
    std::string productVersion;
    bool sharedCores = false;

    /// SHA-256 of all fields but clock and memory budget.
    std::string id() const;
};
/// Fingerprint of this machine for `ranks` slots with `threads` each.
Fingerprint localFingerprint(int64_t ranks, int64_t threads, bool sharedCores);

struct ProfilePoint {
    std::string kind;                          // "layer" "attention" "optimizer" "p2p" "collective" "memory" "host" "corun"
    std::map<std::string, std::string> key;    // class, e.g. {"layer":"block","phase":"forward"}
    std::map<std::string, double> x;           // sizes, e.g. {"n":1354,"n_k":2708,"heads":8}
    std::string dtype = "fp32";
    int64_t medianNs = 0, madNs = 0;
    std::vector<int64_t> repeats;              // ns, raw
    int64_t savedBytes = 0, peakBytes = 0;     // counted, exact
    int64_t clockMhz = 0;
    std::string status = "ok";                 // "ok" "oom" "timeout" "unstable" "skipped"
};
struct ProfileConstant { std::string name; double value = 0; std::string unit, provenance = "measured"; };
struct ProfileHole { std::string kind; std::map<std::string, std::string> key; std::string reason; double estSeconds = 0; };

struct Profile {
    std::string id, createdUtc, level = "quick", modelSignature, datasetKey, note;
    double seconds = 0;
    Fingerprint fingerprint;
    std::vector<ProfileConstant> constants;
    std::vector<ProfilePoint> points;
    std::vector<ProfileHole> holes;

    const ProfileConstant* constant(const std::string& name) const;
};

/// One job of a profiling worker; the worker answers with one ProfilePoint per phase it measured (same kind, key and x, plus
/// key "phase": "forward" | "backward" where there are two). All ranks get the same list and keep the same order. Time of a
/// point = slowest rank (barrier before each repeat), bytes = largest rank. Jobs of a quick profile:
///   layer      {"layer":"embed|block|head", "recompute":"none|block", "attention":"fused|materialised",
///               "exchange":"none|ring|gather|reduce", "ranks":"R"}  x {"n"}
///     R ranks run at the same time, the others wait. exchange none: each rank on its own on the first n tokens of the (first)
///     sequence, so R > 1 is the co-run slow-down; else ONE sequence of n tokens over R context ranks, cut as a plan cuts it.
///     embed and head have neither attention nor recompute. head includes the loss. Input of block and head: a
///     random [rows, d] leaf that requires a gradient. saved_bytes = counted bytes after forward - before (backward: 0);
///     peak_bytes = highest counted bytes inside the phase - (bytes before forward + saved_bytes), at least 0. Block points
///     may add x "attention_ns" and "exchange_ns": the part of median_ns inside attention kernels and waits of the communicator.
///   attention  {"path":"fused|materialised|edges|linear", "bias":"lists|none", "ranks":"R"}  x {"n_q","n_k"}
///     forward and backward of one attention call, all heads, query rows [0, n_q) against keys [0, n_k); the point adds
///     x "near_pairs", "tiles" (fused) or "entries" (edges).
///   collective {"op":"all_reduce|all_gather|reduce_scatter", "ranks":"R"}  x {"bytes"}   bytes of the whole tensor
///   p2p        {"op":"ring", "ranks":"R"}  x {"bytes"}          one startRing + waitRing of that many bytes
///   optimizer  {"ranks":"R"}  x {"parameters"}                  clip (if the model clips) and update of the real parameters
///   memory     {"what":"base"}                                  constant process_base_bytes; point saved_bytes
///   memory     {"what":"sequence", "attention", "exchange", "ranks":"R"}  x {"n"}   saved_bytes = counted bytes kept by the
///     sequence of a plan with R context ranks (lists, edges, features, labels), before any step
///   memory     {"what":"state"}  saved_bytes = counted bytes of parameters, gradients and optimizer state after one step
///   host       {"ranks":"R"}                                    one training step minus its layers, reduces and update
struct ProfileJob {
    std::string kind;
    std::map<std::string, std::string> key;
    std::map<std::string, double> x;
    int64_t repeats = 5;
    double seconds = 0.15; // spent at most on repeats
    bool operator==(const ProfileJob&) const = default;
};

Result<Profile> profileFromJson(const Json& value, const std::string& file);
Json profileToJson(const Profile& profile);
Json profilePointToJson(const ProfilePoint& point);
Result<ProfilePoint> profilePointFromJson(const Json& value, const std::string& file, const std::string& path);
Json profileJobToJson(const ProfileJob& job);
/// Reads a job that is part of another document; faults go to the reader.
void readProfileJob(ObjectReader& reader, ProfileJob& job);
Result<ProfileJob> profileJobFromJson(const Json& value, const std::string& file, const std::string& path);
/// Hash of the canonical text without id, created_utc and note: the profile's id (8 hex digits shown, 64 kept).
std::string profileId(const Profile& profile);

} // namespace megagraph
