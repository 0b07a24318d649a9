// SPDX-License-Identifier: Apache-2.0
// cluster.json ("megagraph.cluster", version 1): devices and links; constraints.json ("megagraph.constraints").
// Devices are numbered through all nodes in document order; that number is the rank's device id in plans. Values only.
#pragma once

#include "core/json.h"
#include "core/result.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace megagraph {

struct DeviceSpec {
    std::string kind = "cpu_slot"; // "cpu_slot" "gpu"
    std::string name;
    std::vector<int64_t> cores;    // CPU slots
    int64_t numaNode = 0, threads = 1, memoryBytes = 0, keptFreeBytes = 0;
    std::string preset;            // a hardware preset name, "" for the real device
};
struct NodeSpec { std::string name; std::vector<DeviceSpec> devices; bool shared = false; };
struct LinkSpec { std::string linkClass; int64_t alphaNs = 0, bytesPerS = 0; std::string provenance = "assumed"; };
struct ClusterSpec {
    std::string name;
    std::vector<NodeSpec> nodes;
    std::vector<LinkSpec> links;
    bool detected = false;

    std::vector<DeviceSpec> devices() const; ///< all devices, in document order
};

struct ConstraintsSpec {
    int64_t budgetBytes = 0;      // per device; 0 = the device's own memory_bytes
    double keptFreeShare = 0.03, leastPFit = 0.95;
    int64_t ranks = 0;            // 0 = all devices of the cluster
    int64_t globalBatch = 0;      // 0 = as the model says
    std::string objective = "mean";
    std::map<std::string, std::vector<std::string>> allow; // knob -> allowed values; missing knob = all
    std::vector<std::string> restrictions;
};

/// Reads a cluster that is part of another document; faults go to the reader.
void readCluster(ObjectReader& reader, ClusterSpec& spec);
Result<ClusterSpec> clusterFromJson(const Json& value, const std::string& file);
Json clusterToJson(const ClusterSpec& spec);
/// `--ranks N [--budget B]`: N CPU slots of this machine, cores dealt out evenly (N > cores: shared, one thread each);
/// budgetBytes 0 = 80 % of available memory / N. ranks 0 = min(2, cores).
Result<ClusterSpec> localCluster(int64_t ranks, int64_t budgetBytes);

Result<ConstraintsSpec> constraintsFromJson(const Json& value, const std::string& file);
Json constraintsToJson(const ConstraintsSpec& spec);
/// Adds one `--allow KNOB=V,..`. Usage error naming the knobs when unknown.
Result<Ok> addAllowed(ConstraintsSpec& spec, const std::string& assignment);

} // namespace megagraph
