// SPDX-License-Identifier: Apache-2.0
#include "core/io/import_checks.h"

#include "core/io/text_number.h"

#include <algorithm>
#include <fmt/format.h>

namespace megagraph {

namespace {

std::string edgePlace(const RawGraph& raw, int64_t index)
{
    return fmt::format("{} {} {}: {} {}", raw.edgeFile, raw.edgeUnit, index + raw.firstEdgeNumber, raw.sources[static_cast<size_t>(index)],
                       raw.targets[static_cast<size_t>(index)]);
}

std::string percent(int64_t part, int64_t whole)
{
    return whole > 0 ? fmt::format("{:.1f} %", 100.0 * static_cast<double>(part) / static_cast<double>(whole)) : "0 %";
}

void addFeatureChecks(PreparedGraph& p)
{
    const FeatureTable& f = p.raw.features;
    const auto add = [&](const char* check, const FeatureTable::Place& place, const char* action, bool defect) {
        if (place.count == 0)
            return;
        const std::string first = place.row < 0 ? fmt::format("column {}", place.column)
                                  : place.column < 0 ? fmt::format("node {}", place.row) : fmt::format("node {} column {}", place.row, place.column);
        p.raw.findings.push_back({check, place.count, first, action, defect});
    };
    add("NaN in features", f.notANumber(), "kept; training on them is refused", true);
    add("infinite features", f.infinite(), "kept; training on them is refused", true);
    add("rows without a feature", f.zeroRows(), "kept as zeros", false);
    add("columns without a feature", f.zeroColumns(), "kept as zeros", false);
    add("repeated feature entries", f.repeated(), "added up", true);
    add("feature entries of value 0", f.explicitZeros(), "dropped", false);
}

std::string classList(const PreparedGraph& p, const std::vector<size_t>& classes)
{
    std::string text;
    for (size_t i = 0; i < classes.size() && i < 5; ++i)
        text += (i ? ", " : "") + p.labels.names[classes[i]];
    return text + (classes.size() > 5 ? " ..." : "");
}

std::vector<size_t> classesWithoutTraining(const PreparedGraph& p, const RawSplit& split)
{
    std::vector<bool> seen(p.labels.names.size(), false);
    for (size_t i = 0; i < p.labels.classes.size(); ++i)
        if (p.labels.classes[i] >= 0 && (split.bits[i] & 1))
            seen[static_cast<size_t>(p.labels.classes[i])] = true;
    std::vector<size_t> absent;
    for (size_t c = 0; c < seen.size(); ++c)
        if (!seen[c])
            absent.push_back(c);
    return absent;
}

void addLabelChecks(PreparedGraph& p)
{
    auto& findings = p.raw.findings;
    const int64_t missing = p.raw.nodes - p.labels.labelled;
    if (p.labels.kind != "none" && missing > 0)
        findings.push_back({"nodes without label", missing, fmt::format("node {}", p.labels.firstMissing), "left out of loss and metrics", false});
    std::vector<size_t> small;
    for (size_t c = 0; c < p.labels.perClass.size(); ++c)
        if (p.labels.perClass[c] < 3)
            small.push_back(c);
    if (!small.empty())
        findings.push_back({"classes with fewer than 3 items", static_cast<int64_t>(small.size()), classList(p, small), "a random split puts them into train",
                            true});
    const int64_t most = p.labels.perClass.empty() ? 0 : *std::max_element(p.labels.perClass.begin(), p.labels.perClass.end());
    if (p.labels.names.size() == 2)
        p.spec.decisions.push_back({"metric", "roc_auc, accuracy", "two classes", "default"});
    else if (p.labels.kind == "classification")
        p.spec.decisions.push_back({"metric", most > 3 * *std::min_element(p.labels.perClass.begin(), p.labels.perClass.end()) ? "accuracy, macro_f1" : "accuracy",
                                    fmt::format("{} classes", p.labels.names.size()), "default"});
    else if (p.labels.kind == "regression")
        p.spec.decisions.push_back({"metric", "rmse, mae", "real targets", "default"});
}

void addSplitChecks(PreparedGraph& p)
{
    for (const RawSplit& split : p.raw.splits) {
        const SplitCounts c = countSplit(split.bits);
        const auto add = [&](const std::string& check, int64_t count, const std::string& first, const char* action) {
            if (count > 0)
                p.raw.findings.push_back({check + " in split " + split.name, count, first, action, true});
        };
        add("overlap", c.overlap, fmt::format("node {}", c.firstOverlap), "kept as published");
        add("empty parts", (c.train == 0) + (c.valid == 0) + (c.test == 0), "", "kept as published");
        int64_t unlabelled = 0, first = -1;
        for (size_t i = 0; i < split.bits.size() && p.labels.kind == "classification"; ++i)
            if (split.bits[i] != 0 && p.labels.classes[i] < 0 && unlabelled++ == 0)
                first = static_cast<int64_t>(i);
        add("nodes without label", unlabelled, fmt::format("node {}", first), "left out of loss and metrics");
        const auto absent = classesWithoutTraining(p, split);
        add("classes without a training item", static_cast<int64_t>(absent.size()), classList(p, absent), "kept as published");
    }
}

std::string featureText(const PreparedGraph& p)
{
    if (!p.raw.hasFeatures)
        return "no features (degree stands in)";
    const FeatureTable& f = p.raw.features;
    return fmt::format("features {}, {} {}, kept {}", f.width(), f.nonzeros(), f.allOnes() ? "ones" : "non-zero", f.isDense() ? "dense" : "sparse");
}

std::string taskText(const PreparedGraph& p)
{
    if (p.labels.kind == "none")
        return "no labels";
    const std::string share = percent(p.labels.labelled, p.raw.nodes) + " labelled";
    return p.labels.kind == "regression" ? "node regression, " + share
                                         : fmt::format("node classification, {} classes, {}", p.labels.names.size(), share);
}

std::string directionText(const PreparedGraph& p)
{
    for (const auto& decision : p.spec.decisions)
        if (decision.id == "direction")
            return decision.value == "mirror" ? decision.why + "; mirrored (--direction keep leaves them as stored)"
                                              : decision.why + "; kept as stored (--direction mirror adds the reverses)";
    return "";
}

} // namespace

std::string decisionOption(const std::string& id)
{
    static constexpr std::pair<const char*, const char*> kOptions[] = {
        {"direction", "--direction mirror|keep"}, {"self_loops", "--self-loops drop|keep"}, {"task", "--task classification|regression"},
        {"missing", "--missing VALUE"}, {"split", "--split random:60/20/20:0"}, {"format", "--format ogb-raw|npz"}, {"scope", "--structure-only"}};
    for (const auto& [name, option] : kOptions)
        if (id == name)
            return option;
    return "";
}

std::vector<DefaultDecision> defaultDecisions(const ImportOptions& options)
{
    return {{"direction", options.direction, "missing reverse edges are added, because citation graphs used as stored train far below their published accuracy"},
            {"self_loops", options.selfLoops, "loops are a model option"},
            {"repeats", "first", "repeated edges are merged and counted"},
            {"task", options.task, "whole numbers with few different values are classes, other numbers real targets"},
            {"split", options.split.empty() ? "imported, else random:60/20/20:0" : options.split, "published splits are kept"}};
}

void addStructureDecisions(PreparedGraph& p, const ImportOptions& options)
{
    const Structure& s = p.structure;
    const auto by = [](bool isDefault) { return std::string(isDefault ? "default" : "option"); };
    const std::string share = s.reciprocalLines == 0 ? "no edge occurs in both directions"
                                                     : percent(s.reciprocalLines, s.lines) + " of the lines had their reverse";
    p.spec.decisions.push_back({"direction", options.direction, share, by(options.direction == "mirror")});
    p.spec.decisions.push_back({"self_loops", options.selfLoops, fmt::format("{} self-loop lines", s.loopLines), by(options.selfLoops == "drop")});
    p.spec.decisions.push_back({"repeats", "first", fmt::format("{} repeated lines", s.repeatedLines), "default"});
    if (options.structureOnly)
        p.spec.decisions.push_back({"scope", "structure", "asked for", "option"});
    if (p.raw.hasFeatures)
        p.spec.decisions.push_back({"features", p.raw.features.isDense() ? "dense" : "sparse",
                                    fmt::format("{} of {} values are not zero", p.raw.features.nonzeros(), p.raw.features.width() * p.raw.nodes), "default"});
}

void addChecks(PreparedGraph& p)
{
    const Structure& s = p.structure;
    auto& findings = p.raw.findings;
    if (s.loopLines > 0)
        findings.push_back({"self-loop lines", s.loopLines, edgePlace(p.raw, s.firstLoop), s.keptLoops > 0 ? "kept" : "dropped from the structure", true});
    if (s.repeatedLines > 0)
        findings.push_back({"repeated lines", s.repeatedLines, edgePlace(p.raw, s.firstRepeat), "merged to the first", true});
    if (s.isolated > 0)
        findings.push_back({"isolated nodes", s.isolated, fmt::format("node {}", s.firstIsolated), "kept", false});
    if (p.raw.hasFeatures)
        addFeatureChecks(p);
    addLabelChecks(p);
    addSplitChecks(p);
}

std::vector<std::string> reportText(const PreparedGraph& p)
{
    const Structure& s = p.structure;
    std::vector<std::string> text;
    text.push_back(fmt::format("{}   {}   {} nodes ({})   {}", p.spec.name.empty() ? "source" : p.spec.name, p.raw.kindText, p.raw.nodes,
                               p.raw.nodesFrom, taskText(p)));
    text.push_back(fmt::format("  lines {} -> {} self-loop{} {}, {} repeat{} -> {} undirected edges ({} entries)", s.lines, s.loopLines,
                               s.loopLines == 1 ? "" : "s", s.keptLoops > 0 ? "kept" : "dropped", s.repeatedLines, s.repeatedLines == 1 ? "" : "s",
                               s.undirectedEdges, s.indices.size()));
    text.push_back("  direction " + directionText(p));
    text.push_back(fmt::format("  isolated {}   components {} (largest {})   largest degree {}   {}", s.isolated, s.components, s.largestComponent,
                               s.largestDegree, featureText(p)));
    for (size_t i = 0; i < p.raw.splits.size(); ++i) {
        const SplitCounts c = countSplit(p.raw.splits[i].bits);
        const auto absent = classesWithoutTraining(p, p.raw.splits[i]);
        text.push_back(fmt::format("  split {}   train {}  valid {}  test {}  none {}  overlap {}{}", p.raw.splits[i].name, c.train, c.valid, c.test,
                                   c.none, c.overlap,
                                   p.labels.kind == "classification" ? "   classes without a training item: " + (absent.empty() ? "none" : classList(p, absent))
                                                                     : ""));
    }
    for (const Finding& finding : p.raw.findings)
        text.push_back(fmt::format("  check {}: {}{}: {}", finding.check, finding.count, finding.first.empty() ? "" : " (first: " + finding.first + ")",
                                   finding.action));
    for (const auto& d : p.spec.decisions) {
        const std::string option = decisionOption(d.id);
        text.push_back(fmt::format("  decided {} = {} ({}{}{})", d.id, d.value, d.why, option.empty() ? "" : "; ", option));
    }
    return text;
}

Json reportDocument(const PreparedGraph& p, const std::vector<std::string>& text)
{
    const Structure& s = p.structure;
    Json checks = Json::array(), decisions = Json::array(), splits = Json::array(), perClass = Json::array();
    for (const Finding& f : p.raw.findings)
        checks.push_back({{"check", f.check}, {"count", f.count}, {"first", f.first}, {"action", f.action}});
    for (const auto& d : p.spec.decisions)
        decisions.push_back({{"id", d.id}, {"value", d.value}, {"why", d.why}, {"by", d.by}, {"option", decisionOption(d.id)}});
    for (const RawSplit& split : p.raw.splits) {
        const SplitCounts c = countSplit(split.bits);
        splits.push_back({{"name", split.name}, {"train", c.train}, {"valid", c.valid}, {"test", c.test}, {"none", c.none}, {"overlap", c.overlap}});
    }
    for (size_t c = 0; c < p.labels.perClass.size(); ++c)
        perClass.push_back({{"class", p.labels.names[c]}, {"items", p.labels.perClass[c]}});
    const FeatureTable& f = p.raw.features;
    return {{"format", "megagraph.import_report"}, {"version", 1}, {"name", p.spec.name}, {"source", p.raw.kindText},
            {"nodes", p.raw.nodes}, {"nodes_from", p.raw.nodesFrom}, {"lines", s.lines}, {"loop_lines", s.loopLines},
            {"repeated_lines", s.repeatedLines}, {"reciprocal_lines", s.reciprocalLines}, {"undirected_edges", s.undirectedEdges},
            {"entries", s.indices.size()}, {"components", s.components}, {"largest_component", s.largestComponent},
            {"isolated_nodes", s.isolated}, {"largest_degree", s.largestDegree}, {"largest_degree_node", s.largestDegreeNode},
            {"features", {{"width", f.width()}, {"nonzeros", f.nonzeros()}, {"kind", p.spec.featureKind}, {"zero_rows", f.zeroRows().count},
                          {"nan", f.notANumber().count}, {"infinite", f.infinite().count}}},
            {"labels", {{"kind", p.labels.kind}, {"labelled", p.labels.labelled}, {"missing", p.labels.kind == "none" ? 0 : p.raw.nodes - p.labels.labelled},
                        {"classes", perClass}}},
            {"splits", splits}, {"checks", checks}, {"decisions", decisions}, {"text", text}};
}

} // namespace megagraph
