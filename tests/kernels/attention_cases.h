// SPDX-License-Identifier: Apache-2.0
// Cases of the attention tests: a small graph with plain-BFS classes, random tensors, guarded outputs, and a naive builder of
// tile lists that is independent of kernels/graph.
#pragma once

#include "core/random.h"
#include "kernels/attention.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/reference/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <tuple>
#include <vector>

namespace megagraph::kernels::testing {

inline float uniform(uint64_t seed, uint64_t stream, uint64_t index)
{
    return float(2.0 * drawUniform(seed, stream, index) - 1.0);
}

inline std::vector<float> randomFloats(size_t count, uint64_t seed, uint64_t stream, float scale = 1.0f)
{
    std::vector<float> values(count);
    for (size_t i = 0; i < count; ++i)
        values[i] = scale * uniform(seed, stream, i);
    return values;
}

inline std::vector<double> widened(const std::vector<float>& values)
{
    return {values.begin(), values.end()};
}

/// Output buffer of NaN (or zeros for +=) between guard words that must survive.
template <class T> class Guarded {
  public:
    explicit Guarded(size_t count, T fill = std::numeric_limits<T>::quiet_NaN()) : count_(count), storage_(count + 2 * kGuard, guard())
    {
        std::fill(storage_.begin() + kGuard, storage_.end() - kGuard, fill);
    }
    ~Guarded()
    {
        for (size_t i = 0; i < kGuard; ++i) {
            EXPECT_EQ(toDouble(storage_[i]), toDouble(guard())) << "guard word before the buffer was overwritten";
            EXPECT_EQ(toDouble(storage_[storage_.size() - 1 - i]), toDouble(guard())) << "guard word behind the buffer was overwritten";
        }
    }
    T* data() { return storage_.data() + kGuard; }
    std::vector<T> values() const { return {storage_.begin() + kGuard, storage_.end() - kGuard}; }
    size_t size() const { return count_; }

  private:
    static constexpr size_t kGuard = 32;
    static T guard()
    {
        if constexpr (std::is_same_v<T, Bfloat16>)
            return toBfloat16(12352.0f);
        else
            return T(12345);
    }
    static double toDouble(double x) { return x; }
    static double toDouble(Bfloat16 x) { return double(toFloat(x)); }
    size_t count_;
    std::vector<T> storage_;
};

/// 64-byte aligned bytes, poisoned with NaN patterns, with a guard behind.
class Workspace {
  public:
    explicit Workspace(int64_t bytes) : bytes_(size_t(bytes)), data_(static_cast<unsigned char*>(::operator new(bytes_ + 64, std::align_val_t(64))))
    {
        std::memset(data_, 0xFF, bytes_);
        std::memset(data_ + bytes_, 0x5A, 64);
    }
    Workspace(const Workspace&) = delete;
    Workspace& operator=(const Workspace&) = delete;
    ~Workspace()
    {
        for (size_t i = 0; i < 64; ++i)
            EXPECT_EQ(data_[bytes_ + i], 0x5A) << "the kernel wrote behind its workspace";
        ::operator delete(data_, std::align_val_t(64));
    }
    void* get() { return data_; }

  private:
    size_t bytes_;
    unsigned char* data_;
};

/// L2 distance over the L2 norm of `expected` (at least `floor`); infinities must agree in place and sign.
template <class A, class B> double relativeError(const std::vector<A>& got, const std::vector<B>& expected, double floor = 0)
{
    double difference = 0, norm = 0;
    EXPECT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size() && i < expected.size(); ++i) {
        const double g = double(got[i]), e = double(expected[i]);
        if (std::isinf(e) && g == e)
            continue;
        difference += (g - e) * (g - e);
        norm += e * e;
    }
    norm = std::max(std::sqrt(norm), floor);
    return difference == 0 ? 0 : std::sqrt(difference) / (norm == 0 ? 1 : norm);
}

/// A sequence of tokens with distance classes; the last token may be a graph token.
struct World {
    int64_t tokens = 0;
    int32_t hops = 0, classes = 0;
    std::vector<int32_t> component, segment; // segment empty = one
    std::vector<uint8_t> classOf;            // [tokens, tokens]
};

