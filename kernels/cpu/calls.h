// SPDX-License-Identifier: Apache-2.0
// What one kernel call needs, as plain structs of pointers and numbers. The instruction sets (set_*.cpp) are compiled with
// their own flags and include this file only, so that no inline function of a shared header can reach the linker in an
// AVX-512 copy. Filled by kernels/attention.cpp, edge_attention.cpp and dropout.cpp after all checks; read only by tasks.
#pragma once

#include <cstdint>

namespace megagraph::kernels::cpu {

constexpr int32_t kBlock = 64;    // query rows and keys of a tile
constexpr int32_t kMaxCodes = 32; // B learned classes and the masked code

/// [rows, heads, dim] with element strides.
struct View {
    const float* data;
    int64_t rowStride, headStride;
};
struct MutableView {
    float* data;
    int64_t rowStride, headStride;
};

/// Raw form of TileListsView (kernels/types.h).
struct Lists {
    int64_t queryBlocks, keyBlocks, mapStride, rankStride;
    const uint8_t* map;
    const uint32_t* rank;
    const int64_t* tileStart;
    const uint32_t* offsets;
    const int64_t* blockStart;
    const uint16_t* entries;
};

/// threshold 0: off. Keys are the two halves of splitmix64(seed, step).
struct Mask {
    uint32_t threshold, key0, key1, item, layerSite;
    float keepScale;
};

/// Smallest and largest component and segment of a 64-block.
struct BlockIds {
    int32_t componentLow, componentHigh, segmentLow, segmentHigh;
};

struct DenseCall {
    int64_t queries, keys, queryOffset, keyOffset;
    int32_t heads, dim, paddedDim, headOffset; // paddedDim: dim rounded up to 4
    int32_t wideDim;                           // dim rounded up to 16: rows of the backward's vector operands
    int32_t kvSplits;
    double scale;
    View q, k, v, dO;
    // bias; table null = every allowed pair is base and adds nothing
    int32_t hops, classes;
    const float* table; // [heads, classes]
    const int32_t *queryComponent, *keyComponent, *querySegment, *keySegment; // null = one component, one segment
    Lists lists;
    Mask mask;
    // forward and partial
    MutableView o;
    float* lse;
    float *stateM, *stateL, *stateAcc;
    bool partial, first;
    // backward
    const float *lseIn, *delta;
    float *dq, *dk, *dv;
    double* tablePartials;
    // workspace
    float *packedK, *packedV;      // forward: [heads, key blocks * 64, paddedDim]
    BlockIds *queryIds, *keyIds;   // [blocks]
    float* splitDq;                // backward with kvSplits > 1: [heads * kvSplits, query blocks, paddedDim, 64]
    unsigned char* scratch;        // slots * scratchBytes, 64-byte aligned
    int64_t scratchBytes;
};

enum EdgeKind : int32_t { kEdgePlain = 0, kEdgeValues = 1, kEdgeClasses = 2, kEdgeGt = 3 }; // as EdgeBiasKind

struct EdgeCall {
    int64_t rows, keys, entries;
    const int64_t* indptr;
    const int32_t* indices;
    const int64_t* transposedIndptr;
    const int32_t* transposedRows;
    const int64_t* transposedEntries;
    bool selfKey;
    int64_t selfOffset, queryOffset, keyOffset;
    const int32_t* keyNumbers; // null: keyOffset + key
    int32_t heads, dim, headOffset, rowChunk;
    double scale;
    View q, k, v, dO;
    Mask mask;
    // bias
    EdgeKind kind;
    const float* values; // [heads, entries]
    const uint8_t* classes;
    const float* table; // [heads, classCount]
    int32_t classCount, selfClass;
    const float* u; // [entries, heads, dim], null: ones
    // forward; partial: o is the state's acc
    MutableView o;
    float* lse;
    float* s; // [entries, heads, dim] or null
    bool partial, first;
    float *stateM, *stateL;
    // backward
    const float *lseIn, *delta;
    float* stats; // [rows, 2 heads]: lse in log2 units, delta; null: keys read lseIn and delta
    float *dq, *dk, *dv;
    float* dValues;
    double* tablePartials; // [tasks, heads, classCount]
    const float* ds;
    float* du;
};
/// Scratch of one slot, in floats; the carving order is the one of dense_forward.inc and dense_backward.inc.
static inline int64_t forwardScratchFloats(const DenseCall& call)
{
    const int64_t panels = int64_t(kBlock) * (2 * call.paddedDim + kBlock + 3); // Q^T, O^T, S^T; m, l, alpha
    return panels + kBlock * kBlock / 4 + kMaxCodes;                            // class codes (bytes), table
}
static inline int64_t backwardScratchFloats(const DenseCall& call)
{
    const int64_t rows = (call.queries + kBlock - 1) / kBlock * kBlock;
    const int64_t perRow = 2 * call.paddedDim + 2 * call.wideDim + 2 + (call.kvSplits == 1 ? call.paddedDim : 0);
    const int64_t tile = int64_t(kBlock) * (2 * call.paddedDim + 2 * call.wideDim + 2 * kBlock);
    return rows * perRow + tile + kBlock * kBlock / 4 + kMaxCodes + 2 * kMaxCodes; // codes, table, table sums (fp64)
}

constexpr int64_t kEdgeRows = 256; // rows (or keys) per task

struct DropoutCall {
    Mask mask;
    int64_t rows, cols, row0, col0;
    const float* x;
    float* y;
};
constexpr int64_t kDropoutElements = 1 << 15; // about this many elements per task

} // namespace megagraph::kernels::cpu
