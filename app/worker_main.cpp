// SPDX-License-Identifier: Apache-2.0
// megagraph-worker --run DIR --rank R: one rank of a run (runs design, section 1). Reads run.json, plan.json and dataset.json
// of DIR, reports on descriptor 3, obeys descriptor 4. The one place, with the profiler, that catches Torch's exceptions.
#include "app/worker_bench.h"
#include "core/clock.h"
#include "core/event.h"
#include "core/places.h"
#include "core/plan_check.h"
#include "runtime/allocator.h"
#include "runtime/profiler.h"
#include "runtime/trainer.h"
#include "runtime/verify.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <algorithm>
#include <c10/util/Exception.h>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fmt/format.h>
#include <sched.h>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <torch/version.h>
#include <tuple>
#include <unistd.h>

namespace {

using namespace megagraph;
using namespace megagraph::runtime;

struct Options { std::string runFolder; int64_t rank = 0; };

constexpr const char* kUsage = "usage: megagraph-worker --run DIR --rank R\n"
                               "One rank of a run; started by megagraph train, verify and profile. megagraph bench starts it with --bench.\n";

// A number of the environment, or `otherwise` when absent or not a number.
int64_t environmentNumber(const char* name, int64_t otherwise)
{
    const char* const text = std::getenv(name);
    if (text == nullptr || *text == '\0')
        return otherwise;
    char* end = nullptr;
    const long long value = std::strtoll(text, &end, 10);
    return *end == '\0' ? value : otherwise;
}

Result<Options> parse(int argc, char** argv)
{
    Options options;
    options.rank = environmentNumber("RANK", 0);
    for (int i = 1; i + 1 < argc; i += 2) {
        const std::string_view name = argv[i];
        char* end = nullptr;
        if (name == "--run")
            options.runFolder = argv[i + 1];
        else if (name == "--rank" && (options.rank = std::strtoll(argv[i + 1], &end, 10), *end == '\0'))
            continue;
        else
            return Error{ErrorCode::Usage, fmt::format("worker: {} {}: unknown argument", argv[i], argv[i + 1])};
    }
    if (argc % 2 == 0 || options.runFolder.empty() || options.rank < 0)
        return Error{ErrorCode::Usage, "worker: --run is missing or an argument has no value"};
    return options;
}

struct Documents { RunSpec run; Plan plan; DatasetSpec dataset; };

Result<Documents> readDocuments(const std::string& folder)
{
    MEGAGRAPH_TRY(const Json run, readJsonFile(folder + "/run.json"));
    MEGAGRAPH_TRY(const Json plan, readJsonFile(folder + "/plan.json"));
    MEGAGRAPH_TRY(const Json dataset, readJsonFile(folder + "/dataset.json"));
    Documents documents;
    MEGAGRAPH_TRY(documents.run, runFromJson(run, folder + "/run.json"));
    MEGAGRAPH_TRY(documents.plan, planFromJson(plan, folder + "/plan.json"));
    MEGAGRAPH_TRY(documents.dataset, datasetFromJson(dataset, folder + "/dataset.json"));
    MEGAGRAPH_TRY(std::ignore, checkPlan(documents.plan, documents.dataset));
    return documents;
}

DeviceSpec deviceOf(const Plan& plan, const RankRole& role)
{
    const std::vector<DeviceSpec> devices = plan.cluster.devices();
    return size_t(role.device) < devices.size() ? devices[size_t(role.device)] : DeviceSpec{};
}

// Before any thread exists, so that all inherit it. A core that is not there is no reason to stop: the slot then floats.
void pinTo(const std::vector<int64_t>& cores)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const int64_t core : cores)
        if (core >= 0 && core < CPU_SETSIZE)
            CPU_SET(size_t(core), &set);
    if (CPU_COUNT(&set) > 0)
        std::ignore = ::sched_setaffinity(0, sizeof set, &set);
}

// Threads, determinism, and the resident size of an idle worker as base of all memory numbers.
void prepareTorch(const DeviceSpec& device, int64_t threads)
{
    // before any pool thread exists, so that all inherit it: moments and gradients that fade out become 0 instead of
    // denormal numbers, which processors handle far slower
    at::globalContext().setFlushDenormal(true);
    at::set_num_threads(int(std::max<int64_t>(1, threads)));
    at::set_num_interop_threads(1);
    at::globalContext().setDeterministicAlgorithms(true, false);
    at::globalContext().setDeterministicFillUninitializedMemory(false);
    {
        const at::Tensor warm = at::ones({64, 64}, at::kFloat);
        at::mm(warm, warm); // thread pool and BLAS are part of an idle worker
    }
    const int64_t base = std::max<int64_t>(0, residentBytes() - memoryState().current);
    setMemoryBudget(std::max<int64_t>(0, device.memoryBytes - device.keptFreeBytes), base);
}

