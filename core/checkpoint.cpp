// SPDX-License-Identifier: Apache-2.0
#include "core/checkpoint.h"

#include "core/file.h"
#include "core/hash.h"
#include "core/places.h"
#include "core/safetensors.h"
#include "core/units.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <sys/stat.h>
#include <tuple>
#include <unistd.h>

namespace megagraph {
namespace {

namespace fs = std::filesystem;
constexpr size_t kMaxManifestBytes = 64 << 20;

/// Writes through to a descriptor and keeps the CRC32C of each 1 MiB block.
class BlockWriter {
  public:
    BlockWriter(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}

    Result<Ok> write(const void* data, int64_t size)
    {
        const char* next = static_cast<const char*>(data);
        while (size > 0) {
            const int64_t part = std::min(size, kChecksumBlock - filled_);
            MEGAGRAPH_TRY(std::ignore, writeAll(fd_, std::string_view(next, size_t(part)), path_));
            crc_ = crc32c(next, size_t(part), crc_);
            filled_ += part;
            bytes_ += part;
            next += part;
            size -= part;
            if (filled_ == kChecksumBlock)
                endBlock();
        }
        return Ok{};
    }
    ShardFile finish(const std::string& name)
    {
        if (filled_ > 0)
            endBlock();
        return {name, bytes_, std::move(blocks_)};
    }

  private:
    void endBlock()
    {
        blocks_.push_back(crc_);
        crc_ = 0;
        filled_ = 0;
    }

