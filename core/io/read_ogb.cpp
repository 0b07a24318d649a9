// SPDX-License-Identifier: Apache-2.0
#include "core/io/line_reader.h"
#include "core/io/readers.h"
#include "core/io/text_number.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <tuple>
#include <unordered_map>

namespace megagraph {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kTickLines = 1 << 14;
constexpr const char* kNodeCounts = "raw/num-node-list.csv.gz";
constexpr const char* kEdgeCounts = "raw/num-edge-list.csv.gz";
constexpr const char* kEdges = "raw/edge.csv.gz";

/// Reads the files of one folder and notes each as a source.
class OgbFolder {
  public:
    OgbFolder(std::string folder, const ImportRun& run) : folder_(std::move(folder)), run_(run) {}

    Result<RawGraph> read();
    Result<int64_t> count(const char* file, const char* of);

  private:
    std::string path(const std::string& file) const { return folder_ + "/" + file; }
    bool has(const std::string& file) const
    {
        std::error_code ignored;
        return fs::exists(path(file), ignored);
    }
    Result<LineReader> open(const std::string& file) const { return LineReader::open(path(file), path(file)); }
    Result<Ok> noteSource(const std::string& file);
    Result<Ok> readEdges();
    Result<Ok> readFeatures();
    Result<Ok> addFeatureRow(LineReader& reader, std::string_view line, std::vector<float>& row);
    Result<Ok> readLabels();
    Result<Ok> addLabel(LineReader& reader, std::string_view line, std::unordered_map<std::string, int32_t>& words);
    Result<Ok> readSplits();
    Result<Ok> readPart(const std::string& file, uint8_t bit, std::vector<uint8_t>& bits);
    Result<Ok> noteUnread();
    Error wrongRows(const LineReader& reader, int64_t rows, const char* what) const;