/// `communities` rings with chords, some isolated nodes, optional token; distances by plain BFS.
inline World makeWorld(int64_t tokens, int32_t hops, int32_t communities, bool token, uint64_t seed, double chords = 0.5)
{
    World w;
    w.tokens = tokens;
    w.hops = hops;
    w.classes = hops + 4;
    const int64_t nodes = token ? tokens - 1 : tokens, isolated = nodes / 10;
    std::vector<std::vector<int64_t>> neighbours(static_cast<size_t>(nodes));
    w.component.resize(size_t(tokens), -1);
    const int64_t linked = nodes - isolated;
    const auto join = [&](int64_t a, int64_t b) {
        neighbours[size_t(a)].push_back(b);
        neighbours[size_t(b)].push_back(a);
    };
    for (int32_t c = 0; c < communities; ++c) {
        const int64_t begin = linked * c / communities, end = linked * (c + 1) / communities;
        for (int64_t i = begin; i < end; ++i) {
            w.component[size_t(i)] = c;
            if (i + 1 < end)
                join(i, i + 1);
            if (drawUniform(seed, 77, uint64_t(i)) < chords)
                join(i, begin + int64_t(drawBelow(seed, 78, uint64_t(i), uint64_t(end - begin))));
        }
    }
    for (int64_t i = linked; i < nodes; ++i)
        w.component[size_t(i)] = int32_t(communities + i);
    w.classOf.assign(size_t(tokens * tokens), 0);
    for (int64_t s = 0; s < tokens; ++s) {
        std::vector<int64_t> distance(size_t(nodes), -1), queue;
        if (s < nodes) {
            distance[size_t(s)] = 0;
            queue.push_back(s);
        }
        for (size_t head = 0; head < queue.size(); ++head) {
            for (const int64_t u : neighbours[size_t(queue[head])]) {
                if (distance[size_t(u)] < 0) {
                    distance[size_t(u)] = distance[size_t(queue[head])] + 1;
                    queue.push_back(u);
                }
            }
        }
        for (int64_t t = 0; t < tokens; ++t) {
            const int64_t d = s < nodes && t < nodes ? distance[size_t(t)] : -2;
            w.classOf[size_t(s * tokens + t)] = uint8_t(d == -2 ? hops + 3 : d == -1 ? hops + 2 : d > hops ? hops + 1 : d);
        }
    }
    return w;
}

/// Pack of graphs: segments masked against each other.
inline void cutIntoSegments(World& w, const std::vector<int64_t>& ends)
{
    w.segment.resize(size_t(w.tokens));
    int32_t s = 0;
    for (int64_t i = 0; i < w.tokens; ++i) {
        while (i >= ends[size_t(s)])
            ++s;
        w.segment[size_t(i)] = s;
    }
    for (int64_t i = 0; i < w.tokens; ++i) {
        for (int64_t j = 0; j < w.tokens; ++j) {
            if (w.segment[size_t(i)] != w.segment[size_t(j)])
                w.classOf[size_t(i * w.tokens + j)] = reference::kMasked;
        }
    }
}

struct ListStorage {
    TileListsView view;
    std::vector<uint8_t> map;
    std::vector<uint32_t> rank, offsets;
    std::vector<int64_t> tileStart, blockStart;
    std::vector<uint16_t> entries;
    int64_t kinds[4] = {};
};

