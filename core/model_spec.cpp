// SPDX-License-Identifier: Apache-2.0
#include "core/model_spec.h"

#include "core/hash.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <optional>
#include <tuple>

namespace megagraph {

namespace {

/// What a change of a key touches. Shape: tensors or kernels, so profile and plan no longer match. Plan: only the plan.
enum class Effect { Training, Plan, Shape };

constexpr int64_t kMaxSteps = 100'000'000;

/// Lists every leaf key once, in document order; reader, writer, `--set` and signature are visitors of it.
template <class Visitor, class Spec> void visitArchitecture(Visitor& v, Spec& s)
{
    v.section("architecture");
    v.choice("kind", s.kind, {"graphormer", "gt_sparse", "sgformer"}, Effect::Shape);
    v.integer("blocks", s.blocks, 1, 1024, Effect::Shape);
    v.integer("width", s.width, 1, 65536, Effect::Shape);
    v.integer("ffn_width", s.ffnWidth, 1, 262144, Effect::Shape);
    v.integer("heads", s.heads, 1, 1024, Effect::Shape);
    v.choice("norm", s.norm, {"pre", "post"}, Effect::Shape);
    v.choice("linear_init", s.linearInit, {"uniform", "graphormer"}, Effect::Training);
    v.flag("graph_token", s.graphToken, Effect::Shape);
    v.section("encodings");
    v.integer("hops", s.hops, 1, 64, Effect::Shape);
    v.flag("degree_encoding", s.degreeEncoding, Effect::Shape);
    v.choice("table_init", s.tableInit, {"normal", "decay"}, Effect::Training);
    v.choice("edge_encoding", s.edgeEncoding, {"none", "hop1"}, Effect::Shape);
    v.flag("scale_features", s.scaleFeatures, Effect::Training);
    v.choice("neighbours", s.neighbours, {"edges", "none"}, Effect::Training);
    v.section("sgformer");
    v.integer("gcn_layers", s.gcnLayers, 1, 64, Effect::Shape);
    v.choice("gcn_norm", s.gcnNorm, {"none", "batch"}, Effect::Shape);
    v.flag("gcn_residual", s.gcnResidual, Effect::Shape);
    v.real("gcn_weight", s.gcnWeight, 0, 1, Effect::Training);
    v.section("sparse");
    v.flag("self_loops", s.selfLoops, Effect::Training);
}

template <class Visitor, class Spec> void visitTraining(Visitor& v, Spec& s)
{
    constexpr double kMostDropout = 0.999; // below 1: survivors are scaled by 1 / (1 - p)
    v.section("dropout");
    v.real("input_dropout", s.inputDropout, 0, kMostDropout, Effect::Training);
    v.real("attention_dropout", s.attentionDropout, 0, kMostDropout, Effect::Training);
    v.real("ffn_dropout", s.ffnDropout, 0, kMostDropout, Effect::Training);
    v.real("residual_dropout", s.residualDropout, 0, kMostDropout, Effect::Training);
    v.real("gcn_dropout", s.gcnDropout, 0, kMostDropout, Effect::Training);
    v.section("optimizer");
    v.choice("optimizer_kind", s.optimizerKind, {"adamw", "sgd"}, Effect::Shape);
    v.real("learning_rate", s.learningRate, 0, 1000, Effect::Training);
    v.real("beta1", s.beta1, 0, 0.9999999, Effect::Training);
    v.real("beta2", s.beta2, 0, 0.9999999, Effect::Training);
    v.real("epsilon", s.epsilon, 0, 1, Effect::Training);
    v.real("weight_decay", s.weightDecay, 0, 1000, Effect::Training);
    v.real("weight_decay_gcn", s.weightDecayGcn, 0, 1000, Effect::Training);
    v.flag("l2", s.l2, Effect::Training);
    v.real("clip_norm", s.clipNorm, 0, 1e9, Effect::Training);
    v.section("schedule");
    v.choice("schedule_kind", s.scheduleKind, {"constant", "linear", "cosine"}, Effect::Training);
    v.integer("warmup_steps", s.warmupSteps, 0, kMaxSteps, Effect::Training);
    v.real("min_learning_rate", s.minLearningRate, 0, 1000, Effect::Training);
    v.section("training");
    v.integer("steps", s.steps, 1, kMaxSteps, Effect::Training);
    v.choice("loss", s.loss, {"cross_entropy", "bce", "l1", "mse"}, Effect::Shape);
    v.choice("metric", s.metric, {"accuracy", "auc", "mae", "rmse"}, Effect::Training);
    v.integer("eval_every", s.evalEvery, 1, kMaxSteps, Effect::Training);
    v.integer("patience", s.patience, 0, kMaxSteps, Effect::Training);
    v.choice("sequence_mode", s.sequenceMode, {"full", "clusters", "packs"}, Effect::Plan);
    v.integer("sequence_tokens", s.sequenceTokens, 0, int64_t(1) << 40, Effect::Plan);
}

template <class Visitor, class Spec> void visitPublished(Visitor& v, Spec& s)
{
    v.section("published");
    v.real("value", s.publishedValue, -1e9, 1e9, Effect::Training);
    v.real("spread", s.publishedSpread, 0, 1e9, Effect::Training);
    v.text("protocol", s.publishedProtocol);
    v.text("band", s.publishedBand);
}

using Names = std::initializer_list<const char*>;

bool hasPublished(const ModelSpec& s)
{
    return s.publishedValue != 0 || s.publishedSpread != 0 || !s.publishedProtocol.empty() || !s.publishedBand.empty();
}

class SpecReader {
  public:
    explicit SpecReader(ObjectReader& root) : root_(root) {}
    void section(const char* name) { section_.emplace(root_.child(name)); }
    void text(const char* key, std::string& field) { section_->get(key, field); }
    void integer(const char* key, int64_t& field, int64_t least, int64_t most, Effect) { section_->get(key, field, least, most); }
    void real(const char* key, double& field, double least, double most, Effect) { section_->get(key, field, least, most); }
    void flag(const char* key, bool& field, Effect) { section_->get(key, field); }
    template <class E> void choice(const char* key, E& field, Names names, Effect)
    {
        int position = static_cast<int>(field);
        section_->getChoice(key, position, std::vector<std::string>(names.begin(), names.end()));
        field = static_cast<E>(position);
    }

