// SPDX-License-Identifier: Apache-2.0
// Writes a canonical set into datasets/.tmp-<id>/, syncs it and renames it last: a set exists whole or not at all. Whatever
// ends before commit() removes the temporary folder; what a killed process left goes with the next import. One thread.
//
// Hashes in dataset.json: one line "file dtype shape hash" per array (shape as 2708x1433), sorted, each ended by a newline;
// the SHA-256 of the lines. structure_hash covers indptr, indices, graph_offsets; features_hash features*; labels_hash
// labels; content_hash all arrays, followed by one line "class NAME" per class. Names, dates, report are in no hash.
#pragma once

#include "core/dataset_spec.h"
#include "core/json.h"
#include "core/result.h"

#include <span>
#include <string>
#include <vector>

namespace megagraph {

/// A name of a set: 1 to 64 of A-Z a-z 0-9 . _ -, not starting with a dot or a dash. Usage otherwise.
Result<Ok> checkDatasetName(const std::string& name);

class CanonicalWriter {
  public:
    /// Refused when home/datasets/NAME exists and `replace` is not set. Io.
    static Result<CanonicalWriter> begin(const std::string& home, const std::string& name, bool replace);
    CanonicalWriter(CanonicalWriter&& other) noexcept;
    CanonicalWriter& operator=(CanonicalWriter&&) = delete;
    ~CanonicalWriter();

    template <class T> Result<Ok> array(const std::string& file, const std::string& dtype, std::vector<int64_t> shape, std::span<const T> data)
    {
        return arrayBytes(file, dtype, std::move(shape), data.data(), static_cast<int64_t>(data.size_bytes()));
    }
    /// Fills arrays and hashes of `spec`, writes dataset.json and report.json, syncs, renames. Returns the folder.
    Result<std::string> commit(DatasetSpec& spec, const Json& report);

  private:
    CanonicalWriter(std::string home, std::string name, bool replace);
    Result<Ok> arrayBytes(const std::string& file, const std::string& dtype, std::vector<int64_t> shape, const void* data, int64_t bytes);
    Result<Ok> moveIntoPlace(const std::string& target);
    std::string home_, name_, temporary_;
    bool replace_ = false;
    std::vector<DatasetSpec::Array> arrays_;
};

/// The four hashes from spec.arrays and spec.classes, as described above.
void computeHashes(DatasetSpec& spec);

} // namespace megagraph