int report(Reporter& reporter, const Error& error, int code)
{
    std::fprintf(stderr, "%s\n", error.message.c_str());
    reporter.event("error", {{"code", errorCodeName(error.code)}, {"message", error.message}, {"exit_code", code}});
    return code;
}

int exitOf(ErrorCode code)
{
    switch (code) {
    case ErrorCode::Corrupt:
    case ErrorCode::InvalidInput:
    case ErrorCode::NotFound:
    case ErrorCode::Unsupported:
    case ErrorCode::VersionMismatch:
    case ErrorCode::Io: return kExitInput;
    default: return kExitInternal;
    }
}

int reportOutOfMemory(Reporter& reporter)
{
    const OutOfMemoryReport out = lastOutOfMemory();
    Json categories = Json::object();
    for (int c = 0; c < kMemoryCategories; ++c)
        categories[std::string(memoryCategoryName(MemoryCategory(c)))] = out.categories[size_t(c)];
    reporter.event("oom", {{"step", reporter.step()},
                           {"phase", reporter.phase()},
                           {"layer", out.layer},
                           {"op", out.op},
                           {"tensor", out.tensor},
                           {"category", memoryCategoryName(out.category)},
                           {"requested_bytes", out.requested},
                           {"in_use_bytes", out.inUse},
                           {"budget_bytes", out.budget},
                           {"categories", categories}});
    const std::string message =
        fmt::format("memory: step {}, {}{}: {} bytes for {} do not fit, {} of {} bytes are in use; use a plan with more ranks, "
                    "recomputation or fused attention",
                    reporter.step(), out.tensor.empty() ? "a tensor" : out.tensor,
                    out.layer >= 0 ? fmt::format(" of layer {}", out.layer) : "", out.requested, memoryCategoryName(out.category),
                    out.inUse, out.budget);
    return report(reporter, {ErrorCode::OutOfMemory, message}, kExitMemory);
}

// Gloo has no exception type of its own that crosses Torch; its texts name its source files.
bool isPeerFailure(std::string_view text)
{
    return text.find("gloo") != std::string_view::npos || text.find("Connection closed by peer") != std::string_view::npos ||
           text.find("c10d") != std::string_view::npos;
}

// Gloo may throw on a thread of its own: then this rank is a consequence, not the cause.
[[noreturn]] void onTerminate()
{
    try {
        if (const std::exception_ptr current = std::current_exception())
            std::rethrow_exception(current);
    } catch (const std::exception& exception) {
        std::fprintf(stderr, "worker: terminated: %s\n", exception.what());
        if (isPeerFailure(exception.what()))
            ::_exit(kExitPeer);
    } catch (...) {
    }
    std::abort();
}

Result<Dataset> openDataset(const Documents& documents, const std::string& home)
{
    MEGAGRAPH_TRY(Dataset dataset, Dataset::open(datasetFolder(home, documents.plan.datasetName)));
    for (const std::string& expected : {documents.plan.datasetHash, documents.dataset.contentHash})
        if (dataset.spec().contentHash != expected)
            return Error{ErrorCode::VersionMismatch,
                         fmt::format("data set: {}: content hash is {}, expected {}; the data have changed since the plan was made: "
                                     "plan again",
                                     dataset.folder(), dataset.spec().contentHash, expected)};
    return dataset;
}

int runMode(WorkerContext& context)
{
    if (context.run.kind == "profile")
        return runProfile(context);
    std::unique_ptr<StepObserver> observer;
    if (context.run.kind == "verify") {
        const Result<std::vector<ParameterSpec>> layout = modelLayout(context.plan.model, context.dataset.spec());
        if (!layout.ok())
            return report(context.reporter, layout.error(), kExitInput);
        Result<std::unique_ptr<StepObserver>> made =
            makeVerifier(context.run, context.home, context.runFolder, context.rank, *layout, context.reporter);
        if (!made.ok())
            return report(context.reporter, made.error(), kExitInput);
        observer = std::move(made).value();
    }
    return Trainer(context, observer.get()).run();
}

