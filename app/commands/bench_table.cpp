// SPDX-License-Identifier: Apache-2.0
#include "app/commands/bench_table.h"

#include "core/units.h"

#include <fmt/format.h>

namespace megagraph::app {
namespace {

std::string text(const Json& object, const char* key, const std::string& otherwise = "-")
{
    const auto found = object.find(key);
    if (found == object.end() || found->is_null())
        return otherwise;
    return found->is_string() ? found->get<std::string>() : found->dump();
}

/// `format` of a number, or "-".
std::string number(const Json& object, const char* key, const char* format, double factor = 1)
{
    const auto found = object.find(key);
    return found == object.end() || !found->is_number() ? "-" : fmt::format(fmt::runtime(format), found->get<double>() * factor);
}

std::string bytes(const Json& object, const char* key)
{
    const auto found = object.find(key);
    return found == object.end() || !found->is_number() ? "-" : bytesText(found->get<int64_t>());
}

std::string milliseconds(const Json& side)
{
    const auto found = side.find("median_ms");
    if (found == side.end() || !found->is_number())
        return "-";
    return fmt::format("{:.4g} ms [{} .. {}]", found->get<double>(), number(side, "min_ms", "{:.4g}"), number(side, "max_ms", "{:.4g}"));
}

} // namespace

std::string machineText(const Json& machine)
{
    std::string out = fmt::format("{}, {} cores, {} threads, kernels {} (processor {}), {} memory\n", text(machine, "cpu"), text(machine, "cores"),
                                  text(machine, "threads"), text(machine, "instruction_set"), text(machine, "processor_level"), bytes(machine, "memory_bytes"));
    out += fmt::format("GPU {}, driver {}, compiler {}\n", text(machine, "gpu", "none"), text(machine, "driver", "none"), text(machine, "compiler"));
    out += fmt::format("LibTorch {} ({}), megagraph {}, commit {}\n", text(machine, "libtorch"), text(machine, "libtorch_cpu_capability"),
                       text(machine, "product_version"), text(machine, "commit", "unknown"));
    out += fmt::format("LibTorch build: {}\n", text(machine, "libtorch_build").substr(0, 400));
    const Json environment = machine.value("environment", Json::object());
    for (const auto& [name, value] : environment.items())
        out += fmt::format("environment: {}={}\n", name, value.get<std::string>());
    return out + "\n";
}

std::string peaksText(const Json& peaks)
{
    const Json one = peaks.value("one_thread", Json::object());
    const auto both = [&](const char* key) { return number(peaks, key, "{:.0f}") + " / " + number(one, key, "{:.0f}"); };
    return fmt::format("Peaks, {} threads / one: fp32 {} GFLOP/s, bf16 dot {} GFLOP/s, AMX {} GFLOP/s, copy {} GB/s\n\n", text(peaks, "threads"),
                       both("fp32_gflops"), both("bf16_dot_gflops"), both("amx_bf16_gflops"), both("copy_gb_s"));
}

std::string caseText(const Json& row)
{
    const Json ours = row.value("ours", Json::object()), peer = row.value("peer", Json::object());
    const std::string verdict = text(row, "verdict");
    const std::string size = row.value("n", 0) > 0 ? fmt::format("N {} H {} d {} {} T {}", text(row, "n"), text(row, "heads"), text(row, "head_size"),
                                                                  text(row, "dtype"), text(row, "threads"))
                                                   : std::string();
    std::string out = fmt::format("{:<3} {:<8} {}  {}\n", text(row, "id"), verdict, text(row, "what"), size);
    if (verdict == "not run") {
        const std::string name = text(peer, "name", "");
        return out + fmt::format("             {}{}{}\n", name, name.empty() ? "" : ": ", text(row, "reason"));
    }
    out += fmt::format("             ours {}, {} TFLOP/s, {} of peak, extra {}, error {}\n", milliseconds(ours), number(ours, "tflops", "{:.3f}"),
                       number(ours, "share_of_peak", "{:.1f} %", 100), bytes(ours, "extra_bytes"), number(ours, "error", "{:.1e}"));
    if (!text(peer, "name", "").empty())
        out += fmt::format("             {} ({}) {}, extra {}\n", text(peer, "name"), text(peer, "backend"), milliseconds(peer), bytes(peer, "extra_bytes"));
    out += fmt::format("             {}: {}, bar {} {}{}\n", text(row, "measure"), number(row, "ratio", "{:.4g}"), text(row, "bar_is"),
                       number(row, "bar", "{:.4g}"), row.value("judged", true) ? "" : " (for comparison: the bar is for other sizes)");
    if (row.contains("note"))
        out += fmt::format("             {}\n", text(row, "note"));
    return out;
}

std::string summaryText(const Json& cases)
{
    int met = 0, missed = 0, judgedMissed = 0, notRun = 0;
    for (const Json& row : cases) {
        const std::string verdict = text(row, "verdict");
        met += verdict == "met";
        missed += verdict == "missed";
        judgedMissed += verdict == "missed" && row.value("judged", true);
        notRun += verdict == "not run";
    }
    return fmt::format("\n{} rows: {} met, {} missed ({} of them at the sizes that bars are for), {} not run\n", cases.size(), met, missed, judgedMissed, notRun);
}

} // namespace megagraph::app
