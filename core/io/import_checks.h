// SPDX-License-Identifier: Apache-2.0
// The decisions about structure, the checks of the import report and its two forms, text and JSON. Pure.
#pragma once

#include "core/io/import.h"
#include "core/io/labels.h"

#include <string>
#include <vector>

namespace megagraph {

/// A graph that was read and decided, ready to be written.
struct PreparedGraph {
    RawGraph raw;
    LabelTable labels;
    Structure structure;
    DatasetSpec spec;
};

void addStructureDecisions(PreparedGraph& p, const ImportOptions& options);
/// Adds to raw.findings what the data show: loops, repeats, isolated nodes, NaN, classes absent from training, overlap ...
void addChecks(PreparedGraph& p);
std::vector<std::string> reportText(const PreparedGraph& p);
Json reportDocument(const PreparedGraph& p, const std::vector<std::string>& text);

struct DefaultDecision { std::string id, value, why; };
/// What would be decided, before the data are read.
std::vector<DefaultDecision> defaultDecisions(const ImportOptions& options);

} // namespace megagraph