    int fd_;
    std::string path_;
    std::vector<uint32_t> blocks_;
    int64_t filled_ = 0, bytes_ = 0;
    uint32_t crc_ = 0;
};

Result<Ok> syncAndClose(FileDescriptor file, const std::string& path)
{
    if (::fdatasync(file.get()) != 0)
        return Error{ErrorCode::Io, fmt::format("{}: fdatasync failed: {}", path, std::strerror(errno))};
    if (::close(file.release()) != 0)
        return Error{ErrorCode::Io, fmt::format("{}: close failed: {}", path, std::strerror(errno))};
    return Ok{};
}

Result<Ok> writeSyncedFile(const std::string& path, const std::string& bytes)
{
    MEGAGRAPH_TRY(FileDescriptor file, openFile(path, O_WRONLY | O_CREAT | O_TRUNC, 0600));
    MEGAGRAPH_TRY(std::ignore, writeAll(file.get(), bytes, path));
    return syncAndClose(std::move(file), path);
}

std::string rankName(int64_t rank, const char* suffix)
{
    return fmt::format("rank-{:04}.{}", rank, suffix);
}

Json fileToJson(const ShardFile& file)
{
    return Json{{"name", file.name}, {"bytes", file.bytes}, {"block_crc32c", file.blockCrc}};
}

Json sliceToJson(const TensorSlice& slice)
{
    return Json{{"tensor", slice.tensor}, {"dtype", slice.dtype}, {"shape", slice.shape},  {"begin", slice.begin},
                {"end", slice.end},       {"file", slice.file},   {"offset", slice.offset}};
}

/// A plain file name: no folder, no dot file. Names come from files that a stranger may have edited.
bool plainName(const std::string& name)
{
    return !name.empty() && name.size() < 256 && name[0] != '.' && name.find('/') == std::string::npos;
}

ShardFile readFile(ObjectReader& reader)
{
    ShardFile file;
    reader.get("name", file.name);
    reader.get("bytes", file.bytes, 0, int64_t(1) << 50);
    std::vector<int64_t> blocks;
    reader.get("block_crc32c", blocks);
    for (const int64_t crc : blocks)
        file.blockCrc.push_back(uint32_t(crc));
    if (!plainName(file.name))
        reader.fail("name", "expected a plain file name");
    if (int64_t(blocks.size()) != (file.bytes + kChecksumBlock - 1) / kChecksumBlock)
        reader.fail("block_crc32c", fmt::format("{} blocks for {} bytes", blocks.size(), file.bytes));
    return file;
}

TensorSlice readSlice(ObjectReader& reader)
{
    constexpr int64_t most = int64_t(1) << 48;
    TensorSlice slice;
    reader.get("tensor", slice.tensor);
    reader.get("dtype", slice.dtype);
    reader.get("shape", slice.shape);
    reader.get("begin", slice.begin, 0, most);
    reader.get("end", slice.end, 0, most);
    reader.get("file", slice.file);
    reader.get("offset", slice.offset, 0, int64_t(1) << 50);
    if (elementBytes(slice.dtype) == 0)
        reader.fail("dtype", "unknown dtype " + slice.dtype);
    if (slice.end < slice.begin)
        reader.fail("end", fmt::format("range [{}, {}) is not a range", slice.begin, slice.end));
    return slice;
}

Json sidecarToJson(const Sidecar& sidecar)
{
    Json slices = Json::array();
    for (const auto& slice : sidecar.slices)
        slices.push_back(sliceToJson(slice));
    return Json{{"format", "megagraph.shard"}, {"version", 1},        {"rank", sidecar.rank},  {"step", sidecar.step},
                {"file", fileToJson(sidecar.file)}, {"slices", slices}, {"state", sidecar.state}};
}

Result<Sidecar> sidecarFromJson(const Json& value, const std::string& file)
{
    Sidecar sidecar;
    ObjectReader reader(value, file, "");
    reader.expectFormat("megagraph.shard", 1);
    reader.get("rank", sidecar.rank, 0, 1 << 20);
    reader.get("step", sidecar.step, 0, int64_t(1) << 48);
    ObjectReader shard = reader.child("file");
    sidecar.file = readFile(shard);
    for (auto& child : reader.children("slices"))
        sidecar.slices.push_back(readSlice(child));
    if (const Json* state = reader.raw("state"))
        sidecar.state = *state;
    MEGAGRAPH_TRY(std::ignore, reader.finish());
    return sidecar;
}

/// Manifests may be larger than other documents, so they are read under their own cap.
Result<Json> readLargeJson(const std::string& path)
{
    MEGAGRAPH_TRY(const std::string text, readSmallFile(path, kMaxManifestBytes));
    Json value = Json::parse(text, nullptr, false);
    if (!value.is_object())
        return Error{ErrorCode::Corrupt, path + ": not a JSON object"};
    return value;
}

Error corruptIn(const std::string& place, const std::string& what)
{
    return {ErrorCode::Corrupt, place + ": " + what};
}

Result<Ok> checkFiles(const std::string& folder, const CheckpointManifest& manifest)
{
    std::map<std::string, int64_t> sizes;
    for (const auto& file : manifest.files) {
        struct stat info{};
        const std::string path = folder + "/" + file.name;
        if (::lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode))
            return corruptIn(path, "file is missing, expected " + bytesText(file.bytes));
        if (info.st_size != file.bytes)
            return corruptIn(path, fmt::format("file has {} bytes, expected {}", info.st_size, file.bytes));
        sizes[file.name] = file.bytes;
    }
    for (const auto& slice : manifest.slices) {
        const auto size = sizes.find(slice.file);
        if (size == sizes.end() || slice.offset + (slice.end - slice.begin) * elementBytes(slice.dtype) > size->second)
            return corruptIn(folder, fmt::format("{}: elements [{}, {}) lie outside file {}", slice.tensor, slice.begin, slice.end, slice.file));
    }
    return Ok{};
}

Result<Sidecar> readSidecar(const std::string& folder, const ShardReport& report, int64_t step)
{
    if (!plainName(report.name) || !plainName(report.sidecar))
        return corruptIn(folder, "shard report names a file outside the checkpoint folder");
    const std::string path = folder + "/" + report.sidecar;
    MEGAGRAPH_TRY(const std::string text, readSmallFile(path, kMaxManifestBytes));
    if (crc32c(text.data(), text.size()) != report.sidecarCrc)
        return corruptIn(path, "checksum differs from the one that the rank reported");
    const Json value = Json::parse(text, nullptr, false);
    MEGAGRAPH_TRY(Sidecar sidecar, sidecarFromJson(value, path));
    if (sidecar.step != step || sidecar.file.name != report.name || sidecar.file.bytes != report.bytes)
        return corruptIn(path, "step, name or size differs from the report");
    return sidecar;
}

/// A step that an earlier attempt committed too is exchanged in one call, so that at no moment neither of the two is there.
Result<Ok> renameInto(const std::string& temporary, const std::string& final)
{
    if (::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, final.c_str(), RENAME_NOREPLACE) == 0)
        return Ok{};
    if (errno == EEXIST && ::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, final.c_str(), RENAME_EXCHANGE) == 0) {
        std::error_code ignored;
        fs::remove_all(temporary, ignored); // now the old one
        return Ok{};
    }
    if (errno == EINVAL && ::rename(temporary.c_str(), final.c_str()) == 0) // no flags on this file system, nothing to replace
        return Ok{};
    return Error{ErrorCode::Io, fmt::format("{}: rename to {} failed: {}", temporary, final, std::strerror(errno))};
}

