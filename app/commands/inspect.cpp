// SPDX-License-Identifier: Apache-2.0
#include "app/commands/import_options.h"
#include "core/io/dataset.h"
#include "core/places.h"

#include <filesystem>
#include <fmt/format.h>
#include <memory>
#include <tuple>

namespace megagraph::app {

namespace {

struct State { ImportOptions options; std::string target, memory; bool full = false, verify = false; int64_t head = 0; };

void printLines(const Json& lines)
{
    for (const auto& line : lines)
        if (line.is_string())
            fmt::print("{}\n", line.get<std::string>());
}

void printHead(const Dataset& dataset, int64_t rows)
{
    for (int64_t r = 0; r < std::min(rows, dataset.nodes()); ++r) {
        const auto begin = static_cast<size_t>(dataset.indptr()[static_cast<size_t>(r)]), end = static_cast<size_t>(dataset.indptr()[static_cast<size_t>(r) + 1]);
        std::string line = fmt::format("  node {} degree {}:", r, end - begin);
        for (size_t e = begin; e < std::min(end, begin + 12); ++e)
            line += fmt::format(" {}", dataset.indices()[e]);
        if (!dataset.classLabels().empty()) {
            const int32_t label = dataset.classLabels()[static_cast<size_t>(r)];
            line += "   label " + (label < 0 ? std::string("missing") : dataset.spec().classes[static_cast<size_t>(label)]);
        } else if (!dataset.realLabels().empty()) {
            line += fmt::format("   label {}", dataset.realLabels()[static_cast<size_t>(r)]);
        }
        fmt::print("{}\n", line);
    }
}

/// A set of the library: dataset.json with --json, else the stored report.
Result<Ok> inspectStored(const State& state, const Invocation& invocation, const std::string& folder)
{
    MEGAGRAPH_TRY(const auto dataset, Dataset::open(folder));
    if (state.verify) {
        MEGAGRAPH_TRY(std::ignore, verifyDataset(dataset));
    }
    if (invocation.json) {
        fmt::print("{}\n", datasetToJson(dataset.spec()).dump());
        return Ok{};
    }
    MEGAGRAPH_TRY(const auto document, readJsonFile(folder + "/report.json"));
    if (document.contains("text"))
        printLines(document["text"]);
    const DatasetSpec& spec = dataset.spec();
    fmt::print("  content {}\n  structure {}\n  stored in {}\n", spec.contentHash, spec.structureHash, folder);
    if (state.verify)
        fmt::print("  verified: {} arrays match their hashes\n", spec.arrays.size());
    printHead(dataset, state.head);
    return Ok{};
}

Result<Ok> inspectPath(State& state, const Invocation& invocation)
{
    MEGAGRAPH_TRY(std::ignore, takeMemory(state.memory, state.options));
    const auto show = [&](const std::string& what, int64_t done, int64_t total) { progress(invocation, what, done, total); };
    MEGAGRAPH_TRY(const auto report, inspectSource(state.target, state.options, state.full, show, invocation.stop));
    if (invocation.json) {
        fmt::print("{}\n", report.document.dump());
        return Ok{};
    }
    for (const std::string& line : report.text)
        fmt::print("{}\n", line);
    return Ok{};
}

int run(State& state, const Invocation& invocation)
{
    std::error_code ignored;
    const std::string folder = datasetFolder(homeFolder(), state.target);
    const bool plainName = state.target.find('/') == std::string::npos && !state.target.starts_with(".");
    const bool stored = plainName && std::filesystem::exists(folder + "/dataset.json", ignored);
    const bool canonical = std::filesystem::exists(state.target + "/dataset.json", ignored);
    if (!stored && !canonical && plainName && !std::filesystem::exists(state.target, ignored))
        return report({ErrorCode::NotFound, fmt::format("{}: neither a set of the library ({}) nor a path; import it with `megagraph import PATH --name {}`",
                                                        state.target, folder, state.target)},
                      invocation.json);
    const auto done = stored      ? inspectStored(state, invocation, folder)
                      : canonical ? inspectStored(state, invocation, state.target)
                                  : inspectPath(state, invocation);
    return done ? 0 : report(done.error(), invocation.json);
}

} // namespace

Verb addInspect(CLI::App& root, Invocation& invocation)
{
    auto state = std::make_shared<State>();
    CLI::App* app = root.add_subcommand("inspect", "Show a set of the library, or what a file or folder is and how it would be imported");
    app->add_option("target", state->target, "name of a set, or a path")->required();
    app->add_flag("--verify", state->verify, "check every array of a stored set against its hash");
    app->add_flag("--full", state->full, "read a source completely and count, instead of a quick look; writes nothing");
    app->add_option("--head", state->head, "show so many nodes of a stored set")->capture_default_str();
    addDecisionOptions(*app, state->options, state->memory);
    app->add_flag("--json", invocation.json, "dataset.json of a stored set, or the inspection of a source, as one JSON document");
    app->add_flag("--events", invocation.events, "progress as JSON lines on stderr");
    app->footer("Example:\n  megagraph inspect cora --json");
    return {app, [state, &invocation] { return run(*state, invocation); }};
}

} // namespace megagraph::app
