// SPDX-License-Identifier: Apache-2.0
// What comes in while an attempt runs: report lines, logs, exits, signals, requests, time; and what follows from it.
#include "core/checkpoint.h"
#include "core/clock.h"
#include "core/event.h"
#include "runtime/launch/run_loop.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace megagraph::launch {
namespace {

constexpr double kFlushEveryS = 0.2, kStatusEveryS = 2, kSurvivorGraceS = 1, kTermGraceS = 5, kKillGraceS = 5;
constexpr int64_t kMostBadLines = 3;
constexpr size_t kPipeBlock = 64 * 1024;

/// Reads what a non-blocking pipe holds; false at its end.
template <class Take> bool drain(int fd, Take take)
{
    char block[kPipeBlock];
    for (int rounds = 0; rounds < 16; ++rounds) { // a flooding worker must not hold the loop
        const ssize_t got = ::read(fd, block, sizeof block);
        if (got > 0)
            take(std::string_view(block, size_t(got)));
        else if (got == 0)
            return false;
        else if (errno != EINTR)
            return errno == EAGAIN;
    }
    return true;
}

bool isSample(const std::string& kind)
{
    constexpr std::string_view kinds[] = {"step", "rank", "memory", "device", "host", "verify.step", "profile_point", "profile_constant"};
    return std::find(std::begin(kinds), std::end(kinds), kind) != std::end(kinds);
}

bool isEvent(const std::string& kind)
{
    constexpr std::string_view kinds[] = {"rank.ready", "mesh.formed", "epoch.end", "eval", "best", "oom", "nonfinite", "desync",
                                          "mismatch",   "straggler",   "error",     "done"};
    return std::find(std::begin(kinds), std::end(kinds), kind) != std::end(kinds);
}

} // namespace

void RunLoop::takeReport(Rank& rank)
{
    if (!rank.report.valid())
        return;
    const auto line = [&](std::string_view text) { takeLine(rank, text); };
    const auto bad = [&](std::string_view first) { badLine(rank, first); };
    const bool open = drain(rank.report.get(), [&](std::string_view bytes) { rank.lines.feed(bytes, line, bad); });
    if (open)
        return;
    (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, rank.report.get(), nullptr);
    rank.report.reset(); // a line that was cut by the end of the worker stays in the splitter and is dropped with it
}

void RunLoop::takeLog(Rank& rank)
{
    if (!rank.log.valid())
        return;
    if (drain(rank.log.get(), [&](std::string_view bytes) { rank.logSink.write(bytes); }))
        return;
    (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, rank.log.get(), nullptr);
    rank.log.reset();
}

void RunLoop::badLine(Rank& rank, std::string_view bytes)
{
    ++rank.badLines;
    event("line.bad", Json{{"count", rank.badLines}, {"first_bytes", std::string(bytes.substr(0, 64))}}, rank.number);
    if (rank.badLines < kMostBadLines || rank.broken || rank.reaped)
        return;
    rank.broken = true;
    rank.brokenAt = monotonicSeconds();
    note(fmt::format("rank {}: {} bad lines, ended as broken", rank.number, rank.badLines));
    signalRank(rank, SIGKILL);
}

void RunLoop::takeLine(Rank& rank, std::string_view text)
{
    auto line = decodeLine(text);
    if (!line.ok() || !line->contains("kind") || !(*line)["kind"].is_string())
        return badLine(rank, text);
    const std::string kind = (*line)["kind"].get<std::string>();
    line->erase("kind");
    takeWorkerLine(rank, kind, std::move(*line));
}

void RunLoop::takeWorkerLine(Rank& rank, const std::string& kind, Json line)
{
    for (const char* key : {"step_to", "step"})
        if (line.contains(key) && line[key].is_number_integer() && kind != "best" && kind != "checkpoint.begin" && kind != "checkpoint.shard")
            rank.step = std::max(rank.step, line[key].get<int64_t>());
    if (line.contains("phase") && line["phase"].is_string())
        rank.phase = line["phase"].get<std::string>();
    if (kind == "beat")
        return; // kept in memory only
    if (kind == "checkpoint.shard")
        return addShard(rank, line);
    if (kind == "checkpoint.begin") {
        const int64_t step = line.value("step", int64_t(-1));
        if (step != begunStep_)
            event("checkpoint.begin", line);
        begunStep_ = step;
        return;
    }
    if (isSample(kind)) {
        const Json sample = dressed(kind.c_str(), std::move(line), rank.number);
        metrics_.write(sample);
        figures_.take(sample, monotonicSeconds());
        if (kind == "profile_point" || kind == "profile_constant")
            outcome_.points.push_back(sample);
        if (options_.onLine)
            options_.onLine(sample);
        if (kind == "step" && state_ == "starting" && rung_ == Rung::None)
            state("running", "first step");
        return;
    }
    if (!isEvent(kind)) {
        ++unknown_[kind]; // of a newer worker; counted, not recorded
        return;
    }
    if (kind == "done") {
        rank.done = true;
        rank.doneLine = line;
    } else if (kind == "error") {
        rank.errorLine = line;
    } else if (kind == "oom") {
        rank.oomLine = line;
    } else if (kind == "nonfinite") {
        rank.nonfiniteLine = line;
    } else if (kind == "rank.ready") {
        rank.ready = true;
    }
    event(kind.c_str(), std::move(line), rank.number);
    const bool allReady = std::all_of(ranks_.begin(), ranks_.end(), [](const auto& each) { return each->ready; });
    if (allReady && state_ == "starting" && rung_ == Rung::None && int64_t(ranks_.size()) == directory_.spec.world)
        state("running", "all ranks are ready");
}

