// SPDX-License-Identifier: Apache-2.0
// Runs the dense entries of the CUDA table on the CPU shim with the problems of the CPU kernels' tests
// (attention_cases.h): device copies of inputs, planes or lists, guarded outputs. Include behind cuda_on_cpu.h and the
// kernel files.
#pragma once

#include "kernels/cuda/api.h"
#include "tests/kernels/attention_cases.h"

namespace megagraph::kernels::cuda::testing {

using kernels::testing::Problem;
using kernels::testing::Range;
using kernels::testing::World;

template <class T> using Device = shim::Buffer<T>;

inline const MegagraphCudaTable& table()
{
    return *megagraphCudaTable(MegagraphCudaVersion);
}

inline float roundedBf16(float x)
{
    return bf16Value(packBf16(x, 0.0f) & 0xFFFFu);
}
/// Inputs that bf16 holds exactly, so that the error of a result is the kernel's own.
inline void roundInputs(Problem& p)
{
    for (std::vector<float>* values : {&p.q, &p.k, &p.v, &p.dO}) {
        for (float& x : *values)
            x = roundedBf16(x);
    }
}

/// Pairs of a world with a value per head, by row and key.
struct EdgePairs {
    std::vector<int64_t> pairs; // row * tokens + key
    std::vector<float> values;  // [heads, pairs]
};
/// All pairs of class 1, and some of every other class.
inline EdgePairs makeEdgePairs(const World& w, int32_t heads, uint64_t seed)
{
    EdgePairs e;
    for (int64_t at = 0; at < w.tokens * w.tokens; ++at) {
        if (w.classOf[size_t(at)] == 1 || drawUniform(seed, 31, uint64_t(at)) < 0.02)
            e.pairs.push_back(at);
    }
    e.values = kernels::testing::randomFloats(size_t(heads) * e.pairs.size(), seed, 32, 1.5f);
    return e;
}

enum class Storage { Planes, PlanesWithKinds, PlanesInRanges, Lists };

/// Device copies of one block (rows x keys) of a problem's bias.
struct DeviceBias {
    MegagraphCudaBias bias{};
    std::vector<std::unique_ptr<Device<uint8_t>>> bytes;
    std::unique_ptr<Device<float>> edgeGradient; // [heads, places]
    std::vector<int64_t> edgePlaces;             // place in the block -> pair
    int64_t kinds[4] = {};

