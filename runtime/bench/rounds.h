// SPDX-License-Identifier: Apache-2.0
// How a benchmark case is timed: warm-ups, then rounds in which every side runs once, one after the other, so that drift and
// other programs hit all sides alike. One caller thread.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace megagraph::runtime::bench {

/// Milliseconds of the kept rounds of one side.
struct Times {
    std::vector<double> ms;

    bool empty() const { return ms.empty(); }
    double median() const; ///< 0 when empty, as the two below
    double least() const;
    double most() const;
};

/// Runs once and says how many milliseconds it took (a peer in another process measures itself).
using Side = std::function<double()>;
/// The side that runs `body` here, on the steady clock.
Side timed(std::function<void()> body);

struct RoundLimits {
    int warmUps = 3, rounds = 10; ///< rounds at least
    double leastSeconds = 2;      ///< and until this is spent
    double mostSeconds = 60;      ///< both are cut here, warm-ups included; one warm-up and one round always run
    double restSeconds = 0.02;    ///< before each run: threads of other pools stop spinning (libgomp: about 15 ms)
};

/// One Times per side, equally long.
std::vector<Times> interleave(const RoundLimits& limits, const std::vector<Side>& sides);

} // namespace megagraph::runtime::bench
