// SPDX-License-Identifier: Apache-2.0
#include "core/model_layout.h"

#include <gtest/gtest.h>
#include <set>

namespace megagraph {
namespace {

DatasetSpec coraCounts()
{
    DatasetSpec d;
    d.name = "cora";
    d.nodes = 2708;
    d.featureWidth = 1433;
    d.featureKind = "sparse";
    d.taskKind = "classification";
    d.tasks = 1;
    d.classes = {"0", "1", "2", "3", "4", "5", "6"};
    return d;
}

std::vector<ParameterSpec> layoutOf(const ModelSpec& model, const DatasetSpec& dataset)
{
    const auto layout = modelLayout(model, dataset);
    EXPECT_TRUE(layout.ok()) << (layout.ok() ? "" : layout.error().message);
    return layout.ok() ? layout.value() : std::vector<ParameterSpec>{};
}

const ParameterSpec* find(const std::vector<ParameterSpec>& layout, const std::string& name)
{
    for (const auto& spec : layout)
        if (spec.name == name)
            return &spec;
    return nullptr;
}

TEST(ModelLayout, CountsOfGraphormerOnCoraEqualTheFormula)
{
    ModelSpec m; // 2 / 64 / 64 / 8, K 3, degree, pre-norm
    const int64_t d = 64, f = 64, features = 1433, classes = 7;
    const int64_t embed = d * features + d + 2 * 512 * d;
    const int64_t block = 4 * (d * d + d) + 2 * 2 * d + (f * d + f) + (d * f + d);
    const int64_t head = 2 * d + classes * d + classes;
    EXPECT_EQ(parameterCount(layoutOf(m, coraCounts())), embed + 8 * 7 + 2 * block + head);
    m.graphToken = true;
    EXPECT_EQ(parameterCount(layoutOf(m, coraCounts())), embed + d + 8 * 7 + 2 * block + head);
    m.norm = NormPlace::Post;
    EXPECT_EQ(parameterCount(layoutOf(m, coraCounts())), embed + d + 8 * 7 + 2 * block + head - 2 * d);
}

TEST(ModelLayout, CountsOfSgformerAndSparseGtEqualTheFormula)
{
    ModelSpec s;
    s.kind = Architecture::Sgformer;
    s.blocks = 1, s.heads = 1;
    const int64_t d = 64;
    EXPECT_EQ(parameterCount(layoutOf(s, coraCounts())),
              (d * 1433 + d) + 2 * d + 3 * (d * d + d) + 2 * d + (d * 1433 + d) + (d * d + d) + 7 * d + 7);
    ModelSpec g;
    g.kind = Architecture::GtSparse;
    g.blocks = 5;
    const int64_t block = 6 * (d * d + d) + 4 * d;
    EXPECT_EQ(parameterCount(layoutOf(g, coraCounts())), (d * 1433 + d) + 5 * block + 2 * d + 7 * d + 7);
    g.selfLoops = false; // [own ; message]
    EXPECT_EQ(parameterCount(layoutOf(g, coraCounts())), (d * 1433 + d) + 5 * (block + d * d) + 2 * d + 7 * d + 7);
}

TEST(ModelLayout, NamesAreUniqueAndLayersAscend)
{
    for (const Architecture kind : {Architecture::Graphormer, Architecture::GtSparse, Architecture::Sgformer}) {
        ModelSpec m;
        m.kind = kind;
        const auto layout = layoutOf(m, coraCounts());
        std::set<std::string> names;
        int64_t layer = 0;
        for (const auto& spec : layout) {
            EXPECT_TRUE(names.insert(spec.name).second) << spec.name;
            EXPECT_GE(spec.layer, layer) << spec.name;
            layer = spec.layer;
            EXPECT_GT(spec.elements(), 0) << spec.name;
        }
        EXPECT_EQ(layer, m.blocks + 1);
    }
}

TEST(ModelLayout, DecayTableScalesQueryAndKeyAlone)
{
    ModelSpec m;
    auto layout = layoutOf(m, coraCounts());
    EXPECT_EQ(find(layout, "block0.attention.query.weight")->init, InitKind::LinearUniformScaled);
    EXPECT_DOUBLE_EQ(find(layout, "block0.attention.key.weight")->initScale, 0.1);
    EXPECT_EQ(find(layout, "block0.attention.value.weight")->init, InitKind::LinearUniform);
    EXPECT_EQ(find(layout, "bias_table")->init, InitKind::DecayTable);
    EXPECT_TRUE(find(layout, "bias_table")->tied);
    m.tableInit = TableInit::Normal;
    layout = layoutOf(m, coraCounts());
    EXPECT_EQ(find(layout, "block0.attention.query.weight")->init, InitKind::LinearUniform);
    EXPECT_EQ(find(layout, "bias_table")->init, InitKind::Normal);
}

TEST(ModelLayout, DecayIsOffOnBiasesNormsTablesAndToken)
{
    ModelSpec m;
    m.graphToken = true;
    for (const auto& spec : layoutOf(m, coraCounts())) {
        const bool matrix = spec.shape.size() == 2 && !spec.tied;
        EXPECT_EQ(spec.decayed, matrix) << spec.name;
    }
}

TEST(ModelLayout, SgformerUnderL2DecaysEveryParameter)
{
    ModelSpec m;
    m.kind = Architecture::Sgformer;
    m.blocks = m.heads = 1;
    const auto undecayed = [&] {
        int count = 0;
        for (const auto& spec : layoutOf(m, coraCounts()))
            count += !spec.decayed;
        return count;
    };
    EXPECT_EQ(undecayed(), 11); // 7 biases of Linear layers and convolutions, 2 norms of 2 vectors
    m.l2 = true;
    EXPECT_EQ(undecayed(), 0);
}

TEST(ModelLayout, OutputWidthIsOneForTwoClassesUnderBce)
{
    DatasetSpec d = coraCounts();
    d.classes = {"no", "yes"};
    ModelSpec m;
    EXPECT_EQ(outputWidth(m, d), 2);
    m.loss = Loss::Bce;
    EXPECT_EQ(outputWidth(m, d), 1);
    d.taskKind = "regression";
    d.tasks = 3;
    EXPECT_EQ(outputWidth(m, d), 3);
}

TEST(ModelLayout, RefusesWhatTheModelCannotBe)
{
    ModelSpec m;
    m.heads = 7;
    auto result = modelLayout(m, coraCounts());
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code, ErrorCode::InvalidInput);
    EXPECT_NE(result.error().message.find("7 heads for width 64"), std::string::npos) << result.error().message;

