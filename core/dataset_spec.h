// SPDX-License-Identifier: Apache-2.0
// dataset.json ("megagraph.dataset", version 1): what a canonical data set holds. Values only.
#pragma once

#include "core/json.h"
#include "core/result.h"

#include <cstdint>
#include <string>
#include <vector>

namespace megagraph {

struct DatasetSpec {
    struct Split { std::string name, file; int64_t train = 0, valid = 0, test = 0, none = 0; };
    struct Array { std::string file, dtype; std::vector<int64_t> shape; int64_t sizeBytes = 0; std::string hash; };
    struct SourceFile { std::string name; int64_t sizeBytes = 0; std::string crc32; };
    struct Decision { std::string id, value, why, by; };

    std::string name, contentHash, structureHash, featuresHash, labelsHash;
    int64_t graphs = 1, nodes = 0, entries = 0, undirectedEdges = 0;
    bool directed = false, multiEdges = false;
    int64_t selfLoops = 0, components = 0, isolatedNodes = 0;
    std::string featureKind = "none"; // "none" "dense" "sparse"
    int64_t featureWidth = 0, featureNonzeros = 0;
    std::string featureValues;        // "ones" "float32" "float16"; "" without features
    std::string taskLevel = "node", taskKind = "none"; // kind: "none" "classification" "regression" "binary"
    int64_t tasks = 0, labelledItems = 0;
    std::vector<std::string> classes;
    std::vector<Split> splits;
    std::vector<Array> arrays;
    std::string sourceFormat;
    std::vector<SourceFile> sourceFiles;
    std::vector<Decision> decisions;
};

Result<DatasetSpec> datasetFromJson(const Json& value, const std::string& file);
Json datasetToJson(const DatasetSpec& spec);

} // namespace megagraph
