// SPDX-License-Identifier: Apache-2.0
// The attention cases whose fp64 results are stored in tests/data/kernels. Inputs are made again from seeds on every machine
// (Philox draws, sums and products of exact numbers only) and are exact in bf16, so one stored result serves fp32 and bf16
// kernels. Pure; used by the generator, the CPU test and megagraph-gpu-test.
#pragma once

#include "kernels/attention.h"
#include "kernels/edge_attention.h"
#include "kernels/graph/csr.h"
#include "kernels/graph/edge_tiles.h"
#include "kernels/graph/tiles.h"
#include "kernels/reference/attention.h"

#include <span>
#include <string>
#include <vector>

namespace megagraph::kernels::goldens {

enum class Op { Dense, Edges };
enum class GraphKind { NoGraph, Rings, Path, Star, Grid };
enum class TableKind { NoTable, Random, Huge, MinusInfinity };

struct Interval {
    int64_t begin = 0, end = 0;
    int64_t size() const { return end - begin; }
};

struct Case {
    const char* id = "";
    const char* what = "";
    Op op = Op::Dense;
    GraphKind graph = GraphKind::Rings;
    int64_t tokens = 0;
    Interval rows, keys; // of the tokens; empty = all of them
    int32_t heads = 1, dim = 64, hops = 2;
    TableKind table = TableKind::Random;
    bool token = false;   // the last token is a graph token
    int32_t segments = 1; // more than one: a pack of graphs
    double dropout = 0;
    bool selfKey = false; // edges
    bool oneHot = false;  // every softmax row has one probability of 1: dS is 0, gradients of q, k and table are rounding
    bool perEdge = false; // dense: a value per edge and head; edges: GT with an edge stream
};
/// At most 24; ids are file names.
std::span<const Case> allCases();
const Case* findCase(std::string_view id);

/// Everything that a call of the case reads. Spans point into this struct: do not copy.
struct Inputs {
    Inputs() = default;
    Inputs(const Inputs&) = delete;
    Inputs(Inputs&&) = default;

    Interval rows, keys;
    AttentionShape shape;
    std::vector<float> q, dO;     // [rows, H, d_h], every value exact in bf16
    std::vector<float> k, v;      // [keys, H, d_h]
    std::vector<float> table;     // [H, B] as learned; empty = no bias
    std::vector<float> shifted;   // [H, B] b - b[far]: what kernels receive
    std::vector<int32_t> component, segment; // [tokens]; segment empty = one
    std::vector<float> entryValues; // [H, E] by entry of the graph; empty = none
    std::vector<float> u, ds;       // [E, H, d_h], GT
    std::vector<uint8_t> classes; // [rows, keys], kMasked = not allowed; empty when neither table nor segments
    TileLists lists;
    Csr graph;                    // of all nodes; edges: rows of the interval
    Transposed transposed;
    int32_t hops = 0, classCount = 0;
    Dropout dropout;
    bool selfKey = false;

    Bias bias() const; // without edge values
    EdgeGraph edges() const;
    EdgeBias edgeBias() const;
};
Inputs makeInputs(const Case& c);

/// Edge values on the tile grid of rows x a part of the keys.
struct EdgeBlock {
    EdgeTiles tiles;
    std::vector<float> values; // [H, places]

    int64_t places() const { return int64_t(tiles.entries.size()); }
    /// gradient [H, places] to byEntry [E, H].
    void scatter(std::span<const float> gradient, int32_t heads, std::span<float> byEntry) const;
};
EdgeBlock edgeBlock(const Inputs& inputs, int64_t keyBegin, int64_t keyEnd);

/// One result array: `rows` rows of `width` values.
struct Array {
    std::string name; // o lse dq dk dv table dw s du
    int64_t rows = 0, width = 0;
    std::vector<double> values; // [rows, width]
};
/// The fp64 reference of a case: o, lse (as [rows, H], of the shifted table), dq, dk, dv, and the table gradient [H, B] if there is
/// a table; with edge values dw [E, H], with GT s and du [E, H, d_h]. Quadratic in the tokens.
std::vector<Array> referenceOf(const Case& c, const Inputs& inputs);

} // namespace megagraph::kernels::goldens
