// SPDX-License-Identifier: Apache-2.0
#include "core/io/import.h"

#include "core/io/canonical_writer.h"
#include "core/io/import_checks.h"
#include "core/io/labels.h"
#include "core/io/readers.h"
#include "core/places.h"
#include "core/units.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <sys/statvfs.h>
#include <tuple>

namespace megagraph {

namespace {

Result<Ok> checkOptions(const ImportOptions& options)
{
    const auto choice = [](const std::string& value, const char* option, std::initializer_list<const char*> allowed) -> Result<Ok> {
        std::string list;
        for (const char* name : allowed) {
            if (value == name)
                return Ok{};
            list += (list.empty() ? "" : ", ") + std::string(name);
        }
        return Error{ErrorCode::Usage, fmt::format("{}: unknown value, got {}, expected one of {}; correct the option", option, value, list)};
    };
    MEGAGRAPH_TRY(std::ignore, choice(options.format, "--format", {"auto", "ogb-raw", "npz"}));
    MEGAGRAPH_TRY(std::ignore, choice(options.direction, "--direction", {"mirror", "keep"}));
    MEGAGRAPH_TRY(std::ignore, choice(options.selfLoops, "--self-loops", {"drop", "keep"}));
    MEGAGRAPH_TRY(std::ignore, choice(options.task, "--task", {"auto", "classification", "regression"}));
    if (!options.split.empty()) {
        MEGAGRAPH_TRY(std::ignore, parseSplitRequest(options.split));
    }
    return Ok{};
}

Result<RawGraph> readSource(const Recognised& source, const ImportRun& run)
{
    return source.format == "npz" ? readNpz(source.path, run) : readOgbRaw(source.path, run);
}

/// The imported splits stay; a random one is made when there is none, and put first when it was asked for.
Result<Ok> decideSplits(PreparedGraph& p, const ImportOptions& options)
{
    const bool asked = !options.split.empty();
    if (p.labels.kind == "none" || (!asked && !p.raw.splits.empty())) {
        if (!p.raw.splits.empty())
            p.spec.decisions.push_back({"split", p.raw.splits[0].name, fmt::format("the source has {} split{}; the first is the default",
                                                                                  p.raw.splits.size(), p.raw.splits.size() > 1 ? "s" : ""), "default"});
        return Ok{};
    }
    const std::string text = asked ? options.split : "random:60/20/20:0";
    MEGAGRAPH_TRY(const auto request, parseSplitRequest(text));
    std::vector<int32_t> strata = p.labels.classes;
    for (const float value : p.labels.real)
        strata.push_back(value == value ? 0 : -1);
    const auto classes = p.labels.kind == "classification" ? static_cast<int64_t>(p.labels.names.size()) : 1;
    p.raw.splits.insert(p.raw.splits.begin(), RawSplit{text, randomSplit(strata, classes, request)});
    p.spec.decisions.push_back({"split", text, asked ? "asked for" : "the source has no split; drawn by class, the same on every machine",
                                asked ? "option" : "default"});
    return Ok{};
}

void fillSpec(PreparedGraph& p)
{
    DatasetSpec& spec = p.spec;
    const Structure& s = p.structure;
    spec.nodes = p.raw.nodes;
    spec.entries = static_cast<int64_t>(s.indices.size());
    spec.undirectedEdges = s.undirectedEdges;
    spec.directed = s.directedEdges > 0 && s.directedEdges != s.reciprocalLines;
    spec.selfLoops = s.keptLoops;
    spec.components = s.components;
    spec.isolatedNodes = s.isolated;
    if (p.raw.hasFeatures) {
        const FeatureTable& f = p.raw.features;
        spec.featureKind = f.isDense() ? "dense" : "sparse";
        spec.featureWidth = f.width();
        spec.featureNonzeros = f.nonzeros();
        spec.featureValues = f.allOnes() ? "ones" : "float32";
    }
    spec.taskLevel = "node";
    spec.taskKind = p.labels.kind;
    spec.tasks = p.labels.kind == "none" ? 0 : 1;
    spec.labelledItems = p.labels.labelled;
    spec.classes = p.labels.names;
    for (const RawSplit& split : p.raw.splits) {
        const SplitCounts c = countSplit(split.bits);
        spec.splits.push_back({split.name, "splits/" + safeName(split.name) + ".npy", c.train, c.valid, c.test, c.none});
    }
    spec.sourceFormat = p.raw.format;
    spec.sourceFiles = p.raw.files;
}

Result<PreparedGraph> prepare(RawGraph raw, const ImportRun& run)
{
    PreparedGraph p;
    p.raw = std::move(raw);
    p.spec.name = run.options.name;
    MEGAGRAPH_TRY(p.labels, decideLabels(p.raw.labels, p.raw.splits, run.options));
    MEGAGRAPH_TRY(p.structure, buildStructure(p.raw.nodes, p.raw.sources, p.raw.targets, run));
    p.spec.decisions = p.raw.decisions;
    addStructureDecisions(p, run.options);
    p.spec.decisions.insert(p.spec.decisions.end(), p.labels.decisions.begin(), p.labels.decisions.end());
    MEGAGRAPH_TRY(std::ignore, decideSplits(p, run.options));
    fillSpec(p);
    addChecks(p);
    if (run.options.strict)
        for (const Finding& finding : p.raw.findings)
            if (finding.defect)
                return Error{ErrorCode::InvalidInput, fmt::format("{}: --strict: {}: got {}{}, expected none; correct the source, or leave --strict out",
                                                                  p.spec.name, finding.check, finding.count,
                                                                  finding.first.empty() ? "" : " (first: " + finding.first + ")")};
    return p;
}

ImportReport reportOf(const PreparedGraph& p, const std::string& folder)
{
    ImportReport report;
    report.spec = p.spec;
    report.text = reportText(p);
    report.document = reportDocument(p, report.text);
    report.folder = folder;
    return report;
}

Result<Ok> checkDisk(const PreparedGraph& p, const std::string& home)
{
    const FeatureTable& f = p.raw.features;
    const auto bytes = static_cast<int64_t>(p.structure.indptr.size() * 8 + p.structure.indices.size() * 4 + f.dense().size_bytes() +
                                            f.indptr().size_bytes() + f.indices().size_bytes() + f.values().size_bytes() +
                                            p.labels.classes.size() * 4 + p.labels.real.size() * 4) +
                       static_cast<int64_t>(p.raw.splits.size()) * p.raw.nodes + (1 << 20);
    struct statvfs disk {};
    if (::statvfs((home + "/datasets").c_str(), &disk) != 0)
        return Ok{}; // the write itself reports a broken disk
    const auto room = static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize);
    if (room < static_cast<double>(bytes))
        return Error{ErrorCode::Io, fmt::format("{}/datasets: not enough disk space, got {}, expected {}; free some, or set MEGAGRAPH_HOME to "
                                                "another disk", home, bytesText(static_cast<int64_t>(room)), bytesText(bytes))};
    return Ok{};
}

Result<Ok> writeFeatures(CanonicalWriter& writer, const FeatureTable& f, int64_t nodes)
{
    if (f.isDense())
        return writer.array<float>("features.npy", "<f4", {nodes, f.width()}, f.dense());
    const auto entries = static_cast<int64_t>(f.indices().size());
    MEGAGRAPH_TRY(std::ignore, writer.array<int64_t>("features_indptr.npy", "<i8", {nodes + 1}, f.indptr()));
    MEGAGRAPH_TRY(std::ignore, writer.array<int32_t>("features_indices.npy", "<i4", {entries}, f.indices()));
    if (f.allOnes())
        return Ok{};
    return writer.array<float>("features_values.npy", "<f4", {entries}, f.values());
}

Result<Ok> writeNames(CanonicalWriter& writer, const std::vector<std::string>& names)
{
    std::vector<int64_t> offsets{0};
    std::vector<uint8_t> text;
    for (const std::string& name : names) {
        text.insert(text.end(), name.begin(), name.end());
        offsets.push_back(static_cast<int64_t>(text.size()));
    }
    MEGAGRAPH_TRY(std::ignore, writer.array<uint8_t>("original_ids_text.npy", "|u1", {offsets.back()}, std::span<const uint8_t>(text)));
    return writer.array<int64_t>("original_ids_offsets.npy", "<i8", {static_cast<int64_t>(offsets.size())}, std::span<const int64_t>(offsets));
}

Result<Ok> writeArrays(CanonicalWriter& writer, const PreparedGraph& p, const ImportRun& run)
{
    const int64_t n = p.raw.nodes;
    MEGAGRAPH_TRY(std::ignore, run.tick("writing", 0, 0));
    MEGAGRAPH_TRY(std::ignore, writer.array<int64_t>("indptr.npy", "<i8", {n + 1}, p.structure.indptr));
    MEGAGRAPH_TRY(std::ignore, writer.array<int32_t>("indices.npy", "<i4", {p.spec.entries}, p.structure.indices));
    if (p.raw.hasFeatures) {
        MEGAGRAPH_TRY(std::ignore, run.tick("writing features", 0, 0));
        MEGAGRAPH_TRY(std::ignore, writeFeatures(writer, p.raw.features, n));
    }
    if (p.labels.kind == "classification") {
        MEGAGRAPH_TRY(std::ignore, writer.array<int32_t>("labels.npy", "<i4", {n}, p.labels.classes));
    } else if (p.labels.kind == "regression") {
        MEGAGRAPH_TRY(std::ignore, writer.array<float>("labels.npy", "<f4", {n, 1}, p.labels.real));
    }
    for (size_t i = 0; i < p.raw.splits.size(); ++i) {
        MEGAGRAPH_TRY(std::ignore, writer.array<uint8_t>(p.spec.splits[i].file, "|u1", {n}, p.raw.splits[i].bits));
    }
    if (!p.raw.nodeNames.empty()) {
        MEGAGRAPH_TRY(std::ignore, writeNames(writer, p.raw.nodeNames));
    }
    return run.tick("writing", 1, 1);
}

Result<Ok> checkNameIsFree(const ImportOptions& options, const std::string& home)
{
    MEGAGRAPH_TRY(std::ignore, checkDatasetName(options.name));
    std::error_code ignored;
    const std::string folder = datasetFolder(home, options.name);
    if (options.replace || !std::filesystem::exists(std::filesystem::symlink_status(folder, ignored)))
        return Ok{};
    return Error{ErrorCode::Refused, fmt::format("{}: a data set named {} exists already; choose another --name, or write over it with --replace",
                                                 folder, options.name)};
}

} // namespace

