// SPDX-License-Identifier: Apache-2.0
// The options that `import`, `inspect` and `generate` share, and how they store a set in the library. One thread.
#pragma once

#include "app/commands/command.h"
#include "core/io/import.h"

#include <string>

namespace megagraph::app {

/// Adds the decisions of an import as options; `memory` receives --memory as text.
void addDecisionOptions(CLI::App& app, ImportOptions& options, std::string& memory);
/// --memory into options.memoryBytes.
Result<Ok> takeMemory(const std::string& memory, ImportOptions& options);
/// Notes the set in library.db of the home. The set is complete before and stays when this fails.
Result<Ok> noteInLibrary(const ImportReport& report, const std::string& home);
/// The end of `import` and `generate`: prints the report (JSON on stdout with --json, else text), notes it in the library.
int finishImport(const Result<ImportReport>& report, const std::string& home, const Invocation& invocation);

} // namespace megagraph::app