    std::string folder_;
    const ImportRun& run_;
    RawGraph graph_;
    int64_t lines_ = 0;
};

Result<int64_t> OgbFolder::count(const char* file, const char* of)
{
    if (!has(file))
        return Error{ErrorCode::InvalidInput, fmt::format("{}: missing, expected one line with the number of {}; copy it from the source, or "
                                                          "write it", path(file), of)};
    MEGAGRAPH_TRY(auto reader, open(file));
    std::string_view line;
    int64_t rows = 0, value = 0;
    while (true) {
        MEGAGRAPH_TRY(const bool more, reader.next(line));
        if (!more)
            break;
        if (trimCell(line).empty())
            continue;
        const auto number = parseInteger(line);
        if (!number || *number < 0)
            return reader.fault(fmt::format("not a count, got {}, expected the number of {}", quotedCell(line), of), "correct the line");
        value = *number;
        if (++rows > 1)
            return Error{ErrorCode::Unsupported, fmt::format("{}: line {}: many graphs, got a second count {}, expected one graph; sets of many "
                                                             "graphs are not read by this version", path(file), reader.lineNumber(), value)};
    }
    if (rows == 0)
        return reader.fault(fmt::format("empty, got 0 counts, expected the number of {}", of), "get the file again");
    return value;
}

Result<Ok> OgbFolder::noteSource(const std::string& file)
{
    MEGAGRAPH_TRY(const auto source, SourceFile::open(path(file), path(file)));
    MEGAGRAPH_TRY(auto crc, source.crc32Hex());
    graph_.files.push_back({file, source.size(), std::move(crc)});
    return Ok{};
}

/// Two ids separated by a comma; nullopt when the line is anything else.
std::optional<std::pair<int64_t, int64_t>> parsePair(std::string_view line)
{
    const size_t comma = line.find(',');
    if (comma == std::string_view::npos)
        return std::nullopt;
    const auto a = parseInteger(line.substr(0, comma)), b = parseInteger(line.substr(comma + 1));
    if (!a || !b)
        return std::nullopt;
    return std::pair{*a, *b};
}

Result<Ok> OgbFolder::readEdges()
{
    MEGAGRAPH_TRY(auto reader, open(kEdges));
    reader.expect(fmt::format("{} lines ({})", lines_, kEdgeCounts));
    std::string_view line;
    int64_t rows = 0;
    while (true) {
        MEGAGRAPH_TRY(const bool more, reader.next(line));
        if (!more)
            break;
        if (trimCell(line).empty())
            continue;
        const auto pair = parsePair(line);
        if (!pair)
            return reader.fault(fmt::format("not an edge, got {}, expected two whole numbers separated by a comma", quotedCell(line)),
                                "correct the line");
        for (const int64_t id : {pair->first, pair->second})
            if (id < 0 || id >= graph_.nodes)
                return reader.fault(fmt::format("node id out of range, got {}, expected 0..{} ({} nodes by {} line 1)", id, graph_.nodes - 1,
                                                graph_.nodes, kNodeCounts),
                                    "correct the id, or the node count if it is wrong");
        if (++rows > lines_)
            return wrongRows(reader, rows, "edge");
        graph_.sources.push_back(static_cast<int32_t>(pair->first));
        graph_.targets.push_back(static_cast<int32_t>(pair->second));
        if (rows % kTickLines == 0) {
            MEGAGRAPH_TRY(std::ignore, run_.tick("reading edges", rows, lines_));
        }
    }
    if (rows != lines_)
        return wrongRows(reader, rows, "edge");
    return noteSource(kEdges);
}

Error OgbFolder::wrongRows(const LineReader& reader, int64_t rows, const char* what) const
{
    const bool edge = std::string_view(what) == "edge";
    const int64_t expected = edge ? lines_ : graph_.nodes;
    const char* source = edge ? kEdgeCounts : kNodeCounts;
    const int64_t line = rows > expected ? reader.lineNumber() : reader.lineNumber() + 1;
    return badInput(reader.name(), fmt::format("line {}", line),
                    rows > expected ? fmt::format("too many {} lines, got at least {}, expected {} ({} line 1)", what, rows, expected, source)
                                    : fmt::format("the file ends too early, got {} {} lines, expected {} ({} line 1)", rows, what, expected, source),
                    "get the complete file, or correct the count");
}

Result<Ok> OgbFolder::addFeatureRow(LineReader& reader, std::string_view line, std::vector<float>& row)
{
    const auto expected = static_cast<size_t>(graph_.features.width());
    row.clear();
    while (true) {
        const size_t comma = line.find(',');
        const std::string_view cell = line.substr(0, comma);
        double value = 0;
        const auto [end, code] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
        if (code != std::errc() || end != cell.data() + cell.size()) {
            const auto slow = trimCell(cell).empty() ? std::optional(std::nan("")) : parseNumber(cell);
            if (!slow)
                return reader.fault(fmt::format("column {}: not a number, got {}, expected a feature value", row.size() + 1, quotedCell(cell)),
                                    "correct the cell");
            value = *slow;
        }
        row.push_back(static_cast<float>(value));
        if (comma == std::string_view::npos)
            break;
        line.remove_prefix(comma + 1);
    }
    if (expected == 0)
        graph_.features = FeatureTable(graph_.nodes, static_cast<int64_t>(row.size()));
    else if (row.size() != expected)
        return reader.fault(fmt::format("wrong number of columns, got {}, expected {} as in line 1", row.size(), expected), "correct the line");
    graph_.features.addRow(row);
    return Ok{};
}

Result<Ok> OgbFolder::readFeatures()
{
    constexpr const char* kFile = "raw/node-feat.csv.gz";
    MEGAGRAPH_TRY(auto reader, open(kFile));
    reader.expect(fmt::format("{} lines ({})", graph_.nodes, kNodeCounts));
    std::string_view line;
    std::vector<float> row;
    int64_t rows = 0;
    while (true) {
        MEGAGRAPH_TRY(const bool more, reader.next(line));
        if (!more)
            break;
        if (trimCell(line).empty())
            continue;
        if (++rows > graph_.nodes)
            return wrongRows(reader, rows, "feature");
        MEGAGRAPH_TRY(std::ignore, addFeatureRow(reader, line, row));
        if (rows % 256 == 0) {
            MEGAGRAPH_TRY(std::ignore, run_.tick("reading features", rows, graph_.nodes));
        }
    }
    if (rows != graph_.nodes)
        return wrongRows(reader, rows, "feature");
    graph_.hasFeatures = true;
    return noteSource(kFile);
}

Result<Ok> OgbFolder::addLabel(LineReader& reader, std::string_view line, std::unordered_map<std::string, int32_t>& words)
{
    RawLabels& labels = graph_.labels;
    if (line.find(',') != std::string_view::npos)
        return Error{ErrorCode::Unsupported, fmt::format("{}: line {}: several label columns, got {}, expected one; multi-task labels are not read "
                                                         "by this version: use --structure-only, or keep one column", reader.name(),
                                                         reader.lineNumber(), quotedCell(line))};
    const std::string_view cell = trimCell(line);
    const auto number = cell.empty() ? std::optional(std::nan("")) : parseNumber(cell);
    if (!number && !labels.words) { // the first word turns the whole column into words
        for (const double value : labels.numbers) {
            const bool missing = std::isnan(value);
            const std::string text = missing ? "" : numberText(value);
            labels.wordIds.push_back(missing ? -1 : words.emplace(text, static_cast<int32_t>(words.size())).first->second);
        }
        labels.words = true;
        labels.numbers = {};
    }
    if (!labels.words)
        labels.numbers.push_back(*number);
    else if (cell.empty() || (number && std::isnan(*number)))
        labels.wordIds.push_back(-1);
    else
        labels.wordIds.push_back(words.emplace(std::string(cell), static_cast<int32_t>(words.size())).first->second);
    return Ok{};
}

Result<Ok> OgbFolder::readLabels()
{
    constexpr const char* kFile = "raw/node-label.csv.gz";
    MEGAGRAPH_TRY(auto reader, open(kFile));
    reader.expect(fmt::format("{} lines ({})", graph_.nodes, kNodeCounts));
    std::unordered_map<std::string, int32_t> words;
    std::string_view line;
    while (true) {
        MEGAGRAPH_TRY(const bool more, reader.next(line));
        if (!more)
            break;
        if (graph_.labels.items() == graph_.nodes && trimCell(line).empty())
            continue; // blank lines after the last label
        if (graph_.labels.items() == graph_.nodes)
            return wrongRows(reader, graph_.nodes + 1, "label");
        MEGAGRAPH_TRY(std::ignore, addLabel(reader, line, words));
        if (graph_.labels.items() % kTickLines == 0) {
            MEGAGRAPH_TRY(std::ignore, run_.tick("reading labels", graph_.labels.items(), graph_.nodes));
        }
    }
    if (graph_.labels.items() != graph_.nodes)
        return wrongRows(reader, graph_.labels.items(), "label");
    graph_.labels.wordTable.resize(words.size());
    for (const auto& [word, id] : words)
        graph_.labels.wordTable[static_cast<size_t>(id)] = word;
    graph_.labels.present = true;
    graph_.labels.file = path(kFile);
    return noteSource(kFile);
}

Result<Ok> OgbFolder::readPart(const std::string& file, uint8_t bit, std::vector<uint8_t>& bits)
{
    MEGAGRAPH_TRY(auto reader, open(file));
    std::string_view line;
    while (true) {
        MEGAGRAPH_TRY(const bool more, reader.next(line));
        if (!more)
            break;
        if (trimCell(line).empty())
            continue;
        const auto id = parseInteger(line);
        if (!id || *id < 0 || *id >= graph_.nodes)
            return reader.fault(fmt::format("not a node of this set, got {}, expected 0..{} ({} line 1)", quotedCell(line), graph_.nodes - 1, kNodeCounts),
                                "correct the line");
        bits[static_cast<size_t>(*id)] |= bit;
    }
    return noteSource(file);
}

Result<Ok> OgbFolder::readSplits()
{
    std::error_code fault;
    std::vector<std::string> names;
    if (has("split"))
        for (fs::directory_iterator it(path("split"), fault), end; !fault && it != end; it.increment(fault))
            if (it->is_directory(fault))
                names.push_back(it->path().filename().string());
    std::sort(names.begin(), names.end());
    for (const std::string& name : names) {
        RawSplit split{safeName(name), std::vector<uint8_t>(static_cast<size_t>(graph_.nodes), 0)};
        int parts = 0;
        for (const auto& [part, bit] : {std::pair{"train", 1}, {"valid", 2}, {"test", 4}}) {
            const std::string file = fmt::format("split/{}/{}.csv.gz", name, part);
            if (!has(file))
                continue;
            MEGAGRAPH_TRY(std::ignore, readPart(file, static_cast<uint8_t>(bit), split.bits));
            ++parts;
        }
        if (parts > 0)
            graph_.splits.push_back(std::move(split));
        else
            graph_.findings.push_back({"split without csv.gz parts", 1, "split/" + name, "not read", false});
    }
    return Ok{};
}

Result<Ok> OgbFolder::noteUnread()
{
    static constexpr const char* kRead[] = {"edge.csv.gz", "num-node-list.csv.gz", "num-edge-list.csv.gz", "node-feat.csv.gz", "node-label.csv.gz"};
    std::error_code fault;
    std::vector<std::string> unread;
    for (fs::directory_iterator it(path("raw"), fault), end; !fault && it != end; it.increment(fault)) {
        const std::string name = it->path().filename().string();
        if (std::find(std::begin(kRead), std::end(kRead), name) == std::end(kRead))
            unread.push_back("raw/" + name);
    }
    std::sort(unread.begin(), unread.end());
    if (!unread.empty())
        graph_.findings.push_back({"files not read", static_cast<int64_t>(unread.size()), unread[0], "this version reads structure, node features, "
                                                                                                     "node labels and splits", true});
    return Ok{};
}

Result<RawGraph> OgbFolder::read()
{
    MEGAGRAPH_TRY(graph_.nodes, count(kNodeCounts, "nodes"));
    MEGAGRAPH_TRY(lines_, count(kEdgeCounts, "edge lines"));
    if (graph_.nodes > kMostNodes)
        return Error{ErrorCode::Unsupported, fmt::format("{}: line 1: too many nodes, got {}, expected at most {}; split the graph",
                                                         path(kNodeCounts), graph_.nodes, kMostNodes)};
    MEGAGRAPH_TRY(std::ignore, checkMemory(graph_.nodes, lines_, folder_, run_.options));
    graph_.format = "ogb-raw";
    graph_.kindText = "ogb-raw, one graph";
    graph_.nodesFrom = "num-node-list";
    graph_.edgeFile = kEdges;
    MEGAGRAPH_TRY(std::ignore, noteSource(kNodeCounts));
    MEGAGRAPH_TRY(std::ignore, noteSource(kEdgeCounts));
    MEGAGRAPH_TRY(std::ignore, readEdges());
    const bool more = !run_.options.structureOnly;
    if (more && has("raw/node-label.csv.gz")) {
        MEGAGRAPH_TRY(std::ignore, readLabels());
    }
    if (more && has("raw/node-feat.csv.gz")) {
        MEGAGRAPH_TRY(std::ignore, readFeatures());
    }
    if (more) {
        MEGAGRAPH_TRY(std::ignore, readSplits());
    }
    MEGAGRAPH_TRY(std::ignore, noteUnread());
    graph_.decisions.push_back({"numbering", "0-based", "the ogb-raw layout counts from 0", "format"});
    graph_.decisions.push_back({"node_count", std::to_string(graph_.nodes), std::string("stated by ") + kNodeCounts, "format"});
    return std::move(graph_);
}

} // namespace

Result<RawGraph> readOgbRaw(const std::string& folder, const ImportRun& run)
{
    return OgbFolder(folder, run).read();
}

Result<std::vector<SourceFact>> glanceOgbRaw(const std::string& folder)
{
    const ImportOptions options;
    const ImportRun run{options, {}, {}};
    OgbFolder source(folder, run);
    MEGAGRAPH_TRY(const int64_t nodes, source.count(kNodeCounts, "nodes"));
    MEGAGRAPH_TRY(const int64_t lines, source.count(kEdgeCounts, "edge lines"));
    std::vector<SourceFact> facts{{"nodes", std::to_string(nodes)}, {"edge_lines", std::to_string(lines)}};
    std::error_code fault;
    std::vector<std::string> files;
    for (fs::recursive_directory_iterator it(folder, fault), end; !fault && it != end; it.increment(fault))
        if (it->is_regular_file(fault) && it->path().string().ends_with(".gz"))
            files.push_back(fmt::format("{} ({} bytes)", fs::relative(it->path(), folder, fault).string(), it->file_size(fault)));
    std::sort(files.begin(), files.end());
    for (const auto& file : files)
        facts.push_back({"file", file});
    return facts;
}

} // namespace megagraph
