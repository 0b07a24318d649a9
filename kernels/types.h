// SPDX-License-Identifier: Apache-2.0
// Views, the parallel loop and the bias description shared by all kernels. Raw pointers and sizes only: no allocation, no
// threads, no globals. Vocabulary: N tokens, H heads, d_h head width, B bias classes, K hops.
#pragma once

#include <bit>
#include <cstdint>
#include <span>

namespace megagraph::kernels {

/// Storage of a bf16 number: the upper half of an fp32. Arithmetic is done in fp32; same layout as at::BFloat16.
struct Bfloat16 {
    uint16_t bits = 0;
};
inline float toFloat(Bfloat16 value)
{
    return std::bit_cast<float>(uint32_t(value.bits) << 16);
}
inline float toFloat(float value)
{
    return value;
}
/// Nearest, ties to even; NaN stays a (quiet) NaN, overflow becomes infinity.
inline Bfloat16 toBfloat16(float value)
{
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u)
        return {uint16_t(bits >> 16 | 0x0040u)};
    return {uint16_t((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16)};
}

/// [rows, heads, dim], dim contiguous, strides in elements, so slices of one [N,3,H,d_h] projection need no copy.
template <class T> struct HeadView {
    T* data = nullptr;
    int64_t rows = 0;
    int32_t heads = 0, dim = 0;
    int64_t rowStride = 0, headStride = 0;

    T* row(int64_t r, int32_t h) const { return data + r * rowStride + int64_t(h) * headStride; }
    operator HeadView<const T>() const { return {data, rows, heads, dim, rowStride, headStride}; }
};
/// Contiguous [rows, heads, dim].
template <class T> HeadView<T> contiguousHeads(T* data, int64_t rows, int32_t heads, int32_t dim)
{
    return {data, rows, heads, dim, int64_t(heads) * dim, dim};
}

/// Spreads `count` tasks over slots (threads); `body(index, slot)` with 0 <= slot < slots. Results never depend on the
/// number of slots or the order of tasks.
class ParallelFor {
  public:
    using Body = void (*)(void* context, int64_t index, int32_t slot);
    virtual ~ParallelFor() = default;
    virtual int32_t slots() const = 0;
    virtual void runRaw(int64_t count, Body body, void* context) const = 0;

    template <class F> void run(int64_t count, F&& f) const
    {
        auto* fp = &f;
        runRaw(count, [](void* c, int64_t i, int32_t s) { (*static_cast<decltype(fp)>(c))(i, s); }, fp);
    }
};
/// One slot, in order.
class SerialFor final : public ParallelFor {
  public:
    int32_t slots() const override { return 1; }
    void runRaw(int64_t count, Body body, void* context) const override
    {
        for (int64_t i = 0; i < count; ++i)
            body(context, i, 0);
    }
};
/// Fork-join over `threads` std::threads, tasks claimed from one atomic counter (kernels/parallel.cpp).
class ForkJoinFor final : public ParallelFor {
  public:
    explicit ForkJoinFor(int32_t threads) : threads_(threads) {}
    int32_t slots() const override { return threads_; }
    void runRaw(int64_t count, Body body, void* context) const override;

