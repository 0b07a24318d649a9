// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/attention_ops.h"

#include "core/random.h"
#include "kernels/cuda/attention_launch.h"
#include "kernels/cuda/attention_spread.cuh"
#include "kernels/cuda/attention_state.cuh"
#include "kernels/cuda/checks.h"
#include "kernels/cuda/pack.cuh"
#include "kernels/cuda/table_gradient.cuh"

#include <atomic>

namespace megagraph::kernels::cuda {
namespace {

int64_t roundUp(int64_t value, int64_t to)
{
    return (value + to - 1) / to * to;
}
int64_t blocksOf(int64_t rows)
{
    return (rows + kTile - 1) / kTile;
}
/// Packed rows are padded to 128: the larger tile of a kernel.
int64_t packedBlocks(int64_t rows)
{
    return roundUp(blocksOf(rows), 2);
}

/// Carves the workspace; with a null base it only counts.
class Carver {
  public:
    explicit Carver(void* base) : base_(static_cast<unsigned char*>(base)) {}
    template <class T> T* take(int64_t count)
    {
        const int64_t at = used_;
        used_ += roundUp(count * int64_t(sizeof(T)), 256);
        return base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + at);
    }
    int64_t used() const { return used_; }

  private:
    unsigned char* base_;
    int64_t used_ = 0;
};

struct Space {
    unsigned char *q, *k, *v, *dO;
    BlockIds *queryIds, *keyIds;
    float2* rowStats;
    int32_t *turns, *ticket;
    float* tableRows;
    Notes notes;
    int64_t notesBytes; // from notes.q on
    int64_t bytes;
};

Space carve(const MegagraphCudaShape& shape, bool backward, int32_t classes, void* workspace)
{
    Carver carver(workspace);
    Space s{};
    s.q = carver.take<unsigned char>(packedBytes(shape.queries, shape.heads, shape.dim));
    s.k = carver.take<unsigned char>(packedBytes(shape.keys, shape.heads, shape.dim));
    s.v = carver.take<unsigned char>(packedBytes(shape.keys, shape.heads, shape.dim));
    s.queryIds = carver.take<BlockIds>(blocksOf(shape.queries));
    s.keyIds = carver.take<BlockIds>(blocksOf(shape.keys));
    const int64_t before = carver.used();
    const auto note = [&](int64_t rows) { return carver.take<uint32_t>(2 * shape.heads * packedBlocks(rows)); };
    s.notes.q = note(shape.queries);
    s.notes.k = note(shape.keys);
    s.notes.v = note(shape.keys);
    if (backward) {
        s.notes.dO = note(shape.queries);
        s.notes.lse = note(shape.queries);
        s.notes.delta = note(shape.queries);
    }
    s.notes.any = carver.take<uint32_t>(1);
    s.notesBytes = carver.used() - before;
    if (backward) {
        s.dO = carver.take<unsigned char>(packedBytes(shape.queries, shape.heads, shape.dim));
        s.rowStats = carver.take<float2>(shape.heads * packedBlocks(shape.queries) * kTile);
        s.turns = carver.take<int32_t>(shape.heads * blocksOf(shape.queries) + 1);
        s.ticket = s.turns == nullptr ? nullptr : s.turns + shape.heads * blocksOf(shape.queries);
        s.tableRows = carver.take<float>(shape.heads * blocksOf(shape.keys) * classes);
    }
    s.bytes = carver.used();
    return s;
}

Mask makeMask(const MegagraphCudaDropout* dropout)
{
    if (dropout == nullptr)
        return {};
    const double threshold = std::round(65536.0 * dropout->p);
    const uint64_t key = splitmix64(splitmix64(dropout->seed) ^ dropout->step);
    return {uint32_t(threshold),
            uint32_t(key),
            uint32_t(key >> 32),
            dropout->item,
            dropout->layer << 20 | dropout->site,
            threshold >= 65536.0 ? 0.0f : float(65536.0 / (65536.0 - threshold))};
}

/// The kernels that a problem needs.
Addend addendOf(const MegagraphCudaBias* bias)
{
    if (bias == nullptr)
        return kNoBias;
    if (bias->edges.values != nullptr)
        return kEdgeBias;
    return bias->table != nullptr || bias->querySegment != nullptr ? kClassBias : kNoBias;
}

DenseParams describe(const MegagraphCudaShape& shape, const MegagraphCudaBias* bias,
                     const MegagraphCudaDropout* dropout, const Space& space)
{
    DenseParams p{};
    p.queries = shape.queries;
    p.keys = shape.keys;
    p.queryOffset = shape.queryOffset;
    p.keyOffset = shape.keyOffset;
    p.heads = shape.heads;
    p.dim = shape.dim;
    p.headOffset = shape.headOffset;
    p.keyBlocks = int32_t(blocksOf(shape.keys));
    p.queryBlocks = blocksOf(shape.queries);
    p.packedQueryBlocks = packedBlocks(shape.queries);
    p.packedKeyBlocks = packedBlocks(shape.keys);
    p.scale = float(shape.scale);
    p.scaleLog2 = float(shape.scale * 1.4426950408889634);
    p.q = space.q;
    p.k = space.k;
    p.v = space.v;
    p.dO = space.dO;
    p.codes = {-1, 0, 0, 0, 1, 1};
    p.mask = makeMask(dropout);
    if (bias == nullptr)
        return p;
    p.edges = bias->edges;
    p.querySegment = bias->querySegment;
    p.keySegment = bias->keySegment;
    p.queryIds = space.queryIds;
    p.keyIds = space.keyIds;
    if (bias->table == nullptr)
        return p;
    p.codes = {bias->hops, bias->hops + 1, bias->hops + 2, bias->hops + 3, bias->classes, bias->classes};
    p.table = bias->table;
    p.queryComponent = bias->queryComponent;
    p.keyComponent = bias->keyComponent;
    p.policy = bias->policy;
    p.planes = bias->planes;
    p.planes.planes = planeCount(bias->hops); // Dense tiles of lists have planes, too
    p.lists = bias->lists;
    return p;
}

/// notes null: values that are not finite are packed as they are.
const char* pack(const MegagraphCudaView& x, unsigned char* packed, uint32_t* notes, uint32_t* any, Stream stream)
{
    const PackParams p{x.data, x.rows, x.rowStride, x.headStride, packedBlocks(x.rows), x.heads, x.dim,
                       x.type, packed, notes,       any};
    const int64_t grid = p.blocks * p.heads;
    if (grid == 0)
        return nullptr;
    const int32_t width = paddedWidth(x.dim);
    if (width == 32)
        MEGAGRAPH_LAUNCH((packPanels<32>), grid, kThreads, 0, stream, p);
    else if (width == 64)
        MEGAGRAPH_LAUNCH((packPanels<64>), grid, kThreads, 0, stream, p);
    else
        MEGAGRAPH_LAUNCH((packPanels<128>), grid, kThreads, 0, stream, p);
    return launchFailure();
}

const char* findBlockIds(const DenseParams& p, Stream stream)
{
    if (p.queryBlocks > 0)
        MEGAGRAPH_LAUNCH(
            fillBlockIds, p.queryBlocks, 32, 0, stream,
            BlockIdsParams{p.queryComponent, p.querySegment, p.queries, const_cast<BlockIds*>(p.queryIds)});
    if (p.keyBlocks > 0)
        MEGAGRAPH_LAUNCH(fillBlockIds, p.keyBlocks, 32, 0, stream,
                         BlockIdsParams{p.keyComponent, p.keySegment, p.keys, const_cast<BlockIds*>(p.keyIds)});
    return launchFailure();
}

int32_t checkInputs(const char* op, const MegagraphCudaShape* shape, const MegagraphCudaView* q,
                    const MegagraphCudaView* k, const MegagraphCudaView* v, const MegagraphCudaBias* bias,
                    const MegagraphCudaDropout* dropout, MegagraphCudaError* error)
{
    MEGAGRAPH_CUDA_CHECK(checkShape(op, shape, error))
    MEGAGRAPH_CUDA_CHECK(checkView(op, "q", q, shape->queries, shape->heads, shape->dim, error))
    MEGAGRAPH_CUDA_CHECK(checkView(op, "k", k, shape->keys, shape->heads, shape->dim, error))
    MEGAGRAPH_CUDA_CHECK(checkView(op, "v", v, shape->keys, shape->heads, shape->dim, error))
    MEGAGRAPH_CUDA_CHECK(checkBias(op, shape, bias, error))
    return checkDropout(op, dropout, error);
}

/// forceDensePath, of the process.
std::atomic<int32_t> forcedPath{0};

const char* launchForward(const DenseParams& p, Addend addend, Stream stream)
{
    const bool groups =
        paddedWidth(p.dim) >= 64 && forcedPath.load(std::memory_order_relaxed) != 80 && deviceHasWgmma();
    return groups ? launchForward90(p, addend, stream) : launchForward80(p, addend, stream);
}

/// Packs, finds block ids and runs forward after all checks. `p` holds the outputs.
const char* runForward(DenseParams& p, Addend addend, const Space& space, const MegagraphCudaView& q,
                       const MegagraphCudaView& k, const MegagraphCudaView& v, Stream stream)
{
    const bool masks = addend != kNoBias;
    p.notes = masks ? space.notes : Notes{};
    const char* failure = masks ? clearBytes(space.notes.q, space.notesBytes, stream) : nullptr;
    if (failure == nullptr)
        failure = pack(q, space.q, p.notes.q, p.notes.any, stream);
    if (failure == nullptr)
        failure = pack(k, space.k, p.notes.k, p.notes.any, stream);
    if (failure == nullptr)
        failure = pack(v, space.v, p.notes.v, p.notes.any, stream);
    if (failure == nullptr && masks)
        failure = findBlockIds(p, stream);
    if (failure == nullptr)
        failure = launchForward(p, addend, stream);
    if (failure != nullptr || !masks)
        return failure;
    MEGAGRAPH_LAUNCH(spreadForward, p.queryBlocks * p.heads, kTile, int64_t(sizeof(SharedTables)), stream, p);
    return launchFailure();
}

} // namespace

