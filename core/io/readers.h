// SPDX-License-Identifier: Apache-2.0
// One reader per source format, and what a path is recognised as. Readers check every count against the file before memory
// is taken, and every fault names file, line, value and rule. One thread per call.
#pragma once

#include "core/io/raw_graph.h"
#include "core/result.h"

#include <string>
#include <vector>

namespace megagraph {

struct Recognised {
    std::string format; // ogb-raw | npz
    std::string why;    // "folder with raw/edge.csv.gz"
    std::string path;   // the folder or the file to read
};
/// By content; a name is a hint. Unsupported or InvalidInput for what is known and refused, with the way out.
Result<Recognised> recogniseSource(const std::string& path, const std::string& format);
/// The first bytes of one file against the list of refused kinds; Ok when it is none of them.
Result<Ok> refuseKnownKinds(const std::string& path, const std::string& name);

Result<RawGraph> readOgbRaw(const std::string& folder, const ImportRun& run);
Result<RawGraph> readNpz(const std::string& path, const ImportRun& run);

/// What a quick look tells, without reading the data: counts from count files or array headers.
struct SourceFact { std::string what, value; };
Result<std::vector<SourceFact>> glanceOgbRaw(const std::string& folder);
Result<std::vector<SourceFact>> glanceNpz(const std::string& path, bool allowRatio);

/// Memory the import may use: the option, else half of what is free.
int64_t memoryBudget(const ImportOptions& options);
/// OutOfMemory with both numbers when nodes and lines need more than the budget (about 24 bytes each).
Result<Ok> checkMemory(int64_t nodes, int64_t lines, const std::string& name, const ImportOptions& options);
/// Words of a split or file name that become part of a file name of ours: letters, digits, dash, dot, underscore.
std::string safeName(const std::string& text);

} // namespace megagraph
