// SPDX-License-Identifier: Apache-2.0
// What the sparse attention kernels share: how a warp is laid over heads and channels, pieces of rows, loads and the
// bias.
//   A warp serves one piece of a row (at most kEdgeChunk entries) and headsPerWarp heads: lane = (group, head, part).
//   `part` holds kChannels channels of a head, lanesPerHead parts make a head, and the groups take entries in turn, so
//   that narrow layers keep all lanes busy. Rows longer than kEdgeChunk are cut; the states of their pieces are
//   combined in piece order. Piece p > 0 of a long row starts at entry b = start + kEdgeChunk p and lives in slot b /
//   kEdgeChunk: two such starts are at least kEdgeChunk apart, so slots are unique, and a warp finds its row by one
//   binary search without a list of long rows.
#pragma once

#include "kernels/cuda/attention_dropout.cuh"

namespace megagraph::kernels::cuda {

constexpr int kEdgeChunk = 512;
constexpr int kChannels = 8;
constexpr int kEdgeThreads = 128;
constexpr int kEdgeBlocks = 4;   // per multiprocessor at least: 128 registers
constexpr int kEdgeBlocksGt = 3; // 168
constexpr float kGtBound = 5.0f; // GT's clamp

struct EdgeOperand {
    const void* data;
    int64_t rowStride, headStride;
};

/// rows: the owners of pieces; others: what their entries name. Forward and backward by row: rows and keys; by key:
/// keys, rows.
struct EdgeParams {
    int64_t rows, entries, slots; // slots: ceil(entries / kEdgeChunk), 0 if no row can be long
    const int64_t* start;         // [rows + 1]
    const int32_t* other;         // [entries]
    const int64_t* entryNumber;   // [entries] or null: the entry itself
    int32_t selfKey, selfClass, classes, heads, dim, headOffset;
    int32_t lanesPerHead, headsPerWarp, headGroups;
    bool wide; // rows of all operands are made of aligned pieces of 8 channels
    int64_t selfOffset,
        selfRows; // by row: other = selfOffset + row; by key: other = key - selfOffset, if in [0, selfRows)
    int64_t queryOffset, keyOffset;
    const int32_t* keyNumbers;
    const uint8_t* entryClass;
    const float *table, *entryBias;
    float scale, scaleLog2;
    EdgeOperand q, k, v, dO;
    EdgeOperand u, ds; // by entry, or null
    void* s;           // by entry in the type of q, or null
    float* du;         // by entry, or null
    int64_t queries;   // stride of lse, delta
    Mask mask;
    void* o;
    int64_t oRowStride, oHeadStride;
    int32_t oType, type;   // of o; of q, k, v
    bool oWide, entryWide; // entryWide: of s and du
    bool gt;
    bool partial, first; // forward ends in states, and begins with them unless `first`
    float *stateM, *stateL, *stateAcc;
    float* lse;
    const float *lseIn, *delta;
    float *dq, *dk, *dv, *dBias;
    float* tableRows; // [warps per head group, heads, classes] or null
    float* states;    // [2 slots, state]: first pieces, then the others
};

struct EdgeLane {
    int group, groups, part, headInWarp, head, channel, count;
    bool active; // the lane's head exists
};

__device__ __forceinline__ EdgeLane edgeLane(const EdgeParams& p, int headGroup)
{
    const int lane = int(threadIdx.x & 31);
    EdgeLane e;
    e.part = lane % p.lanesPerHead;
    e.headInWarp = lane / p.lanesPerHead % p.headsPerWarp;
    e.group = lane / (p.lanesPerHead * p.headsPerWarp);
    e.groups = 32 / (p.lanesPerHead * p.headsPerWarp);
    e.head = headGroup * p.headsPerWarp + e.headInWarp;
    e.active = e.head < p.heads;
    e.channel = e.part * kChannels;
    const int left = p.dim - e.channel;
    e.count = !e.active || left < 0 ? 0 : left < kChannels ? left : kChannels;
    return e;
}

/// Entries [begin, begin + count) of row `row`, and its self pair if `self`. whole: the row has no other piece.
struct EdgePiece {
    int64_t row, begin, self;
    int32_t count;
    bool whole;
    int64_t state;
};

/// Row whose entries hold `entry`.
__device__ __forceinline__ int64_t rowOfEntry(const EdgeParams& p, int64_t entry)
{
    int64_t low = 0, high = p.rows;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (readGlobal(p.start + middle) <= entry)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/// item < rows: first piece of a row; else slot item - rows. False: the slot is empty.
template <bool kByKey> __device__ __forceinline__ bool findPiece(const EdgeParams& p, int64_t item, EdgePiece& piece)
{
    piece.self = -1;
    if (item < p.rows) {
        piece.row = item;
        piece.begin = readGlobal(p.start + item);
        piece.state = piece.begin / kEdgeChunk;
        const int64_t self = kByKey ? item - p.selfOffset : item + p.selfOffset;
        if (p.selfKey != 0 && self >= 0 && self < p.selfRows)
            piece.self = self;
    } else {
        const int64_t slot = item - p.rows, first = slot * kEdgeChunk;
        piece.row = rowOfEntry(p, first);
        const int64_t start = readGlobal(p.start + piece.row);
        const int64_t number = (first - start + kEdgeChunk - 1) / kEdgeChunk;
        piece.begin = start + number * kEdgeChunk;
        piece.state = p.slots + slot;
        if (number < 1)
            return false;
    }
    const int64_t left = readGlobal(p.start + piece.row + 1) - piece.begin;
    piece.count = int32_t(left < 0 ? 0 : left < kEdgeChunk ? left : kEdgeChunk);
    piece.whole = item < p.rows && left <= kEdgeChunk;
    return item < p.rows || left > 0;
}

/// The i-th pair of a piece; the self pair comes last. entry -1: self pair. other -1: behind the end.
struct EdgePair {
    int64_t entry;
    int32_t other;
};
__device__ __forceinline__ EdgePair pairAt(const EdgeParams& p, const EdgePiece& piece, int i)
{
    if (i < piece.count) {
        const int64_t at = piece.begin + i;
        return {p.entryNumber == nullptr ? at : readGlobal(p.entryNumber + at), readGlobal(p.other + at)};
    }
    return {-1, i == piece.count ? int32_t(piece.self) : -1};
}

/// kChannels channels as they lie in memory: bf16 stays packed while it is in flight. T: float, or uint16_t for bf16.
template <class T> struct RawRow;
template <> struct RawRow<float> {
    float4 part[2];
};
template <> struct RawRow<uint16_t> {
    uint4 words;
};

__device__ __forceinline__ void widen(const RawRow<float>& raw, float (&out)[kChannels])
{
    out[0] = raw.part[0].x, out[1] = raw.part[0].y, out[2] = raw.part[0].z, out[3] = raw.part[0].w;
    out[4] = raw.part[1].x, out[5] = raw.part[1].y, out[6] = raw.part[1].z, out[7] = raw.part[1].w;
}
__device__ __forceinline__ void widen(const RawRow<uint16_t>& raw, float (&out)[kChannels])
{
    const uint32_t word[4] = {raw.words.x, raw.words.y, raw.words.z, raw.words.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        out[2 * i] = bf16Value(word[i] & 0xFFFFu);
        out[2 * i + 1] = bf16Value(word[i] >> 16);
    }
}

__device__ __forceinline__ RawRow<float> readPieces(const float* at, int count)
{
    float x[kChannels];
#pragma unroll
    for (int i = 0; i < kChannels; ++i)
        x[i] = i < count ? readGlobal(at + i) : 0.0f;
    return {{make_float4(x[0], x[1], x[2], x[3]), make_float4(x[4], x[5], x[6], x[7])}};
}
__device__ __forceinline__ RawRow<uint16_t> readPieces(const uint16_t* at, int count)
{
    uint32_t x[kChannels];
#pragma unroll
    for (int i = 0; i < kChannels; ++i)
        x[i] = i < count ? uint32_t(readGlobal(at + i)) : 0u;
    return {make_uint4(x[0] | x[1] << 16, x[2] | x[3] << 16, x[4] | x[5] << 16, x[6] | x[7] << 16)};
}
__device__ __forceinline__ RawRow<float> readWide(const float* at)
{
    return {{readGlobal(reinterpret_cast<const float4*>(at)), readGlobal(reinterpret_cast<const float4*>(at) + 1)}};
}
__device__ __forceinline__ RawRow<uint16_t> readWide(const uint16_t* at)
{
    return {readGlobal(reinterpret_cast<const uint4*>(at))};
}

/// The lane's channels of one row; zeros where it has none.
template <class T>
__device__ __forceinline__ RawRow<T> loadRaw(const EdgeParams& p, const EdgeLane& lane, const EdgeOperand& x,
                                             int64_t row)
{
    const T* at = static_cast<const T*>(x.data);
    const int count = row < 0 ? 0 : lane.count;
    if (count > 0)
        at += row * x.rowStride + int64_t(lane.head) * x.headStride + lane.channel;
    return p.wide && count > 0 ? readWide(at) : readPieces(at, count);
}
template <class T>
__device__ __forceinline__ void loadRow(const EdgeParams& p, const EdgeLane& lane, const EdgeOperand& x, int64_t row,
                                        float (&out)[kChannels])
{
    widen(loadRaw<T>(p, lane, x, row), out);
}

__device__ __forceinline__ void storeFloats(float* at, const float (&values)[kChannels], int count, bool wide)
{
    if (wide && count == kChannels) {
        *reinterpret_cast<float4*>(at) = make_float4(values[0], values[1], values[2], values[3]);
        *(reinterpret_cast<float4*>(at) + 1) = make_float4(values[4], values[5], values[6], values[7]);
        return;
    }
#pragma unroll
    for (int i = 0; i < kChannels; ++i) {
        if (i < count)
            at[i] = values[i];
    }
}

/// To element `at` of an array of MegagraphCudaType `type`.
__device__ __forceinline__ void storeTyped(void* to, int32_t type, int64_t at, const float (&values)[kChannels],
                                           int count, bool wide)
{
    if (type == MegagraphCudaFloat) {
        storeFloats(static_cast<float*>(to) + at, values, count, wide);
        return;
    }
    uint16_t* halves = static_cast<uint16_t*>(to) + at;
    if (wide && count == kChannels) {
        *reinterpret_cast<uint4*>(halves) = make_uint4(packBf16(values[0], values[1]), packBf16(values[2], values[3]),
                                                       packBf16(values[4], values[5]), packBf16(values[6], values[7]));
        return;
    }
#pragma unroll
    for (int i = 0; i < kChannels; ++i) {
        if (i < count)
            halves[i] = uint16_t(packBf16(values[i], 0.0f) & 0xFFFFu);
    }
}

__device__ __forceinline__ float dotChannels(const float (&a)[kChannels], const float (&b)[kChannels])
{
    float sum = a[0] * b[0];
#pragma unroll
    for (int i = 1; i < kChannels; ++i)
        sum = fmaf(a[i], b[i], sum);
    return sum;
}

template <class T> __device__ __forceinline__ float dotChannels(const float (&a)[kChannels], const RawRow<T>& raw)
{
    float b[kChannels];
    widen(raw, b);
    return dotChannels(a, b);
}
/// sum += weight row
template <class T>
__device__ __forceinline__ void addChannels(float (&sum)[kChannels], float weight, const RawRow<T>& raw)
{
    float x[kChannels];
    widen(raw, x);
#pragma unroll
    for (int i = 0; i < kChannels; ++i)
        sum[i] = fmaf(weight, x[i], sum[i]);
}

/// Sum over the lanes of a head; every lane of the head gets it.
__device__ __forceinline__ float sumParts(const EdgeParams& p, float value)
{
    for (int step = 1; step < p.lanesPerHead; step *= 2)
        value += shuffleXor(value, step);
    return value;
}

/// Class of a pair, -1: none.
__device__ __forceinline__ int32_t classOf(const EdgeParams& p, const EdgePair& pair)
{
    if (p.entryClass == nullptr)
        return -1;
    return pair.entry < 0 ? p.selfClass : int32_t(readGlobal(p.entryClass + pair.entry));
}

/// Addend of the score, natural units.
__device__ __forceinline__ float biasOf(const EdgeParams& p, int head, const EdgePair& pair, int32_t classNumber)
{
    float bias = 0.0f;
    if (p.table != nullptr && classNumber >= 0)
        bias = readGlobal(p.table + int64_t(head) * p.classes + classNumber);
    if (p.entryBias != nullptr && pair.entry >= 0)
        bias = readGlobal(p.entryBias + int64_t(head) * p.entries + pair.entry);
    return bias;
}

/// A row that a pair names: for GT times u of the entry; else as it lies in memory until it is used.
template <class T, bool kGt> struct OtherRow {
    RawRow<T> raw;

    __device__ __forceinline__ OtherRow(const EdgeParams& p, const EdgeLane& lane, const EdgeOperand& x,
                                        const EdgePair& pair)
        : raw(loadRaw<T>(p, lane, x, pair.other))
    {
    }
    __device__ __forceinline__ float dot(const float (&mine)[kChannels]) const { return dotChannels<T>(mine, raw); }
    /// sum += dS row
    __device__ __forceinline__ void addTo(float (&sum)[kChannels], const EdgeParams&, const EdgeLane&, const EdgePair&,
                                          float dS) const
    {
        addChannels<T>(sum, dS, raw);
    }
};
template <class T> struct OtherRow<T, true> {
    float plain[kChannels], times[kChannels]; // the row, and the row times u

    __device__ __forceinline__ OtherRow(const EdgeParams& p, const EdgeLane& lane, const EdgeOperand& x,
                                        const EdgePair& pair)
    {
        loadRow<T>(p, lane, x, pair.other, plain);
        float u[kChannels];
        if (p.u.data != nullptr)
            loadRow<T>(p, lane, p.u, pair.entry, u);
#pragma unroll
        for (int i = 0; i < kChannels; ++i)
            times[i] = p.u.data != nullptr ? plain[i] * u[i] : plain[i];
    }
    __device__ __forceinline__ float dot(const float (&mine)[kChannels]) const
    {
        return dotChannels(mine, times);
    }
    /// sum_x += (dS + ds_x) row_x u_x
    __device__ __forceinline__ void addTo(float (&sum)[kChannels], const EdgeParams& p, const EdgeLane& lane,
                                          const EdgePair& pair, float dS) const
    {
        float ds[kChannels] = {};
        if (p.ds.data != nullptr)
            loadRow<T>(p, lane, p.ds, pair.entry, ds);
#pragma unroll
        for (int i = 0; i < kChannels; ++i)
            sum[i] = fmaf(dS + ds[i], times[i], sum[i]);
    }
    /// s_x = mine_x row_x u_x, which GT's edge stream takes on.
    __device__ __forceinline__ void storeProducts(const EdgeParams& p, const EdgeLane& lane, const EdgePair& pair,
                                                  const float (&mine)[kChannels]) const
    {
        if (p.s == nullptr || pair.entry < 0 || !lane.active)
            return;
        float s[kChannels];
#pragma unroll
        for (int i = 0; i < kChannels; ++i)
            s[i] = mine[i] * times[i];
        storeTyped(p.s, p.type, (pair.entry * p.heads + lane.head) * p.dim + lane.channel, s, lane.count, p.entryWide);
    }
    /// du_x = (dS + ds_x) mine_x row_x
    __device__ __forceinline__ void storeGradient(const EdgeParams& p, const EdgeLane& lane, const EdgePair& pair,
                                                  float dS, const float (&mine)[kChannels]) const
    {
        if (p.du == nullptr || pair.entry < 0 || !lane.active)
            return;
        float du[kChannels] = {};
        if (p.ds.data != nullptr)
            loadRow<T>(p, lane, p.ds, pair.entry, du);
#pragma unroll
        for (int i = 0; i < kChannels; ++i)
            du[i] = (dS + du[i]) * mine[i] * plain[i];
        storeFloats(p.du + (pair.entry * p.heads + lane.head) * p.dim + lane.channel, du, lane.count, p.entryWide);
    }
};

/// 0 or the scale of kept pairs.
__device__ __forceinline__ float keepOf(const EdgeParams& p, int head, int64_t query, int64_t key)
{
    if (p.mask.threshold == 0)
        return 1.0f;
    const uint64_t column =
        uint64_t(p.keyNumbers == nullptr ? p.keyOffset + key : int64_t(readGlobal(p.keyNumbers + key)));
    const PhiloxWords words =
        philox(p.mask, uint32_t(p.headOffset + head), uint64_t(p.queryOffset + query), column >> 3);
    const int place = int(column & 7);
    uint32_t word = words.word[0];
    word = place >> 1 == 1 ? words.word[1] : place >> 1 == 2 ? words.word[2] : place >> 1 == 3 ? words.word[3] : word;
    return ((word >> (16 * (place & 1))) & 0xFFFFu) >= p.mask.threshold ? p.mask.keepScale : 0.0f;
}

} // namespace megagraph::kernels::cuda
