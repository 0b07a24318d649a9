// SPDX-License-Identifier: Apache-2.0
// Labels and splits (data design, section 7): task kind, sorted classes, missing labels, stratified random splits that are
// the same on every platform. Pure.
#pragma once

#include "core/io/raw_graph.h"
#include "core/result.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace megagraph {

struct LabelTable {
    std::string kind = "none";        // none | classification | regression
    std::vector<int32_t> classes;     // [items], -1 missing
    std::vector<float> real;          // [items], NaN missing
    std::vector<std::string> names;   // class names in order
    std::vector<int64_t> perClass;    // items of each class
    int64_t labelled = 0, firstMissing = -1;
    std::vector<DatasetSpec::Decision> decisions;
};

/// Splits matter only for the rule about -1 (missing when the others are exactly 0..C-1 and no -1 item is in a part).
Result<LabelTable> decideLabels(const RawLabels& raw, const std::vector<RawSplit>& splits, const ImportOptions& options);

struct SplitRequest { int64_t train = 60, valid = 20, test = 20; uint64_t seed = 0; };
/// "random:60/20/20:0"; the three shares are whole percent that add up to 100. Usage with the rule otherwise.
Result<SplitRequest> parseSplitRequest(const std::string& text);
/// Bits per item. Within a class items are ordered by a hash of (seed, item); a class with fewer than 3 items goes to
/// train. Items without label stay out. For real targets `classes` is one class for all labelled items.
std::vector<uint8_t> randomSplit(std::span<const int32_t> classes, int64_t classCount, const SplitRequest& request);

struct SplitCounts { int64_t train = 0, valid = 0, test = 0, none = 0, overlap = 0, firstOverlap = -1; };
SplitCounts countSplit(std::span<const uint8_t> bits);

} // namespace megagraph
