// SPDX-License-Identifier: Apache-2.0
#include "core/io/generate.h"

#include "core/io/labels.h"
#include "core/random.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <fmt/format.h>
#include <numeric>
#include <span>
#include <tuple>

namespace megagraph {

namespace {

// streams of draws; the numbers are part of the format: a change changes every hash
enum Stream : uint64_t { kCommunity = 1, kWeight = 2, kEdge = 3, kCentre = 4, kNoise = 5, kIsolated = 6, kUnlabelled = 7, kShuffle = 8, kSeeds = 9, kParity = 10 };

constexpr int64_t kUnit = 65536; // features are whole multiples of 1 / kUnit

struct Range { int64_t value, least, most; const char* name; };

Result<Ok> checkRanges(std::initializer_list<Range> ranges)
{
    for (const Range& r : ranges)
        if (r.value < r.least || r.value > r.most)
            return Error{ErrorCode::Usage, fmt::format("generate: --{}: out of range, got {}, expected {}..{}; choose another value", r.name, r.value,
                                                       r.least, r.most)};
    return Ok{};
}

/// The `count` items below `total` with the smallest keyed hash, as flags.
std::vector<bool> chosen(uint64_t seed, Stream stream, int64_t total, int64_t count)
{
    std::vector<std::pair<uint64_t, int64_t>> order;
    for (int64_t i = 0; i < total; ++i)
        order.emplace_back(drawBelow(seed, stream, static_cast<uint64_t>(i), uint64_t(1) << 63), i);
    std::sort(order.begin(), order.end());
    std::vector<bool> flags(static_cast<size_t>(total), false);
    for (int64_t i = 0; i < count; ++i)
        flags[static_cast<size_t>(order[static_cast<size_t>(i)].second)] = true;
    return flags;
}

/// Draws nodes in proportion to whole-number weights.
class WeightedNodes {
  public:
    void add(int32_t node, int64_t weight)
    {
        nodes_.push_back(node);
        ends_.push_back(total() + weight);
    }
    int64_t total() const { return ends_.empty() ? 0 : ends_.back(); }
    /// `ticket` in [0, total).
    int32_t at(int64_t ticket) const
    {
        return nodes_[static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), ticket) - ends_.begin())];
    }

  private:
    std::vector<int32_t> nodes_;
    std::vector<int64_t> ends_;
};

/// High half of a 64-bit draw times a bound: a whole number in [0, bound), bound < 2^32 or so.
int64_t below(uint32_t high, uint32_t low, int64_t bound)
{
    const uint64_t b = static_cast<uint64_t>(bound), bits = uint64_t(high) << 32 | low;
    return static_cast<int64_t>(((bits >> 32) * b + ((bits & 0xffffffffu) * b >> 32)) >> 32);
}

/// Heavy tail above a floor: 40 + 16 (3/2)^k with probability 2^-(k+1), k at most 8: P(weight > x) falls about as x^-1.7.
/// The floor keeps the poorest nodes at more than half the mean degree, so that their neighbours tell the community.
int64_t heavyWeight(uint64_t seed, int64_t node)
{
    const uint32_t bits = drawWords(seed, kWeight, static_cast<uint64_t>(node))[0];
    int64_t weight = 16;
    for (int k = 0; k < 8 && (bits >> k & 1); ++k)
        weight = weight * 3 / 2;
    return weight + 40;
}

struct Communities {
    std::vector<int32_t> of; // [nodes]
    std::vector<bool> isolated;
    std::vector<WeightedNodes> members;
    WeightedNodes all;
};

Communities plantCommunities(const GenerateOptions& o)
{
    Communities c;
    c.isolated = chosen(o.seed, kIsolated, o.nodes, (o.nodes + 50) / 100);
    c.members.resize(static_cast<size_t>(o.communities));
    // uneven: the shares fall in equal steps from 4C to 2C + 2
    const int64_t shares = 4 * o.communities * o.communities - o.communities * (o.communities - 1);
    for (int64_t i = 0; i < o.nodes; ++i) {
        auto ticket = static_cast<int64_t>(drawBelow(o.seed, kCommunity, static_cast<uint64_t>(i), static_cast<uint64_t>(shares)));
        int32_t community = 0;
        for (int64_t share = 4 * o.communities; ticket >= share; share -= 2, ++community)
            ticket -= share;
        c.of.push_back(community);
        if (c.isolated[static_cast<size_t>(i)])
            continue;
        const int64_t weight = heavyWeight(o.seed, i);
        c.members[static_cast<size_t>(community)].add(static_cast<int32_t>(i), weight);
        c.all.add(static_cast<int32_t>(i), weight);
    }
    return c;
}

