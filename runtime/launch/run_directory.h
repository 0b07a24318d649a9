// SPDX-License-Identifier: Apache-2.0
// The run directory (runs design, section 2): made by mkdir with mode 0700, locked for the supervisor's life by an open-file-
// description lock, its documents written once. The lock is let go by the destructor, or by the kernel when the process dies.
#pragma once

#include "core/dataset_spec.h"
#include "core/file.h"
#include "core/plan.h"
#include "core/run_spec.h"

#include <string>

namespace megagraph::launch {

/// A process whose environment names this run: (pid, ticks) identifies it for good.
struct RunProcess { int64_t pid = 0, startTicks = 0; std::string name; };
/// Live processes of a run, this one excluded, found by MEGAGRAPH_RUN in /proc/*/environ. Nothing is ever matched by name.
std::vector<RunProcess> processesOfRun(const std::string& folder);

class RunDirectory {
  public:
    /// Makes `home`/runs/<spec.id>, takes the lock, writes run.json, plan.json, model.json, dataset.json, cluster.json.
    static Result<RunDirectory> create(const std::string& home, const RunSpec& spec, const Plan& plan, const DatasetSpec& dataset);
    /// Takes the lock of an existing run and reads its documents. Refused with the holder when another supervisor lives, or with
    /// the processes when leftovers of a crash do not end within 5 s. NotFound when there is no such run.
    static Result<RunDirectory> reopen(const std::string& home, const std::string& id);

    const std::string& folder() const { return folder_; }
    RunSpec spec;
    Plan plan;
    DatasetSpec dataset;

  private:
    Result<Ok> takeLock();
    Result<Ok> writeDocuments() const;
    Result<Ok> readDocuments();

    std::string folder_;
    FileDescriptor lock_;
};

std::string hostName();

} // namespace megagraph::launch