Result<Ok> publish(const std::string& temporary, const std::string& final, const CheckpointManifest& manifest,
                   const std::vector<ShardReport>& reports)
{
    const std::string unnamed = temporary + "/manifest.tmp", named = temporary + "/manifest.json";
    MEGAGRAPH_TRY(std::ignore, writeSyncedFile(unnamed, manifestToJson(manifest).dump() + "\n"));
    if (::rename(unnamed.c_str(), named.c_str()) != 0)
        return Error{ErrorCode::Io, fmt::format("{}: rename failed: {}", named, std::strerror(errno))};
    for (const auto& report : reports)
        ::unlink((temporary + "/" + report.sidecar).c_str()); // a left-over sidecar does no harm
    MEGAGRAPH_TRY(std::ignore, syncFolder(temporary));
    MEGAGRAPH_TRY(std::ignore, renameInto(temporary, final));
    return syncFolder(fs::path(final).parent_path().string());
}

/// Step number of "step-000001200"; -1 for any other name, temporary folders included.
int64_t stepOfName(const std::string& name)
{
    if (name.rfind("step-", 0) != 0 || name.size() < 6 || name.size() > 23)
        return -1;
    if (name.find_first_not_of("0123456789", 5) != std::string::npos)
        return -1;
    return std::strtoll(name.c_str() + 5, nullptr, 10);
}

} // namespace

std::string checkpointName(int64_t step)
{
    return fmt::format("step-{:09}", step);
}

std::string checkpointTempName(int64_t step, int64_t attempt)
{
    return fmt::format("{}.tmp-a{}", checkpointName(step), attempt);
}

Result<ShardReport> writeShard(const std::string& folder, int64_t rank, int64_t step, std::vector<TensorData> pieces, const Json& state)
{
    MEGAGRAPH_TRY(std::ignore, makeFolders(folder));
    std::vector<SafetensorsEntry> entries;
    for (const auto& piece : pieces) {
        const TensorSlice& slice = piece.slice;
        SafetensorsEntry entry{slice.tensor, slice.dtype, {slice.end - slice.begin}, 0, 0};
        SafetensorsEntry whole{slice.tensor, slice.dtype, slice.shape, 0, 0};
        if (slice.begin == 0 && slice.end == whole.elements())
            entry.shape = slice.shape;
        else
            entry.name = fmt::format("{}@{}", slice.tensor, slice.begin);
        entries.push_back(std::move(entry));
    }
    const std::string name = rankName(rank, "safetensors"), path = folder + "/" + name;
    const std::string header = encodeSafetensorsHeader(entries, {{"format", "megagraph"}});
    MEGAGRAPH_TRY(FileDescriptor file, openFile(path, O_WRONLY | O_CREAT | O_TRUNC, 0600));
    const int64_t total = int64_t(header.size()) + (entries.empty() ? 0 : entries.back().end);
    if (total > 0)
        if (const int code = ::posix_fallocate(file.get(), 0, off_t(total)); code == ENOSPC)
            return Error{ErrorCode::Io, fmt::format("{}: no space for {}: free some or use another home", path, bytesText(total))};
    BlockWriter writer(file.get(), path);
    MEGAGRAPH_TRY(std::ignore, writer.write(header.data(), int64_t(header.size())));
    Sidecar sidecar;
    for (size_t i = 0; i < pieces.size(); ++i) {
        TensorSlice slice = pieces[i].slice;
        slice.file = name;
        slice.offset = int64_t(header.size()) + entries[i].begin;
        MEGAGRAPH_TRY(std::ignore, writer.write(pieces[i].data, entries[i].end - entries[i].begin));
        sidecar.slices.push_back(std::move(slice));
    }
    MEGAGRAPH_TRY(std::ignore, syncAndClose(std::move(file), path));
    sidecar.rank = rank;
    sidecar.step = step;
    sidecar.file = writer.finish(name);
    sidecar.state = state;
    const std::string text = sidecarToJson(sidecar).dump() + "\n", sidecarName = rankName(rank, "json");
    MEGAGRAPH_TRY(std::ignore, writeSyncedFile(folder + "/" + sidecarName, text));
    return ShardReport{name, sidecarName, sidecar.file.bytes, crc32c(text.data(), text.size())};
}