int64_t packedBytes(int64_t rows, int32_t heads, int32_t dim)
{
    return packedBlocks(rows) * kTile * heads * paddedWidth(dim) * 2;
}

int32_t packHeads(const MegagraphCudaView* x, void* packed, void* stream, MegagraphCudaError* error)
{
    const char* op = "packHeads";
    if (x == nullptr)
        return refuse(error, MegagraphCudaInvalidInput, "%s: x: got null, expected a view; pass the tensor.", op);
    MEGAGRAPH_CUDA_CHECK(checkHeads(op, x->heads, x->dim, error))
    MEGAGRAPH_CUDA_CHECK(checkView(op, "x", x, x->rows, x->heads, x->dim, error))
    MEGAGRAPH_CUDA_CHECK(checkPointer(op, "packed", packed, packedBytes(x->rows, x->heads, x->dim), error))
    return finished(error, op,
                    pack(*x, static_cast<unsigned char*>(packed), nullptr, nullptr, static_cast<Stream>(stream)));
}

int64_t attentionForwardWorkspace(const MegagraphCudaShape* shape)
{
    return carve(*shape, false, 0, nullptr).bytes;
}
int64_t attentionBackwardWorkspace(const MegagraphCudaShape* shape, int32_t classes)
{
    return carve(*shape, true, classes, nullptr).bytes;
}

