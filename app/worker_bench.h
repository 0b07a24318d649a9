// SPDX-License-Identifier: Apache-2.0
// megagraph-worker --bench ...: the bench mode, started by `megagraph bench kernels`. Lines of JSON go to descriptor 3.
#pragma once

namespace megagraph::app {

/// The whole mode; the exit code of the process. argv[1] is "--bench".
int workerBench(int argc, char** argv);

} // namespace megagraph::app