void RunLoop::takeExit(Rank& rank)
{
    takeReport(rank);
    const double now = monotonicSeconds();
    if (!reapRank(rank, now))
        return;
    (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, rank.pidfd.get(), nullptr);
    takeReport(rank); // the write end is closed now: everything up to its end
    takeLog(rank);
    rank.ended = classifyExit(rank, rung_ != Rung::None, firstFailureAt_);
    event("rank.exit", Json{{"code", rank.signal == 0 ? Json(rank.code) : Json()}, {"signal", rank.signal != 0 ? Json(rank.signal) : Json()},
                            {"class", exitClassName(rank.ended)}, {"by_us", rank.terminatedByUs || rank.broken}, {"step", rank.step},
                            {"phase", rank.phase.empty() ? Json() : Json(rank.phase)}}, rank.number);
    note(fmt::format("rank {} ended: {}, code {}, signal {}", rank.number, exitClassName(rank.ended), rank.code, rank.signal));
    flushJournal();
    if (!isFailure(rank.ended) || firstFailureAt_ >= 0)
        return;
    firstFailureAt_ = rank.broken ? rank.brokenAt : now;
    killAt_ = now + kSurvivorGraceS; // survivors raise by themselves; a rank that spins or hangs does not
}

void RunLoop::takeSignals()
{
    signalfd_siginfo info{};
    while (::read(signalFd_.get(), &info, sizeof info) == ssize_t(sizeof info)) {
        const int number = int(info.ssi_signo);
        if (number == SIGPIPE)
            continue;
        event("control", Json{{"id", ""}, {"do", number == SIGUSR1 ? "checkpoint" : "stop"}, {"by", fmt::format("signal {}", number)}});
        if (number == SIGUSR1)
            tellAll(Json{{"do", "checkpoint"}});
        else
            climb(rung_ == Rung::None ? Rung::Stop : rung_ == Rung::Stop ? Rung::Terminate : Rung::Kill, fmt::format("stopped by signal {}", number));
    }
}

void RunLoop::takeControl(const Json& request)
{
    const auto field = [&](const char* key) { return request.contains(key) && request[key].is_string() ? request[key].get<std::string>() : std::string(); };
    const std::string what = field("do"), by = field("by");
    event("control", Json{{"id", field("id")}, {"do", what}, {"by", by}});
    const std::string why = "stopped by " + (by.empty() ? "request" : by);
    if (what == "stop")
        climb(rung_ == Rung::None ? Rung::Stop : rung_ == Rung::Stop ? Rung::Terminate : Rung::Kill, why);
    else if (what == "terminate")
        climb(rung_ < Rung::Terminate ? Rung::Terminate : Rung::Kill, why);
    else if (what == "kill")
        climb(Rung::Kill, why);
    else if (what == "checkpoint" && rung_ == Rung::None)
        tellAll(Json{{"do", "checkpoint"}});
    flushJournal();
}

/// The stop ladder: each call moves up, never down. Stop: finish the step, write a checkpoint. Terminate: TERM to the groups.
void RunLoop::climb(Rung rung, const std::string& why)
{
    if (rung <= rung_ && rung != Rung::Kill)
        return;
    const bool first = rung_ == Rung::None;
    rung_ = rung;
    const double now = monotonicSeconds();
    if (first && firstFailureAt_ < 0)
        state("stopping", why);
    if (rung == Rung::Stop) {
        tellAll(Json{{"do", "stop"}});
        rungDeadline_ = now + std::max(options_.stopGraceS, 2 * figures_.medianStepSeconds());
    } else if (rung == Rung::Terminate) {
        tellAll(Json{{"do", "terminate"}});
        for (const auto& rank : ranks_) {
            rank->terminatedByUs = rank->terminatedByUs || !rank->reaped;
            signalRank(*rank, SIGTERM);
        }
        rungDeadline_ = now + kTermGraceS;
    } else {
        killAll();
    }
}

