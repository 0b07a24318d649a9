// SPDX-License-Identifier: Apache-2.0
#include "app/commands/import_options.h"
#include "core/places.h"
#include "core/store/library.h"
#include "core/units.h"

#include <fmt/format.h>
#include <memory>
#include <tuple>

namespace megagraph::app {

void addDecisionOptions(CLI::App& app, ImportOptions& options, std::string& memory)
{
    app.add_option("--format", options.format, "auto, ogb-raw or npz; auto looks at the content")->capture_default_str();
    app.add_option("--direction", options.direction, "mirror adds missing reverse edges, keep stores them as they are")->capture_default_str();
    app.add_option("--self-loops", options.selfLoops, "drop or keep")->capture_default_str();
    app.add_option("--task", options.task, "auto, classification or regression")->capture_default_str();
    app.add_option("--missing", options.missing, "the label that means no label (default: nan, empty, and -1 where it can be nothing else)");
    app.add_option("--split", options.split, "random:TRAIN/VALID/TEST:SEED; default: the imported splits, else random:60/20/20:0");
    app.add_option("--memory", memory, "memory the import may use, e.g. 8GiB (default: half of what is free)");
    app.add_flag("--structure-only", options.structureOnly, "leave features, labels and splits out");
    app.add_flag("--strict", options.strict, "refuse what would only be reported");
    app.add_flag("--allow-ratio", options.allowRatio, "accept an archive that expands more than 200 times");
}

Result<Ok> takeMemory(const std::string& memory, ImportOptions& options)
{
    if (memory.empty())
        return Ok{};
    auto bytes = parseBytes(memory);
    if (!bytes)
        return Error{ErrorCode::Usage, "--memory: " + bytes.error().message};
    options.memoryBytes = *bytes;
    return Ok{};
}

Result<Ok> noteInLibrary(const ImportReport& report, const std::string& home)
{
    MEGAGRAPH_TRY(auto library, Library::open(home));
    return library.saveDataset(report.spec, report.folder);
}

int finishImport(const Result<ImportReport>& report, const std::string& home, const Invocation& invocation)
{
    if (!report)
        return app::report(report.error(), invocation.json);
    if (invocation.json) {
        Json document = report->document;
        document["folder"] = report->folder;
        document["content_hash"] = report->spec.contentHash;
        document["structure_hash"] = report->spec.structureHash;
        fmt::print("{}\n", document.dump());
    } else {
        for (const std::string& line : report->text)
            fmt::print("{}\n", line);
        fmt::print("  content {}\n  structure {}\n  stored in {}\n", report->spec.contentHash, report->spec.structureHash, report->folder);
    }
    if (const auto noted = noteInLibrary(*report, home); !noted)
        fmt::print(stderr, "megagraph: the set is stored, but the library does not list it: {}; run megagraph library rebuild\n",
                   noted.error().message);
    return 0;
}

Verb addImport(CLI::App& root, Invocation& invocation)
{
    struct State { ImportOptions options; std::string path, memory; };
    auto state = std::make_shared<State>();
    CLI::App* app = root.add_subcommand("import", "Import a graph into the library");
    app->add_option("path", state->path, "folder (ogb-raw) or file (.npz)")->required();
    app->add_option("--name", state->options.name, "name of the set in the library")->required();
    app->add_flag("--replace", state->options.replace, "write over a set of the same name");
    addDecisionOptions(*app, state->options, state->memory);
    app->add_flag("--json", invocation.json, "the report as one JSON document on stdout");
    app->add_flag("--events", invocation.events, "progress as JSON lines on stderr");
    app->footer("Example:\n  megagraph import ../shared/data/cora-ogb --name cora");
    return {app, [state, &invocation] {
                if (const auto taken = takeMemory(state->memory, state->options); !taken)
                    return report(taken.error(), invocation.json);
                const std::string home = homeFolder();
                const auto result = importDataset(
                    state->path, state->options, home,
                    [&](const std::string& what, int64_t done, int64_t total) { progress(invocation, what, done, total); }, invocation.stop);
                return finishImport(result, home, invocation);
            }};
}

} // namespace megagraph::app
