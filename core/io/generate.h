// SPDX-License-Identifier: Apache-2.0
// Made-up graphs (data design, section 10). Draws are counter-based (Philox keyed by seed, stream, index) and use integers
// and sums of uniforms only, so the content hash is the same on every machine and is a test constant. Pure.
#pragma once

#include "core/io/raw_graph.h"
#include "core/result.h"

#include <cstdint>
#include <string>

namespace megagraph {

struct GenerateOptions {
    std::string kind = "community"; // community | rmat | grid | path | star
    uint64_t seed = 0;
    int64_t nodes = 2003;           // community, path
    int64_t communities = 7;        // community; classes elsewhere
    int64_t degree = 12;            // community: mean degree
    int64_t inside = 60;            // community: percent of edges inside communities
    int64_t features = 32;          // community
    double separation = 0.2;        // community: distance of class centres from 0 per feature, in units of the noise
    int64_t scale = 16, edgeFactor = 16; // rmat: 2^scale nodes, edgeFactor x nodes draws
    int64_t rows = 64, columns = 64; // grid
    bool torus = false;              // grid
    int64_t leaves = 1000;           // star
};

/// The graph with labels, one split "random:60/20/20:SEED", ready for storeGraph. Usage on bad options.
Result<RawGraph> generateGraph(const GenerateOptions& options);

} // namespace megagraph
