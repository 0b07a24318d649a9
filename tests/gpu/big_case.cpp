// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/big_case.h"

#include "core/io/generate.h"
#include "core/random.h"
#include "kernels/graph/token_order.h"

#include <algorithm>
#include <cmath>

namespace megagraph::kernels::goldens {
namespace {

constexpr uint64_t kSeed = 20;

/// Uniform in [-scale, scale), four draws of a Philox block each, rounded to bf16.
std::vector<float> draw(int64_t count, uint64_t stream, float scale, const ParallelFor& parallel)
{
    std::vector<float> values(size_t(count), 0.0f);
    constexpr int64_t kPart = 1 << 16;
    parallel.run((count + kPart - 1) / kPart, [&](int64_t part, int32_t) {
        for (int64_t i = part * kPart; i < std::min(count, (part + 1) * kPart); i += 4) {
            const PhiloxBlock words = drawWords(kSeed, stream, uint64_t(i / 4));
            for (int64_t j = i; j < std::min(count, i + 4); ++j)
                values[size_t(j)] = toFloat(toBfloat16(scale * (float(words[size_t(j - i)] >> 8) * 0x1p-23f - 1.0f)));
        }
    });
    return values;
}

Result<Csr> makeGraph(const BigCase& c)
{
    GenerateOptions options;
    options.seed = kSeed;
    options.nodes = c.tokens;
    options.communities = std::clamp<int64_t>(c.tokens / 512, 2, 1000);
    options.degree = c.degree;
    options.features = 1;
    MEGAGRAPH_TRY(const RawGraph raw, generateGraph(options));
    Csr directed;
    directed.indptr.assign(size_t(c.tokens) + 1, 0);
    for (const auto source : raw.sources)
        ++directed.indptr[size_t(source) + 1];
    for (size_t i = 1; i < directed.indptr.size(); ++i)
        directed.indptr[i] += directed.indptr[i - 1];
    directed.indices.resize(raw.targets.size());
    std::vector<int64_t> next(directed.indptr.begin(), directed.indptr.end() - 1);
    for (size_t e = 0; e < raw.targets.size(); ++e)
        directed.indices[size_t(next[size_t(raw.sources[e])]++)] = int32_t(raw.targets[e]);
    return symmetrised(directed.view());
}

} // namespace

Result<Inputs> makeBig(const BigCase& c, const ParallelFor& parallel)
{
    MEGAGRAPH_TRY(const Csr graph, makeGraph(c));
    MEGAGRAPH_TRY(const TokenOrder order, buildTokenOrder(graph.view(), "metis", 1, {}, {}));
    Inputs in;
    in.graph = permute(graph.view(), order.order);
    in.transposed = transposed(in.graph.view(), c.tokens);
    in.component = order.component;
    in.rows = in.keys = {0, c.tokens};
    in.hops = std::max(c.hops, 0);
    in.classCount = in.hops + 4;
    in.shape.queries = in.shape.keys = c.tokens;
    in.shape.heads = c.heads;
    in.shape.dim = c.dim;
    in.shape.scale = 1.0 / std::sqrt(double(c.dim));
    if (c.dropout > 0)
        in.dropout = {c.dropout, kSeed, 5, 1, 1, kSiteAttention};
    if (c.hops >= 0) {
        in.table = draw(int64_t(c.heads) * in.classCount, 5, 1.0f, parallel);
        for (float& x : in.table) // exact differences, as in golden_cases.cpp
            x = std::floor(x * 256.0f) / 256.0f;
        in.shifted = in.table;
        for (size_t i = 0; i < in.table.size(); ++i)
            in.shifted[i] -= in.table[i / size_t(in.classCount) * size_t(in.classCount) + size_t(in.hops + 1)];
        const int64_t cuts[] = {0, c.tokens};
        MEGAGRAPH_TRY(auto lists, buildTileLists(in.graph.view(), in.hops, 0, c.tokens, cuts, parallel, {}));
        in.lists = std::move(lists.front());
    }
    if (c.tensors) {
        const int64_t count = c.tokens * c.heads * c.dim;
        in.q = draw(count, 1, 2.0f, parallel);
        in.k = draw(count, 2, 2.0f, parallel);
        in.v = draw(count, 3, 1.0f, parallel);
        in.dO = draw(count, 4, 1.0f, parallel);
    }
    return in;
}

} // namespace megagraph::kernels::goldens