int32_t attentionForward(const MegagraphCudaShape* shape, const MegagraphCudaView* q, const MegagraphCudaView* k,
                         const MegagraphCudaView* v, const MegagraphCudaBias* bias, const MegagraphCudaDropout* dropout,
                         const MegagraphCudaView* o, float* lse, void* workspace, int64_t workspaceBytes, void* stream,
                         MegagraphCudaError* error)
{
    const char* op = "attentionForward";
    MEGAGRAPH_CUDA_CHECK(checkInputs(op, shape, q, k, v, bias, dropout, error))
    MEGAGRAPH_CUDA_CHECK(checkView(op, "o", o, shape->queries, shape->heads, shape->dim, error))
    MEGAGRAPH_CUDA_CHECK(checkPointer(op, "lse", lse, shape->queries * shape->heads, error))
    if (shape->queries == 0 || shape->heads == 0)
        return finished(error, op, nullptr);
    MEGAGRAPH_CUDA_CHECK(checkWorkspace(op, workspace, workspaceBytes, attentionForwardWorkspace(shape), error))
    const Space space = carve(*shape, false, 0, workspace);
    DenseParams p = describe(*shape, bias, dropout, space);
    p.o = o->data;
    p.oRowStride = o->rowStride;
    p.oHeadStride = o->headStride;
    p.oType = o->type;
    p.lse = lse;
    return finished(error, op, runForward(p, addendOf(bias), space, *q, *k, *v, static_cast<Stream>(stream)));
}

