// SPDX-License-Identifier: Apache-2.0
// From a user's source to a canonical set: recognise, read, decide, check, write, report (data design, sections 2 to 7).
// Nothing is written unless everything was accepted; every decision and every check is in the report. One thread per call.
//
// report.json ("megagraph.import_report", version 1): name, source, nodes, nodes_from, lines, loop_lines, repeated_lines,
// reciprocal_lines, undirected_edges, entries, components, largest_component, isolated_nodes, largest_degree, features,
// labels, splits, checks [{check, count, first, action}], decisions [{id, value, why, by, option}], text [lines].
#pragma once

#include "core/io/raw_graph.h"
#include "core/io/structure.h"

#include <string>
#include <vector>

namespace megagraph {

struct ImportReport {
    DatasetSpec spec;
    Json document;                 // report.json
    std::vector<std::string> text; // what `import` prints, without line ends
    std::string folder;            // of the set; empty when nothing was written
};

/// Imports `path` as home/datasets/NAME. Faults of the source are InvalidInput, formats that are refused Unsupported, a
/// name in use Refused, Cancelled after a stop request; in every one of these nothing is left behind.
Result<ImportReport> importDataset(const std::string& path, const ImportOptions& options, const std::string& home,
                                   ImportProgress progress, std::stop_token stop);
/// Decides, checks and writes a graph that is in memory already (readers and generators end here).
Result<ImportReport> storeGraph(RawGraph graph, const ImportRun& run, const std::string& home);

/// What a source is and what would be decided. Reads count files and array headers only, unless `full`: then everything is
/// read and checked as `import` does, and nothing is written.
Result<ImportReport> inspectSource(const std::string& path, const ImportOptions& options, bool full, ImportProgress progress,
                                   std::stop_token stop);
/// The option that changes a decision, e.g. "--direction mirror|keep"; "" when there is none.
std::string decisionOption(const std::string& id);

} // namespace megagraph
