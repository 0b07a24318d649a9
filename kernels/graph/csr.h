// SPDX-License-Identifier: Apache-2.0
// Graphs as raw CSR spans and the algorithms on them that need no library: reordering, induced subgraphs, transposition,
// components, degrees. Owned results are plain vectors. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace megagraph::kernels {

struct CsrView {
    int64_t nodes = 0;
    std::span<const int64_t> indptr;  // [nodes + 1]
    std::span<const int32_t> indices; // sorted inside a row
};
struct Csr {
    std::vector<int64_t> indptr;
    std::vector<int32_t> indices;
    CsrView view() const { return {int64_t(indptr.size()) - 1, indptr, indices}; }
};

/// order[t] = data set id of token t. Row t of the result is node order[t], columns renumbered and sorted.
Csr permute(CsrView graph, std::span<const int32_t> order);
/// Entry of `graph` behind each entry of permute(graph, order): per-entry values move with it.
std::vector<int64_t> permutedEntries(CsrView graph, std::span<const int32_t> order);
/// Subgraph induced by `tokens` (ids of `graph`, any order), renumbered to their positions.
Csr induced(CsrView graph, std::span<const int32_t> tokens);
/// Rows [begin, end) with all columns kept (global numbers).
Csr rows(CsrView graph, int64_t begin, int64_t end);
/// Undirected, no loops, no repeats.
Csr symmetrised(CsrView graph);
struct Transposed { std::vector<int64_t> indptr; std::vector<int32_t> rows; std::vector<int64_t> entries; };
/// keys = number of columns.
Transposed transposed(CsrView graph, int64_t keys);
/// Component number per node, in order of the smallest node; isolated nodes are components of their own.
std::vector<int32_t> components(CsrView graph);

} // namespace megagraph::kernels
