// SPDX-License-Identifier: Apache-2.0
// Token order of a data set: components first (largest first), METIS recursive bisection down to small parts inside a
// component, degree inside a part, isolated nodes last (parallelism design, section 2). Clusters: METIS parts grouped to
// about S tokens. METIS is reached only behind the guard of kernels/graph/partition. Deterministic for a seed.
#pragma once

#include "core/result.h"
#include "kernels/graph/csr.h"

#include <functional>
#include <stop_token>
#include <string>

namespace megagraph::kernels {

using Progress = std::function<void(const std::string& what, int64_t done, int64_t total)>;

struct TokenOrder {
    std::vector<int32_t> order;     // [N] token -> data set id
    std::vector<int32_t> position;  // [N] data set id -> token
    std::vector<int32_t> component; // [N] per token
    std::string kind = "metis";     // "metis" "natural"
};
struct Clusters { std::vector<std::vector<int32_t>> sequences; double keptEdges = 1.0; }; // tokens of the order, ascending

Result<TokenOrder> buildTokenOrder(CsrView graph, const std::string& kind, int64_t seed, const Progress& progress,
                                   std::stop_token stop);
/// `graph` is in token order.
Result<Clusters> buildClusters(CsrView graph, int64_t tokensPerSequence, int64_t seed);

/// Cached in `home`/cache under SHA-256 of (structure hash, kind, seed, METIS version, algorithm version); built when
/// absent or unreadable.
Result<TokenOrder> cachedTokenOrder(const std::string& home, const std::string& structureHash, CsrView graph,
                                    const std::string& kind, int64_t seed, const Progress& progress, std::stop_token stop);
Result<Clusters> cachedClusters(const std::string& home, const std::string& structureHash, CsrView ordered,
                                const std::string& kind, int64_t tokensPerSequence, int64_t seed);

} // namespace megagraph::kernels
