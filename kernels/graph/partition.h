// SPDX-License-Identifier: Apache-2.0
// The only caller of METIS 5.1, behind the guard of the data design, section 9: symmetrise, strip loops, merge repeats; k = 1,
// k = n and edgeless graphs never reach it; every result is verified and repaired or replaced by a greedy one.
#pragma once

#include "core/result.h"
#include "kernels/graph/csr.h"

#include <string>

namespace megagraph::kernels {

struct PartitionOptions {
    int64_t parts = 2, seed = 1;
    std::string method = "metis"; // "metis" "greedy" "blocks"
    bool balanceEdges = true;     // second constraint besides nodes
    bool nested = false;          // always recursive bisection: neighbouring part numbers are neighbouring regions
};
struct Partition {
    std::vector<int32_t> part;    // [N]
    int64_t cut = 0;              // undirected edges between parts, counted on the prepared graph
    int64_t repaired = 0;         // nodes moved by the guard
    std::string method;           // what really made it
};
/// Errors: InvalidInput when 1 <= parts <= max(nodes, 1) does not hold.
Result<Partition> partition(CsrView graph, const PartitionOptions& options);
/// Version of the library behind it, "5.1.0": part of cache keys.
std::string partitionerVersion();

} // namespace megagraph::kernels
