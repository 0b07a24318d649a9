// SPDX-License-Identifier: Apache-2.0
#include "runtime/profiler_measure.h"

#include "core/clock.h"
#include "runtime/allocator.h"

#include <ATen/ATen.h>
#include <algorithm>
#include <c10/util/Exception.h>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <string>

namespace megagraph::runtime {
namespace {

constexpr double kSteady = 0.01;      // 1.4826 MAD / sqrt(n) of the median
constexpr double kUnstable = 0.10;    // spread that marks a point
constexpr double kClockChange = 0.05; // between start and end of a point
constexpr double kMostSeconds = 10;   // per point
constexpr int64_t kNumbers = 5;       // per phase in the exchange between ranks

// The slowest and largest rank of each phase, so that all ranks decide alike.
std::vector<PhaseSample> worst(std::vector<PhaseSample> own, Communicator& group)
{
    if (group.size() == 1)
        return own;
    at::Tensor local = at::empty({1, int64_t(own.size()) * kNumbers}, at::kDouble);
    double* out = local.mutable_data_ptr<double>();
    for (const PhaseSample& p : own)
        for (const double v : {p.seconds, double(p.savedBytes), double(p.peakBytes), p.attentionSeconds, p.exchangeSeconds})
            *out++ = v;
    const at::Tensor all = group.allGatherRows(local, std::vector<int64_t>(size_t(group.size()), 1));
    const double* const numbers = all.const_data_ptr<double>();
    const int64_t width = int64_t(own.size()) * kNumbers;
    for (size_t p = 0; p < own.size(); ++p) {
        int64_t slowest = 0;
        const auto value = [&](int64_t rank, int64_t field) { return numbers[rank * width + int64_t(p) * kNumbers + field]; };
        for (int64_t rank = 0; rank < group.size(); ++rank) {
            slowest = value(rank, 0) > value(slowest, 0) ? rank : slowest;
            own[p].savedBytes = std::max(own[p].savedBytes, int64_t(value(rank, 1)));
            own[p].peakBytes = std::max(own[p].peakBytes, int64_t(value(rank, 2)));
        }
        own[p].seconds = value(slowest, 0);
        own[p].attentionSeconds = value(slowest, 3);
        own[p].exchangeSeconds = value(slowest, 4);
    }
    return own;
}

// One run on all ranks; empty when it did not fit on one of them.
std::vector<PhaseSample> runTogether(const JobRun& run, Communicator& group)
{
    if (run.exchanges)
        return worst(run.once(), group);
    std::vector<PhaseSample> own;
    try {
        own = run.once();
    } catch (const c10::OutOfMemoryError&) {
        own.clear();
    }
    return allAgree(!own.empty(), group) ? worst(std::move(own), group) : std::vector<PhaseSample>{};
}

double sumSeconds(const std::vector<PhaseSample>& phases)
{
    double sum = 0;
    for (const PhaseSample& phase : phases)
        sum += phase.seconds;
    return sum;
}

bool steady(const std::vector<std::vector<int64_t>>& repeats)
{
    for (const std::vector<int64_t>& values : repeats) {
        const Spread spread = spreadOf(values);
        if (1.4826 * double(spread.mad) / std::sqrt(double(values.size())) > kSteady * double(spread.median))
            return false;
    }
    return true;
}

// Successive runs until two differ by less than 5 %, at least one, within half of the job's seconds.
std::vector<PhaseSample> warmUp(const ProfileJob& job, const JobRun& run, Communicator& group)
{
    std::vector<PhaseSample> last = runTogether(run, group);
    double spent = sumSeconds(last);
    for (int i = 0; i < 9 && !last.empty() && spent < job.seconds / 2; ++i) {
        const std::vector<PhaseSample> next = runTogether(run, group);
        spent += sumSeconds(next);
        const bool close = std::abs(sumSeconds(next) - sumSeconds(last)) < 0.05 * sumSeconds(last);
        last = next;
        if (close && i > 0)
            break;
    }
    return last;
}

double median(std::vector<double> values)
{
    std::nth_element(values.begin(), values.begin() + std::ptrdiff_t(values.size() / 2), values.end());
    return values[values.size() / 2];
}

} // namespace

Spread spreadOf(std::vector<int64_t> values)
{
    if (values.empty())
        return {};
    const auto middle = [](std::vector<int64_t>& v) {
        const auto at = v.begin() + std::ptrdiff_t(v.size() / 2);
        std::nth_element(v.begin(), at, v.end());
        if (v.size() % 2 == 1)
            return *at;
        const int64_t below = *std::max_element(v.begin(), at);
        return below + (*at - below) / 2;
    };
    Spread spread;
    spread.median = middle(values);
    for (int64_t& value : values)
        value = std::abs(value - spread.median);
    spread.mad = middle(values);
    return spread;
}

int64_t clockMhz()
{
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);)
        if (line.rfind("cpu MHz", 0) == 0)
            return int64_t(std::strtod(line.c_str() + line.find(':') + 1, nullptr));
    return 0;
}

