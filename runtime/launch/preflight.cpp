// SPDX-License-Identifier: Apache-2.0
#include "runtime/launch/preflight.h"

#include "core/file.h"
#include "core/json.h"
#include "core/model_layout.h"
#include "core/places.h"
#include "core/plan_check.h"
#include "core/units.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace megagraph::launch {
namespace {

constexpr int64_t kSpareDisk = 256 << 20;

CheckResult verdict(const char* check, const char* value, std::string got, std::string expected, std::string hint)
{
    return {check, value, std::move(got), std::move(expected), std::move(hint)};
}

CheckResult passed(const char* check)
{
    return {check, "ok", {}, {}, {}};
}

CheckResult checkLegality(const Plan& plan, const DatasetSpec& dataset)
{
    const auto legal = checkPlan(plan, dataset);
    if (!legal.ok())
        return verdict("C1", "refuse", legal.error().message, "a legal plan that this version can run", "plan again: megagraph plan");
    return passed("C1");
}

/// Full hashes are checked by `import`; here only what a start must know: same content, nothing missing, nothing cut.
CheckResult checkData(const Plan& plan, const DatasetSpec& dataset, const std::string& home)
{
    const std::string folder = datasetFolder(home, dataset.name), hint = "import it again: megagraph import PATH --name " + dataset.name;
    const auto json = readJsonFile(folder + "/dataset.json");
    if (!json.ok())
        return verdict("C2", "refuse", json.error().message, "data set " + dataset.name + " in the library", hint);
    const auto stored = datasetFromJson(*json, folder + "/dataset.json");
    if (!stored.ok())
        return verdict("C2", "refuse", stored.error().message, "a readable dataset.json", hint);
    if (!plan.datasetHash.empty() && stored->contentHash != plan.datasetHash)
        return verdict("C2", "refuse", fmt::format("{}: content hash {:.12}", folder, stored->contentHash),
                       fmt::format("{:.12} as in the plan", plan.datasetHash), "plan again for this data: megagraph plan --data " + dataset.name);
    struct stat document{};
    (void)::stat((folder + "/dataset.json").c_str(), &document);
    std::string touched;
    for (const auto& array : stored->arrays) {
        struct stat info{};
        const std::string path = folder + "/" + array.file;
        if (::stat(path.c_str(), &info) != 0)
            return verdict("C2", "refuse", path + " is missing", bytesText(array.sizeBytes), hint);
        if (info.st_size != array.sizeBytes)
            return verdict("C2", "refuse", fmt::format("{} has {} bytes", path, info.st_size), fmt::format("{} bytes", array.sizeBytes), hint);
        if (info.st_mtime > document.st_mtime + 1)
            touched = path;
    }
    if (!touched.empty())
        return verdict("C2", "warn", touched + " was written after the import", "unchanged arrays", "check it: megagraph inspect " + dataset.name);
    return passed("C2");
}

CheckResult checkDevices(const Plan& plan)
{
    const auto devices = plan.cluster.devices();
    std::vector<bool> used(devices.size(), false);
    for (const auto& stage : plan.stages) {
        for (const int64_t id : stage.devices) {
            if (id < 0 || id >= int64_t(devices.size()))
                return verdict("C3", "refuse", fmt::format("device {}", id), fmt::format("0 to {}", int64_t(devices.size()) - 1), "plan again");
            if (used[size_t(id)])
                return verdict("C3", "refuse", fmt::format("device {} is named twice", id), "one rank per device", "plan again");
            used[size_t(id)] = true;
            if (devices[size_t(id)].kind != "cpu_slot")
                return verdict("C3", "refuse", fmt::format("device {} is a {}", id, devices[size_t(id)].kind), "cpu_slot",
                               "this build runs on CPU slots; nothing falls back in silence: plan with --ranks N");
        }
    }
    return passed("C3");
}

int64_t budgetOf(const DeviceSpec& device)
{
    return device.memoryBytes > 0 ? device.memoryBytes - device.keptFreeBytes : 0;
}

std::vector<DeviceSpec> devicesOfRanks(const Plan& plan)
{
    const auto devices = plan.cluster.devices();
    std::vector<DeviceSpec> out;
    for (const auto& stage : plan.stages)
        for (const int64_t id : stage.devices)
            if (id >= 0 && id < int64_t(devices.size()))
                out.push_back(devices[size_t(id)]);
    return out;
}

CheckResult checkDeviceMemory(const RunSpec& spec, const Plan& plan)
{
    const auto devices = devicesOfRanks(plan);
    if (plan.prediction.ranks.empty() && spec.kind != "train")
        return passed("C4"); // reference runs and profiles are not planned
    if (plan.prediction.ranks.empty())
        return verdict("C4", "warn", "plan carries no memory prediction", "a prediction per rank", "megagraph plan adds one");
    for (const auto& rank : plan.prediction.ranks) {
        if (rank.rank < 0 || rank.rank >= int64_t(devices.size()))
            continue;
        const int64_t budget = budgetOf(devices[size_t(rank.rank)]);
        if (budget <= 0 || rank.peakBytes <= budget)
            continue;
        return verdict("C4", spec.riskOom ? "warn" : "refuse",
                       fmt::format("predicted peak of rank {} is {}", rank.rank, bytesText(rank.peakBytes)),
                       fmt::format("at most its budget of {}", bytesText(budget)),
                       spec.riskOom ? "run goes on because of --risk-oom" : "take a plan that fits (megagraph plan), or --risk-oom");
    }
    return passed("C4");
}

CheckResult checkHostMemory(const RunSpec& spec, const Plan& plan, const HostFacts& host)
{
    const auto devices = devicesOfRanks(plan);
    int64_t total = 0;
    for (const auto& rank : plan.prediction.ranks) {
        const int64_t budget = rank.rank >= 0 && rank.rank < int64_t(devices.size()) ? budgetOf(devices[size_t(rank.rank)]) : 0;
        total += budget > 0 ? std::min(rank.peakBytes, budget) : rank.peakBytes;
    }
    if (host.availableBytes <= 0 || total <= host.availableBytes * 8 / 10)
        return passed("C5");
    const bool over = total > host.availableBytes;
    return verdict("C5", over && !spec.riskOom ? "refuse" : "warn", fmt::format("all ranks together need {}", bytesText(total)),
                   fmt::format("at most 80 % of the {} that this host has available", bytesText(host.availableBytes)),
                   "end other programs, take fewer ranks or a smaller plan" + std::string(over ? ", or --risk-oom" : ""));
}

CheckResult checkCores(const RunSpec& spec, const HostFacts& host)
{
    const int64_t threads = spec.threadsPerRank * spec.world;
    if (threads > host.cores)
        return verdict("C6", "warn", fmt::format("{} ranks x {} threads", spec.world, spec.threadsPerRank), fmt::format("at most {} cores", host.cores),
                       "ranks share cores; steps take longer than predicted for cores of their own");
    return passed("C6");
}

/// Can this volume do what commits need: write, sync, rename, lock?
std::string probeVolume(const std::string& folder)
{
    const std::string path = folder + "/.probe", renamed = folder + "/.probe-renamed";
    std::string fault;
    {
        auto file = openFile(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
        if (!file.ok())
            return file.error().message;
        const auto written = writeAll(file->get(), "probe", path);
        const auto locked = tryLock(file->get());
        if (!written.ok())
            fault = written.error().message;
        else if (::fsync(file->get()) != 0)
            fault = fmt::format("{}: fsync failed: {}", path, std::strerror(errno));
        else if (!locked.ok() || !*locked)
            fault = path + ": file locks do not work on this volume";
        else if (::rename(path.c_str(), renamed.c_str()) != 0)
            fault = fmt::format("{}: rename failed: {}", path, std::strerror(errno));
    }
    ::unlink(path.c_str());
    ::unlink(renamed.c_str());
    return fault;
}

CheckResult checkDisk(const RunSpec& spec, const Plan& plan, const DatasetSpec& dataset, const std::string& runFolder)
{
    if (const std::string fault = probeVolume(runFolder); !fault.empty())
        return verdict("C7", "refuse", fault, "a volume that can write, sync, rename and lock", "use another MEGAGRAPH_HOME");
    struct statvfs volume{};
    if (::statvfs(runFolder.c_str(), &volume) != 0)
        return verdict("C7", "refuse", fmt::format("statvfs failed: {}", std::strerror(errno)), "a readable volume", "use another MEGAGRAPH_HOME");
    int64_t checkpoint = 0; // weights and two moments, fp32
    if (spec.kind == "train")
        if (const auto layout = modelLayout(plan.model, dataset); layout.ok())
            checkpoint = parameterCount(*layout) * 12;
    const int64_t available = int64_t(volume.f_bavail) * int64_t(volume.f_frsize), need = 2 * checkpoint + kSpareDisk;
    if (available < need)
        return verdict("C7", "refuse", fmt::format("{} free in {}", bytesText(available), runFolder), fmt::format("at least {} (2 checkpoints + 256 MiB)", bytesText(need)),
                       "free some space or use another MEGAGRAPH_HOME");
    if (available < 5 * checkpoint + kSpareDisk)
        return verdict("C7", "warn", fmt::format("{} free in {}", bytesText(available), runFolder),
                       fmt::format("{} (5 checkpoints + 256 MiB)", bytesText(5 * checkpoint + kSpareDisk)), "free some space");
    return passed("C7");
}

CheckResult checkLimits(const RunSpec& spec, const HostFacts& host)
{
    const int64_t need = 64 + 16 * spec.world;
    if (host.openFiles > 0 && host.openFiles < need)
        return verdict("C8", "refuse", fmt::format("open files limit is {}", host.openFiles), fmt::format("at least {}", need), "ulimit -n 4096");
    return passed("C8");
}

int64_t numberAfter(const std::string& text, const char* key)
{
    const size_t at = text.find(key);
    return at == std::string::npos ? 0 : std::strtoll(text.c_str() + at + std::strlen(key), nullptr, 10);
}

/// Free bytes below the limit of this process's cgroup (v2); -1 without a limit.
int64_t cgroupFree()
{
    const auto line = readSmallFile("/proc/self/cgroup", 64 * 1024);
    if (!line.ok() || line->rfind("0::", 0) != 0)
        return -1;
    const std::string folder = "/sys/fs/cgroup" + line->substr(3, line->find('\n') - 3);
    const auto most = readSmallFile(folder + "/memory.max", 64), now = readSmallFile(folder + "/memory.current", 64);
    if (!most.ok() || !now.ok() || most->rfind("max", 0) == 0)
        return -1;
    return std::max<int64_t>(0, std::strtoll(most->c_str(), nullptr, 10) - std::strtoll(now->c_str(), nullptr, 10));
}

} // namespace

std::string CheckResult::sentence() const
{
    return fmt::format("{}: {}, expected {}; {}", check, got, expected, hint);
}

HostFacts readHostFacts()
{
    HostFacts facts;
    if (const auto meminfo = readSmallFile("/proc/meminfo", 64 * 1024); meminfo.ok())
        facts.availableBytes = numberAfter(*meminfo, "MemAvailable:") * 1024;
    if (const int64_t limit = cgroupFree(); limit >= 0)
        facts.availableBytes = std::min(facts.availableBytes, limit);
    cpu_set_t set;
    facts.cores = ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : ::sysconf(_SC_NPROCESSORS_ONLN);
    rlimit files{};
    if (::getrlimit(RLIMIT_NOFILE, &files) == 0)
        facts.openFiles = files.rlim_cur == RLIM_INFINITY ? 0 : int64_t(files.rlim_cur);
    return facts;
}

std::vector<CheckResult> preflight(const RunSpec& spec, const Plan& plan, const DatasetSpec& dataset, const std::string& home,
                                   const std::string& runFolder, const HostFacts& host)
{
    std::vector<CheckResult> results{checkLegality(plan, dataset), checkData(plan, dataset, home), checkDevices(plan)};
    results.push_back(checkDeviceMemory(spec, plan));
    results.push_back(checkHostMemory(spec, plan, host));
    results.push_back(checkCores(spec, host));
    results.push_back(checkDisk(spec, plan, dataset, runFolder));
    results.push_back(checkLimits(spec, host));
    return results;
}

} // namespace megagraph::launch