int32_t attentionPartial(const MegagraphCudaShape* shape, const MegagraphCudaView* q, const MegagraphCudaView* k,
                         const MegagraphCudaView* v, const MegagraphCudaBias* bias, const MegagraphCudaDropout* dropout,
                         int32_t first, const MegagraphCudaState* state, void* workspace, int64_t workspaceBytes,
                         void* stream, MegagraphCudaError* error)
{
    const char* op = "attentionPartial";
    MEGAGRAPH_CUDA_CHECK(checkInputs(op, shape, q, k, v, bias, dropout, error))
    MEGAGRAPH_CUDA_CHECK(checkPointer(op, "state", state, 1, error))
    MEGAGRAPH_CUDA_CHECK(checkPointer(op, "state m", state->m, shape->queries * shape->heads, error))
    MEGAGRAPH_CUDA_CHECK(checkPointer(op, "state l", state->l, shape->queries * shape->heads, error))
    MEGAGRAPH_CUDA_CHECK(checkPointer(op, "state acc", state->acc, shape->queries * shape->heads * shape->dim, error))
    if (shape->queries == 0 || shape->heads == 0)
        return finished(error, op, nullptr);
    MEGAGRAPH_CUDA_CHECK(checkWorkspace(op, workspace, workspaceBytes, attentionForwardWorkspace(shape), error))
    const Space space = carve(*shape, false, 0, workspace);
    DenseParams p = describe(*shape, bias, dropout, space);
    p.partial = 1;
    p.first = first;
    p.stateM = state->m;
    p.stateL = state->l;
    p.stateAcc = state->acc;
    return finished(error, op, runForward(p, addendOf(bias), space, *q, *k, *v, static_cast<Stream>(stream)));
}

int32_t attentionCombine(int64_t queries, int32_t heads, int32_t dim, const MegagraphCudaState* a,
                         const MegagraphCudaState* b, void* stream, MegagraphCudaError* error)
{
    const char* op = "attentionCombine";
    MEGAGRAPH_CUDA_CHECK(checkHeads(op, heads, dim, error))
    const int64_t rows = queries * heads;
    if (rows == 0)
        return finished(error, op, nullptr);
    MEGAGRAPH_CUDA_CHECK(checkPointer(op, "state a", a, 1, error))
    MEGAGRAPH_CUDA_CHECK(checkPointer(op, "state b", b, 1, error))
    StateParams p{};
    p.m = a->m;
    p.l = a->l;
    p.acc = a->acc;
    p.otherM = b->m;
    p.otherL = b->l;
    p.otherAcc = b->acc;
    p.rows = queries;
    p.heads = heads;
    p.dim = dim;
    MEGAGRAPH_LAUNCH(combineStates, (rows + 7) / 8, kThreads, 0, static_cast<Stream>(stream), p);
    return finished(error, op, launchFailure());
}

namespace {

int32_t finishRows(const char* op, float added, const MegagraphCudaState* state, const MegagraphCudaView* o, float* lse,
                   void* stream, MegagraphCudaError* error)
{
    MEGAGRAPH_CUDA_CHECK(checkPointer(op, "state", state, 1, error))
    MEGAGRAPH_CUDA_CHECK(checkPointer(op, "o", o, 1, error))
    MEGAGRAPH_CUDA_CHECK(checkHeads(op, o->heads, o->dim, error))
    MEGAGRAPH_CUDA_CHECK(checkView(op, "o", o, o->rows, o->heads, o->dim, error))
    const int64_t rows = o->rows * o->heads;
    MEGAGRAPH_CUDA_CHECK(checkPointer(op, "lse", lse, rows, error))
    if (rows == 0)
        return finished(error, op, nullptr);
    StateParams p{};
    p.m = state->m;
    p.l = state->l;
    p.acc = state->acc;
    p.rows = o->rows;
    p.heads = o->heads;
    p.dim = o->dim;
    p.o = o->data;
    p.oRowStride = o->rowStride;
    p.oHeadStride = o->headStride;
    p.oType = o->type;
    p.added = added;
    p.lse = lse;
    MEGAGRAPH_LAUNCH(finishState, (rows + 7) / 8, kThreads, 0, static_cast<Stream>(stream), p);
    return finished(error, op, launchFailure());
}

} // namespace

