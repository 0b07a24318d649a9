// SPDX-License-Identifier: Apache-2.0
#include "core/cluster_spec.h"
#include "core/dataset_spec.h"
#include "core/graph_stats.h"
#include "core/model_spec.h"
#include "core/plan.h"
#include "core/profile.h"
#include "core/run_spec.h"

#include <filesystem>
#include <functional>
#include <gtest/gtest.h>
#include <set>

using namespace megagraph;

namespace {

const std::string kGood = std::string(MEGAGRAPH_TEST_DATA) + "/good/";
const std::string kBad = std::string(MEGAGRAPH_TEST_DATA) + "/bad/";
const std::string kResources = std::string(MEGAGRAPH_SOURCE_DIR) + "/resources";

/// Reads with the reader of `document` and writes again.
Result<Json> reread(const std::string& document, const Json& value, const std::string& file)
{
    const auto again = [](auto spec, auto write) -> Result<Json> {
        if (!spec)
            return spec.error();
        return write(*spec);
    };
    if (document == "model") return again(modelFromJson(value, file), modelToJson);
    if (document == "cluster") return again(clusterFromJson(value, file), clusterToJson);
    if (document == "constraints") return again(constraintsFromJson(value, file), constraintsToJson);
    if (document == "dataset") return again(datasetFromJson(value, file), datasetToJson);
    if (document == "plan") return again(planFromJson(value, file), planToJson);
    if (document == "profile") return again(profileFromJson(value, file), profileToJson);
    if (document == "run") return again(runFromJson(value, file), runToJson);
    if (document == "project") return again(projectFromJson(value, file), projectToJson);
    return Error{ErrorCode::Internal, "no reader for " + document};
}

Plan goodPlan()
{
    return *planFromJson(*readJsonFile(kGood + "plan.json"), "plan.json");
}

ModelSpec goodModel()
{
    return *modelFromJson(*readJsonFile(kGood + "model.json"), "model.json");
}

/// Every leaf key of an object, at any depth, with its owner's path.
void leafKeys(const Json& value, std::vector<std::string>& out)
{
    for (const auto& [key, item] : value.items()) {
        if (item.is_object())
            leafKeys(item, out);
        else
            out.push_back(key);
    }
}

struct BadDocument { const char* name; const char* document; ErrorCode code; std::vector<std::string> holds; };

const std::vector<BadDocument>& badDocuments()
{
    static const std::vector<BadDocument> rows{
    // Faults of tests/data/bad: file, reader, code, then what the message must hold (path, value, rule).
        {"model_width_negative", "model", ErrorCode::InvalidInput, {"architecture.width", "-3", "an integer from 1 to 65536"}},
        {"model_width_fraction", "model", ErrorCode::InvalidInput, {"architecture.width", "64.5", "an integer"}},
        {"model_key_misspelt", "model", ErrorCode::InvalidInput, {"optimizer.learning_rate", "missing key", "lerning_rate"}},
        {"model_key_unknown", "model", ErrorCode::InvalidInput, {"training.stepz", "unknown key", "did you mean \"steps\""}},
        {"model_heads_do_not_divide", "model", ErrorCode::InvalidInput, {"architecture.heads", "got 7", "a divisor of 64"}},
        {"model_dropout_is_one", "model", ErrorCode::InvalidInput, {"dropout.input_dropout", "1.0", "a number from 0 to 0.999"}},
        {"model_kind_unknown", "model", ErrorCode::InvalidInput, {"architecture.kind", "graformer", "did you mean \"graphormer\""}},
        {"model_metric_does_not_fit", "model", ErrorCode::InvalidInput, {"training.metric", "mae", "accuracy or auc"}},
        {"model_newer_version", "model", ErrorCode::VersionMismatch, {"version", "got 2", "expected 1"}},
        {"model_other_format", "model", ErrorCode::InvalidInput, {"format", "megagraph.plan", "megagraph.model"}},
        {"model_flag_as_number", "model", ErrorCode::InvalidInput, {"optimizer.l2", "got 0", "true or false"}},
        {"cluster_without_devices", "cluster", ErrorCode::InvalidInput, {"nodes", "got 0", "at least 1"}},
        {"cluster_core_twice", "cluster", ErrorCode::InvalidInput, {"nodes[0].devices", "core 0", "\"shared\": true"}},
        {"cluster_memory_too_small", "cluster", ErrorCode::InvalidInput, {"nodes[0].devices[1].memory_bytes", "100", "an integer from 1048576"}},
        {"cluster_device_kind", "cluster", ErrorCode::InvalidInput, {"nodes[0].devices[0].kind", "tpu", "\"cpu_slot\", \"gpu\""}},
        {"cluster_link_speed_zero", "cluster", ErrorCode::InvalidInput, {"links[0].bytes_per_s", "got 0", "an integer from 1"}},
        {"constraints_value_unknown", "constraints", ErrorCode::InvalidInput, {"allow.exchange", "rings", "one of none, ring"}},
        {"constraints_knob_unknown", "constraints", ErrorCode::InvalidInput, {"allow.exchnge", "unknown key", "did you mean \"exchange\""}},
        {"constraints_share_above_limit", "constraints", ErrorCode::InvalidInput, {"kept_free_share", "1.5", "a number from 0 to 0.9"}},
        {"constraints_allows_nothing", "constraints", ErrorCode::InvalidInput, {"allow.ring", "[]", "at least one value"}},
        {"dataset_absolute_path", "dataset", ErrorCode::InvalidInput, {"arrays[0].file", "/etc/passwd", "a relative path"}},
        {"dataset_path_climbs_out", "dataset", ErrorCode::InvalidInput, {"splits[0].file", "splits/../../x.npy", "a relative path"}},
        {"dataset_nodes_zero", "dataset", ErrorCode::InvalidInput, {"counts.nodes", "got 0", "an integer from 1"}},
        {"dataset_dtype_unknown", "dataset", ErrorCode::InvalidInput, {"arrays[0].dtype", "<q9", "one of"}},
        {"dataset_shape_negative", "dataset", ErrorCode::InvalidInput, {"arrays[0].shape", "-1", "extents from 0"}},
        {"plan_ring_zero", "plan", ErrorCode::InvalidInput, {"stages[0].ring", "got 0", "an integer from 1 to 4096"}},
        {"plan_exchange_unknown", "plan", ErrorCode::InvalidInput, {"stages[0].exchange", "rong", "did you mean \"ring\""}},
        {"plan_cuts_fall", "plan", ErrorCode::InvalidInput, {"stages[0].cuts[2]", "1500", "never fall"}},
        {"plan_layers_backwards", "plan", ErrorCode::InvalidInput, {"stages[0].layers", "[4, 0]", "first < last"}},
        {"plan_zero_level", "plan", ErrorCode::InvalidInput, {"stages[0].zero", "got 4", "0, 1, 2, 3 or \"hsdp\""}},
        {"plan_without_stages", "plan", ErrorCode::InvalidInput, {"stages", "got 0", "at least 1"}},
        {"plan_carries_command", "plan", ErrorCode::InvalidInput, {"command", "rm -rf /", "unknown key"}},
        {"plan_model_inside_is_bad", "plan", ErrorCode::InvalidInput, {"model.architecture.blocks", "got 0", "an integer from 1 to 1024"}},
        {"plan_dataset_is_a_path", "plan", ErrorCode::InvalidInput, {"dataset.name", "../secret", "without slashes"}},
        {"plan_category_missing", "plan", ErrorCode::InvalidInput, {"prediction.ranks[0].categories.base", "missing key", "an integer"}},
        {"profile_median_wrong", "profile", ErrorCode::InvalidInput, {"points[0].median_ns", "got 5", "expected 1200000"}},
        {"profile_kind_unknown", "profile", ErrorCode::InvalidInput, {"points[0].kind", "layr", "did you mean \"layer\""}},
        {"profile_size_is_text", "profile", ErrorCode::InvalidInput, {"points[0].x.n", "many", "a number"}},
        {"profile_host_name", "profile", ErrorCode::InvalidInput, {"fingerprint.host", "node7", "unknown key"}},
        {"run_id_climbs_out", "run", ErrorCode::InvalidInput, {"id", "../../etc", "letters, digits"}},
        {"run_seed_negative", "run", ErrorCode::InvalidInput, {"seed", "-1", "an integer from 0"}},
        {"run_verify_role", "run", ErrorCode::InvalidInput, {"verify.role", "judge", "\"serial\", \"plan\""}},
        {"run_job_repeats_zero", "run", ErrorCode::InvalidInput, {"profile.jobs[0].repeats", "got 0", "an integer from 1"}},
        {"project_active_cluster", "project", ErrorCode::InvalidInput, {"active_cluster", "got 3", "an integer from 0 to 0"}},
        {"project_plans_not_a_list", "project", ErrorCode::InvalidInput, {"plans", "\"plan.json\"", "an array of strings"}},
        {"not_json_trailing_comma", "model", ErrorCode::InvalidInput, {"line 2", "column", "not JSON"}},
        {"not_json_cut_off", "model", ErrorCode::InvalidInput, {"line 1", "not JSON"}},
        {"key_twice", "model", ErrorCode::InvalidInput, {"\"format\"", "occurs twice", "expected once"}},
        {"nested_too_deeply", "model", ErrorCode::InvalidInput, {"line 1, column 33", "nested too deeply", "32 levels"}},
        {"not_an_object", "model", ErrorCode::InvalidInput, {"wrong type", "[1,2]", "an object"}},
    };
    return rows;
}

} // namespace

