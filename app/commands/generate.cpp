// SPDX-License-Identifier: Apache-2.0
#include "app/commands/import_options.h"
#include "core/io/generate.h"
#include "core/places.h"

#include <fmt/format.h>
#include <memory>
#include <tuple>

namespace megagraph::app {

namespace {

struct State { GenerateOptions options; ImportOptions store; };

Result<ImportReport> generate(const State& state, const std::string& home, const Invocation& invocation)
{
    const ImportRun run{state.store, [&](const std::string& what, int64_t done, int64_t total) { progress(invocation, what, done, total); },
                        invocation.stop};
    MEGAGRAPH_TRY(std::ignore, run.tick("drawing " + state.options.kind, 0, 0));
    MEGAGRAPH_TRY(auto graph, generateGraph(state.options));
    return storeGraph(std::move(graph), run, home);
}

} // namespace

Verb addGenerate(CLI::App& root, Invocation& invocation)
{
    auto state = std::make_shared<State>();
    GenerateOptions& o = state->options;
    CLI::App* app = root.add_subcommand("generate", "Make a graph: community (the built-in sample), rmat, grid, path or star");
    app->add_option("kind", o.kind, "community, rmat, grid, path or star")->required();
    app->add_option("--name", state->store.name, "name of the set in the library")->required();
    app->add_option("--seed", o.seed, "same seed, same bytes on every machine")->capture_default_str();
    app->add_option("--nodes", o.nodes, "community, path: number of nodes")->capture_default_str();
    app->add_option("--communities", o.communities, "community: planted communities; rmat, grid, path: label classes")->capture_default_str();
    app->add_option("--degree", o.degree, "community: mean degree")->capture_default_str();
    app->add_option("--inside", o.inside, "community: percent of the edges inside communities")->capture_default_str();
    app->add_option("--features", o.features, "community: number of features")->capture_default_str();
    app->add_option("--separation", o.separation, "community: class centre per feature, in units of the noise")->capture_default_str();
    app->add_option("--scale", o.scale, "rmat: 2^scale nodes")->capture_default_str();
    app->add_option("--edge-factor", o.edgeFactor, "rmat: edges drawn per node")->capture_default_str();
    app->add_option("--rows", o.rows, "grid")->capture_default_str();
    app->add_option("--columns", o.columns, "grid")->capture_default_str();
    app->add_flag("--torus", o.torus, "grid: join opposite borders");
    app->add_option("--leaves", o.leaves, "star")->capture_default_str();
    app->add_flag("--replace", state->store.replace, "write over a set of the same name");
    app->add_flag("--json", invocation.json, "the report as one JSON document on stdout");
    app->add_flag("--events", invocation.events, "progress as JSON lines on stderr");
    app->footer("Example:\n  megagraph generate community --name sample --seed 0");
    return {app, [state, &invocation] {
                const std::string home = homeFolder();
                return finishImport(generate(*state, home, invocation), home, invocation);
            }};
}

} // namespace megagraph::app
