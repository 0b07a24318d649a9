// SPDX-License-Identifier: Apache-2.0
#include "core/io/feature_table.h"

#include <algorithm>
#include <cmath>

namespace megagraph {

namespace {

void note(FeatureTable::Place& place, int64_t row, int64_t column)
{
    if (place.count++ == 0) {
        place.row = row;
        place.column = column;
    }
}

} // namespace

void FeatureTable::put(int32_t column, float value)
{
    if (std::isnan(value))
        note(nan_, row_, column);
    else if (std::isinf(value))
        note(infinite_, row_, column);
    ++nonzeros_;
    if (dense_) {
        denseValues_[static_cast<size_t>(row_ * width_ + column)] = value;
        return;
    }
    if (value != 1.0f && values_.empty())
        values_.assign(indices_.size(), 1.0f);
    indices_.push_back(column);
    if (value != 1.0f || !values_.empty())
        values_.push_back(value);
}

void FeatureTable::decide()
{
    const auto entries = static_cast<double>(indices_.size() + values_.size());
    const double sparseBytes = 8.0 * static_cast<double>(rows_ + 1) + 4.0 * entries;
    if (dense_ || 2.0 * sparseBytes < 4.0 * static_cast<double>(rows_) * static_cast<double>(width_))
        return;
    dense_ = true;
    denseValues_.assign(static_cast<size_t>(row_ * width_), 0.0f);
    for (int64_t r = 0; r < row_; ++r)
        for (int64_t e = indptr_[static_cast<size_t>(r)]; e < indptr_[static_cast<size_t>(r) + 1]; ++e)
            denseValues_[static_cast<size_t>(r * width_ + indices_[static_cast<size_t>(e)])] =
                values_.empty() ? 1.0f : values_[static_cast<size_t>(e)];
    indptr_ = {0};
    indices_ = {};
    values_ = {};
}

void FeatureTable::endRow(int64_t before)
{
    if (nonzeros_ == before)
        note(zeroRows_, row_, -1);
    ++row_;
    if (!dense_) {
        indptr_.push_back(static_cast<int64_t>(indices_.size()));
        decide();
    }
}

void FeatureTable::addRow(std::span<const float> values)
{
    const int64_t before = nonzeros_;
    if (dense_)
        denseValues_.resize(static_cast<size_t>((row_ + 1) * width_), 0.0f);
    for (size_t c = 0; c < values.size(); ++c)
        if (values[c] != 0.0f) // true for NaN
            put(static_cast<int32_t>(c), values[c]);
    endRow(before);
}

void FeatureTable::addSparseRow(std::vector<std::pair<int32_t, float>>& entries)
{
    const int64_t before = nonzeros_;
    if (dense_)
        denseValues_.resize(static_cast<size_t>((row_ + 1) * width_), 0.0f);
    std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (size_t i = 0; i < entries.size();) {
        const int32_t column = entries[i].first;
        float sum = entries[i].second;
        for (++i; i < entries.size() && entries[i].first == column; ++i) {
            sum += entries[i].second;
            note(repeated_, row_, column);
        }
        if (sum != 0.0f)
            put(column, sum);
        else
            note(explicitZeros_, row_, column);
    }
    endRow(before);
}

FeatureTable::Place FeatureTable::zeroColumns() const
{
    std::vector<bool> used(static_cast<size_t>(width_), false);
    for (const int32_t column : indices_)
        used[static_cast<size_t>(column)] = true;
    for (size_t i = 0; i < denseValues_.size(); ++i)
        if (denseValues_[i] != 0.0f)
            used[i % static_cast<size_t>(width_)] = true;
    Place place;
    for (int64_t c = 0; c < width_; ++c)
        if (!used[static_cast<size_t>(c)])
            note(place, -1, c);
    return place;
}

} // namespace megagraph