class GoodDocument : public testing::TestWithParam<const char*> {};

TEST_P(GoodDocument, RoundTripsWithTheSameCanonicalText)
{
    const std::string file = kGood + GetParam() + ".json";
    const auto value = readJsonFile(file);
    ASSERT_TRUE(value.ok()) << value.error().message;
    const auto again = reread(GetParam(), *value, file);
    ASSERT_TRUE(again.ok()) << again.error().message;
    EXPECT_EQ(canonicalText(*again), canonicalText(*value));
}

TEST_P(GoodDocument, EveryKeyIsRequiredUnlessPlainlyOptional)
{
    static const std::set<std::string> optional{"note", "published", "prediction"};
    const auto value = readJsonFile(kGood + GetParam() + ".json");
    ASSERT_TRUE(value.ok());
    for (const auto& [key, item] : value->items()) {
        Json without = *value;
        without.erase(key);
        EXPECT_EQ(reread(GetParam(), without, "t.json").ok(), optional.contains(key)) << key;
    }
}

TEST_P(GoodDocument, RefusesAnUnknownKeyAtEveryDepth)
{
    const auto value = readJsonFile(kGood + GetParam() + ".json");
    ASSERT_TRUE(value.ok());
    std::function<void(Json&, const std::string&)> walk = [&](Json& at, const std::string& path) {
        if (at.is_object() && !path.ends_with("/key") && !path.ends_with("/x")) {
            at["zzz_unknown"] = 1;
            EXPECT_FALSE(reread(GetParam(), *value, "t.json").ok()) << path;
            at.erase("zzz_unknown");
        }
        if (at.is_structured())
            for (auto& [key, item] : at.items())
                walk(item, path + "/" + key);
    };
    walk(const_cast<Json&>(*value), "");
}

