// SPDX-License-Identifier: Apache-2.0
// `watch`: follows a run that another process supervises, until it ends; reads its directory only.
#include "app/commands/run_support.h"

#include "core/event.h"
#include "core/places.h"

#include <cstdio>
#include <fmt/format.h>
#include <memory>
#include <thread>
#include <tuple>

namespace megagraph::app {
namespace {

constexpr auto kPollEvery = std::chrono::milliseconds(250);

struct WatchOptions { std::string run = "last"; };

bool isFinal(const std::string& state)
{
    return state == "finished" || state == "stopped" || state == "failed" || state == "lost";
}

int exitOf(const std::string& state)
{
    if (state == "finished")
        return 0;
    return exitCode(state == "stopped" ? ErrorCode::Cancelled : ErrorCode::RankFailed);
}

/// Takes all new lines; both kinds come in their own order.
Result<Ok> takeNew(RunFollower& follower, const Invocation& invocation, RunProgress& shown)
{
    for (;;) {
        MEGAGRAPH_TRY(const RunFollower::Lines lines, follower.poll());
        for (const auto* some : {&lines.events, &lines.samples})
            for (const Json& line : *some) {
                if (invocation.json)
                    fmt::print("{}", encodeLine(line));
                shown.take(line);
            }
        std::fflush(stdout);
        if (!lines.more)
            return Ok{};
    }
}

Result<int> watch(const WatchOptions& options, const Invocation& invocation)
{
    const std::string home = homeFolder();
    MEGAGRAPH_TRY(const std::string id, resolveRun(home, options.run));
    const std::string folder = runFolder(home, id);
    MEGAGRAPH_TRY(RunStatus status, readRunStatus(folder));
    RunFollower follower(folder);
    RunProgress shown(invocation, status.name.empty() ? id : status.name, status.steps);
    for (;;) {
        MEGAGRAPH_TRY(status, readRunStatus(folder)); // before the lines, so that the last ones are not missed
        MEGAGRAPH_TRY(std::ignore, takeNew(follower, invocation, shown));
        if (isFinal(status.state))
            break;
        if (invocation.stop.stop_requested()) {
            shown.end();
            fmt::print(stderr, "megagraph: run {} goes on; watch again with megagraph watch {}\n", id, id);
            return 0;
        }
        std::this_thread::sleep_for(kPollEvery);
    }
    shown.end();
    if (status.state == "lost")
        fmt::print(stderr, "megagraph: run {}: its supervisor is gone and its workers with it, at step {}, last commit {}; resume: megagraph train --resume {}\n", id,
                   status.step, status.lastCommitStep, id);
    else if (!status.cause.empty())
        fmt::print(stderr, "megagraph: {}\n", status.cause);
    if (const auto result = readJsonFile(folder + "/result.json"); result.ok() && status.state != "lost") {
        if (invocation.json)
            fmt::print("{}\n", result->dump());
        else
            printRunResult(*result, folder);
    }
    return exitOf(status.state);
}

} // namespace

Verb addWatch(CLI::App& root, Invocation& invocation)
{
    auto options = std::make_shared<WatchOptions>();
    CLI::App* app = root.add_subcommand("watch", "Follow a run until it ends");
    app->add_option("RUN", options->run, "Run id, its beginning, or last")->capture_default_str();
    app->add_flag("--json", invocation.json, "Events and samples as JSON lines on stdout, result.json last");
    app->add_flag("--events", invocation.events, "Events and samples as JSON lines on stderr");
    app->footer("Ctrl-C ends watching; the run goes on.\nExample: megagraph watch last");
    return {app, [options, &invocation] {
                const auto code = watch(*options, invocation);
                return code.ok() ? *code : report(code.error(), invocation.json);
            }};
}

} // namespace megagraph::app