BytesWatch::BytesWatch() : before_(memoryState().current) { resetMemoryPeak(); }

int64_t BytesWatch::saved() const { return memoryState().current - before_; }

int64_t BytesWatch::transient(int64_t saved) const
{
    return std::max<int64_t>(0, memoryState().peak - before_ - std::max<int64_t>(0, saved));
}

ProfilePoint outOfMemoryPoint(const ProfileJob& job)
{
    ProfilePoint point;
    point.kind = job.kind;
    point.key = job.key;
    point.x = job.x;
    point.status = "oom";
    return point;
}

bool allAgree(bool own, Communicator& group)
{
    if (group.size() == 1)
        return own;
    at::Tensor yes = at::full({1}, int64_t(own ? 1 : 0), at::kLong);
    group.allReduce(yes);
    return yes.item<int64_t>() == group.size();
}

std::vector<ProfilePoint> measure(const ProfileJob& job, const JobRun& run, Communicator& group)
{
    const int64_t clockBefore = clockMhz();
    std::vector<PhaseSample> sample = warmUp(job, run, group);
    if (sample.empty())
        return {outOfMemoryPoint(job)};
    std::vector<std::vector<int64_t>> repeats(sample.size());
    std::vector<std::vector<double>> attention(sample.size()), exchange(sample.size());
    for (double spent = 0; spent < kMostSeconds;) {
        group.barrier();
        sample = runTogether(run, group);
        if (sample.empty())
            return {outOfMemoryPoint(job)};
        spent += sumSeconds(sample);
        for (size_t p = 0; p < sample.size(); ++p) {
            repeats[p].push_back(std::max<int64_t>(1, int64_t(sample[p].seconds * 1e9)));
            attention[p].push_back(sample[p].attentionSeconds);
            exchange[p].push_back(sample[p].exchangeSeconds);
        }
        const auto n = int64_t(repeats.front().size());
        const bool enough = n >= job.repeats || (n >= 3 && spent >= 3 * job.seconds) || spent >= 10 * job.seconds;
        if (enough && (spent >= job.seconds || steady(repeats)))
            break;
    }
    const int64_t clock = clockMhz();
    std::vector<ProfilePoint> points;
    for (size_t p = 0; p < sample.size(); ++p) {
        ProfilePoint point;
        point.kind = job.kind;
        point.key = job.key;
        point.x = job.x;
        if (!sample[p].phase.empty())
            point.key["phase"] = sample[p].phase;
        const Spread spread = spreadOf(repeats[p]);
        point.medianNs = spread.median;
        point.madNs = spread.mad;
        point.repeats = repeats[p];
        point.savedBytes = sample[p].savedBytes;
        point.peakBytes = sample[p].peakBytes;
        point.clockMhz = clock;
        if (median(attention[p]) > 0)
            point.x["attention_ns"] = std::round(median(attention[p]) * 1e9);
        if (median(exchange[p]) > 0)
            point.x["exchange_ns"] = std::round(median(exchange[p]) * 1e9);
        const bool clockMoved = clockBefore > 0 && std::abs(double(clock - clockBefore)) > kClockChange * double(clockBefore);
        if (clockMoved || 1.4826 * double(spread.mad) > kUnstable * double(spread.median))
            point.status = "unstable";
        points.push_back(std::move(point));
    }
    return points;
}

} // namespace megagraph::runtime
