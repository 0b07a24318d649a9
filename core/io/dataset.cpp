// SPDX-License-Identifier: Apache-2.0
#include "core/io/dataset.h"

#include "core/io/canonical_writer.h"
#include "core/io/npy.h"
#include "core/io/source_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <functional>
#include <map>
#include <sys/mman.h>
#include <sys/stat.h>
#include <tuple>
#include <unistd.h>

namespace megagraph {

struct Dataset::Maps {
    struct Map { void* address; size_t size; int64_t dataOffset; };
    std::map<std::string, Map> byFile;

    Maps() = default;
    Maps(const Maps&) = delete;
    Maps& operator=(const Maps&) = delete;
    /// Size from fstat against dataset.json, then the header against both; maps read-only.
    Result<Ok> add(const std::string& folder, const DatasetSpec::Array& array);
    template <class T> std::span<const T> span(const std::string& file) const
    {
        const auto found = byFile.find(file);
        if (found == byFile.end())
            return {};
        const Map& map = found->second;
        const auto* data = static_cast<const char*>(map.address) + map.dataOffset;
        return {reinterpret_cast<const T*>(data), (map.size - static_cast<size_t>(map.dataOffset)) / sizeof(T)};
    }
    ~Maps()
    {
        for (const auto& [file, map] : byFile)
            ::munmap(map.address, map.size);
    }
};

namespace {

constexpr int64_t kHashChunkBytes = int64_t(64) << 20;
constexpr const char* kImportAgain = "import the data set again with --replace";

Error corrupt(const std::string& path, const std::string& what)
{
    return {ErrorCode::Corrupt, path + ": " + what + "; " + kImportAgain};
}

/// File names inside a set: plain names, splits one folder deep. Nothing may point outside.
bool plainName(const std::string& file)
{
    std::string name = file.starts_with("splits/") ? file.substr(7) : file;
    return !name.empty() && name.size() <= 255 && name[0] != '.' && name.find('/') == std::string::npos &&
           name.find('\0') == std::string::npos;
}

Result<int64_t> expectedDataBytes(const DatasetSpec::Array& array, const std::string& path)
{
    int64_t bytes = npyItemSize(array.dtype);
    bool fits = bytes > 0 && array.shape.size() <= 8;
    for (const int64_t extent : array.shape)
        fits = fits && extent >= 0 && !__builtin_mul_overflow(bytes, extent, &bytes);
    if (!fits)
        return corrupt(path, fmt::format("impossible type or shape in dataset.json, got {}", array.dtype));
    return bytes;
}

} // namespace

Result<Ok> Dataset::Maps::add(const std::string& folder, const DatasetSpec::Array& array)
{
    const std::string path = folder + "/" + array.file;
    if (!plainName(array.file) || byFile.contains(array.file))
        return corrupt(folder + "/dataset.json", "bad or repeated array name, got " + array.file);
    MEGAGRAPH_TRY(const int64_t dataBytes, expectedDataBytes(array, path));
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (descriptor < 0)
        return corrupt(path, fmt::format("cannot be opened: {}, expected a file of {} bytes", std::strerror(errno), array.sizeBytes));
    struct stat status {};
    const bool known = ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
    const auto size = known ? static_cast<int64_t>(status.st_size) : -1;
    void* address = MAP_FAILED;
    if (size == array.sizeBytes && size > 0)
        address = ::mmap(nullptr, static_cast<size_t>(size), PROT_READ, MAP_PRIVATE, descriptor, 0);
    ::close(descriptor);
    if (size != array.sizeBytes)
        return corrupt(path, fmt::format("wrong size, got {} bytes, expected {}", size, array.sizeBytes));
    if (address == MAP_FAILED)
        return Error{ErrorCode::Io, fmt::format("{}: cannot be mapped: {}; free some memory", path, std::strerror(errno))};
    Map& map = byFile[array.file] = {address, static_cast<size_t>(size), 0};
    const std::span bytes(static_cast<const uint8_t*>(address), std::min<size_t>(static_cast<size_t>(size), 1 << 17));
    auto header = parseNpyHeader(bytes, size, path);
    if (!header)
        return corrupt(path, header.error().message);
    if (header->dtype() != array.dtype || header->shape != array.shape || header->fortranOrder || header->dataOffset % 64 != 0 ||
        header->dataOffset + dataBytes != size)
        return corrupt(path, fmt::format("header and dataset.json disagree, got {} of {} elements, expected {}", header->dtype(),
                                         header->count(), array.dtype));
    map.dataOffset = header->dataOffset;
    return Ok{};
}

namespace {

const DatasetSpec::Array* findArray(const DatasetSpec& spec, const std::string& file)
{
    for (const auto& array : spec.arrays)
        if (array.file == file)
            return &array;
    return nullptr;
}

/// The array, when it is there or must be, has this type and shape.
Result<Ok> expectArray(const DatasetSpec& spec, const std::string& folder, const std::string& file, const std::string& dtype,
                       const std::vector<int64_t>& shape, bool required)
{
    const auto* array = findArray(spec, file);
    if (!array && !required)
        return Ok{};
    if (array && array->dtype == dtype && array->shape == shape)
        return Ok{};
    std::string expected;
    for (const int64_t extent : shape)
        expected += fmt::format("{}{}", expected.empty() ? "" : "x", extent);
    return corrupt(folder + "/dataset.json", fmt::format("arrays: {} is {}, expected {} {}", file, array ? "of another type or shape" : "missing",
                                                         dtype, expected));
}

Result<Ok> expectArrays(const DatasetSpec& spec, const std::string& folder)
{
    const int64_t items = spec.taskLevel == "graph" ? spec.graphs : spec.nodes;
    MEGAGRAPH_TRY(std::ignore, expectArray(spec, folder, "indptr.npy", "<i8", {spec.nodes + 1}, true));
    MEGAGRAPH_TRY(std::ignore, expectArray(spec, folder, "indices.npy", "<i4", {spec.entries}, true));
    const bool sparse = spec.featureKind == "sparse", dense = spec.featureKind == "dense";
    MEGAGRAPH_TRY(std::ignore, expectArray(spec, folder, "features.npy", "<f4", {spec.nodes, spec.featureWidth}, dense));
    MEGAGRAPH_TRY(std::ignore, expectArray(spec, folder, "features_indptr.npy", "<i8", {spec.nodes + 1}, sparse));
    MEGAGRAPH_TRY(std::ignore, expectArray(spec, folder, "features_indices.npy", "<i4", {spec.featureNonzeros}, sparse));
    MEGAGRAPH_TRY(std::ignore, expectArray(spec, folder, "features_values.npy", "<f4", {spec.featureNonzeros},
                                           sparse && spec.featureValues != "ones"));
    if (spec.taskKind == "classification") {
        MEGAGRAPH_TRY(std::ignore, expectArray(spec, folder, "labels.npy", "<i4", {items}, true));
    } else if (spec.taskKind == "regression") {
        MEGAGRAPH_TRY(std::ignore, expectArray(spec, folder, "labels.npy", "<f4", {items, spec.tasks}, true));
    }
    for (const auto& split : spec.splits) {
        MEGAGRAPH_TRY(std::ignore, expectArray(spec, folder, split.file, "|u1", {items}, true));
    }
    return Ok{};
}

/// Makes every row slice safe to take: ends and order of indptr. The columns are walked by verifyDataset.
Result<Ok> checkRowBounds(std::span<const int64_t> indptr, size_t entries, const std::string& path)
{
    if (indptr.empty() || indptr.front() != 0 || indptr.back() != static_cast<int64_t>(entries))
        return corrupt(path, fmt::format("ends wrong, got {}..{}, expected 0..{}", indptr.empty() ? -1 : indptr.front(),
                                         indptr.empty() ? -1 : indptr.back(), entries));
    const auto falls = std::adjacent_find(indptr.begin(), indptr.end(), std::greater<>());
    if (falls != indptr.end())
        return corrupt(path, fmt::format("element {}: falls, got {} after {}, expected growing values", falls - indptr.begin() + 1, falls[1], falls[0]));
    return Ok{};
}

} // namespace

Result<Dataset> Dataset::open(const std::string& folder)
{
    std::error_code ignored;
    if (!std::filesystem::exists(folder + "/dataset.json", ignored))
        return Error{ErrorCode::NotFound, fmt::format("{}: no data set, expected a folder with dataset.json; import one with `megagraph import "
                                                      "PATH --name NAME` or generate the sample", folder)};
    MEGAGRAPH_TRY(auto json, readJsonFile(folder + "/dataset.json"));
    auto spec = datasetFromJson(json, folder + "/dataset.json");
    if (!spec && spec.error().code == ErrorCode::VersionMismatch)
        return spec.error();
    if (!spec)
        return Error{ErrorCode::Corrupt, spec.error().message + "; " + kImportAgain};
    Dataset dataset;
    dataset.spec_ = std::move(*spec);
    dataset.folder_ = folder;
    dataset.maps_ = std::make_shared<Maps>();
    if (dataset.spec_.featureWidth > (int64_t(1) << 31) || dataset.spec_.nodes >= (int64_t(1) << 31))
        return corrupt(folder + "/dataset.json", "counts beyond 2^31");
    MEGAGRAPH_TRY(std::ignore, expectArrays(dataset.spec_, folder));
    for (const auto& array : dataset.spec_.arrays) {
        MEGAGRAPH_TRY(std::ignore, dataset.maps_->add(folder, array));
    }
    const Maps& maps = *dataset.maps_;
    dataset.indptr_ = maps.span<int64_t>("indptr.npy");
    dataset.indices_ = maps.span<int32_t>("indices.npy");
    dataset.dense_ = maps.span<float>("features.npy");
    dataset.featureIndptr_ = maps.span<int64_t>("features_indptr.npy");
    dataset.featureIndices_ = maps.span<int32_t>("features_indices.npy");
    dataset.featureValues_ = maps.span<float>("features_values.npy");
    if (dataset.spec_.taskKind == "classification")
        dataset.classLabels_ = maps.span<int32_t>("labels.npy");
    if (dataset.spec_.taskKind == "regression")
        dataset.realLabels_ = maps.span<float>("labels.npy");
    for (const auto& split : dataset.spec_.splits)
        dataset.splits_.emplace_back(split.name, maps.span<uint8_t>(split.file));
    MEGAGRAPH_TRY(std::ignore, checkRowBounds(dataset.indptr_, dataset.indices_.size(), folder + "/indptr.npy"));
    if (!dataset.featureIndptr_.empty()) {
        MEGAGRAPH_TRY(std::ignore, checkRowBounds(dataset.featureIndptr_, dataset.featureIndices_.size(), folder + "/features_indptr.npy"));
    }
    return dataset;
}

Result<std::span<const uint8_t>> Dataset::split(const std::string& name) const
{
    std::string known;
    for (const auto& [splitName, bits] : splits_) {
        if (name.empty() || splitName == name)
            return bits;
        known += (known.empty() ? "" : ", ") + splitName;
    }
    return Error{ErrorCode::NotFound, fmt::format("{}: split {}: not in this data set, expected one of: {}; choose one of them", spec_.name,
                                                  name.empty() ? "(first)" : name, known.empty() ? "none" : known)};
}

namespace {

/// Array hash of `bytes` bytes after `offset`, read and not mapped, so that a file cut meanwhile is an error and no signal.
Result<std::string> hashOfFileTail(const std::string& path, int64_t offset, int64_t bytes)
{
    MEGAGRAPH_TRY(const auto file, SourceFile::open(path, path));
    std::vector<uint8_t> data(static_cast<size_t>(std::min(bytes, kHashChunkBytes)));
    Sha256 whole;
    int64_t done = 0;
    do {
        const int64_t size = std::min(bytes - done, kHashChunkBytes);
        if (!file.readExactly(offset + done, data.data(), size))
            return corrupt(path, fmt::format("ends early, expected {} bytes", offset + bytes));
        Sha256 chunk;
        chunk.update(data.data(), static_cast<size_t>(size));
        const auto digest = chunk.digest();
        whole.update(digest.data(), digest.size());
        done += size;
    } while (done < bytes);
    return whole.hex();
}

Result<Ok> verifyRows(std::span<const int64_t> indptr, std::span<const int32_t> indices, int64_t width, const std::string& path)
{
    for (size_t r = 0; r + 1 < indptr.size(); ++r) {
        if (indptr[r] > indptr[r + 1] || indptr[r] < 0 || indptr[r + 1] > static_cast<int64_t>(indices.size()))
            return corrupt(path, fmt::format("row {}: bounds wrong, got {}..{}, expected to grow up to {}", r, indptr[r], indptr[r + 1], indices.size()));
        for (int64_t e = indptr[r]; e < indptr[r + 1]; ++e) {
            const int32_t c = indices[static_cast<size_t>(e)];
            if (c < 0 || c >= width || (e > indptr[r] && c < indices[static_cast<size_t>(e) - 1]))
                return corrupt(path, fmt::format("row {}: column {}, expected sorted columns below {}", r, c, width));
        }
    }
    return Ok{};
}

} // namespace

Result<Ok> verifyDataset(const Dataset& dataset)
{
    const DatasetSpec& spec = dataset.spec();
    DatasetSpec again = spec;
    for (auto& array : again.arrays) {
        const std::string path = dataset.folder() + "/" + array.file;
        const int64_t bytes = array.sizeBytes - static_cast<int64_t>(npyHeaderBytes(array.dtype, array.shape).size());
        MEGAGRAPH_TRY(const std::string hash, hashOfFileTail(path, array.sizeBytes - bytes, bytes));
        if (hash != array.hash)
            return corrupt(path, fmt::format("content changed, got hash {}, expected {}", hash, array.hash));
    }
    computeHashes(again);
    if (again.contentHash != spec.contentHash || again.structureHash != spec.structureHash || again.featuresHash != spec.featuresHash ||
        again.labelsHash != spec.labelsHash)
        return corrupt(dataset.folder() + "/dataset.json", fmt::format("hashes disagree with the arrays, got content {}, expected {}",
                                                                        spec.contentHash, again.contentHash));
    MEGAGRAPH_TRY(std::ignore, verifyRows(dataset.indptr(), dataset.indices(), spec.nodes, dataset.folder() + "/indices.npy"));
    if (!dataset.featureIndptr().empty()) {
        MEGAGRAPH_TRY(std::ignore, verifyRows(dataset.featureIndptr(), dataset.featureIndices(), spec.featureWidth,
                                              dataset.folder() + "/features_indices.npy"));
    }
    for (const int32_t label : dataset.classLabels())
        if (label < -1 || label >= static_cast<int64_t>(spec.classes.size()))
            return corrupt(dataset.folder() + "/labels.npy", fmt::format("label out of range, got {}, expected -1..{}", label,
                                                                         static_cast<int64_t>(spec.classes.size()) - 1));
    return Ok{};
}

} // namespace megagraph
