// SPDX-License-Identifier: Apache-2.0
#include "core/plan.h"

#include "core/hash.h"

#include <algorithm>
#include <fmt/format.h>
#include <tuple>

namespace megagraph {

namespace {

constexpr int64_t kMost = int64_t(1) << 48;
constexpr const char* kCategories[kMemoryCategories] = {"weights", "gradients", "optimizer", "node_table", "activations",
                                                        "workspace", "topology", "buffers", "base", "slack"};
constexpr const char* kTerms[kTimeTerms] = {"attention", "block", "embed_head", "distance", "exchange", "bubble", "update", "host"};
constexpr const char* kExchanges[] = {"none", "ring", "ulysses", "ulysses_ring", "gather", "halo", "reduce"};
constexpr const char* kRecomputes[] = {"none", "attention", "block"};
constexpr const char* kZeros[] = {"0", "1", "2", "3", "hsdp"};
constexpr const char* kSchedules[] = {"gpipe", "1f1b", "interleaved", "zero_bubble"};
constexpr const char* kPrecisions[] = {"fp32", "bf16"};
constexpr const char* kAttentions[] = {"fused", "materialised"};
constexpr const char* kBiases[] = {"lists", "strips", "planes"};
constexpr const char* kModes[] = {"full", "clusters", "packs"};

template <class E, size_t N> void readName(ObjectReader& reader, const char* key, E& out, const char* const (&names)[N])
{
    int position = static_cast<int>(out);
    reader.getChoice(key, position, std::vector<std::string>(names, names + N));
    out = static_cast<E>(position);
}

void readZero(ObjectReader& reader, StagePlan& stage)
{
    const Json* value = reader.raw("zero");
    if (value == nullptr)
        return;
    const bool level = value->is_number_integer() && *value >= 0 && *value <= 3;
    if (level)
        stage.zero = static_cast<Zero>(value->get<int>());
    else if (*value == "hsdp")
        stage.zero = Zero::Hsdp;
    else
        reader.fail("zero", fmt::format("unknown value, got {}, expected 0, 1, 2, 3 or \"hsdp\"", value->dump().substr(0, 60)));
}

StagePlan readStage(ObjectReader& reader)
{
    StagePlan stage;
    std::vector<int64_t> layers;
    reader.get("layers", layers);
    if (layers.size() == 2 && layers[0] >= 0 && layers[1] > layers[0] && layers[1] <= 4096) {
        stage.firstLayer = layers[0];
        stage.lastLayer = layers[1];
    } else {
        reader.fail("layers", fmt::format("not a run of layers, got [{}], expected [first, last) with 0 <= first < last <= 4096",
                                          fmt::join(layers, ", ")));
    }
    reader.get("devices", stage.devices);
    for (const int64_t device : stage.devices)
        if (device < 0 || device > 1 << 20)
            reader.fail("devices", fmt::format("out of range, got {}, expected device numbers from 0 to {}", device, 1 << 20));
    reader.get("replicas", stage.replicas, 1, 4096);
    reader.get("ulysses", stage.ulysses, 1, 4096);
    reader.get("ring", stage.ring, 1, 4096);
    readName(reader, "exchange", stage.exchange, kExchanges);
    readZero(reader, stage);
    if (reader.has("shard_group") || stage.zero == Zero::Hsdp)
        reader.get("shard_group", stage.shardGroup, 0, 4096);
    readName(reader, "recompute", stage.recompute, kRecomputes);
    if (reader.has("cuts"))
        reader.get("cuts", stage.cuts);
    for (size_t i = 0; i < stage.cuts.size(); ++i)
        if (stage.cuts[i] < (i == 0 ? 0 : stage.cuts[i - 1]) || stage.cuts[i] > kMost)
            reader.fail(fmt::format("cuts[{}]", i).c_str(),
                        fmt::format("out of order, got {}, expected token offsets that never fall", stage.cuts[i]));
    return stage;
}

void readPrediction(ObjectReader& reader, PlanPrediction& prediction)
{
    reader.get("profile_id", prediction.profileId);
    const char* const matches[] = {"exact", "stale", "other", "none"};
    int match = 3;
    reader.getChoice("match", match, std::vector<std::string>(matches, matches + 4));
    prediction.match = matches[match];
    reader.get("step_ns", prediction.stepNs, 0, kMost);
    reader.get("step_lo_ns", prediction.stepLoNs, 0, kMost);
    reader.get("step_hi_ns", prediction.stepHiNs, 0, kMost);
    reader.get("p_fit", prediction.pFit, 0, 1);
    ObjectReader terms = reader.child("terms");
    for (size_t t = 0; t < kTimeTerms; ++t)
        terms.get((std::string(kTerms[t]) + "_ns").c_str(), prediction.terms[t], 0, kMost);
    for (ObjectReader& item : reader.children("ranks")) {
        RankPrediction rank;
        item.get("rank", rank.rank, 0, 1 << 20);
        item.get("peak_bytes", rank.peakBytes, 0, kMost);
        ObjectReader categories = item.child("categories");
        for (size_t c = 0; c < kMemoryCategories; ++c)
            categories.get(kCategories[c], rank.categories[c], 0, kMost);
        prediction.ranks.push_back(rank);
    }
}

Json stageToJson(const StagePlan& s)
{
    Json zero = s.zero == Zero::Hsdp ? Json("hsdp") : Json(static_cast<int>(s.zero));
    return {{"layers", {s.firstLayer, s.lastLayer}}, {"devices", s.devices},
            {"replicas", s.replicas},                {"ulysses", s.ulysses},
            {"ring", s.ring},                        {"exchange", exchangeName(s.exchange)},
            {"zero", zero},                          {"shard_group", s.shardGroup},
            {"recompute", recomputeName(s.recompute)}, {"cuts", s.cuts}};
}

Json predictionToJson(const PlanPrediction& p)
{
    Json terms = Json::object();
    for (size_t t = 0; t < kTimeTerms; ++t)
        terms[std::string(kTerms[t]) + "_ns"] = p.terms[t];
    Json ranks = Json::array();
    for (const RankPrediction& rank : p.ranks) {
        Json categories = Json::object();
        for (size_t c = 0; c < kMemoryCategories; ++c)
            categories[kCategories[c]] = rank.categories[c];
        ranks.push_back({{"rank", rank.rank}, {"peak_bytes", rank.peakBytes}, {"categories", categories}});
    }
    return {{"profile_id", p.profileId}, {"match", p.match},         {"step_ns", p.stepNs}, {"step_lo_ns", p.stepLoNs},
            {"step_hi_ns", p.stepHiNs},  {"p_fit", p.pFit},          {"terms", terms},      {"ranks", ranks}};
}

/// "E+2B+H" for layers [first, last) of `total`.
std::string layersText(const StagePlan& stage, int64_t total)
{
    std::string text = stage.firstLayer == 0 ? "E" : "";
    const int64_t blocks = std::min(stage.lastLayer, total - 1) - std::max<int64_t>(stage.firstLayer, 1);
    if (blocks > 0)
        text += fmt::format("{}{}B", text.empty() ? "" : "+", blocks);
    if (stage.lastLayer == total)
        text += text.empty() ? "H" : "+H";
    return text;
}

std::string stageText(const StagePlan& stage, int64_t total)
{
    std::string options;
    const auto factor = [&](const char* letter, int64_t value) {
        if (value > 1)
            options += fmt::format("{}{}", letter, value);
    };
    factor("d", stage.replicas);
    factor("u", stage.ulysses);
    factor("r", stage.ring);
    std::vector<std::string> parts;
    if (!options.empty())
        parts.push_back(options);
    const bool impliedByFactors = stage.exchange == Exchange::None || stage.exchange == Exchange::Ring ||
                                  stage.exchange == Exchange::Ulysses || stage.exchange == Exchange::UlyssesRing;
    if (!impliedByFactors)
        parts.emplace_back(exchangeName(stage.exchange));
    if (stage.zero == Zero::Hsdp)
        parts.push_back(fmt::format("hsdp{}", stage.shardGroup));
    else if (stage.zero != Zero::Z0)
        parts.push_back(fmt::format("z{}", zeroName(stage.zero)));
    if (stage.recompute != Recompute::None)
        parts.push_back(fmt::format("recompute-{}", recomputeName(stage.recompute)));
    return layersText(stage, total) + (parts.empty() ? "" : fmt::format(":{}", fmt::join(parts, ",")));
}

} // namespace

const char* memoryCategoryName(MemoryCategory category) { return kCategories[static_cast<size_t>(category)]; }
const char* timeTermName(TimeTerm term) { return kTerms[static_cast<size_t>(term)]; }
const char* exchangeName(Exchange value) { return kExchanges[static_cast<size_t>(value)]; }
const char* recomputeName(Recompute value) { return kRecomputes[static_cast<size_t>(value)]; }
const char* zeroName(Zero value) { return kZeros[static_cast<size_t>(value)]; }
const char* pipelineScheduleName(PipelineSchedule value) { return kSchedules[static_cast<size_t>(value)]; }
const char* precisionName(Precision value) { return kPrecisions[static_cast<size_t>(value)]; }
const char* attentionPathName(AttentionPath value) { return kAttentions[static_cast<size_t>(value)]; }
const char* biasPolicyName(BiasPolicy value) { return kBiases[static_cast<size_t>(value)]; }
const char* sequenceModeName(SequenceMode value) { return kModes[static_cast<size_t>(value)]; }

int64_t Plan::world() const
{
    int64_t ranks = 0;
    for (const StagePlan& stage : stages)
        ranks += stage.replicas * stage.ulysses * stage.ring;
    return ranks;
}

Result<Plan> planFromJson(const Json& value, const std::string& file)
{
    Plan plan;
    ObjectReader reader(value, file, "");
    reader.expectFormat("megagraph.plan", 1);
    reader.get("name", plan.name);
    ObjectReader dataset = reader.child("dataset");
    dataset.get("name", plan.datasetName);
    dataset.get("content_hash", plan.datasetHash);
    if (plan.datasetName.find('/') != std::string::npos || plan.datasetName.starts_with("."))
        dataset.fail("name", fmt::format("not a data set name, got \"{}\", expected a name without slashes", plan.datasetName));
    ObjectReader model = reader.child("model");
    readModel(model, plan.model);
    ObjectReader cluster = reader.child("cluster");
    readCluster(cluster, plan.cluster);
    ObjectReader sequence = reader.child("sequence");
    readName(sequence, "mode", plan.mode, kModes);
    sequence.get("tokens", plan.tokens, 1, kMost);
    const char* const orders[] = {"metis", "natural"};
    int order = 0;
    readName(sequence, "order", order, orders);
    plan.order = orders[order];
    sequence.get("partition_seed", plan.partitionSeed, 0, INT64_MAX);
    for (ObjectReader& stage : reader.children("stages"))
        plan.stages.push_back(readStage(stage));
    if (plan.stages.empty())
        reader.fail("stages", "no stage, got 0, expected at least 1");
    ObjectReader schedule = reader.child("schedule");
    readName(schedule, "kind", plan.schedule, kSchedules);
    schedule.get("chunks", plan.chunks, 1, 4096);
    reader.get("micro_batches", plan.microBatches, 1, int64_t(1) << 32);
    readName(reader, "precision", plan.precision, kPrecisions);
    readName(reader, "attention", plan.attention, kAttentions);
    readName(reader, "bias", plan.bias, kBiases);
    if (reader.has("prediction")) {
        ObjectReader prediction = reader.child("prediction");
        readPrediction(prediction, plan.prediction);
    }
    MEGAGRAPH_TRY(std::ignore, reader.finish());
    return plan;
}

Json planToJson(const Plan& plan)
{
    Json stages = Json::array();
    for (const StagePlan& stage : plan.stages)
        stages.push_back(stageToJson(stage));
    return {{"format", "megagraph.plan"},
            {"version", 1},
            {"name", plan.name},
            {"dataset", {{"name", plan.datasetName}, {"content_hash", plan.datasetHash}}},
            {"model", modelToJson(plan.model)},
            {"cluster", clusterToJson(plan.cluster)},
            {"sequence",
             {{"mode", sequenceModeName(plan.mode)}, {"tokens", plan.tokens}, {"order", plan.order}, {"partition_seed", plan.partitionSeed}}},
            {"stages", stages},
            {"schedule", {{"kind", pipelineScheduleName(plan.schedule)}, {"chunks", plan.chunks}}},
            {"micro_batches", plan.microBatches},
            {"precision", precisionName(plan.precision)},
            {"attention", attentionPathName(plan.attention)},
            {"bias", biasPolicyName(plan.bias)},
            {"prediction", predictionToJson(plan.prediction)}};
}

std::string planHash(const Plan& plan)
{
    Json value = planToJson(plan);
    value.erase("prediction");
    value.erase("name");
    return sha256Hex(canonicalText(value));
}

std::string planName(const Plan& plan)
{
    const int64_t total = plan.model.blocks + 2;
    std::vector<std::string> stages;
    for (const StagePlan& stage : plan.stages)
        stages.push_back(stageText(stage, total));
    std::string text = fmt::format("{} | m{} {} {} {}", fmt::join(stages, " > "), plan.microBatches, precisionName(plan.precision),
                                   attentionPathName(plan.attention), biasPolicyName(plan.bias));
    if (plan.stages.size() > 1)
        text += fmt::format(" {}", pipelineScheduleName(plan.schedule));
    if (plan.mode != SequenceMode::Full)
        text += fmt::format(" {} {}", sequenceModeName(plan.mode), plan.tokens);
    return plan.order == "metis" ? text : text + " " + plan.order;
}

} // namespace megagraph