int work(const Options& options, const Documents& documents, int64_t attempt, double startedAt, Reporter& reporter,
         Commands& commands)
{
    const std::vector<RankRole> roles = rankRoles(documents.plan);
    if (options.rank >= int64_t(roles.size()) || environmentNumber("WORLD_SIZE", int64_t(roles.size())) != int64_t(roles.size()))
        return report(reporter,
                      {ErrorCode::InvalidInput, fmt::format("worker: rank {} of {}: the plan has {} ranks", options.rank,
                                                            environmentNumber("WORLD_SIZE", int64_t(roles.size())), roles.size())},
                      kExitMismatch);
    const RankRole role = roles[size_t(options.rank)];
    const DeviceSpec device = deviceOf(documents.plan, role);
    pinTo(device.cores);
    prepareTorch(device, documents.run.threadsPerRank);
    const std::string home = homeFolder();
    const Result<Dataset> dataset = openDataset(documents, home);
    if (!dataset.ok())
        return report(reporter, dataset.error(),
                      dataset.error().code == ErrorCode::VersionMismatch ? int(kExitMismatch) : exitOf(dataset.error().code));
    reporter.event("rank.ready", {{"torch", TORCH_VERSION},
                                  {"build", productVersion()},
                                  {"backend", "cpu"},
                                  {"load_s", monotonicSeconds() - startedAt},
                                  {"rss_bytes", residentBytes()},
                                  {"base_bytes", memoryBase()}});
    reporter.at("mesh", 0, "");
    const double before = monotonicSeconds();
    const double timeout = std::max(600.0, 20e-9 * double(documents.plan.prediction.stepNs));
    Groups groups = makeGroups(documents.plan, options.rank, fmt::format("{}/store.a{}", options.runFolder, attempt), timeout);
    reporter.event("mesh.formed", {{"groups", documents.plan.world() > 1 ? 3 : 0}, {"took_s", monotonicSeconds() - before}});
    WorkerContext context{.run = documents.run,
                          .plan = documents.plan,
                          .dataset = *dataset,
                          .home = home,
                          .runFolder = options.runFolder,
                          .rank = options.rank,
                          .attempt = attempt,
                          .resumeStep = environmentNumber("MEGAGRAPH_RESUME_STEP", -1),
                          .role = role,
                          .groups = groups,
                          .reporter = reporter,
                          .commands = commands};
    const int code = runMode(context);
    if ((code == kExitDone || code == kExitStopped) && groups.leaveTogether)
        groups.leaveTogether();
    return code;
}

int guarded(const Options& options, double startedAt)
{
    const int64_t attempt = environmentNumber("MEGAGRAPH_ATTEMPT", 1);
    Result<std::unique_ptr<Reporter>> opened = Reporter::open(options.runFolder, options.rank, attempt);
    if (!opened.ok()) {
        std::fprintf(stderr, "%s\n", opened.error().message.c_str());
        return kExitInput;
    }
    Reporter& reporter = **opened;
    static Commands commands; // its thread outlives this function
    const Result<Documents> documents = readDocuments(options.runFolder);
    if (!documents.ok())
        return report(reporter, documents.error(), exitOf(documents.error().code));
    try {
        return work(options, *documents, attempt, startedAt, reporter, commands);
    } catch (const c10::OutOfMemoryError&) {
        return reportOutOfMemory(reporter);
    } catch (const c10::Error& error) {
        const std::string text = error.what_without_backtrace();
        return report(reporter, {isPeerFailure(text) ? ErrorCode::RankFailed : ErrorCode::Internal, text},
                      isPeerFailure(text) ? int(kExitPeer) : int(kExitInternal));
    } catch (const std::bad_alloc&) {
        return report(reporter, {ErrorCode::OutOfMemory, "memory: the system refused an allocation; close other programs"}, kExitMemory);
    } catch (const std::exception& error) {
        const std::string text = error.what();
        return report(reporter, {isPeerFailure(text) ? ErrorCode::RankFailed : ErrorCode::InvalidInput, text},
                      isPeerFailure(text) ? int(kExitPeer) : int(kExitInput));
    }
}

} // namespace

int main(int argc, char** argv)
{
    const double startedAt = monotonicSeconds();
    installCountingAllocator();
    std::set_terminate(onTerminate);
    std::signal(SIGPIPE, SIG_IGN);
    ::umask(077);
    if (argc == 2 && (std::string_view(argv[1]) == "--help" || std::string_view(argv[1]) == "--version")) {
        std::printf("%s", std::string_view(argv[1]) == "--help" ? kUsage : fmt::format("megagraph-worker {}\n", productVersion()).c_str());
        return 0;
    }
    if (argc >= 2 && std::string_view(argv[1]) == "--bench") {
        const int code = app::workerBench(argc, argv);
        std::fflush(nullptr);
        ::_exit(code);
    }
    const Result<Options> options = parse(argc, argv);
    if (!options.ok()) {
        std::fprintf(stderr, "%s\n%s", options.error().message.c_str(), kUsage);
        return 2;
    }
    const int code = guarded(*options, startedAt);
    std::fflush(nullptr);
    ::_exit(code); // threads of Torch and Gloo have nothing left to say; static destructors only race with them
}