  private:
    ObjectReader& root_;
    std::optional<ObjectReader> section_;
};

class SpecWriter {
  public:
    explicit SpecWriter(Json& root) : root_(root) {}
    void section(const char* name) { section_ = name; }
    void text(const char* key, const std::string& field) { root_[section_][key] = field; }
    void integer(const char* key, int64_t field, int64_t, int64_t, Effect) { root_[section_][key] = field; }
    void real(const char* key, double field, double, double, Effect) { root_[section_][key] = field; }
    void flag(const char* key, bool field, Effect) { root_[section_][key] = field; }
    template <class E> void choice(const char* key, E field, Names names, Effect)
    {
        root_[section_][key] = names.begin()[static_cast<size_t>(field)];
    }

  private:
    Json& root_;
    const char* section_ = "";
};

/// Sets one key from its text; remembers every key for the message about an unknown one.
class SpecSetter {
  public:
    SpecSetter(std::string key, std::string text, bool shapesFixed)
        : key_(std::move(key)), text_(std::move(text)), shapesFixed_(shapesFixed)
    {
    }
    void section(const char*) {}
    void integer(const char* key, int64_t& field, int64_t least, int64_t most, Effect effect)
    {
        if (!mine(key, effect))
            return;
        int64_t number = 0;
        const auto [end, fault] = std::from_chars(text_.data(), text_.data() + text_.size(), number);
        if (fault != std::errc{} || end != text_.data() + text_.size() || number < least || number > most)
            return refuse(fmt::format("an integer from {} to {}", least, most));
        field = number;
    }
    void real(const char* key, double& field, double least, double most, Effect effect)
    {
        if (!mine(key, effect))
            return;
        double number = 0;
        const auto [end, fault] = std::from_chars(text_.data(), text_.data() + text_.size(), number);
        if (fault != std::errc{} || end != text_.data() + text_.size() || !(number >= least && number <= most))
            return refuse(fmt::format("a number from {} to {}", least, most));
        field = number;
    }
    void flag(const char* key, bool& field, Effect effect)
    {
        if (!mine(key, effect))
            return;
        if (text_ != "true" && text_ != "false")
            return refuse("true or false");
        field = text_ == "true";
    }
    template <class E> void choice(const char* key, E& field, Names names, Effect effect)
    {
        if (!mine(key, effect))
            return;
        std::string list;
        for (size_t i = 0; i < names.size(); ++i) {
            list += (i > 0 ? ", " : "") + std::string(names.begin()[i]);
            if (text_ == names.begin()[i]) {
                field = static_cast<E>(i);
                return;
            }
        }
        refuse("one of " + list);
    }
    Result<Ok> finish() const
    {
        if (fault_)
            return *fault_;
        if (found_)
            return Ok{};
        const std::string near = nearestName(key_, keys_);
        return Error{ErrorCode::Usage, fmt::format("--set: unknown key \"{}\", expected a leaf key of model.json{}", key_,
                                                   near.empty() ? "" : "; did you mean \"" + near + "\"?")};
    }

