// SPDX-License-Identifier: Apache-2.0
#include "core/dataset_spec.h"

#include <fmt/format.h>
#include <tuple>

namespace megagraph {

namespace {

constexpr int64_t kMost = int64_t(1) << 48; // far above any real count, far below overflow of products with element sizes

/// A file of the data set is named relative to its folder; an absolute name or one that climbs out is refused.
void readRelative(ObjectReader& reader, const char* key, std::string& out)
{
    reader.get(key, out);
    const bool climbs = out == ".." || out.starts_with("../") || out.find("/../") != std::string::npos || out.ends_with("/..");
    if (!out.empty() && (out.front() == '/' || climbs))
        reader.fail(key, fmt::format("outside the data set folder, got \"{}\", expected a relative path without ..", out));
}

void readChoice(ObjectReader& reader, const char* key, std::string& out, const std::vector<std::string>& names)
{
    int position = -1;
    reader.getChoice(key, position, names);
    if (position >= 0)
        out = names[static_cast<size_t>(position)];
}

void readCounts(ObjectReader& root, DatasetSpec& spec)
{
    ObjectReader counts = root.child("counts");
    counts.get("graphs", spec.graphs, 1, kMost);
    counts.get("nodes", spec.nodes, 1, kMost);
    counts.get("entries", spec.entries, 0, kMost);
    counts.get("undirected_edges", spec.undirectedEdges, 0, kMost);
    ObjectReader structure = root.child("structure");
    structure.get("directed", spec.directed);
    structure.get("self_loops", spec.selfLoops, 0, kMost);
    structure.get("multi_edges", spec.multiEdges);
    structure.get("components", spec.components, 0, kMost);
    structure.get("isolated_nodes", spec.isolatedNodes, 0, kMost);
}

void readContent(ObjectReader& root, DatasetSpec& spec)
{
    ObjectReader features = root.child("features");
    readChoice(features, "kind", spec.featureKind, {"none", "dense", "sparse"});
    features.get("width", spec.featureWidth, 0, kMost);
    readChoice(features, "values", spec.featureValues, {"", "ones", "float32", "float16"});
    features.get("nonzeros", spec.featureNonzeros, 0, kMost);
    ObjectReader task = root.child("task");
    readChoice(task, "level", spec.taskLevel, {"node", "graph"});
    readChoice(task, "kind", spec.taskKind, {"none", "classification", "regression", "binary"});
    task.get("tasks", spec.tasks, 0, 1 << 20);
    task.get("classes", spec.classes);
    task.get("labelled_items", spec.labelledItems, 0, kMost);
}

void readFiles(ObjectReader& root, DatasetSpec& spec)
{
    for (ObjectReader& item : root.children("splits")) {
        DatasetSpec::Split split;
        item.get("name", split.name);
        readRelative(item, "file", split.file);
        item.get("train", split.train, 0, kMost);
        item.get("valid", split.valid, 0, kMost);
        item.get("test", split.test, 0, kMost);
        item.get("none", split.none, 0, kMost);
        spec.splits.push_back(split);
    }
    for (ObjectReader& item : root.children("arrays")) {
        DatasetSpec::Array array;
        readRelative(item, "file", array.file);
        readChoice(item, "dtype", array.dtype, {"<i8", "<i4", "<i2", "<f8", "<f4", "<f2", "|u1", "|i1", "|b1"});
        item.get("shape", array.shape);
        for (const int64_t extent : array.shape)
            if (extent < 0 || extent > kMost)
                item.fail("shape", fmt::format("out of range, got {}, expected extents from 0 to {}", extent, kMost));
        if (array.shape.size() > 8)
            item.fail("shape", fmt::format("too many dimensions, got {}, expected at most 8", array.shape.size()));
        item.get("size_bytes", array.sizeBytes, 0, kMost);
        item.get("hash", array.hash);
        spec.arrays.push_back(array);
    }
    ObjectReader source = root.child("source");
    source.get("format", spec.sourceFormat);
    for (ObjectReader& item : source.children("files")) {
        DatasetSpec::SourceFile file;
        item.get("name", file.name);
        item.get("size_bytes", file.sizeBytes, 0, kMost);
        item.get("crc32", file.crc32);
        spec.sourceFiles.push_back(file);
    }
    for (ObjectReader& item : root.children("decisions")) {
        DatasetSpec::Decision decision;
        item.get("id", decision.id);
        item.get("value", decision.value);
        item.get("why", decision.why);
        item.get("by", decision.by);
        spec.decisions.push_back(decision);
    }
}

Json filesToJson(const DatasetSpec& spec)
{
    Json root = Json::object();
    root["splits"] = Json::array();
    for (const auto& s : spec.splits)
        root["splits"].push_back({{"name", s.name}, {"file", s.file}, {"train", s.train}, {"valid", s.valid}, {"test", s.test}, {"none", s.none}});
    root["arrays"] = Json::array();
    for (const auto& a : spec.arrays)
        root["arrays"].push_back({{"file", a.file}, {"dtype", a.dtype}, {"shape", a.shape}, {"size_bytes", a.sizeBytes}, {"hash", a.hash}});
    Json files = Json::array();
    for (const auto& f : spec.sourceFiles)
        files.push_back({{"name", f.name}, {"size_bytes", f.sizeBytes}, {"crc32", f.crc32}});
    root["source"] = {{"format", spec.sourceFormat}, {"files", files}};
    root["decisions"] = Json::array();
    for (const auto& d : spec.decisions)
        root["decisions"].push_back({{"id", d.id}, {"value", d.value}, {"why", d.why}, {"by", d.by}});
    return root;
}

} // namespace

Result<DatasetSpec> datasetFromJson(const Json& value, const std::string& file)
{
    DatasetSpec spec;
    ObjectReader reader(value, file, "");
    reader.expectFormat("megagraph.dataset", 1);
    reader.get("name", spec.name);
    reader.get("content_hash", spec.contentHash);
    reader.get("structure_hash", spec.structureHash);
    reader.get("features_hash", spec.featuresHash);
    reader.get("labels_hash", spec.labelsHash);
    readCounts(reader, spec);
    readContent(reader, spec);
    readFiles(reader, spec);
    if ((spec.featureKind == "none") != (spec.featureWidth == 0))
        reader.fail("features.width", fmt::format("does not fit the kind \"{}\", got {}, expected {}", spec.featureKind,
                                                  spec.featureWidth, spec.featureKind == "none" ? "0" : "at least 1"));
    MEGAGRAPH_TRY(std::ignore, reader.finish());
    return spec;
}

Json datasetToJson(const DatasetSpec& spec)
{
    Json root{{"format", "megagraph.dataset"},         {"version", 1},
              {"name", spec.name},                     {"content_hash", spec.contentHash},
              {"structure_hash", spec.structureHash},  {"features_hash", spec.featuresHash},
              {"labels_hash", spec.labelsHash}};
    root["counts"] = {{"graphs", spec.graphs}, {"nodes", spec.nodes}, {"entries", spec.entries}, {"undirected_edges", spec.undirectedEdges}};
    root["structure"] = {{"directed", spec.directed}, {"self_loops", spec.selfLoops}, {"multi_edges", spec.multiEdges},
                         {"components", spec.components}, {"isolated_nodes", spec.isolatedNodes}};
    root["features"] = {{"kind", spec.featureKind}, {"width", spec.featureWidth}, {"values", spec.featureValues}, {"nonzeros", spec.featureNonzeros}};
    root["task"] = {{"level", spec.taskLevel}, {"kind", spec.taskKind}, {"tasks", spec.tasks}, {"classes", spec.classes},
                    {"labelled_items", spec.labelledItems}};
    root.update(filesToJson(spec));
    return root;
}

} // namespace megagraph
