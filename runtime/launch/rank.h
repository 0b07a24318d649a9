// SPDX-License-Identifier: Apache-2.0
// One worker as the supervisor sees it: process, pipes, what it reported, how it ended. Owned by the run loop's thread.
#pragma once

#include "core/file.h"
#include "core/process.h"
#include "core/run_spec.h"
#include "runtime/launch/sinks.h"
#include "runtime/launch/spawner.h"

#include <string>

namespace megagraph::launch {

enum class ExitClass { Running, Done, Stopped, Early, Code, Signal, OutOfMemory, KilledByUs, Consequence, Broken };
const char* exitClassName(ExitClass value); // "running" "done" "stopped" "early" "code" "signal" "oom" ...
bool isFailure(ExitClass value);            // Early, Code, Signal, OutOfMemory, Consequence, Broken

struct Rank {
    int64_t number = 0;
    Child child;
    FileDescriptor pidfd, report, command, log;
    LineSplitter lines;
    LogSink logSink;

    bool ready = false, done = false, reaped = false;
    bool terminatedByUs = false, broken = false;
    int code = -1, signal = 0; // of the exit; signal 0 = ended by itself
    ExitClass ended = ExitClass::Running;
    double endedAt = 0, brokenAt = 0; // monotonic seconds
    int64_t step = 0, badLines = 0, baseBytes = 0, peakBytes = 0;
    std::string phase;
    Json doneLine, errorLine, oomLine, nonfiniteLine; // null until reported
};

/// What all workers of an attempt share.
struct AttemptContext {
    std::string program, folder, home;
    int64_t attempt = 1, resumeStep = -1;
    const RunSpec* spec = nullptr;
};

/// The whole environment of a worker: an allow-list, so that nothing of the user's shell changes a run unseen.
std::vector<std::pair<std::string, std::string>> workerEnvironment(const AttemptContext& context, int64_t rank);
/// Makes pipes and log, spawns the process. Io names the limit that was hit.
Result<Ok> startRank(Rank& rank, const AttemptContext& context, Spawner& spawner);
/// Sends a signal to the rank's process group, only while its leader is not yet reaped.
void signalRank(const Rank& rank, int signal);
/// One command line on the command pipe; lost when the worker is gone or does not read.
void commandRank(const Rank& rank, const Json& command);
/// Reaps an ended process; false while it is alive. Ends what is left of its group first.
bool reapRank(Rank& rank, double now);
/// `stopping`: a stop was asked for; `firstFailureAt` < 0 while nothing has failed.
ExitClass classifyExit(const Rank& rank, bool stopping, double firstFailureAt);

} // namespace megagraph::launch
