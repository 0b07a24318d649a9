// SPDX-License-Identifier: Apache-2.0
// A canonical data set (`datasets/<name>/`), opened read-only and memory-mapped. Sizes are checked against dataset.json
// before any map. The object keeps the maps alive; spans stay valid as long as it. Const access is thread-safe.
#pragma once

#include "core/dataset_spec.h"
#include "core/result.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace megagraph {

class Dataset {
  public:
    /// Folder of a canonical set. NotFound, Corrupt (file, found, expected), VersionMismatch, Io.
    static Result<Dataset> open(const std::string& folder);

    const DatasetSpec& spec() const { return spec_; }
    const std::string& folder() const { return folder_; }
    int64_t nodes() const { return spec_.nodes; }

    std::span<const int64_t> indptr() const { return indptr_; }   ///< [N+1]
    std::span<const int32_t> indices() const { return indices_; } ///< [A], sorted inside a row
    bool hasFeatures() const { return spec_.featureWidth > 0; }
    std::span<const float> denseFeatures() const { return dense_; }              ///< [N*F] or empty
    std::span<const int64_t> featureIndptr() const { return featureIndptr_; }    ///< [N+1] or empty
    std::span<const int32_t> featureIndices() const { return featureIndices_; }  ///< [nnz]
    std::span<const float> featureValues() const { return featureValues_; }      ///< [nnz]; empty = all ones
    std::span<const int32_t> classLabels() const { return classLabels_; }        ///< [items]; -1 missing
    std::span<const float> realLabels() const { return realLabels_; }            ///< [items*T]; NaN missing
    /// Bits per item: 1 train, 2 valid, 4 test. NotFound lists the splits that exist. "" = the first.
    Result<std::span<const uint8_t>> split(const std::string& name) const;

  private:
    struct Maps;
    DatasetSpec spec_;
    std::string folder_;
    std::shared_ptr<Maps> maps_;
    std::span<const int64_t> indptr_, featureIndptr_;
    std::span<const int32_t> indices_, featureIndices_, classLabels_;
    std::span<const float> dense_, featureValues_, realLabels_;
    std::vector<std::pair<std::string, std::span<const uint8_t>>> splits_;
};

/// Full check: every array hash against dataset.json, structure sanity (indptr monotone, indices in range).
Result<Ok> verifyDataset(const Dataset& dataset);

} // namespace megagraph
