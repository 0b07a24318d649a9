// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention.h"

#include "kernels/checks.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/mask.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <tuple>

namespace megagraph::kernels {
namespace {

int64_t blocks(int64_t tokens)
{
    return (tokens + kTile - 1) / kTile;
}
int64_t roundUp(int64_t value, int64_t to)
{
    return (value + to - 1) / to * to;
}

cpu::DenseCall describe(const AttentionShape& shape)
{
    cpu::DenseCall call{};
    call.queries = shape.queries;
    call.keys = shape.keys;
    call.queryOffset = shape.queryOffset;
    call.keyOffset = shape.keyOffset;
    call.heads = shape.heads;
    call.dim = shape.dim;
    call.paddedDim = int32_t(roundUp(shape.dim, 4));
    call.wideDim = int32_t(roundUp(shape.dim, 16));
    call.pairDim = int32_t(roundUp(shape.dim, 32));
    call.headOffset = shape.headOffset;
    call.kvSplits = shape.kvSplits;
    call.scale = shape.scale;
    return call;
}

/// Units of the scores. fp32: q carries the whole scale. Pairs: q' is bf16 again, so that it can carry a sign and a power of
/// two only; the rest meets the fp32 scores. The usual scale leaves q as it is.
void setUnits(cpu::DenseCall& call, bool pairs)
{
    const double scale = call.scale * 1.4426950408889634;
    call.queryFactor = float(scale);
    call.scoreFactor = 1.0f;
    if (pairs && scale > 1e-6 && scale < 1e6) {
        call.queryFactor = 1.0f;
        call.scoreFactor = float(scale);
    } else if (pairs && scale != 0) {
        int exponent = 0;
        const double fraction = std::frexp(std::fabs(scale), &exponent); // [0.5, 1)
        call.queryFactor = float(std::copysign(std::ldexp(1.0, exponent - 1), scale));
        call.scoreFactor = float(2 * fraction);
    }
    call.addendScale = 1.44269504088896341f / call.scoreFactor;
}

void addBias(cpu::DenseCall& call, const Bias& bias)
{
    const auto pointer = [](std::span<const int32_t> ids) { return ids.empty() ? nullptr : ids.data(); };
    call.hops = bias.hops;
    call.classes = bias.classes;
    call.planeCount = planeCount(bias.hops);
    call.table = bias.table;
    call.queryComponent = pointer(bias.queryComponent);
    call.keyComponent = pointer(bias.keyComponent);
    call.querySegment = pointer(bias.querySegment);
    call.keySegment = pointer(bias.keySegment);
    const TileListsView& lists = bias.lists;
    call.lists = {lists.queryBlocks,    lists.keyBlocks,       lists.mapStride,        lists.rankStride,       lists.map.data(),
                  lists.rank.data(),    lists.tileStart.data(), lists.offsets.data(),   lists.blockStart.data(), lists.entries.data()};
    if (bias.table != nullptr && bias.storage == BiasStorage::Planes) {
        const auto range = [](const auto& span) { return span.empty() ? nullptr : span.data(); };
        const TilePlanesView& planes = bias.planes;
        call.planes = {planes.keyBlocks, planes.words.data(), range(planes.tileFirst), range(planes.keyBlockBegin), range(planes.keyBlockEnd)};
    }
    static_assert(sizeof(cpu::EdgeTile) == sizeof(EdgeTile) && offsetof(cpu::EdgeTile, first) == offsetof(EdgeTile, first));
    const EdgeValues& edges = bias.edges;
    call.edgeStart = edges.tiles.blockStart.data();
    call.edgeTiles = reinterpret_cast<const cpu::EdgeTile*>(edges.tiles.tiles.data());
    call.edgePositions = edges.tiles.positions.data();
    call.edgeValues = edges.tiles.positions.empty() ? nullptr : edges.values;
    call.edgeGradient = edges.gradient;
    call.edges = int64_t(edges.tiles.positions.size());
}

template <class T> cpu::DenseView view(const HeadView<const T>& v)
{
    return {v.data, v.rowStride, v.headStride};
}
template <class T> constexpr Element elementOf()
{
    return sizeof(T) == sizeof(float) ? Element::Fp32 : Element::Bf16;
}

int64_t idBytes(const AttentionShape& shape)
{
    return roundUp((blocks(shape.queries) + blocks(shape.keys)) * int64_t(sizeof(cpu::BlockIds)), 64);
}
/// Packed K and V of one (head, key block).
int64_t packedBlockBytes(const AttentionShape& shape, bool pairs)
{
    const int64_t keyRow = pairs ? 2 * roundUp(shape.dim, 32) : 4 * roundUp(shape.dim, 4);
    const int64_t valueRow = pairs ? 2 * roundUp(shape.dim, 16) : keyRow;
    return kTile * (keyRow + valueRow);
}
int64_t packedBytes(const AttentionShape& shape, bool pairs)
{
    return int64_t(shape.heads) * blocks(shape.keys) * packedBlockBytes(shape, pairs);
}
int64_t splitFloats(const AttentionShape& shape, bool pairs)
{
    if (shape.kvSplits == 1)
        return 0;
    return int64_t(shape.heads) * shape.kvSplits * blocks(shape.queries) * kTile * roundUp(shape.dim, pairs ? 16 : 4);
}

int64_t forwardBytes(const AttentionShape& shape, int32_t slots, bool pairs)
{
    return idBytes(shape) + packedBytes(shape, pairs) + slots * roundUp(4 * cpu::forwardScratchFloats(describe(shape), pairs), 64);
}
int64_t backwardBytes(const AttentionShape& shape, int32_t slots, bool pairs)
{
    return idBytes(shape) + 4 * splitFloats(shape, pairs) +
           slots * roundUp(4 * cpu::backwardScratchFloats(describe(shape), pairs), 64);
}

unsigned char* placeIds(cpu::DenseCall& call, const AttentionShape& shape, void* workspace)
{
    auto* at = static_cast<unsigned char*>(workspace);
    call.queryIds = reinterpret_cast<cpu::BlockIds*>(at);
    call.keyIds = call.queryIds + blocks(shape.queries);
    return at + idBytes(shape);
}

template <class T>
Result<Ok> checkInputs(const char* op, const AttentionShape& shape, const HeadView<const T>& q, const HeadView<const T>& k,
                       const HeadView<const T>& v, const Bias& bias, const Dropout& dropout, const void* workspace)
{
    static const Result<Ok> forced = cpu::forcedKernels(); // a wrong name in the environment must not go unnoticed
    if (!forced.ok())
        return forced.error();
    MEGAGRAPH_TRY(std::ignore, checkShape(op, shape));
    MEGAGRAPH_TRY(std::ignore, checkView(op, "q", q, shape.queries, shape.heads, shape.dim));
    MEGAGRAPH_TRY(std::ignore, checkView(op, "k", k, shape.keys, shape.heads, shape.dim));
    MEGAGRAPH_TRY(std::ignore, checkView(op, "v", v, shape.keys, shape.heads, shape.dim));
    MEGAGRAPH_TRY(std::ignore, checkDropout(op, dropout));
    MEGAGRAPH_TRY(std::ignore, checkBias(op, shape, bias));
    if (shape.queries == 0 || shape.heads == 0)
        return Ok{};
    MEGAGRAPH_TRY(std::ignore, checkPointer(op, "workspace", workspace, 1));
    if (reinterpret_cast<uintptr_t>(workspace) % 64 != 0)
        return Error{ErrorCode::InvalidInput, std::string(op) + ": workspace: alignment, expected 64 bytes."};
    return Ok{};
}

/// What all three ops put into a call.
template <class T>
cpu::DenseCall makeCall(const AttentionShape& shape, const HeadView<const T>& q, const HeadView<const T>& k, const HeadView<const T>& v,
                        const Bias& bias, const Dropout& dropout)
{
    cpu::DenseCall call = describe(shape);
    addBias(call, bias);
    call.bf16 = elementOf<T>() == Element::Bf16;
    call.q = view(q);
    call.k = view(k);
    call.v = view(v);
    call.mask = cpu::makeMask(dropout);
    return call;
}

/// Operands of a call: bf16 pairs if the set in use has them and the elements are bf16.
const cpu::DenseKernels& chooseOperands(cpu::DenseCall& call, bool& pairs)
{
    const cpu::CpuKernels& set = cpu::kernels();
    pairs = call.bf16 && set.pairs != nullptr;
    setUnits(call, pairs);
    return pairs ? *set.pairs : set.dense;
}

/// Forward and partial after all checks.
void runForward(cpu::DenseCall& call, const AttentionShape& shape, void* workspace, const ParallelFor& parallel)
{
    bool pairs = false;
    const cpu::DenseKernels& dense = chooseOperands(call, pairs);
    unsigned char* at = placeIds(call, shape, workspace);
    const int64_t keyBytes = int64_t(shape.heads) * blocks(shape.keys) * kTile * (pairs ? 2 * call.pairDim : 4 * call.paddedDim);
    call.packedK = at;
    call.packedV = at + keyBytes;
    call.scratch = at + packedBytes(shape, pairs);
    call.scratchBytes = roundUp(4 * cpu::forwardScratchFloats(call, pairs), 64);
    dense.ids(call);
    parallel.run(int64_t(shape.heads) * blocks(shape.keys), [&](int64_t task, int32_t) { dense.pack(call, task); });
    parallel.run(int64_t(shape.heads) * blocks(shape.queries),
                 [&](int64_t task, int32_t slot) { dense.forward(call, task, slot); });
}

template <class T>
Result<Ok> forward(const AttentionShape& shape, HeadView<const T> q, HeadView<const T> k, HeadView<const T> v, const Bias& bias,
                   const Dropout& dropout, HeadView<T> o, float* lse, void* workspace, const ParallelFor& parallel)
{
    const char* op = "attentionForward";
    MEGAGRAPH_TRY(std::ignore, checkInputs(op, shape, q, k, v, bias, dropout, workspace));
    MEGAGRAPH_TRY(std::ignore, checkView(op, "o", o, shape.queries, shape.heads, shape.dim));
    MEGAGRAPH_TRY(std::ignore, checkPointer(op, "lse", lse, shape.queries * shape.heads));
    if (shape.queries == 0 || shape.heads == 0)
        return Ok{};
    cpu::DenseCall call = makeCall(shape, q, k, v, bias, dropout);
    call.o = {o.data, o.rowStride, o.headStride};
    call.lse = lse;
    runForward(call, shape, workspace, parallel);
    return Ok{};
}

template <class T>
Result<Ok> partial(const AttentionShape& shape, HeadView<const T> q, HeadView<const T> k, HeadView<const T> v, const Bias& bias,
                   const Dropout& dropout, bool first, AttentionState state, void* workspace, const ParallelFor& parallel)
{
    const char* op = "attentionPartial";
    MEGAGRAPH_TRY(std::ignore, checkInputs(op, shape, q, k, v, bias, dropout, workspace));
    MEGAGRAPH_TRY(std::ignore, checkPointer(op, "state m", state.m, shape.queries * shape.heads));
    MEGAGRAPH_TRY(std::ignore, checkPointer(op, "state l", state.l, shape.queries * shape.heads));
    MEGAGRAPH_TRY(std::ignore, checkPointer(op, "state acc", state.acc, shape.queries * shape.heads * shape.dim));
    if (shape.queries == 0 || shape.heads == 0)
        return Ok{};
    cpu::DenseCall call = makeCall(shape, q, k, v, bias, dropout);
    call.partial = true;
    call.first = first;
    call.stateM = state.m;
    call.stateL = state.l;
    call.stateAcc = state.acc;
    runForward(call, shape, workspace, parallel);
    return Ok{};
}

template <class T>
void finish(int64_t queries, int32_t heads, int32_t dim, const AttentionState& state, const HeadView<T>& o, float* lse)
{
    for (int32_t h = 0; h < heads; ++h) {
        for (int64_t i = 0; i < queries; ++i) {
            const float l = state.l[h * queries + i];
            const bool empty = l == 0.0f;
            const float factor = empty ? 0.0f : 1.0f / l;
            lse[h * queries + i] = empty ? -std::numeric_limits<float>::infinity()
                                         : 0.693147180559945309f * (state.m[h * queries + i] + std::log2(l));
            const float* acc = state.acc + (i * heads + h) * dim;
            T* row = o.row(i, h);
            for (int32_t c = 0; c < dim; ++c) {
                const float value = empty ? 0.0f : acc[c] * factor;
                if constexpr (elementOf<T>() == Element::Bf16)
                    row[c] = toBfloat16(value);
                else
                    row[c] = value;
            }
        }
    }
}

template <class T> void rowProducts(const HeadView<const T>& o, const HeadView<const T>& dO, float* delta)
{
    for (int32_t h = 0; h < o.heads; ++h) {
        for (int64_t i = 0; i < o.rows; ++i) {
            const T *x = o.row(i, h), *y = dO.row(i, h);
            double sum = 0;
            for (int32_t c = 0; c < o.dim; ++c)
                sum += double(toFloat(x[c])) * double(toFloat(y[c]));
            delta[h * o.rows + i] = float(sum);
        }
    }
}

void runBackward(cpu::DenseCall& call, const AttentionShape& shape, void* workspace, const ParallelFor& parallel)
{
    bool pairs = false;
    const cpu::DenseKernels& dense = chooseOperands(call, pairs);
    unsigned char* at = placeIds(call, shape, workspace);
    call.splitDq = reinterpret_cast<float*>(at);
    call.scratch = at + 4 * splitFloats(shape, pairs);
    call.scratchBytes = roundUp(4 * cpu::backwardScratchFloats(call, pairs), 64);
    dense.ids(call);
    parallel.run(int64_t(shape.heads) * shape.kvSplits, [&](int64_t task, int32_t slot) { dense.backward(call, task, slot); });
    if (shape.kvSplits > 1)
        parallel.run(int64_t(shape.heads) * blocks(shape.queries), [&](int64_t task, int32_t) { dense.reduce(call, task); });
}

template <class T>
Result<Ok> backward(const AttentionShape& shape, HeadView<const T> q, HeadView<const T> k, HeadView<const T> v, HeadView<const T> dO,
                    const float* lse, const float* delta, const Bias& bias, const Dropout& dropout, float* dq, float* dk, float* dv,
                    double* tablePartials, void* workspace, const ParallelFor& parallel)
{
    const char* op = "attentionBackward";
    const int64_t wide = int64_t(shape.heads) * shape.dim;
    MEGAGRAPH_TRY(std::ignore, checkInputs(op, shape, q, k, v, bias, dropout, workspace));
    MEGAGRAPH_TRY(std::ignore, checkView(op, "dO", dO, shape.queries, shape.heads, shape.dim));
    MEGAGRAPH_TRY(std::ignore, checkPointer(op, "lse", lse, shape.queries * shape.heads));
    MEGAGRAPH_TRY(std::ignore, checkPointer(op, "delta", delta, shape.queries * shape.heads));
    MEGAGRAPH_TRY(std::ignore, checkPointer(op, "dq", dq, shape.queries * wide));
    MEGAGRAPH_TRY(std::ignore, checkPointer(op, "dk", dk, shape.keys * wide));
    MEGAGRAPH_TRY(std::ignore, checkPointer(op, "dv", dv, shape.keys * wide));
    if (shape.queries == 0 || shape.keys == 0 || shape.heads == 0)
        return Ok{};
    cpu::DenseCall call = makeCall(shape, q, k, v, bias, dropout);
    call.dO = view(dO);
    call.lseIn = lse;
    call.delta = delta;
    call.dq = dq;
    call.dk = dk;
    call.dv = dv;
    call.tablePartials = bias.table != nullptr ? tablePartials : nullptr;
    runBackward(call, shape, workspace, parallel);
    return Ok{};
}

} // namespace

int64_t attentionForwardWorkspace(const AttentionShape& shape, int32_t slots, Element element)
{
    const int64_t wide = forwardBytes(shape, slots, false);
    return element == Element::Fp32 ? wide : std::max(wide, forwardBytes(shape, slots, true));
}

int64_t attentionBackwardWorkspace(const AttentionShape& shape, int32_t slots, Element element)
{
    const int64_t wide = backwardBytes(shape, slots, false);
    return element == Element::Fp32 ? wide : std::max(wide, backwardBytes(shape, slots, true));
}

void attentionCombine(int64_t queries, int32_t heads, int32_t dim, AttentionState a, AttentionState b)
{
    constexpr float kNone = -std::numeric_limits<float>::infinity();
    for (int32_t h = 0; h < heads; ++h) {
        for (int64_t i = 0; i < queries; ++i) {
            const int64_t at = h * queries + i;
            const float m = std::fmax(a.m[at], b.m[at]);
            const float fa = a.m[at] == kNone ? 0.0f : std::exp2(a.m[at] - m);
            const float fb = b.m[at] == kNone ? 0.0f : std::exp2(b.m[at] - m);
            a.m[at] = m;
            a.l[at] = a.l[at] * fa + b.l[at] * fb;
            float* x = a.acc + (i * heads + h) * dim;
            const float* y = b.acc + (i * heads + h) * dim;
            for (int32_t c = 0; c < dim; ++c)
                x[c] = x[c] * fa + y[c] * fb;
        }
    }
}

Result<Ok> attentionForward(const AttentionShape& shape, HeadView<const float> q, HeadView<const float> k, HeadView<const float> v,
                            const Bias& bias, const Dropout& dropout, HeadView<float> o, float* lse, void* workspace,
                            const ParallelFor& parallel)
{
    return forward<float>(shape, q, k, v, bias, dropout, o, lse, workspace, parallel);
}

Result<Ok> attentionPartial(const AttentionShape& shape, HeadView<const float> q, HeadView<const float> k, HeadView<const float> v,
                            const Bias& bias, const Dropout& dropout, bool first, AttentionState state, void* workspace,
                            const ParallelFor& parallel)
{
    return partial<float>(shape, q, k, v, bias, dropout, first, state, workspace, parallel);
}

void attentionFinish(int64_t queries, int32_t heads, int32_t dim, AttentionState state, HeadView<float> o, float* lse)
{
    finish<float>(queries, heads, dim, state, o, lse);
}

void attentionDelta(HeadView<const float> o, HeadView<const float> dO, float* delta)
{
    rowProducts<float>(o, dO, delta);
}

Result<Ok> attentionBackward(const AttentionShape& shape, HeadView<const float> q, HeadView<const float> k, HeadView<const float> v,
                             HeadView<const float> dO, const float* lse, const float* delta, const Bias& bias,
                             const Dropout& dropout, float* dq, float* dk, float* dv, double* tablePartials, void* workspace,
                             const ParallelFor& parallel)
{
    return backward<float>(shape, q, k, v, dO, lse, delta, bias, dropout, dq, dk, dv, tablePartials, workspace, parallel);
}

Result<Ok> attentionForward(const AttentionShape& shape, HeadView<const Bfloat16> q, HeadView<const Bfloat16> k, HeadView<const Bfloat16> v,
                            const Bias& bias, const Dropout& dropout, HeadView<Bfloat16> o, float* lse, void* workspace,
                            const ParallelFor& parallel)
{
    return forward<Bfloat16>(shape, q, k, v, bias, dropout, o, lse, workspace, parallel);
}

Result<Ok> attentionPartial(const AttentionShape& shape, HeadView<const Bfloat16> q, HeadView<const Bfloat16> k, HeadView<const Bfloat16> v,
                            const Bias& bias, const Dropout& dropout, bool first, AttentionState state, void* workspace,
                            const ParallelFor& parallel)
{
    return partial<Bfloat16>(shape, q, k, v, bias, dropout, first, state, workspace, parallel);
}

void attentionFinish(int64_t queries, int32_t heads, int32_t dim, AttentionState state, HeadView<Bfloat16> o, float* lse)
{
    finish<Bfloat16>(queries, heads, dim, state, o, lse);
}

void attentionDelta(HeadView<const Bfloat16> o, HeadView<const Bfloat16> dO, float* delta)
{
    rowProducts<Bfloat16>(o, dO, delta);
}

Result<Ok> attentionBackward(const AttentionShape& shape, HeadView<const Bfloat16> q, HeadView<const Bfloat16> k, HeadView<const Bfloat16> v,
                             HeadView<const Bfloat16> dO, const float* lse, const float* delta, const Bias& bias,
                             const Dropout& dropout, float* dq, float* dk, float* dv, double* tablePartials, void* workspace,
                             const ParallelFor& parallel)
{
    return backward<Bfloat16>(shape, q, k, v, dO, lse, delta, bias, dropout, dq, dk, dv, tablePartials, workspace, parallel);
}

Result<Ok> subtractFar(int32_t heads, int32_t hops, const float* table, float* shifted)
{
    const int32_t classes = hops + 4, far = hops + 1;
    for (int32_t h = 0; h < heads; ++h) {
        if (const float value = table[int64_t(h) * classes + far]; !std::isfinite(value))
            return Error{ErrorCode::InvalidInput, "bias table: far entry of head " + std::to_string(h) + ", got " + std::to_string(value) +
                                                      ", expected a finite value; a row of far pairs would have no sum."};
    }
    for (int32_t h = 0; h < heads; ++h) {
        const float value = table[int64_t(h) * classes + far];
        for (int32_t c = 0; c < classes; ++c)
            shifted[int64_t(h) * classes + c] = table[int64_t(h) * classes + c] - value;
    }
    return Ok{};
}

void tableGradient(int32_t heads, int32_t kvSplits, int32_t classes, const double* partials, double* summed)
{
    for (int32_t h = 0; h < heads; ++h) {
        for (int32_t c = 0; c < classes; ++c) {
            double sum = 0;
            for (int32_t s = 0; s < kvSplits; ++s)
                sum += partials[(int64_t(h) * kvSplits + s) * classes + c];
            summed[int64_t(h) * classes + c] = sum;
        }
    }
}

void closeFarBin(int32_t heads, int32_t hops, const double* summed, float* db)
{
    const int32_t classes = hops + 4, far = hops + 1;
    for (int32_t h = 0; h < heads; ++h) {
        double others = 0;
        for (int32_t c = 0; c < classes; ++c) {
            if (c == far)
                continue;
            others += summed[int64_t(h) * classes + c];
            db[int64_t(h) * classes + c] = float(summed[int64_t(h) * classes + c]);
        }
        db[int64_t(h) * classes + far] = float(-others);
    }
}

} // namespace megagraph::kernels
