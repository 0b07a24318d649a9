// SPDX-License-Identifier: Apache-2.0
// plan.json ("megagraph.plan", version 1): everything `train` and `verify` need. A plan carries no host, command, path
// outside the data folder or environment variable. The plan's hash is the SHA-256 of its canonical text without
// `prediction` and `name`. Values only.
#pragma once

#include "core/cluster_spec.h"
#include "core/json.h"
#include "core/model_spec.h"
#include "core/result.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace megagraph {

/// Memory categories, the same in predictions, samples, charts and errors, in display order.
enum class MemoryCategory { Weights, Gradients, Optimizer, NodeTable, Activations, Workspace, Topology, Buffers, Base, Slack };
constexpr int kMemoryCategories = 10;
/// "weights" "gradients" "optimizer" "node_table" "activations" "workspace" "topology" "buffers" "base" "slack"
const char* memoryCategoryName(MemoryCategory category);
using MemoryBytes = std::array<int64_t, kMemoryCategories>;

/// Parts of the step time on the critical rank, in display order; they add up to the step.
enum class TimeTerm { Attention, Block, EmbedHead, Distance, Exchange, Bubble, Update, Host };
constexpr int kTimeTerms = 8;
/// "attention" "block" "embed_head" "distance" "exchange" "bubble" "update" "host"
const char* timeTermName(TimeTerm term);
using TimeNs = std::array<int64_t, kTimeTerms>;

enum class Exchange { None, Ring, Ulysses, UlyssesRing, Gather, Halo, Reduce };
enum class Recompute { None, Attention, Block };
enum class Zero { Z0, Z1, Z2, Z3, Hsdp }; // JSON: 0 1 2 3 "hsdp"
enum class PipelineSchedule { GPipe, OneF1B, Interleaved, ZeroBubble }; // "gpipe" "1f1b" "interleaved" "zero_bubble"
enum class Precision { Fp32, Bf16 };
enum class AttentionPath { Fused, Materialised };
enum class BiasPolicy { Lists, Strips, Planes };

const char* exchangeName(Exchange value);
const char* recomputeName(Recompute value);
const char* zeroName(Zero value); // "0" "1" "2" "3" "hsdp"
const char* pipelineScheduleName(PipelineSchedule value);
const char* precisionName(Precision value);
const char* attentionPathName(AttentionPath value);
const char* biasPolicyName(BiasPolicy value);
const char* sequenceModeName(SequenceMode value);

struct StagePlan {
    int64_t firstLayer = 0, lastLayer = 0; // [first, last) of the L + 2 layers embed, block x L, head
    std::vector<int64_t> devices;          // device ids; rank order: replica-major, then context rank
    int64_t replicas = 1, ulysses = 1, ring = 1; // D, U, R; context size C = U * R
    Exchange exchange = Exchange::None;
    Zero zero = Zero::Z0;
    int64_t shardGroup = 0; // HSDP only
    Recompute recompute = Recompute::None;
    /// Token interval of context rank c is [cuts[c], cuts[c+1]) in token order; C + 1 values, uneven and empty allowed.
    /// Empty vector: the deterministic cost cut (core/cuts.h) of each sequence, as in `clusters` mode.
    std::vector<int64_t> cuts;
};

struct RankPrediction { int64_t rank = 0, peakBytes = 0; MemoryBytes categories{}; };
struct PlanPrediction {
    std::string profileId;  // "" = none
    std::string match = "none"; // "exact" "stale" "other" "none"
    int64_t stepNs = 0, stepLoNs = 0, stepHiNs = 0;
    double pFit = 0;
    TimeNs terms{};
    std::vector<RankPrediction> ranks;
};

struct Plan {
    std::string name;
    std::string datasetName, datasetHash;
    ModelSpec model;
    ClusterSpec cluster;
    SequenceMode mode = SequenceMode::Full;
    int64_t tokens = 0;             // S: tokens aimed at per sequence (full: N)
    std::string order = "metis";    // "metis" "natural"
    int64_t partitionSeed = 1;
    std::vector<StagePlan> stages;
    PipelineSchedule schedule = PipelineSchedule::OneF1B;
    int64_t chunks = 1;
    int64_t microBatches = 1;       // M per step
    Precision precision = Precision::Fp32;
    AttentionPath attention = AttentionPath::Fused;
    BiasPolicy bias = BiasPolicy::Lists;
    PlanPrediction prediction;

    int64_t world() const; ///< sum of D * C over stages
};

Result<Plan> planFromJson(const Json& value, const std::string& file);
Json planToJson(const Plan& plan);
std::string planHash(const Plan& plan);
/// "E+2B+H:r2 | m1 fp32 fused lists": stages in order, factors of 1 left out.
std::string planName(const Plan& plan);

} // namespace megagraph
