// SPDX-License-Identifier: Apache-2.0
// Time and bytes of layers, links and updates (planner design, 3.2, 3.3, 3.8). Every number starts from a formula over a hardware
// preset (`assumed`) and is replaced by measured points of the profile where they exist: on a measured size the measured value,
// between and beyond sizes the formula scaled by the measured ratio. Built once per problem; const access is thread-safe.
#pragma once

#include "core/model_layout.h"
#include "planner/fit.h"
#include "planner/hardware.h"
#include "planner/problem.h"

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace megagraph::planner {

/// Time of one pass of one layer on the slowest rank; parts lie inside `time`.
struct PassCost {
    Estimate time;
    int64_t attentionNs = 0, exchangeNs = 0;
};
/// One layer of one micro-batch. Bytes: saved = kept from forward to backward; peaks are transient, on top of what is saved.
struct LayerCost {
    PassCost forward, backward;
    Estimate saved, forwardPeak, backwardPeak;
};
/// What a context rank sees of one micro-batch.
struct Shard {
    int64_t rows = 0;       // n_i
    int64_t keys = 0;       // N of the sequence
    int64_t entries = 0;    // edges whose row is local
    int64_t nearPairs = 0;  // of local rows with all keys
    int64_t tiles = 0;
};
struct BlockQuery {
    AttentionPath attention = AttentionPath::Fused;
    Exchange exchange = Exchange::None;
    Recompute recompute = Recompute::None;
    int64_t busy = 1;            // ranks that work at the same time
    std::vector<Shard> shards;   // one per context rank; size 1 = no context parallelism
};

class CostModel {
  public:
    /// Reads the hardware preset of the cluster's devices (cpu-slot for real ones). NotFound, InvalidInput.
    static Result<CostModel> build(const Problem& problem);

    /// embed and head of one micro-batch under the exchange of the query: the convolutions of SGFormer belong to its head and
    /// gather rows.
    LayerCost embed(const BlockQuery& query) const;
    LayerCost head(const BlockQuery& query) const;
    LayerCost block(const BlockQuery& query) const;
    /// The share of block(query) that rank `context` uses of the slowest rank's own work, in (0, 1].
    double workShare(const BlockQuery& query, size_t context) const;
    /// op: "all_reduce" "all_gather" "reduce_scatter" of `bytes` (whole tensor) over `ranks`; 0 for one rank.
    Estimate collective(const std::string& op, int64_t ranks, double bytes) const;
    Estimate ringHop(int64_t ranks, double bytes) const;
    Estimate update(int64_t parameters, int64_t busy) const;
    Estimate host(int64_t busy) const;
    Estimate base() const;
    /// Counted bytes a rank keeps of its sequence: distance structure, edges, features, labels.
    Estimate sequenceBytes(const Shard& shard, AttentionPath attention, BiasPolicy bias, Exchange exchange, int64_t contextRanks,
                           int64_t busy) const;

    const std::vector<ParameterSpec>& layout() const { return layout_; }
    /// Points of the profile that serve no number of this model, for `profile show`.
    const Hardware& hardware() const { return hardware_; }
    const ModelSpec& model() const { return model_; }

  private:
    struct Sample { double n = 0, ns = 0, attentionNs = -1, exchangeNs = -1, saved = 0, peak = 0, standardError = 0; };
    using Formula = std::function<double(double)>;
    using Series = std::vector<Sample>; // ascending n

    const Series* series(const std::string& key) const;
    const Series* nearestBusy(const std::string& prefix, int64_t busy, bool& exact) const;
    Estimate fromSeries(const Series& series, double n, const Formula& formula, double Sample::*field) const;
    PassCost passFrom(const Series& series, double n, const Formula& formula, double attentionShare) const;
    LayerCost plainLayer(const char* layer, const BlockQuery& query, const Formula& forward, const Formula& backward,
                         const Formula& saved, const Formula& peak) const;
    Estimate convolutionTime(const BlockQuery& query, bool backward) const;
    LayerCost blockWithout(const BlockQuery& query) const;       // recompute none
    bool measuredBlock(const BlockQuery& query, const char* recompute, LayerCost& out) const;
    LayerCost blockFromParts(const BlockQuery& query) const;
    Estimate exchangeTime(const BlockQuery& query, bool backward) const;
    void addPoints(const Profile& profile);

    double seconds(double flops, double bytes, double launches) const; // ns
    double denseNs(double rows, bool backward) const;
    double attentionNs(const BlockQuery& query, const Shard& shard, bool backward) const;
    double blockSaved(const BlockQuery& query, const Shard& shard) const;
    double blockPeak(const BlockQuery& query, const Shard& shard, bool backward) const;
    Shard scaledShard(const Shard& shard, double rows, double keys) const;

    ModelSpec model_;
    DatasetSpec dataset_;
    Hardware hardware_;
    std::vector<ParameterSpec> layout_;
    int64_t outputs_ = 1;
    std::map<std::string, Series> series_;
    std::map<std::string, Curve> links_;
    std::map<std::string, double> constants_;
    bool transferred_ = false; // a stale or foreign profile: every number of it is `transferred`
};

/// Key of a series, as addPoints and lookups build it.
std::string layerKey(const std::string& layer, const std::string& recompute, const std::string& attention,
                     const std::string& exchange, int64_t ranks, const std::string& phase);

} // namespace megagraph::planner
