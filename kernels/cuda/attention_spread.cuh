// SPDX-License-Identifier: Apache-2.0
// Values that are not finite, in problems that mask pairs. P of a masked pair is 0, but 0 x NaN is NaN: a product over
// a tile would carry it into rows that do not read it. So the pass before (pack.cuh) writes 0 in their place and notes
// their rows, and these kernels, after the others, bring NaN to the rows that do read them. They return at once if
// nothing was noted. One thread per row of a 64-block.
#pragma once

#include "kernels/cuda/attention_edges.cuh"

namespace megagraph::kernels::cuda {

/// Bit per row of block `block` of one head.
__device__ __forceinline__ uint64_t notedRows(const uint32_t* notes, int64_t blocks, int head, int64_t block)
{
    const uint32_t* at = notes + 2 * (head * blocks + block);
    return uint64_t(readGlobal(at)) | uint64_t(readGlobal(at + 1)) << 32;
}

/// Class of one pair of a tile that is not skipped.
__device__ __forceinline__ int32_t pairCode(const DenseParams& p, const TileLook& look, int64_t queryBlock,
                                            int64_t keyBlock, int row, int column)
{
    if (look.path == kUniform)
        return look.code;
    int32_t code = p.codes.near + 1;
    if (look.kind == kStoredPlanes) {
        code = 0;
        for (int plane = 0; plane < p.planes.planes; ++plane)
            code |= int32_t(planeWord(p, look.stored, plane, row) >> column & 1) << plane;
    } else if (look.kind == kStoredList) {
        const auto* entries = reinterpret_cast<const uint16_t*>(look.stored);
        const int count = readGlobal(entries);
        for (int e = 1; e <= count; ++e) {
            const uint32_t entry = readGlobal(entries + e);
            if (int(entry >> 4) == (row << 6 | column))
                code = int32_t(entry & 15);
        }
    }
    return code <= p.codes.near ? code : baseCode(p, queryBlock * kTile + row, keyBlock * kTile + column);
}

/// A tile as the kernels of this file see it; found by whole warps.
struct SpreadTile {
    TileLook look;
    EdgeLook edges;
    int64_t queryBlock, keyBlock;
};
__device__ __forceinline__ SpreadTile spreadTile(const DenseParams& p, const SharedTables* tables, int64_t queryBlock,
                                                 int64_t keyBlock)
{
    SpreadTile tile{findTile(p, tables, queryBlock, keyBlock), {0, 0}, queryBlock, keyBlock};
    if (p.edges.values != nullptr && tile.look.path != kSkip)
        tile.edges = findEdges(p, queryBlock, keyBlock);
    return tile;
}
struct SpreadPair {
    bool allowed;
    int32_t code;
    int64_t edge; // place in a head's edge values, or -1
};
__device__ __forceinline__ SpreadPair spreadPair(const DenseParams& p, const SharedTables* tables, int head,
                                                 const SpreadTile& tile, int row, int column)
{
    const bool inside = tile.queryBlock * kTile + row < p.queries && tile.keyBlock * kTile + column < p.keys;
    if (tile.look.path == kSkip || !inside)
        return {false, 0, -1};
    SpreadPair pair{true, pairCode(p, tile.look, tile.queryBlock, tile.keyBlock, row, column), -1};
    for (int e = 0; e < tile.edges.count; ++e) {
        if (int(readGlobal(p.edges.positions + tile.edges.first + e)) == (row << 6 | column))
            pair.edge = tile.edges.first + e;
    }
    pair.allowed =
        tables->full[pair.code] != negativeInfinity() &&
        (pair.edge < 0 || readGlobal(p.edges.values + head * p.edges.edges + pair.edge) != negativeInfinity());
    return pair;
}
/// The row (or key) of a thread.
struct SpreadPlace {
    int head, row;
    int64_t block, token;
    const SharedTables* tables;
};
/// False, for the whole launch: nothing was noted.
__device__ __forceinline__ bool spreadPlace(const DenseParams& p, SpreadPlace& at)
{
    if (readGlobal(p.notes.any) == 0)
        return false;
    auto* tables = reinterpret_cast<SharedTables*>(dynamicShared());
    at.head = int(blockIdx.x % unsigned(p.heads));
    at.row = int(threadIdx.x);
    at.block = blockIdx.x / unsigned(p.heads);
    at.token = at.block * kTile + at.row;
    at.tables = tables;
    if (threadIdx.x < 32)
        fillTables(p, at.head, int(threadIdx.x), tables);
    __syncthreads();
    return true;
}

__global__ void __launch_bounds__(kTile) spreadForward(const __grid_constant__ DenseParams p)
{
    SpreadPlace place;
    if (!spreadPlace(p, place))
        return;
    const auto [head, row, block, query, tables] = place;
    bool byKey = false, byValue = false;
    for (int64_t keyBlock = 0; keyBlock < p.keyBlocks; ++keyBlock) {
        const uint64_t keys = notedRows(p.notes.k, p.packedKeyBlocks, head, keyBlock),
                       values = notedRows(p.notes.v, p.packedKeyBlocks, head, keyBlock);
        if ((keys | values) == 0)
            continue;
        const SpreadTile tile = spreadTile(p, tables, block, keyBlock);
        for (int column = 0; column < kTile; ++column) {
            if (((keys | values) >> column & 1) == 0 || !spreadPair(p, tables, head, tile, row, column).allowed)
                continue;
            byKey = byKey || (keys >> column & 1) != 0;
            byValue = byValue || (values >> column & 1) != 0;
        }
    }
    if (query >= p.queries)
        return;
    const int64_t at = int64_t(head) * p.queries + query;
    const bool reads = p.partial != 0 ? p.stateL[at] != 0.0f : p.lse[at] != negativeInfinity();
    byKey = byKey || (reads && (notedRows(p.notes.q, p.packedQueryBlocks, head, block) >> row & 1) != 0);
    if (byKey && p.partial != 0)
        p.stateL[at] = NAN;
    else if (byKey)
        p.lse[at] = NAN;
    for (int x = 0; (byKey || byValue) && x < p.dim; ++x) {
        if (p.partial != 0)
            p.stateAcc[(query * p.heads + head) * p.dim + x] = NAN;
        else if (p.oType == MegagraphCudaFloat)
            static_cast<float*>(p.o)[query * p.oRowStride + head * p.oHeadStride + x] = NAN;
        else
            static_cast<uint16_t*>(p.o)[query * p.oRowStride + head * p.oHeadStride + x] = uint16_t(0x7FC0);
    }
}

/// Rows whose P, and whose dS beyond that, are not numbers.
struct SpreadRows {
    uint64_t p, dS, dO;
};
__device__ __forceinline__ SpreadRows spreadRows(const DenseParams& p, int head, int64_t block)
{
    const int64_t blocks = p.packedQueryBlocks;
    const uint64_t dO = notedRows(p.notes.dO, blocks, head, block);
    return {notedRows(p.notes.q, blocks, head, block) | notedRows(p.notes.lse, blocks, head, block),
            notedRows(p.notes.delta, blocks, head, block) | dO, dO};
}

/// dq.
__global__ void __launch_bounds__(kTile) spreadQueries(const __grid_constant__ DenseParams p)
{
    SpreadPlace place;
    if (!spreadPlace(p, place))
        return;
    const auto [head, row, block, query, tables] = place;
    const SpreadRows rows = spreadRows(p, head, block);
    const bool own = ((rows.p | rows.dS) >> row & 1) != 0; // then any key that it reads
    bool bad = false;
    for (int64_t keyBlock = 0; keyBlock < p.keyBlocks; ++keyBlock) {
        const uint64_t keys = notedRows(p.notes.k, p.packedKeyBlocks, head, keyBlock) |
                              notedRows(p.notes.v, p.packedKeyBlocks, head, keyBlock);
        if ((keys | rows.p | rows.dS) == 0)
            continue;
        const SpreadTile tile = spreadTile(p, tables, block, keyBlock);
        for (int column = 0; column < kTile; ++column) {
            if (!bad && (own || (keys >> column & 1) != 0))
                bad = spreadPair(p, tables, head, tile, row, column).allowed;
        }
    }
    for (int x = 0; bad && query < p.queries && x < p.dim; ++x)
        p.dq[(query * p.heads + head) * p.dim + x] = NAN;
}

/// dk, dv, the table's sums and the edge values' gradient. One thread per key.
__global__ void __launch_bounds__(kTile) spreadKeys(const __grid_constant__ DenseParams p)
{
    SpreadPlace place;
    if (!spreadPlace(p, place))
        return;
    const auto [head, column, block, key, tables] = place;
    const uint64_t keys = notedRows(p.notes.k, p.packedKeyBlocks, head, block),
                   values = notedRows(p.notes.v, p.packedKeyBlocks, head, block);
    const bool ownKey = (keys >> column & 1) != 0, ownValue = (values >> column & 1) != 0;
    bool badKey = false, badValue = false;
    for (int64_t queryBlock = 0; queryBlock < p.queryBlocks; ++queryBlock) {
        const SpreadRows rows = spreadRows(p, head, queryBlock);
        if ((keys | values | rows.p | rows.dS) == 0)
            continue;
        const SpreadTile tile = spreadTile(p, tables, queryBlock, block);
        for (int row = 0; row < kTile; ++row) {
            const bool probability = ownKey || (rows.p >> row & 1) != 0,
                       gradient = probability || ownValue || (rows.dS >> row & 1) != 0;
            const SpreadPair pair =
                gradient ? spreadPair(p, tables, head, tile, row, column) : SpreadPair{false, 0, -1};
            if (!pair.allowed)
                continue;
            badKey = true;
            badValue = badValue || probability || (rows.dO >> row & 1) != 0;
            if (p.tableSums != nullptr && pair.code != p.codes.far)
                atomicAdd(p.tableSums + int64_t(head) * p.codes.classes + pair.code, double(NAN)); // NaN in any order
            if (p.edges.gradient != nullptr && pair.edge >= 0)
                p.edges.gradient[head * p.edges.edges + pair.edge] = NAN;
        }
    }
    for (int x = 0; key < p.keys && x < p.dim; ++x) {
        const int64_t at = (key * p.heads + head) * p.dim + x;
        if (badKey)
            p.dk[at] = NAN;
        if (badValue)
            p.dv[at] = NAN;
    }
}

} // namespace megagraph::kernels::cuda
