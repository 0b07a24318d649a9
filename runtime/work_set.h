// SPDX-License-Identifier: Apache-2.0
// The sequences of a run on one rank with their labelled items, item counts over all context ranks, and the order of the data:
// permutation(seed, epoch) under one global cursor, so it depends on neither ranks nor restarts. Training thread only.
#pragma once

#include "core/io/dataset.h"
#include "core/plan.h"
#include "runtime/comm.h"
#include "runtime/loss_metrics.h"
#include "runtime/model.h"

#include <cstdint>
#include <string>
#include <vector>

namespace megagraph::runtime {

struct WorkItem {
    const Sequence* sequence = nullptr;
    ItemSet train, valid, test;  // among own tokens
    int64_t trainCount = 0;      // of the whole sequence
};

class WorkSet {
  public:
    /// Collective over the context group. Throws std::runtime_error with a full message (unknown split, bad data).
    WorkSet(const Plan& plan, const Dataset& dataset, const std::string& split, const std::string& home, int64_t contextRank,
            int64_t threads, Communicator& context);

    int64_t size() const { return int64_t(items_.size()); }
    const WorkItem& at(int64_t index) const { return items_[size_t(index)]; }
    double keptEdges() const { return sequences_.keptEdges; }
    /// Sequence number of the `cursor`-th micro-batch since step 0.
    int64_t sequenceAt(uint64_t seed, int64_t cursor);

  private:
    SequenceSet sequences_;
    std::vector<WorkItem> items_;
    int64_t epoch_ = -1;
    std::vector<int64_t> order_;
};

/// 0 .. count - 1 in the order of one epoch.
std::vector<int64_t> epochOrder(uint64_t seed, int64_t epoch, int64_t count);

} // namespace megagraph::runtime
