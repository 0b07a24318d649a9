// SPDX-License-Identifier: Apache-2.0
// Expansion of a class tile into shared memory, one byte per pair, in fragment order: within a row of 64 codes column
// bits [j2 j1 j0 t1 t0 b] lie at [t1 t0 j2 j1 j0 b], so a lane reads the 16 codes of a row that it needs with one
// 16-byte load. The forward pass has queries as rows, the key-stationary backward pass keys. By 128 threads, numbered
// `who`, whole warps.
#pragma once

#include "kernels/cuda/attention_params.cuh"

namespace megagraph::kernels::cuda {

constexpr int kExpanders = 128;
constexpr int kCodeBytes = kTile * kTile;
constexpr uint32_t kNoCode = 0xFFFFFFFFu; // base pair of a split tile, until splitPass

__device__ __forceinline__ int fragmentPlace(int column)
{
    return (column >> 1 & 3) * 16 + (column >> 3) * 2 + (column & 1);
}

/// 64 bits of one row of a plane; Dense tiles of `lists` are aligned to 2 bytes only.
__device__ __forceinline__ uint64_t planeWord(const DenseParams& p, const unsigned char* stored, int plane, int row)
{
    const unsigned char* at = stored + (plane * kTile + row) * 8;
    if (p.policy == MegagraphCudaPlanes)
        return readGlobal(reinterpret_cast<const uint64_t*>(at));
    const auto* part = reinterpret_cast<const uint16_t*>(at);
    uint64_t word = 0;
    for (int i = 0; i < 4; ++i)
        word |= uint64_t(readGlobal(part + i)) << (16 * i);
    return word;
}

/// Bits 2t and 2t + 1 of the four bytes of `bits` become bit `plane` of eight codes, in two words.
__device__ __forceinline__ void spreadBits(uint32_t bits, int t, int plane, uint32_t& low, uint32_t& high)
{
    const uint32_t pairs = bits >> (2 * t) & 0x03030303u;
    const uint32_t a = __byte_perm(pairs, 0, 0x1100), b = __byte_perm(pairs, 0, 0x3322);
    low |= ((a & 0x00010001u) | (a >> 1 & 0x01000100u)) << plane;
    high |= ((b & 0x00010001u) | (b >> 1 & 0x01000100u)) << plane;
}

__device__ __forceinline__ void fillCodes(unsigned char* codes, uint32_t word, int who)
{
    for (int i = who; i < kCodeBytes / 16; i += kExpanders)
        *reinterpret_cast<uint4*>(codes + 16 * i) = make_uint4(word, word, word, word);
}

/// Near pairs of a LIST tile; returns a bit per class met by this thread. kTransposed: keys are the rows of `codes`.
template <bool kTransposed>
__device__ __forceinline__ uint32_t scatterList(const unsigned char* stored, unsigned char* codes, int who)
{
    const auto* entries = reinterpret_cast<const uint16_t*>(stored);
    const int count = readGlobal(entries);
    uint32_t present = 0;
#pragma unroll 1
    for (int e = 1 + who; e <= count; e += kExpanders) {
        const uint32_t entry = readGlobal(entries + e);
        const int row = int(entry >> 10), column = int(entry >> 4 & 63);
        codes[kTransposed ? column * kTile + fragmentPlace(row) : row * kTile + fragmentPlace(column)] =
            static_cast<unsigned char>(entry & 15);
        present |= 1u << (entry & 15);
    }
    return present;
}

/// Gives base pairs (codes above K) their class. Each thread looks at the 16-byte pieces who, who + 128.
template <bool kTransposed>
__device__ __forceinline__ void splitPass(const DenseParams& p, int64_t queryBlock, int64_t keyBlock,
                                          unsigned char* codes, int who)
{
#pragma unroll 1
    for (int i = 0; i < 32; ++i) {
        const int place = i & 15, piece = who + kExpanders * (i >> 4);
        const int row = piece >> 2, column = (place >> 1) * 8 + (piece & 3) * 2 + (place & 1);
        unsigned char* code = codes + piece * 16 + place;
        if (int32_t(*code) <= p.codes.near)
            continue;
        const int query = kTransposed ? column : row, key = kTransposed ? row : column;
        *code = static_cast<unsigned char>(baseCode(p, queryBlock * kTile + query, keyBlock * kTile + key));
    }
}

/// Forward: rows are queries. `barrier`: a named barrier of these 128 threads.
__device__ __forceinline__ void expandRows(const DenseParams& p, const TileLook& look, int64_t queryBlock,
                                           int64_t keyBlock, unsigned char* codes, int who, int barrier)
{
    if (look.kind == kStoredPlanes) {
#pragma unroll 1
        for (int piece = who; piece < kCodeBytes / 16; piece += kExpanders) {
            uint4 out = make_uint4(0, 0, 0, 0);
#pragma unroll 1
            for (int plane = 0; plane < p.planes.planes; ++plane) {
                const uint64_t word = planeWord(p, look.stored, plane, piece >> 2);
                spreadBits(uint32_t(word), piece & 3, plane, out.x, out.y);
                spreadBits(uint32_t(word >> 32), piece & 3, plane, out.z, out.w);
            }
            *reinterpret_cast<uint4*>(codes + piece * 16) = out;
        }
    } else {
        fillCodes(codes, look.split ? kNoCode : uint32_t(p.codes.far) * 0x01010101u, who);
        if (look.kind == kStoredList) {
            namedBarrier(barrier, kExpanders);
            scatterList<false>(look.stored, codes, who);
            namedBarrier(barrier, kExpanders);
        }
    }
    if (look.split)
        splitPass<false>(p, queryBlock, keyBlock, codes, who);
}

/// 32 x 32 bits across a warp: bit c of lane r becomes bit r of lane c.
__device__ __forceinline__ uint32_t transposeBits(uint32_t x, int lane)
{
    uint32_t low = 0x0000FFFFu; // bit positions without `step`
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
        const uint32_t other = shuffleXor(x, step);
        x = (lane & step) == 0 ? (x & low) | (other & low) << step : (x & ~low) | (other & ~low) >> step;
        low ^= low << (step / 2);
    }
    return x;
}

