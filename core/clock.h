// SPDX-License-Identifier: Apache-2.0
// Monotonic time for deadlines. CLOCK_MONOTONIC stands still in suspend, so a closed laptop causes no false alarm.
#pragma once

namespace megagraph {

double monotonicSeconds();

} // namespace megagraph
