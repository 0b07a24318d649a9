// SPDX-License-Identifier: Apache-2.0
#include "kernels/strips.h"

#include "kernels/checks.h"

#include <algorithm>
#include <tuple>

namespace megagraph::kernels {
namespace {

/// Shape, bias and rows of one strip of a call.
struct Strip {
    int64_t row = 0, rows = 0;
    AttentionShape shape;
    Bias bias;
};

int64_t stripsOf(const AttentionShape& shape)
{
    return (shape.queries + kStripRows - 1) / kStripRows;
}
AttentionShape stripShape(const AttentionShape& shape)
{
    AttentionShape strip = shape;
    strip.queries = std::min(shape.queries, kStripRows);
    return strip;
}
/// Two arrays [H, 512]: lse and delta, or m and l.
int64_t rowBytes(const AttentionShape& shape)
{
    return 2 * kStripRows * shape.heads * int64_t(sizeof(float));
}

HeadView<const float> rowsOf(const HeadView<const float>& view, const Strip& strip)
{
    HeadView<const float> part = view;
    part.rows = strip.rows;
    if (part.data != nullptr)
        part.data += strip.row * view.rowStride;
    return part;
}

/// values [H, queries] <-> part [H, rows of the strip].
void gather(const AttentionShape& shape, const Strip& strip, const float* values, float* part)
{
    for (int32_t h = 0; h < shape.heads; ++h)
        std::copy_n(values + h * shape.queries + strip.row, strip.rows, part + h * strip.rows);
}
void scatter(const AttentionShape& shape, const Strip& strip, const float* part, float* values)
{
    for (int32_t h = 0; h < shape.heads; ++h)
        std::copy_n(part + h * strip.rows, strip.rows, values + h * shape.queries + strip.row);
}

/// What is not looked at strip by strip: everything but the planes.
Result<Ok> checkWhole(const char* op, const AttentionShape& shape, const Bias& bias, const void* workspace)
{
    MEGAGRAPH_TRY(std::ignore, checkShape(op, shape));
    Bias rest = bias; // the table is checked with every strip
    rest.table = nullptr;
    MEGAGRAPH_TRY(std::ignore, checkBias(op, shape, rest));
    return checkPointer(op, "workspace", workspace, shape.queries * shape.heads);
}

Result<Strip> makeStrip(const AttentionShape& shape, const Bias& bias, StripSource& source, int64_t number)
{
    Strip strip{number * kStripRows, std::min(kStripRows, shape.queries - number * kStripRows), shape, bias};
    strip.shape.queries = strip.rows;
    strip.shape.queryOffset += strip.row;
    const auto part = [&](std::span<const int32_t> ids) {
        return ids.empty() ? ids : ids.subspan(size_t(strip.row), size_t(strip.rows));
    };
    strip.bias.queryComponent = part(bias.queryComponent);
    strip.bias.querySegment = part(bias.querySegment);
    strip.bias.lists = {};
    strip.bias.storage = BiasStorage::Planes;
    if (bias.edges.values != nullptr) {
        EdgeTilesView& edges = strip.bias.edges.tiles;
        edges.queryBlocks = (strip.rows + kTile - 1) / kTile;
        edges.blockStart = edges.blockStart.subspan(size_t(strip.row / kTile), size_t(edges.queryBlocks + 1));
    }
    if (bias.table != nullptr) {
        MEGAGRAPH_TRY(strip.bias.planes, source.stripPlanes(number));
    }
    return strip;
}

} // namespace

int64_t attentionStripsForwardWorkspace(const AttentionShape& shape, int32_t slots)
{
    return rowBytes(shape) + attentionForwardWorkspace(stripShape(shape), slots);
}

int64_t attentionStripsBackwardWorkspace(const AttentionShape& shape, int32_t slots)
{
    return rowBytes(shape) + attentionBackwardWorkspace(stripShape(shape), slots);
}

Result<Ok> attentionForwardStrips(const AttentionShape& shape, HeadView<const float> q, HeadView<const float> k,
                                  HeadView<const float> v, const Bias& bias, StripSource& source, const Dropout& dropout,
                                  HeadView<float> o, float* lse, void* workspace, const ParallelFor& parallel)
{
    const char* op = "attentionForwardStrips";
    MEGAGRAPH_TRY(std::ignore, checkWhole(op, shape, bias, workspace));
    MEGAGRAPH_TRY(std::ignore, checkView(op, "q", q, shape.queries, shape.heads, shape.dim));
    MEGAGRAPH_TRY(std::ignore, checkView(op, "o", o, shape.queries, shape.heads, shape.dim));
    MEGAGRAPH_TRY(std::ignore, checkPointer(op, "lse", lse, shape.queries * shape.heads));
    auto* part = static_cast<float*>(workspace);
    for (int64_t number = 0; number < stripsOf(shape) && shape.heads > 0; ++number) {
        MEGAGRAPH_TRY(const Strip strip, makeStrip(shape, bias, source, number));
        HeadView<float> rows = o;
        rows.rows = strip.rows;
        rows.data += strip.row * o.rowStride;
        MEGAGRAPH_TRY(std::ignore, attentionForward(strip.shape, rowsOf(q, strip), k, v, strip.bias, dropout, rows, part,
                                                    static_cast<char*>(workspace) + rowBytes(shape), parallel));
        scatter(shape, strip, part, lse);
    }
    return Ok{};
}

Result<Ok> attentionPartialStrips(const AttentionShape& shape, HeadView<const float> q, HeadView<const float> k,
                                  HeadView<const float> v, const Bias& bias, StripSource& source, const Dropout& dropout,
                                  bool first, AttentionState state, void* workspace, const ParallelFor& parallel)
{
    const char* op = "attentionPartialStrips";
    MEGAGRAPH_TRY(std::ignore, checkWhole(op, shape, bias, workspace));
    MEGAGRAPH_TRY(std::ignore, checkView(op, "q", q, shape.queries, shape.heads, shape.dim));
    MEGAGRAPH_TRY(std::ignore, checkPointer(op, "state m", state.m, shape.queries * shape.heads));
    MEGAGRAPH_TRY(std::ignore, checkPointer(op, "state l", state.l, shape.queries * shape.heads));
    MEGAGRAPH_TRY(std::ignore, checkPointer(op, "state acc", state.acc, shape.queries * shape.heads * shape.dim));
    for (int64_t number = 0; number < stripsOf(shape) && shape.heads > 0; ++number) {
        MEGAGRAPH_TRY(const Strip strip, makeStrip(shape, bias, source, number));
        float* m = static_cast<float*>(workspace);
        const AttentionState rows{m, m + strip.rows * shape.heads, state.acc + strip.row * shape.heads * shape.dim};
        if (!first) {
            gather(shape, strip, state.m, rows.m);
            gather(shape, strip, state.l, rows.l);
        }
        MEGAGRAPH_TRY(std::ignore, attentionPartial(strip.shape, rowsOf(q, strip), k, v, strip.bias, dropout, first, rows,
                                                    static_cast<char*>(workspace) + rowBytes(shape), parallel));
        scatter(shape, strip, rows.m, state.m);
        scatter(shape, strip, rows.l, state.l);
    }
    return Ok{};
}

Result<Ok> attentionBackwardStrips(const AttentionShape& shape, HeadView<const float> q, HeadView<const float> k,
                                   HeadView<const float> v, HeadView<const float> dO, const float* lse, const float* delta,
                                   const Bias& bias, StripSource& source, const Dropout& dropout, float* dq, float* dk, float* dv,
                                   double* tablePartials, void* workspace, const ParallelFor& parallel)
{
    const char* op = "attentionBackwardStrips";
    MEGAGRAPH_TRY(std::ignore, checkWhole(op, shape, bias, workspace));
    MEGAGRAPH_TRY(std::ignore, checkView(op, "q", q, shape.queries, shape.heads, shape.dim));
    MEGAGRAPH_TRY(std::ignore, checkView(op, "dO", dO, shape.queries, shape.heads, shape.dim));
    MEGAGRAPH_TRY(std::ignore, checkPointer(op, "lse", lse, shape.queries * shape.heads));
    MEGAGRAPH_TRY(std::ignore, checkPointer(op, "delta", delta, shape.queries * shape.heads));
    MEGAGRAPH_TRY(std::ignore, checkPointer(op, "dq", dq, shape.queries * shape.heads * shape.dim));
    for (int64_t number = 0; number < stripsOf(shape) && shape.heads > 0; ++number) {
        MEGAGRAPH_TRY(const Strip strip, makeStrip(shape, bias, source, number));
        auto* lseRows = static_cast<float*>(workspace);
        float* deltaRows = lseRows + strip.rows * shape.heads;
        gather(shape, strip, lse, lseRows);
        gather(shape, strip, delta, deltaRows);
        MEGAGRAPH_TRY(std::ignore, attentionBackward(strip.shape, rowsOf(q, strip), k, v, rowsOf(dO, strip), lseRows, deltaRows,
                                                     strip.bias, dropout, dq + strip.row * shape.heads * shape.dim, dk, dv,
                                                     tablePartials, static_cast<char*>(workspace) + rowBytes(shape), parallel));
    }
    return Ok{};
}

} // namespace megagraph::kernels