int32_t attentionFinish(const MegagraphCudaState* state, const MegagraphCudaView* o, float* lse, void* stream,
                        MegagraphCudaError* error)
{
    return finishRows("attentionFinish", 0.0f, state, o, lse, stream, error);
}

int32_t edgeAttentionFinish(int32_t gt, const MegagraphCudaState* state, const MegagraphCudaView* o, float* lse,
                            void* stream, MegagraphCudaError* error)
{
    return finishRows("edgeAttentionFinish", gt != 0 ? kGtTerm : 0.0f, state, o, lse, stream, error);
}

int32_t attentionDelta(const MegagraphCudaView* o, const MegagraphCudaView* dO, float* delta, void* stream,
                       MegagraphCudaError* error)
{
    const char* op = "attentionDelta";
    MEGAGRAPH_CUDA_CHECK(checkPointer(op, "o", o, 1, error))
    MEGAGRAPH_CUDA_CHECK(checkHeads(op, o->heads, o->dim, error))
    MEGAGRAPH_CUDA_CHECK(checkView(op, "o", o, o->rows, o->heads, o->dim, error))
    MEGAGRAPH_CUDA_CHECK(checkView(op, "dO", dO, o->rows, o->heads, o->dim, error))
    const int64_t rows = o->rows * o->heads;
    MEGAGRAPH_CUDA_CHECK(checkPointer(op, "delta", delta, rows, error))
    if (rows == 0)
        return finished(error, op, nullptr);
    const DeltaParams p{o->data,        dO->data, o->rows, o->rowStride, o->headStride, dO->rowStride,
                        dO->headStride, o->heads, o->dim,  o->type,      dO->type,      delta};
    MEGAGRAPH_LAUNCH(rowDeltas, (rows + 7) / 8, kThreads, 0, static_cast<Stream>(stream), p);
    return finished(error, op, launchFailure());
}