Json shardReportToJson(const ShardReport& report)
{
    return Json{{"name", report.name}, {"bytes", report.bytes}, {"sidecar", report.sidecar},
                {"sidecar_crc32c", fmt::format("{:08x}", report.sidecarCrc)}};
}

Result<ShardReport> shardReportFromJson(const Json& value)
{
    ShardReport report;
    std::string crc;
    ObjectReader reader(value, "checkpoint.shard", "files");
    reader.get("name", report.name);
    reader.get("bytes", report.bytes, 0, int64_t(1) << 50);
    reader.get("sidecar", report.sidecar);
    reader.get("sidecar_crc32c", crc);
    reader.allowUnknown();
    MEGAGRAPH_TRY(std::ignore, reader.finish());
    report.sidecarCrc = uint32_t(std::strtoul(crc.c_str(), nullptr, 16));
    return report;
}

Result<Ok> checkCoverage(std::vector<TensorSlice> slices)
{
    std::sort(slices.begin(), slices.end(),
              [](const auto& a, const auto& b) { return std::tie(a.tensor, a.begin, a.end) < std::tie(b.tensor, b.begin, b.end); });
    for (size_t i = 0; i < slices.size();) {
        const TensorSlice& first = slices[i];
        const int64_t total = SafetensorsEntry{first.tensor, first.dtype, first.shape, 0, 0}.elements();
        int64_t covered = 0;
        for (; i < slices.size() && slices[i].tensor == first.tensor; ++i) {
            const TensorSlice& slice = slices[i];
            if (slice.dtype != first.dtype || slice.shape != first.shape)
                return corruptIn(slice.tensor, fmt::format("slices in {} and {} disagree on dtype or shape", first.file, slice.file));
            if (slice.begin > covered)
                return corruptIn(slice.tensor, fmt::format("elements [{}, {}) are missing", covered, slice.begin));
            if (slice.begin < covered && slice.end > slice.begin)
                return corruptIn(slice.tensor, fmt::format("elements [{}, {}) are written twice", slice.begin, std::min(covered, slice.end)));
            covered = std::max(covered, slice.end);
        }
        if (covered != total)
            return corruptIn(first.tensor, covered < total ? fmt::format("elements [{}, {}) are missing", covered, total)
                                                           : fmt::format("{} elements written, expected {}", covered, total));
    }
    return Ok{};
}

Result<CheckpointManifest> commitCheckpoint(const std::string& runFolder, const CheckpointManifest& identity,
                                            const std::vector<ShardReport>& reports)
{
    const std::string parent = runFolder + "/checkpoints";
    const std::string temporary = parent + "/" + checkpointTempName(identity.step, identity.attempt);
    CheckpointManifest manifest = identity;
    manifest.createdUtc = utcNow();
    for (const auto& report : reports) {
        MEGAGRAPH_TRY(Sidecar sidecar, readSidecar(temporary, report, identity.step));
        manifest.files.push_back(std::move(sidecar.file));
        manifest.slices.insert(manifest.slices.end(), sidecar.slices.begin(), sidecar.slices.end());
        if (sidecar.rank == 0)
            manifest.state = sidecar.state;
    }
    std::sort(manifest.slices.begin(), manifest.slices.end(),
              [](const auto& a, const auto& b) { return std::tie(a.tensor, a.begin) < std::tie(b.tensor, b.begin); });
    MEGAGRAPH_TRY(std::ignore, checkCoverage(manifest.slices));
    MEGAGRAPH_TRY(std::ignore, checkFiles(temporary, manifest));
    const std::string final = parent + "/" + checkpointName(identity.step);
    MEGAGRAPH_TRY(std::ignore, publish(temporary, final, manifest, reports));
    return manifest;
}

Json manifestToJson(const CheckpointManifest& manifest)
{
    Json files = Json::array(), slices = Json::array();
    for (const auto& file : manifest.files)
        files.push_back(fileToJson(file));
    for (const auto& slice : manifest.slices)
        slices.push_back(sliceToJson(slice));
    return Json{{"format", "megagraph.checkpoint"},
                {"version", 1},
                {"run", manifest.run},
                {"attempt", manifest.attempt},
                {"step", manifest.step},
                {"parent_step", manifest.parentStep},
                {"world", manifest.world},
                {"seed", manifest.seed},
                {"created_utc", manifest.createdUtc},
                {"hashes", {{"plan", manifest.planHash}, {"model", manifest.modelHash}, {"data", manifest.dataHash}}},
                {"build", manifest.buildId},
                {"tainted", manifest.tainted},
                {"state", manifest.state},
                {"files", files},
                {"slices", slices}};
}

