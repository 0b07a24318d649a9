// SPDX-License-Identifier: Apache-2.0
// Reads a run directory while others write it (runs design, section 2): journal.jsonl, metrics*.jsonl, status.json. fstat and
// pread only; one object per reader, one thread at a time. Used by studio, watch and runs.
#pragma once

#include "core/json.h"
#include "core/result.h"

#include <cstdint>
#include <string>
#include <vector>

namespace megagraph {

/// What a reader sees of a run now. State "lost" is computed: last state not final and the lock free.
struct RunStatus {
    std::string id, folder, kind, name, state, reason, cause;
    int64_t step = 0, steps = 0, lastCommitStep = 0, attempt = 0, journalSeq = 0;
    double loss = 0, stepS = 0, etaS = 0;
    int64_t supervisorPid = 0;
    bool alive = false; ///< some process holds the lock
};
Result<RunStatus> readRunStatus(const std::string& runFolder);

class RunFollower {
  public:
    explicit RunFollower(std::string runFolder);
    /// New complete lines since the last call, at most maxBytes; journal lines are crc-checked, metrics lines are not.
    /// Bad journal line followed by good ones: Corrupt. An incomplete last line waits for the next call.
    struct Lines { std::vector<Json> events, samples; bool more = false; };
    Result<Lines> poll(size_t maxBytes = 4 << 20);

  private:
    Result<Ok> takeEvents(int64_t maxBytes, Lines& lines);
    Result<Ok> takeSamples(int64_t maxBytes, Lines& lines);

    std::string folder_;
    int64_t journalOffset_ = 0, nextSeq_ = 1, metricsOffset_ = 0;
    int metricsSegment_ = 1;
};

/// Appends one request line to control.jsonl (O_APPEND, one write): do = stop | terminate | kill | checkpoint. Returns its id.
Result<std::string> requestControl(const std::string& runFolder, const std::string& what, const std::string& by);

} // namespace megagraph
