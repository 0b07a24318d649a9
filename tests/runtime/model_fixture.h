// SPDX-License-Identifier: Apache-2.0
// What tests of the models share: a small graph with several components and isolated nodes as a canonical data set, plans on
// it, runs of one pass on one or several real Gloo ranks (one thread each), and the measure of sameness.
#pragma once

#include "core/io/import.h"
#include "core/places.h"
#include "core/random.h"
#include "runtime/comm.h"
#include "runtime/pch.h"
#include "runtime/sequence.h"

#include <filesystem>
#include <gtest/gtest.h>
#include <map>
#include <thread>

namespace megagraph::test {

using runtime::GraphModel;

inline constexpr int64_t kNodes = 151, kWide = 40;

class GraphHome {
  public:
    /// Nodes 0..99 random and sparse, 100..139 a ring, 140..149 a clique, 150 isolated.
    explicit GraphHome(bool denseFeatures)
    {
        char name[] = "/tmp/megagraph-model-XXXXXX";
        path_ = ::mkdtemp(name);
        RawGraph graph;
        graph.format = "generated";
        graph.nodes = kNodes;
        const auto edge = [&](int64_t a, int64_t b) { graph.sources.push_back(int32_t(a)), graph.targets.push_back(int32_t(b)); };
        for (uint64_t e = 0; e < 170; ++e)
            if (const uint64_t a = drawBelow(5, 1, e, 100), b = drawBelow(5, 2, e, 100); a != b)
                edge(int64_t(a), int64_t(b));
        for (int64_t v = 0; v < 40; ++v)
            edge(100 + v, 100 + (v + 1) % 40);
        for (int64_t a = 140; a < 150; ++a)
            for (int64_t b = a + 1; b < 150; ++b)
                edge(a, b);
        graph.features = FeatureTable(kNodes, kWide);
        for (int64_t i = 0; i < kNodes; ++i) {
            std::vector<float> row(kWide, 0.0f);
            for (int64_t f = 0; f < kWide; ++f)
                if (denseFeatures || drawBelow(5, 3, uint64_t(i * kWide + f), 6) == 0)
                    row[size_t(f)] = float(0.5 + drawUniform(5, 4, uint64_t(i * kWide + f)));
            graph.features.addRow(row);
        }
        graph.hasFeatures = true;
        graph.labels.present = true;
        for (int64_t i = 0; i < kNodes; ++i)
            graph.labels.numbers.push_back(double(i % 3));
        ImportOptions options;
        options.name = "small";
        options.split = "random:60/20/20:0";
        auto stored = storeGraph(std::move(graph), ImportRun{options, {}, {}}, path_);
        EXPECT_TRUE(stored.ok()) << (stored.ok() ? "" : stored.error().message);
        auto opened = Dataset::open(datasetFolder(path_, "small"));
        EXPECT_TRUE(opened.ok()) << (opened.ok() ? "" : opened.error().message);
        data_ = std::make_unique<Dataset>(std::move(*opened));
    }
    ~GraphHome() { std::filesystem::remove_all(path_); }
    const std::string& path() const { return path_; }
    const Dataset& data() const { return *data_; }