void RunLoop::killAll()
{
    rung_ = std::max(rung_, firstFailureAt_ < 0 ? Rung::Kill : rung_);
    rungDeadline_ = monotonicSeconds() + kKillGraceS;
    for (const auto& rank : ranks_) {
        if (rank->reaped)
            continue;
        rank->terminatedByUs = true;
        signalRank(*rank, SIGKILL);
    }
}

void RunLoop::tellAll(const Json& command)
{
    for (const auto& rank : ranks_)
        commandRank(*rank, command);
}

void RunLoop::tick()
{
    uint64_t expirations = 0;
    (void)!::read(timer_.get(), &expirations, sizeof expirations);
    for (const Json& request : control_.poll())
        takeControl(request);
    const double now = monotonicSeconds();
    if (killAt_ >= 0 && now >= killAt_) {
        killAt_ = -1;
        killAll();
    } else if (rungDeadline_ >= 0 && now >= rungDeadline_ && anyAlive()) {
        if (killAt_ < 0 && (rung_ == Rung::Kill || firstFailureAt_ >= 0)) {
            unkillable_ = true;
            message_ = fmt::format("{}: workers cannot be killed; their devices must not be used again before a restart of the host", host_);
        } else {
            climb(rung_ == Rung::Stop ? Rung::Terminate : Rung::Kill, reason_);
        }
    }
    const auto& spec = directory_.spec;
    if (spec.kind == "train" && spec.checkpointEveryS > 0 && now - lastCheckpointAt_ >= spec.checkpointEveryS && rung_ == Rung::None && state_ == "running") {
        lastCheckpointAt_ = now;
        tellAll(Json{{"do", "checkpoint"}});
    }
    if (journal_.dirty() && now - lastFlush_ >= kFlushEveryS)
        flushJournal();
    if (now - lastStatus_ >= (statusDirty_ ? kFlushEveryS : kStatusEveryS))
        writeStatus();
}

void RunLoop::addShard(Rank& rank, const Json& line)
{
    const int64_t step = line.value("step", int64_t(-1));
    Commit& book = commits_[step];
    std::vector<ShardReport> reports;
    if (line.contains("files") && line["files"].is_array())
        for (const Json& file : line["files"]) {
            auto report = shardReportFromJson(file);
            if (!report.ok())
                return abandon(step, report.error().message);
            reports.push_back(std::move(*report));
        }
    book.shards[rank.number] = std::move(reports);
    book.blockedS = std::max(book.blockedS, line.contains("blocked_s") ? numberOf(line["blocked_s"]) : 0.0);
    book.writeS = std::max(book.writeS, line.contains("write_s") ? numberOf(line["write_s"]) : 0.0);
    if (int64_t(book.shards.size()) < directory_.spec.world)
        return;
    const Commit complete = std::move(book);
    commits_.erase(step);
    commit(step, complete);
}

void RunLoop::commit(int64_t step, const Commit& book)
{
    const RunSpec& spec = directory_.spec;
    CheckpointManifest identity;
    identity.run = spec.id;
    identity.attempt = attempt_;
    identity.step = step;
    identity.parentStep = std::max<int64_t>(0, figures_.lastCommit);
    identity.world = spec.world;
    identity.seed = spec.seed;
    identity.planHash = spec.planHash;
    identity.modelHash = spec.modelHash;
    identity.dataHash = spec.dataHash;
    identity.buildId = spec.buildId;
    std::vector<ShardReport> reports;
    for (const auto& [rank, files] : book.shards)
        reports.insert(reports.end(), files.begin(), files.end());
    const auto manifest = commitCheckpoint(directory_.folder(), identity, reports);
    if (!manifest.ok())
        return abandon(step, manifest.error().message);
    int64_t bytes = 0;
    for (const auto& file : manifest->files)
        bytes += file.bytes;
    figures_.lastCommit = step;
    lastCheckpointAt_ = monotonicSeconds();
    event("checkpoint.committed", Json{{"step", step}, {"bytes", bytes}, {"files", int64_t(manifest->files.size())},
                                       {"blocked_s", book.blockedS}, {"write_s", book.writeS}, {"tainted", manifest->tainted}});
    flushJournal(); // announced only when it is recorded
    tellAll(Json{{"do", "committed"}, {"step", step}});
}

void RunLoop::abandon(int64_t step, const std::string& reason)
{
    commits_.erase(step);
    event("checkpoint.skipped", Json{{"step", step}, {"reason", reason}, {"need_bytes", nullptr}, {"free_bytes", nullptr}, {"misses", 1}});
    note(fmt::format("checkpoint of step {} abandoned: {}", step, reason));
    tellAll(Json{{"do", "abandon"}, {"step", step}});
    std::error_code ignored;
    if (!anyAlive())
        std::filesystem::remove_all(directory_.folder() + "/checkpoints/" + checkpointTempName(step, attempt_), ignored);
}

} // namespace megagraph::launch