Result<CheckpointManifest> manifestFromJson(const Json& value, const std::string& file)
{
    constexpr int64_t most = int64_t(1) << 48;
    CheckpointManifest out;
    ObjectReader reader(value, file, "");
    reader.expectFormat("megagraph.checkpoint", 1);
    reader.get("run", out.run);
    reader.get("attempt", out.attempt, 1, most);
    reader.get("step", out.step, 0, most);
    reader.get("parent_step", out.parentStep, 0, most);
    reader.get("world", out.world, 1, 1 << 20);
    if (const Json* seed = reader.raw("seed"); seed && seed->is_number_integer())
        out.seed = seed->get<uint64_t>();
    reader.get("created_utc", out.createdUtc);
    ObjectReader hashes = reader.child("hashes");
    hashes.get("plan", out.planHash);
    hashes.get("model", out.modelHash);
    hashes.get("data", out.dataHash);
    reader.get("build", out.buildId);
    reader.get("tainted", out.tainted);
    if (const Json* state = reader.raw("state"))
        out.state = *state;
    for (auto& child : reader.children("files"))
        out.files.push_back(readFile(child));
    for (auto& child : reader.children("slices"))
        out.slices.push_back(readSlice(child));
    reader.allowUnknown();
    MEGAGRAPH_TRY(std::ignore, reader.finish());
    return out;
}

Result<CheckpointManifest> readManifest(const std::string& folder)
{
    const std::string path = folder + "/manifest.json";
    MEGAGRAPH_TRY(const Json value, readLargeJson(path));
    MEGAGRAPH_TRY(CheckpointManifest manifest, manifestFromJson(value, path));
    MEGAGRAPH_TRY(std::ignore, checkFiles(folder, manifest));
    MEGAGRAPH_TRY(std::ignore, checkCoverage(manifest.slices));
    return manifest;
}

Result<CheckpointList> listCheckpoints(const std::string& runFolder)
{
    CheckpointList list;
    std::error_code error;
    for (fs::directory_iterator it(runFolder + "/checkpoints", error), end; !error && it != end; it.increment(error)) {
        const int64_t step = stepOfName(it->path().filename().string());
        if (step < 0)
            continue;
        const auto manifest = readManifest(it->path().string());
        if (!manifest.ok()) {
            list.damaged.push_back({step, it->path().string(), manifest.error().message});
            continue;
        }
        CheckpointEntry entry{step, it->path().string(), 0};
        for (const auto& file : manifest->files)
            entry.bytes += file.bytes;
        list.entries.push_back(std::move(entry));
    }
    if (error && error != std::errc::no_such_file_or_directory)
        return Error{ErrorCode::Io, fmt::format("{}/checkpoints: {}", runFolder, error.message())};
    std::sort(list.entries.begin(), list.entries.end(), [](const auto& a, const auto& b) { return a.step > b.step; });
    return list;
}

Result<CheckpointEntry> findCheckpoint(const std::string& runFolder, int64_t step)
{
    MEGAGRAPH_TRY(const CheckpointList list, listCheckpoints(runFolder));
    for (const auto& entry : list.entries)
        if (step < 0 || entry.step == step)
            return entry;
    std::string have = list.entries.empty() ? "none is committed" : "committed steps:";
    for (const auto& entry : list.entries)
        have += fmt::format(" {}", entry.step);
    for (const auto& damaged : list.damaged)
        have += fmt::format("; step {} is damaged ({})", damaged.step, damaged.reason);
    return Error{ErrorCode::NotFound, fmt::format("{}: no checkpoint{}; {}", runFolder, step < 0 ? "" : fmt::format(" of step {}", step), have)};
}

void removeUnfinishedCheckpoints(const std::string& runFolder)
{
    std::error_code error;
    std::vector<fs::path> doomed;
    for (fs::directory_iterator it(runFolder + "/checkpoints", error), end; !error && it != end; it.increment(error))
        if (it->path().filename().string().find(".tmp-a") != std::string::npos)
            doomed.push_back(it->path());
    for (const auto& path : doomed)
        fs::remove_all(path, error);
}

