// SPDX-License-Identifier: Apache-2.0
// Benchmark of our kernels beside their peers (models design, section 7), the bench mode of the worker. Ours and the peers run
// in one process on the same tensors, round by round in turn; peers of Python run in a child that is asked for one round at a
// time. Reports JSON lines: {"kind":"machine"|"peaks"|"progress"|"case"|"warning"|"done", ...}; `case` is a row of format
// megagraph.kernel_bench. One caller thread; needs the counting allocator. A row that cannot be had says so; it never ends the run.
#pragma once

#include "core/json.h"
#include "core/result.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace megagraph::runtime::bench {

struct Options {
    std::vector<std::string> only; ///< ids; empty = all
    bool quick = false;            ///< small sizes, few rounds: shows that everything runs, not how fast it is
    int32_t threads = 1;
    double mostSeconds = 60;       ///< per case
    std::string python = "python3";
    std::string resources;         ///< folder of bench/peers.py
    std::string scratch;           ///< folder for tensors that go to another process
    std::string commit;            ///< of this build; "" = unknown
};

using Sink = std::function<void(const Json& line)>;

/// All ids, in the order in which they run.
const std::vector<std::string>& caseIds();
/// Errors: Usage (unknown id). Everything else is a row with verdict "not run".
Result<Ok> run(const Options& options, const Sink& sink);

} // namespace megagraph::runtime::bench