  private:
    int32_t threads_;
};

constexpr int32_t kTile = 64;     // 64 query rows x 64 keys

enum class TileKind : uint8_t { Base = 0, List = 1, Dense = 2, Const = 3 };

/// Bit planes per tile of policy `planes` (and of Dense tiles): codes 0..K and a base code.
constexpr int32_t planeCount(int32_t hops)
{
    int32_t planes = 1;
    while ((1 << planes) < hops + 2)
        ++planes;
    return planes;
}
constexpr int32_t kMostListHops = 15;  // the class of a list entry has 4 bits
constexpr int32_t kMostPlaneHops = 27; // 32 codes with the masked one

/// Distance structure of (own query rows) x (one key interval), policy `lists` (models design, 2.3). Spans into storage
/// that the owner (kernels/graph TileLists) keeps. Query block i covers rows q0 + 64 i ..., key block j covers keys k0 + 64 j.
/// map: 2 bits per (query block, key block), row-major, query blocks padded to `mapStride` bytes.
/// offsets: per touched tile (kind != Base) in key order: for List/Dense the start in units of uint16 from
///   blockStart[query block]; for Const its class. rank[qb * rankStride + kb / 256] = touched tiles before that checkpoint,
///   counted from the first tile of the query block; tileStart[qb] = index of the block's first touched tile in `offsets`.
/// entries: List: uint16 = row(6) << 10 | col(6) << 4 | class(4), sorted; the list's length is its first uint16.
///   Dense: the planeCount(K) bit planes of the tile as in TilePlanesView, 512 bytes each, not aligned.
struct TileListsView {
    int64_t queryBlocks = 0, keyBlocks = 0, mapStride = 0, rankStride = 0;
    std::span<const uint8_t> map;
    std::span<const uint32_t> rank;
    std::span<const int64_t> tileStart;  // [queryBlocks + 1]
    std::span<const uint32_t> offsets;   // [tileStart[queryBlocks]]
    std::span<const int64_t> blockStart; // [queryBlocks + 1], in uint16 units
    std::span<const uint16_t> entries;
};

/// Policies `planes` and `strips`: tile t has w = `planes` bit planes of 64 words, words[(t w + p) 64 + row]; bit c of a word is
/// bit p of the code of pair (row, column c). Codes 0..K are hops; every code above K is a base pair (builders write all bits).
/// t = tileFirst[query block] + key block - keyBlockBegin[query block]; a key block outside [begin, end) has base pairs only.
/// The three range arrays may be empty (all of them): t = query block * keyBlocks + key block.
struct TilePlanesView {
    int64_t queryBlocks = 0, keyBlocks = 0;
    int32_t planes = 0;
    std::span<const uint64_t> words;
    std::span<const int64_t> tileFirst;                     // [queryBlocks]
    std::span<const int32_t> keyBlockBegin, keyBlockEnd;    // [queryBlocks]
};

/// Where the near pairs of a Bias are stored. `strips` are planes of at most 512 query rows (kernels/strips.h).
enum class BiasStorage : uint8_t { Lists = 0, Planes = 1 };

/// Pairs with an edge value, on the tile grid of the bias (models design, 2.3). Tiles of query block i are
/// [blockStart[i], blockStart[i + 1]), ascending by key block; a tile's pairs are positions[first .. first + count), sorted,
/// row(6) << 6 | column(6), no pair twice; tiles lie one behind another. A view of some query blocks may keep all tiles and
/// positions and take a part of blockStart.
struct EdgeTile {
    uint32_t keyBlock, count;
    int64_t first;
};
struct EdgeTilesView {
    int64_t queryBlocks = 0, keyBlocks = 0;
    std::span<const int64_t> blockStart; // [queryBlocks + 1]
    std::span<const EdgeTile> tiles;
    std::span<const uint16_t> positions; // [E]
};
/// Edge encoding of dense attention: s_hij += values[h, e] at the pair of position e. No values: off.
struct EdgeValues {
    EdgeTilesView tiles;
    const float* values = nullptr; // [H, E] in the order of positions
    float* gradient = nullptr;     // [H, E], backward: += dS at the pairs; null = not wanted
};

/// Learned topology bias of dense attention: s_hij = scale q.k + table[h, class(i,j)].
/// Classes: 0..K hops (0 = same node), K+1 far, K+2 unreachable, K+3 token; masked pairs are -inf and not learned.
/// table [H, B] fp32 is b' = b - b[far] per head, so far pairs need no work (`far` entry is 0).
struct Bias {
    int32_t hops = 0, classes = 0;        // K, B = K + 4
    const float* table = nullptr;         // [H, B]; null = no bias at all (every pair base, no storage needed)
    std::span<const int32_t> queryComponent, keyComponent; // component per token, -1 = graph token; sizes n_q, n_k
    std::span<const int32_t> querySegment, keySegment;     // packs only; empty = one segment
    TileListsView lists;                  // may have zero query blocks when table is null
    BiasStorage storage = BiasStorage::Lists;
    TilePlanesView planes;                // storage Planes
    EdgeValues edges;                     // optional; independent of the storage
};

/// Counter-based dropout on attention probabilities (models design, 3.3). p = 0: off.
/// Key = splitmix64(seed, step); counter = (column >> 3, row, item, layer << 20 | head << 8 | site), Philox4x32-7.
/// Positions are global: row = queryOffset + i, column = keyOffset + j, head = headOffset + h.
struct Dropout {
    double p = 0;
    uint64_t seed = 0, step = 0;
    uint32_t item = 0, layer = 0, site = 0;
};
enum DropoutSite : uint32_t { kSiteInput = 1, kSiteAttention = 2, kSiteFfn = 3, kSiteResidual1 = 4, kSiteResidual2 = 5, kSiteGcn = 6 };

} // namespace megagraph::kernels