/// Draw `index`: the first draws take each connected node once as one end, so none of them ends up isolated; the others take
/// it by weight. The other end is inside the community with the asked share. Equal ends mean "no edge".
std::pair<int32_t, int32_t> drawEdge(const GenerateOptions& o, const Communities& c, const std::vector<int32_t>& connected, uint64_t index)
{
    const PhiloxBlock a = drawWords(o.seed, kEdge, 2 * index), b = drawWords(o.seed, kEdge, 2 * index + 1);
    const int32_t from = index < connected.size() ? connected[index] : c.all.at(below(a[0], a[1], c.all.total()));
    const int32_t home = c.of[static_cast<size_t>(from)];
    const WeightedNodes& mine = c.members[static_cast<size_t>(home)];
    if (below(a[2], a[3], 100) < o.inside)
        return {from, mine.at(below(b[0], b[1], mine.total()))};
    const int32_t to = c.all.at(below(b[2], b[3], c.all.total()));
    return c.of[static_cast<size_t>(to)] == home ? std::pair{from, from} : std::pair{from, to};
}

void addCommunityEdges(const GenerateOptions& o, const Communities& c, RawGraph& graph)
{
    std::vector<int32_t> connected;
    for (int64_t i = 0; i < o.nodes; ++i)
        if (!c.isolated[static_cast<size_t>(i)])
            connected.push_back(static_cast<int32_t>(i));
    const auto wanted = static_cast<size_t>(o.nodes * o.degree / 2);
    std::vector<std::pair<int32_t, int32_t>> edges, fresh, all;
    uint64_t index = 0;
    for (int round = 0; edges.size() < wanted && round < 64; ++round) {
        fresh.clear();
        for (size_t missing = wanted - edges.size(); missing > 0; --missing) {
            auto [a, b] = drawEdge(o, c, connected, index++);
            if (a != b)
                fresh.emplace_back(std::min(a, b), std::max(a, b));
        }
        std::sort(fresh.begin(), fresh.end());
        fresh.erase(std::unique(fresh.begin(), fresh.end()), fresh.end());
        all.clear();
        std::set_union(edges.begin(), edges.end(), fresh.begin(), fresh.end(), std::back_inserter(all));
        edges.swap(all);
    }
    for (const auto& [a, b] : edges) {
        graph.sources.push_back(a);
        graph.targets.push_back(b);
    }
}

/// Sign of a class centre in one column: Walsh functions, so that any two classes differ in half of the columns; classes
/// beyond their number get drawn signs.
bool positiveCentre(const GenerateOptions& o, int64_t community, int64_t column)
{
    const int64_t functions = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(o.features)));
    if (community + 1 < functions && column < functions)
        return std::popcount(static_cast<uint64_t>((community + 1) & column)) & 1;
    return drawWords(o.seed, kCentre, static_cast<uint64_t>(community * o.features + column))[0] & 1;
}

/// centre +- separation (sign by class and column) + noise of variance 1: the sum of twelve uniforms, all in whole units.
void addCommunityFeatures(const GenerateOptions& o, const Communities& c, RawGraph& graph)
{
    const auto separation = static_cast<int64_t>(o.separation * static_cast<double>(kUnit) + 0.5);
    graph.features = FeatureTable(o.nodes, o.features);
    std::vector<float> row(static_cast<size_t>(o.features));
    for (int64_t i = 0; i < o.nodes; ++i) {
        for (int64_t f = 0; f < o.features; ++f) {
            const auto place = static_cast<uint64_t>(i * o.features + f);
            int64_t value = -6 * kUnit + 6;
            for (const uint64_t half : {2 * place, 2 * place + 1}) {
                const PhiloxBlock words = drawWords(o.seed, kNoise, half);
                for (size_t w = 0; w < 3; ++w)
                    value += (words[w] >> 16) + (words[w] & 0xffff);
            }
            value += positiveCentre(o, c.of[static_cast<size_t>(i)], f) ? separation : -separation;
            row[static_cast<size_t>(f)] = static_cast<float>(value) / static_cast<float>(kUnit); // exact: below 2^24, power of two
        }
        graph.features.addRow(row);
    }
    graph.hasFeatures = o.features > 0;
}