    template <class T> const T* hold(const T* values, size_t count)
    {
        if (count == 0)
            return nullptr;
        const auto* first = reinterpret_cast<const uint8_t*>(values);
        bytes.push_back(
            std::make_unique<Device<uint8_t>>(std::vector<uint8_t>(first, first + count * sizeof(T)), "bias", true));
        return reinterpret_cast<const T*>(bytes.back()->data());
    }
    template <class T> const T* hold(const std::vector<T>& values) { return hold(values.data(), values.size()); }
    template <class T> const T* hold(std::span<const T> values) { return hold(values.data(), values.size()); }
};

/// Planes straight from the classes of the world; base pairs have all bits set.
inline void addPlanes(DeviceBias& d, const World& w, Range rows, Range keys, Storage storage)
{
    const int64_t queryBlocks = (rows.size() + 63) / 64, keyBlocks = (keys.size() + 63) / 64,
                  kindStride = (keyBlocks + 3) / 4;
    const int32_t planes = planeCount(w.hops);
    std::vector<uint64_t> words;
    std::vector<uint8_t> kinds(size_t(queryBlocks * kindStride), 0);
    std::vector<int64_t> first;
    std::vector<int32_t> begin, end;
    for (int64_t qb = 0; qb < queryBlocks; ++qb) {
        int64_t low = keyBlocks, high = 0;
        std::vector<uint64_t> row(size_t(keyBlocks * planes * 64), ~uint64_t(0));
        for (int64_t kb = 0; kb < keyBlocks; ++kb) {
            int64_t near = 0, constant = 0;
            int32_t code0 = -1;
            for (int64_t r = 0; r < 64 && qb * 64 + r < rows.size(); ++r) {
                for (int64_t c = 0; c < 64 && kb * 64 + c < keys.size(); ++c) {
                    const int32_t code =
                        w.classOf[size_t((rows.begin + qb * 64 + r) * w.tokens + keys.begin + kb * 64 + c)];
                    code0 = code0 < 0 ? code : code0;
                    constant += code != code0 || code > w.hops ? 1 : 0;
                    if (code > w.hops)
                        continue;
                    ++near;
                    for (int32_t p = 0; p < planes; ++p) {
                        if ((code >> p & 1) == 0)
                            row[size_t((kb * planes + p) * 64 + r)] &= ~(uint64_t(1) << c);
                    }
                }
            }
            const int kind = near == 0 ? 0 : constant == 0 ? 3 : 2;
            ++d.kinds[kind];
            kinds[size_t(qb * kindStride + kb / 4)] =
                uint8_t(kinds[size_t(qb * kindStride + kb / 4)] | kind << (2 * (kb % 4)));
            low = near > 0 && low == keyBlocks ? kb : low;
            high = near > 0 ? kb + 1 : high;
        }
        if (storage != Storage::PlanesInRanges) {
            low = 0;
            high = keyBlocks;
        } else if (high == 0) {
            low = 0;
        }
        first.push_back(int64_t(words.size()) / (planes * 64));
        begin.push_back(int32_t(low));
        end.push_back(int32_t(high));
        words.insert(words.end(), row.begin() + low * planes * 64, row.begin() + high * planes * 64);
    }
    d.bias.policy = MegagraphCudaPlanes;
    d.bias.planes.words = d.hold(words);
    d.bias.planes.planes = planes;
    d.bias.planes.keyBlocks = keyBlocks;
    if (storage == Storage::PlanesWithKinds) {
        d.bias.planes.kinds = d.hold(kinds);
        d.bias.planes.kindStride = kindStride;
    } else if (storage == Storage::PlanesInRanges) {
        d.bias.planes.tileFirst = d.hold(first);
        d.bias.planes.keyBlockBegin = d.hold(begin);
        d.bias.planes.keyBlockEnd = d.hold(end);
    }
}

inline void addLists(DeviceBias& d, const Problem& p, Range rows, Range keys)
{
    const auto lists = kernels::testing::buildLists(*p.world, rows.begin, rows.end, keys.begin, keys.end, p.denseAbove);
    const TileListsView& v = lists->view;
    d.bias.policy = MegagraphCudaLists;
    d.bias.lists = {d.hold(v.map),     d.hold(v.rank), d.hold(v.tileStart), d.hold(v.offsets), d.hold(v.blockStart),
                    d.hold(v.entries), v.queryBlocks,  v.keyBlocks,         v.mapStride,       v.rankStride};
    std::copy(std::begin(lists->kinds), std::end(lists->kinds), d.kinds);
}

/// Edge tiles of the pairs inside the block, from the definition in kernels/types.h.
inline void addEdges(DeviceBias& d, const Problem& p, Range rows, Range keys, const EdgePairs& edges)
{
    const int64_t tokens = p.world->tokens, queryBlocks = (rows.size() + 63) / 64, keyBlocks = (keys.size() + 63) / 64;
    struct Place {
        int64_t tile, position, pair;
    };
    std::vector<Place> places;
    for (size_t i = 0; i < edges.pairs.size(); ++i) {
        const int64_t row = edges.pairs[i] / tokens - rows.begin, key = edges.pairs[i] % tokens - keys.begin;
        if (row >= 0 && row < rows.size() && key >= 0 && key < keys.size())
            places.push_back({row / 64 * keyBlocks + key / 64, (row % 64) << 6 | key % 64, int64_t(i)});
    }
    std::sort(places.begin(), places.end(), [](const Place& a, const Place& b) {
        return a.tile != b.tile ? a.tile < b.tile : a.position < b.position;
    });
    std::vector<int64_t> blockStart(size_t(queryBlocks + 1), 0);
    std::vector<MegagraphCudaEdgeTile> tiles;
    std::vector<uint16_t> positions;
    std::vector<float> values;
    int64_t last = -1;
    for (const Place& place : places) {
        if (place.tile != last) {
            tiles.push_back({uint32_t(place.tile % keyBlocks), 0, int64_t(positions.size())});
            ++blockStart[size_t(place.tile / keyBlocks + 1)];
        }
        last = place.tile;
        ++tiles.back().count;
        positions.push_back(uint16_t(place.position));
        d.edgePlaces.push_back(place.pair);
    }
    for (size_t i = 1; i < blockStart.size(); ++i)
        blockStart[i] += blockStart[i - 1];
    for (int32_t h = 0; h < p.heads; ++h) {
        for (const Place& place : places)
            values.push_back(edges.values[size_t(h) * edges.pairs.size() + size_t(place.pair)]);
    }
    d.edgeGradient = std::make_unique<Device<float>>(std::vector<float>(values.size(), 0.0f), "edge gradient");
    values.push_back(0.0f); // an address, for a block without pairs
    d.bias.edges = {d.hold(blockStart), d.hold(tiles),          d.hold(positions), queryBlocks,
                    keyBlocks,          int64_t(places.size()), d.hold(values),    d.edgeGradient->data()};
}

inline std::unique_ptr<DeviceBias> deviceBias(const Problem& p, Range rows, Range keys, Storage storage,
                                              const EdgePairs* edges)
{
    const World& w = *p.world;
    auto d = std::make_unique<DeviceBias>();
    const auto ids = [&](const std::vector<int32_t>& all, Range r) {
        return all.empty() ? nullptr : d->hold(all.data() + r.begin, size_t(r.size()));
    };
    d->bias.hops = w.hops;
    d->bias.classes = w.classes;
    d->bias.querySegment = ids(w.segment, rows);
    d->bias.keySegment = ids(w.segment, keys);
    if (edges != nullptr)
        addEdges(*d, p, rows, keys, *edges);
    if (p.table.empty())
        return d;
    d->bias.queryComponent = ids(w.component, rows);
    d->bias.keyComponent = ids(w.component, keys);
    d->bias.table = d->hold(p.shifted());
    if (storage == Storage::Lists)
        addLists(*d, p, rows, keys);
    else
        addPlanes(*d, w, rows, keys, storage);
    return d;
}

inline MegagraphCudaShape deviceShape(const Problem& p, Range rows, Range keys)
{
    return {rows.size(), keys.size(), rows.begin, keys.begin, p.heads, p.dim, 0, 0, p.scale};
}
inline MegagraphCudaDropout dropoutOf(const Problem& p)
{
    return {p.dropout.p, p.dropout.seed, p.dropout.step, p.dropout.item, p.dropout.layer, p.dropout.site, 0};
}

/// One operand on the device, fp32 or bf16, contiguous or inside a wider projection.
struct DeviceView {
    Device<float> floats;
    Device<uint16_t> halves;
    MegagraphCudaView view{};