/// Lists of rows [q0, q1) x keys [k0, k1) of the world. denseAbove: near pairs from which a tile is stored dense.
inline std::unique_ptr<ListStorage> buildLists(const World& w, int64_t q0, int64_t q1, int64_t k0, int64_t k1, int64_t denseAbove)
{
    auto s = std::make_unique<ListStorage>();
    const int64_t qb = (q1 - q0 + 63) / 64, kb = (k1 - k0 + 63) / 64, mapStride = (kb + 3) / 4, rankStride = (kb + 255) / 256;
    s->map.assign(size_t(qb * mapStride), 0);
    s->rank.assign(size_t(qb * rankStride), 0);
    s->tileStart.assign(1, 0);
    s->blockStart.assign(1, 0);
    for (int64_t bi = 0; bi < qb; ++bi) {
        for (int64_t bj = 0; bj < kb; ++bj) {
            if (bj % 256 == 0)
                s->rank[size_t(bi * rankStride + bj / 256)] = uint32_t(int64_t(s->offsets.size()) - s->tileStart.back());
            const int32_t planes = planeCount(w.hops);
            std::vector<uint16_t> list, dense(size_t(planes) * 256, 0xFFFF);
            bool constant = true;
            int first = -1;
            for (int64_t r = 0; r < 64 && q0 + bi * 64 + r < q1; ++r) {
                for (int64_t c = 0; c < 64 && k0 + bj * 64 + c < k1; ++c) {
                    const uint8_t code = w.classOf[size_t((q0 + bi * 64 + r) * w.tokens + k0 + bj * 64 + c)];
                    first = first < 0 ? code : first;
                    constant = constant && code == first && code <= w.hops;
                    if (code > w.hops)
                        continue;
                    list.push_back(uint16_t(r << 10 | c << 4 | code));
                    for (int32_t p = 0; p < planes; ++p) {
                        if ((code >> p & 1) == 0)
                            dense[size_t(p * 256 + r * 4 + c / 16)] &= uint16_t(~(1u << c % 16));
                    }
                }
            }
            if (list.empty()) {
                ++s->kinds[0];
                continue;
            }
            const TileKind kind = constant ? TileKind::Const : int64_t(list.size()) > denseAbove ? TileKind::Dense : TileKind::List;
            ++s->kinds[int(kind)];
            s->map[size_t(bi * mapStride + bj / 4)] |= uint8_t(int(kind) << (2 * (bj % 4)));
            s->offsets.push_back(kind == TileKind::Const ? uint32_t(first) : uint32_t(int64_t(s->entries.size()) - s->blockStart.back()));
            if (kind == TileKind::List) {
                s->entries.push_back(uint16_t(list.size()));
                s->entries.insert(s->entries.end(), list.begin(), list.end());
            } else if (kind == TileKind::Dense) {
                s->entries.insert(s->entries.end(), dense.begin(), dense.end());
            }
        }
        s->tileStart.push_back(int64_t(s->offsets.size()));
        s->blockStart.push_back(int64_t(s->entries.size()));
    }
    s->view = {qb, kb, mapStride, rankStride, s->map, s->rank, s->tileStart, s->offsets, s->blockStart, s->entries};
    return s;
}

/// Tensors of a world and everything that a call needs.
struct Problem {
    const World* world = nullptr;
    int32_t heads = 1, dim = 8;
    double scale = 1;
    std::vector<float> q, k, v, dO; // [tokens, heads, dim]
    std::vector<float> table;       // [heads, classes] as learned; empty = none
    Dropout dropout;
    int64_t denseAbove = 512;
    int32_t kvSplits = 1;

    std::vector<float> shifted() const // b' = b - b[far]
    {
        std::vector<float> b = table;
        for (int32_t h = 0; h < heads && !table.empty(); ++h) {
            for (int32_t c = 0; c < world->classes; ++c)
                b[size_t(h * world->classes + c)] -= table[size_t(h * world->classes + world->hops + 1)];
        }
        return b;
    }
};

inline Problem makeProblem(const World& w, int32_t heads, int32_t dim, bool bias, uint64_t seed)
{
    Problem p;
    p.world = &w;
    p.heads = heads;
    p.dim = dim;
    p.scale = 1.0 / std::sqrt(double(dim));
    const size_t count = size_t(w.tokens) * size_t(heads) * size_t(dim);
    p.q = randomFloats(count, seed, 1, 2.0f);
    p.k = randomFloats(count, seed, 2, 2.0f);
    p.v = randomFloats(count, seed, 3);
    p.dO = randomFloats(count, seed, 4);
    if (bias)
        p.table = randomFloats(size_t(heads) * size_t(w.classes), seed, 5);
    return p;
}

struct Range {
    int64_t begin = 0, end = 0;
    int64_t size() const { return end - begin; }
};

template <class T> std::vector<T> slice(const std::vector<T>& all, Range range, int64_t width)
{
    return {all.begin() + range.begin * width, all.begin() + range.end * width};
}