Result<ImportReport> storeGraph(RawGraph graph, const ImportRun& run, const std::string& home)
{
    MEGAGRAPH_TRY(auto p, prepare(std::move(graph), run));
    MEGAGRAPH_TRY(auto writer, CanonicalWriter::begin(home, run.options.name, run.options.replace));
    MEGAGRAPH_TRY(std::ignore, checkDisk(p, home));
    MEGAGRAPH_TRY(std::ignore, writeArrays(writer, p, run));
    ImportReport report = reportOf(p, "");
    MEGAGRAPH_TRY(report.folder, writer.commit(report.spec, report.document));
    return report;
}

Result<ImportReport> importDataset(const std::string& path, const ImportOptions& options, const std::string& home,
                                   ImportProgress progress, std::stop_token stop)
{
    const ImportRun run{options, std::move(progress), stop};
    MEGAGRAPH_TRY(std::ignore, checkOptions(options));
    MEGAGRAPH_TRY(std::ignore, checkNameIsFree(options, home));
    MEGAGRAPH_TRY(const auto source, recogniseSource(path, options.format));
    try {
        MEGAGRAPH_TRY(auto graph, readSource(source, run));
        graph.decisions.insert(graph.decisions.begin(), {"format", source.format, source.why, options.format == "auto" ? "default" : "option"});
        return storeGraph(std::move(graph), run, home);
    } catch (const std::bad_alloc&) {
        return Error{ErrorCode::OutOfMemory, fmt::format("{}: memory ran out while importing, the budget is {}; free memory or give less data", path,
                                                         bytesText(memoryBudget(options)))};
    }
}

