// SPDX-License-Identifier: Apache-2.0
// run.json ("megagraph.run", version 1), written once by the supervisor, immutable; project files *.megagraph. Values only.
#pragma once

#include "core/json.h"
#include "core/profile.h"
#include "core/result.h"

#include <cstdint>
#include <string>
#include <vector>

namespace megagraph {

struct RunSpec {
    std::string id, kind = "train", name, createdUtc; // kind: "train" "verify" "profile"
    std::string parentRun;
    int64_t parentStep = 0;
    uint64_t seed = 1;
    int64_t threadsPerRank = 1, steps = 0, evalEvery = 1;
    int64_t checkpointEverySteps = 0; // 0 = by time only
    double checkpointEveryS = 600;
    int64_t patience = 0;
    bool riskOom = false;
    std::string launcher = "local";
    int64_t world = 1;
    std::string split;                // split name used for train/valid/test
    std::string buildId, libtorch;
    std::string planHash, modelHash, dataHash;
    std::vector<std::string> environment; // names only
    /// verify: role "serial" writes each step's gradients below `gradients/` of its run directory; role "plan" compares
    /// against `verifyReferenceRun` (directory name in runs/) on rank 0.
    std::string verifyRole, verifyReferenceRun;
    std::string profileLevel;
    double profileSeconds = 0;
    std::vector<ProfileJob> profileJobs;
};
Result<RunSpec> runFromJson(const Json& value, const std::string& file);
Json runToJson(const RunSpec& spec);

struct ProjectSpec {
    std::string dataset, model, constraints;
    std::vector<std::string> clusters, plans, runs;
    int64_t activeCluster = 0;
};
Result<ProjectSpec> projectFromJson(const Json& value, const std::string& file);
Json projectToJson(const ProjectSpec& spec);

} // namespace megagraph