struct CheckpointReader::State {
    struct OpenFile { FileDescriptor fd; const ShardFile* file = nullptr; std::vector<bool> checked; };
    std::string folder;
    CheckpointManifest manifest;
    std::map<std::string, OpenFile> files;
    std::map<std::string, std::vector<const TensorSlice*>> tensors; // slices by begin

    /// Checks the blocks that bytes [begin, end) touch, each once.
    Result<Ok> checkBlocks(OpenFile& open, int64_t begin, int64_t end)
    {
        std::vector<char> block;
        for (int64_t index = begin / kChecksumBlock; index * kChecksumBlock < end; ++index) {
            if (open.checked[size_t(index)])
                continue;
            const int64_t at = index * kChecksumBlock;
            block.resize(size_t(std::min(kChecksumBlock, open.file->bytes - at)));
            const std::string path = folder + "/" + open.file->name;
            MEGAGRAPH_TRY(std::ignore, readAt(open.fd.get(), at, block.data(), block.size(), path));
            const uint32_t got = crc32c(block.data(), block.size());
            if (got != open.file->blockCrc[size_t(index)])
                return corruptIn(path, fmt::format("block {}: checksum is {:08x}, expected {:08x}; resume from an earlier step", index, got,
                                                   open.file->blockCrc[size_t(index)]));
            open.checked[size_t(index)] = true;
        }
        return Ok{};
    }
};

Result<CheckpointReader> CheckpointReader::open(const std::string& folder)
{
    auto state = std::make_unique<State>();
    state->folder = folder;
    MEGAGRAPH_TRY(state->manifest, readManifest(folder));
    for (const auto& file : state->manifest.files) {
        State::OpenFile& open = state->files[file.name];
        MEGAGRAPH_TRY(open.fd, openFile(folder + "/" + file.name, O_RDONLY | O_NOFOLLOW));
        open.file = &file;
        open.checked.assign(file.blockCrc.size(), false);
    }
    for (const auto& slice : state->manifest.slices)
        state->tensors[slice.tensor].push_back(&slice);
    return CheckpointReader(std::move(state));
}

CheckpointReader::CheckpointReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
CheckpointReader::CheckpointReader(CheckpointReader&&) noexcept = default;
CheckpointReader& CheckpointReader::operator=(CheckpointReader&&) noexcept = default;
CheckpointReader::~CheckpointReader() = default;

const CheckpointManifest& CheckpointReader::manifest() const
{
    return state_->manifest;
}

bool CheckpointReader::has(const std::string& tensor) const
{
    return state_->tensors.count(tensor) > 0;
}

const std::vector<int64_t>* CheckpointReader::shape(const std::string& tensor) const
{
    const auto found = state_->tensors.find(tensor);
    return found == state_->tensors.end() ? nullptr : &found->second.front()->shape;
}

Result<Ok> CheckpointReader::verify()
{
    for (auto& [name, file] : state_->files) {
        MEGAGRAPH_TRY(std::ignore, state_->checkBlocks(file, 0, file.file->bytes));
    }
    return Ok{};
}

Result<Ok> CheckpointReader::read(const std::string& tensor, int64_t begin, int64_t end, void* out, int64_t outBytes)
{
    const auto found = state_->tensors.find(tensor);
    if (found == state_->tensors.end())
        return Error{ErrorCode::NotFound, fmt::format("{}: no tensor {}", state_->folder, tensor)};
    const TensorSlice& first = *found->second.front();
    const int64_t size = elementBytes(first.dtype), total = SafetensorsEntry{tensor, first.dtype, first.shape, 0, 0}.elements();
    if (begin < 0 || end < begin || end > total || outBytes != (end - begin) * size)
        return Error{ErrorCode::Internal, fmt::format("{}: {}: range [{}, {}) of {} elements into {} bytes", state_->folder, tensor, begin, end, total, outBytes)};
    for (const TensorSlice* slice : found->second) { // coverage was checked at open, so the pieces fill the range
        const int64_t from = std::max(begin, slice->begin), to = std::min(end, slice->end);
        if (from >= to)
            continue;
        State::OpenFile& file = state_->files[slice->file];
        const int64_t at = slice->offset + (from - slice->begin) * size, bytes = (to - from) * size;
        MEGAGRAPH_TRY(std::ignore, state_->checkBlocks(file, at, at + bytes));
        MEGAGRAPH_TRY(std::ignore, readAt(file.fd.get(), at, static_cast<char*>(out) + (from - begin) * size, size_t(bytes), slice->file));
    }
    return Ok{};
}

} // namespace megagraph
