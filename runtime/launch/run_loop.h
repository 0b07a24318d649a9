// SPDX-License-Identifier: Apache-2.0
// One attempt of a run: starts its ranks, serves pidfds, report and log pipes, signals and a 100 ms timer in one epoll loop,
// records what happens, walks the stop ladder, commits checkpoints, and ends when every rank is reaped and every pipe is
// drained. One thread; nothing in it waits for a worker.
#pragma once

#include "core/checkpoint.h"
#include "core/journal.h"
#include "runtime/launch/failure.h"
#include "runtime/launch/figures.h"
#include "runtime/launch/preflight.h"
#include "runtime/launch/rank.h"
#include "runtime/launch/run_directory.h"
#include "runtime/launch/supervisor.h"

#include <csignal>
#include <map>
#include <set>

namespace megagraph::launch {

class RunLoop {
  public:
    /// `signals`: blocked by the caller; they arrive through a signalfd. `attempt` counts from 1.
    RunLoop(RunDirectory& directory, Journal& journal, const SupervisorOptions& options, const sigset_t& signals, int64_t attempt,
            int64_t resumeStep);
    ~RunLoop();

    Result<RunOutcome> run();

  private:
    enum class Rung { None, Stop, Terminate, Kill };
    struct Commit { std::map<int64_t, std::vector<ShardReport>> shards; double blockedS = 0, writeS = 0; };

    // records
    void event(const char* kind, Json fields, int64_t rank = -1);
    Json dressed(const char* kind, Json fields, int64_t rank) const;
    void state(const std::string& to, const std::string& reason);
    void note(const std::string& text);
    void flushJournal();
    void writeStatus();
    // phases
    bool passPreflight();
    Result<Ok> startRanks();
    Result<Ok> prepareLoop();
    void serve();
    void conclude();
    // what comes in
    void takeReport(Rank& rank);
    void takeLine(Rank& rank, std::string_view line);
    void takeWorkerLine(Rank& rank, const std::string& kind, Json line);
    void takeLog(Rank& rank);
    void takeExit(Rank& rank);
    void takeSignals();
    void takeControl(const Json& request);
    void badLine(Rank& rank, std::string_view bytes);
    void tick();
    // what follows
    void climb(Rung rung, const std::string& why);
    void killAll();
    void tellAll(const Json& command);
    void addShard(Rank& rank, const Json& line);
    void commit(int64_t step, const Commit& book);
    void abandon(int64_t step, const std::string& reason);
    bool ended() const;
    bool anyAlive() const;

    RunDirectory& directory_;
    Journal& journal_;
    const SupervisorOptions& options_;
    sigset_t signals_;
    int64_t attempt_, resumeStep_;
    const double start_;
    std::string host_;

    Spawner spawner_;
    std::vector<std::unique_ptr<Rank>> ranks_;
    FileDescriptor epoll_, signalFd_, timer_, supervisorLog_;
    MetricsSink metrics_;
    ControlReader control_;
    Figures figures_;
    RunOutcome outcome_;

    std::string state_ = "queued", reason_, message_;
    Rung rung_ = Rung::None;
    double rungDeadline_ = -1, firstFailureAt_ = -1, killAt_ = -1, lastFlush_ = 0, lastStatus_ = 0, lastCheckpointAt_ = 0;
    bool unkillable_ = false, statusDirty_ = true, journalFailed_ = false;
    int64_t oomKills_ = 0, begunStep_ = -1;
    std::map<int64_t, Commit> commits_;
    std::map<std::string, int64_t> unknown_;
};

} // namespace megagraph::launch