inline reference::Dense referenceOf(const Problem& p, Range rows, Range keys)
{
    const World& w = *p.world;
    const int64_t width = int64_t(p.heads) * p.dim;
    reference::Dense d;
    d.queries = rows.size();
    d.keys = keys.size();
    d.queryOffset = rows.begin;
    d.keyOffset = keys.begin;
    d.heads = p.heads;
    d.dim = p.dim;
    d.classCount = w.classes;
    d.scale = p.scale;
    d.q = widened(slice(p.q, rows, width));
    d.k = widened(slice(p.k, keys, width));
    d.v = widened(slice(p.v, keys, width));
    d.table = widened(p.table);
    d.dropout = p.dropout;
    if (!p.table.empty() || !w.segment.empty()) {
        for (int64_t i = rows.begin; i < rows.end; ++i) {
            const auto row = w.classOf.begin() + i * w.tokens;
            d.classes.insert(d.classes.end(), row + keys.begin, row + keys.end);
        }
    }
    return d;
}

struct Fast {
    std::vector<float> o, lse, dq, dk, dv, table;
    std::vector<double> summed;
    Bias bias;
};

inline AttentionShape shapeOf(const Problem& p, Range rows, Range keys)
{
    AttentionShape s;
    s.queries = rows.size();
    s.keys = keys.size();
    s.queryOffset = rows.begin;
    s.keyOffset = keys.begin;
    s.heads = p.heads;
    s.dim = p.dim;
    s.scale = p.scale;
    s.kvSplits = p.kvSplits;
    return s;
}

/// What a call sees of one (rows x keys) block.
struct Block {
    AttentionShape shape;
    HeadView<const float> q, k, v, dO;
    Bias bias;
    std::vector<float> table;
    std::unique_ptr<ListStorage> lists;
};

inline std::unique_ptr<Block> blockOf(const Problem& p, Range rows, Range keys)
{
    const World& w = *p.world;
    auto b = std::make_unique<Block>();
    b->shape = shapeOf(p, rows, keys);
    const int64_t width = int64_t(p.heads) * p.dim;
    b->q = contiguousHeads(p.q.data() + rows.begin * width, rows.size(), p.heads, p.dim);
    b->k = contiguousHeads(p.k.data() + keys.begin * width, keys.size(), p.heads, p.dim);
    b->v = contiguousHeads(p.v.data() + keys.begin * width, keys.size(), p.heads, p.dim);
    b->dO = contiguousHeads(p.dO.data() + rows.begin * width, rows.size(), p.heads, p.dim);
    b->table = p.shifted();
    b->lists = buildLists(w, rows.begin, rows.end, keys.begin, keys.end, p.denseAbove);
    b->bias.hops = w.hops;
    b->bias.classes = w.classes;
    b->bias.table = p.table.empty() ? nullptr : b->table.data();
    const auto ids = [](const std::vector<int32_t>& all, Range r) {
        return all.empty() ? std::span<const int32_t>() : std::span<const int32_t>(all).subspan(size_t(r.begin), size_t(r.size()));
    };
    b->bias.queryComponent = ids(w.component, rows);
    b->bias.keyComponent = ids(w.component, keys);
    b->bias.querySegment = ids(w.segment, rows);
    b->bias.keySegment = ids(w.segment, keys);
    if (!p.table.empty())
        b->bias.lists = b->lists->view;
    return b;
}

template <class T> std::vector<T> asElements(const std::vector<float>& values)
{
    if constexpr (std::is_same_v<T, float>) {
        return values;
    } else {
        std::vector<Bfloat16> out(values.size());
        std::transform(values.begin(), values.end(), out.begin(), [](float x) { return toBfloat16(x); });
        return out;
    }
}
template <class T> std::vector<float> asFloats(const std::vector<T>& values)
{
    std::vector<float> out(values.size());
    std::transform(values.begin(), values.end(), out.begin(), [](T x) { return toFloat(x); });
    return out;
}
template <class T> constexpr Element elementOf()
{
    return std::is_same_v<T, float> ? Element::Fp32 : Element::Bf16;
}

/// q, k, v, dO of a block in elements of T. Views of a block must be contiguous.
template <class T> struct Tensors {
    std::vector<T> q, k, v, dO;
    int64_t queries, keys;
    int32_t heads, dim;

    Tensors(const Problem& p, Range rows, Range range)
        : queries(rows.size()), keys(range.size()), heads(p.heads), dim(p.dim)
    {
        const int64_t width = int64_t(p.heads) * p.dim;
        q = asElements<T>(slice(p.q, rows, width));
        k = asElements<T>(slice(p.k, range, width));
        v = asElements<T>(slice(p.v, range, width));
        dO = asElements<T>(slice(p.dO, rows, width));
    }
    HeadView<const T> rows(const std::vector<T>& x) const { return contiguousHeads(x.data(), queries, heads, dim); }
    HeadView<const T> columns(const std::vector<T>& x) const { return contiguousHeads(x.data(), keys, heads, dim); }
};

