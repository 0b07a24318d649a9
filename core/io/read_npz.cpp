// SPDX-License-Identifier: Apache-2.0
#include "core/io/npy.h"
#include "core/io/readers.h"
#include "core/io/source_file.h"
#include "core/io/text_number.h"
#include "core/io/zip.h"
#include "core/machine.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <optional>
#include <tuple>
#include <unordered_map>

namespace megagraph {

namespace {

constexpr int64_t kTickRows = 1 << 14;
constexpr const char* kLayouts = "adj_data, adj_indices, adj_indptr, adj_shape (CSR), or edges with node_features and masks";

/// One NPZ file in either layout: CSR arrays (gnn-benchmark, scipy save_npz) or an edge array.
class NpzFile {
  public:
    NpzFile(ZipArchive zip, const ImportRun& run) : zip_(std::move(zip)), run_(run) {}
    Result<RawGraph> read();

  private:
    bool has(const std::string& array) const { return zip_.find(array + ".npy") != nullptr; }
    std::string firstOf(std::initializer_list<const char*> names) const
    {
        for (const char* name : names)
            if (has(name))
                return name;
        return "";
    }
    Result<NpyArray> array(const std::string& name);
    Result<std::vector<int64_t>> integers(const std::string& name);
    Result<Ok> readCsrStructure(const std::string& prefix);
    Result<Ok> readEdgeStructure();
    Result<Ok> readSparseFeatures(const std::string& prefix);
    Result<Ok> readDenseFeatures(const std::string& name);
    Result<Ok> readLabels(const std::string& name);
    Result<Ok> readMasks();
    Result<Ok> readNames();
    Result<Ok> checkIndptr(const std::vector<int64_t>& indptr, int64_t rows, int64_t entries, const std::string& name) const;
    Result<Ok> setNodes(int64_t nodes, const std::string& from);
    Error fault(const std::string& place, const std::string& what, const std::string& remedy) const
    {
        return badInput(zip_.file().name(), place, what, remedy);
    }
    void noteUnread();

