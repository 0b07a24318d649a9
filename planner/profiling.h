// SPDX-License-Identifier: Apache-2.0
// Around a profile: which of its jobs stayed open, and which stored profile speaks for a problem (planner design, 1.3 and 1.4).
// Reads files only in findProfile; any thread.
#pragma once

#include "core/profile.h"
#include "planner/search.h"

#include <optional>
#include <string>
#include <vector>

namespace megagraph::planner {

/// Jobs without a good point: reason "not reached", "out of memory", "timeout" or "skipped".
std::vector<ProfileHole> profileHoles(const std::vector<ProfileJob>& jobs, const std::vector<ProfilePoint>& points);

/// Key of a data set in profiles: the first 8 digits of its content hash.
std::string datasetKey(const DatasetSpec& dataset);
/// Threads of one slot of a local cluster, and whether slots share cores.
int64_t slotThreads(const ClusterSpec& cluster);
bool sharedCores(const ClusterSpec& cluster);

struct FoundProfile { std::optional<Profile> profile; std::string match = "none"; };
/// "exact", "stale" (same hardware; versions or age over 90 days differ) or "other" for `profile` against this machine.
std::string profileMatch(const Profile& profile, const ClusterSpec& cluster);
/// The newest file of `home`/profiles for this machine, at least as many slots with equal threads, this model signature and data
/// set. Unreadable files are passed over. Exact matches first; `acceptStale` also takes a stale one.
FoundProfile findProfile(const std::string& home, const ClusterSpec& cluster, const ModelSpec& model, const DatasetSpec& dataset,
                         bool acceptStale);

/// For `clusters`: the tokens per sequence nearest to `wanted` whose number of sequences is a multiple of `replicas`.
int64_t sequenceTokensFor(int64_t nodes, int64_t wanted, int64_t replicas);

} // namespace megagraph::planner