Result<ImportReport> inspectSource(const std::string& path, const ImportOptions& options, bool full, ImportProgress progress,
                                   std::stop_token stop)
{
    const ImportRun run{options, std::move(progress), stop};
    MEGAGRAPH_TRY(std::ignore, checkOptions(options));
    MEGAGRAPH_TRY(const auto source, recogniseSource(path, options.format));
    if (full) {
        MEGAGRAPH_TRY(auto graph, readSource(source, run));
        MEGAGRAPH_TRY(const auto p, prepare(std::move(graph), run));
        return reportOf(p, "");
    }
    MEGAGRAPH_TRY(const auto facts, source.format == "npz" ? glanceNpz(source.path, options.allowRatio) : glanceOgbRaw(source.path));
    ImportReport report;
    report.spec.sourceFormat = source.format;
    report.text.push_back(fmt::format("{}   {} ({})", path, source.format, source.why));
    Json shown = Json::array();
    for (const auto& fact : facts) {
        report.text.push_back(fmt::format("  {} {}", fact.what, fact.value));
        shown.push_back({{"what", fact.what}, {"value", fact.value}});
    }
    Json decisions = Json::array();
    for (const auto& [id, value, why] : defaultDecisions(options)) {
        decisions.push_back({{"id", id}, {"value", value}, {"why", why}, {"option", decisionOption(id)}});
        const std::string option = decisionOption(id);
        report.text.push_back(fmt::format("  would decide {} = {} ({}{}{})", id, value, why, option.empty() ? "" : "; ", option));
    }
    report.text.push_back("  --full reads everything, counts and checks; nothing is written");
    report.document = {{"format", "megagraph.inspection"}, {"version", 1}, {"source", {{"format", source.format}, {"why", source.why}}},
                       {"facts", shown}, {"decisions", decisions}};
    return report;
}

} // namespace megagraph
