// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/check_kernels.h"

#include "tests/gpu/run_on_cpu.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <new>
#include <tuple>

namespace megagraph::kernels::goldens {
namespace {

/// "" if all numbers are equal, else the arrays that differ and in how many numbers. fp32 and bf16 are exact in double.
std::string differences(const std::vector<Array>& a, const std::vector<Array>& b)
{
    std::string text;
    for (size_t i = 0; i < a.size(); ++i) {
        int64_t count = 0;
        for (size_t j = 0; j < a[i].values.size(); ++j) {
            const double x = a[i].values[j], y = i < b.size() && j < b[i].values.size() ? b[i].values[j] : 0;
            count += x == y || (std::isnan(x) && std::isnan(y)) ? 0 : 1;
        }
        if (count > 0)
            text += (text.empty() ? "" : ", ") + a[i].name + " in " + std::to_string(count) + " of " + std::to_string(a[i].values.size());
    }
    return text;
}

std::vector<Form> formsOf(const Case& c)
{
    if (c.op == Op::Edges)
        return {{Form::Lists, false}};
    if (c.table == TableKind::NoTable)
        return {{Form::Lists, false}, {Form::Lists, true}};
    return {{Form::Lists, false}, {Form::Planes, false}, {Form::Lists, true}, {Form::Planes, true}};
}

Json worstOf(const std::vector<Comparison>& comparisons)
{
    const auto worst = std::max_element(comparisons.begin(), comparisons.end(), [](const Comparison& a, const Comparison& b) {
        return a.error / a.limit < b.error / b.limit;
    });
    return {{"array", worst->array},
            {"error", std::isfinite(worst->error) ? Json(worst->error) : Json("infinite")},
            {"limit", worst->limit}};
}

struct Release {
    void operator()(unsigned char* p) const { ::operator delete(p, std::align_val_t(64)); }
};
using Workspace = std::unique_ptr<unsigned char, Release>;
Workspace workspace(int64_t bytes)
{
    return Workspace(static_cast<unsigned char*>(::operator new(size_t(std::max<int64_t>(bytes, 64)), std::align_val_t(64))));
}

/// The CPU kernels on blocks of a big case. o, lse and delta of all rows are computed once.
class CpuBlocks {
  public:
    CpuBlocks(const Inputs& in, const ParallelFor& parallel) : in_(in), parallel_(parallel)
    {
        const AttentionShape& s = in.shape;
        o.resize(in.q.size());
        lse.resize(size_t(s.queries * s.heads));
        delta_.resize(lse.size());
    }
    Result<Ok> forward()
    {
        const AttentionShape& s = in_.shape;
        const Workspace space = workspace(attentionForwardWorkspace(s, parallel_.slots()));
        MEGAGRAPH_TRY(std::ignore, attentionForward(s, all(in_.q), all(in_.k), all(in_.v), in_.bias(), in_.dropout,
                                                    contiguousHeads(o.data(), s.queries, s.heads, s.dim), lse.data(), space.get(),
                                                    parallel_));
        attentionDelta(all(o), all(in_.dO), delta_.data());
        return Ok{};
    }
    /// dq of the rows over all keys, or dk and dv of the keys over all rows.
    struct Gradients {
        std::vector<float> dq, dk, dv;
    };
    Result<Gradients> backward(Interval rows, Interval keys) const
    {
        AttentionShape s = in_.shape;
        s.queries = rows.size();
        s.keys = keys.size();
        s.queryOffset = rows.begin;
        s.keyOffset = keys.begin;
        Bias bias = in_.bias();
        bias.queryComponent = bias.queryComponent.subspan(size_t(rows.begin), size_t(rows.size()));
        bias.keyComponent = bias.keyComponent.subspan(size_t(keys.begin), size_t(keys.size()));
        const int64_t cuts[] = {keys.begin, keys.end};
        MEGAGRAPH_TRY(const auto lists, buildTileLists(in_.graph.view(), in_.hops, rows.begin, rows.end, cuts, parallel_, {}));
        if (!in_.table.empty())
            bias.lists = lists.front().view();
        std::vector<float> rowLse, rowDelta;
        for (int32_t h = 0; h < s.heads; ++h) {
            const auto at = std::ptrdiff_t(h * in_.shape.queries + rows.begin);
            rowLse.insert(rowLse.end(), lse.begin() + at, lse.begin() + at + std::ptrdiff_t(rows.size()));
            rowDelta.insert(rowDelta.end(), delta_.begin() + at, delta_.begin() + at + std::ptrdiff_t(rows.size()));
        }
        const size_t width = size_t(s.heads) * size_t(s.dim);
        Gradients g{std::vector<float>(size_t(rows.size()) * width), std::vector<float>(size_t(keys.size()) * width), {}};
        g.dv.resize(g.dk.size());
        const Workspace space = workspace(attentionBackwardWorkspace(s, parallel_.slots()));
        MEGAGRAPH_TRY(std::ignore, attentionBackward(s, part(in_.q, rows), part(in_.k, keys), part(in_.v, keys), part(in_.dO, rows),
                                                     rowLse.data(), rowDelta.data(), bias, in_.dropout, g.dq.data(), g.dk.data(),
                                                     g.dv.data(), nullptr, space.get(), parallel_));
        return g;
    }

