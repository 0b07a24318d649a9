// SPDX-License-Identifier: Apache-2.0
#include "app/commands/command.h"
#include "core/places.h"
#include "core/store/library.h"
#include "core/units.h"

#include <fmt/format.h>
#include <memory>
#include <tuple>

namespace megagraph::app {

namespace {

struct State { CLI::App* rebuild = nullptr; };

Result<Json> contents(const Library& library)
{
    MEGAGRAPH_TRY(const auto datasets, library.datasets());
    MEGAGRAPH_TRY(const auto profiles, library.profiles());
    MEGAGRAPH_TRY(const auto plans, library.plans());
    MEGAGRAPH_TRY(const auto runs, library.runs());
    Json out{{"format", "megagraph.library"}, {"version", 1}, {"home", homeFolder()}};
    for (const char* key : {"datasets", "profiles", "plans", "runs"})
        out[key] = Json::array();
    for (const DatasetRow& d : datasets)
        out["datasets"].push_back({{"name", d.name}, {"hash", d.hash}, {"path", d.path}, {"nodes", d.nodes}, {"undirected_edges", d.edges}});
    for (const ProfileRow& p : profiles)
        out["profiles"].push_back({{"id", p.id}, {"created_utc", p.createdUtc}, {"level", p.level}, {"model_signature", p.modelSignature},
                                   {"dataset_key", p.datasetKey}, {"points", p.points}, {"seconds", p.seconds}, {"note", p.note}});
    for (const PlanRow& p : plans)
        out["plans"].push_back({{"hash", p.hash}, {"name", p.name}, {"dataset", p.dataset}, {"model", p.model}});
    for (const RunRow& r : runs)
        out["runs"].push_back({{"id", r.id}, {"kind", r.kind}, {"name", r.name}, {"state", r.state}, {"created_utc", r.created},
                               {"dataset", r.dataset}, {"model", r.model}, {"world", r.world}, {"step", r.lastStep}, {"valid", r.bestMetric}});
    return out;
}

std::string word(const Json& row, const char* key)
{
    return row[key].is_string() ? row[key].get<std::string>() : row[key].dump();
}

void print(const Json& all)
{
    fmt::print("library of {}\n", word(all, "home"));
    fmt::print("\n{} data sets\n", all["datasets"].size());
    for (const Json& d : all["datasets"])
        fmt::print("  {:<20} {:>9} nodes {:>11} undirected edges  {:.12}  {}\n", word(d, "name"), word(d, "nodes"), word(d, "undirected_edges"),
                   word(d, "hash"), word(d, "path"));
    fmt::print("\n{} profiles\n", all["profiles"].size());
    for (const Json& p : all["profiles"])
        fmt::print("  {:.8}  {}  {:<8} model {}  data {:.8}  {} points  {} s\n", word(p, "id"), word(p, "created_utc"), word(p, "level"),
                   word(p, "model_signature"), word(p, "dataset_key"), word(p, "points"), word(p, "seconds"));
    fmt::print("\n{} plans\n", all["plans"].size());
    for (const Json& p : all["plans"])
        fmt::print("  {:.8}  {:<16} {:<22} {}\n", word(p, "hash"), word(p, "dataset"), word(p, "model"), word(p, "name"));
    fmt::print("\n{} runs\n", all["runs"].size());
    for (const Json& r : all["runs"])
        fmt::print("  {:<24} {:<8} {:<9} step {:>6}  {:<16} {:<22} {} ranks\n", word(r, "id"), word(r, "kind"), word(r, "state"), word(r, "step"),
                   word(r, "dataset"), word(r, "model"), word(r, "world"));
}

Result<Ok> list(bool json)
{
    MEGAGRAPH_TRY(const Library library, Library::open(homeFolder()));
    MEGAGRAPH_TRY(const Json all, contents(library));
    if (json)
        fmt::print("{}\n", all.dump());
    else
        print(all);
    return Ok{};
}

Result<Ok> rebuild(bool json)
{
    std::vector<std::string> skipped;
    MEGAGRAPH_TRY(const int64_t rows, Library::repair(homeFolder(), &skipped));
    if (json) {
        fmt::print("{}\n", Json{{"format", "megagraph.library_rebuild"}, {"version", 1}, {"rows", rows}, {"skipped", skipped}}.dump());
        return Ok{};
    }
    for (const std::string& line : skipped)
        fmt::print(stderr, "skipped: {}\n", line);
    fmt::print("{}: {} rows from runs, plans, profiles and data sets; {} notes\n", homeFolder() + "/library.db", rows, skipped.size());
    return Ok{};
}

} // namespace

Verb addLibrary(CLI::App& root, Invocation& invocation)
{
    auto state = std::make_shared<State>();
    CLI::App* app = root.add_subcommand("library", "List what the library holds, or rebuild it from the files of its folder");
    app->require_subcommand(1);
    CLI::App* listing = app->add_subcommand("list", "Data sets, profiles, plans and runs");
    listing->add_flag("--json", invocation.json, "one JSON document");
    state->rebuild = app->add_subcommand("rebuild", "Read runs, plans, profiles and data sets again; a damaged library.db is moved aside first");
    state->rebuild->add_flag("--json", invocation.json, "one JSON document");
    app->footer("Example:\n  megagraph library rebuild");
    return {app, [state, &invocation] {
                const auto done = state->rebuild->parsed() ? rebuild(invocation.json) : list(invocation.json);
                return done ? 0 : report(done.error(), invocation.json);
            }};
}

} // namespace megagraph::app
