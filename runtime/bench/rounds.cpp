// SPDX-License-Identifier: Apache-2.0
#include "runtime/bench/rounds.h"

#include "core/clock.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace megagraph::runtime::bench {

double Times::median() const
{
    if (ms.empty())
        return 0;
    std::vector<double> sorted = ms;
    std::sort(sorted.begin(), sorted.end());
    const size_t middle = sorted.size() / 2;
    return sorted.size() % 2 == 1 ? sorted[middle] : 0.5 * (sorted[middle - 1] + sorted[middle]);
}

double Times::least() const { return ms.empty() ? 0 : *std::min_element(ms.begin(), ms.end()); }

double Times::most() const { return ms.empty() ? 0 : *std::max_element(ms.begin(), ms.end()); }

Side timed(std::function<void()> body)
{
    return [body = std::move(body)] {
        const double start = monotonicSeconds();
        body();
        return 1e3 * (monotonicSeconds() - start);
    };
}

std::vector<Times> interleave(const RoundLimits& limits, const std::vector<Side>& sides)
{
    std::vector<Times> times(sides.size());
    const double start = monotonicSeconds();
    double longest = 0; // one turn of all sides
    const auto turn = [&](bool keep) {
        const double before = monotonicSeconds();
        for (size_t i = 0; i < sides.size(); ++i) {
            std::this_thread::sleep_for(std::chrono::duration<double>(limits.restSeconds));
            const double ms = sides[i]();
            if (keep)
                times[i].ms.push_back(ms);
        }
        longest = std::max(longest, monotonicSeconds() - before);
    };
    // a warm-up that leaves no time for the rounds is no use
    for (int i = 0; i < limits.warmUps && (i == 0 || monotonicSeconds() - start + longest < 0.2 * limits.mostSeconds); ++i)
        turn(false);
    const double begin = monotonicSeconds();
    for (int i = 0; i < limits.rounds || monotonicSeconds() - begin < limits.leastSeconds; ++i) {
        if (i > 0 && monotonicSeconds() - start + longest > limits.mostSeconds)
            break;
        turn(true);
    }
    return times;
}

} // namespace megagraph::runtime::bench
