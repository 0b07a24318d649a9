// SPDX-License-Identifier: Apache-2.0
// What a reader hands over: one graph as the source states it, before any decision of section 3 of the data design is
// applied, and the options and the progress line that all steps of an import share. Values only.
#pragma once

#include "core/dataset_spec.h"
#include "core/io/feature_table.h"

#include <cstdint>
#include <functional>
#include <limits>
#include <stop_token>
#include <string>
#include <vector>

namespace megagraph {

struct ImportOptions {
    std::string name;
    std::string format = "auto";      // auto | ogb-raw | npz
    std::string direction = "mirror"; // mirror | keep
    std::string selfLoops = "drop";   // drop | keep
    std::string task = "auto";        // auto | classification | regression
    std::string missing;              // label text that means "missing"; "" = the default rule
    std::string split;                // "" = imported, else random:60/20/20:0; or random:A/B/C:SEED
    bool structureOnly = false, strict = false, replace = false, allowRatio = false;
    int64_t memoryBytes = 0;          // 0 = half of what is free
};

/// Called with what is being done; total 0 = unknown.
using ImportProgress = std::function<void(const std::string& what, int64_t done, int64_t total)>;

struct ImportRun {
    const ImportOptions& options;
    ImportProgress progress;
    std::stop_token stop;

    /// Reports, and is Cancelled after a stop request.
    Result<Ok> tick(const std::string& what, int64_t done, int64_t total) const
    {
        if (progress)
            progress(what, done, total);
        if (stop.stop_requested())
            return Error{ErrorCode::Cancelled, "import: stopped by request while " + what + "; nothing was written"};
        return Ok{};
    }
};

/// One thing that was accepted, counted and must be shown.
struct Finding {
    std::string check;  // "isolated nodes"
    int64_t count = 0;
    std::string first;  // "line 17: 2708", "node 5"; may be empty
    std::string action; // what was done about it
    bool defect = false; // --strict turns it into a refusal
};

struct RawLabels {
    bool present = false, words = false;
    std::vector<double> numbers;         // [items], NaN missing; when !words
    std::vector<int32_t> wordIds;        // [items], -1 missing; when words
    std::vector<std::string> wordTable;
    std::vector<std::string> classNames; // names of the classes 0..C-1 where the source has them
    std::string file;

    int64_t items() const { return static_cast<int64_t>(words ? wordIds.size() : numbers.size()); }
};

struct RawSplit { std::string name; std::vector<uint8_t> bits; }; // [items] 1 train, 2 valid, 4 test

struct RawGraph {
    std::string format;     // "ogb-raw"
    std::string kindText;   // "ogb-raw, one graph"
    int64_t nodes = 0;
    std::string nodesFrom;  // "raw/num-node-list.csv.gz"
    std::string edgeFile, edgeUnit = "line"; // for first examples: "line 17" of edgeFile
    int64_t firstEdgeNumber = 1;
    std::vector<int32_t> sources, targets;   // [lines]
    bool hasFeatures = false;
    FeatureTable features;
    RawLabels labels;
    std::vector<RawSplit> splits;
    std::vector<std::string> nodeNames;      // [nodes] or empty
    std::vector<DatasetSpec::SourceFile> files;
    std::vector<DatasetSpec::Decision> decisions;
    std::vector<Finding> findings;
};

/// int32 node numbers are the form of canonical sets of this version.
constexpr int64_t kMostNodes = std::numeric_limits<int32_t>::max();

} // namespace megagraph
