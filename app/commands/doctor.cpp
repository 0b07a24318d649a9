// SPDX-License-Identifier: Apache-2.0
// `doctor`: what this machine has and lacks, what still works without it, and the command that mends it.
#include "app/commands/command.h"
#include "core/json.h"
#include "core/places.h"
#include "core/profile.h"
#include "core/units.h"

#include <dlfcn.h>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <sys/statvfs.h>
#include <thread>
#include <unistd.h>

namespace megagraph::app {
namespace {

struct Row {
    std::string id, label, state, value, note; // state: ok | warn | missing
};

int64_t memoryBytes(const std::string& key)
{
    std::ifstream in("/proc/meminfo");
    std::string name, unit;
    for (int64_t kib = 0; in >> name >> kib; std::getline(in, unit)) {
        if (name == key + ":")
            return kib * 1024;
    }
    return 0;
}

Row processorRow()
{
    const Fingerprint machine = localFingerprint(1, 1, false);
    return {"cpu", "CPU", "ok",
            fmt::format("{}, {} cores, kernels {}", machine.cpuModel, std::thread::hardware_concurrency(), machine.instructionLevel),
            ""};
}

Row memoryRow()
{
    const int64_t total = memoryBytes("MemTotal"), available = memoryBytes("MemAvailable");
    Row row{"memory", "Memory", "ok", fmt::format("{} available of {}", bytesText(available), bytesText(total)), ""};
    if (available < (int64_t(2) << 30)) {
        row.state = "warn";
        row.note = "under 2 GiB: close other programs or plan with --budget";
    }
    return row;
}

/// NVML is loaded at run time only, so a machine without a driver needs nothing.
Row gpuRow()
{
    void* nvml = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (nvml == nullptr)
        return {"gpu", "GPU", "missing", "no GPU found", "planning, CPU training and proofs work; GPU profiling does not"};
    using Init = int (*)();
    using Count = int (*)(unsigned*);
    const auto init = reinterpret_cast<Init>(dlsym(nvml, "nvmlInit_v2"));
    const auto count = reinterpret_cast<Count>(dlsym(nvml, "nvmlDeviceGetCount_v2"));
    unsigned devices = 0;
    const bool alive = init != nullptr && count != nullptr && init() == 0 && count(&devices) == 0 && devices > 0;
    if (!alive)
        return {"gpu", "GPU", "missing", "driver library present, no usable GPU", "CPU training works"};
    return {"gpu", "GPU", "warn", fmt::format("{} found", devices), "this version trains on CPU slots; a GPU back end follows"};
}

Row programRow(const std::string& id, const std::string& label, const std::string& program, const std::string& without)
{
    const std::string path = programPath(program);
    if (path.empty())
        return {id, label, "missing", program + " not found", without};
    return {id, label, "ok", path, ""};
}

Row diskRow(const std::string& home)
{
    struct statvfs volume {};
    std::filesystem::path place = home;
    while (!place.empty() && !std::filesystem::exists(place) && place.has_parent_path() && place != place.parent_path())
        place = place.parent_path();
    if (statvfs(place.c_str(), &volume) != 0)
        return {"disk", "Disk", "warn", home, "free space could not be read"};
    const int64_t available = int64_t(volume.f_bavail) * int64_t(volume.f_frsize);
    Row row{"disk", "Disk", "ok", fmt::format("{} free at {}", bytesText(available), home), ""};
    if (available < (int64_t(1) << 30)) {
        row.state = "warn";
        row.note = "under 1 GiB: checkpoints may not fit; set MEGAGRAPH_HOME to another volume";
    }
    if (access(place.c_str(), W_OK) != 0) {
        row.state = "missing";
        row.note = "not writable: set MEGAGRAPH_HOME to a folder of your own";
    }
    return row;
}

Row resourcesRow()
{
    const std::string folder = resourcesFolder();
    if (std::filesystem::is_directory(folder + "/models"))
        return {"resources", "Presets", "ok", folder, ""};
    return {"resources", "Presets", "missing", folder, "model presets not found: set MEGAGRAPH_RESOURCES"};
}

int doctor(const Invocation& invocation)
{
    const std::string home = homeFolder();
    const std::vector<Row> rows{
        processorRow(),
        memoryRow(),
        gpuRow(),
        programRow("worker", "Worker", "megagraph-worker", "exploring works; running needs it: build with -DMEGAGRAPH_WORKER=ON"),
        programRow("studio", "Studio", "megagraph-studio", "the command line works; the window needs it: build with -DMEGAGRAPH_STUDIO=ON"),
        {"collectives", "Collectives", "ok", "Gloo on the loopback interface", ""},
        resourcesRow(),
        diskRow(home),
    };
    if (invocation.json) {
        Json out{{"format", "megagraph.doctor"}, {"version", 1}, {"product_version", productVersion()}, {"rows", Json::array()}};
        for (const Row& row : rows)
            out["rows"].push_back({{"id", row.id}, {"label", row.label}, {"state", row.state}, {"value", row.value}, {"note", row.note}});
        fmt::print("{}\n", out.dump(2));
        return 0;
    }
    fmt::print("megagraph {}\n", productVersion());
    for (const Row& row : rows) {
        fmt::print("  {:<12} {:<8} {}\n", row.label, row.state, row.value);
        if (!row.note.empty())
            fmt::print("  {:<12} {:<8} {}\n", "", "", row.note);
    }
    return 0;
}

} // namespace

Verb addDoctor(CLI::App& root, Invocation& invocation)
{
    CLI::App* app = root.add_subcommand("doctor", "What this machine has and lacks");
    app->add_flag("--json", invocation.json, "Print one JSON document");
    app->footer("Example: megagraph doctor");
    return {app, [&invocation] { return doctor(invocation); }};
}

} // namespace megagraph::app
