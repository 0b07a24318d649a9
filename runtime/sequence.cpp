// SPDX-License-Identifier: Apache-2.0
#include "runtime/sequence.h"

#include "runtime/functions/support.h"

#include "core/bias_storage.h"
#include "core/cuts.h"
#include "kernels/graph/token_order.h"

#include <algorithm>
#include <fmt/format.h>

namespace megagraph::runtime {

namespace {

at::Tensor topologyTensor(const char* name, at::IntArrayRef shape, at::ScalarType type)
{
    const MemoryScope scope(MemoryCategory::Topology, "sequence", name);
    return at::empty(shape, type);
}

int64_t bytesOf(const kernels::Csr& csr, const kernels::Transposed& columns)
{
    return int64_t(csr.indptr.size() * 8 + csr.indices.size() * 4 + columns.indptr.size() * 8 + columns.rows.size() * 4 +
                   columns.entries.size() * 8);
}

SparsePattern pattern(const kernels::Csr& csr, const kernels::Transposed& columns)
{
    const auto rows = int64_t(csr.indptr.size()) - 1, width = int64_t(columns.indptr.size()) - 1;
    return {rows, width, csr.indptr, csr.indices, columns.indptr, columns.rows, columns.entries};
}

std::vector<int64_t> degreesOf(kernels::CsrView graph)
{
    std::vector<int64_t> degree(size_t(graph.nodes));
    for (size_t t = 0; t < degree.size(); ++t)
        degree[t] = graph.indptr[t + 1] - graph.indptr[t];
    return degree;
}

std::vector<int64_t> chooseCuts(const SequencePlan& shared, int64_t tokens, std::span<const int64_t> degree,
                                const std::vector<int64_t>& fixed)
{
    const bool dense = attentionKind(shared.plan->model) == AttentionKind::Dense;
    if (fixed.empty())
        return costCuts(tokenCost(dense, tokens, degree), shared.contextSize);
    if (int64_t(fixed.size()) != shared.contextSize + 1 || fixed.front() != 0 || fixed.back() != tokens ||
        !std::is_sorted(fixed.begin(), fixed.end()))
        throw std::runtime_error(fmt::format("plan: stages[0].cuts: got {} offsets from {} to {}, expected {} rising offsets from 0 to "
                                             "{}; plan again for this data set",
                                             fixed.size(), fixed.front(), fixed.back(), shared.contextSize + 1, tokens));
    return fixed;
}

void placeTokens(TokenSequence& s, const SequencePlan& shared, std::span<const int32_t> ids, std::span<const int64_t> degree)
{
    s.degrees = topologyTensor("degrees", {s.own()}, at::kLong);
    for (int64_t t = s.begin(); t < s.end(); ++t) {
        s.ids.push_back(ids[size_t(t)]);
        s.degrees.data_ptr<int64_t>()[t - s.begin()] = std::min(degree[size_t(t)], kDegreeRows - 1);
    }
    for (size_t c = 0; c + 1 < s.nodeCuts.size(); ++c)
        s.nodeRows.push_back(s.nodeCuts[c + 1] - s.nodeCuts[c]);
    s.tokenRows = s.nodeRows;
    s.hasToken = shared.plan->model.kind == Architecture::Graphormer && shared.plan->model.graphToken;
    if (s.hasToken) {
        s.tokenRows.back() += 1;
        s.components.push_back(-1);
    }
}

/// Divides each row by its sum, where that is not zero.
void scaleRow(float* row, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; ++i)
        sum += double(row[i]);
    for (int64_t i = 0; sum != 0 && i < count; ++i)
        row[i] = float(double(row[i]) / sum);
}

void readDense(TokenSequence& s, const Dataset& data, bool scale)
{
    const int64_t width = data.spec().featureWidth;
    s.denseFeatures = topologyTensor("features", {s.own(), width}, at::kFloat);
    for (int64_t i = 0; i < s.own(); ++i) {
        float* row = s.denseFeatures.data_ptr<float>() + i * width;
        const auto from = data.denseFeatures().subspan(size_t(s.ids[size_t(i)]) * size_t(width), size_t(width));
        std::copy(from.begin(), from.end(), row);
        if (scale)
            scaleRow(row, width);
    }
}

void readSparse(TokenSequence& s, const Dataset& data, bool scale)
{
    const auto indptr = data.featureIndptr();
    const auto values = data.featureValues();
    s.featureRows.indptr.push_back(0);
    for (const int32_t id : s.ids) {
        const auto from = data.featureIndices().subspan(size_t(indptr[size_t(id)]), size_t(indptr[size_t(id) + 1] - indptr[size_t(id)]));
        s.featureRows.indices.insert(s.featureRows.indices.end(), from.begin(), from.end());
        s.featureRows.indptr.push_back(int64_t(s.featureRows.indices.size()));
    }
    s.featureValues = topologyTensor("feature values", {s.featureRows.indptr.back()}, at::kFloat);
    for (size_t i = 0; i < s.ids.size(); ++i) {
        float* row = s.featureValues.data_ptr<float>() + s.featureRows.indptr[i];
        const int64_t count = s.featureRows.indptr[i + 1] - s.featureRows.indptr[i];
        for (int64_t e = 0; e < count; ++e)
            row[e] = values.empty() ? 1.0f : values[size_t(indptr[size_t(s.ids[i])] + e)];
        if (scale)
            scaleRow(row, count);
    }
    s.featureColumns = kernels::transposed(s.featureRows.view(), data.spec().featureWidth);
    s.features = pattern(s.featureRows, s.featureColumns);
    s.charges.emplace_back(MemoryCategory::Topology, bytesOf(s.featureRows, s.featureColumns), "sparse features");
}

void readFeatures(TokenSequence& s, const Dataset& data, bool scale)
{
    if (data.spec().featureKind == "sparse")
        readSparse(s, data, scale);
    else if (data.hasFeatures())
        readDense(s, data, scale);
}

/// Row c(i, .) of own tokens for the materialised baseline, by one plain search per row.
void denseClasses(TokenSequence& s, kernels::CsrView graph, int32_t hops, int64_t threads)
{
    const int64_t keys = s.count + (s.hasToken ? 1 : 0), rows = s.tokenRows[size_t(s.rank)], begin = s.begin();
    s.classes = topologyTensor("distance classes of all pairs", {rows, keys}, at::kByte);
    uint8_t* out = s.classes.data_ptr<uint8_t>();
    kernels::ForkJoinFor(int32_t(threads)).run(rows, [&](int64_t i, int32_t) {
        uint8_t* row = out + i * keys;
        if (begin + i >= s.count) {
            std::fill(row, row + keys, uint8_t(hops + 3));
            return;
        }
        const std::vector<uint8_t> distance = kernels::plainDistances(graph, begin + i, hops);
        for (int64_t j = 0; j < s.count; ++j) {
            const bool joined = s.components[size_t(begin + i)] == s.components[size_t(j)];
            row[j] = distance[size_t(j)] <= hops ? distance[size_t(j)] : uint8_t(hops + (joined ? 1 : 2));
        }
        if (s.hasToken)
            row[s.count] = uint8_t(hops + 3);
    });
}

void buildDense(TokenSequence& s, const SequencePlan& shared, kernels::CsrView graph)
{
    const Plan& plan = *shared.plan;
    s.dense.hops = int32_t(plan.model.hops);
    s.dense.classes = int32_t(biasClasses(plan.model));
    s.dense.queryBegin = s.begin();
    s.dense.cuts = s.nodeCuts;
    s.dense.cuts.back() += s.hasToken ? 1 : 0;
    s.dense.components = s.components;
    if (plan.attention == AttentionPath::Materialised)
        return denseClasses(s, graph, s.dense.hops, shared.threads);
    const bool ring = plan.stages[0].exchange == Exchange::Ring && shared.contextSize > 1;
    const std::vector<int64_t> whole{0, s.dense.cuts.back()};
    const kernels::ForkJoinFor parallel{int32_t(shared.threads)};
    const std::vector<int64_t>& cuts = ring ? s.dense.cuts : whole;
    const int64_t begin = s.begin(), end = begin + s.tokenRows[size_t(s.rank)];
    int64_t bytes = 0;
    const auto keep = [&](auto&& stores) {
        for (auto& store : stores) {
            bytes += store.bytes();
            s.dense.stores.emplace_back(std::move(store));
        }
    };
    switch (plan.bias) {
    case BiasPolicy::Lists: keep(require(kernels::buildTileLists(graph, s.dense.hops, begin, end, cuts, parallel, {}))); break;
    case BiasPolicy::Planes: keep(require(kernels::buildTilePlanes(graph, s.dense.hops, begin, end, cuts, {}, parallel, {}))); break;
    case BiasPolicy::Strips: // nothing kept but the graph; the search of a call is charged as if it were there all the time
        s.distanceGraph = {{graph.indptr.begin(), graph.indptr.end()}, {graph.indices.begin(), graph.indices.end()}};
        bytes = 8 * int64_t(s.distanceGraph.indptr.size()) + 4 * int64_t(s.distanceGraph.indices.size()) + stripBytes(graph.nodes, s.dense.hops);
        s.dense.stores.assign(cuts.size() - 1, DistanceStrips{s.distanceGraph.view()});
        break;
    }
    s.charges.emplace_back(MemoryCategory::Topology, bytes, "distance structure");
}

void buildEdges(TokenSequence& s, const ModelSpec& model, kernels::CsrView graph)
{
    if (model.neighbours == Neighbours::None)
        s.edgeRows.indptr.assign(size_t(s.own()) + 1, 0);
    else
        s.edgeRows = kernels::rows(graph, s.begin(), s.end());
    s.edgeColumns = kernels::transposed(s.edgeRows.view(), s.count);
    s.edges = {s.own(), s.count, s.edgeRows.indptr, s.edgeRows.indices, s.edgeColumns.indptr, s.edgeColumns.rows, s.edgeColumns.entries,
               model.selfLoops || model.neighbours == Neighbours::None, s.begin(), s.begin(), 0, {}};
    s.charges.emplace_back(MemoryCategory::Topology, bytesOf(s.edgeRows, s.edgeColumns), "edges");
}

/// Own rows of D^-1/2 (A + I) D^-1/2, in the residual form of D^-1/2 A D^-1/2.
void buildConvolution(TokenSequence& s, const ModelSpec& model, kernels::CsrView graph, std::span<const int64_t> degree)
{
    const bool edges = model.neighbours == Neighbours::Edges, loops = !model.gcnResidual;
    const auto weight = [&](int64_t t) {
        const int64_t d = (edges ? degree[size_t(t)] : 0) + (loops ? 1 : 0);
        return d > 0 ? 1.0 / std::sqrt(double(d)) : 0.0;
    };
    std::vector<float> values;
    s.convolutionRows.indptr.push_back(0);
    for (int64_t t = s.begin(); t < s.end(); ++t) {
        std::vector<int32_t> row;
        if (edges)
            row.assign(graph.indices.begin() + graph.indptr[size_t(t)], graph.indices.begin() + graph.indptr[size_t(t) + 1]);
        if (loops)
            row.insert(std::lower_bound(row.begin(), row.end(), int32_t(t)), int32_t(t));
        for (const int32_t j : row) {
            s.convolutionRows.indices.push_back(j);
            values.push_back(float(weight(t) * weight(j)));
        }
        s.convolutionRows.indptr.push_back(int64_t(s.convolutionRows.indices.size()));
    }
    s.convolutionColumns = kernels::transposed(s.convolutionRows.view(), s.count);
    s.convolution = pattern(s.convolutionRows, s.convolutionColumns);
    s.convolutionValues = topologyTensor("convolution weights", {int64_t(values.size())}, at::kFloat);
    std::copy(values.begin(), values.end(), s.convolutionValues.data_ptr<float>());
    s.charges.emplace_back(MemoryCategory::Topology, bytesOf(s.convolutionRows, s.convolutionColumns), "convolution rows");
}

int64_t contextSizeOf(const Plan& plan)
{
    if (plan.stages.size() != 1)
        throw std::runtime_error(fmt::format("plan: stages: got {}, expected 1; pipelines are not built yet, plan without them",
                                             plan.stages.size()));
    return plan.stages[0].ring * plan.stages[0].ulysses;
}

void addClusters(SequenceSet& set, const SequencePlan& shared, const kernels::TokenOrder& order, kernels::CsrView graph,
                 const std::string& home)
{
    const Plan& plan = *shared.plan;
    const int64_t size = plan.tokens > 0 ? plan.tokens : plan.model.sequenceTokens;
    const kernels::Clusters clusters = require(kernels::cachedClusters(home, shared.dataset->spec().structureHash, graph, plan.order,
                                                                       size > 0 ? size : graph.nodes, plan.partitionSeed));
    set.keptEdges = clusters.keptEdges;
    for (const std::vector<int32_t>& tokens : clusters.sequences) {
        const kernels::Csr part = kernels::induced(graph, tokens);
        std::vector<int32_t> ids;
        for (const int32_t t : tokens)
            ids.push_back(order.order[size_t(t)]);
        set.sequences.push_back(buildSequence(shared, part.view(), ids, kernels::components(part.view()), {}));
    }
}

} // namespace