void addLabelsAndSplit(const std::vector<int32_t>& classes, int64_t count, uint64_t seed, RawGraph& graph)
{
    graph.labels.present = true;
    graph.labels.file = "generated";
    for (const int32_t c : classes)
        graph.labels.numbers.push_back(c < 0 ? std::nan("") : c);
    const SplitRequest request{60, 20, 20, seed};
    graph.splits.push_back({fmt::format("random:60/20/20:{}", seed), randomSplit(classes, count, request)});
}

Result<Ok> makeCommunity(const GenerateOptions& o, RawGraph& graph)
{
    MEGAGRAPH_TRY(std::ignore, checkRanges({{o.nodes, 100, 10'000'000, "nodes"}, {o.communities, 2, 1000, "communities"},
                                            {o.degree, 1, 1000, "degree"}, {o.inside, 0, 100, "inside"}, {o.features, 0, 4096, "features"},
                                            {static_cast<int64_t>(o.separation * 1000), 0, 8000, "separation"},
                                            {o.degree, 1, o.nodes / 4, "degree"}, {o.communities, 2, o.nodes / 10, "communities"}}));
    const Communities c = plantCommunities(o);
    graph.nodes = o.nodes;
    addCommunityEdges(o, c, graph);
    if (o.features > 0)
        addCommunityFeatures(o, c, graph);
    const auto hidden = chosen(o.seed, kUnlabelled, o.nodes, (o.nodes + 10) / 20);
    std::vector<int32_t> classes = c.of;
    for (size_t i = 0; i < classes.size(); ++i)
        if (hidden[i])
            classes[i] = -1;
    addLabelsAndSplit(classes, o.communities, o.seed, graph);
    return Ok{};
}

/// Breadth first from `count` seed nodes: each node gets the number of the nearest (the smaller on ties), -1 where none reaches.
std::vector<int32_t> nearestSeed(const RawGraph& graph, uint64_t seed, int64_t count)
{
    const auto n = static_cast<size_t>(graph.nodes);
    std::vector<std::vector<int32_t>> neighbours(n);
    for (size_t e = 0; e < graph.sources.size(); ++e) {
        neighbours[static_cast<size_t>(graph.sources[e])].push_back(graph.targets[e]);
        neighbours[static_cast<size_t>(graph.targets[e])].push_back(graph.sources[e]);
    }
    const auto flags = chosen(seed, kSeeds, graph.nodes, count);
    std::vector<int32_t> label(n, -1), front;
    for (size_t i = 0, next = 0; i < n; ++i)
        if (flags[i]) {
            label[i] = static_cast<int32_t>(next++);
            front.push_back(static_cast<int32_t>(i));
        }
    while (!front.empty()) {
        std::vector<std::pair<int32_t, int32_t>> reached; // node, label
        for (const int32_t v : front)
            for (const int32_t w : neighbours[static_cast<size_t>(v)])
                if (label[static_cast<size_t>(w)] < 0)
                    reached.emplace_back(w, label[static_cast<size_t>(v)]);
        std::sort(reached.begin(), reached.end());
        front.clear();
        for (const auto& [node, number] : reached)
            if (label[static_cast<size_t>(node)] < 0) {
                label[static_cast<size_t>(node)] = number;
                front.push_back(node);
            }
    }
    return label;
}

Result<Ok> makeRmat(const GenerateOptions& o, RawGraph& graph)
{
    MEGAGRAPH_TRY(std::ignore, checkRanges({{o.scale, 4, 24, "scale"}, {o.edgeFactor, 1, 256, "edge-factor"}}));
    graph.nodes = int64_t(1) << o.scale;
    std::vector<std::pair<uint64_t, int32_t>> order;
    for (int64_t i = 0; i < graph.nodes; ++i)
        order.emplace_back(drawBelow(o.seed, kShuffle, static_cast<uint64_t>(i), uint64_t(1) << 63), static_cast<int32_t>(i));
    std::sort(order.begin(), order.end());
    for (int64_t e = 0; e < graph.nodes * o.edgeFactor; ++e) {
        size_t a = 0, b = 0;
        PhiloxBlock words{};
        for (int64_t bit = 0; bit < o.scale; ++bit) {
            if (bit % 4 == 0)
                words = drawWords(o.seed, kEdge, static_cast<uint64_t>(e) * 8 + static_cast<uint64_t>(bit / 4));
            const int64_t corner = below(words[static_cast<size_t>(bit % 4)], 0, 100); // 57, 19, 19, 5 percent
            a = 2 * a + (corner >= 76);
            b = 2 * b + ((corner >= 57 && corner < 76) || corner >= 95);
        }
        graph.sources.push_back(order[a].second);
        graph.targets.push_back(order[b].second);
    }
    return Ok{};
}

