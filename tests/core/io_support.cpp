// SPDX-License-Identifier: Apache-2.0
#include "tests/core/io_support.h"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <fstream>
#include <sstream>
#include <zlib.h>

namespace megagraph::test {

namespace fs = std::filesystem;

Scratch::Scratch()
{
    std::string pattern = (fs::temp_directory_path() / "megagraph-io-XXXXXX").string();
    root_ = ::mkdtemp(pattern.data()) ? pattern : "";
    EXPECT_FALSE(root_.empty());
}

Scratch::~Scratch()
{
    std::error_code ignored;
    fs::remove_all(root_, ignored);
}

std::vector<std::string> Scratch::storedSets() const
{
    std::vector<std::string> names;
    std::error_code ignored;
    for (fs::directory_iterator it(home() + "/datasets", ignored), end; !ignored && it != end; it.increment(ignored))
        names.push_back(it->path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
}

void Scratch::write(const std::string& name, const std::string& bytes) const
{
    fs::create_directories(fs::path(path(name)).parent_path());
    std::ofstream(path(name), std::ios::binary) << bytes;
}

void Scratch::writeGzip(const std::string& name, const std::string& text) const
{
    write(name, gzipped(text));
}

void Scratch::copyFolder(const std::string& from, const std::string& name) const
{
    fs::create_directories(path(name));
    for (const auto& entry : fs::recursive_directory_iterator(from)) {
        const fs::path to = fs::path(path(name)) / fs::relative(entry.path(), from);
        if (entry.is_directory())
            fs::create_directories(to);
        else
            std::ofstream(to, std::ios::binary) << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    }
}

std::string Scratch::read(const std::string& name) const
{
    std::ostringstream text;
    text << std::ifstream(path(name), std::ios::binary).rdbuf();
    return text.str();
}

std::string sharedData()
{
    const char* given = std::getenv("MEGAGRAPH_SHARED_DATA");
    const std::string folder = given ? given : MEGAGRAPH_SOURCE_DIR "/../shared/data";
    return fs::exists(folder + "/cora-ogb/raw/edge.csv.gz") ? folder : "";
}

namespace {

std::string deflated(const std::string& text, int windowBits)
{
    z_stream stream{};
    EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, windowBits, 8, Z_DEFAULT_STRATEGY), Z_OK);
    std::string out(deflateBound(&stream, text.size()) + 64, '\0');
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
    stream.avail_in = static_cast<uInt>(text.size());
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    EXPECT_EQ(::deflate(&stream, Z_FINISH), Z_STREAM_END);
    out.resize(out.size() - stream.avail_out);
    deflateEnd(&stream);
    return out;
}

std::string little(uint64_t value, int bytes)
{
    std::string out;
    for (int b = 0; b < bytes; ++b)
        out += static_cast<char>(value >> (8 * b));
    return out;
}

} // namespace

std::string gzipped(const std::string& text)
{
    return deflated(text, 15 + 16);
}

std::string gunzipped(const std::string& bytes)
{
    z_stream stream{};
    EXPECT_EQ(inflateInit2(&stream, 15 + 16), Z_OK);
    std::string out(size_t(64) << 20, '\0');
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    stream.avail_in = static_cast<uInt>(bytes.size());
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    EXPECT_EQ(::inflate(&stream, Z_FINISH), Z_STREAM_END);
    out.resize(out.size() - stream.avail_out);
    inflateEnd(&stream);
    return out;
}

std::string zipped(const std::vector<ZipEntry>& entries)
{
    std::string out, directory;
    for (const ZipEntry& entry : entries) {
        const std::string packed = entry.deflated ? deflated(entry.data, -15) : entry.data;
        const auto crc = ::crc32(0, reinterpret_cast<const Bytef*>(entry.data.data()), static_cast<uInt>(entry.data.size()));
        const std::string common = little(20, 2) + little(0, 2) + little(entry.deflated ? 8 : 0, 2) + little(0, 4) + little(crc, 4) +
                                   little(packed.size(), 4) + little(entry.data.size(), 4) + little(entry.name.size(), 2) + little(0, 2);
        directory += "PK\x01\x02" + little(20, 2) + common + little(0, 2) + little(0, 2) + little(0, 2) + little(0, 4) + little(out.size(), 4) + entry.name;
        out += "PK\x03\x04" + common + entry.name + packed;
    }
    const size_t at = out.size();
    return out + directory + "PK\x05\x06" + little(0, 4) + little(entries.size(), 2) + little(entries.size(), 2) + little(directory.size(), 4) +
           little(at, 4) + little(0, 2);
}

std::string npy(const std::string& dtype, const std::string& shape, const std::string& data, bool fortran)
{
    std::string text = fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': {}, }}", dtype, fortran ? "True" : "False", shape);
    text.append(63 - (10 + text.size()) % 64, ' ');
    text += '\n';
    return std::string("\x93NUMPY\x01\x00", 8) + little(text.size(), 2) + text + data;
}

void writeOgb(const Scratch& scratch, const std::string& folder, int64_t nodes, const std::string& edges, const std::string& labels)
{
    scratch.writeGzip(folder + "/raw/edge.csv.gz", edges);
    scratch.writeGzip(folder + "/raw/num-node-list.csv.gz", fmt::format("{}\n", nodes));
    scratch.writeGzip(folder + "/raw/num-edge-list.csv.gz", fmt::format("{}\n", std::count(edges.begin(), edges.end(), '\n')));
    if (!labels.empty())
        scratch.writeGzip(folder + "/raw/node-label.csv.gz", labels);
}

Result<ImportReport> importInto(const Scratch& scratch, const std::string& path, const std::string& name, ImportOptions options)
{
    options.name = name;
    return importDataset(path, options, scratch.home(), {}, {});
}

void expectRefusal(const Scratch& scratch, const std::string& path, ErrorCode code, const std::vector<std::string>& pieces, ImportOptions options)
{
    const auto before = scratch.storedSets();
    const auto result = importInto(scratch, path, "refused", options);
    ASSERT_FALSE(result.ok()) << path;
    EXPECT_EQ(errorCodeName(result.error().code), std::string(errorCodeName(code))) << result.error().message;
    for (const std::string& piece : pieces)
        EXPECT_NE(result.error().message.find(piece), std::string::npos) << "no \"" << piece << "\" in: " << result.error().message;
    EXPECT_EQ(result.error().message.find('\n'), std::string::npos);
    EXPECT_EQ(scratch.storedSets(), before) << "something was left behind";
}

} // namespace megagraph::test
