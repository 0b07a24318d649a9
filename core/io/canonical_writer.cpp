// SPDX-License-Identifier: Apache-2.0
#include "core/io/canonical_writer.h"

#include "core/hash.h"
#include "core/io/npy.h"
#include "core/io/text_number.h"
#include "core/places.h"
#include "core/process.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <tuple>
#include <unistd.h>
#include <utility>

namespace megagraph {

namespace {

Result<Ok> syncFolderOf(const std::string& path)
{
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool synced = descriptor >= 0 && ::fsync(descriptor) == 0;
    const int reason = errno;
    if (descriptor >= 0)
        ::close(descriptor);
    if (!synced)
        return Error{ErrorCode::Io, fmt::format("{}: folder cannot be synced: {}; check the disk", path, std::strerror(reason))};
    return Ok{};
}

std::string randomId()
{
    uint64_t bits = 0;
    if (::getrandom(&bits, sizeof bits, 0) != static_cast<ssize_t>(sizeof bits))
        bits = static_cast<uint64_t>(::getpid()); // the folder is made exclusively, so a clash is an error and no damage
    return fmt::format("{:016x}", bits);
}

/// Removes what killed imports left: .tmp-PID-TICKS-ID of processes that are gone. Live ones (same pid and start) stay.
void sweepTemporaries(const std::string& folder)
{
    std::error_code fault;
    std::vector<std::filesystem::path> dead;
    for (std::filesystem::directory_iterator it(folder, fault), end; !fault && it != end; it.increment(fault)) {
        const std::string name = it->path().filename().string();
        long long pid = 0, ticks = 0;
        if (std::sscanf(name.c_str(), ".tmp-%lld-%lld-", &pid, &ticks) == 2 && processStartTicks(pid) != ticks)
            dead.push_back(it->path());
    }
    for (const auto& path : dead)
        std::filesystem::remove_all(path, fault);
}

Error existsAlready(const std::string& folder, const std::string& name)
{
    return {ErrorCode::Refused, fmt::format("{}: a data set named {} exists already; choose another --name, or write over it with --replace",
                                            folder, name)};
}

std::string arrayLine(const DatasetSpec::Array& array)
{
    std::string shape;
    for (const int64_t extent : array.shape)
        shape += fmt::format("{}{}", shape.empty() ? "" : "x", extent);
    return fmt::format("{} {} {} {}\n", array.file, array.dtype, shape, array.hash);
}

std::string hashOf(const DatasetSpec& spec, const std::vector<std::string>& prefixes, const std::string& more)
{
    std::vector<std::string> lines;
    for (const auto& array : spec.arrays)
        if (prefixes.empty() || std::any_of(prefixes.begin(), prefixes.end(), [&](const auto& p) { return array.file.starts_with(p); }))
            lines.push_back(arrayLine(array));
    std::sort(lines.begin(), lines.end());
    std::string text;
    for (const auto& line : lines)
        text += line;
    return sha256Hex(text + more);
}

} // namespace

void computeHashes(DatasetSpec& spec)
{
    std::string classes;
    for (const std::string& name : spec.classes)
        classes += "class " + name + "\n";
    spec.contentHash = hashOf(spec, {}, classes);
    spec.structureHash = hashOf(spec, {"indptr.npy", "indices.npy", "graph_offsets.npy"}, "");
    spec.featuresHash = hashOf(spec, {"features.npy", "features_"}, "");
    spec.labelsHash = hashOf(spec, {"labels.npy"}, "");
}

Result<Ok> checkDatasetName(const std::string& name)
{
    const auto allowed = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
    };
    if (name.empty() || name.size() > 64 || name[0] == '.' || name[0] == '-' || !std::all_of(name.begin(), name.end(), allowed))
        return Error{ErrorCode::Usage, fmt::format("--name: got {}, expected 1 to 64 letters, digits, dots, dashes or underscores, starting "
                                                   "with none of . and -; choose another name", quotedCell(name))};
    return Ok{};
}