  private:
    bool mine(const char* key, Effect effect)
    {
        keys_.emplace_back(key);
        if (key_ != key)
            return false;
        found_ = true;
        if (shapesFixed_ && effect != Effect::Training) {
            fault_ = Error{ErrorCode::Usage,
                           fmt::format("--set {}: this key changes what the plan was made for; make a new plan with "
                                       "`megagraph plan --set {}={}`",
                                       key, key, text_)};
            return false;
        }
        return true;
    }
    void refuse(const std::string& rule)
    {
        fault_ = Error{ErrorCode::InvalidInput, fmt::format("--set {}: wrong value, got \"{}\", expected {}", key_, text_, rule)};
    }

    std::string key_, text_;
    bool shapesFixed_, found_ = false;
    std::vector<std::string> keys_;
    std::optional<Error> fault_;
};

/// Collects "key=value" lines of the keys that change a shape or a kernel.
class SignatureText {
  public:
    std::string text;
    void section(const char*) {}
    void integer(const char* key, int64_t field, int64_t, int64_t, Effect effect) { add(key, std::to_string(field), effect); }
    void real(const char* key, double field, double, double, Effect effect) { add(key, fmt::format("{}", field), effect); }
    void flag(const char* key, bool field, Effect effect) { add(key, field ? "1" : "0", effect); }
    template <class E> void choice(const char* key, E field, Names names, Effect effect)
    {
        add(key, names.begin()[static_cast<size_t>(field)], effect);
    }