    DeviceView(const std::vector<float>& all, Range r, const Problem& p, bool bf16, int64_t spread)
        : floats(bf16 ? std::vector<float>() : widen<float>(all, r, p, spread, [](float x) { return x; }), "operand",
                 true),
          halves(bf16 ? widen<uint16_t>(all, r, p, spread, [](float x) { return uint16_t(packBf16(x, 0.0f)); })
                      : std::vector<uint16_t>(),
                 "operand", true)
    {
        view = {bf16 ? static_cast<void*>(halves.data()) : static_cast<void*>(floats.data()),
                r.size(),
                p.heads,
                p.dim,
                int64_t(p.heads) * p.dim * spread + (spread > 1 ? 3 : 0),
                p.dim,
                bf16 ? MegagraphCudaBf16 : MegagraphCudaFloat,
                0};
    }

  private:
    template <class T, class F>
    static std::vector<T> widen(const std::vector<float>& all, Range r, const Problem& p, int64_t spread, F convert)
    {
        const int64_t width = int64_t(p.heads) * p.dim, stride = width * spread + (spread > 1 ? 3 : 0);
        std::vector<T> out(size_t(r.size() * stride), T(convert(std::numeric_limits<float>::quiet_NaN())));
        for (int64_t i = 0; i < r.size(); ++i) {
            for (int64_t x = 0; x < width; ++x)
                out[size_t(i * stride + x)] = convert(all[size_t((r.begin + i) * width + x)]);
        }
        return out;
    }
};

struct Options {
    Storage storage = Storage::Planes;
    bool bf16 = true, backward = true, learned = true;
    int64_t spread = 1;
    const EdgePairs* edges = nullptr;
};

struct Outputs {
    std::vector<float> o, lse, dq, dk, dv, table, edges; // edges: [heads, pairs], 0 outside the block
    std::vector<double> summed;
    int64_t kinds[4] = {};

    void addEdgeGradient(const EdgePairs* pairs, const DeviceBias& bias, int32_t heads)
    {
        if (pairs == nullptr)
            return;
        edges.resize(pairs->values.size(), 0.0f);
        const std::vector<float> got = bias.edgeGradient->values();
        const size_t places = bias.edgePlaces.size();
        for (size_t h = 0; h < size_t(heads); ++h) {
            for (size_t i = 0; i < places; ++i)
                edges[h * pairs->pairs.size() + size_t(bias.edgePlaces[i])] = got[h * places + i];
        }
    }
};

inline void expectQueued(int32_t code, const MegagraphCudaError& error)
{
    ASSERT_EQ(code, MegagraphCudaOk) << error.text;
}

/// Operands of one (rows x keys) block.
struct DeviceBlock {
    MegagraphCudaShape shape;
    MegagraphCudaDropout dropout;
    DeviceView q, k, v, dO;
    std::unique_ptr<DeviceBias> bias;