    std::vector<float> o, lse;

  private:
    HeadView<const float> part(const std::vector<float>& values, Interval r) const
    {
        return contiguousHeads(values.data() + r.begin * in_.shape.heads * in_.shape.dim, r.size(), in_.shape.heads, in_.shape.dim);
    }
    HeadView<const float> all(const std::vector<float>& values) const { return part(values, {0, in_.shape.queries}); }

    const Inputs& in_;
    const ParallelFor& parallel_;
    std::vector<float> delta_;
};

/// Sums of squares of got - expected and of expected, over several blocks of one array.
struct Difference {
    double difference = 0, norm = 0;
    bool sound = true;

    void add(const Array& got, int64_t firstRow, const std::vector<double>& expected)
    {
        for (size_t i = 0; i < expected.size(); ++i) {
            const double g = got.values[size_t(firstRow * got.width) + i];
            sound = sound && std::isfinite(g);
            difference += (g - expected[i]) * (g - expected[i]);
            norm += expected[i] * expected[i];
        }
    }
    Comparison comparison(const std::string& name, double limit) const
    {
        const double error = sound ? std::sqrt(difference / std::max(norm, 1e-300)) : std::numeric_limits<double>::infinity();
        return {name, error, limit, error <= limit};
    }
};

std::vector<double> widened(const std::vector<float>& values)
{
    return {values.begin(), values.end()};
}

/// Bins of each head against the largest of them.
Comparison tableSums(const Array& table)
{
    double worst = 0, largest = 1e-30;
    for (int64_t h = 0; h < table.rows; ++h) {
        double sum = 0;
        for (int64_t c = 0; c < table.width; ++c) {
            sum += table.values[size_t(h * table.width + c)];
            largest = std::max(largest, std::abs(table.values[size_t(h * table.width + c)]));
        }
        worst = std::isfinite(sum) ? std::max(worst, std::abs(sum)) : std::numeric_limits<double>::infinity();
    }
    return {"table", worst / largest, 1e-5, worst / largest <= 1e-5};
}

Result<std::vector<Comparison>> againstCpu(const Inputs& in, const std::vector<Array>& got, const ParallelFor& parallel)
{
    CpuBlocks cpu(in, parallel);
    MEGAGRAPH_TRY(std::ignore, cpu.forward());
    Difference o, lse, dq, dk, dv;
    o.add(got[0], 0, widened(cpu.o));
    lse.add(got[1], 0, fromHeadRows("lse", in.shape.queries, in.shape.heads, cpu.lse).values);
    const int64_t n = in.shape.queries;
    for (const int64_t begin : {int64_t(0), n / 2, n - std::min<int64_t>(n, 70)}) {
        const Interval block{begin, std::min(n, begin + 70)}, all{0, n};
        MEGAGRAPH_TRY(const auto rows, cpu.backward(block, all));
        MEGAGRAPH_TRY(const auto keys, cpu.backward(all, block));
        dq.add(got[2], begin, widened(rows.dq));
        dk.add(got[3], begin, widened(keys.dk));
        dv.add(got[4], begin, widened(keys.dv));
    }
    std::vector<Comparison> comparisons{o.comparison("o", 1e-2), lse.comparison("lse", 1e-2), dq.comparison("dq", 2e-2),
                                        dk.comparison("dk", 2e-2), dv.comparison("dv", 2e-2)};
    if (got.size() > 5)
        comparisons.push_back(tableSums(got[5]));
    return comparisons;
}

bool allPassed(const std::vector<Comparison>& comparisons)
{
    return !comparisons.empty() && std::all_of(comparisons.begin(), comparisons.end(), [](const Comparison& c) { return c.passed; });
}

} // namespace

void KernelCheck::line(const std::string& what, const std::string& form, bool passed, Json rest)
{
    Json json{{"check", "kernels"}, {"case", what}, {"path", path_}, {"form", form}, {"status", passed ? "passed" : "failed"}};
    json.update(rest);
    ++(passed ? tally_.passed : tally_.failed);
    report_(json);
}

void KernelCheck::skip(const std::string& what, const std::string& form, const std::string& reason)
{
    ++tally_.skipped;
    report_({{"check", "kernels"}, {"case", what}, {"path", path_}, {"form", form}, {"status", "skipped"}, {"reason", reason}});
}

void KernelCheck::refusal(const std::string& what, const std::string& form, const Error& error)
{
    if (error.code == ErrorCode::Unsupported || error.code == ErrorCode::OutOfMemory)
        skip(what, form, error.message);
    else
        line(what, form, false, {{"reason", error.message}});
}

bool KernelCheck::choosePath(int32_t path)
{
    path_ = path;
    MegagraphCudaError error{};
    if (table_.forceDensePath == nullptr || table_.forceDensePath(path, &error) != MegagraphCudaOk) {
        skip("path " + std::to_string(path), "all", table_.forceDensePath == nullptr ? "no such entry in this build" : error.text);
        return false;
    }
    return true;
}

void KernelCheck::golden(const Case& c, const Golden& golden)
{
    const Inputs inputs = makeInputs(c);
    std::vector<std::vector<Array>> plain; // of the forms in one pass
    bool first = true;
    for (const Form form : formsOf(c)) {
        auto got = runOnDevice(table_, memory_, c, inputs, form);
        if (!got) {
            refusal(c.id, form.name(), got.error());
            continue;
        }
        const std::vector<Comparison> comparisons = compare(c, golden, got.value(), Precision::Bf16);
        line(c.id, form.name(), allPassed(comparisons), {{"worst", worstOf(comparisons)}});
        for (int repeat = 0; first && repeat < 2; ++repeat) {
            const auto again = runOnDevice(table_, memory_, c, inputs, form);
            const std::string other = again ? differences(got.value(), again.value()) : again.error().message;
            if (!other.empty())
                line(c.id, form.name(), false, {{"reason", "a repeated run gave other bits: " + other}});
        }
        first = false;
        if (!form.ring)
            plain.push_back(std::move(got).value());
    }
    if (plain.size() == 2) {
        const std::string other = differences(plain[0], plain[1]);
        line(c.id, "lists = planes", other.empty(), other.empty() ? Json::object() : Json{{"reason", "other bits: " + other}});
    }
}

void KernelCheck::big(const BigCase& c, const ParallelFor& parallel)
{
    const std::string what = "communities N=" + std::to_string(c.tokens) + " d_h=" + std::to_string(c.dim);
    const auto inputs = makeBig(c, parallel);
    if (!inputs) {
        line(what, "lists", false, {{"reason", inputs.error().message}});
        return;
    }
    const Case call{}; // dense; everything that a run reads is in the inputs
    const auto got = runOnDevice(table_, memory_, call, inputs.value(), {Form::Lists, false});
    if (!got) {
        refusal(what, "lists", got.error());
        return;
    }
    const auto comparisons = againstCpu(inputs.value(), got.value(), parallel);
    if (!comparisons)
        line(what, "lists", false, {{"reason", comparisons.error().message}});
    else
        line(what, "lists", allPassed(comparisons.value()), {{"worst", worstOf(comparisons.value())}});
}

} // namespace megagraph::kernels::goldens
