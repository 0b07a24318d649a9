// SPDX-License-Identifier: Apache-2.0
#include "app/worker_bench.h"

#include "app/commit.h"
#include "core/file.h"
#include "core/places.h"
#include "runtime/bench/bench.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string_view>

namespace megagraph::app {
namespace {

namespace bench = runtime::bench;
constexpr int kReport = 3; // descriptor

Result<bench::Options> parse(int argc, char** argv)
{
    bench::Options options;
    options.resources = resourcesFolder();
    options.commit = buildCommit();
    for (int i = 2; i < argc; ++i) {
        const std::string_view name = argv[i];
        const char* const value = i + 1 < argc ? argv[i + 1] : nullptr;
        if (name == "--quick") {
            options.quick = true;
            continue;
        }
        if (value == nullptr)
            return Error{ErrorCode::Usage, std::string("worker: ") + argv[i] + ": unknown argument, or it has no value"};
        ++i;
        if (name == "--only")
            options.only.push_back(value);
        else if (name == "--threads")
            options.threads = std::clamp(std::atoi(value), 1, 1024);
        else if (name == "--seconds")
            options.mostSeconds = std::clamp(std::atof(value), 0.1, 600.0);
        else if (name == "--python")
            options.python = value;
        else if (name == "--scratch")
            options.scratch = value;
        else
            return Error{ErrorCode::Usage, std::string("worker: ") + argv[i - 1] + ": unknown argument"};
    }
    if (options.scratch.empty())
        return Error{ErrorCode::Usage, "worker: --bench: --scratch is missing; start it with megagraph bench kernels"};
    return options;
}

Result<Ok> guarded(const bench::Options& options)
{
    const auto sink = [](const Json& line) {
        if (!writeAll(kReport, line.dump() + "\n", "report pipe").ok())
            std::_Exit(1); // nobody reads: the run was stopped
    };
    try {
        return bench::run(options, sink);
    } catch (const std::exception& error) {
        return Error{ErrorCode::Internal, error.what()};
    }
}

} // namespace

int workerBench(int argc, char** argv)
{
    std::signal(SIGINT, SIG_IGN); // the parent is asked first and ends this process
    at::globalContext().setFlushDenormal(true); // as in training
    at::set_num_interop_threads(1);
    const auto options = parse(argc, argv);
    const auto done = options.ok() ? guarded(*options) : Result<Ok>(options.error());
    if (done.ok())
        return 0;
    std::fprintf(stderr, "%s\n", done.error().message.c_str());
    return exitCode(done.error().code);
}

} // namespace megagraph::app