    DeviceBlock(const Problem& p, Range rows, Range keys, const Options& options)
        : shape(deviceShape(p, rows, keys)), dropout(dropoutOf(p)), q(p.q, rows, p, options.bf16, options.spread),
          k(p.k, keys, p, options.bf16, options.spread), v(p.v, keys, p, options.bf16, options.spread),
          dO(p.dO, rows, p, options.bf16, options.spread),
          bias(deviceBias(p, rows, keys, options.storage, options.edges))
    {
    }
};

inline MegagraphCudaView outputView(Device<float>& o, const MegagraphCudaShape& s)
{
    return {o.data(), s.queries, s.heads, s.dim, int64_t(s.heads) * s.dim, s.dim, MegagraphCudaFloat, 0};
}

/// dq, dk, dv (+=) of a block, given lse and delta on the device.
inline void runBackward(DeviceBlock& b, Device<float>& lse, Device<float>& delta, Device<float>& dq, Device<float>& dk,
                        Device<float>& dv, Device<double>* summed)
{
    MegagraphCudaError error{};
    const int32_t classes = b.bias->bias.table != nullptr && summed != nullptr ? b.bias->bias.classes : 0;
    const int64_t bytes = table().attentionBackwardWorkspace(&b.shape, classes);
    Device<unsigned char> workspace(size_t(bytes), "workspace");
    expectQueued(table().attentionBackward(&b.shape, &b.q.view, &b.k.view, &b.v.view, &b.dO.view, lse.data(),
                                           delta.data(), &b.bias->bias, &b.dropout, dq.data(), dk.data(), dv.data(),
                                           summed == nullptr ? nullptr : summed->data(), workspace.data(), bytes,
                                           nullptr, &error),
                 error);
    EXPECT_TRUE(workspace.guardsIntact());
}

/// Forward, delta and backward of one block.
inline Outputs run(const Problem& p, Range rows, Range keys, const Options& options = {})
{
    DeviceBlock b(p, rows, keys, options);
    const size_t qn = size_t(rows.size() * p.heads * p.dim), kn = size_t(keys.size() * p.heads * p.dim);
    MegagraphCudaError error{};
    Outputs out;
    std::copy(std::begin(b.bias->kinds), std::end(b.bias->kinds), out.kinds);
    Device<float> o(qn, "o"), lse(size_t(p.heads * rows.size()), "lse");
    const MegagraphCudaView oView = outputView(o, b.shape);
    {
        const int64_t bytes = table().attentionForwardWorkspace(&b.shape);
        Device<unsigned char> workspace(size_t(bytes), "workspace");
        expectQueued(table().attentionForward(&b.shape, &b.q.view, &b.k.view, &b.v.view, &b.bias->bias, &b.dropout,
                                              &oView, lse.data(), workspace.data(), bytes, nullptr, &error),
                     error);
        EXPECT_TRUE(workspace.guardsIntact());
    }
    out.o = o.values();
    out.lse = lse.values();
    if (!options.backward)
        return out;
    Device<float> delta(size_t(p.heads * rows.size()), "delta");
    expectQueued(table().attentionDelta(&oView, &b.dO.view, delta.data(), nullptr, &error), error);
    Device<float> dq(std::vector<float>(qn, 0.0f), "dq"), dk(std::vector<float>(kn, 0.0f), "dk"),
        dv(std::vector<float>(kn, 0.0f), "dv");
    const size_t bins = p.table.empty() ? 0 : size_t(p.heads) * size_t(p.world->classes);
    Device<double> summed(std::vector<double>(bins, 0.0), "table sums");
    runBackward(b, lse, delta, dq, dk, dv, bins > 0 && options.learned ? &summed : nullptr);
    out.dq = dq.values();
    out.dk = dk.values();
    out.dv = dv.values();
    out.summed = summed.values();
    out.addEdgeGradient(options.edges, *b.bias, p.heads);
    if (bins > 0 && options.learned) {
        Device<float> db(bins, "db");
        expectQueued(table().closeFarBin(p.heads, p.world->hops, summed.data(), db.data(), nullptr, &error), error);
        out.table = db.values();
    }
    return out;
}

} // namespace megagraph::kernels::cuda::testing
