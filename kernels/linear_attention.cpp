// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_attention.h"

#include "kernels/checks.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>

namespace megagraph::kernels {
namespace {

constexpr int32_t kRows = 8, kColumns = 64; // tile of S of one task
constexpr int64_t kTokens = 256;            // summed in fp32 before they join the fp64 total

double inverseRoot(double squared)
{
    return squared > 0 ? 1.0 / std::sqrt(squared) : 0.0;
}

float dot(const float* a, const float* b, int32_t dim)
{
    float part[16] = {};
    int32_t x = 0;
    for (; x + 16 <= dim; x += 16) {
        for (int32_t i = 0; i < 16; ++i)
            part[i] += a[x + i] * b[x + i];
    }
    for (; x < dim; ++x)
        part[x & 15] += a[x] * b[x];
    float sum = 0;
    for (const float p : part)
        sum += p;
    return sum;
}

double squares(const HeadView<const float>& view)
{
    double sum = 0;
    for (int64_t i = 0; i < view.rows; ++i) {
        for (int32_t h = 0; h < view.heads; ++h) {
            for (int32_t x = 0; x < view.dim; ++x)
                sum += double(view.row(i, h)[x]) * double(view.row(i, h)[x]);
        }
    }
    return sum;
}

/// Parts of a state, forward or backward.
struct Parts {
    const float *S, *s1;
    Parts(const LinearShape& shape, const float* state, int32_t h)
        : S(state + int64_t(h) * shape.dim * shape.dim),
          s1(state + int64_t(shape.heads) * shape.dim * shape.dim + int64_t(h) * shape.dim)
    {
    }
};
/// ab of a whole state.
double scaleOf(const LinearShape& shape, const float* state)
{
    const float* norms = state + linearBackwardStateFloats(shape.heads, shape.dim);
    return inverseRoot(norms[0]) * inverseRoot(norms[1]);
}

int64_t tilesOf(const LinearShape& shape)
{
    return int64_t(shape.heads) * ((shape.dim + kRows - 1) / kRows) * ((shape.dim + kColumns - 1) / kColumns);
}

/// One tile of sum_j a_j b_j^T, and its rows of sum_j a_j f_j in the tiles of the first columns. `second(j, h)` gives
/// {b_j, factor of b_j, f_j}.
template <class Second>
void outerTile(const LinearShape& shape, int64_t tile, const HeadView<const float>& a, const Second& second,
               float* state)
{
    const int64_t across = (shape.dim + kColumns - 1) / kColumns, down = (shape.dim + kRows - 1) / kRows;
    const auto h = int32_t(tile / (across * down));
    const auto x0 = int32_t(tile / across % down) * kRows, y0 = int32_t(tile % across) * kColumns;
    const int32_t rows = std::min(kRows, shape.dim - x0), columns = std::min(kColumns, shape.dim - y0);
    double total[kRows][kColumns] = {}, totalOne[kRows] = {};
    for (int64_t first = 0; first < shape.tokens; first += kTokens) {
        float part[kRows][kColumns] = {}, one[kRows] = {};
        for (int64_t j = first; j < std::min(first + kTokens, shape.tokens); ++j) {
            const auto [b, factor, f] = second(j, h);
            for (int32_t x = 0; x < rows; ++x) {
                const float ax = a.row(j, h)[x0 + x], weight = ax * factor;
                one[x] += ax * f;
                for (int32_t y = 0; y < columns; ++y)
                    part[x][y] += weight * b[y0 + y];
            }
        }
        for (int32_t x = 0; x < rows; ++x) {
            totalOne[x] += double(one[x]);
            for (int32_t y = 0; y < columns; ++y)
                total[x][y] += double(part[x][y]);
        }
    }
    for (int32_t x = 0; x < rows; ++x) {
        for (int32_t y = 0; y < columns; ++y)
            state[(int64_t(h) * shape.dim + x0 + x) * shape.dim + y0 + y] = float(total[x][y]);
        if (y0 == 0)
            state[int64_t(shape.heads) * shape.dim * shape.dim + int64_t(h) * shape.dim + x0 + x] = float(totalOne[x]);
    }
}

struct Second {
    const float* b;
    float factor, f;
};

/// Blocks of tokens as tasks.
template <class F> void overTokens(const LinearShape& shape, const ParallelFor& parallel, F&& row)
{
    parallel.run((shape.tokens + kTokens - 1) / kTokens, [&](int64_t task, int32_t) {
        for (int64_t i = task * kTokens; i < std::min((task + 1) * kTokens, shape.tokens); ++i)
            row(i);
    });
}

/// Denominator of y_ih.
float denominator(const LinearShape& shape, const Parts& parts, const float* q, double ab)
{
    return float(double(shape.total) + ab * double(dot(parts.s1, q, shape.dim)));
}

Result<Ok> checkLinear(const char* op, const LinearShape& shape,
                       std::initializer_list<std::pair<const char*, HeadView<const float>>> views, const float* state)
{
    if (shape.tokens < 0 || shape.heads < 0 || shape.dim < 1 || shape.total < shape.tokens)
        return Error{ErrorCode::InvalidInput,
                     std::string(op) + ": shape, got " + std::to_string(shape.tokens) + " of " +
                         std::to_string(shape.total) + " tokens, " + std::to_string(shape.heads) + " heads of " +
                         std::to_string(shape.dim) + ", expected counts >= 0 and a shard of the sequence."};
    for (const auto& [name, view] : views) {
        MEGAGRAPH_TRY(std::ignore, checkView(op, name, view, shape.tokens, shape.heads, shape.dim));
    }
    return checkPointer(op, "state", state, linearStateFloats(shape.heads, shape.dim));
}

} // namespace

int64_t linearStateFloats(int32_t heads, int32_t dim)
{
    return linearBackwardStateFloats(heads, dim) + 2;
}
int64_t linearBackwardStateFloats(int32_t heads, int32_t dim)
{
    return int64_t(heads) * dim * (dim + 1);
}
int64_t linearBackwardWorkspace(int64_t tokens, int32_t heads)
{
    return 2 * int64_t(sizeof(float)) * tokens * heads;
}

Result<Ok> linearAttentionState(const LinearShape& shape, HeadView<const float> q, HeadView<const float> k,
                                HeadView<const float> v, float* state, const ParallelFor& parallel)
{
    MEGAGRAPH_TRY(std::ignore, checkLinear("linearAttentionState", shape, {{"q", q}, {"k", k}, {"v", v}}, state));
    const int64_t tiles = tilesOf(shape);
    float* norms = state + linearBackwardStateFloats(shape.heads, shape.dim);
    parallel.run(tiles + 2, [&](int64_t task, int32_t) {
        if (task >= tiles)
            norms[task - tiles] = float(squares(task == tiles ? q : k));
        else
            outerTile(
                shape, task, k,
                [&](int64_t j, int32_t h) {
                    return Second{v.row(j, h), 1.0f, 1.0f};
                },
                state);
    });
    return Ok{};
}

Result<Ok> linearAttentionApply(const LinearShape& shape, HeadView<const float> q, HeadView<const float> v,
                                const float* state, float* y, const ParallelFor& parallel)
{
    const char* op = "linearAttentionApply";
    MEGAGRAPH_TRY(std::ignore, checkLinear(op, shape, {{"q", q}, {"v", v}}, state));
    MEGAGRAPH_TRY(std::ignore, checkPointer(op, "y", y, shape.tokens));
    const double ab = scaleOf(shape, state);
    overTokens(shape, parallel, [&](int64_t i) {
        float* out = y + i * shape.dim;
        std::fill(out, out + shape.dim, 0.0f);
        for (int32_t h = 0; h < shape.heads; ++h) {
            const Parts parts(shape, state, h);
            const float inverse = 1.0f / (denominator(shape, parts, q.row(i, h), ab) * float(shape.heads));
            const float own = inverse * float(shape.total);
            for (int32_t c = 0; c < shape.dim; ++c)
                out[c] += own * v.row(i, h)[c];
            for (int32_t x = 0; x < shape.dim; ++x) {
                const float weight = float(ab) * q.row(i, h)[x] * inverse;
                const float* S = parts.S + int64_t(x) * shape.dim;
                for (int32_t c = 0; c < shape.dim; ++c)
                    out[c] += weight * S[c];
            }
        }
    });
    return Ok{};
}

Result<Ok> linearAttentionBackwardState(const LinearShape& shape, HeadView<const float> q, HeadView<const float> v,
                                        const float* state, const float* dy, float* backward, void* workspace,
                                        const ParallelFor& parallel)
{
    const char* op = "linearAttentionBackwardState";
    MEGAGRAPH_TRY(std::ignore, checkLinear(op, shape, {{"q", q}, {"v", v}}, state));
    MEGAGRAPH_TRY(std::ignore, checkPointer(op, "dy", dy, shape.tokens));
    MEGAGRAPH_TRY(std::ignore, checkPointer(op, "backward state", backward, shape.heads));
    MEGAGRAPH_TRY(std::ignore, checkPointer(op, "workspace", workspace, shape.tokens * shape.heads));
    const double ab = scaleOf(shape, state);
    auto* const rows = static_cast<float*>(workspace); // [tokens, H, 2]: 1 / (den H), dd
    overTokens(shape, parallel, [&](int64_t i) {
        const float* gradient = dy + i * shape.dim;
        for (int32_t h = 0; h < shape.heads; ++h) {
            const Parts parts(shape, state, h);
            const float* own = q.row(i, h);
            const float den = denominator(shape, parts, own, ab);
            double product = double(shape.total) * double(dot(v.row(i, h), gradient, shape.dim)); // dy . y den
            for (int32_t x = 0; x < shape.dim; ++x)
                product += ab * double(own[x]) * double(dot(parts.S + int64_t(x) * shape.dim, gradient, shape.dim));
            float* row = rows + (i * shape.heads + h) * 2;
            row[0] = 1.0f / (den * float(shape.heads));
            row[1] = float(-product / (double(den) * double(den) * shape.heads));
        }
    });
    parallel.run(tilesOf(shape), [&](int64_t tile, int32_t) {
        outerTile(
            shape, tile, q,
            [&](int64_t i, int32_t h) {
                const float* row = rows + (i * shape.heads + h) * 2;
                return Second{dy + i * shape.dim, row[0], row[1]};
            },
            backward);
    });
    return Ok{};
}

Result<Ok> linearAttentionBackwardApply(const LinearShape& shape, HeadView<const float> q, HeadView<const float> k,
                                        HeadView<const float> v, const float* state, const float* backward,
                                        const float* dy, const void* workspace, float* dq, float* dk, float* dv,
                                        const ParallelFor& parallel)
{
    const char* op = "linearAttentionBackwardApply";
    MEGAGRAPH_TRY(std::ignore, checkLinear(op, shape, {{"q", q}, {"k", k}, {"v", v}}, state));
    MEGAGRAPH_TRY(std::ignore, checkPointer(op, "backward state", backward, shape.heads));
    const int64_t own = shape.tokens * shape.heads;
    for (const auto& [name, pointer] : {std::pair<const char*, const void*>{"dy", dy},
                                        {"workspace", workspace},
                                        {"dq", dq},
                                        {"dk", dk},
                                        {"dv", dv}}) {
        MEGAGRAPH_TRY(std::ignore, checkPointer(op, name, pointer, own));
    }
    const float* norms = state + linearBackwardStateFloats(shape.heads, shape.dim);
    const auto ab = float(scaleOf(shape, state));
    double gamma = 0;
    for (int64_t i = 0; i < linearBackwardStateFloats(shape.heads, shape.dim); ++i)
        gamma += double(state[i]) * double(backward[i]);
    const auto ofQ = float(norms[0] > 0 ? ab * gamma / norms[0] : 0.0),
               ofK = float(norms[1] > 0 ? ab * gamma / norms[1] : 0.0);
    overTokens(shape, parallel, [&](int64_t i) {
        const float* gradient = dy + i * shape.dim;
        for (int32_t h = 0; h < shape.heads; ++h) {
            const Parts s(shape, state, h), g(shape, backward, h);
            const float* row = static_cast<const float*>(workspace) + (i * shape.heads + h) * 2;
            const int64_t at = (i * shape.heads + h) * shape.dim;
            const float *qi = q.row(i, h), *ki = k.row(i, h), *vi = v.row(i, h);
            for (int32_t c = 0; c < shape.dim; ++c)
                dv[at + c] = float(shape.total) * row[0] * gradient[c];
            for (int32_t x = 0; x < shape.dim; ++x) {
                const float *S = s.S + int64_t(x) * shape.dim, *G = g.S + int64_t(x) * shape.dim;
                dq[at + x] = ab * (row[0] * dot(S, gradient, shape.dim) + s.s1[x] * row[1]) - ofQ * qi[x];
                dk[at + x] = ab * (dot(G, vi, shape.dim) + g.s1[x]) - ofK * ki[x];
                const float weight = ab * ki[x];
                for (int32_t c = 0; c < shape.dim; ++c)
                    dv[at + c] += weight * G[c];
            }
        }
    });
    return Ok{};
}

} // namespace megagraph::kernels
