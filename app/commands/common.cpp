// SPDX-License-Identifier: Apache-2.0
#include "app/commands/command.h"
#include "core/json.h"

#include <cstdio>
#include <fmt/format.h>
#include <unistd.h>

namespace megagraph::app {

int report(const Error& error, bool json)
{
    if (json)
        fmt::print("{}\n", Json{{"error", {{"code", errorCodeName(error.code)}, {"message", error.message}}}}.dump());
    fmt::print(stderr, "megagraph: {}\n", error.message);
    return exitCode(error.code);
}

void progress(const Invocation& invocation, const std::string& what, int64_t done, int64_t total)
{
    if (invocation.events) {
        fmt::print(stderr, "{}\n", Json{{"kind", "progress"}, {"what", what}, {"done", done}, {"total", total}}.dump());
        return;
    }
    if (!isatty(STDERR_FILENO))
        return;
    if (total > 0)
        fmt::print(stderr, "\r\033[K{}: {} of {}", what, done, total);
    else
        fmt::print(stderr, "\r\033[K{}", what);
    if (total > 0 && done >= total)
        fmt::print(stderr, "\r\033[K");
    std::fflush(stderr);
}

} // namespace megagraph::app