INSTANTIATE_TEST_SUITE_P(Golden, GoodDocument,
                         testing::Values("model", "cluster", "constraints", "dataset", "plan", "profile", "run", "project"),
                         [](const auto& info) { return std::string(info.param); });

TEST(BadDocuments, EachFaultNamesPathValueAndRule)
{
    for (const BadDocument& row : badDocuments()) {
        const std::string file = kBad + row.name + ".json";
        const auto value = readJsonFile(file);
        const auto again = value ? reread(row.document, *value, file) : Result<Json>(value.error());
        ASSERT_FALSE(again.ok()) << row.name;
        EXPECT_EQ(again.error().code, row.code) << row.name;
        EXPECT_TRUE(again.error().message.starts_with(file)) << again.error().message;
        for (const std::string& part : row.holds)
            EXPECT_NE(again.error().message.find(part), std::string::npos) << row.name << ": " << again.error().message;
    }
}

TEST(BadDocuments, EveryFileOfTheFolderIsListed)
{
    std::set<std::string> listed;
    for (const BadDocument& row : badDocuments())
        listed.insert(std::string(row.name) + ".json");
    for (const auto& entry : std::filesystem::directory_iterator(kBad))
        EXPECT_TRUE(listed.contains(entry.path().filename().string())) << entry.path();
}

TEST(Model, LeafKeysAreUnique)
{
    std::vector<std::string> keys;
    leafKeys(modelToJson(goodModel()), keys);
    EXPECT_EQ(std::set<std::string>(keys.begin(), keys.end()).size(), keys.size());
}

TEST(Model, EveryLeafKeyCanBeSetToItsOwnValue)
{
    const ModelSpec model = goodModel();
    const Json value = modelToJson(model);
    for (const char* section : {"architecture", "encodings", "sgformer", "sparse", "dropout", "optimizer", "schedule", "training"})
        for (const auto& [key, item] : value[section].items()) {
            const std::string text = item.is_string() ? item.get<std::string>() : item.dump();
            const auto changed = setModelValue(model, key + "=" + text, false);
            ASSERT_TRUE(changed.ok()) << changed.error().message;
            EXPECT_EQ(canonicalText(modelToJson(*changed)), canonicalText(value));
        }
}

