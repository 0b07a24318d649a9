// SPDX-License-Identifier: Apache-2.0
#include "runtime/bench/machine.h"

#include "core/file.h"
#include "core/machine.h"
#include "core/places.h"
#include "kernels/cpu/dispatch.h"

#include <ATen/Version.h>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <sstream>
#include <string_view>
#include <torch/version.h>
#include <unistd.h>

extern char** environ;

namespace megagraph::runtime::bench {
namespace {

#if defined(__clang__)
constexpr const char* kCompiler = "Clang " __clang_version__;
#else
constexpr const char* kCompiler = "GCC " __VERSION__;
#endif

std::string lineAfter(const std::string& path, std::string_view start)
{
    const auto text = readSmallFile(path, 1 << 16);
    if (!text.ok())
        return "";
    std::istringstream lines(*text);
    for (std::string line; std::getline(lines, line);)
        if (line.rfind(start, 0) == 0) {
            const size_t value = line.find_first_not_of(" \t:", start.size());
            return value == std::string::npos ? "" : line.substr(value);
        }
    return "";
}

bool steers(std::string_view name)
{
    for (const std::string_view prefix : {"OPENBLAS_", "MKL_", "OMP_", "GOMP_", "KMP_", "ONEDNN_", "DNNL_", "ATEN_CPU_CAPABILITY",
                                          "BLIS_", "GOTO_", "MEGAGRAPH_CPU_KERNELS"})
        if (name.rfind(prefix, 0) == 0)
            return true;
    return false;
}

std::string torchBuild()
{
    std::string text = at::show_config(), line;
    for (char& c : text)
        c = c == '\n' ? ' ' : c;
    for (const char c : text) // runs of spaces
        if (c != ' ' || line.empty() || line.back() != ' ')
            line += c;
    return line;
}

} // namespace

std::string gpuName()
{
    std::error_code none;
    for (std::filesystem::directory_iterator it("/proc/driver/nvidia/gpus", none), end; !none && it != end; it.increment(none))
        if (const std::string model = lineAfter(it->path().string() + "/information", "Model:"); !model.empty())
            return model;
    return "";
}

std::vector<std::pair<std::string, std::string>> steeringVariables()
{
    std::vector<std::pair<std::string, std::string>> found;
    for (char** entry = environ; *entry != nullptr; ++entry) {
        const std::string_view text = *entry;
        const size_t equals = text.find('=');
        if (equals != std::string_view::npos && steers(text.substr(0, equals)))
            found.emplace_back(text.substr(0, equals), text.substr(equals + 1));
    }
    return found;
}

std::vector<std::string> steeringWarnings()
{
    std::vector<std::string> warnings;
    for (const auto& [name, value] : steeringVariables())
        warnings.push_back(fmt::format("{}={} is set and steers the speed of BLAS, OpenMP or our kernels; unset it for a fair comparison", name, value));
    return warnings;
}

Json machineFacts(int32_t threads, const std::string& commit)
{
    Json environment = Json::object();
    for (const auto& [name, value] : steeringVariables())
        environment[name] = value;
    const int64_t memory = int64_t(::sysconf(_SC_PHYS_PAGES)) * int64_t(::sysconf(_SC_PAGESIZE));
    const std::string gpu = gpuName(), driver = lineAfter("/proc/driver/nvidia/version", "NVRM version:");
    const auto known = [](const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); };
    return {{"cpu", cpuModelName()},
            {"cores", usableCores().size()},
            {"threads", threads},
            {"instruction_set", kernels::cpu::kernels().name},
            {"processor_level", instructionLevel()},
            {"memory_bytes", memory},
            {"gpu", known(gpu)},
            {"driver", known(driver)},
            {"governor", known(cpuGovernor())},
            {"clock_mhz", cpuClockMhz()},
            {"compiler", kCompiler},
            {"libtorch", TORCH_VERSION},
            {"libtorch_cpu_capability", at::get_cpu_capability()},
            {"libtorch_build", torchBuild()},
            {"product_version", productVersion()},
            {"commit", known(commit)},
            {"environment", environment}};
}

} // namespace megagraph::runtime::bench
