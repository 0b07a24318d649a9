// SPDX-License-Identifier: Apache-2.0
#include "core/machine.h"

#include <algorithm>
#include <cmath>
#include <cpuid.h>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <map>
#include <sched.h>
#include <sstream>
#include <tuple>

namespace megagraph {

namespace {

std::string textOf(const std::string& path)
{
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

std::string firstLine(const std::string& path)
{
    const std::string text = textOf(path);
    return text.substr(0, text.find('\n'));
}

/// The number after `key` in "key   123 kB" or "key 123" lines; -1 when there is none.
int64_t numberAfter(const std::string& text, const std::string& key)
{
    for (size_t at = text.find(key); at != std::string::npos; at = text.find(key, at + 1)) {
        if (at != 0 && text[at - 1] != '\n')
            continue;
        std::istringstream rest(text.substr(at + key.size(), 64));
        int64_t value = -1;
        return rest >> value ? value : -1;
    }
    return -1;
}

int64_t wholeNumber(const std::string& path)
{
    const std::string line = firstLine(path);
    if (line.empty() || line.find_first_not_of("0123456789") != std::string::npos || line.size() > 18)
        return -1; // "max" and absent files mean no limit
    return std::stoll(line);
}

/// Path of this process in the cgroup hierarchy of `controller` ("" = version 2); "" when there is none.
std::string cgroupPath(const std::string& controller)
{
    std::istringstream lines(textOf("/proc/self/cgroup"));
    for (std::string line; std::getline(lines, line);) {
        const size_t first = line.find(':'), second = line.find(':', first + 1);
        if (first == std::string::npos || second == std::string::npos)
            continue;
        const std::string names = "," + line.substr(first + 1, second - first - 1) + ",";
        const bool mine = controller.empty() ? names == ",," : names.find("," + controller + ",") != std::string::npos;
        if (mine)
            return line.substr(second + 1);
    }
    return "";
}

/// Smallest (limit - use without page cache) from the process's own group up to the root; -1 = no limit.
int64_t cgroupMemoryLeft(const std::string& mount, std::string path, const char* limitFile, const char* useFile,
                         const char* cacheKey)
{
    int64_t least = -1;
    while (true) {
        const std::string folder = mount + (path == "/" ? "" : path) + "/";
        const int64_t limit = wholeNumber(folder + limitFile);
        const int64_t use = wholeNumber(folder + useFile);
        constexpr int64_t kUnlimited = int64_t(1) << 60; // version 1 writes a huge number for "no limit"
        if (limit > 0 && limit < kUnlimited && use >= 0) {
            const int64_t cache = std::max<int64_t>(0, numberAfter(textOf(folder + "memory.stat"), cacheKey));
            const int64_t left = std::max<int64_t>(0, limit - std::max<int64_t>(0, use - cache));
            least = least < 0 ? left : std::min(least, left);
        }
        if (path.empty() || path == "/")
            return least;
        path = path.substr(0, path.rfind('/'));
    }
}

/// CPUs that the cgroup's quota allows; 0 = no quota.
int64_t cgroupCpuQuota()
{
    const std::string line = firstLine("/sys/fs/cgroup" + cgroupPath("") + "/cpu.max"); // "max 100000" or "200000 100000"
    std::istringstream words(line);
    double quota = 0, period = 0;
    if (words >> quota >> period && quota > 0 && period > 0)
        return static_cast<int64_t>(std::ceil(quota / period));
    const int64_t oldQuota = wholeNumber("/sys/fs/cgroup/cpu" + cgroupPath("cpu") + "/cpu.cfs_quota_us");
    const int64_t oldPeriod = wholeNumber("/sys/fs/cgroup/cpu" + cgroupPath("cpu") + "/cpu.cfs_period_us");
    return oldQuota > 0 && oldPeriod > 0 ? (oldQuota + oldPeriod - 1) / oldPeriod : 0;
}

int64_t numaNodeOf(int64_t cpu)
{
    std::error_code fault;
    const std::string folder = fmt::format("/sys/devices/system/cpu/cpu{}", cpu);
    for (auto it = std::filesystem::directory_iterator(folder, fault); !fault && it != std::filesystem::directory_iterator();
         it.increment(fault)) {
        const std::string name = it->path().filename().string();
        if (name.starts_with("node") && name.size() > 4 && name.find_first_not_of("0123456789", 4) == std::string::npos)
            return std::stoll(name.substr(4));
    }
    return 0;
}

std::string cpuinfoValue(const std::string& key)
{
    std::istringstream lines(textOf("/proc/cpuinfo"));
    for (std::string line; std::getline(lines, line);) {
        const size_t colon = line.find(':');
        if (line.starts_with(key) && colon != std::string::npos && colon + 2 <= line.size())
            return line.substr(colon + 2);
    }
    return "";
}

/// The compiler's own check does not know this feature by name everywhere: leaf 7, sub-leaf 1, EAX bit 5.
bool hasAvx512Bf16()
{
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & (1u << 5)) != 0;
}

} // namespace

std::vector<CoreFact> usableCores()
{
    cpu_set_t mask;
    CPU_ZERO(&mask);
    std::vector<std::tuple<int64_t, int64_t, int64_t, int64_t>> sorted; // node, package, core, cpu
    if (::sched_getaffinity(0, sizeof mask, &mask) == 0)
        for (int64_t cpu = 0; cpu < CPU_SETSIZE; ++cpu)
            if (CPU_ISSET(static_cast<size_t>(cpu), &mask)) {
                const std::string topology = fmt::format("/sys/devices/system/cpu/cpu{}/topology/", cpu);
                sorted.emplace_back(numaNodeOf(cpu), wholeNumber(topology + "physical_package_id"),
                                    wholeNumber(topology + "core_id"), cpu);
            }
    std::sort(sorted.begin(), sorted.end());
    std::vector<CoreFact> cores;
    for (const auto& [node, package, core, cpu] : sorted)
        cores.push_back({cpu, node});
    if (cores.empty())
        cores.push_back({});
    if (const int64_t quota = cgroupCpuQuota(); quota > 0 && quota < static_cast<int64_t>(cores.size()))
        cores.resize(static_cast<size_t>(quota));
    return cores;
}

int64_t availableMemoryBytes()
{
    const int64_t kib = numberAfter(textOf("/proc/meminfo"), "MemAvailable:");
    int64_t bytes = kib < 0 ? 0 : kib * 1024;
    const int64_t limits[] = {
        cgroupMemoryLeft("/sys/fs/cgroup", cgroupPath(""), "memory.max", "memory.current", "inactive_file"),
        cgroupMemoryLeft("/sys/fs/cgroup/memory", cgroupPath("memory"), "memory.limit_in_bytes", "memory.usage_in_bytes",
                         "total_inactive_file")};
    for (const int64_t left : limits)
        if (left >= 0)
            bytes = bytes == 0 ? left : std::min(bytes, left);
    return bytes;
}

int64_t numaNodeCount()
{
    std::error_code fault;
    int64_t count = 0;
    for (auto it = std::filesystem::directory_iterator("/sys/devices/system/node", fault);
         !fault && it != std::filesystem::directory_iterator(); it.increment(fault)) {
        const std::string name = it->path().filename().string();
        count += name.starts_with("node") && name.size() > 4 && name.find_first_not_of("0123456789", 4) == std::string::npos;
    }
    return std::max<int64_t>(1, count);
}

const char* instructionLevel()
{
    __builtin_cpu_init();
    const bool v4 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                    __builtin_cpu_supports("avx512dq");
    if (v4)
        return hasAvx512Bf16() ? "avx512bf16" : "avx512";
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? "avx2" : "portable";
}

std::string cpuModelName()
{
    return cpuinfoValue("model name");
}

std::string cpuGovernor()
{
    return firstLine("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
}

int64_t cpuClockMhz()
{
    std::istringstream text(cpuinfoValue("cpu MHz"));
    double mhz = 0;
    return text >> mhz && mhz > 0 && mhz < 1e6 ? std::llround(mhz) : 0;
}

} // namespace megagraph
