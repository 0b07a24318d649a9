// SPDX-License-Identifier: Apache-2.0
// What all cases share: options, ceilings, limits of a round, and the rows that leave. Internal to the benchmark; one thread.
#pragma once

#include "runtime/bench/bench.h"
#include "runtime/bench/peaks.h"
#include "runtime/bench/rounds.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace megagraph::runtime::bench {

/// One row. Numbers that are not known stay empty and are null in the document.
struct Row {
    std::string id, what;
    int64_t n = 0;
    int32_t heads = 0, headSize = 0;
    std::string dtype = "fp32";
    int32_t threads = 0; ///< 0 = those of the run

    Times ours;
    std::optional<double> flops, peak;      ///< of one run; GFLOP/s that `share_of_peak` refers to
    std::optional<int64_t> extraBytes;      ///< peak bytes above inputs while it runs
    std::optional<double> error;            ///< relative, against fp64 on sampled rows

    std::string peerName, peerBackend;
    Times peer;
    std::optional<int64_t> peerExtraBytes;

    std::string measure = "time of peer / ours"; ///< what `ratio` is
    std::optional<double> ratio;            ///< empty: median of peer / median of ours
    std::optional<double> bar;
    bool atMost = false;                    ///< the bar is an upper one
    bool judged = true;                     ///< false: a size or setting that the bar was not made for
    std::string note;                       ///< anything a reader must know
    Json more = Json::object();             ///< further keys of `ours`
};

class Context {
  public:
    Context(const Options& options, const Sink& sink);

    const Options& options() const { return options_; }
    bool quick() const { return options_.quick; }
    int32_t threads() const { return options_.threads; }
    Peaks& peaks() { return peaks_; }
    bool wants(const std::string& id) const;
    /// The usual size, or the small one of a quick run.
    int64_t size(int64_t usual, int64_t small) const { return options_.quick ? small : usual; }
    RoundLimits limits() const;
    /// Medians of the sides, interleaved, within the limits.
    std::vector<Times> compare(const std::vector<Side>& sides) const { return interleave(limits(), sides); }

    /// Adds the verdict and sends the row.
    void add(const Row& row);
    void notRun(Row row, const std::string& reason);
    void progress(const std::string& what);
    void send(const Json& line) { sink_(line); }
    /// Runs one group of cases; an exception of Torch (out of memory, too) or of ours becomes one "not run" row of `id`.
    void guard(const std::string& id, const std::string& what, const std::function<void()>& body);
    /// Bytes that may still be allocated; cases ask before they build N x N arrays.
    bool fits(double bytes) const;

  private:
    Options options_;
    Sink sink_;
    Peaks peaks_;
};

/// Peak bytes of LibTorch's allocator above what was in use before, while `body` runs.
int64_t countedPeak(const std::function<void()>& body);
/// The same for our side of a problem, whose last results are dropped first.
template <class Problem> int64_t countedPeakOf(Problem& problem, const std::function<void()>& body)
{
    problem.dropResults();
    return countedPeak(body);
}

} // namespace megagraph::runtime::bench