  private:
    void add(const char* key, const std::string& value, Effect effect)
    {
        if (effect == Effect::Shape)
            text += fmt::format("{}={}\n", key, value);
    }
};

struct Fault { const char* path; std::string message; };

/// Rules between fields; the path names the field that must change.
std::optional<Fault> faultOf(const ModelSpec& s)
{
    if (s.kind != Architecture::Sgformer && s.width % s.heads != 0)
        return Fault{"architecture.heads", fmt::format("does not divide the width, got {}, expected a divisor of {}", s.heads, s.width)};
    if (s.kind == Architecture::Sgformer && s.blocks != 1)
        return Fault{"architecture.blocks", fmt::format("SGFormer has one attention layer, got {}, expected 1", s.blocks)};
    if (s.kind != Architecture::Graphormer && s.graphToken)
        return Fault{"architecture.graph_token", fmt::format("{} has no graph token, got true, expected false", architectureName(s.kind))};
    if (s.kind == Architecture::GtSparse && s.attentionDropout > 0)
        return Fault{"dropout.attention_dropout", fmt::format("the sparse GT has none, got {}, expected 0", s.attentionDropout)};
    const bool classes = s.loss == Loss::CrossEntropy || s.loss == Loss::Bce;
    if (classes != (s.metric == Metric::Accuracy || s.metric == Metric::Auc))
        return Fault{"training.metric", fmt::format("does not fit the loss {}, got {}, expected {}", lossName(s.loss),
                                                    metricName(s.metric), classes ? "accuracy or auc" : "mae or rmse")};
    return std::nullopt;
}

std::vector<std::string> presetNames(const std::string& resources)
{
    std::vector<std::string> names;
    std::error_code fault;
    for (auto it = std::filesystem::directory_iterator(resources + "/models", fault);
         !fault && it != std::filesystem::directory_iterator(); it.increment(fault))
        if (it->path().extension() == ".json")
            names.push_back(it->path().stem().string());
    std::sort(names.begin(), names.end());
    return names;
}

} // namespace

AttentionKind attentionKind(const ModelSpec& spec)
{
    switch (spec.kind) {
    case Architecture::Graphormer: return AttentionKind::Dense;
    case Architecture::GtSparse: return AttentionKind::Edges;
    case Architecture::Sgformer: return AttentionKind::Linear;
    }
    return AttentionKind::Dense;
}

const char* lossName(Loss loss)
{
    static constexpr const char* kNames[] = {"cross_entropy", "bce", "l1", "mse"};
    return kNames[static_cast<size_t>(loss)];
}

const char* metricName(Metric metric)
{
    static constexpr const char* kNames[] = {"accuracy", "auc", "mae", "rmse"};
    return kNames[static_cast<size_t>(metric)];
}

const char* architectureName(Architecture kind)
{
    static constexpr const char* kNames[] = {"graphormer", "gt_sparse", "sgformer"};
    return kNames[static_cast<size_t>(kind)];
}

bool metricBetter(Metric metric, double a, double b)
{
    return metric == Metric::Accuracy || metric == Metric::Auc ? a > b : a < b;
}

void readModel(ObjectReader& reader, ModelSpec& spec)
{
    reader.expectFormat("megagraph.model", 1);
    reader.get("name", spec.name);
    if (reader.has("note"))
        reader.get("note", spec.note);
    SpecReader visitor(reader);
    visitArchitecture(visitor, spec);
    visitTraining(visitor, spec);
    if (reader.has("published"))
        visitPublished(visitor, spec);
    if (const auto fault = faultOf(spec))
        reader.fail(fault->path, fault->message);
}

Result<ModelSpec> modelFromJson(const Json& value, const std::string& file)
{
    ModelSpec spec;
    ObjectReader reader(value, file, "");
    readModel(reader, spec);
    MEGAGRAPH_TRY(std::ignore, reader.finish());
    return spec;
}

Json modelToJson(const ModelSpec& spec)
{
    Json root{{"format", "megagraph.model"}, {"version", 1}, {"name", spec.name}, {"note", spec.note}};
    SpecWriter visitor(root);
    visitArchitecture(visitor, spec);
    visitTraining(visitor, spec);
    if (hasPublished(spec))
        visitPublished(visitor, spec);
    return root;
}

std::vector<std::string> modelPresets(const std::string& resources)
{
    return presetNames(resources);
}

Result<ModelSpec> loadModel(const std::string& nameOrPath, const std::string& resources)
{
    const bool isPath = nameOrPath.find('/') != std::string::npos || nameOrPath.ends_with(".json");
    const std::vector<std::string> names = presetNames(resources);
    if (!isPath && std::find(names.begin(), names.end(), nameOrPath) == names.end()) {
        const std::string near = nearestName(nameOrPath, names);
        return Error{ErrorCode::NotFound,
                     fmt::format("model \"{}\": no such preset, expected a path to a model.json or one of {}{}", nameOrPath,
                                 names.empty() ? "none (no presets in " + resources + "/models)" : fmt::format("{}", fmt::join(names, ", ")),
                                 near.empty() ? "" : "; did you mean \"" + near + "\"?")};
    }
    const std::string path = isPath ? nameOrPath : resources + "/models/" + nameOrPath + ".json";
    MEGAGRAPH_TRY(const Json value, readJsonFile(path));
    return modelFromJson(value, path);
}

Result<ModelSpec> setModelValue(const ModelSpec& spec, const std::string& assignment, bool shapesFixed)
{
    const size_t equals = assignment.find('=');
    if (equals == std::string::npos || equals == 0)
        return Error{ErrorCode::Usage, fmt::format("--set \"{}\": expected KEY=VALUE, e.g. learning_rate=0.01", assignment)};
    ModelSpec changed = spec;
    const std::string key = assignment.substr(0, equals), text = assignment.substr(equals + 1);
    if (key == "name" || key == "note") {
        (key == "name" ? changed.name : changed.note) = text;
        return changed;
    }
    SpecSetter setter(key, text, shapesFixed);
    visitArchitecture(setter, changed);
    visitTraining(setter, changed);
    MEGAGRAPH_TRY(std::ignore, setter.finish());
    if (const auto fault = faultOf(changed))
        return Error{ErrorCode::InvalidInput, fmt::format("--set {}: {}: {}", assignment, fault->path, fault->message)};
    return changed;
}

std::string modelSignature(const ModelSpec& spec)
{
    SignatureText visitor;
    visitArchitecture(visitor, spec);
    visitTraining(visitor, spec);
    // attention with dropout runs another kernel path; the rate itself changes nothing in its time
    visitor.text += spec.attentionDropout > 0 ? "attention_dropout=1\n" : "attention_dropout=0\n";
    return sha256Hex(visitor.text).substr(0, 8);
}

} // namespace megagraph
