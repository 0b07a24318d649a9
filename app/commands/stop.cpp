// SPDX-License-Identifier: Apache-2.0
// `stop`: asks a run to stop through its control file; when its supervisor does not answer, by signal to exactly that process.
#include "app/commands/run_support.h"

#include "core/clock.h"
#include "core/file.h"
#include "core/places.h"
#include "core/process.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fmt/format.h>
#include <memory>
#include <sys/syscall.h>
#include <thread>
#include <tuple>
#include <unistd.h>

namespace megagraph::app {
namespace {

constexpr double kAnswerS = 2, kEndS = 120;
constexpr auto kPollEvery = std::chrono::milliseconds(50);

struct StopOptions { std::string run = "last"; bool now = false, kill = false, noWait = false; };

bool isFinal(const std::string& state)
{
    return state == "finished" || state == "stopped" || state == "failed" || state == "lost";
}

/// Waits for the event that answers request `id`; only the journal's new part is read.
bool answered(RunFollower& follower, const std::string& id)
{
    for (const double until = monotonicSeconds() + kAnswerS; monotonicSeconds() < until; std::this_thread::sleep_for(kPollEvery)) {
        const auto lines = follower.poll();
        if (!lines.ok())
            return false;
        for (const Json& line : lines->events)
            if (line.value("kind", "") == "control" && line.value("id", "") == id)
                return true;
    }
    return false;
}

/// TERM to the holder of the lock, named by pid and start ticks, through a pidfd: never to a process that took over the number.
Result<Ok> signalHolder(const std::string& folder)
{
    MEGAGRAPH_TRY(const Json holder, readJsonFile(folder + "/lock"));
    const auto pid = holder.value("pid", int64_t(0)), ticks = holder.value("start_ticks", int64_t(0));
    const FileDescriptor pidfd(int(::syscall(SYS_pidfd_open, pid_t(pid), 0)));
    if (!pidfd.valid() || processStartTicks(pid) != ticks || holder.value("boot_id", "") != bootId())
        return Error{ErrorCode::NotFound, fmt::format("{}: its supervisor (pid {} on {}) is not a process of this host", folder, pid, holder.value("host", "?"))};
    if (::syscall(SYS_pidfd_send_signal, pidfd.get(), SIGTERM, nullptr, 0) != 0)
        return Error{ErrorCode::Io, fmt::format("{}: signal to pid {} failed: {}", folder, pid, std::strerror(errno))};
    return Ok{};
}

Result<int> stop(const StopOptions& options, const Invocation& invocation)
{
    const std::string home = homeFolder();
    MEGAGRAPH_TRY(const std::string id, resolveRun(home, options.run));
    const std::string folder = runFolder(home, id);
    MEGAGRAPH_TRY(RunStatus status, readRunStatus(folder));
    const bool alive = status.alive;
    bool acknowledged = false;
    if (alive) {
        RunFollower follower(folder);
        for (bool more = true; more;) { // up to now
            MEGAGRAPH_TRY(const RunFollower::Lines lines, follower.poll());
            more = lines.more;
        }
        MEGAGRAPH_TRY(const std::string request, requestControl(folder, options.kill ? "kill" : options.now ? "terminate" : "stop", "megagraph stop"));
        acknowledged = answered(follower, request);
        if (!acknowledged && isLocked(folder + "/lock")) {
            MEGAGRAPH_TRY(std::ignore, signalHolder(folder));
        }
        for (const double until = monotonicSeconds() + (options.noWait ? 0 : kEndS); monotonicSeconds() < until && !invocation.stop.stop_requested();
             std::this_thread::sleep_for(kPollEvery))
            if (!isLocked(folder + "/lock"))
                break;
        MEGAGRAPH_TRY(status, readRunStatus(folder));
    }
    if (invocation.json)
        fmt::print("{}\n", Json{{"format", "megagraph.stop"}, {"version", 1}, {"run", id}, {"state", status.state}, {"was_running", alive},
                                {"acknowledged", acknowledged}, {"step", status.step}, {"last_commit_step", status.lastCommitStep}}.dump());
    else
        fmt::print("run {}: {}{}, step {}, last commit {}\n", id, alive ? "" : "was already ", status.state, status.step, status.lastCommitStep);
    if (!alive || options.noWait || isFinal(status.state))
        return 0;
    return report({ErrorCode::Timeout, fmt::format("run {}: is still {} after {} s; stop it at once with megagraph stop {} --now", id, status.state, int(kEndS), id)}, false);
}

} // namespace

Verb addStop(CLI::App& root, Invocation& invocation)
{
    auto options = std::make_shared<StopOptions>();
    CLI::App* app = root.add_subcommand("stop", "Stop a run after its step, with a checkpoint");
    app->add_option("RUN", options->run, "Run id, its beginning, or last")->capture_default_str();
    app->add_flag("--now", options->now, "At once, without a checkpoint");
    app->add_flag("--kill", options->kill, "Kill its workers");
    app->add_flag("--no-wait", options->noWait, "Do not wait for its end");
    app->add_flag("--json", invocation.json, "One JSON document on stdout");
    app->footer("Example: megagraph stop last");
    return {app, [options, &invocation] {
                const auto code = stop(*options, invocation);
                return code.ok() ? *code : report(code.error(), invocation.json);
            }};
}

} // namespace megagraph::app
