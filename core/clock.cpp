// SPDX-License-Identifier: Apache-2.0
#include "core/clock.h"

#include <ctime>

namespace megagraph {

double monotonicSeconds()
{
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return double(now.tv_sec) + double(now.tv_nsec) * 1e-9;
}

} // namespace megagraph
