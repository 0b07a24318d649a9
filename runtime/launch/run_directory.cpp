// SPDX-License-Identifier: Apache-2.0
#include "runtime/launch/run_directory.h"

#include "core/clock.h"
#include "core/places.h"
#include "core/process.h"
#include "core/units.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <sys/stat.h>
#include <thread>
#include <tuple>
#include <unistd.h>

namespace megagraph::launch {
namespace {

constexpr double kLeftoverWaitS = 5;
constexpr size_t kMostEnvironment = 1 << 20;

Error holderError(const std::string& folder)
{
    std::string who = "another supervisor";
    if (const auto holder = readJsonFile(folder + "/lock"); holder.ok() && holder->is_object())
        who = fmt::format("another supervisor, pid {} on {} since {}", holder->value("pid", int64_t(0)), holder->value("host", "?"),
                          holder->value("utc", "?"));
    return {ErrorCode::Refused, fmt::format("{}: run is held by {}; watch it with megagraph watch {}", folder, who,
                                            std::filesystem::path(folder).filename().string())};
}

Result<Ok> writeDocument(const std::string& folder, const char* name, const Json& value)
{
    return writeFileAtomically(folder + "/" + name, value.dump(1) + "\n");
}

bool environmentNames(const std::string& environment, const std::string& entry)
{
    for (size_t at = 0; at < environment.size();) {
        const size_t end = std::min(environment.find('\0', at), environment.size());
        if (environment.compare(at, end - at, entry) == 0)
            return true;
        at = end + 1;
    }
    return false;
}

} // namespace

std::string hostName()
{
    char name[256] = {};
    return ::gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

std::vector<RunProcess> processesOfRun(const std::string& folder)
{
    std::vector<RunProcess> found;
    const std::string entry = "MEGAGRAPH_RUN=" + folder;
    std::error_code error;
    for (std::filesystem::directory_iterator it("/proc", error), end; !error && it != end; it.increment(error)) {
        const std::string name = it->path().filename().string();
        if (name.find_first_not_of("0123456789") != std::string::npos)
            continue;
        const int64_t pid = std::strtoll(name.c_str(), nullptr, 10);
        if (pid == ::getpid())
            continue;
        const auto environment = readSmallFile(fmt::format("/proc/{}/environ", pid), kMostEnvironment);
        if (!environment.ok() || !environmentNames(*environment, entry))
            continue;
        const auto comm = readSmallFile(fmt::format("/proc/{}/comm", pid), 256);
        const int64_t ticks = processStartTicks(pid);
        if (ticks >= 0)
            found.push_back({pid, ticks, comm.ok() ? comm->substr(0, comm->find('\n')) : "?"});
    }
    return found;
}

Result<Ok> RunDirectory::takeLock()
{
    const std::string path = folder_ + "/lock";
    MEGAGRAPH_TRY(lock_, openFile(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0600));
    MEGAGRAPH_TRY(const bool taken, tryLock(lock_.get()));
    if (!taken)
        return holderError(folder_);
    const Json holder{{"host", hostName()}, {"boot_id", bootId()}, {"pid", int64_t(::getpid())},
                      {"start_ticks", processStartTicks(::getpid())}, {"utc", utcNow()}};
    if (::ftruncate(lock_.get(), 0) != 0)
        return Error{ErrorCode::Io, fmt::format("{}: ftruncate failed: {}", path, std::strerror(errno))};
    return writeAll(lock_.get(), holder.dump() + "\n", path);
}

Result<Ok> RunDirectory::writeDocuments() const
{
    MEGAGRAPH_TRY(std::ignore, writeDocument(folder_, "plan.json", planToJson(plan)));
    MEGAGRAPH_TRY(std::ignore, writeDocument(folder_, "model.json", modelToJson(plan.model)));
    MEGAGRAPH_TRY(std::ignore, writeDocument(folder_, "dataset.json", datasetToJson(dataset)));
    MEGAGRAPH_TRY(std::ignore, writeDocument(folder_, "cluster.json", clusterToJson(plan.cluster)));
    return writeDocument(folder_, "run.json", runToJson(spec)); // last: a folder with run.json is complete
}

Result<Ok> RunDirectory::readDocuments()
{
    const auto read = [this](const char* name) { return readJsonFile(folder_ + "/" + name); };
    MEGAGRAPH_TRY(const Json run, read("run.json"));
    MEGAGRAPH_TRY(spec, runFromJson(run, folder_ + "/run.json"));
    MEGAGRAPH_TRY(const Json planText, read("plan.json"));
    MEGAGRAPH_TRY(plan, planFromJson(planText, folder_ + "/plan.json"));
    MEGAGRAPH_TRY(const Json data, read("dataset.json"));
    MEGAGRAPH_TRY(dataset, datasetFromJson(data, folder_ + "/dataset.json"));
    return Ok{};
}

Result<RunDirectory> RunDirectory::create(const std::string& home, const RunSpec& spec, const Plan& plan, const DatasetSpec& dataset)
{
    RunDirectory directory;
    directory.spec = spec;
    directory.plan = plan;
    directory.dataset = dataset;
    directory.folder_ = runFolder(home, spec.id);
    MEGAGRAPH_TRY(std::ignore, makeFolders(home + "/runs"));
    if (::mkdir(directory.folder_.c_str(), 0700) != 0)
        return Error{ErrorCode::Io, fmt::format("{}: mkdir failed: {}", directory.folder_, std::strerror(errno))};
    MEGAGRAPH_TRY(std::ignore, directory.takeLock());
    MEGAGRAPH_TRY(std::ignore, makeFolders(directory.folder_ + "/logs"));
    MEGAGRAPH_TRY(std::ignore, makeFolders(directory.folder_ + "/checkpoints"));
    MEGAGRAPH_TRY(std::ignore, directory.writeDocuments());
    return directory;
}

Result<RunDirectory> RunDirectory::reopen(const std::string& home, const std::string& id)
{
    RunDirectory directory;
    directory.folder_ = runFolder(home, id);
    struct stat info{};
    if (::lstat(directory.folder_.c_str(), &info) != 0 || !S_ISDIR(info.st_mode))
        return Error{ErrorCode::NotFound, fmt::format("{}: no such run; megagraph runs lists them", directory.folder_)};
    MEGAGRAPH_TRY(std::ignore, directory.takeLock());
    // Workers of a crashed supervisor end by the death signal or their command pipe; only if not, the user has to look.
    const double until = monotonicSeconds() + kLeftoverWaitS;
    for (auto left = processesOfRun(directory.folder_); !left.empty(); left = processesOfRun(directory.folder_)) {
        if (monotonicSeconds() > until) {
            std::string list;
            for (const auto& process : left)
                list += fmt::format(" {} (pid {}, start tick {})", process.name, process.pid, process.startTicks);
            return Error{ErrorCode::Refused, fmt::format("{}: processes of a former attempt are still alive:{}; end them, then resume", id, list)};
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    MEGAGRAPH_TRY(std::ignore, directory.readDocuments());
    return directory;
}

} // namespace megagraph::launch