int32_t attentionBackward(const MegagraphCudaShape* shape, const MegagraphCudaView* q, const MegagraphCudaView* k,
                          const MegagraphCudaView* v, const MegagraphCudaView* dO, const float* lse, const float* delta,
                          const MegagraphCudaBias* bias, const MegagraphCudaDropout* dropout, float* dq, float* dk,
                          float* dv, double* tablePartials, void* workspace, int64_t workspaceBytes, void* stream,
                          MegagraphCudaError* error)
{
    const char* op = "attentionBackward";
    MEGAGRAPH_CUDA_CHECK(checkInputs(op, shape, q, k, v, bias, dropout, error))
    const int64_t queryElements = shape->queries * shape->heads * shape->dim,
                  keyElements = shape->keys * shape->heads * shape->dim;
    MEGAGRAPH_CUDA_CHECK(checkView(op, "dO", dO, shape->queries, shape->heads, shape->dim, error))
    MEGAGRAPH_CUDA_CHECK(checkPointer(op, "lse", lse, shape->queries * shape->heads, error))
    MEGAGRAPH_CUDA_CHECK(checkPointer(op, "delta", delta, shape->queries * shape->heads, error))
    MEGAGRAPH_CUDA_CHECK(checkPointer(op, "dq", dq, queryElements, error))
    MEGAGRAPH_CUDA_CHECK(checkPointer(op, "dk", dk, keyElements, error))
    MEGAGRAPH_CUDA_CHECK(checkPointer(op, "dv", dv, keyElements, error))
    if (shape->queries == 0 || shape->keys == 0 || shape->heads == 0)
        return finished(error, op, nullptr);
    const int32_t classes = bias != nullptr && bias->table != nullptr && tablePartials != nullptr ? bias->classes : 0;
    MEGAGRAPH_CUDA_CHECK(
        checkWorkspace(op, workspace, workspaceBytes, attentionBackwardWorkspace(shape, classes), error))
    const auto queue = static_cast<Stream>(stream);
    const Space space = carve(*shape, true, classes, workspace);
    DenseParams p = describe(*shape, bias, dropout, space);
    p.rowStats = space.rowStats;
    p.dq = dq;
    p.dk = dk;
    p.dv = dv;
    p.tableRows = classes > 0 ? space.tableRows : nullptr;
    p.turns = space.turns;
    p.ticket = space.ticket;
    const bool masks = addendOf(bias) != kNoBias;
    p.notes = masks ? space.notes : Notes{};
    p.tableSums = classes > 0 ? tablePartials : nullptr;
    const char* failure = clearBytes(space.turns, (shape->heads * p.queryBlocks + 1) * 4, queue);
    if (failure == nullptr && masks)
        failure = clearBytes(space.notes.q, space.notesBytes, queue);
    const MegagraphCudaView* inputs[] = {q, k, v, dO};
    unsigned char* panels[] = {space.q, space.k, space.v, space.dO};
    uint32_t* notes[] = {p.notes.q, p.notes.k, p.notes.v, p.notes.dO};
    for (int i = 0; i < 4 && failure == nullptr; ++i)
        failure = pack(*inputs[i], panels[i], notes[i], p.notes.any, queue);
    const RowStatsParams stats{lse,          delta,          shape->queries, p.packedQueryBlocks * kTile,
                               shape->heads, space.rowStats, p.notes.lse,    p.notes.delta,
                               p.notes.any};
    MEGAGRAPH_LAUNCH(fillRowStats, (stats.paddedRows * stats.heads + kThreads - 1) / kThreads, kThreads, 0, queue,
                     stats);
    if (failure == nullptr && masks)
        failure = findBlockIds(p, queue);
    if (failure == nullptr)
        failure = launchBackward80(p, addendOf(bias), queue);
    if (failure == nullptr && classes > 0) {
        const int64_t keyTile = backwardKeys80(shape->dim), tiles = (shape->keys + keyTile - 1) / keyTile;
        MEGAGRAPH_LAUNCH(addTableRows, (shape->heads * classes + kThreads - 1) / kThreads, kThreads, 0, queue,
                         space.tableRows, tiles, shape->heads, classes, tablePartials);
        failure = launchFailure();
    }
    if (failure == nullptr && masks) {
        MEGAGRAPH_LAUNCH(spreadQueries, p.queryBlocks * p.heads, kTile, int64_t(sizeof(SharedTables)), queue, p);
        MEGAGRAPH_LAUNCH(spreadKeys, int64_t(p.keyBlocks) * p.heads, kTile, int64_t(sizeof(SharedTables)), queue, p);
        failure = launchFailure();
    }
    return finished(error, op, failure);
}

int32_t closeFarBin(int32_t heads, int32_t hops, const double* summed, float* db, void* stream,
                    MegagraphCudaError* error)
{
    const char* op = "closeFarBin";
    MEGAGRAPH_CUDA_CHECK(checkHeads(op, heads, 1, error))
    if (hops < 0 || hops > kMaxHops)
        return refuse(error, MegagraphCudaUnsupported, "%s: hops: got %d, expected 0 to %d; cut the distances.", op,
                      hops, kMaxHops);
    MEGAGRAPH_CUDA_CHECK(checkPointer(op, "sums", summed, heads, error))
    MEGAGRAPH_CUDA_CHECK(checkPointer(op, "db", db, heads, error))
    if (heads == 0)
        return finished(error, op, nullptr);
    MEGAGRAPH_LAUNCH(closeFarBins, (heads + kThreads - 1) / kThreads, kThreads, 0, static_cast<Stream>(stream), heads,
                     hops, summed, db);
    return finished(error, op, launchFailure());
}

int32_t forceDensePath(int32_t path, MegagraphCudaError* error)
{
    if (path != 0 && path != 80 && path != 90)
        return refuse(error, MegagraphCudaUnsupported, "forceDensePath: path: got %d, expected 0, 80 or 90; name one.",
                      path);
    if (path == 90 && !deviceHasWgmma())
        return refuse(error, MegagraphCudaUnsupported,
                      "forceDensePath: path: got %d, expected 80 on a device without wgmma; use 0.", path);
    forcedPath.store(path, std::memory_order_relaxed);
    return finished(error, "forceDensePath", nullptr);
}

} // namespace megagraph::kernels::cuda