void addEdge(RawGraph& graph, int64_t a, int64_t b)
{
    graph.sources.push_back(static_cast<int32_t>(a));
    graph.targets.push_back(static_cast<int32_t>(b));
}

Result<Ok> makeGrid(const GenerateOptions& o, RawGraph& graph)
{
    MEGAGRAPH_TRY(std::ignore, checkRanges({{o.rows, 1, 30'000, "rows"}, {o.columns, 1, 30'000, "columns"}}));
    graph.nodes = o.rows * o.columns;
    for (int64_t r = 0; r < o.rows; ++r)
        for (int64_t c = 0; c < o.columns; ++c) {
            if (c + 1 < o.columns || (o.torus && o.columns > 2))
                addEdge(graph, r * o.columns + c, r * o.columns + (c + 1) % o.columns);
            if (r + 1 < o.rows || (o.torus && o.rows > 2))
                addEdge(graph, r * o.columns + c, (r + 1) % o.rows * o.columns + c);
        }
    return Ok{};
}

Result<Ok> makePath(const GenerateOptions& o, RawGraph& graph)
{
    MEGAGRAPH_TRY(std::ignore, checkRanges({{o.nodes, 1, 100'000'000, "nodes"}}));
    graph.nodes = o.nodes;
    for (int64_t i = 0; i + 1 < o.nodes; ++i)
        addEdge(graph, i, i + 1);
    return Ok{};
}

/// One hub; the label is the parity of the node's only feature, a whole number 0..7.
Result<Ok> makeStar(const GenerateOptions& o, RawGraph& graph)
{
    MEGAGRAPH_TRY(std::ignore, checkRanges({{o.leaves, 1, 100'000'000, "leaves"}}));
    graph.nodes = o.leaves + 1;
    graph.features = FeatureTable(graph.nodes, 1);
    graph.hasFeatures = true;
    std::vector<int32_t> classes;
    for (int64_t i = 0; i < graph.nodes; ++i) {
        if (i > 0)
            addEdge(graph, 0, i);
        const auto value = static_cast<float>(drawBelow(o.seed, kParity, static_cast<uint64_t>(i), 8));
        graph.features.addRow(std::span(&value, 1));
        classes.push_back(static_cast<int32_t>(value) & 1);
    }
    addLabelsAndSplit(classes, 2, o.seed, graph);
    return Ok{};
}

Result<Ok> make(const GenerateOptions& o, RawGraph& graph)
{
    if (o.kind == "community")
        return makeCommunity(o, graph);
    if (o.kind == "rmat")
        return makeRmat(o, graph);
    if (o.kind == "grid")
        return makeGrid(o, graph);
    if (o.kind == "path")
        return makePath(o, graph);
    if (o.kind == "star")
        return makeStar(o, graph);
    return Error{ErrorCode::Usage, fmt::format("generate: unknown kind, got {}, expected one of community, rmat, grid, path, star; choose one", o.kind)};
}

} // namespace

Result<RawGraph> generateGraph(const GenerateOptions& options)
{
    RawGraph graph;
    graph.format = "generated";
    graph.kindText = fmt::format("generated {}, seed {}", options.kind, options.seed);
    graph.nodesFrom = "asked for";
    graph.edgeFile = "generated";
    graph.firstEdgeNumber = 0;
    MEGAGRAPH_TRY(std::ignore, make(options, graph));
    if (!graph.labels.present) {
        const int64_t classes = std::min(std::max<int64_t>(options.communities, 1), graph.nodes);
        addLabelsAndSplit(nearestSeed(graph, options.seed, classes), classes, options.seed, graph);
    }
    graph.decisions.push_back({"generator", options.kind, fmt::format("seed {}", options.seed), "option"});
    return graph;
}

} // namespace megagraph
