// SPDX-License-Identifier: Apache-2.0
// Our attention kernels beside LibTorch's in one process: same tensors, rounds interleaved, medians. Prints a table, or JSON of
// format megagraph.kernel_bench with --json. Ids and bars are those of the models design, section 7; cases that need what this
// machine or build lacks are printed as "not run" with the reason. Usage: attention_bench [--tokens N] [--rounds R]
// [--threads T] [--only ID] [--json]. Timings only: nothing here is a test.
#include "kernels/attention.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/edge_attention.h"
#include "kernels/graph/csr.h"
#include "kernels/graph/tiles.h"
#include "core/random.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/grad_mode.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace {

using namespace megagraph;
using namespace megagraph::kernels;
using nlohmann::json;

struct Options {
    int64_t tokens = 4096;
    int rounds = 7;
    int32_t threads = 2;
    std::string only;
    bool asJson = false;
};

double seconds()
{
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values)
{
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

/// Medians in milliseconds of interleaved rounds, after one warm-up of each.
std::vector<double> compare(int rounds, const std::vector<std::function<void()>>& what)
{
    std::vector<std::vector<double>> times(what.size());
    for (int r = -1; r < rounds; ++r) {
        for (size_t i = 0; i < what.size(); ++i) {
            const double begin = seconds();
            what[i]();
            if (r >= 0)
                times[i].push_back(1e3 * (seconds() - begin));
        }
    }
    std::vector<double> medians;
    for (auto& t : times)
        medians.push_back(median(t));
    return medians;
}

/// One problem with tensors of LibTorch, so that both sides read the same memory. [N, H, d].
struct Problem {
    int64_t tokens;
    int32_t heads, dim, hops = 2;
    at::Tensor q, k, v, dO, o, lse, delta, dq, dk, dv, table, shifted;
    std::vector<int32_t> component;
    TileLists lists;
    at::Tensor classes; // [N, N] uint8
    at::Tensor work;
    std::vector<double> partials;
    AttentionShape shape;

    HeadView<const float> in(const at::Tensor& t) const { return contiguousHeads<const float>(t.data_ptr<float>(), tokens, heads, dim); }
    at::Tensor peer(const at::Tensor& t) const { return t.transpose(0, 1).unsqueeze(0); } // [1, H, N, d]
    Bias bias() const
    {
        Bias b;
        b.hops = hops;
        b.classes = hops + 4;
        b.table = shifted.data_ptr<float>();
        b.queryComponent = b.keyComponent = component;
        b.lists = lists.view();
        return b;
    }
};

Csr communities(int64_t nodes, int degree)
{
    std::vector<std::vector<int32_t>> rows(static_cast<size_t>(nodes));
    for (int64_t i = 0; i < nodes; ++i) {
        for (int e = 0; e < degree / 2; ++e) {
            const uint64_t draw = uint64_t(i * degree + e);
            const int64_t near = (i + int64_t(drawBelow(1, 1, draw, 256)) - 128 + nodes) % nodes;
            const int64_t j = drawUniform(1, 2, draw) < 0.9 ? near : int64_t(drawBelow(1, 3, draw, uint64_t(nodes)));
            if (j == i)
                continue;
            rows[size_t(i)].push_back(int32_t(j));
            rows[size_t(j)].push_back(int32_t(i));
        }
    }
    Csr csr;
    csr.indptr.push_back(0);
    for (auto& row : rows) {
        std::sort(row.begin(), row.end());
        row.erase(std::unique(row.begin(), row.end()), row.end());
        csr.indices.insert(csr.indices.end(), row.begin(), row.end());
        csr.indptr.push_back(int64_t(csr.indices.size()));
    }
    return csr;
}

std::unique_ptr<Problem> makeProblem(int64_t tokens, int32_t heads, int32_t dim, int32_t threads, bool structure)
{
    auto p = std::make_unique<Problem>();
    p->tokens = tokens;
    p->heads = heads;
    p->dim = dim;
    const auto random = [&] { return at::randn({tokens, heads, dim}); };
    p->q = random(), p->k = random(), p->v = random(), p->dO = random();
    p->o = at::empty_like(p->q), p->dq = at::zeros_like(p->q), p->dk = at::zeros_like(p->q), p->dv = at::zeros_like(p->q);
    p->lse = at::empty({heads, tokens}), p->delta = at::empty({heads, tokens});
    p->table = at::randn({heads, p->hops + 4});
    p->shifted = (p->table - p->table.select(1, p->hops + 1).unsqueeze(1)).contiguous();
    p->component.assign(size_t(tokens), 0);
    p->shape.queries = p->shape.keys = tokens;
    p->shape.heads = heads;
    p->shape.dim = dim;
    p->shape.scale = 1.0 / std::sqrt(double(dim));
    p->shape.kvSplits = heads >= 2 * threads ? 1 : std::min(16, (2 * threads + heads - 1) / heads);
    p->partials.assign(size_t(heads) * size_t(p->shape.kvSplits) * size_t(p->hops + 4), 0.0);
    p->work = at::empty({std::max(attentionForwardWorkspace(p->shape, threads), attentionBackwardWorkspace(p->shape, threads)) + 64},
                        at::kByte);
    if (!structure)
        return p;
    const Csr graph = communities(tokens, 14);
    const std::vector<int64_t> cuts{0, tokens};
    auto lists = buildTileLists(graph.view(), p->hops, 0, tokens, cuts, ForkJoinFor(threads), {});
    if (!lists.ok()) {
        std::fprintf(stderr, "%s\n", lists.error().message.c_str());
        std::exit(1);
    }
    p->lists = std::move((*lists)[0]);
    p->classes = at::empty({tokens, tokens}, at::kByte);
    auto* classes = p->classes.data_ptr<uint8_t>();
    for (int64_t i = 0; i < tokens; ++i) {
        const std::vector<uint8_t> row = plainDistances(graph.view(), i, p->hops);
        std::copy(row.begin(), row.end(), classes + i * tokens);
    }
    return p;
}

void* aligned(const at::Tensor& work)
{
    const auto address = reinterpret_cast<uintptr_t>(work.data_ptr<uint8_t>());
    return reinterpret_cast<void*>((address + 63) / 64 * 64);
}

void must(const Result<Ok>& done)
{
    if (!done.ok()) {
        std::fprintf(stderr, "%s\n", done.error().message.c_str());
        std::exit(1);
    }
}

void forward(Problem& p, const Bias& bias, const ParallelFor& parallel)
{
    must(attentionForward(p.shape, p.in(p.q), p.in(p.k), p.in(p.v), bias, {},
                          contiguousHeads(p.o.data_ptr<float>(), p.tokens, p.heads, p.dim), p.lse.data_ptr<float>(), aligned(p.work),
                          parallel));
}

void backward(Problem& p, const Bias& bias, bool learned, const ParallelFor& parallel)
{
    attentionDelta(p.in(p.o), p.in(p.dO), p.delta.data_ptr<float>());
    must(attentionBackward(p.shape, p.in(p.q), p.in(p.k), p.in(p.v), p.in(p.dO), p.lse.data_ptr<float>(), p.delta.data_ptr<float>(), bias,
                           {}, p.dq.data_ptr<float>(), p.dk.data_ptr<float>(), p.dv.data_ptr<float>(),
                           learned ? p.partials.data() : nullptr, aligned(p.work), parallel));
}

/// Register-only multiply-add rate of all threads, GFLOP/s.
double peak(int32_t threads)
{
    double best = 0;
    for (int r = 0; r < 3; ++r) {
        const int64_t turns = 2000000;
        const double begin = seconds();
        ForkJoinFor(threads).run(threads, [&](int64_t, int32_t) {
            if (__builtin_cpu_supports("avx512f")) {
                asm volatile("mov %0, %%rcx\n vpxorq %%zmm0,%%zmm0,%%zmm0\n 1:\n"
                             "vfmadd213ps %%zmm0,%%zmm0,%%zmm1\n vfmadd213ps %%zmm0,%%zmm0,%%zmm2\n vfmadd213ps %%zmm0,%%zmm0,%%zmm3\n"
                             "vfmadd213ps %%zmm0,%%zmm0,%%zmm4\n vfmadd213ps %%zmm0,%%zmm0,%%zmm5\n vfmadd213ps %%zmm0,%%zmm0,%%zmm6\n"
                             "vfmadd213ps %%zmm0,%%zmm0,%%zmm7\n vfmadd213ps %%zmm0,%%zmm0,%%zmm8\n vfmadd213ps %%zmm0,%%zmm0,%%zmm9\n"
                             "vfmadd213ps %%zmm0,%%zmm0,%%zmm10\n dec %%rcx\n jnz 1b\n vzeroupper\n" ::"r"(turns)
                             : "rcx", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10");
            }
        });
        best = std::max(best, double(turns) * 10 * 32 * threads / (seconds() - begin) * 1e-9);
    }
    return __builtin_cpu_supports("avx512f") ? best : 0;
}

class Report {
  public:
    explicit Report(const Options& options) : options_(options)
    {
        root_ = {{"format", "megagraph.kernel_bench"}, {"version", 1}, {"cases", json::array()}};
    }
    bool wants(const std::string& id) const { return options_.only.empty() || options_.only == id; }
    void peaks(double fp32)
    {
        fp32_ = fp32;
        root_["peaks"] = {{"fp32_gflops", fp32}, {"bf16_gflops", nullptr}, {"copy_gb_s", nullptr}};
        root_["machine"] = {{"kernels", cpu::kernels().name}, {"threads", options_.threads}};
        if (!options_.asJson)
            std::printf("kernels %s, %d threads, peak %.0f GFLOP/s\n", cpu::kernels().name, options_.threads, fp32);
    }
    /// bar: smallest ratio peer / ours that is asked for.
    /// Peak is the best of all measurements of the run: other programs on the machine can only lower one.
    void refreshPeak()
    {
        fp32_ = std::max(fp32_, peak(options_.threads));
        root_["peaks"]["fp32_gflops"] = fp32_;
    }
    void add(const std::string& id, const std::string& what, const Problem& p, double flops, double ours, const std::string& peerName,
             double peer, double bar)
    {
        refreshPeak();
        const double gflops = flops / ours * 1e-6, ratio = peer / ours;
        const char* verdict = ratio >= bar ? "met" : "missed";
        root_["cases"].push_back({{"id", id},
                                  {"what", what},
                                  {"n", p.tokens},
                                  {"heads", p.heads},
                                  {"head_size", p.dim},
                                  {"dtype", "fp32"},
                                  {"threads", options_.threads},
                                  {"ours", {{"median_ms", ours}, {"tflops", gflops * 1e-3}, {"share_of_peak", fp32_ > 0 ? gflops / fp32_ : 0}}},
                                  {"peer", {{"name", peerName}, {"median_ms", peer}}},
                                  {"ratio", ratio},
                                  {"bar", bar},
                                  {"verdict", verdict}});
        if (!options_.asJson)
            std::printf("%-3s %-46s ours %8.1f ms (%5.1f GFLOP/s, %4.1f %% of peak)  %s %8.1f ms  ratio %.2f, bar %.2f: %s\n", id.c_str(),
                        what.c_str(), ours, gflops, fp32_ > 0 ? 100 * gflops / fp32_ : 0, peerName.c_str(), peer, ratio, bar, verdict);
        std::fflush(stdout);
    }
    void skip(const std::string& id, const std::string& what, const std::string& why)
    {
        root_["cases"].push_back({{"id", id}, {"what", what}, {"verdict", "not run"}, {"reason", why}});
        if (!options_.asJson)
            std::printf("%-3s %-46s not run: %s\n", id.c_str(), what.c_str(), why.c_str());
    }
    void print() const
    {
        if (options_.asJson)
            std::printf("%s\n", root_.dump(1).c_str());
    }

  private:
    Options options_;
    json root_;
    double fp32_ = 0;
};

std::string choice(const Problem& p, const c10::optional<at::Tensor>& mask)
{
    const int64_t c = at::_fused_sdp_choice(p.peer(p.q), p.peer(p.k), p.peer(p.v), mask);
    return c == 1 ? "SDPA flash" : c == 0 ? "SDPA math" : "SDPA " + std::to_string(c);
}

void denseCases(const Options& o, Report& report)
{
    const ForkJoinFor parallel(o.threads);
    auto p = makeProblem(o.tokens, 8, 64, o.threads, true);
    const double flops = 4.0 * double(o.tokens) * double(o.tokens) * 64 * 8;
    const Bias none, bias = p->bias();
    const at::Tensor index = p->classes.to(at::kInt);
    if (report.wants("C1")) {
        at::NoGradGuard guard;
        const auto t = compare(o.rounds, {[&] { forward(*p, none, parallel); },
                                          [&] { at::scaled_dot_product_attention(p->peer(p->q), p->peer(p->k), p->peer(p->v)); }});
        report.add("C1", "forward without bias", *p, flops, t[0], choice(*p, {}), t[1], 1.0);
    }
    if (report.wants("C2")) {
        at::NoGradGuard guard;
        const at::Tensor mask = p->table.index({at::indexing::Slice(), index}).unsqueeze(0); // [1, H, N, N]
        const auto peer = [&](const at::Tensor& m) {
            return at::scaled_dot_product_attention(p->peer(p->q), p->peer(p->k), p->peer(p->v), m);
        };
        const auto t = compare(o.rounds, {[&] { forward(*p, bias, parallel); }, [&] { peer(mask); }});
        report.add("C2", "forward with table, peer's bias built before", *p, flops, t[0], choice(*p, mask), t[1], 1.2);
        const at::Tensor result = peer(mask).squeeze(0).transpose(0, 1);
        std::fprintf(stderr, "    largest difference to the peer: %.2e\n", (result - p->o).abs().max().item<double>());
    }
    if (report.wants("C3")) {
        const auto leaf = [](const at::Tensor& t) { return t.detach().clone().requires_grad_(true); };
        const at::Tensor q = leaf(p->q), k = leaf(p->k), v = leaf(p->v), table = leaf(p->table);
        std::string name = "SDPA";
        const auto peer = [&] {
            const at::Tensor mask = table.index({at::indexing::Slice(), index}).unsqueeze(0);
            name = choice(*p, mask);
            const at::Tensor out = at::scaled_dot_product_attention(p->peer(q), p->peer(k), p->peer(v), mask);
            out.backward(p->peer(p->dO));
        };
        const auto both = [&] {
            forward(*p, bias, parallel);
            backward(*p, bias, true, parallel);
        };
        const auto t = compare(std::min(o.rounds, 3), {both, peer});
        report.add("C3", "forward + backward, learned table", *p, 3.5 * flops, t[0], name, t[1], 2.0);
        const auto u = compare(o.rounds, {[&] { backward(*p, bias, true, parallel); }, [&] { backward(*p, bias, false, parallel); }});
        report.add("B2", "backward, learned table; beside frozen", *p, 2.5 * flops, u[0], "ours, frozen bias", u[1], 1 / 1.15);
    }
    if (report.wants("B2")) {
        auto one = makeProblem(o.tokens, 1, 64, 2, false);
        const auto t = compare(o.rounds, {[&] { backward(*one, none, false, ForkJoinFor(2)); },
                                          [&] { backward(*one, none, false, SerialFor()); }});
        report.add("B2", "one-head backward, 2 threads; beside 1", *one, 2.5 * flops / 8, t[0], "ours, 1 thread", t[1], 1.8);
        auto small = makeProblem(o.tokens, 8, 8, o.threads, false);
        forward(*small, none, parallel);
        const auto u = compare(o.rounds, {[&] { forward(*small, none, parallel); }, [&] { backward(*small, none, false, parallel); }});
        report.add("d8", "8 heads of 8: forward; beside backward", *small, flops / 8, u[0], "ours, backward", u[1], 0);
    }
    report.skip("C4", "softmax(q k^T s + b[c]) v compiled", "needs python3 with the same torch");
    report.skip("C5", "compiled FlexAttention", "needs python3 with the same torch");
}

void edgeCase(const Options& o, Report& report)
{
    const int64_t n = 32768;
    const int32_t d = 64;
    const Csr csr = communities(n, 14);
    const Transposed t = transposed(csr.view(), n);
    EdgeGraph graph;
    graph.rows = graph.keys = n;
    graph.indptr = csr.indptr, graph.indices = csr.indices;
    graph.transposedIndptr = t.indptr, graph.transposedRows = t.rows, graph.transposedEntries = t.entries;
    auto p = makeProblem(1, 1, d, 1, false);
    p->tokens = n;
    const auto random = [&] { return at::randn({n, 1, d}); };
    p->q = random(), p->k = random(), p->v = random(), p->dO = random(), p->o = random();
    p->dq = random(), p->dk = random(), p->dv = random();
    p->lse = at::empty({1, n}), p->delta = at::empty({1, n});
    const ForkJoinFor parallel(o.threads);
    const auto ours = [&] {
        must(edgeAttentionForward(graph, 0.125, p->in(p->q), p->in(p->k), p->in(p->v), {},
                                  contiguousHeads(p->o.data_ptr<float>(), n, 1, d), p->lse.data_ptr<float>(), parallel));
    };
    const auto both = [&] {
        ours();
        attentionDelta(p->in(p->o), p->in(p->dO), p->delta.data_ptr<float>());
        must(edgeAttentionBackward(graph, 0.125, p->in(p->q), p->in(p->k), p->in(p->v), p->in(p->dO), p->lse.data_ptr<float>(),
                                   p->delta.data_ptr<float>(), {}, p->dq.data_ptr<float>(), p->dk.data_ptr<float>(),
                                   p->dv.data_ptr<float>(), parallel));
    };
    const at::Tensor indptr = at::tensor(at::ArrayRef<int64_t>(csr.indptr), at::kLong);
    const at::Tensor col = at::tensor(at::ArrayRef<int32_t>(csr.indices), at::kInt).to(at::kLong);
    const at::Tensor row = at::repeat_interleave(at::arange(n), indptr.slice(0, 1) - indptr.slice(0, 0, -1));
    const auto leaf = [](const at::Tensor& x) { return x.detach().clone().squeeze(1).requires_grad_(true); };
    const at::Tensor q = leaf(p->q), k = leaf(p->k), v = leaf(p->v);
    const auto peer = [&] { // what PyG's TransformerConv does: gathers, edge softmax, scatter
        const at::Tensor s = (q.index_select(0, row) * k.index_select(0, col)).sum(1) * 0.125;
        const at::Tensor high = at::full({n}, -1e30f).scatter_reduce(0, row, s.detach(), "amax");
        const at::Tensor w = (s - high.index_select(0, row)).exp();
        const at::Tensor l = at::zeros({n}).index_add(0, row, w);
        const at::Tensor a = w / (l.index_select(0, row) + 1e-16);
        const at::Tensor out = at::zeros({n, d}).index_add(0, row, a.unsqueeze(1) * v.index_select(0, col));
        out.backward(p->dO.squeeze(1));
    };
    const auto times = compare(o.rounds, {both, peer, ours});
    const double edges = double(csr.indices.size());
    report.add("C6", "edges forward + backward, H = 1, d = 64", *p, 14.0 * edges * d, times[0], "gather, softmax, scatter", times[1], 3.0);
    std::fprintf(stderr, "    forward: %.1f M edges/s\n", edges / times[2] * 1e-3);
}

} // namespace

int main(int argc, char** argv)
{
    Options o;
    for (int i = 1; i < argc; ++i) {
        const std::string key = argv[i];
        const auto value = [&] { return i + 1 < argc ? std::string(argv[++i]) : std::string("0"); };
        if (key == "--tokens")
            o.tokens = std::max<int64_t>(64, std::atoll(value().c_str()));
        else if (key == "--rounds")
            o.rounds = std::max(1, std::atoi(value().c_str()));
        else if (key == "--threads")
            o.threads = std::max(1, std::atoi(value().c_str()));
        else if (key == "--only")
            o.only = value();
        else if (key == "--json")
            o.asJson = true;
        else {
            std::fprintf(stderr, "usage: attention_bench [--tokens N] [--rounds R] [--threads T] [--only ID] [--json]\n");
            return 2;
        }
    }
    at::set_num_threads(o.threads);
    Report report(o);
    report.peaks(peak(o.threads));
    denseCases(o, report);
    if (report.wants("C6"))
        edgeCase(o, report);
    report.skip("C7", "edges against FusedMM", "not built in");
    report.skip("C8", "distances against Floyd-Warshall and SciPy", "in the graph benchmarks");
    report.skip("C9", "ring over two Gloo processes", "milestone 3");
    report.print();
    return 0;
}