    ZipArchive zip_;
    const ImportRun& run_;
    RawGraph graph_;
    std::vector<std::string> used_;
};

Result<NpyArray> NpzFile::array(const std::string& name)
{
    const ZipMember* member = zip_.find(name + ".npy");
    if (!member)
        return fault("member " + name + ".npy", fmt::format("missing, expected {}", kLayouts), "add the array");
    used_.push_back(member->name);
    MEGAGRAPH_TRY(std::ignore, run_.tick("reading " + name, 0, 0));
    const std::string full = zip_.file().name() + ": member " + member->name;
    MEGAGRAPH_TRY(const auto start, zip_.readStart(*member, 66 * 1024));
    MEGAGRAPH_TRY(std::ignore, parseNpyHeader(start, member->size, full));
    MEGAGRAPH_TRY(auto bytes, zip_.read(*member));
    return NpyArray::parse(std::move(bytes), full);
}

Result<std::vector<int64_t>> NpzFile::integers(const std::string& name)
{
    MEGAGRAPH_TRY(const auto values, array(name));
    if (!values.isNumber())
        return fault("member " + name + ".npy", fmt::format("not numbers, got type {}, expected integers", values.header().dtype()),
                     "export the array as integers");
    std::vector<int64_t> out(static_cast<size_t>(values.count()));
    for (int64_t i = 0; i < values.count(); ++i) {
        MEGAGRAPH_TRY(out[static_cast<size_t>(i)], values.integer(i));
    }
    return out;
}

Result<Ok> NpzFile::setNodes(int64_t nodes, const std::string& from)
{
    if (nodes < 0 || nodes > kMostNodes)
        return Error{ErrorCode::Unsupported, fmt::format("{}: {}: node count out of range, got {}, expected 0..{}; split the graph",
                                                         zip_.file().name(), from, nodes, kMostNodes)};
    graph_.nodes = nodes;
    graph_.nodesFrom = from;
    return Ok{};
}

Result<Ok> NpzFile::checkIndptr(const std::vector<int64_t>& indptr, int64_t rows, int64_t entries, const std::string& name) const
{
    const std::string place = "member " + name + ".npy";
    if (static_cast<int64_t>(indptr.size()) != rows + 1)
        return fault(place, fmt::format("wrong length, got {}, expected {} (rows + 1)", indptr.size(), rows + 1), "export the matrix again");
    if (indptr.front() != 0 || indptr.back() != entries)
        return fault(place, fmt::format("ends wrong, got {}..{}, expected 0..{} (entries)", indptr.front(), indptr.back(), entries),
                     "export the matrix again");
    for (size_t i = 0; i + 1 < indptr.size(); ++i)
        if (indptr[i] > indptr[i + 1])
            return fault(place, fmt::format("element {}: falls, got {} after {}, expected growing values", i + 1, indptr[i + 1], indptr[i]),
                         "export the matrix again");
    return Ok{};
}

Result<Ok> NpzFile::readCsrStructure(const std::string& prefix)
{
    if (has("format")) {
        MEGAGRAPH_TRY(const auto format, array("format"));
        const std::string kind = format.isText() && format.count() == 1 ? format.text(0) : "?";
        if (kind != "csr")
            return Error{ErrorCode::Unsupported, fmt::format("{}: member format.npy: matrix form not read, got {}, expected csr; save it with "
                                                             "scipy.sparse.save_npz(file, matrix.tocsr())", zip_.file().name(), quotedCell(kind))};
    }
    MEGAGRAPH_TRY(const auto shape, integers(prefix + "shape"));
    if (shape.size() != 2 || shape[0] != shape[1])
        return fault("member " + prefix + "shape.npy", fmt::format("not square, got {} x {}, expected N x N", shape.empty() ? 0 : shape[0],
                                                                   shape.size() < 2 ? 0 : shape[1]), "give the adjacency matrix of one graph");
    MEGAGRAPH_TRY(std::ignore, setNodes(shape[0], prefix + "shape"));
    MEGAGRAPH_TRY(const auto indices, integers(prefix + "indices"));
    MEGAGRAPH_TRY(const auto indptr, integers(prefix + "indptr"));
    const auto entries = static_cast<int64_t>(indices.size());
    MEGAGRAPH_TRY(std::ignore, checkIndptr(indptr, graph_.nodes, entries, prefix + "indptr"));
    MEGAGRAPH_TRY(std::ignore, checkMemory(graph_.nodes, entries, zip_.file().name(), run_.options));
    graph_.sources.reserve(indices.size());
    graph_.targets.reserve(indices.size());
    for (int64_t row = 0; row < graph_.nodes; ++row)
        for (int64_t e = indptr[static_cast<size_t>(row)]; e < indptr[static_cast<size_t>(row) + 1]; ++e) {
            const int64_t column = indices[static_cast<size_t>(e)];
            if (column < 0 || column >= graph_.nodes)
                return fault("member " + prefix + "indices.npy", fmt::format("element {}: node id out of range, got {}, expected 0..{}", e, column,
                                                                             graph_.nodes - 1), "correct the array");
            graph_.sources.push_back(static_cast<int32_t>(row));
            graph_.targets.push_back(static_cast<int32_t>(column));
        }
    graph_.edgeFile = prefix + "indices";
    graph_.edgeUnit = "entry";
    graph_.firstEdgeNumber = 0;
    if (!has(prefix + "data"))
        return Ok{};
    MEGAGRAPH_TRY(const auto data, array(prefix + "data"));
    if (data.count() != entries)
        return fault("member " + prefix + "data.npy", fmt::format("wrong length, got {}, expected {} (entries)", data.count(), entries),
                     "export the matrix again");
    Finding weights{"edge values other than 1", 0, "", "not stored: this version keeps no edge weights", true};
    Finding zeros{"entries of value 0", 0, "", "kept as edges", true};
    for (int64_t e = 0; e < entries && data.isNumber(); ++e) {
        const double value = data.number(e);
        Finding* finding = value == 0 ? &zeros : value != 1 ? &weights : nullptr;
        if (finding && finding->count++ == 0)
            finding->first = fmt::format("entry {}: {}", e, numberText(value));
    }
    for (auto& finding : {weights, zeros})
        if (finding.count > 0)
            graph_.findings.push_back(finding);
    return Ok{};
}

Result<Ok> NpzFile::readEdgeStructure()
{
    MEGAGRAPH_TRY(const auto edges, array("edges"));
    const auto& shape = edges.header().shape;
    if (shape.size() != 2 || (shape[1] != 2 && shape[0] != 2) || !edges.isNumber())
        return fault("member edges.npy", fmt::format("wrong shape, got {} dimensions of type {}, expected E x 2 whole numbers", shape.size(),
                                                     edges.header().dtype()), "export the edge list as an array of two columns");
    const bool columns = shape[1] == 2;
    const int64_t lines = columns ? shape[0] : shape[1];
    const std::string counted = firstOf({"node_features", "node_labels", "train_masks", "train_mask"});
    if (counted.empty())
        return fault("zip directory", "nothing states the number of nodes, expected node_features or node_labels beside edges", "add one of them");
    const ZipMember* member = zip_.find(counted + ".npy");
    MEGAGRAPH_TRY(const auto start, zip_.readStart(*member, 66 * 1024));
    MEGAGRAPH_TRY(const auto header, parseNpyHeader(start, member->size, zip_.file().name() + ": member " + member->name));
    if (header.shape.empty())
        return fault("member " + member->name, "a single value, expected one row per node", "export the array again");
    MEGAGRAPH_TRY(std::ignore, setNodes(counted.starts_with("train_") ? header.shape.back() : header.shape.front(), counted));
    MEGAGRAPH_TRY(std::ignore, checkMemory(graph_.nodes, lines, zip_.file().name(), run_.options));
    for (int64_t i = 0; i < lines; ++i) {
        MEGAGRAPH_TRY(const int64_t a, edges.integer(columns ? 2 * i : i));
        MEGAGRAPH_TRY(const int64_t b, edges.integer(columns ? 2 * i + 1 : lines + i));
        for (const int64_t id : {a, b})
            if (id < 0 || id >= graph_.nodes)
                return fault("member edges.npy", fmt::format("row {}: node id out of range, got {}, expected 0..{} ({} nodes by {})", i, id,
                                                             graph_.nodes - 1, graph_.nodes, counted), "correct the array");
        graph_.sources.push_back(static_cast<int32_t>(a));
        graph_.targets.push_back(static_cast<int32_t>(b));
    }
    graph_.edgeFile = "edges";
    graph_.edgeUnit = "row";
    graph_.firstEdgeNumber = 0;
    return Ok{};
}

Result<Ok> NpzFile::readSparseFeatures(const std::string& prefix)
{
    MEGAGRAPH_TRY(const auto shape, integers(prefix + "shape"));
    if (shape.size() != 2 || shape[0] != graph_.nodes || shape[1] < 0 || shape[1] > kMostNodes)
        return fault("member " + prefix + "shape.npy", fmt::format("wrong shape, got {} x {}, expected {} rows", shape.empty() ? 0 : shape[0],
                                                                   shape.size() < 2 ? 0 : shape[1], graph_.nodes), "give one row per node");
    MEGAGRAPH_TRY(const auto indptr, integers(prefix + "indptr"));
    MEGAGRAPH_TRY(const auto indices, array(prefix + "indices"));
    MEGAGRAPH_TRY(const auto data, array(prefix + "data"));
    MEGAGRAPH_TRY(std::ignore, checkIndptr(indptr, graph_.nodes, indices.count(), prefix + "indptr"));
    if (data.count() != indices.count() || !data.isNumber() || !indices.isNumber())
        return fault("member " + prefix + "data.npy", fmt::format("wrong length or type, got {} of {}, expected {} numbers", data.count(),
                                                                  data.header().dtype(), indices.count()), "export the matrix again");
    graph_.features = FeatureTable(graph_.nodes, shape[1]);
    std::vector<std::pair<int32_t, float>> row;
    for (int64_t r = 0; r < graph_.nodes; ++r) {
        row.clear();
        for (int64_t e = indptr[static_cast<size_t>(r)]; e < indptr[static_cast<size_t>(r) + 1]; ++e) {
            MEGAGRAPH_TRY(const int64_t column, indices.integer(e));
            if (column < 0 || column >= shape[1])
                return fault("member " + prefix + "indices.npy", fmt::format("element {}: column out of range, got {}, expected 0..{}", e, column,
                                                                             shape[1] - 1), "correct the array");
            row.emplace_back(static_cast<int32_t>(column), static_cast<float>(data.number(e)));
        }
        graph_.features.addSparseRow(row);
        if (r % kTickRows == 0) {
            MEGAGRAPH_TRY(std::ignore, run_.tick("reading features", r, graph_.nodes));
        }
    }
    graph_.hasFeatures = true;
    return Ok{};
}

Result<Ok> NpzFile::readDenseFeatures(const std::string& name)
{
    MEGAGRAPH_TRY(const auto values, array(name));
    const auto& shape = values.header().shape;
    if (shape.size() != 2 || shape[0] != graph_.nodes || !values.isNumber())
        return fault("member " + name + ".npy", fmt::format("wrong shape or type, got {} rows of {}, expected {} rows of numbers",
                                                            values.dimension(0), values.header().dtype(), graph_.nodes), "give one row per node");
    graph_.features = FeatureTable(graph_.nodes, shape[1]);
    std::vector<float> row(static_cast<size_t>(shape[1]));
    for (int64_t r = 0; r < graph_.nodes; ++r) {
        for (int64_t c = 0; c < shape[1]; ++c)
            row[static_cast<size_t>(c)] = static_cast<float>(values.number(r * shape[1] + c));
        graph_.features.addRow(row);
        if (r % 1024 == 0) {
            MEGAGRAPH_TRY(std::ignore, run_.tick("reading features", r, graph_.nodes));
        }
    }
    graph_.hasFeatures = shape[1] > 0;
    return Ok{};
}

Result<Ok> NpzFile::readLabels(const std::string& name)
{
    MEGAGRAPH_TRY(const auto values, array(name));
    if (values.count() != graph_.nodes)
        return values.header().shape.size() > 1
                   ? Error{ErrorCode::Unsupported, fmt::format("{}: several label columns, got {}, expected one; use --structure-only, or keep one "
                                                               "column", values.name(), values.dimension(1))}
                   : fault("member " + name + ".npy", fmt::format("wrong length, got {}, expected {} (nodes by {})", values.count(), graph_.nodes,
                                                                  graph_.nodesFrom), "give one label per node");
    RawLabels& labels = graph_.labels;
    labels.present = true;
    labels.words = values.isText();
    labels.file = zip_.file().name() + ": member " + name + ".npy";
    std::unordered_map<std::string, int32_t> words;
    for (int64_t i = 0; i < graph_.nodes; ++i) {
        if (!labels.words) {
            labels.numbers.push_back(values.number(i));
            continue;
        }
        const std::string word = values.text(i);
        const auto [place, fresh] = words.emplace(word, static_cast<int32_t>(words.size()));
        if (fresh)
            labels.wordTable.push_back(word);
        labels.wordIds.push_back(word.empty() ? -1 : place->second);
    }
    if (!has("class_names"))
        return Ok{};
    MEGAGRAPH_TRY(const auto names, array("class_names"));
    for (int64_t i = 0; names.isText() && i < names.count(); ++i)
        labels.classNames.push_back(names.text(i));
    return Ok{};
}

Result<Ok> NpzFile::readMasks()
{
    std::vector<std::pair<NpyArray, uint8_t>> masks;
    int64_t repeats = -1;
    for (const auto& [names, bit] : {std::pair<std::vector<const char*>, int>{{"train_masks", "train_mask"}, 1},
                                     {{"val_masks", "val_mask", "valid_masks", "valid_mask"}, 2}, {{"test_masks", "test_mask"}, 4}})
        for (const char* name : names) {
            if (!has(name))
                continue;
            MEGAGRAPH_TRY(auto mask, array(name));
            const auto& shape = mask.header().shape;
            const int64_t rows = shape.size() == 2 ? shape[0] : 1;
            if (shape.empty() || shape.size() > 2 || shape.back() != graph_.nodes || !mask.isNumber() || (repeats >= 0 && rows != repeats))
                return fault(fmt::format("member {}.npy", name), fmt::format("wrong shape, got {} x {}, expected {} x {} (splits x nodes)", rows,
                                                                             shape.empty() ? 0 : shape.back(), repeats < 0 ? rows : repeats,
                                                                             graph_.nodes), "export the masks again");
            repeats = rows;
            masks.emplace_back(std::move(mask), static_cast<uint8_t>(bit));
            break;
        }
    for (int64_t s = 0; s < repeats; ++s) {
        RawSplit split{fmt::format("mask {}", s), std::vector<uint8_t>(static_cast<size_t>(graph_.nodes), 0)};
        for (const auto& [mask, bit] : masks)
            for (int64_t i = 0; i < graph_.nodes; ++i)
                if (mask.number(s * graph_.nodes + i) != 0)
                    split.bits[static_cast<size_t>(i)] |= bit;
        graph_.splits.push_back(std::move(split));
    }
    return Ok{};
}

Result<Ok> NpzFile::readNames()
{
    if (!has("node_names"))
        return Ok{};
    MEGAGRAPH_TRY(const auto names, array("node_names"));
    if (names.count() != graph_.nodes || !names.isText())
        return fault("member node_names.npy", fmt::format("wrong length or type, got {} of {}, expected {} texts", names.count(),
                                                          names.header().dtype(), graph_.nodes), "give one name per node");
    for (int64_t i = 0; i < graph_.nodes; ++i)
        graph_.nodeNames.push_back(names.text(i));
    return Ok{};
}

void NpzFile::noteUnread()
{
    std::vector<std::string> unread;
    for (const ZipMember& member : zip_.members())
        if (std::find(used_.begin(), used_.end(), member.name) == used_.end())
            unread.push_back(member.name);
    if (!unread.empty() && !run_.options.structureOnly)
        graph_.findings.push_back({"members not read", static_cast<int64_t>(unread.size()), unread[0], "left out", true});
}

Result<RawGraph> NpzFile::read()
{
    graph_.format = "npz";
    std::string prefix;
    for (const char* candidate : {"adj_", "adj_matrix_", "adj_matrix.", "adj."})
        if (prefix.empty() && has(candidate + std::string("indptr")))
            prefix = candidate;
    if (!prefix.empty() || (has("indptr") && has("indices") && has("shape"))) {
        graph_.kindText = "npz, CSR arrays, one graph";
        MEGAGRAPH_TRY(std::ignore, readCsrStructure(prefix));
    } else if (has("edges")) {
        graph_.kindText = "npz, edge array, one graph";
        MEGAGRAPH_TRY(std::ignore, readEdgeStructure());
    } else {
        return fault("zip directory", fmt::format("no graph in it, got {} members (first {}), expected {}", zip_.members().size(),
                                                  zip_.members().front().name, kLayouts), "rename or add the arrays");
    }
    if (!run_.options.structureOnly) {
        const std::string dense = firstOf({"node_features", "attr_matrix", "features"});
        const std::string labels = firstOf({"labels", "node_labels"});
        for (const char* candidate : {"attr_", "attr_matrix_", "attr_matrix.", "attr."})
            if (!graph_.hasFeatures && has(candidate + std::string("indptr"))) {
                MEGAGRAPH_TRY(std::ignore, readSparseFeatures(candidate));
            }
        if (!graph_.hasFeatures && !dense.empty()) {
            MEGAGRAPH_TRY(std::ignore, readDenseFeatures(dense));
        }
        if (!labels.empty()) {
            MEGAGRAPH_TRY(std::ignore, readLabels(labels));
        }
        MEGAGRAPH_TRY(std::ignore, readMasks());
        MEGAGRAPH_TRY(std::ignore, readNames());
    }
    noteUnread();
    graph_.decisions.push_back({"numbering", "0-based", "array positions count from 0", "format"});
    graph_.decisions.push_back({"node_count", std::to_string(graph_.nodes), "stated by " + graph_.nodesFrom, "format"});
    MEGAGRAPH_TRY(auto crc, zip_.file().crc32Hex());
    graph_.files.push_back({std::filesystem::path(zip_.file().name()).filename().string(), zip_.file().size(), std::move(crc)});
    return std::move(graph_);
}

} // namespace

Result<RawGraph> readNpz(const std::string& path, const ImportRun& run)
{
    MEGAGRAPH_TRY(auto zip, ZipArchive::open(path, path, {run.options.allowRatio, memoryBudget(run.options)}));
    return NpzFile(std::move(zip), run).read();
}

Result<std::vector<SourceFact>> glanceNpz(const std::string& path, bool allowRatio)
{
    MEGAGRAPH_TRY(const auto zip, ZipArchive::open(path, path, {allowRatio, availableMemoryBytes() / 2}));
    std::vector<SourceFact> facts;
    for (const ZipMember& member : zip.members()) {
        MEGAGRAPH_TRY(const auto start, zip.readStart(member, 66 * 1024));
        if (!member.name.ends_with(".npy"))
            continue;
        MEGAGRAPH_TRY(const auto header, parseNpyHeader(start, member.size, path + ": member " + member.name));
        std::string shape;
        for (const int64_t extent : header.shape)
            shape += fmt::format("{}{}", shape.empty() ? "" : " x ", extent);
        facts.push_back({"array", fmt::format("{} {} [{}]", member.name, header.dtype(), shape)});
    }
    return facts;
}

} // namespace megagraph
