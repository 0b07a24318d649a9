// SPDX-License-Identifier: Apache-2.0
// Records, phases and the end of an attempt; what comes in while it runs is in run_loop_events.cpp.
#include "runtime/launch/run_loop.h"

#include "core/checkpoint.h"
#include "core/clock.h"
#include "core/event.h"
#include "core/units.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <tuple>
#include <unistd.h>

namespace megagraph::launch {
namespace {

constexpr long kTickNs = 100'000'000;
constexpr int kExitRefused = 11, kExitFailed = 12, kExitStopped = 10;
constexpr double kStrayWaitS = 5;

double roundedSeconds(double seconds)
{
    return std::round(seconds * 1000) / 1000;
}

} // namespace

RunLoop::RunLoop(RunDirectory& directory, Journal& journal, const SupervisorOptions& options, const sigset_t& signals, int64_t attempt,
                 int64_t resumeStep)
    : directory_(directory), journal_(journal), options_(options), signals_(signals), attempt_(attempt), resumeStep_(resumeStep),
      start_(monotonicSeconds()), host_(hostName()), control_(directory.folder())
{
    metrics_.open(directory.folder());
    if (auto log = openFile(directory.folder() + "/logs/supervisor.log", O_WRONLY | O_CREAT | O_APPEND, 0600); log.ok())
        supervisorLog_ = std::move(*log);
    figures_.attempts = attempt;
    figures_.lastCommit = resumeStep;
    figures_.startAttempt(resumeStep);
    lastCheckpointAt_ = start_;
    oomKills_ = kernelMemoryKills();
}

RunLoop::~RunLoop() = default;

Json RunLoop::dressed(const char* kind, Json fields, int64_t rank) const
{
    Json line{{"utc", utcNow()}, {"mono_s", roundedSeconds(monotonicSeconds() - start_)}, {"attempt", attempt_}, {"kind", kind}};
    if (rank >= 0)
        line["rank"] = rank;
    for (auto& [key, value] : fields.items())
        if (!line.contains(key))
            line[key] = std::move(value);
    return line;
}

void RunLoop::event(const char* kind, Json fields, int64_t rank)
{
    const Json line = dressed(kind, std::move(fields), rank);
    journal_.append(line);
    figures_.take(line, monotonicSeconds());
    statusDirty_ = true;
    if (options_.onLine)
        options_.onLine(line);
}

void RunLoop::state(const std::string& to, const std::string& reason)
{
    event("run.state", Json{{"from", state_}, {"to", to}, {"reason", reason}});
    state_ = to;
    reason_ = reason;
    flushJournal();
    writeStatus();
}

void RunLoop::note(const std::string& text)
{
    if (supervisorLog_.valid())
        (void)writeAll(supervisorLog_.get(), fmt::format("{} {}\n", utcNow(), text), "supervisor.log").ok();
}

/// A journal that cannot be written ends the run: nothing after it could be trusted.
void RunLoop::flushJournal()
{
    lastFlush_ = monotonicSeconds();
    const auto flushed = journal_.flush();
    if (flushed.ok() || journalFailed_)
        return;
    journalFailed_ = true;
    message_ = flushed.error().message;
    note(message_);
    climb(Rung::Stop, "journal cannot be written");
}

void RunLoop::writeStatus()
{
    const double now = monotonicSeconds();
    lastStatus_ = now;
    statusDirty_ = false;
    const double eta = figures_.etaSeconds(directory_.spec.steps, now);
    const Json status{{"format", "megagraph.run_status"},
                      {"version", 1},
                      {"id", directory_.spec.id},
                      {"state", state_},
                      {"reason", reason_},
                      {"cause", message_},
                      {"step", figures_.step()},
                      {"steps", directory_.spec.steps},
                      {"loss", numberJson(figures_.loss())},
                      {"step_s", numberJson(figures_.stepSeconds())},
                      {"eta_s", eta >= 0 ? Json(roundedSeconds(eta)) : Json()},
                      {"last_commit_step", figures_.lastCommit},
                      {"attempt", attempt_},
                      {"journal_seq", journal_.lastSeq()},
                      {"supervisor_pid", int64_t(::getpid())},
                      {"utc", utcNow()}};
    // Without fsync: it is a summary for lists; after a crash readers fall back to the journal.
    const std::string path = directory_.folder() + "/status.json", temporary = path + ".tmp";
    auto file = openFile(temporary, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (file.ok() && writeAll(file->get(), status.dump() + "\n", path).ok())
        (void)::rename(temporary.c_str(), path.c_str());
}

bool RunLoop::passPreflight()
{
    bool passed = true;
    const auto checks = preflight(directory_.spec, directory_.plan, directory_.dataset, options_.home, directory_.folder(), readHostFacts());
    for (const CheckResult& check : checks) {
        event("preflight", Json{{"check", check.check}, {"verdict", check.verdict}, {"got", check.got}, {"expected", check.expected}, {"hint", check.hint}});
        if (check.verdict != "refuse")
            continue;
        message_ += (message_.empty() ? "" : "\n") + check.sentence();
        passed = false;
    }
    return passed;
}

Result<Ok> RunLoop::startRanks()
{
    AttemptContext context{options_.workerProgram, directory_.folder(), options_.home, attempt_, resumeStep_, &directory_.spec};
    for (int64_t number = 0; number < directory_.spec.world; ++number) {
        ranks_.push_back(std::make_unique<Rank>());
        Rank& rank = *ranks_.back();
        rank.number = number;
        rank.step = std::max<int64_t>(0, resumeStep_);
        if (auto started = startRank(rank, context, spawner_); !started.ok()) {
            ranks_.pop_back();
            return started.error().within(fmt::format("rank {} could not be started", number));
        }
        event("rank.started", Json{{"host", host_}, {"device", "cpu_slot"}, {"pid", rank.child.pid}, {"start_ticks", rank.child.startTicks}}, number);
        note(fmt::format("rank {} started, pid {}", number, rank.child.pid));
    }
    return Ok{};
}

Result<Ok> RunLoop::prepareLoop()
{
    epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
    signalFd_.reset(::signalfd(-1, &signals_, SFD_NONBLOCK | SFD_CLOEXEC));
    timer_.reset(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
    const itimerspec period{{0, kTickNs}, {0, kTickNs}};
    if (!epoll_.valid() || !signalFd_.valid() || !timer_.valid() || ::timerfd_settime(timer_.get(), 0, &period, nullptr) != 0)
        return Error{ErrorCode::Io, fmt::format("supervisor: epoll, signalfd or timerfd failed: {}", std::strerror(errno))};
    for (const int fd : {signalFd_.get(), timer_.get()}) {
        epoll_event wanted{EPOLLIN, {.fd = fd}};
        if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &wanted) != 0)
            return Error{ErrorCode::Io, fmt::format("supervisor: epoll_ctl failed: {}", std::strerror(errno))};
    }
    return Ok{};
}

void RunLoop::serve()
{
    for (const auto& rank : ranks_)
        for (const int fd : {rank->pidfd.get(), rank->report.get(), rank->log.get()}) {
            epoll_event wanted{EPOLLIN, {.fd = fd}};
            (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &wanted);
        }
    while (!ended()) {
        epoll_event ready[32];
        const int count = ::epoll_wait(epoll_.get(), ready, 32, 1000);
        // Lines before ends: an exit is judged by what the worker had written before it.
        for (int i = 0; i < count; ++i)
            for (const auto& rank : ranks_) {
                if (ready[i].data.fd == rank->report.get())
                    takeReport(*rank);
                else if (ready[i].data.fd == rank->log.get())
                    takeLog(*rank);
            }
        for (int i = 0; i < count; ++i) {
            if (ready[i].data.fd == signalFd_.get())
                takeSignals();
            for (const auto& rank : ranks_)
                if (!rank->reaped && ready[i].data.fd == rank->pidfd.get())
                    takeExit(*rank);
            if (ready[i].data.fd == timer_.get())
                tick();
        }
    }
}

bool RunLoop::anyAlive() const
{
    for (const auto& rank : ranks_)
        if (!rank->reaped)
            return true;
    return false;
}

bool RunLoop::ended() const
{
    return unkillable_ || !anyAlive();
}

/// What a worker left behind: processes that kept the run's environment but left its group.
static void endStrays(const std::string& folder)
{
    const double until = monotonicSeconds() + kStrayWaitS;
    for (auto left = processesOfRun(folder); !left.empty() && monotonicSeconds() < until; left = processesOfRun(folder))
        for (const auto& process : left) {
            if (processStartTicks(process.pid) == process.startTicks)
                ::kill(pid_t(process.pid), SIGKILL);
            (void)::waitpid(pid_t(process.pid), nullptr, WNOHANG); // ours by sub-reaper
            ::usleep(2000);
        }
}

void RunLoop::conclude()
{
    for (const auto& rank : ranks_) {
        takeReport(*rank);
        takeLog(*rank);
        if (rank->logSink.droppedBytes() > 0)
            event("log.dropped", Json{{"bytes", rank->logSink.droppedBytes()}}, rank->number);
    }
    while (!commits_.empty())
        abandon(commits_.begin()->first, "the attempt ended before all ranks had written");
    endStrays(directory_.folder());
    std::error_code ignored;
    std::filesystem::remove(fmt::format("{}/store.a{}", directory_.folder(), attempt_), ignored);
    if (!unkillable_)
        removeUnfinishedCheckpoints(directory_.folder());
    const Rank* root = rootCause(ranks_);
    std::string final = "finished", why = "all ranks are done";
    if (root) {
        FailureContext context{&directory_.spec, directory_.folder(), host_, attempt_, figures_.step(), figures_.lastCommit, oomKills_, kernelMemoryKills(), options_.nearestPlan};
        Json card = failureCard(*root, ranks_, context);
        const int64_t number = writeCard(card, *root, directory_.folder());
        message_ = card["sentence"].get<std::string>();
        event("failure", Json{{"card", number}, {"cause", card["cause"]}, {"sentence", message_}}, root->number);
        final = "failed";
        why = card["cause"].get<std::string>();
    } else if (unkillable_ || journalFailed_ || !message_.empty()) {
        final = "failed";
        why = unkillable_ ? "unkillable" : "internal";
        event("failure", Json{{"card", nullptr}, {"cause", why}, {"sentence", message_}});
    } else if (rung_ != Rung::None) {
        bool allDone = true;
        for (const auto& rank : ranks_)
            allDone = allDone && rank->ended == ExitClass::Done && rank->doneLine.value("reason", "") != "stopped";
        final = allDone ? "finished" : "stopped";
        why = allDone ? "all ranks were done before the stop" : reason_;
    }
    outcome_.state = final;
    outcome_.exitCode = final == "finished" ? 0 : final == "stopped" ? kExitStopped : kExitFailed;
    note(fmt::format("run {}: {}", final, message_.empty() ? why : message_));
    reason_ = why;
}

Result<RunOutcome> RunLoop::run()
{
    outcome_.id = directory_.spec.id;
    outcome_.folder = directory_.folder();
    if (attempt_ == 1)
        event("run.created", Json{{"journal_version", 1}, {"id", directory_.spec.id}, {"name", directory_.spec.name}, {"build", directory_.spec.buildId}});
    if (const auto& found = journal_.found(); found.tornBytes > 0)
        event("journal.cut", Json{{"bytes", found.tornBytes}});
    state("starting", attempt_ == 1 ? "new run" : "resumed");
    if (options_.onReady)
        options_.onReady(outcome_.id, outcome_.folder);
    MEGAGRAPH_TRY(std::ignore, prepareLoop());
    if (!passPreflight()) {
        outcome_.state = "failed";
        outcome_.exitCode = kExitRefused;
        reason_ = "preflight";
    } else {
        event("attempt.start", Json{{"world", directory_.spec.world}, {"resume_step", std::max<int64_t>(0, resumeStep_)},
                                    {"checkpoint", resumeStep_ >= 0 ? Json(checkpointName(resumeStep_)) : Json()},
                                    {"restarts_left", 0}, {"threads_per_rank", directory_.spec.threadsPerRank}});
        if (auto started = startRanks(); !started.ok()) {
            message_ = started.error().message;
            for (const auto& rank : ranks_)
                rank->terminatedByUs = true;
            killAll();
        }
        serve();
        conclude();
    }
    figures_.wallS = roundedSeconds(monotonicSeconds() - start_);
    outcome_.message = message_;
    outcome_.result = figures_.result(directory_.spec, directory_.plan, outcome_.state, message_);
    event("run.end", Json{{"state", outcome_.state}, {"steps", figures_.step()}, {"wall_s", figures_.wallS}, {"last_commit_step", figures_.lastCommit}});
    (void)writeFileAtomically(directory_.folder() + "/result.json", outcome_.result.dump() + "\n").ok();
    state(outcome_.state, reason_);
    return std::move(outcome_);
}

} // namespace megagraph::launch