    DatasetSpec unlabelled = coraCounts();
    unlabelled.taskKind = "none";
    result = modelLayout(ModelSpec{}, unlabelled);
    ASSERT_FALSE(result.ok());
    EXPECT_NE(result.error().message.find("cora"), std::string::npos);

    DatasetSpec graphLevel = coraCounts();
    graphLevel.taskLevel = "graph";
    result = modelLayout(ModelSpec{}, graphLevel);
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code, ErrorCode::Unsupported);
}

TEST(ModelLayout, RefusesALossThatTheLabelsCannotFeed)
{
    const auto message = [](Loss loss, Metric metric, const DatasetSpec& dataset) {
        ModelSpec m;
        m.loss = loss;
        m.metric = metric;
        const auto result = modelLayout(m, dataset);
        return result.ok() ? std::string() : result.error().message;
    };
    DatasetSpec d = coraCounts();
    EXPECT_EQ(message(Loss::CrossEntropy, Metric::Accuracy, d), "");
    EXPECT_NE(message(Loss::Bce, Metric::Auc, d).find("cora has 7 classes; set loss=cross_entropy and metric=accuracy"), std::string::npos)
        << message(Loss::Bce, Metric::Auc, d);
    EXPECT_NE(message(Loss::L1, Metric::Mae, d), "");
    d.classes = {"no", "yes"};
    EXPECT_EQ(message(Loss::Bce, Metric::Auc, d), "");
    EXPECT_EQ(message(Loss::CrossEntropy, Metric::Auc, d), "");
    d.taskKind = "regression";
    EXPECT_EQ(message(Loss::Mse, Metric::Rmse, d), "");
    EXPECT_NE(message(Loss::CrossEntropy, Metric::Accuracy, d).find("set loss=l1"), std::string::npos);
    d.taskKind = "binary";
    EXPECT_EQ(message(Loss::Bce, Metric::Auc, d), "");
    EXPECT_NE(message(Loss::Mse, Metric::Mae, d), "");
}

} // namespace
} // namespace megagraph