std::unique_ptr<TokenSequence> buildSequence(const SequencePlan& shared, kernels::CsrView graph, std::span<const int32_t> ids,
                                             std::vector<int32_t> components, const std::vector<int64_t>& fixedCuts)
{
    auto sequence = std::make_unique<TokenSequence>();
    TokenSequence& s = *sequence;
    const ModelSpec& model = shared.plan->model;
    const std::vector<int64_t> degree = degreesOf(graph);
    s.count = graph.nodes;
    s.rank = shared.contextRank;
    s.components = std::move(components);
    s.nodeCuts = chooseCuts(shared, s.count, degree, fixedCuts);
    placeTokens(s, shared, ids, degree);
    readFeatures(s, *shared.dataset, model.scaleFeatures);
    switch (model.kind) {
    case Architecture::Graphormer: buildDense(s, shared, graph); break;
    case Architecture::GtSparse: buildEdges(s, model, graph); break;
    case Architecture::Sgformer: buildConvolution(s, model, graph, degree); break;
    }
    return sequence;
}

SequenceSet makeSequences(const Plan& plan, const Dataset& dataset, const std::string& home, int64_t contextRank, int64_t threads)
{
    const SequencePlan shared{&plan, &dataset, contextRank, contextSizeOf(plan), threads};
    const kernels::CsrView stored{dataset.nodes(), dataset.indptr(), dataset.indices()};
    const kernels::Csr mirrored = dataset.spec().directed ? kernels::symmetrised(stored) : kernels::Csr{};
    const kernels::CsrView graph = dataset.spec().directed ? mirrored.view() : stored;
    const kernels::TokenOrder order = require(
        kernels::cachedTokenOrder(home, dataset.spec().structureHash, graph, plan.order, plan.partitionSeed, {}, {}));
    const kernels::Csr ordered = kernels::permute(graph, order.order);
    SequenceSet set;
    if (plan.mode == SequenceMode::Clusters)
        addClusters(set, shared, order, ordered.view(), home);
    else if (plan.mode == SequenceMode::Full)
        set.sequences.push_back(buildSequence(shared, ordered.view(), order.order, order.component, plan.stages[0].cuts));
    else
        throw std::runtime_error("plan: sequence.mode: packs are not built yet, expected full or clusters; choose another mode");
    return set;
}

} // namespace megagraph::runtime