  private:
    std::string path_;
    std::unique_ptr<Dataset> data_;
};

inline Plan planOf(const ModelSpec& model, int64_t context = 1, Exchange exchange = Exchange::None, std::vector<int64_t> cuts = {})
{
    Plan plan;
    plan.model = model;
    StagePlan stage;
    stage.lastLayer = model.blocks + 2;
    stage.ring = context;
    stage.exchange = exchange;
    stage.cuts = std::move(cuts);
    for (int64_t d = 0; d < context; ++d)
        stage.devices.push_back(d);
    plan.stages.push_back(stage);
    return plan;
}

inline ModelSpec smallModel(Architecture kind)
{
    ModelSpec m;
    m.name = "small";
    m.kind = kind;
    m.blocks = 2;
    m.width = 16, m.ffnWidth = 24, m.heads = kind == Architecture::Sgformer ? 1 : 2;
    m.hops = 2;
    m.inputDropout = 0.3, m.attentionDropout = 0.2, m.ffnDropout = 0.1, m.residualDropout = 0.25, m.gcnDropout = 0.4;
    return m;
}

/// Logits by data set id, gradients by parameter name; summed over ranks.
struct Outcome {
    at::Tensor logits;
    std::map<std::string, at::Tensor> gradients;
    int64_t bytesSent = 0;
};

/// Fixed cotangent: loss = sum over own nodes of logits * cotangent(id, column).
inline at::Tensor cotangent(const std::vector<int32_t>& ids, int64_t columns)
{
    at::Tensor out = at::empty({int64_t(ids.size()), columns}, at::kFloat);
    for (size_t i = 0; i < ids.size(); ++i)
        for (int64_t c = 0; c < columns; ++c)
            out.data_ptr<float>()[int64_t(i) * columns + c] = float(drawUniform(9, 9, uint64_t(ids[i]) * 16 + uint64_t(c)) - 0.4);
    return out;
}

inline Outcome runRank(const Plan& plan, const GraphHome& home, runtime::Communicator& context, int64_t threads, bool training = true)
{
    const auto set = runtime::makeSequences(plan, home.data(), home.path(), context.rank(), threads);
    const auto model = runtime::makeModel(plan, home.data().spec(), 7, threads);
    runtime::PassContext pass;
    pass.seed = 7, pass.step = 3;
    pass.training = training;
    pass.context = &context;
    const runtime::Sequence& sequence = *set.sequences.at(0);
    const at::Tensor logits = model->forward(sequence, pass);
    (logits * cotangent(sequence.originalIds(), logits.size(1))).sum().backward();
    Outcome out;
    out.logits = at::zeros({home.data().nodes(), logits.size(1)});
    for (size_t i = 0; i < sequence.originalIds().size(); ++i)
        out.logits[sequence.originalIds()[i]] = logits[int64_t(i)].detach();
    for (size_t p = 0; p < model->layout().size(); ++p) {
        const at::Tensor& gradient = model->parameters()[p].grad();
        EXPECT_TRUE(gradient.defined()) << model->layout()[p].name << " has no gradient on rank " << context.rank();
        out.gradients[model->layout()[p].name] = gradient.defined() ? gradient.clone() : at::zeros(model->layout()[p].shape);
    }
    out.bytesSent = context.bytesSent();
    return out;
}

inline Outcome runSerial(const Plan& plan, const GraphHome& home, int64_t threads = 1, bool training = true)
{
    return runRank(plan, home, *runtime::soloCommunicator(), threads, training);
}

/// One thread per rank, joined by Gloo over loopback.
inline std::vector<Outcome> runRanks(const Plan& plan, const GraphHome& home)
{
    static int runs = 0;
    runtime::makeSequences(plan, home.data(), home.path(), 0, 1); // caches the token order: METIS is not safe in many threads
    const std::string store = home.path() + "/store" + std::to_string(runs++);
    std::vector<Outcome> outcomes(size_t(plan.world()));
    std::vector<std::string> errors(outcomes.size());
    {
        std::vector<std::jthread> ranks;
        for (size_t r = 0; r < outcomes.size(); ++r)
            ranks.emplace_back([&, r] {
                try {
                    const auto groups = runtime::makeGroups(plan, int64_t(r), store, 60);
                    outcomes[r] = runRank(plan, home, *groups.context, 1);
                    groups.leaveTogether();
                } catch (const std::exception& error) {
                    errors[r] = error.what();
                }
            });
    }
    for (size_t r = 0; r < errors.size(); ++r)
        EXPECT_EQ(errors[r], "") << "rank " << r;
    return outcomes;
}

inline Outcome summed(const std::vector<Outcome>& outcomes)
{
    Outcome sum = outcomes.at(0);
    for (size_t r = 1; r < outcomes.size(); ++r) {
        sum.logits = sum.logits + outcomes[r].logits;
        for (auto& [name, gradient] : sum.gradients)
            gradient = gradient + outcomes[r].gradients.at(name);
    }
    return sum;
}

/// ||a - b|| / max(||b||, floor * norm of all gradients of b), as `verify` measures.
inline void expectSame(const Outcome& got, const Outcome& expected, double logitLimit, double gradientLimit, const std::string& what)
{
    const auto norm = [](const at::Tensor& t) { return t.to(at::kDouble).norm().item<double>(); };
    const double logits = norm(got.logits - expected.logits) / norm(expected.logits);
    EXPECT_LE(logits, logitLimit) << what << ": logits";
    double all = 0, worst = 0;
    for (const auto& [name, gradient] : expected.gradients)
        all += norm(gradient) * norm(gradient);
    for (const auto& [name, gradient] : expected.gradients) {
        const double difference = norm(got.gradients.at(name).to(at::kDouble) - gradient.to(at::kDouble)) /
                                  std::max(norm(gradient), 1e-3 * std::sqrt(all));
        EXPECT_LE(difference, gradientLimit) << what << ": gradient of " << name;
        worst = std::max(worst, difference);
    }
    std::printf("  %-44s logits %.1e  gradients %.1e\n", what.c_str(), logits, worst);
}

inline void expectEqualBits(const Outcome& a, const Outcome& b, const std::string& what)
{
    EXPECT_TRUE(at::equal(a.logits, b.logits)) << what << ": logits";
    for (const auto& [name, gradient] : a.gradients)
        EXPECT_TRUE(at::equal(gradient, b.gradients.at(name))) << what << ": gradient of " << name;
}

} // namespace megagraph::test
