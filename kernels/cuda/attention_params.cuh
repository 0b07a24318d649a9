// SPDX-License-Identifier: Apache-2.0
// What the dense attention kernels are given, and where they find the class of a tile. Filled by attention_calls.cuh
// after all checks. Packed operands: head, then 64-row block, panels of pack.cuh; rows are padded to a multiple of 128
// with zeros.
#pragma once

#include "kernels/cuda/api.h"
#include "kernels/cuda/primitives.cuh"

namespace megagraph::kernels::cuda {

constexpr int kTile = 64;     // rows and columns of a class tile
constexpr int kThreads = 256; // of every dense kernel
constexpr int kMaxCodes = 32; // learned classes and the masked code
constexpr int kMaxPlanes = 5;
constexpr float kLog2e = 1.4426950408889634f;
constexpr float kLn2 = 0.693147180559945309f;
constexpr float kGtTerm = 1e-6f; // GT adds it to the denominator of a row

/// What a kernel instance adds to scores.
enum Addend : int { kNoBias, kClassBias, kEdgeBias }; // kEdgeBias: classes and edge values

/// Smallest and largest component and segment of a 64-block.
struct __align__(16) BlockIds
{
    int32_t componentLow, componentHigh, segmentLow, segmentHigh;
};
/// Class numbers of base pairs. Without a table: near = -1, far = unreachable = token = 0, masked = 1.
struct Codes {
    int32_t near, far, unreachable, token, masked, classes;
};
/// threshold 0: no dropout.
struct Mask {
    uint32_t threshold, key0, key1, item, layerSite;
    float keepScale;
};

/// Rows with a value that is not finite (attention_spread.cuh): two words per 64-row block and head each. any: one
/// word.
struct Notes {
    uint32_t *q, *k, *v, *dO, *lse, *delta, *any;
};

struct DenseParams {
    int64_t queries, keys, queryOffset, keyOffset;
    int32_t heads, dim, headOffset, keyBlocks; // keyBlocks: of 64, as queryBlocks
    int64_t queryBlocks;
    int64_t packedQueryBlocks, packedKeyBlocks; // per head, even
    float scale, scaleLog2;
    const unsigned char *q, *k, *v, *dO;
    // bias
    Codes codes;
    const float* table; // [heads, classes] or null
    const int32_t *queryComponent, *keyComponent, *querySegment, *keySegment;
    const BlockIds *queryIds, *keyIds;
    int32_t policy;
    MegagraphCudaPlanesView planes;
    MegagraphCudaListsView lists;
    MegagraphCudaEdgeValues edges;
    Mask mask;
    // forward
    void* o;
    int64_t oRowStride, oHeadStride;
    int32_t oType, partial, first;
    float* lse;
    float *stateM, *stateL, *stateAcc;
    // backward
    const float2* rowStats; // [heads, packedQueryBlocks * 64]: lse in log2 units (+inf: P is 0), delta
    float *dq, *dk, *dv;
    float* tableRows;        // [heads, key tiles, classes], or null: frozen
    int32_t *ticket, *turns; // 1 and [heads, queryBlocks], zero at the start
    double* tableSums;       // [heads, classes], or null
    Notes notes;             // null pointers in problems that mask nothing
};

enum TilePath : int32_t { kSkip = 0, kUniform = 1, kClasses = 2 };
enum StoredTile : int32_t { kStoredBase = 0, kStoredList = 1, kStoredPlanes = 2, kStoredConst = 3 };

/// One 64 x 64 tile. Classes: `stored` holds its near pairs; split: the class of base pairs is found per pair.
struct TileLook {
    int32_t path, code, kind;
    bool split;
    const unsigned char* stored;
};

/// b' in log2 units: full[code]; near[c] is full[c] for classes 0..K and the far entry for every code above.
struct SharedTables {
    float full[kMaxCodes], near[kMaxCodes];
};

/// By one warp; a barrier must follow.
__device__ __forceinline__ void fillTables(const DenseParams& p, int head, int lane, SharedTables* tables)
{
    const Codes& c = p.codes;
    const auto entry = [&](int code) {
        if (code == c.masked)
            return negativeInfinity();
        return p.table != nullptr && code < c.classes ? readGlobal(p.table + int64_t(head) * c.classes + code) * kLog2e
                                                      : 0.0f;
    };
    tables->full[lane] = entry(lane);
    tables->near[lane] = entry(lane <= c.near ? lane : c.far);
}

/// Class of all base pairs of a tile, or -1 if they differ.
__device__ __forceinline__ int32_t uniformBase(const Codes& c, bool table, const BlockIds& q, const BlockIds& k)
{
    if (q.segmentLow > k.segmentHigh || k.segmentLow > q.segmentHigh)
        return c.masked;
    if (q.segmentLow != q.segmentHigh || k.segmentLow != k.segmentHigh)
        return -1;
    if (!table)
        return c.far;
    if (q.componentHigh == -1 || k.componentHigh == -1)
        return c.token;
    if (q.componentLow == -1 || k.componentLow == -1)
        return -1;
    if (q.componentLow > k.componentHigh || k.componentLow > q.componentHigh)
        return c.unreachable;
    return q.componentLow == q.componentHigh && k.componentLow == k.componentHigh ? c.far : -1;
}

/// Class of one base pair; pairs outside the problem are masked.
__device__ __forceinline__ int32_t baseCode(const DenseParams& p, int64_t query, int64_t key)
{
    const Codes& c = p.codes;
    if (query >= p.queries || key >= p.keys)
        return c.masked;
    if (p.querySegment != nullptr && p.keySegment != nullptr &&
        readGlobal(p.querySegment + query) != readGlobal(p.keySegment + key))
        return c.masked;
    const int32_t qc = p.queryComponent != nullptr ? readGlobal(p.queryComponent + query) : 0;
    const int32_t kc = p.keyComponent != nullptr ? readGlobal(p.keyComponent + key) : 0;
    if (qc == -1 || kc == -1)
        return c.token;
    return qc == kc ? c.far : c.unreachable;
}

/// Policy `lists`: number of the tile among the touched tiles of its query block. By a whole warp.
__device__ __forceinline__ int64_t touchedBefore(const MegagraphCudaListsView& lists, int64_t queryBlock,
                                                 int64_t keyBlock)
{
    const int lane = int(threadIdx.x & 31);
    const int64_t checkpoint = keyBlock / 256;
    const int inside = int(keyBlock - checkpoint * 256); // of 256 tiles, 4 per byte, 2 bytes per lane
    uint32_t count = 0;
    for (int i = 0; i < 2; ++i) {
        const int first = (2 * lane + i) * 4;
        if (first >= inside)
            continue;
        uint32_t bits = readGlobal(lists.map + queryBlock * lists.mapStride + checkpoint * 64 + first / 4);
        if (inside - first < 4)
            bits &= (1u << (2 * (inside - first))) - 1;
        count += uint32_t(__popc((bits | bits >> 1) & 0x55u));
    }
    for (int step = 16; step > 0; step /= 2)
        count += shuffleXor(count, step);
    return int64_t(readGlobal(lists.rank + queryBlock * lists.rankStride + checkpoint)) + count;
}

/// Finds kind, code and storage of the near pairs of a tile.
__device__ __forceinline__ void findStored(const DenseParams& p, int64_t queryBlock, int64_t keyBlock, TileLook& look)
{
    look.kind = kStoredBase;
    if (p.policy == MegagraphCudaPlanes) {
        const MegagraphCudaPlanesView& s = p.planes;
        int64_t tile = queryBlock * s.keyBlocks + keyBlock;
        if (s.tileFirst != nullptr) {
            const int64_t begin = readGlobal(s.keyBlockBegin + queryBlock);
            if (keyBlock < begin || keyBlock >= readGlobal(s.keyBlockEnd + queryBlock))
                return;
            tile = readGlobal(s.tileFirst + queryBlock) + keyBlock - begin;
        }
        look.kind = kStoredPlanes;
        if (s.kinds != nullptr)
            look.kind = readGlobal(s.kinds + queryBlock * s.kindStride + keyBlock / 4) >> (2 * (keyBlock & 3)) & 3;
        const uint64_t* words = s.words + tile * s.planes * kTile;
        look.stored = reinterpret_cast<const unsigned char*>(words);
        if (look.kind == kStoredConst) {
            look.code = 0;
            for (int plane = 0; plane < s.planes; ++plane)
                look.code |= int32_t(readGlobal(words + plane * kTile) & 1) << plane;
        }
    } else if (p.policy == MegagraphCudaLists) {
        const MegagraphCudaListsView& s = p.lists;
        look.kind = readGlobal(s.map + queryBlock * s.mapStride + keyBlock / 4) >> (2 * (keyBlock & 3)) & 3;
        if (look.kind == kStoredBase)
            return;
        const int64_t touched = readGlobal(s.tileStart + queryBlock) + touchedBefore(s, queryBlock, keyBlock);
        const uint32_t offset = readGlobal(s.offsets + touched);
        look.code = int32_t(offset);
        if (look.kind != kStoredConst)
            look.stored =
                reinterpret_cast<const unsigned char*>(s.entries + readGlobal(s.blockStart + queryBlock) + offset);
    }
}

/// By whole warps, the same in each.
__device__ __forceinline__ TileLook findTile(const DenseParams& p, const SharedTables* tables, int64_t queryBlock,
                                             int64_t keyBlock)
{
    TileLook look = {kSkip, 0, kStoredBase, false, nullptr};
    if (queryBlock >= p.queryBlocks || keyBlock >= p.keyBlocks)
        return look;
    const int4 q = readGlobal(reinterpret_cast<const int4*>(p.queryIds + queryBlock));
    const int4 k = readGlobal(reinterpret_cast<const int4*>(p.keyIds + keyBlock));
    const int32_t base = uniformBase(p.codes, p.table != nullptr, {q.x, q.y, q.z, q.w}, {k.x, k.y, k.z, k.w});
    if (p.table != nullptr)
        findStored(p, queryBlock, keyBlock, look);
    if (look.kind == kStoredBase)
        look.code = base;
    if (look.kind == kStoredConst || (look.kind == kStoredBase && base >= 0)) {
        look.path = tables->full[look.code] == negativeInfinity() ? kSkip : kUniform;
        return look;
    }
    look.path = kClasses;
    look.split = base != p.codes.far;
    return look;
}

// ---- panels
// --------------------------------------------------------------------------------------------------------------

/// Bytes of 64 packed rows.
template <int D> constexpr int kBlockBytes = kTile* D * 2;

/// Byte offset of 16-byte chunk `chunk` of `row` in packed rows: 128-byte rows with the chunk index xor row mod 8, for
/// d_h 32 64-byte rows with the chunk index xor (row / 2) mod 4.
template <int D> __host__ __device__ __forceinline__ int panelOffset(int row, int chunk)
{
    if constexpr (D == 32)
        return row * 64 + ((chunk ^ (row >> 1 & 3)) << 4);
    else
        return (row >> 6) * kBlockBytes<D> + (chunk >> 3) * 8192 + (row & 63) * 128 + (((chunk & 7) ^ (row & 7)) << 4);
}

/// The row address that a lane gives to ldmatrix. `rowLane` < 16 and `chunkLane` < 2 vary over lanes; at(): a multiple
/// of 16 rows and of 2 chunks further, known at compile time.
template <int D> struct PanelLane {
    const unsigned char* base;
    uint32_t swizzled;

    __device__ __forceinline__ PanelLane(const unsigned char* panels, int rowLane, int chunkLane)
    {
        constexpr int rowBytes = D == 32 ? 64 : 128;
        base = panels + rowLane * rowBytes;
        swizzled = uint32_t(chunkLane ^ (D == 32 ? rowLane >> 1 & 3 : rowLane & 7)) << 4;
    }
    __device__ __forceinline__ const unsigned char* at(int rows, int chunks) const
    {
        constexpr int rowBytes = D == 32 ? 64 : 128;
        const int block = D == 32 ? 0 : (rows >> 6) * kBlockBytes<D> + (chunks >> 3) * 8192;
        const int row = D == 32 ? rows : rows & 63;
        return base + (block + row * rowBytes) + (swizzled ^ uint32_t((chunks & 7) << 4));
    }
};

/// Contiguous 16-byte pieces by all threads of the block.
__device__ __forceinline__ void copyPanels(unsigned char* shared, const unsigned char* global, int bytes)
{
    for (int at = int(threadIdx.x) * 16; at < bytes; at += kThreads * 16)
        copyAsync(shared + at, global + at);
}

} // namespace megagraph::kernels::cuda
