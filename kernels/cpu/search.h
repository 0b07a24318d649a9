// SPDX-License-Identifier: Apache-2.0
// Inner loops of the truncated multi-source search, one table per instruction set like kernels/cpu/set_entry.h. Plain structs
// of pointers, no includes beyond the integer types. 512 sources are 512 bit lanes: a *line* is 8 words per node, and bit s of
// a line belongs to source s. Read and written only by kernels/graph/search.cpp, after its checks.
#pragma once

#include <cstdint>

namespace megagraph::kernels::cpu {

constexpr int64_t kSearchWords = 8;

struct SearchCall {
    int64_t nodes, entries;
    const int64_t* indptr;
    const int32_t* indices;
    int32_t planes, level;   // w; distance t of this step
    const uint64_t* lanes;   // [8] sources in use
    uint64_t* visited;       // [nodes, 8] sources within t - 1 hops, updated by a push
    uint64_t* current;       // push: [nodes, 8] sources at t - 1 hops, cleared
    uint64_t* next;          // push: zero on entry, sources at t hops after; pull: sources within t hops
    uint64_t* codes;         // [nodes, w, 8] planes of the distance; all bits where none is known
    uint64_t* reached;       // [nodes / 64 rounded up] bit per node that any source reaches
    const int32_t* frontier; // push: nodes with a current line
    int64_t frontierSize;
    int32_t* touched;        // push: room for `nodes`; the new frontier
};

/// The 8 tiles (8 x 64 sources) x (64 nodes from `first`), nodes as keys.
struct SearchTiles {
    uint64_t near[8][64];    // [tile][key]: sources that reach the key; 0 at keys outside
    uint64_t code[5][8][64]; // [plane][tile][key], set where near[..] is not 0
    int64_t pairs[8];        // bits of near
    uint64_t keys;           // keys that any source reaches
};

struct SearchKernels {
    const char* name;
    /// One level from a short frontier; returns the size of the new one.
    int64_t (*push)(const SearchCall&);
    /// One level at nodes [begin, end), begin a multiple of 64; true if any source reached a new node.
    bool (*pull)(const SearchCall&, int64_t begin, int64_t end);
    void (*tiles)(const SearchCall&, int64_t first, int64_t count, SearchTiles&);
    /// counts[t] += pairs at distance t <= hops of tile `tile`.
    void (*count)(const SearchTiles&, int32_t planes, int32_t hops, int32_t tile, int64_t* counts);
    /// Planes of the 8 tiles at nodes [first, first + count), row-major (TilePlanesView): to[tile] is written.
    void (*planesOut)(const SearchCall&, int64_t first, int64_t count, uint64_t* const* to);
    void (*transpose)(uint64_t* words);
};

/// The table of the set in use (dispatch.h).
const SearchKernels& searchKernels();

} // namespace megagraph::kernels::cpu