/// 32 keys x 32 queries of a planes tile, keys as rows, by one warp. Returns a bit per class 0..K in this lane's row.
__device__ __forceinline__ uint32_t expandCorner(const DenseParams& p, const unsigned char* stored, int keyHalf,
                                                 int queryHalf, unsigned char* codes)
{
    const int lane = int(threadIdx.x & 31);
    uint32_t bits[kMaxPlanes] = {};
#pragma unroll
    for (int plane = 0; plane < kMaxPlanes; ++plane) {
        if (plane < p.planes.planes)
            bits[plane] =
                transposeBits(uint32_t(planeWord(p, stored, plane, 32 * queryHalf + lane) >> (32 * keyHalf)), lane);
    }
    unsigned char* row = codes + (32 * keyHalf + lane) * kTile + 8 * queryHalf;
#pragma unroll
    for (int t = 0; t < 4; ++t) {
        uint2 out = make_uint2(0, 0);
#pragma unroll
        for (int plane = 0; plane < kMaxPlanes; ++plane) {
            if (plane < p.planes.planes)
                spreadBits(bits[plane], t, plane, out.x, out.y);
        }
        *reinterpret_cast<uint2*>(row + 16 * t) = out;
    }
    uint32_t present = 0;
#pragma unroll 1
    for (int code = 0; code <= p.codes.near; ++code) {
        uint32_t equal = kAllLanes;
#pragma unroll
        for (int plane = 0; plane < kMaxPlanes; ++plane) {
            if (plane < p.planes.planes)
                equal &= (code >> plane & 1) != 0 ? bits[plane] : ~bits[plane];
        }
        present |= equal != 0 ? 1u << code : 0u;
    }
    return present;
}

/// Backward: rows are keys. Writes the classes met, without far and masked, to present[warp of the 128].
__device__ __forceinline__ void expandColumns(const DenseParams& p, const TileLook& look, int64_t queryBlock,
                                              int64_t keyBlock, unsigned char* codes, uint32_t* present, int who,
                                              int barrier)
{
    uint32_t met = 0;
    if (look.kind == kStoredPlanes) {
        met = expandCorner(p, look.stored, who >> 5 & 1, who >> 6, codes);
    } else {
        fillCodes(codes, look.split ? kNoCode : uint32_t(p.codes.far) * 0x01010101u, who);
        if (look.kind == kStoredList) {
            namedBarrier(barrier, kExpanders);
            met = scatterList<true>(look.stored, codes, who);
        }
    }
    if (look.split) {
        namedBarrier(barrier, kExpanders);
        splitPass<true>(p, queryBlock, keyBlock, codes, who);
        met |= 1u << p.codes.unreachable | 1u << p.codes.token;
    }
    met = __reduce_or_sync(kAllLanes, met);
    if ((who & 31) == 0)
        present[who >> 5] = met;
}

} // namespace megagraph::kernels::cuda
