// SPDX-License-Identifier: Apache-2.0
// What one kernel call needs, as plain structs of pointers and numbers. The instruction sets (set_*.cpp) are compiled with
// their own flags and include this file only, so that no inline function of a shared header can reach the linker in an
// AVX-512 copy. Filled by kernels/attention.cpp, edge_attention.cpp and dropout.cpp after all checks; read only by tasks.
#pragma once

#include <cstdint>

namespace megagraph::kernels::cpu {

constexpr int32_t kBlock = 64;    // query rows and keys of a tile
constexpr int32_t kMaxCodes = 32; // B learned classes and the masked code
constexpr int32_t kStripBlocks = 8; // query blocks whose dK, dV and table sums are added up apart (kBackwardRows)

/// [rows, heads, dim] with element strides.
struct View {
    const float* data;
    int64_t rowStride, headStride;
};
struct MutableView {
    float* data;
    int64_t rowStride, headStride;
};
/// The same for dense attention, whose elements are fp32 or bf16 (DenseCall::bf16).
struct DenseView {
    const void* data;
    int64_t rowStride, headStride;
};
struct MutableDenseView {
    void* data;
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

/// Raw form of TilePlanesView; words null: the call reads lists. Ranges null: every tile is stored.
struct Planes {
    int64_t keyBlocks;
    const uint64_t* words;
    const int64_t* first;
    const int32_t *begin, *end;
};
/// As kernels::EdgeTile.
struct EdgeTile {
    uint32_t keyBlock, count;
    int64_t first;
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
    int32_t pairDim;                           // dim rounded up to 32: rows of bf16 operands
    int32_t kvSplits;
    double scale;
    bool bf16;                                 // elements of q, k, v, dO and o
    // log2 units of a score: queryFactor is multiplied into q, scoreFactor (> 0) into q'.k + addend, addends carry addendScale
    float queryFactor, scoreFactor, addendScale;
    DenseView q, k, v, dO;
    // bias; table null = every allowed pair is base and adds nothing
    int32_t hops, classes, planeCount;
    const float* table; // [heads, classes]
    const int32_t *queryComponent, *keyComponent, *querySegment, *keySegment; // null = one component, one segment
    Lists lists;
    Planes planes;
    const int64_t* edgeStart; // edge values; edgeValues null: off
    const EdgeTile* edgeTiles;
    const uint16_t* edgePositions;
    const float* edgeValues; // [heads, edges]
    float* edgeGradient;     // [heads, edges] or null
    int64_t edges;
    Mask mask;
    // forward and partial
    MutableDenseView o;
    float* lse;
    float *stateM, *stateL, *stateAcc;
    bool partial, first;
    // backward
    const float *lseIn, *delta;
    float *dq, *dk, *dv;
    double* tablePartials;
    // workspace
    unsigned char *packedK, *packedV; // forward: per (head, key block), laid out by the set's operands
    BlockIds *queryIds, *keyIds;   // [blocks]
    float* splitDq;                // backward with kvSplits > 1: [heads * kvSplits, query blocks, rows of dQ^T, 64]
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
/// Scratch of one slot, in floats; the carving order is the one of dense_forward.inc and dense_backward.inc. `pairs`: the
/// operands are bf16 pairs (dense_pairs.inc), else fp32 (dense_fp32.inc).
static inline int64_t forwardScratchFloats(const DenseCall& call, bool pairs)
{
    const int64_t shared = kBlock * (kBlock + 3) + kBlock * kBlock / 4 + kMaxCodes; // S^T; m, l, alpha; class codes, table
    if (pairs)
        return shared + int64_t(kBlock) * (call.pairDim / 2 + call.wideDim + kBlock / 2); // Q^T, O^T, P^T
    return shared + int64_t(kBlock) * 2 * call.paddedDim;                                 // Q^T, O^T
}
static inline int64_t backwardScratchFloats(const DenseCall& call, bool pairs)
{
    const int64_t rows = (call.queries + kBlock - 1) / kBlock * kBlock, padded = call.paddedDim, wide = call.wideDim;
    const int64_t half = call.pairDim / 2; // floats in a row of pairDim bf16
    const int64_t operands = pairs ? 2 * half + wide : 2 * padded + 2 * wide; // Q and dO, by columns and by rows
    const int64_t perRow = operands + 2 + (call.kvSplits > 1 ? 0 : pairs ? wide : padded);
    const int64_t keys = pairs ? 2 * half + wide / 2 : 2 * padded; // K, V
    const int64_t tile = int64_t(kBlock) * (keys + 2 * wide + 2 * kBlock + (pairs ? 3 * kBlock / 2 : 0));
    const int64_t strips = (rows / kBlock + kStripBlocks - 1) / kStripBlocks;
    return rows * perRow + tile + kBlock * kBlock / 4 + kMaxCodes + strips * 2 * kMaxCodes; // codes, table, table sums (fp64)
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