TEST(Model, SetChangesOneKeyOfEachType)
{
    const ModelSpec model = goodModel();
    EXPECT_EQ(setModelValue(model, "steps=7", false)->steps, 7);
    EXPECT_EQ(setModelValue(model, "learning_rate=1e-4", false)->learningRate, 1e-4);
    EXPECT_TRUE(setModelValue(model, "l2=true", false)->l2);
    EXPECT_EQ(setModelValue(model, "neighbours=none", true)->neighbours, Neighbours::None);
    EXPECT_EQ(setModelValue(model, "patience=0", true)->patience, 0);
    EXPECT_EQ(setModelValue(model, "note=a=b", false)->note, "a=b");
}

TEST(Model, SetRefusesWrongTextByKeyValueAndRule)
{
    const ModelSpec model = goodModel();
    const std::pair<const char*, const char*> rows[] = {
        {"width=abc", "an integer from 1 to 65536"}, {"width=0", "an integer from 1"},   {"width=64.0", "an integer"},
        {"l2=yes", "true or false"},                 {"kind=gt", "one of graphormer"},   {"input_dropout=nan", "a number from 0 to 0.999"},
        {"heads=7", "a divisor of 64"},              {"learning_rate=", "a number from"}};
    for (const auto& [assignment, rule] : rows) {
        const auto changed = setModelValue(model, assignment, false);
        ASSERT_FALSE(changed.ok()) << assignment;
        EXPECT_EQ(exitCode(changed.error().code), 3);
        EXPECT_NE(changed.error().message.find(rule), std::string::npos) << changed.error().message;
    }
    const auto unknown = setModelValue(model, "lerning_rate=1", false);
    ASSERT_FALSE(unknown.ok());
    EXPECT_EQ(exitCode(unknown.error().code), 2);
    EXPECT_NE(unknown.error().message.find("did you mean \"learning_rate\""), std::string::npos) << unknown.error().message;
    EXPECT_EQ(setModelValue(model, "learning_rate", false).error().code, ErrorCode::Usage);
}

TEST(Model, UnderAPlanShapeKeysAreRefusedByName)
{
    const ModelSpec model = goodModel();
    for (const char* key : {"width=32", "heads=4", "blocks=1", "hops=2", "graph_token=true", "kind=sgformer", "sequence_mode=clusters"}) {
        const auto changed = setModelValue(model, key, true);
        ASSERT_FALSE(changed.ok()) << key;
        EXPECT_EQ(changed.error().code, ErrorCode::Usage);
        const std::string name = std::string(key).substr(0, std::string(key).find('='));
        EXPECT_NE(changed.error().message.find("--set " + name), std::string::npos) << changed.error().message;
    }
}

TEST(Model, SignatureFollowsShapesAndNotTheRecipe)
{
    const ModelSpec model = goodModel();
    const std::string signature = modelSignature(model);
    EXPECT_EQ(signature.size(), 8u);
    EXPECT_EQ(modelSignature(*setModelValue(model, "learning_rate=0.1", false)), signature);
    EXPECT_EQ(modelSignature(*setModelValue(model, "steps=3", false)), signature);
    EXPECT_EQ(modelSignature(*setModelValue(model, "name=other", false)), signature);
    EXPECT_NE(modelSignature(*setModelValue(model, "width=32", false)), signature);
    EXPECT_NE(modelSignature(*setModelValue(model, "heads=4", false)), signature);
    EXPECT_NE(modelSignature(*setModelValue(model, "attention_dropout=0", false)), signature);
}

TEST(Model, EveryPresetLoadsUnderItsOwnName)
{
    const std::vector<std::string> names = modelPresets(kResources);
    const std::set<std::string> expected{"graphormer-cora", "graphormer-citeseer", "graphormer-sample", "graphormer-scale",
                                         "gt-sparse-minesweeper", "gt-sparse-minesweeper-small", "gt-sparse-tolokers",
                                         "sgformer-cora", "sgformer-citeseer", "sgformer-cora-published"};
    for (const std::string& name : expected)
        EXPECT_NE(std::find(names.begin(), names.end(), name), names.end()) << name;
    for (const std::string& name : names) {
        const auto model = loadModel(name, kResources);
        ASSERT_TRUE(model.ok()) << model.error().message;
        EXPECT_EQ(model->name, name);
    }
}

