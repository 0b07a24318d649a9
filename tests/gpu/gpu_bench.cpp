// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/gpu_bench.h"

#include "tests/gpu/big_case.h"
#include "tests/gpu/cuda_memory.h"
#include "tests/gpu/run_on_device.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>
#include <tuple>

namespace megagraph::kernels::goldens {
namespace {

constexpr int64_t kLargest = 1 << 20;

Result<Ok> said(int32_t code, const MegagraphCudaError& error)
{
    if (code != MegagraphCudaOk)
        return moduleError(error);
    return Ok{};
}

/// One set of tensors and its calls; values are random where given, else zeros (the largest case: time does not depend on them).
struct Dense {
    const MegagraphCudaTable& table;
    CudaMemory memory;
    MegagraphCudaShape shape;
    MegagraphCudaDropout dropout{};
    MegagraphCudaBias bias{};
    DeviceArray<Bfloat16> q, k, v, dO, o;
    DeviceArray<float> lse, delta, dq, dk, dv;
    DeviceArray<double> partials;
    DeviceArray<unsigned char> workspace;
    MegagraphCudaError error{};

    Dense(const MegagraphCudaTable& t, const Inputs& in) : table(t), shape(shapeOf(in.shape))
    {
        const int64_t n = shape.queries, count = n * shape.heads * shape.dim;
        const auto fill = [&](DeviceArray<Bfloat16>& a, const std::vector<float>& values) {
            a = values.empty() ? DeviceArray<Bfloat16>(memory, count) : DeviceArray<Bfloat16>(memory, toBf16(values));
            if (values.empty())
                a.clear();
        };
        fill(q, in.q);
        fill(k, in.k);
        fill(v, in.v);
        fill(dO, in.dO);
        o = DeviceArray<Bfloat16>(memory, count);
        lse = DeviceArray<float>(memory, n * shape.heads);
        delta = DeviceArray<float>(memory, n * shape.heads);
        dq = DeviceArray<float>(memory, count);
        dk = DeviceArray<float>(memory, count);
        dv = DeviceArray<float>(memory, count);
        partials = DeviceArray<double>(memory, int64_t(shape.heads) * in.classCount);
        workspace = DeviceArray<unsigned char>(memory, std::max(table.attentionForwardWorkspace(&shape),
                                                                table.attentionBackwardWorkspace(&shape, in.classCount)));
        bias.hops = in.hops;
        bias.classes = in.classCount;
    }
    bool ok() const
    {
        return q.ok() && k.ok() && v.ok() && dO.ok() && o.ok() && lse.ok() && delta.ok() && dq.ok() && dk.ok() && dv.ok() &&
               partials.ok() && workspace.ok();
    }
    MegagraphCudaView view(const DeviceArray<Bfloat16>& a) const
    {
        return viewOf(a.data(), shape.queries, shape.heads, shape.dim, MegagraphCudaBf16);
    }
    Result<Ok> forward()
    {
        const MegagraphCudaView a = view(q), b = view(k), c = view(v), d = view(o);
        return said(table.attentionForward(&shape, &a, &b, &c, &bias, &dropout, &d, lse.data(), workspace.data(), workspace.size(),
                                           nullptr, &error), error);
    }
    Result<Ok> prepareBackward()
    {
        const MegagraphCudaView a = view(o), b = view(dO);
        return said(table.attentionDelta(&a, &b, delta.data(), nullptr, &error), error);
    }
    /// Sums grow from round to round, which changes no time.
    Result<Ok> backward(bool learned)
    {
        const MegagraphCudaView a = view(q), b = view(k), c = view(v), d = view(dO);
        return said(table.attentionBackward(&shape, &a, &b, &c, &d, lse.data(), delta.data(), &bias, &dropout, dq.data(), dk.data(),
                                            dv.data(), learned ? partials.data() : nullptr, workspace.data(), workspace.size(),
                                            nullptr, &error), error);
    }
};

class Bench {
  public:
    Bench(const MegagraphCudaTable& table, double seconds, const BenchLine& line)
        : table_(table), line_(line), end_(std::chrono::steady_clock::now() + std::chrono::milliseconds(int64_t(seconds * 1e3)))
    {
    }
    double left() const { return std::chrono::duration<double>(end_ - std::chrono::steady_clock::now()).count(); }