CanonicalWriter::CanonicalWriter(std::string home, std::string name, bool replace)
    : home_(std::move(home)), name_(std::move(name)), replace_(replace)
{
}

CanonicalWriter::CanonicalWriter(CanonicalWriter&& other) noexcept
    : home_(std::move(other.home_)), name_(std::move(other.name_)), temporary_(std::exchange(other.temporary_, "")),
      replace_(other.replace_), arrays_(std::move(other.arrays_))
{
}

CanonicalWriter::~CanonicalWriter()
{
    std::error_code ignored;
    if (!temporary_.empty())
        std::filesystem::remove_all(temporary_, ignored);
}

Result<CanonicalWriter> CanonicalWriter::begin(const std::string& home, const std::string& name, bool replace)
{
    MEGAGRAPH_TRY(std::ignore, checkDatasetName(name));
    const std::string target = datasetFolder(home, name);
    std::error_code ignored;
    if (!replace && std::filesystem::exists(std::filesystem::symlink_status(target, ignored)))
        return existsAlready(target, name);
    MEGAGRAPH_TRY(std::ignore, makeFolders(home + "/datasets"));
    CanonicalWriter writer(home, name, replace);
    sweepTemporaries(home + "/datasets");
    const std::string temporary = fmt::format("{}/datasets/.tmp-{}-{}-{}", home, ::getpid(), processStartTicks(::getpid()), randomId());
    if (::mkdir(temporary.c_str(), 0700) != 0)
        return Error{ErrorCode::Io, fmt::format("{}: cannot be created: {}; check the disk", temporary, std::strerror(errno))};
    writer.temporary_ = temporary;
    return writer;
}

Result<Ok> CanonicalWriter::arrayBytes(const std::string& file, const std::string& dtype, std::vector<int64_t> shape, const void* data,
                                       int64_t bytes)
{
    if (const size_t slash = file.rfind('/'); slash != std::string::npos) {
        MEGAGRAPH_TRY(std::ignore, makeFolders(temporary_ + "/" + file.substr(0, slash)));
    }
    MEGAGRAPH_TRY(auto writer, NpyWriter::create(temporary_, file, dtype, std::move(shape)));
    MEGAGRAPH_TRY(std::ignore, writer.write(data, bytes));
    MEGAGRAPH_TRY(auto array, writer.finish());
    arrays_.push_back(std::move(array));
    return Ok{};
}

Result<Ok> CanonicalWriter::moveIntoPlace(const std::string& target)
{
    if (::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, target.c_str(), RENAME_NOREPLACE) == 0) {
        temporary_.clear();
        return Ok{};
    }
    if (errno == EEXIST && !replace_)
        return existsAlready(target, name_);
    // the old set takes the temporary name in one step, and the destructor removes it
    if (errno == EEXIST && ::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0)
        return Ok{};
    return Error{ErrorCode::Io, fmt::format("{}: cannot be renamed to {}: {}; check the disk", temporary_, target, std::strerror(errno))};
}

Result<std::string> CanonicalWriter::commit(DatasetSpec& spec, const Json& report)
{
    spec.name = name_;
    spec.arrays = arrays_;
    computeHashes(spec);
    MEGAGRAPH_TRY(std::ignore, writeFileAtomically(temporary_ + "/report.json", report.dump(1) + "\n"));
    MEGAGRAPH_TRY(std::ignore, writeFileAtomically(temporary_ + "/dataset.json", datasetToJson(spec).dump(1) + "\n"));
    std::error_code ignored;
    if (std::filesystem::exists(temporary_ + "/splits", ignored)) {
        MEGAGRAPH_TRY(std::ignore, syncFolderOf(temporary_ + "/splits"));
    }
    MEGAGRAPH_TRY(std::ignore, syncFolderOf(temporary_));
    const std::string target = datasetFolder(home_, name_);
    MEGAGRAPH_TRY(std::ignore, moveIntoPlace(target));
    MEGAGRAPH_TRY(std::ignore, syncFolderOf(home_ + "/datasets"));
    return target;
}

} // namespace megagraph