/// Forward, delta, backward of one block in elements of T; gradients start at zero.
template <class T = float>
Fast runFast(const Problem& p, Range rows, Range keys, const ParallelFor& parallel, bool backward = true)
{
    const auto b = blockOf(p, rows, keys);
    const Tensors<T> t(p, rows, keys);
    const size_t qn = size_t(rows.size()) * size_t(p.heads * p.dim), kn = size_t(keys.size()) * size_t(p.heads * p.dim);
    Fast out;
    Guarded<T> o(qn, asElements<T>({std::numeric_limits<float>::quiet_NaN()})[0]);
    Guarded<float> lse(size_t(p.heads) * size_t(rows.size()));
    {
        Workspace space(attentionForwardWorkspace(b->shape, parallel.slots(), elementOf<T>()));
        const auto done = attentionForward(b->shape, t.rows(t.q), t.columns(t.k), t.columns(t.v), b->bias, p.dropout,
                                           contiguousHeads(o.data(), rows.size(), p.heads, p.dim), lse.data(), space.get(), parallel);
        EXPECT_TRUE(done.ok()) << (done.ok() ? "" : done.error().message);
    }
    out.o = asFloats(o.values());
    out.lse = lse.values();
    if (!backward)
        return out;
    std::vector<float> delta(size_t(p.heads) * size_t(rows.size()));
    attentionDelta(contiguousHeads<const T>(o.data(), rows.size(), p.heads, p.dim), t.rows(t.dO), delta.data());
    Guarded<float> dq(qn, 0), dk(kn, 0), dv(kn, 0);
    const size_t bins = size_t(p.heads) * size_t(p.world->classes);
    Guarded<double> partials(bins * size_t(p.kvSplits), 0);
    Workspace space(attentionBackwardWorkspace(b->shape, parallel.slots(), elementOf<T>()));
    const auto done = attentionBackward(b->shape, t.rows(t.q), t.columns(t.k), t.columns(t.v), t.rows(t.dO), lse.data(), delta.data(),
                                        b->bias, p.dropout, dq.data(), dk.data(), dv.data(), partials.data(), space.get(), parallel);
    EXPECT_TRUE(done.ok()) << (done.ok() ? "" : done.error().message);
    out.dq = dq.values();
    out.dk = dk.values();
    out.dv = dv.values();
    out.summed.resize(bins);
    tableGradient(p.heads, p.kvSplits, p.world->classes, partials.data(), out.summed.data());
    out.table.resize(bins);
    closeFarBin(p.heads, p.world->hops, out.summed.data(), out.table.data());
    return out;
}

/// Runs `body` once per set that this machine supports; `same(a, b)` tells that two sets have nothing new to test.
template <class Same, class F> void forEachDistinctSet(Same&& same, F&& body)
{
    const std::string before = cpu::kernels().name;
    std::vector<const cpu::CpuKernels*> done;
    for (const cpu::CpuKernels* set : cpu::allKernels()) {
        if (!set->supported() || std::any_of(done.begin(), done.end(), [&](const cpu::CpuKernels* d) { return same(*d, *set); }))
            continue;
        done.push_back(set);
        ASSERT_TRUE(cpu::forceKernels(set->name).ok());
        SCOPED_TRACE(set->name);
        body();
    }
    ASSERT_TRUE(cpu::forceKernels(before).ok());
}
/// Sets with fp32 code of their own.
template <class F> void forEachSet(F&& body)
{
    forEachDistinctSet([](const cpu::CpuKernels& a, const cpu::CpuKernels& b) { return a.dense.forward == b.dense.forward; }, body);
}
/// Sets with bf16 code of their own.
template <class F> void forEachBf16Set(F&& body)
{
    const auto same = [](const cpu::CpuKernels& a, const cpu::CpuKernels& b) {
        return a.dense.forward == b.dense.forward && a.pairs == b.pairs;
    };
    forEachDistinctSet(same, body);
}

