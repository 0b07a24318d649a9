// SPDX-License-Identifier: Apache-2.0
#include "runtime/bench/bench.h"

#include "runtime/bench/cases.h"
#include "runtime/bench/machine.h"

#include <ATen/Parallel.h>
#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace megagraph::runtime::bench {
namespace {

Json numberOrNull(double value) { return value > 0 ? Json(std::round(value * 10) / 10) : Json(nullptr); }

Json peaksLine(const Peaks& peaks)
{
    Json one{{"fp32_gflops", numberOrNull(peaks.fp32.one)},
             {"bf16_gflops", numberOrNull(bf16Ceiling(peaks).one)},
             {"bf16_dot_gflops", numberOrNull(peaks.bf16.one)},
             {"avx2_gflops", numberOrNull(peaks.avx2.one)},
             {"amx_bf16_gflops", numberOrNull(peaks.amx.one)},
             {"copy_gb_s", numberOrNull(peaks.copy.one)}};
    return {{"kind", "peaks"},
            {"fp32_gflops", numberOrNull(peaks.fp32.all)},
            {"bf16_gflops", numberOrNull(bf16Ceiling(peaks).all)},
            {"bf16_dot_gflops", numberOrNull(peaks.bf16.all)},
            {"copy_gb_s", numberOrNull(peaks.copy.all)},
            {"avx2_gflops", numberOrNull(peaks.avx2.all)},
            {"amx_bf16_gflops", numberOrNull(peaks.amx.all)},
            {"threads", peaks.threads},
            {"one_thread", one}};
}

void runCases(Context& context, PythonPeer& python)
{
    DenseGraphs graphs;
    if (context.wants("C1"))
        plainCases(context);
    if (context.wants("C2"))
        frozenBiasCases(context, graphs);
    if (context.wants("C3"))
        learnedBiasCases(context, graphs);
    formulaCases(context, graphs, python);
    edgeCases(context, python);
    distanceCases(context, python);
    ceilingCases(context, graphs);
    memoryCases(context, graphs);
    searchCases(context);
    laplacianCases(context);
    absentCases(context);
}

} // namespace

const std::vector<std::string>& caseIds()
{
    static const std::vector<std::string> ids{"C1", "C2", "C3", "C4", "C5", "C6", "C7", "C8", "C9", "B2", "B3",
                                              "B4", "B5", "B6", "G1", "G2", "G3", "G4", "G5", "G6", "G7", "G8"};
    return ids;
}

Result<Ok> run(const Options& options, const Sink& sink)
{
    const auto& ids = caseIds();
    for (const std::string& id : options.only)
        if (std::find(ids.begin(), ids.end(), id) == ids.end())
            return Error{ErrorCode::Usage, fmt::format("bench kernels: --only {}: there is no such case, expected one of C1 to C9, B2 to B6, G1 to G8", id)};
    at::set_num_threads(options.threads);
    Context context(options, sink);
    Json machine = machineFacts(options.threads, options.commit);
    machine["kind"] = "machine";
    context.send(machine);
    for (const std::string& warning : steeringWarnings())
        context.send({{"kind", "warning"}, {"text", warning}});
    context.progress("peaks of this machine");
    for (int i = 0; i < (options.quick ? 1 : 3); ++i)
        context.peaks().refine(i == 0, options.quick ? 0.005 : 0.1);
    context.send(peaksLine(context.peaks()));
    PythonPeer python(context.options());
    runCases(context, python);
    if (!python.found().is_null())
        context.send({{"kind", "python"}, {"found", python.found()}});
    context.peaks().refine(!options.quick, 0.01);
    context.send(peaksLine(context.peaks())); // the best of the whole run
    context.send({{"kind", "done"}});
    return Ok{};
}

} // namespace megagraph::runtime::bench
