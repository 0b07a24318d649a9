// SPDX-License-Identifier: Apache-2.0
#include "planner/cost_model.h"

#include "core/bias_storage.h"
#include "core/precision.h"

#include <fmt/format.h>

#include <cmath>
#include <tuple>

namespace megagraph::planner {

namespace {

constexpr double kElement = 4;            // fp32 is what this version runs
constexpr double kUtilisation = 0.5;      // assumed share of the peak that matrix products reach
constexpr double kPairFlopsForward = 24;  // exp, bias and rescaling of one score, in flops, beside its two products
constexpr double kPairFlopsBackward = 36; // the same for five products
constexpr double kMapPassesForward = 18;  // materialised: passes over [H, n_q, n_k] maps that look-up, thin products, softmax and
constexpr double kMapPassesBackward = 33; // dropout cost together; 2.4 s a step measured on Cora, 2 blocks, one core
constexpr double kNearPoint = 0.10;       // so near to a measured size the formula only bridges the difference
constexpr double kEdgeTrafficPasses = 3;  // reads of key and value rows per edge

int64_t intOf(const std::map<std::string, std::string>& key, const char* name, int64_t otherwise)
{
    const auto found = key.find(name);
    return found == key.end() || found->second.empty() ? otherwise : std::atoll(found->second.c_str());
}

std::string textOf(const std::map<std::string, std::string>& key, const char* name, const char* otherwise)
{
    const auto found = key.find(name);
    return found == key.end() ? otherwise : found->second;
}

double numberOf(const std::map<std::string, double>& x, const char* name, double otherwise)
{
    const auto found = x.find(name);
    return found == x.end() ? otherwise : found->second;
}

Estimate withOrigin(Estimate estimate, Provenance atLeast)
{
    if (estimate.worst >= atLeast)
        return estimate;
    return estimateOf(double(estimate.value), atLeast);
}

} // namespace

std::string layerKey(const std::string& layer, const std::string& recompute, const std::string& attention,
                     const std::string& exchange, int64_t ranks, const std::string& phase)
{
    return fmt::format("layer|{}|{}|{}|{}|{}|{}", layer, recompute, attention, exchange, phase, ranks);
}

Result<CostModel> CostModel::build(const Problem& problem)
{
    CostModel model;
    model.model_ = problem.model;
    model.dataset_ = problem.dataset;
    MEGAGRAPH_TRY(model.layout_, modelLayout(problem.model, problem.dataset));
    model.outputs_ = std::max<int64_t>(1, outputWidth(problem.model, problem.dataset));
    std::string preset = "cpu-slot";
    for (const DeviceSpec& device : problem.cluster.devices())
        if (!device.preset.empty())
            preset = device.preset;
    MEGAGRAPH_TRY(model.hardware_, loadHardware(problem.resources, preset));
    if (problem.profile) {
        model.transferred_ = problem.match != "exact";
        model.addPoints(*problem.profile);
    }
    return model;
}

void CostModel::addPoints(const Profile& profile)
{
    std::map<std::string, std::vector<std::pair<double, double>>> links;
    for (const ProfilePoint& point : profile.points) {
        if (point.status != "ok" && point.status != "unstable")
            continue;
        const int64_t ranks = intOf(point.key, "ranks", 1);
        const std::string phase = textOf(point.key, "phase", "forward");
        Sample sample;
        sample.ns = double(point.medianNs);
        sample.saved = double(point.savedBytes);
        sample.peak = double(point.peakBytes);
        sample.attentionNs = numberOf(point.x, "attention_ns", -1);
        sample.exchangeNs = numberOf(point.x, "exchange_ns", -1);
        if (point.medianNs > 0 && !point.repeats.empty())
            sample.standardError = 1.4826 * double(point.madNs) / std::sqrt(double(point.repeats.size())) / double(point.medianNs);
        std::string key;
        if (point.kind == "layer") {
            sample.n = numberOf(point.x, "n", 0);
            key = layerKey(textOf(point.key, "layer", ""), textOf(point.key, "recompute", "none"), textOf(point.key, "attention", ""),
                           textOf(point.key, "exchange", "none"), ranks, phase);
        } else if (point.kind == "attention") {
            sample.n = numberOf(point.x, "n_q", 0) * numberOf(point.x, "n_k", 0);
            key = fmt::format("attention|{}|{}|{}", textOf(point.key, "path", ""), phase, ranks);
        } else if (point.kind == "collective" || point.kind == "p2p") {
            links[fmt::format("{}|{}", textOf(point.key, "op", ""), ranks)].emplace_back(numberOf(point.x, "bytes", 0), sample.ns);
            continue;
        } else if (point.kind == "optimizer") {
            sample.n = numberOf(point.x, "parameters", 0);
            key = fmt::format("optimizer|{}", ranks);
        } else if (point.kind == "host") {
            sample.n = 1;
            key = fmt::format("host|{}", ranks);
        } else if (point.kind == "memory") {
            sample.n = numberOf(point.x, "n", 1);
            key = fmt::format("memory|{}|{}|{}|{}", textOf(point.key, "what", ""), textOf(point.key, "attention", ""),
                              textOf(point.key, "exchange", "none"), ranks);
        } else {
            continue;
        }
        if (sample.n > 0)
            series_[key].push_back(sample);
    }
    for (auto& [key, samples] : series_)
        std::stable_sort(samples.begin(), samples.end(), [](const Sample& a, const Sample& b) { return a.n < b.n; });
    for (auto& [key, points] : links)
        links_[key] = Curve(points);
    for (const ProfileConstant& constant : profile.constants)
        constants_[constant.name] = constant.value;
}

const CostModel::Series* CostModel::series(const std::string& key) const
{
    const auto found = series_.find(key);
    return found == series_.end() ? nullptr : &found->second;
}

/// The series of `prefix` + ranks measured with the nearest number of busy ranks; `exact` tells whether it is this number.
const CostModel::Series* CostModel::nearestBusy(const std::string& prefix, int64_t busy, bool& exact) const
{
    const Series* best = nullptr;
    int64_t distance = 0;
    for (auto it = series_.lower_bound(prefix); it != series_.end() && it->first.compare(0, prefix.size(), prefix) == 0; ++it) {
        const int64_t ranks = std::atoll(it->first.c_str() + prefix.size());
        if (!best || std::abs(ranks - busy) < distance) {
            best = &it->second;
            distance = std::abs(ranks - busy);
        }
    }
    exact = best && distance == 0;
    return best;
}

/// On a measured size the measured value; elsewhere formula x measured ratio, interpolated in log n or taken from the end.
Estimate CostModel::fromSeries(const Series& series, double n, const Formula& formula, double Sample::*field) const
{
    const auto ratio = [&](const Sample& sample) { return formula(sample.n) > 0 ? sample.*field / formula(sample.n) : 0.0; };
    const auto marked = [&](const Estimate& e) { return transferred_ ? withOrigin(e, Provenance::Transferred) : e; };
    for (const Sample& sample : series)
        if (std::abs(sample.n - n) <= 0.005 * sample.n)
            return marked(estimateOf(sample.*field, Provenance::Measured, sample.standardError));
    const auto above = std::find_if(series.begin(), series.end(), [&](const Sample& s) { return s.n > n; });
    if (above == series.begin() || above == series.end()) {
        const Sample& end = above == series.begin() ? series.front() : series.back();
        if (std::abs(n - end.n) <= kNearPoint * end.n)
            return marked(estimateOf(formula(n) * ratio(end), Provenance::Interpolated, 0, 0.02));
        return marked(estimateOf(formula(n) * ratio(end), Provenance::Extrapolated, 0, 0.1, std::abs(std::log2(n / end.n))));
    }
    const Sample &lower = *(above - 1), &upper = *above;
    const double t = (std::log(n) - std::log(lower.n)) / (std::log(upper.n) - std::log(lower.n));
    const double a = ratio(lower), b = ratio(upper);
    const double between = a > 0 && b > 0 ? std::exp((1 - t) * std::log(a) + t * std::log(b)) : (1 - t) * a + t * b;
    const double spread = a > 0 && b > 0 ? std::abs(std::log(b / a)) / 4 : 0.1;
    return marked(estimateOf(formula(n) * between, Provenance::Interpolated, 0, spread));
}

PassCost CostModel::passFrom(const Series& series, double n, const Formula& formula, double attentionShare) const
{
    PassCost pass;
    pass.time = fromSeries(series, n, formula, &Sample::ns);
    // the sample nearest in size tells how the whole splits
    const Sample& near = *std::min_element(series.begin(), series.end(), [&](const Sample& a, const Sample& b) {
        return std::abs(std::log(a.n / n)) < std::abs(std::log(b.n / n));
    });
    const double whole = double(pass.time.value);
    const double attention = near.attentionNs >= 0 && near.ns > 0 ? near.attentionNs / near.ns : attentionShare;
    const double exchange = near.exchangeNs >= 0 && near.ns > 0 ? near.exchangeNs / near.ns : 0;
    pass.exchangeNs = int64_t(std::llround(whole * std::clamp(exchange, 0.0, 1.0)));
    pass.attentionNs = std::min(int64_t(std::llround(whole * std::clamp(attention, 0.0, 1.0))), pass.time.value - pass.exchangeNs);
    return pass;
}

double CostModel::seconds(double flops, double bytes, double launches) const
{
    return 1e9 * std::max(flops / (hardware_.flopsFp32 * kUtilisation), bytes / double(hardware_.memoryBytesPerS)) +
           launches * double(hardware_.launchNs);
}

/// Norms, projections and FFN of one block on `rows` tokens.
double CostModel::denseNs(double rows, bool backward) const
{
    const double d = double(model_.width), f = double(model_.ffnWidth);
    const double products = model_.kind == Architecture::Sgformer ? 3 * d * d * double(model_.heads) : 4 * d * d + 2 * d * f;
    const double elementwise = model_.kind == Architecture::Sgformer ? 12 * d : 14 * d + 4 * f;
    const double flops = 2 * rows * products, bytes = rows * elementwise * kElement;
    return seconds(backward ? 2 * flops : flops, backward ? 2 * bytes : bytes, backward ? 40 : 24);
}

double CostModel::attentionNs(const BlockQuery& query, const Shard& shard, bool backward) const
{
    const double d = double(model_.width), h = double(model_.heads), rows = double(shard.rows), keys = double(shard.keys);
    switch (attentionKind(model_)) {
    case AttentionKind::Linear: {
        const double flops = 4 * rows * h * double(headWidth(model_)) * double(headWidth(model_));
        return seconds(backward ? 2.5 * flops : flops, rows * d * h * 4 * kElement, 4);
    }
    case AttentionKind::Edges: {
        const double entries = double(shard.entries) + rows;
        return seconds((backward ? 10 : 4) * entries * d, kEdgeTrafficPasses * (backward ? 3 : 1) * entries * d * kElement, 2);
    }
    case AttentionKind::Dense: break;
    }
    const double pairs = rows * keys;
    const double products = pairs * (backward ? 10 : 4) * d;
    if (query.attention == AttentionPath::Materialised)
        return seconds(products, 0, 4) + seconds(0, pairs * h * kElement * (backward ? kMapPassesBackward : kMapPassesForward), 6);
    const double near = double(shard.nearPairs) * h * 4;
    return seconds(products + pairs * h * (backward ? kPairFlopsBackward : kPairFlopsForward) + near, 0, 2);
}

Shard CostModel::scaledShard(const Shard& shard, double rows, double keys) const
{
    const double factor = shard.rows > 0 ? rows / double(shard.rows) : 0;
    Shard out = shard;
    out.rows = int64_t(std::llround(rows));
    out.keys = int64_t(std::llround(keys));
    out.entries = int64_t(std::llround(double(shard.entries) * factor));
    out.nearPairs = int64_t(std::llround(double(shard.nearPairs) * factor));
    out.tiles = int64_t(std::llround(double(shard.tiles) * factor));
    return out;
}

double CostModel::blockSaved(const BlockQuery& query, const Shard& shard) const
{
    const double d = double(model_.width), f = double(model_.ffnWidth), h = double(model_.heads);
    const double rows = double(shard.rows), keys = double(shard.keys);
    if (model_.kind == Architecture::Sgformer)
        return rows * d * kElement * (8 * h + 6);
    double bytes = rows * (10 * d + 2 * f) * kElement + rows * h * 4;
    if (query.exchange == Exchange::Gather)
        bytes += 2 * (keys - rows) * d * kElement; // gathered keys and values are kept for backward
    if (attentionKind(model_) == AttentionKind::Dense && query.attention == AttentionPath::Materialised)
        bytes += (model_.attentionDropout > 0 ? 2 : 1) * rows * keys * h * kElement; // probabilities, and those kept by dropout
    return bytes;
}

double CostModel::blockPeak(const BlockQuery& query, const Shard& shard, bool backward) const
{
    const double d = double(model_.width), f = double(model_.ffnWidth), h = double(model_.heads);
    const double rows = double(shard.rows), keys = double(shard.keys);
    double bytes = rows * ((backward ? 8 : 4) * d + 2 * f) * kElement;
    if (attentionKind(model_) == AttentionKind::Dense) {
        const double atOnce = query.exchange == Exchange::Ring ? keys / double(query.shards.size()) : keys;
        bytes += (backward ? 12 : 8) * atOnce * d; // packed keys and values, dq splits
        if (query.exchange == Exchange::Ring)
            bytes += (backward ? 12 : 4) * atOnce * d * kElement;
        if (query.attention == AttentionPath::Materialised)
            bytes += rows * keys * h * kElement;
    }
    if (query.exchange == Exchange::Gather && backward)
        bytes += 4 * keys * d * kElement;
    return bytes;
}

Estimate CostModel::collective(const std::string& op, int64_t ranks, double bytes) const
{
    if (ranks <= 1 || bytes <= 0)
        return {};
    const auto found = links_.find(fmt::format("{}|{}", op, ranks));
    if (found != links_.end() && !found->second.empty()) {
        const Curve& curve = found->second;
        const Estimate e = estimateOf(curve.at(bytes), curve.originAt(bytes), 0.02, curve.leaveOneOut().second, curve.octavesOutside(bytes));
        return transferred_ ? withOrigin(e, Provenance::Transferred) : e;
    }
    double alpha = double(hardware_.links.front().alphaNs), perByte = 1e9 / double(hardware_.links.front().bytesPerS);
    Provenance origin = Provenance::Assumed;
    const auto ring = links_.find(fmt::format("ring|{}", ranks));
    if (ring != links_.end() && ring->second.size() >= 2) { // alpha and beta of a point-to-point transfer
        std::vector<double> rows, y;
        for (double size : {1024.0, 65536.0, 1048576.0}) {
            rows.insert(rows.end(), {1.0, size});
            y.push_back(ring->second.at(size));
        }
        const auto fit = relativeNnls(rows, y, 2);
        alpha = fit[0];
        perByte = fit[1];
        origin = transferred_ ? Provenance::Transferred : Provenance::Extrapolated;
    }
    const double g = double(ranks);
    const double time = op == "all_reduce" ? 2 * (g - 1) * alpha + 2 * (g - 1) / g * bytes * perByte
                                           : (g - 1) * alpha + (g - 1) / g * bytes * perByte;
    return estimateOf(time, origin, 0, 0.25, 1);
}

Estimate CostModel::ringHop(int64_t ranks, double bytes) const
{
    const auto found = links_.find(fmt::format("ring|{}", ranks));
    if (found != links_.end() && !found->second.empty()) {
        const Curve& curve = found->second;
        const Estimate e = estimateOf(curve.at(bytes), curve.originAt(bytes), 0.02, curve.leaveOneOut().second, curve.octavesOutside(bytes));
        return transferred_ ? withOrigin(e, Provenance::Transferred) : e;
    }
    const LinkSpec& link = hardware_.links.front();
    return estimateOf(double(link.alphaNs) + bytes * 1e9 / double(link.bytesPerS), Provenance::Assumed);
}

/// What a block adds to its compute for moving rows, from link prices alone (used where the whole block was not measured).
Estimate CostModel::exchangeTime(const BlockQuery& query, bool backward) const
{
    const auto ranks = int64_t(query.shards.size());
    if (ranks <= 1)
        return {};
    const double d = double(model_.width), keys = double(query.shards.front().keys);
    if (query.exchange == Exchange::Gather) {
        const double bytes = 2 * keys * d * kElement;
        return backward ? collective("reduce_scatter", ranks, bytes) : collective("all_gather", ranks, bytes);
    }
    if (query.exchange == Exchange::Reduce) {
        const double h = double(model_.heads), dh = double(headWidth(model_));
        return collective("all_reduce", ranks, 4 * (h * dh * dh + h * dh + 2));
    }
    // ring: each hop hides behind the attention of one key block; what is longer than that stays
    double compute = 0;
    for (const Shard& shard : query.shards)
        compute = std::max(compute, attentionNs(query, shard, backward));
    const double perHop = compute / double(ranks);
    const Estimate hop = ringHop(ranks, (backward ? 4 : 2) * keys / double(ranks) * d * kElement);
    const double exposed = double(ranks - 1) * std::max(0.0, double(hop.value) - perHop) + (backward ? double(hop.value) / 2 : 0);
    return estimateOf(exposed, hop.worst, 0, hop.halfWidth, 0);
}

/// Rows that the convolutions of SGFormer fetch, from link prices alone.
Estimate CostModel::convolutionTime(const BlockQuery& query, bool backward) const
{
    Estimate sum;
    if (model_.kind != Architecture::Sgformer || query.shards.size() < 2)
        return sum;
    const double bytes = double(query.shards.front().keys) * double(model_.width) * kElement;
    for (int64_t layer = 0; layer < model_.gcnLayers; ++layer)
        sum = sum + collective(backward ? "reduce_scatter" : "all_gather", int64_t(query.shards.size()), bytes);
    return sum;
}

/// Measured under this exchange on the whole sequence, else on as many rows as the widest rank has, else by formula.
LayerCost CostModel::plainLayer(const char* layer, const BlockQuery& query, const Formula& forward, const Formula& backward,
                                const Formula& saved, const Formula& peak) const
{
    const auto contexts = int64_t(query.shards.size());
    int64_t rows = 0;
    for (const Shard& shard : query.shards)
        rows = std::max(rows, shard.rows);
    const double keys = double(query.shards.front().keys);
    const auto key = [&](const char* exchange, const char* phase) { return fmt::format("layer|{}|none||{}|{}|", layer, exchange, phase); };
    LayerCost cost;
    const auto fill = [&](const Series& f, const Series& b, double n, double perToken, bool exact) {
        const auto scaled = [perToken](const Formula& formula) { return Formula([&formula, perToken](double t) { return formula(t * perToken); }); };
        cost.forward = passFrom(f, n, scaled(forward), 0);
        cost.backward = passFrom(b, n, scaled(backward), 0);
        if (!exact) {
            cost.forward.time = withOrigin(cost.forward.time, Provenance::Extrapolated);
            cost.backward.time = withOrigin(cost.backward.time, Provenance::Extrapolated);
        }
        cost.saved = fromSeries(f, n, scaled(saved), &Sample::saved);
        cost.forwardPeak = fromSeries(f, n, scaled(peak), &Sample::peak);
        cost.backwardPeak = fromSeries(b, n, scaled(peak), &Sample::peak);
    };
    if (contexts > 1 && keys > 0) {
        const Series* f = series(key(exchangeName(query.exchange), "forward") + std::to_string(contexts));
        const Series* b = series(key(exchangeName(query.exchange), "backward") + std::to_string(contexts));
        if (f && b) {
            fill(*f, *b, keys, double(rows) / keys, query.busy == contexts);
            return cost;
        }
    }
    bool exactF = false, exactB = false;
    const Series* f = nearestBusy(key("none", "forward"), query.busy, exactF);
    const Series* b = nearestBusy(key("none", "backward"), query.busy, exactB);
    if (f && b && rows > 0) {
        fill(*f, *b, double(rows), 1, exactF && exactB && contexts == 1);
    } else {
        const double n = double(rows);
        cost.forward.time = estimateOf(forward(n), Provenance::Assumed);
        cost.backward.time = estimateOf(backward(n), Provenance::Assumed);
        cost.saved = estimateOf(saved(n), Provenance::Assumed);
        cost.forwardPeak = estimateOf(peak(n), Provenance::Assumed);
        cost.backwardPeak = estimateOf(2 * peak(n), Provenance::Assumed);
    }
    if (std::string(layer) == "head" && contexts > 1)
        for (const bool back : {false, true}) {
            const Estimate moved = convolutionTime(query, back);
            PassCost& pass = back ? cost.backward : cost.forward;
            pass.time = pass.time + moved;
            pass.exchangeNs += moved.value;
        }
    return cost;
}

LayerCost CostModel::embed(const BlockQuery& query) const
{
    const double d = double(model_.width), width = double(dataset_.featureWidth);
    const double perRow = dataset_.featureKind == "sparse" && dataset_.nodes > 0
                              ? double(dataset_.featureNonzeros) / double(dataset_.nodes) : width;
    const Formula forward = [=, this](double n) { return seconds(2 * n * perRow * d, n * (perRow + 4 * d) * kElement, 10); };
    const Formula backward = [=, this](double n) { return seconds(2 * n * perRow * d, n * (perRow + 4 * d) * kElement, 12); };
    const Formula bytes = [=](double n) { return 3 * n * d * kElement; };
    return plainLayer("embed", query, forward, backward, bytes, bytes);
}

LayerCost CostModel::head(const BlockQuery& query) const
{
    const double d = double(model_.width), out = double(outputs_);
    double flops = 2 * d * out, traffic = 2 * d + 4 * out, kept = 2 * d + 3 * out, launches = 12;
    if (model_.kind == Architecture::Sgformer) { // the branch of convolutions
        const double perRow = dataset_.nodes > 0 ? double(dataset_.entries) / double(dataset_.nodes) : 0;
        flops += 2 * double(model_.gcnLayers) * (d * d + perRow * d) + 2 * double(dataset_.featureWidth) * d;
        traffic += double(model_.gcnLayers) * (perRow + 4) * d;
        kept += 2 * double(model_.gcnLayers) * d;
        launches += 8 * double(model_.gcnLayers);
    }
    const Formula forward = [=, this](double n) { return seconds(n * flops, n * traffic * kElement, launches); };
    const Formula backward = [=, this](double n) { return seconds(2 * n * flops, 2 * n * traffic * kElement, launches + 4); };
    const Formula bytes = [=](double n) { return n * kept * kElement; };
    return plainLayer("head", query, forward, backward, bytes, bytes);
}

namespace {

int64_t keysOf(const BlockQuery& query)
{
    return query.shards.front().keys;
}

} // namespace

/// The whole block as it was measured under this exchange; false when the profile has no such series.
bool CostModel::measuredBlock(const BlockQuery& query, const char* recompute, LayerCost& out) const
{
    const auto contexts = int64_t(query.shards.size());
    const std::string prefix = fmt::format("layer|block|{}|{}|{}|", recompute, attentionPathName(query.attention), exchangeName(query.exchange));
    bool exactF = false, exactB = false;
    const int64_t ranks = contexts > 1 ? contexts : query.busy;
    const Series* f = contexts > 1 ? series(prefix + fmt::format("forward|{}", ranks)) : nearestBusy(prefix + "forward|", ranks, exactF);
    const Series* b = contexts > 1 ? series(prefix + fmt::format("backward|{}", ranks)) : nearestBusy(prefix + "backward|", ranks, exactB);
    if (!f || !b || keysOf(query) <= 0)
        return false;
    const bool exact = contexts > 1 ? query.busy == contexts : exactF && exactB;
    const double n = double(keysOf(query));
    const auto slowest = [&](double tokens, const auto& cost) {
        double most = 0;
        for (const Shard& shard : query.shards)
            most = std::max(most, cost(scaledShard(shard, double(shard.rows) * tokens / n, tokens)));
        return most;
    };
    const auto pass = [&](bool backward) {
        return Formula([&, backward](double tokens) {
            return slowest(tokens, [&](const Shard& s) { return denseNs(double(s.rows), backward) + attentionNs(query, s, backward); });
        });
    };
    const auto share = [&](bool backward) {
        return slowest(n, [&](const Shard& s) { return attentionNs(query, s, backward); }) / std::max(1.0, pass(backward)(n));
    };
    out.forward = passFrom(*f, n, pass(false), share(false));
    out.backward = passFrom(*b, n, pass(true), share(true));
    if (!exact) {
        out.forward.time = withOrigin(out.forward.time, Provenance::Extrapolated);
        out.backward.time = withOrigin(out.backward.time, Provenance::Extrapolated);
    }
    out.saved = fromSeries(*f, n, [&](double t) { return slowest(t, [&](const Shard& s) { return blockSaved(query, s); }); }, &Sample::saved);
    out.forwardPeak = fromSeries(*f, n, [&](double t) { return slowest(t, [&](const Shard& s) { return blockPeak(query, s, false); }); }, &Sample::peak);
    out.backwardPeak = fromSeries(*b, n, [&](double t) { return slowest(t, [&](const Shard& s) { return blockPeak(query, s, true); }); }, &Sample::peak);
    return true;
}

/// Dense part and attention scaled by what was measured without an exchange, plus link prices.
LayerCost CostModel::blockFromParts(const BlockQuery& query) const
{
    BlockQuery alone = query;
    alone.exchange = Exchange::None;
    alone.shards = {scaledShard(query.shards.front(), double(keysOf(query)), double(keysOf(query)))};
    LayerCost whole;
    const bool calibrated = keysOf(query) > 0 && measuredBlock(alone, "none", whole);
    const Provenance origin = !calibrated ? Provenance::Assumed : transferred_ ? Provenance::Transferred : Provenance::Extrapolated;
    LayerCost cost;
    for (const bool backward : {false, true}) {
        PassCost& pass = backward ? cost.backward : cost.forward;
        const PassCost& known = backward ? whole.backward : whole.forward;
        double dense = 0, attention = 0;
        for (const Shard& shard : query.shards) {
            dense = std::max(dense, denseNs(double(shard.rows), backward));
            attention = std::max(attention, attentionNs(query, shard, backward));
        }
        if (calibrated) {
            const Shard& all = alone.shards.front();
            dense *= double(known.time.value - known.attentionNs) / std::max(1.0, denseNs(double(all.rows), backward));
            attention *= double(known.attentionNs) / std::max(1.0, attentionNs(alone, all, backward));
        }
        const Estimate exchange = exchangeTime(query, backward);
        pass.attentionNs = int64_t(std::llround(attention));
        pass.exchangeNs = exchange.value;
        pass.time = estimateOf(dense + attention, origin, 0, 0.1, 1) + exchange;
    }
    double saved = 0, forwardPeak = 0, backwardPeak = 0;
    for (const Shard& shard : query.shards) {
        saved = std::max(saved, blockSaved(query, shard));
        forwardPeak = std::max(forwardPeak, blockPeak(query, shard, false));
        backwardPeak = std::max(backwardPeak, blockPeak(query, shard, true));
    }
    const auto ratio = [&](const Estimate& known, double formula) {
        return calibrated && formula > 0 ? double(known.value) / formula : 1.0;
    };
    const Shard& all = alone.shards.front();
    cost.saved = estimateOf(saved * ratio(whole.saved, blockSaved(alone, all)), origin, 0, 0.1, 0);
    cost.forwardPeak = estimateOf(forwardPeak * ratio(whole.forwardPeak, blockPeak(alone, all, false)), origin, 0, 0.1, 0);
    cost.backwardPeak = estimateOf(backwardPeak * ratio(whole.backwardPeak, blockPeak(alone, all, true)), origin, 0, 0.1, 0);
    return cost;
}

LayerCost CostModel::blockWithout(const BlockQuery& query) const
{
    LayerCost cost;
    return measuredBlock(query, "none", cost) ? cost : blockFromParts(query);
}

LayerCost CostModel::block(const BlockQuery& query) const
{
    if (query.recompute == Recompute::None)
        return blockWithout(query);
    LayerCost cost;
    if (measuredBlock(query, "block", cost))
        return cost;
    // the forward pass keeps its input only; the backward pass runs it again with everything that it keeps
    const LayerCost once = blockWithout(query);
    cost = once;
    cost.forward.time = withOrigin(once.forward.time, Provenance::Interpolated);
    cost.backward.time = withOrigin(once.forward.time + once.backward.time, Provenance::Interpolated);
    cost.backward.attentionNs = once.forward.attentionNs + once.backward.attentionNs;
    cost.backward.exchangeNs = once.forward.exchangeNs + once.backward.exchangeNs;
    int64_t rows = 0;
    for (const Shard& shard : query.shards)
        rows = std::max(rows, shard.rows);
    const double input = double(rows) * double(model_.width) * kElement;
    const Provenance origin = std::max(once.saved.worst, Provenance::Interpolated);
    cost.saved = estimateOf(input, origin);
    cost.forwardPeak = withOrigin(once.saved + once.forwardPeak, origin);
    cost.backwardPeak = withOrigin(once.saved + larger(once.forwardPeak, once.backwardPeak), origin);
    return cost;
}

double CostModel::workShare(const BlockQuery& query, size_t context) const
{
    double most = 0, own = 0;
    for (size_t c = 0; c < query.shards.size(); ++c) {
        const double work = denseNs(double(query.shards[c].rows), false) + attentionNs(query, query.shards[c], false);
        most = std::max(most, work);
        own = c == context ? work : own;
    }
    return most > 0 ? own / most : 1;
}

Estimate CostModel::update(int64_t parameters, int64_t busy) const
{
    const Formula formula = [this](double n) { return seconds(12 * n, 28 * n, double(layout_.size()) * 3); };
    bool exact = false;
    const Series* known = nearestBusy("optimizer|", busy, exact);
    if (!known)
        return estimateOf(formula(double(parameters)), Provenance::Assumed);
    const Estimate e = fromSeries(*known, double(parameters), formula, &Sample::ns);
    return exact ? e : withOrigin(e, Provenance::Extrapolated);
}

Estimate CostModel::host(int64_t busy) const
{
    bool exact = false;
    const Series* known = nearestBusy("host|", busy, exact);
    if (!known)
        return estimateOf(50.0 * double(hardware_.launchNs), Provenance::Assumed);
    const Estimate e = fromSeries(*known, 1, [](double) { return 1.0; }, &Sample::ns);
    return exact ? e : withOrigin(e, Provenance::Extrapolated);
}

Estimate CostModel::base() const
{
    const auto found = constants_.find("process_base_bytes");
    if (found != constants_.end() && found->second > 0)
        return estimateOf(found->second, transferred_ ? Provenance::Transferred : Provenance::Measured);
    return estimateOf(double(hardware_.contextBytes), Provenance::Assumed);
}

Estimate CostModel::sequenceBytes(const Shard& shard, AttentionPath attention, BiasPolicy bias, Exchange exchange, int64_t contextRanks,
                                  int64_t busy) const
{
    const bool fusedDense = attentionKind(model_) == AttentionKind::Dense && attention == AttentionPath::Fused;
    const BiasPolicy profiled = usualBiasPolicy(model_.hops);
    const auto structure = [&](BiasPolicy policy, const Shard& s) {
        switch (policy) {
        case BiasPolicy::Lists: return listBytesEstimate(s.rows, s.keys, s.nearPairs, s.tiles);
        case BiasPolicy::Planes: return planeBytes(s.rows, s.keys, model_.hops);
        case BiasPolicy::Strips: return stripBytes(s.keys, model_.hops) + 8 * (s.keys + 1) + 4 * dataset_.entries;
        }
        return int64_t(0);
    };
    const double perRow = dataset_.nodes > 0 ? double(dataset_.featureNonzeros) / double(dataset_.nodes) : 0;
    const Formula formula = [&](double n) {
        const Shard s = scaledShard(shard, double(shard.rows) * n / std::max(1.0, double(shard.keys)), n);
        const double rows = double(s.rows), keys = double(s.keys);
        double bytes = rows * 24 + (dataset_.featureKind == "sparse" ? rows * (perRow * 12 + 8) : rows * double(dataset_.featureWidth) * 4);
        if (fusedDense)
            bytes += double(structure(profiled, s)) + 4 * keys;
        else if (attentionKind(model_) == AttentionKind::Dense)
            bytes += rows * keys; // one class code per pair
        else
            bytes += 8 * (rows + keys) + 16 * double(s.entries);
        return bytes;
    };
    const double n = double(shard.keys);
    const auto key = fmt::format("memory|sequence|{}|{}|{}", attentionPathName(attention), exchangeName(exchange),
                                 contextRanks > 1 ? contextRanks : busy);
    const Series* known = series(key);
    if (!known && contextRanks == 1)
        known = series(fmt::format("memory|sequence|{}|{}|1", attentionPathName(attention), exchangeName(exchange)));
    Estimate bytes = known ? fromSeries(*known, n, formula, &Sample::saved) : estimateOf(formula(n), Provenance::Assumed);
    if (fusedDense && bias != profiled) // what another policy keeps in its place follows from the shapes
        bytes.value = std::max<int64_t>(0, bytes.value - structure(profiled, shard)) + structure(bias, shard);
    return bytes;
}

} // namespace megagraph::planner