TEST(Model, PresetsHoldTheRecipesOfTheirTable)
{
    const ModelSpec sgformer = *loadModel("sgformer-cora", kResources);
    EXPECT_EQ(attentionKind(sgformer), AttentionKind::Linear);
    EXPECT_EQ(sgformer.heads, 1);
    EXPECT_EQ(headWidth(sgformer), 64);
    EXPECT_TRUE(sgformer.l2);
    EXPECT_FALSE(sgformer.scaleFeatures);
    EXPECT_EQ(sgformer.patience, 120);
    const ModelSpec graphormer = *loadModel("graphormer-cora", kResources);
    EXPECT_EQ(attentionKind(graphormer), AttentionKind::Dense);
    EXPECT_EQ(graphormer.weightDecay, 0.5);
    EXPECT_EQ(biasClasses(graphormer), 7);
    EXPECT_TRUE(graphormer.scaleFeatures);
    const ModelSpec sparse = *loadModel("gt-sparse-minesweeper", kResources);
    EXPECT_EQ(attentionKind(sparse), AttentionKind::Edges);
    EXPECT_EQ(sparse.loss, Loss::Bce);
    EXPECT_EQ(sparse.metric, Metric::Auc);
    EXPECT_EQ(sparse.blocks, 5);
    EXPECT_TRUE(loadModel("graphormer-scale", kResources)->graphToken);
}

TEST(Model, UnknownPresetListsAllAndTheNearest)
{
    const auto model = loadModel("graphormer-coro", kResources);
    ASSERT_FALSE(model.ok());
    EXPECT_EQ(model.error().code, ErrorCode::NotFound);
    EXPECT_NE(model.error().message.find("sgformer-citeseer"), std::string::npos);
    EXPECT_NE(model.error().message.find("did you mean \"graphormer-cora\""), std::string::npos) << model.error().message;
    EXPECT_EQ(loadModel("/nowhere/model.json", kResources).error().code, ErrorCode::NotFound);
    EXPECT_TRUE(loadModel(kGood + "model.json", kResources).ok());
}

TEST(Model, MetricsKnowWhichWayIsBetter)
{
    EXPECT_TRUE(metricBetter(Metric::Accuracy, 0.9, 0.8));
    EXPECT_TRUE(metricBetter(Metric::Auc, 0.9, 0.8));
    EXPECT_TRUE(metricBetter(Metric::Mae, 0.1, 0.2));
    EXPECT_FALSE(metricBetter(Metric::Rmse, 0.2, 0.2));
}

TEST(PlanDocument, HashIgnoresPredictionAndNameOnly)
{
    Plan plan = goodPlan();
    const std::string hash = planHash(plan);
    EXPECT_EQ(hash.size(), 64u);
    plan.prediction = {};
    plan.name = "other";
    EXPECT_EQ(planHash(plan), hash);
    plan.stages[0].cuts = {0, 1000, 2708};
    EXPECT_NE(planHash(plan), hash);
    plan = goodPlan();
    plan.model.learningRate = 0.1;
    EXPECT_NE(planHash(plan), hash);
}

TEST(PlanDocument, PredictionIsOptional)
{
    Json value = planToJson(goodPlan());
    value.erase("prediction");
    const auto plan = planFromJson(value, "plan.json");
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    EXPECT_EQ(plan->prediction.match, "none");
    EXPECT_EQ(plan->world(), 2);
}

TEST(PlanDocument, NamesSayWhatDiffers)
{
    Plan plan = goodPlan();
    EXPECT_EQ(planName(plan), "E+2B+H:r2 | m1 fp32 fused lists");
    plan.stages[0].exchange = Exchange::Gather;
    EXPECT_EQ(planName(plan), "E+2B+H:r2,gather | m1 fp32 fused lists");
    plan.stages[0].recompute = Recompute::Block;
    plan.attention = AttentionPath::Materialised;
    EXPECT_EQ(planName(plan), "E+2B+H:r2,gather,recompute-block | m1 fp32 materialised lists");
    plan = goodPlan();
    plan.stages[0].ring = 1;
    plan.stages[0].replicas = 2;
    plan.stages[0].exchange = Exchange::None;
    plan.stages[0].zero = Zero::Z2;
    plan.mode = SequenceMode::Clusters;
    plan.tokens = 1024;
    plan.microBatches = 4;
    EXPECT_EQ(planName(plan), "E+2B+H:d2,z2 | m4 fp32 fused lists clusters 1024");
    StagePlan second = plan.stages[0];
    plan.stages[0].lastLayer = 1;
    second.firstLayer = 1;
    second.zero = Zero::Z0;
    second.replicas = 1;
    plan.stages.push_back(second);
    EXPECT_EQ(planName(plan), "E:d2,z2 > 2B+H | m4 fp32 fused lists 1f1b clusters 1024");
}

