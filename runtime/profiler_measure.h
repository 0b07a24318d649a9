// SPDX-License-Identifier: Apache-2.0
// How one profile point is measured: warm-up, repeats until steady or time is spent, the slowest rank per repeat, exact
// bytes of the largest rank. Internal to the profiler; training thread only.
#pragma once

#include "core/profile.h"
#include "runtime/comm.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace megagraph::runtime {

/// One phase of one run of a job on this rank.
struct PhaseSample {
    std::string phase; // "" = the job has one phase
    double seconds = 0;
    int64_t savedBytes = 0, peakBytes = 0;
    double attentionSeconds = 0, exchangeSeconds = 0;
};
/// Runs a job once; all ranks of `group` run it together. Always returns the same phases.
struct JobRun {
    std::function<std::vector<PhaseSample>()> once;
    bool exchanges = false; ///< has collectives inside: a rank that runs out of memory there cannot tell its peers
};

/// Points of a job, equal on all ranks of the group. Out of memory on any rank of a job without exchange is one point with
/// status "oom"; with exchange it passes through.
std::vector<ProfilePoint> measure(const ProfileJob& job, const JobRun& run, Communicator& group);
/// The point of a job that did not fit.
ProfilePoint outOfMemoryPoint(const ProfileJob& job);
/// True on all ranks of the group iff it is true on each.
bool allAgree(bool own, Communicator& group);

/// Median of `values` and the median of |value - median|.
struct Spread { int64_t median = 0, mad = 0; };
Spread spreadOf(std::vector<int64_t> values);
/// MHz of the core that runs this thread, 0 if unknown.
int64_t clockMhz();

/// Counted bytes around a phase: saved = kept after it, peak = transient above (before + kept).
class BytesWatch {
  public:
    BytesWatch();              ///< starts: remembers bytes now, resets the peak
    int64_t saved() const;     ///< bytes now - bytes at the start
    int64_t transient(int64_t saved) const;

  private:
    int64_t before_;
};

} // namespace megagraph::runtime
