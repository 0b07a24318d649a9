// SPDX-License-Identifier: Apache-2.0
// Node features as they are read, row by row. Kept sparse while that needs less than half the bytes of the dense form
// (4 N F), dense from then on; the final form is the same whatever the order of blocks. Memory grows with the rows that
// were really read. One thread.
#pragma once

#include "core/result.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace megagraph {

class FeatureTable {
  public:
    struct Place { int64_t count = 0, row = -1, column = -1; }; ///< how often, and the first place
    FeatureTable() = default;
    FeatureTable(int64_t rows, int64_t width) : rows_(rows), width_(width) { decide(); }

    void addRow(std::span<const float> values); ///< [width]
    /// Column numbers in any order; repeats are added up, zeros dropped, both counted.
    void addSparseRow(std::vector<std::pair<int32_t, float>>& entries);

    int64_t width() const { return width_; }
    int64_t rowsRead() const { return row_; }
    bool isDense() const { return dense_; }
    bool allOnes() const { return !dense_ && values_.empty(); }
    int64_t nonzeros() const { return nonzeros_; }
    std::span<const float> dense() const { return denseValues_; }
    std::span<const int64_t> indptr() const { return indptr_; }
    std::span<const int32_t> indices() const { return indices_; }
    std::span<const float> values() const { return values_; } ///< empty when all are one
    const Place& notANumber() const { return nan_; }
    const Place& infinite() const { return infinite_; }
    const Place& zeroRows() const { return zeroRows_; }
    const Place& repeated() const { return repeated_; }
    const Place& explicitZeros() const { return explicitZeros_; }
    Place zeroColumns() const;

  private:
    void put(int32_t column, float value);
    void endRow(int64_t before);
    void decide();
    int64_t rows_ = 0, width_ = 0, row_ = 0, nonzeros_ = 0;
    bool dense_ = false;
    std::vector<int64_t> indptr_{0};
    std::vector<int32_t> indices_;
    std::vector<float> values_, denseValues_;
    Place nan_, infinite_, zeroRows_, repeated_, explicitZeros_;
};

} // namespace megagraph