    void notRun(Json json, const std::string& reason)
    {
        json["status"] = "not run";
        json["reason"] = reason;
        line_(json);
    }
    /// work: flops (dense) or edge-heads (edges) of one call.
    void time(Json json, double flops, int rounds, const std::function<Result<Ok>()>& work)
    {
        const auto times = timeOnGpu(work, rounds > 1 ? 2 : 0, rounds);
        if (!times) {
            notRun(json, times.error().message);
            return;
        }
        std::vector<double> ms = times.value();
        std::sort(ms.begin(), ms.end());
        json["status"] = "ok";
        json["median_ms"] = ms[ms.size() / 2];
        json["min_ms"] = ms.front();
        json["max_ms"] = ms.back();
        json["rounds"] = rounds;
        json["tflops"] = flops / ms[ms.size() / 2] * 1e-9;
        line_(json);
    }
    void dense(int64_t tokens, int32_t dim);
    void largest();
    void edges(int64_t tokens);

  private:
    void denseTimes(Dense& d, const Json& json, int rounds, bool withTable);

    const MegagraphCudaTable& table_;
    const BenchLine& line_;
    std::chrono::steady_clock::time_point end_;
};

void Bench::denseTimes(Dense& d, const Json& json, int rounds, bool withTable)
{
    const double pairs = double(d.shape.queries) * double(d.shape.keys) * d.shape.dim * d.shape.heads;
    const auto named = [&](const char* what) {
        Json copy = json;
        copy["what"] = what;
        return copy;
    };
    time(named(withTable ? "forward, table" : "forward, no bias"), 4 * pairs, rounds, [&] { return d.forward(); });
    if (const auto ready = d.prepareBackward(); !ready) {
        notRun(named("backward"), ready.error().message);
        return;
    }
    time(named(withTable ? "backward, frozen table" : "backward, no bias"), 10 * pairs, rounds, [&] { return d.backward(false); });
    if (withTable)
        time(named("backward, learned table"), 10 * pairs, rounds, [&] { return d.backward(true); });
}

void Bench::dense(int64_t tokens, int32_t dim)
{
    const Json json{{"bench", "ours"}, {"op", "dense"}, {"n", tokens}, {"heads", 8}, {"head_size", dim}, {"dtype", "bf16"}};
    if (left() < 12) {
        notRun(json, "time of the step is used up");
        return;
    }
    const auto in = makeBig({tokens, 14, 8, dim, 2, 0, true}, ForkJoinFor(int32_t(std::max(1u, std::thread::hardware_concurrency()))));
    if (!in) {
        notRun(json, in.error().message);
        return;
    }
    Dense d(table_, in.value());
    const DeviceBias bias(d.memory, in.value(), Form::Lists, 0, tokens);
    if (!d.ok()) {
        notRun(json, "the device has no room");
        return;
    }
    const int rounds = tokens >= 65536 ? 3 : 10;
    denseTimes(d, json, rounds, false);
    d.bias = bias.view();
    denseTimes(d, json, rounds, true);
}

/// One layer of d = 512 at about a million tokens, forward and backward: fits where an N x N map never would. The bias is a learned
/// table over planes without near pairs.
void Bench::largest()
{
    Json json{{"bench", "ours"}, {"op", "largest"}, {"n", kLargest}, {"heads", 8}, {"head_size", 64}, {"dtype", "bf16"}};
    if (left() < 70) {
        notRun(json, "time of the step is used up, expected 70 s");
        return;
    }
    Inputs in;
    in.shape.queries = in.shape.keys = kLargest;
    in.shape.heads = 8;
    in.shape.dim = 64;
    in.shape.scale = 0.125;
    in.hops = 2;
    in.classCount = 6;
    const int64_t before = freeMemory();
    Dense d(table_, in);
    const DeviceArray<float> entries(d.memory, std::vector<float>(48, 0.0f));
    const DeviceArray<int64_t> first(d.memory, std::vector<int64_t>(size_t(kLargest / kTile), 0));
    const DeviceArray<int32_t> ranges(d.memory, std::vector<int32_t>(size_t(kLargest / kTile), 0));
    const DeviceArray<uint64_t> words(d.memory, std::vector<uint64_t>(256, 0));
    if (!d.ok() || !entries.ok() || !first.ok() || !ranges.ok() || !words.ok()) {
        notRun(json, "the device has no room");
        return;
    }
    json["memory_bytes"] = before - freeMemory();
    d.bias.table = entries.data();
    d.bias.policy = MegagraphCudaPlanes;
    d.bias.planes = {words.data(), nullptr, first.data(), ranges.data(), ranges.data(), kLargest / kTile, 0, 2, 0};
    denseTimes(d, json, 1, true);
}

void Bench::edges(int64_t tokens)
{
    Json json{{"bench", "ours"}, {"op", "edges"}, {"n", tokens}, {"heads", 8}, {"head_size", 64}, {"dtype", "bf16"}};
    if (table_.edgeAttentionForward == nullptr || left() < 25) {
        notRun(json, table_.edgeAttentionForward == nullptr ? "no such entry in this build" : "time of the step is used up");
        return;
    }
    BigCase c{tokens, 14, 8, 64, -1, 0, true};
    const auto in = makeBig(c, ForkJoinFor(int32_t(std::max(1u, std::thread::hardware_concurrency()))));
    if (!in) {
        notRun(json, in.error().message);
        return;
    }
    const Inputs& i = in.value();
    Dense d(table_, i);
    const DeviceArray<int64_t> indptr(d.memory, i.graph.indptr), backPtr(d.memory, i.transposed.indptr),
        backEntries(d.memory, i.transposed.entries);
    const DeviceArray<int32_t> indices(d.memory, i.graph.indices), backRows(d.memory, i.transposed.rows);
    MegagraphCudaEdgeGraph g{};
    g.rows = g.keys = tokens;
    g.selfClass = -1;
    g.entries = int64_t(i.graph.indices.size());
    g.indptr = indptr.data();
    g.indices = indices.data();
    g.transposedIndptr = backPtr.data();
    g.transposedRows = backRows.data();
    g.transposedEntries = backEntries.data();
    const DeviceArray<unsigned char> space(d.memory, std::max(table_.edgeAttentionForwardWorkspace(&g, 8, 64),
                                                              table_.edgeAttentionBackwardWorkspace(&g, 8, 64)));
    if (!d.ok() || !indptr.ok() || !backPtr.ok() || !backEntries.ok() || !indices.ok() || !backRows.ok() || !space.ok()) {
        notRun(json, "the device has no room");
        return;
    }
    json["edges"] = g.entries;
    const MegagraphCudaView q = d.view(d.q), k = d.view(d.k), v = d.view(d.v), o = d.view(d.o), dO = d.view(d.dO);
    const double work = double(g.entries) * 8 * 64;
    json["what"] = "forward";
    time(json, 4 * work, 10, [&] {
        return said(table_.edgeAttentionForward(&g, 0.125, &q, &k, &v, &d.dropout, &o, d.lse.data(), nullptr, space.data(), space.size(), nullptr,
                                                &d.error), d.error);
    });
    json["what"] = "backward";
    const MegagraphCudaEdgeBiasGradient none{};
    if (d.prepareBackward().ok())
        time(json, 10 * work, 10, [&] {
            return said(table_.edgeAttentionBackward(&g, 0.125, &q, &k, &v, &dO, d.lse.data(), d.delta.data(), &d.dropout, d.dq.data(),
                                                     d.dk.data(), d.dv.data(), &none, space.data(), space.size(), nullptr, &d.error),
                        d.error);
        });
}

} // namespace

void benchOurs(const MegagraphCudaTable& table, double seconds, const BenchLine& line)
{
    Bench bench(table, seconds, line);
    MegagraphCudaError error{};
    if (table.forceDensePath != nullptr)
        std::ignore = table.forceDensePath(0, &error);
    bench.dense(16384, 64);
    bench.dense(16384, 128);
    bench.edges(262144);
    bench.dense(4096, 64);
    bench.dense(32768, 64);
    bench.dense(65536, 64);
    bench.largest();
}

} // namespace megagraph::kernels::goldens
