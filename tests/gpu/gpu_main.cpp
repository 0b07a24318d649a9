// SPDX-License-Identifier: Apache-2.0
// megagraph-gpu-test: the checks of a GPU machine that need neither compiler nor network (packaging/gpu_check.sh runs them).
// Every subcommand prints JSON lines. Exit codes: 0 passed, 1 a check failed, 2 wrong use, 3 no usable GPU.
#include "core/file.h"
#include "tests/gpu/check_kernels.h"
#include "tests/gpu/cuda_memory.h"
#include "tests/gpu/export_case.h"
#include "tests/gpu/gpu_bench.h"
#include "tests/gpu/layout.h"
#include "tests/gpu/module.h"
#include "tests/gpu/primitives.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <thread>

namespace megagraph::kernels::goldens {
namespace {

constexpr int kPassed = 0, kFailed = 1, kUsage = 2, kNoGpu = 3;
constexpr const char* kUsageText =
    "usage: megagraph-gpu-test COMMAND [--data DIR] [--module FILE] ...\n"
    "  version                       program, module and the table between them; needs no GPU\n"
    "  goldens --data DIR            stored results: whole and fitting their hashes; needs no GPU\n"
    "  layout                        sizes and offsets of the module's structs; needs no GPU\n"
    "  export --out FILE [--tokens N] [--heads H] [--dim D] [--hops K] [--degree G]    one case for other programs; needs no GPU\n"
    "  environment [--copy-bytes B]  GPU, driver, clocks, memory, copy bandwidth\n"
    "  primitives --data DIR         hardware operations against the emulation's results\n"
    "  kernels --data DIR [--most-tokens N]    all paths against stored results and the CPU kernels\n"
    "  sanitize                      one forward and one backward at 257 tokens, for compute-sanitizer\n"
    "  bench [--seconds S]           times of our kernels\n";

using Options = std::map<std::string, std::string>;

void print(const Json& json)
{
    std::printf("%s\n", json.dump().c_str());
    std::fflush(stdout);
}

int fail(const Error& error, int code = kFailed)
{
    print({{"status", "failed"}, {"reason", error.message}});
    std::fprintf(stderr, "megagraph-gpu-test: %s\n", error.message.c_str());
    return code;
}

int64_t number(const Options& options, const char* name, int64_t otherwise)
{
    const auto found = options.find(name);
    return found == options.end() ? otherwise : std::atoll(found->second.c_str());
}

ForkJoinFor allCores()
{
    return ForkJoinFor(int32_t(std::max(1u, std::thread::hardware_concurrency())));
}

int version(const MegagraphCudaTable& table, const std::string& module)
{
    print({{"program", "megagraph-gpu-test"},
           {"version", MEGAGRAPH_VERSION},
           {"module", module},
           {"table_version", table.version},
           {"edge_attention", table.edgeAttentionForward != nullptr},
           {"dense_paths", table.forceDensePath != nullptr}});
    return kPassed;
}

Result<std::vector<StoredWords>> storedPrimitives(const std::string& folder)
{
    MEGAGRAPH_TRY(const std::string bytes, readSmallFile(folder + "/primitives.words", 1 << 20));
    return decodeWords("primitives.words", bytes);
}

int goldenFiles(const std::string& folder)
{
    const auto manifest = checkedManifest(folder);
    if (!manifest)
        return fail(manifest.error());
    const auto words = storedPrimitives(folder);
    if (!words)
        return fail(words.error());
    if (words.value().size() != allPrimitives().size())
        return fail({ErrorCode::Corrupt, "primitives: got " + std::to_string(words.value().size()) + " entries, expected " +
                                             std::to_string(allPrimitives().size())});
    int64_t bytes = 0;
    for (const ManifestEntry& e : manifest.value())
        bytes += e.bytes;
    print({{"check", "goldens"}, {"status", "passed"}, {"cases", manifest.value().size()}, {"bytes", bytes},
           {"primitives", words.value().size()}});
    return kPassed;
}

int exported(const Options& options)
{
    BigCase c;
    c.tokens = number(options, "tokens", 16384);
    c.heads = int32_t(number(options, "heads", 8));
    c.dim = int32_t(number(options, "dim", 64));
    c.hops = int32_t(number(options, "hops", 2));
    c.degree = number(options, "degree", 14);
    if (!options.contains("out") || c.tokens < 64 || c.tokens > (1 << 20) || c.heads < 1 || c.dim < 1 || c.hops > 15) {
        std::fputs(kUsageText, stderr);
        return kUsage;
    }
    const auto done = exportCase(c, options.at("out"), allCores());
    if (!done)
        return fail(done.error());
    print({{"export", options.at("out")}, {"tokens", c.tokens}, {"hops", c.hops}});
    return kPassed;
}

int environment(const Options& options)
{
    Json json{{"check", "environment"}, {"status", "passed"}, {"gpu", describeGpu()}};
    const int64_t bytes = number(options, "copy-bytes", int64_t(8) << 30);
    const auto copy = copyBandwidth(std::min(bytes, freeMemory() / 3));
    if (copy)
        json["ceilings"] = {{"copy_bytes_per_s", copy.value()}, {"copy_bytes", std::min(bytes, freeMemory() / 3)}};
    else
        json["ceilings"] = {{"copy", "not run: " + copy.error().message}};
    print(json);
    return kPassed;
}

int primitives(const std::string& folder)
{
    const auto stored = storedPrimitives(folder);
    if (!stored)
        return fail(stored.error());
    CudaMemory memory;
    int failed = 0;
    for (const Primitive& p : allPrimitives()) {
        if (p.capability > computeCapability()) {
            print({{"check", "primitives"}, {"case", p.name}, {"status", "skipped"},
                   {"reason", "needs compute capability " + std::to_string(p.capability / 10) + ".0"}});
            continue;
        }
        const auto entry = std::find_if(stored.value().begin(), stored.value().end(),
                                        [&](const StoredWords& e) { return e.name == p.name; });
        const auto got = runPrimitive(p, memory);
        std::string reason = entry == stored.value().end() ? "no stored result" : got ? "" : got.error().message;
        if (reason.empty())
            reason = differsFrom(p, entry->words, got.value());
        failed += reason.empty() ? 0 : 1;
        Json json{{"check", "primitives"}, {"case", p.name}, {"status", reason.empty() ? "passed" : "failed"}};
        if (!reason.empty())
            json["reason"] = reason;
        print(json);
    }
    return failed == 0 ? kPassed : kFailed;
}

int kernels(const MegagraphCudaTable& table, const std::string& folder, int64_t mostTokens)
{
    const auto manifest = checkedManifest(folder);
    if (!manifest)
        return fail(manifest.error());
    CudaMemory memory;
    KernelCheck checks(table, memory, print);
    for (const int32_t path : {80, 90}) {
        if (!checks.choosePath(path))
            continue;
        for (const ManifestEntry& e : manifest.value()) {
            const auto golden = readGolden(folder, e);
            if (!golden)
                return fail(golden.error());
            checks.golden(*findCase(e.id), golden.value());
        }
        for (const BigCase& c : {BigCase{1000, 14, 2, 64, 2, 0.1}, BigCase{4096, 14, 2, 128, 2}, BigCase{16384, 14, 2, 64, 2},
                                 BigCase{16384, 14, 2, 128, -1}})
            if (c.tokens <= mostTokens)
                checks.big(c, allCores());
    }
    const Tally& t = checks.tally();
    print({{"check", "kernels"}, {"passed", t.passed}, {"failed", t.failed}, {"skipped", t.skipped}});
    return t.failed == 0 && t.passed > 0 ? kPassed : kFailed;
}

/// Small: compute-sanitizer slows kernels by a factor of hundreds.
int sanitize(const MegagraphCudaTable& table)
{
    CudaMemory memory;
    int failed = 0;
    for (const char* id : {"base_257", "dropout_257", "edges_rings"}) {
        const Case& c = *findCase(id);
        const auto got = runOnDevice(table, memory, c, makeInputs(c), {Form::Lists, false});
        const bool skipped = !got && got.error().code == ErrorCode::Unsupported;
        failed += got || skipped ? 0 : 1;
        Json json{{"check", "sanitize"}, {"case", id}, {"status", got ? "passed" : skipped ? "skipped" : "failed"}};
        if (!got)
            json["reason"] = got.error().message;
        print(json);
    }
    return failed == 0 ? kPassed : kFailed;
}

int onGpu(const std::string& command, const Options& options, const MegagraphCudaTable& table, const std::string& folder)
{
    if (const auto usable = usableGpu(); !usable)
        return fail(usable.error(), kNoGpu);
    if (command == "environment")
        return environment(options);
    if (command == "primitives")
        return primitives(folder);
    if (command == "kernels")
        return kernels(table, folder, number(options, "most-tokens", 16384));
    if (command == "sanitize")
        return sanitize(table);
    benchOurs(table, double(number(options, "seconds", 120)), print);
    return kPassed;
}

int run(int argc, char** argv)
{
    const std::string command = argc > 1 ? argv[1] : "";
    Options options;
    for (int i = 2; i < argc; ++i) {
        const std::string name = argv[i];
        if (name.rfind("--", 0) != 0 || i + 1 >= argc) {
            std::fputs(kUsageText, stderr);
            return kUsage;
        }
        options[name.substr(2)] = argv[++i];
    }
    const std::string folder = options.contains("data") ? options["data"] : "tests/data/kernels";
    if (command == "goldens")
        return goldenFiles(folder);
    if (command == "layout") {
        print(apiLayout());
        return kPassed;
    }
    if (command == "export")
        return exported(options);
    const bool gpu = command == "environment" || command == "primitives" || command == "kernels" || command == "sanitize" ||
                     command == "bench";
    if (!gpu && command != "version") {
        std::fputs(kUsageText, stderr);
        return kUsage;
    }
    const std::string module = options.contains("module") ? options["module"] : modulePath();
    const auto table = loadModule(module);
    if (!table)
        return fail(table.error());
    return gpu ? onGpu(command, options, *table.value(), folder) : version(*table.value(), module);
}

} // namespace
} // namespace megagraph::kernels::goldens

int main(int argc, char** argv)
{
    return megagraph::kernels::goldens::run(argc, argv);
}