TEST(PlanDocument, HsdpNeedsItsShardGroup)
{
    Plan plan = goodPlan();
    plan.stages[0].zero = Zero::Hsdp;
    plan.stages[0].shardGroup = 2;
    Json value = planToJson(plan);
    EXPECT_EQ(value["stages"][0]["zero"], "hsdp");
    EXPECT_EQ(planFromJson(value, "p")->stages[0].shardGroup, 2);
    value["stages"][0].erase("shard_group");
    EXPECT_FALSE(planFromJson(value, "p").ok());
}

TEST(ProfileDocument, IdIgnoresIdDateAndNoteOnly)
{
    Profile profile = *profileFromJson(*readJsonFile(kGood + "profile.json"), "profile.json");
    const std::string id = profileId(profile);
    EXPECT_EQ(id.size(), 64u);
    profile.id = "x";
    profile.createdUtc = "y";
    profile.note = "z";
    EXPECT_EQ(profileId(profile), id);
    profile.points[0].repeats[0] += 1;
    EXPECT_NE(profileId(profile), id);
    ASSERT_NE(profile.constant("process_base_bytes"), nullptr);
    EXPECT_EQ(profile.constant("none"), nullptr);
}

TEST(ProfileDocument, FingerprintIdIgnoresClockAndMemoryOnly)
{
    const Fingerprint here = localFingerprint(2, 1, false);
    Fingerprint other = here;
    other.clockMhz += 100;
    other.memoryBytes = 5;
    EXPECT_EQ(other.id(), here.id());
    EXPECT_NE(localFingerprint(2, 2, false).id(), here.id());
    EXPECT_NE(localFingerprint(3, 1, false).id(), here.id());
    EXPECT_NE(localFingerprint(2, 1, true).id(), here.id());
    other = here;
    other.productVersion = "9.9.9";
    EXPECT_NE(other.id(), here.id());
    EXPECT_FALSE(here.cpuModel.empty());
    EXPECT_GE(here.cores, 1);
}

TEST(RunDocument, KeepsSeedsOfAllSixtyFourBitsAndProfileJobs)
{
    RunSpec run = *runFromJson(*readJsonFile(kGood + "run.json"), "run.json");
    run.seed = UINT64_MAX;
    run.kind = "profile";
    run.profileJobs = {{"layer", {{"layer", "block"}, {"phase", "forward"}}, {{"n", 1354}}, 5, 0.15}};
    const auto again = runFromJson(*parseJson(runToJson(run).dump(), "run.json"), "run.json");
    ASSERT_TRUE(again.ok()) << again.error().message;
    EXPECT_EQ(again->seed, UINT64_MAX);
    EXPECT_EQ(again->profileJobs, run.profileJobs);
}

TEST(GraphStatsDocument, RoundTripsAndChecksLengths)
{
    GraphStats stats;
    stats.datasetHash = "aa";
    stats.nodes = 10;
    stats.entries = 20;
    stats.degreeHistogram = {0, 4, 6};
    stats.hopHistogram = {1, 2.5, 3, 0, 0.5};
    stats.contexts[2] = {{0, 4, 10}, {4, 6}, {8, 12}, {1, 2, 3, 4}, {1, 1, 1, 1}, {0, 2, 3, 0}};
    stats.sequences = {{5, 9, 20, 3, 2}, {5, 8, 19, 2, 1}};
    stats.clusterTokens = 5;
    stats.keptEdges = 0.85;
    const Json value = graphStatsToJson(stats);
    const auto again = graphStatsFromJson(value, "stats.json");
    ASSERT_TRUE(again.ok()) << again.error().message;
    EXPECT_EQ(canonicalText(graphStatsToJson(*again)), canonicalText(value));
    EXPECT_EQ(again->contexts.at(2).halo, stats.contexts[2].halo);
    Json broken = value;
    broken["contexts"][0]["halo"] = {1, 2, 3};
    EXPECT_NE(graphStatsFromJson(broken, "stats.json").error().message.find("contexts[0].halo"), std::string::npos);
}
