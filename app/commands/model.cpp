// SPDX-License-Identifier: Apache-2.0
#include "app/commands/command.h"
#include "core/io/dataset.h"
#include "core/model_layout.h"
#include "core/places.h"
#include "core/precision.h"
#include "core/units.h"

#include <filesystem>
#include <fmt/format.h>
#include <memory>
#include <tuple>

namespace megagraph::app {

namespace {

struct State { std::string name, data; std::vector<std::string> set; CLI::App* show = nullptr; };

/// Counts of the public set that a preset was made for, so that parameters can be counted before anything is imported.
struct KnownSet { const char* suffix; const char* name; int64_t nodes, features, classes; };
constexpr KnownSet kKnownSets[] = {{"-minesweeper-small", "minesweeper", 10000, 7, 2},
                                   {"-minesweeper", "minesweeper", 10000, 7, 2},
                                   {"-tolokers", "tolokers", 11758, 10, 2},
                                   {"-citeseer", "citeseer", 3327, 3703, 6},
                                   {"-cora", "cora", 2708, 1433, 7},
                                   {"-cora-published", "cora", 2708, 1433, 7},
                                   {"-sample", "community sample", 2003, 32, 7},
                                   {"-scale", "coauthor-cs", 18333, 6805, 15}};

/// The set that counts are for: --data, else the one the preset was made for.
Result<DatasetSpec> setFor(const ModelSpec& model, const std::string& data)
{
    if (!data.empty()) {
        MEGAGRAPH_TRY(const Dataset dataset, Dataset::open(datasetFolder(homeFolder(), data)));
        return dataset.spec();
    }
    DatasetSpec spec;
    spec.nodes = 2708; // a model file of the user's own, without --data: counted as on Cora
    const KnownSet* known = &kKnownSets[4];
    for (const KnownSet& set : kKnownSets)
        if (model.name.ends_with(set.suffix))
            known = &set;
    spec.name = known->name;
    spec.nodes = known->nodes;
    spec.featureKind = "dense";
    spec.featureValues = "float32";
    spec.featureWidth = known->features;
    spec.taskKind = "classification";
    spec.tasks = 1;
    for (int64_t c = 0; c < known->classes; ++c)
        spec.classes.push_back(std::to_string(c));
    return spec;
}

struct Counts {
    DatasetSpec set;
    std::vector<ParameterSpec> layout;
    int64_t parameters = 0, stateBytes = 0, denseBytes = 0;
};

Result<Counts> countsOf(const ModelSpec& model, const std::string& data)
{
    Counts counts;
    MEGAGRAPH_TRY(counts.set, setFor(model, data));
    MEGAGRAPH_TRY(counts.layout, modelLayout(model, counts.set));
    counts.parameters = parameterCount(counts.layout);
    const StateBytes bytes = stateBytes(Precision::Fp32, model.optimizerKind);
    counts.stateBytes = counts.parameters * (bytes.weight + bytes.gradient + bytes.optimizer);
    // what one block would need for scores of all pairs and heads if attention were materialised; the fused path never does
    if (attentionKind(model) == AttentionKind::Dense)
        counts.denseBytes = model.heads * counts.set.nodes * counts.set.nodes * 4;
    return counts;
}

Json countsToJson(const Counts& counts)
{
    return {{"dataset", counts.set.name},
            {"nodes", counts.set.nodes},
            {"feature_width", counts.set.featureWidth},
            {"parameters", counts.parameters},
            {"state_bytes", counts.stateBytes},
            {"materialised_scores_bytes", counts.denseBytes}};
}

Result<Ok> list(const State& state, bool json)
{
    Json models = Json::array();
    if (!json)
        fmt::print("{:<30} {:<11} {:>2} {:>5} {:>5} {:>2} {:>11} {:>9} {:>10}  {:<18} {}\n", "preset", "kind", "L", "d", "ffn", "H", "parameters",
                   "state", "N x N x H", "counted for", "published, our band");
    const std::string resources = resourcesFolder();
    const auto names = modelPresets(resources);
    if (names.empty())
        return Error{ErrorCode::NotFound, fmt::format("{}/models: no presets; set MEGAGRAPH_RESOURCES to the resources folder", resources)};
    for (const std::string& name : names) {
        MEGAGRAPH_TRY(const ModelSpec model, loadModel(name, resources));
        MEGAGRAPH_TRY(const Counts counts, countsOf(model, state.data));
        if (json) {
            Json row{{"name", model.name}, {"kind", architectureName(model.kind)}, {"blocks", model.blocks}, {"width", model.width},
                     {"ffn_width", model.ffnWidth}, {"heads", model.heads}, {"note", model.note}};
            row.update(countsToJson(counts));
            row["published"] = {{"value", model.publishedValue}, {"spread", model.publishedSpread}, {"protocol", model.publishedProtocol},
                                {"band", model.publishedBand}};
            models.push_back(row);
            continue;
        }
        const std::string published = model.publishedValue == 0 ? "-" : fmt::format("{} ± {}", model.publishedValue, model.publishedSpread);
        fmt::print("{:<30} {:<11} {:>2} {:>5} {:>5} {:>2} {:>11} {:>9} {:>10}  {:<18} {}; {}\n", model.name, architectureName(model.kind),
                   model.blocks, model.width, model.ffnWidth, model.heads, counts.parameters, bytesText(counts.stateBytes),
                   counts.denseBytes == 0 ? "-" : bytesText(counts.denseBytes), counts.set.name, published, model.publishedBand);
    }
    if (json)
        fmt::print("{}\n", Json{{"format", "megagraph.models"}, {"version", 1}, {"models", models}}.dump());
    else
        fmt::print("\nstate = weights, gradients and optimizer in fp32; N x N x H = scores of one block if attention were materialised\n");
    return Ok{};
}

std::string shapeText(const std::vector<int64_t>& shape)
{
    return fmt::format("[{}]", fmt::join(shape, ", "));
}

void printParameters(const ModelSpec& model, const Counts& counts)
{
    const auto layerName = [&](int64_t layer) {
        return layer == 0 ? std::string("embed") : layer == model.blocks + 1 ? std::string("head") : fmt::format("block {}", layer - 1);
    };
    fmt::print("\n{} parameters on {} ({} nodes, {} features); {} of weights, gradients and optimizer in fp32\n", counts.parameters,
               counts.set.name, counts.set.nodes, counts.set.featureWidth, bytesText(counts.stateBytes));
    if (counts.denseBytes > 0)
        fmt::print("scores of one block, if materialised: {} x {} x {} x 4 B = {}\n", model.heads, counts.set.nodes, counts.set.nodes,
                   bytesText(counts.denseBytes));
    for (const ParameterSpec& parameter : counts.layout)
        fmt::print("  {:<9} {:<36} {:<16} {:>9}\n", layerName(parameter.layer), parameter.name, shapeText(parameter.shape), parameter.elements());
}

Result<Ok> show(const State& state, bool json)
{
    MEGAGRAPH_TRY(ModelSpec model, loadModel(state.name, resourcesFolder()));
    for (const std::string& assignment : state.set) {
        MEGAGRAPH_TRY(ModelSpec changed, setModelValue(model, assignment, false));
        model = std::move(changed);
    }
    if (json) {
        fmt::print("{}\n", modelToJson(model).dump());
        return Ok{};
    }
    MEGAGRAPH_TRY(const Counts counts, countsOf(model, state.data));
    fmt::print("{}\n", modelToJson(model).dump(2));
    printParameters(model, counts);
    return Ok{};
}

} // namespace

Verb addModel(CLI::App& root, Invocation& invocation)
{
    auto state = std::make_shared<State>();
    CLI::App* app = root.add_subcommand("model", "List the model presets with parameter and memory counts, or show one");
    app->add_option("--data", state->data, "count for this set of the library (default: the set the preset was made for)");
    app->add_flag("--json", invocation.json, "one JSON document");
    state->show = app->add_subcommand("show", "Show a preset or a model.json: its keys and its parameters");
    state->show->add_option("name", state->name, "preset or path to a model.json")->required();
    state->show->add_option("--set", state->set, "change one key first, KEY=VALUE; may be given several times");
    state->show->add_option("--data", state->data, "count for this set of the library");
    state->show->add_flag("--json", invocation.json, "model.json itself, to start a model file of your own");
    app->footer("Examples:\n  megagraph model\n  megagraph model show graphormer-cora --json > my-model.json");
    return {app, [state, &invocation] {
                const auto done = state->show->parsed() ? show(*state, invocation.json) : list(*state, invocation.json);
                return done ? 0 : report(done.error(), invocation.json);
            }};
}

} // namespace megagraph::app
