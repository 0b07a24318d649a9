// SPDX-License-Identifier: Apache-2.0
#include "core/io/readers.h"

#include "core/io/source_file.h"
#include "core/io/text_number.h"
#include "core/io/zip.h"
#include "core/units.h"
#include "core/machine.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <tuple>

namespace megagraph {

namespace fs = std::filesystem;

namespace {

constexpr const char* kPickleWayOut = "pickles can run code and are never opened: use the ogb-raw folder or a plain NPZ of the same set, or write "
                                      "its arrays with numpy.savez (numbers and text only) on a machine that trusts the file";

struct RefusedKind { const char* magic; size_t size; const char* what; const char* wayOut; bool fault; };

const RefusedKind kRefused[] = {
    {"\x80\x02", 2, "a Python pickle", kPickleWayOut, false},
    {"\x80\x03", 2, "a Python pickle", kPickleWayOut, false},
    {"\x80\x04", 2, "a Python pickle", kPickleWayOut, false},
    {"\x80\x05", 2, "a Python pickle", kPickleWayOut, false},
    {"(dp0", 4, "a Python pickle (text protocol)", kPickleWayOut, false},
    {"\x3f\xa1\xb4\xf6\xe4\x2f\xd2\xdd", 8, "a DGL .bin graph file", "export the graph to the ogb-raw layout", false},
    {"\x3f\xa4\x3f\xa2\xbe\x9f\x5a\xdd", 8, "a DGL .bin graph file", "export the graph to the ogb-raw layout", false},
    {"PAR1", 4, "a Parquet file", "export it to CSV in the ogb-raw layout, or to NPZ", false},
    {"ARROW1", 6, "a Feather (Arrow) file", "export it to CSV in the ogb-raw layout, or to NPZ", false},
    {"\x89HDF", 4, "an HDF5 file", "export it to CSV in the ogb-raw layout, or to NPZ", false},
    {"version https://git-lfs", 23, "a git-lfs pointer and not the data", "fetch the real file with git lfs pull", true},
    {"<!DOCTYPE", 9, "a web page and not the data", "download the real file", true},
    {"<!doctype", 9, "a web page and not the data", "download the real file", true},
    {"<html", 5, "a web page and not the data", "download the real file", true},
    {"%%MatrixMarket", 14, "a MatrixMarket file, which this version does not read", "convert it to a NPZ with adj_* arrays or to ogb-raw", false},
    {"MATLAB 5.0 MAT-file", 19, "a MATLAB v5 file, which this version does not read", "convert it to a NPZ with adj_* arrays or to ogb-raw", false},
};

std::string hexBytes(const std::string& bytes)
{
    std::string text;
    for (size_t i = 0; i < std::min<size_t>(bytes.size(), 4); ++i)
        text += fmt::format("{}{:02x}", i ? " " : "", static_cast<unsigned char>(bytes[i]));
    return text;
}

Result<std::string> firstBytes(const std::string& path, const std::string& name)
{
    MEGAGRAPH_TRY(const auto file, SourceFile::open(path, name));
    std::string bytes(4096, '\0');
    MEGAGRAPH_TRY(const int64_t got, file.read(0, bytes.data(), static_cast<int64_t>(bytes.size())));
    bytes.resize(static_cast<size_t>(got));
    return bytes;
}

bool isNotes(const std::string& name)
{
    return name.starts_with("README") || name.starts_with("LICENSE") || name.starts_with(".") || name.starts_with("CITATION");
}

std::string unreadFormat(const std::vector<std::string>& names)
{
    const auto any = [&](auto test) { return std::any_of(names.begin(), names.end(), test); };
    if (any([](const std::string& n) { return n.ends_with("_graph_indicator.txt"); }))
        return "tu";
    if (any([](const std::string& n) { return n == "out1_graph_edges.txt"; }))
        return "geom-gcn";
    if (any([](const std::string& n) { return n == "adj_full.npz"; }))
        return "graphsaint";
    if (any([](const std::string& n) { return n.ends_with(".cites"); }))
        return "linqs";
    if (any([](const std::string& n) { return n == "target.csv" || n.ends_with("_target.csv"); }))
        return "musae";
    return "";
}

Result<Recognised> recogniseZip(const std::string& path)
{
    MEGAGRAPH_TRY(const auto zip, ZipArchive::open(path, path, {true}));
    size_t arrays = 0;
    for (const ZipMember& member : zip.members()) {
        if (member.name == "data.pkl" || member.name.ends_with("/data.pkl"))
            return Error{ErrorCode::Unsupported, fmt::format("{}: member {}: a file of torch.save, which holds a pickle, got data.pkl, expected "
                                                             ".npy members; {}", path, member.name, kPickleWayOut)};
        arrays += member.name.ends_with(".npy");
    }
    if (arrays == 0)
        return badInput(path, "zip directory", fmt::format("no array in it, got {} members, expected .npy members", zip.members().size()),
                        "give a NPZ file with adj_* or edges arrays");
    return Recognised{"npz", fmt::format("zip archive with {} .npy members", arrays), path};
}

Result<Recognised> recogniseFile(const std::string& path)
{
    MEGAGRAPH_TRY(const auto bytes, firstBytes(path, path));
    MEGAGRAPH_TRY(std::ignore, refuseKnownKinds(path, path));
    if (bytes.starts_with("PK\x03\x04") || bytes.starts_with("PK\x05\x06"))
        return recogniseZip(path);
    if (path.ends_with(".npz"))
        return badInput(path, "byte 0", fmt::format("named .npz but no zip archive, got bytes {}, expected 50 4b 03 04", hexBytes(bytes)),
                        "get the file again");
    if (path.ends_with(".gz") && !bytes.starts_with("\x1f\x8b"))
        return badInput(path, "byte 0", fmt::format("named .gz but not gzip, got bytes {}, expected 1f 8b", hexBytes(bytes)),
                        "get the real file, or remove .gz from its name if it is plain text");
    return Error{ErrorCode::Unsupported, fmt::format("{}: not a format that this version reads, got {}, expected an ogb-raw folder or a NPZ file; "
                                                     "convert the graph to one of them", path,
                                                     bytes.empty() ? std::string("an empty file") : "bytes " + hexBytes(bytes))};
}

Result<Recognised> recogniseFolder(const std::string& path)
{
    std::error_code fault;
    const bool edges = fs::exists(path + "/raw/edge.csv.gz", fault);
    if (fs::exists(path + "/raw/num-node-dict.csv.gz", fault) || fs::exists(path + "/raw/triplet-type-list.csv.gz", fault))
        return Error{ErrorCode::Unsupported, path + "/raw: a heterogeneous OGB folder (several node types), expected one node type; "
                                                    "export the part you need as one homogeneous graph"};
    if (edges)
        return Recognised{"ogb-raw", "folder with raw/edge.csv.gz", path};
    if (fs::exists(path + "/raw/data.npz", fault))
        return Error{ErrorCode::Unsupported, path + "/raw/data.npz: recognised as ogb-npz, which this version does not read, expected ogb-raw or "
                                                    "npz; use the csv.gz form of the same set"};
    std::vector<std::string> names;
    for (fs::directory_iterator it(path, fault), end; !fault && it != end; it.increment(fault)) {
        const std::string name = it->path().filename().string();
        if (!isNotes(name))
            names.push_back(name);
    }
    if (fault)
        return Error{ErrorCode::Io, fmt::format("{}: cannot be listed: {}; check its permissions", path, fault.message())};
    std::sort(names.begin(), names.end());
    if (const std::string known = unreadFormat(names); !known.empty())
        return Error{ErrorCode::Unsupported, fmt::format("{}: recognised as {}, which this version does not read, expected ogb-raw or npz; convert "
                                                         "the graph to one of them", path, known)};
    std::vector<std::string> archives;
    for (const auto& name : names) {
        const std::string file = path + "/" + name;
        if (!fs::is_regular_file(file, fault))
            continue;
        MEGAGRAPH_TRY(std::ignore, refuseKnownKinds(file, file));
        if (name.ends_with(".npz"))
            archives.push_back(file);
    }
    if (archives.size() == 1)
        return recogniseFile(archives[0]);
    if (archives.size() > 1)
        return badInput(path, "", fmt::format("several NPZ files, got {} (first {}), expected one", archives.size(), archives[0]),
                        "name the file that you mean");
    return Error{ErrorCode::Unsupported, fmt::format("{}: no format recognised among {} files, expected raw/edge.csv.gz (ogb-raw) or a NPZ file; "
                                                     "convert the graph to one of them", path, names.size())};
}

} // namespace

Result<Ok> refuseKnownKinds(const std::string& path, const std::string& name)
{
    MEGAGRAPH_TRY(const auto bytes, firstBytes(path, name));
    for (const RefusedKind& kind : kRefused) {
        const std::string magic(kind.magic, kind.size);
        if (!bytes.starts_with(magic))
            continue;
        return Error{kind.fault ? ErrorCode::InvalidInput : ErrorCode::Unsupported,
                     fmt::format("{}: byte 0: {}, got bytes {}, expected an ogb-raw folder or a NPZ file; {}", name, kind.what, hexBytes(bytes),
                                 kind.wayOut)};
    }
    std::string head = bytes.substr(0, bytes.find('\n'));
    std::transform(head.begin(), head.end(), head.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    for (size_t at = 0; (at = head.find("smiles", at)) != std::string::npos; ++at) {
        const bool left = at == 0 || std::strchr(",;\t\"", head[at - 1]), right = at + 6 >= head.size() || std::strchr(",;\t\"\r", head[at + 6]);
        if (left && right)
            return Error{ErrorCode::Unsupported, fmt::format("{}: line 1: a table of SMILES strings, got a column smiles, expected graphs; that "
                                                             "needs a chemistry toolkit: use the graphs of an ogb-raw folder", name)};
    }
    return Ok{};
}

Result<Recognised> recogniseSource(const std::string& path, const std::string& format)
{
    std::error_code fault;
    const auto status = fs::status(path, fault);
    if (!fs::exists(status))
        return Error{ErrorCode::NotFound, fmt::format("{}: no such file or folder; check the path", path)};
    std::string trimmed = path;
    while (trimmed.size() > 1 && trimmed.back() == '/')
        trimmed.pop_back();
    auto found = fs::is_directory(status) ? recogniseFolder(trimmed) : recogniseFile(trimmed);
    if (found && format != "auto" && format != found->format)
        return badInput(path, "", fmt::format("recognised as {} ({}), got --format {}", found->format, found->why, format),
                        "leave --format out");
    return found;
}

int64_t memoryBudget(const ImportOptions& options)
{
    return options.memoryBytes > 0 ? options.memoryBytes : availableMemoryBytes() / 2;
}

Result<Ok> checkMemory(int64_t nodes, int64_t lines, const std::string& name, const ImportOptions& options)
{
    const double need = 24.0 * (static_cast<double>(nodes) + static_cast<double>(lines));
    const int64_t budget = memoryBudget(options);
    if (need <= static_cast<double>(budget))
        return Ok{};
    return Error{ErrorCode::OutOfMemory, fmt::format("{}: {} nodes and {} lines need about {}, the budget is {}; give more with --memory, or "
                                                     "check the counts", name, nodes, lines,
                                                     bytesText(static_cast<int64_t>(std::min(need, 9e18))), bytesText(budget))};
}

std::string safeName(const std::string& text)
{
    std::string out;
    for (const char c : text.substr(0, 64)) {
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
        out += plain ? c : '-';
    }
    return out.empty() || out[0] == '.' ? "x" + out : out;
}

} // namespace megagraph