/// Something that is not finite in one row of q, k, v or dO stays with the tokens that read it, or are read by it: those outside of
/// `reach` (by token) keep the results that they have without it. closed: nothing inside reads anything outside; else a bad k or v
/// goes on through the rows that read it, in backward, to all keys that these read.
template <class T> void expectStaysInside(const Problem& clean, const std::vector<bool>& reach, int64_t token, double limit, bool closed = true)
{
    const Range all{0, clean.world->tokens};
    const int64_t width = int64_t(clean.heads) * clean.dim;
    const Fast expected = runFast<T>(clean, all, all, SerialFor());
    for (const float value : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
        for (int which = 0; which < 4; ++which) {
            Problem bad = clean;
            std::vector<float>* const tensors[] = {&bad.q, &bad.k, &bad.v, &bad.dO};
            (*tensors[which])[size_t(token * width + 1)] = value;
            const Fast got = runFast<T>(bad, all, all, SerialFor());
            const auto inside = [&](const std::vector<float>& x) { return !std::isfinite(x[size_t(token * width + (which == 2 ? 1 : 0))]); };
            EXPECT_TRUE(inside(got.o) || inside(got.dq) || inside(got.dk) || inside(got.dv)) << "tensor " << which << ", value " << value;
            for (const auto& [name, a, b] : {std::tuple("o", &got.o, &expected.o), std::tuple("dq", &got.dq, &expected.dq),
                                             std::tuple("dk", &got.dk, &expected.dk), std::tuple("dv", &got.dv, &expected.dv)}) {
                const bool onwards = !closed && (which == 1 || which == 2) && (name[1] == 'k' || name[1] == 'v');
                double off = 0, norm = 0;
                for (int64_t t = 0; !onwards && t < clean.world->tokens; ++t) {
                    for (int64_t x = t * width; !reach[size_t(t)] && x < (t + 1) * width; ++x) {
                        off += std::pow(double((*a)[size_t(x)]) - double((*b)[size_t(x)]), 2);
                        norm += std::pow(double((*b)[size_t(x)]), 2);
                    }
                }
                EXPECT_LE(std::sqrt(off), limit * std::sqrt(norm)) << name << ", tensor " << which << ", value " << value;
            }
        }
    }
}
/// Three ways to mask pairs inside a tile: graphs of a pack, classes of -inf in split tiles, near classes of -inf in lists.
template <class T> void expectNotANumberStaysWithItsReaders(double limit)
{
    for (const double drop : {0.0, 0.3}) {
        SCOPED_TRACE(drop);
        const auto problem = [&](const World& w, int32_t dim, uint64_t seed) {
            Problem p = makeProblem(w, 2, dim, true, seed);
            p.dropout = {drop, 4, 4, 0, 1, kSiteAttention};
            return p;
        };
        std::vector<bool> reach(150);
        World pack = makeWorld(150, 2, 1, false, 9);
        cutIntoSegments(pack, {30, 64, 66, 100, 150});
        for (int64_t t = 0; t < 150; ++t)
            reach[size_t(t)] = pack.segment[size_t(t)] == pack.segment[40];
        {
            SCOPED_TRACE("pack");
            expectStaysInside<T>(problem(pack, 10, 3), reach, 40, limit);
        }
        const World apart = makeWorld(150, 2, 3, false, 9);
        Problem p = problem(apart, 16, 4);
        for (int32_t h = 0; h < 2; ++h)
            p.table[size_t(h * apart.classes + 4)] = -std::numeric_limits<float>::infinity(); // unreachable
        for (int64_t t = 0; t < 150; ++t)
            reach[size_t(t)] = apart.component[size_t(t)] == apart.component[50];
        {
            SCOPED_TRACE("components");
            expectStaysInside<T>(p, reach, 50, limit);
        }
        const World one = makeWorld(150, 1, 1, false, 9);
        Problem near = problem(one, 8, 5);
        near.denseAbove = 5000; // lists
        for (int32_t h = 0; h < 2; ++h)
            near.table[size_t(h * one.classes + 1)] = -std::numeric_limits<float>::infinity(); // neighbours
        for (int64_t t = 0; t < 150; ++t)
            reach[size_t(t)] = one.classOf[size_t(20 * 150 + t)] != 1;
        {
            SCOPED_TRACE("neighbours");
            expectStaysInside<T>(near, reach, 20, limit, false);
        }
    }
}

} // namespace megagraph::kernels::testing
