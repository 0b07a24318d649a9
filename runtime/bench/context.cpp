// SPDX-License-Identifier: Apache-2.0
#include "runtime/bench/context.h"

#include "core/machine.h"
#include "runtime/allocator.h"

#include <algorithm>
#include <c10/util/Exception.h>
#include <cmath>
#include <exception>
#include <fmt/format.h>

namespace megagraph::runtime::bench {
namespace {

/// Four significant digits: more is noise, and makes documents long.
Json number(double value)
{
    if (!std::isfinite(value))
        return nullptr;
    return std::strtod(fmt::format("{:.4g}", value).c_str(), nullptr);
}

template <class T> Json orNull(const std::optional<T>& value)
{
    if (!value)
        return nullptr;
    if constexpr (std::is_same_v<T, double>)
        return number(*value);
    else
        return *value;
}

void putTimes(Json& side, const Times& times)
{
    const bool none = times.empty();
    side["median_ms"] = none ? Json(nullptr) : number(times.median());
    side["min_ms"] = none ? Json(nullptr) : number(times.least());
    side["max_ms"] = none ? Json(nullptr) : number(times.most());
    side["rounds"] = times.ms.size();
}

Json oursOf(const Row& row)
{
    Json ours;
    putTimes(ours, row.ours);
    const double median = row.ours.median();
    const bool known = row.flops && median > 0;
    const double gflops = known ? *row.flops * 1e-6 / median : 0;
    ours["tflops"] = known ? number(gflops * 1e-3) : Json(nullptr);
    ours["share_of_peak"] = known && row.peak && *row.peak > 0 ? number(gflops / *row.peak) : Json(nullptr);
    ours["extra_bytes"] = orNull(row.extraBytes);
    ours["error"] = orNull(row.error);
    for (const auto& [key, value] : row.more.items())
        ours[key] = value.is_number_float() ? number(value.get<double>()) : value;
    return ours;
}

Json peerOf(const Row& row)
{
    Json peer{{"name", row.peerName}, {"backend", row.peerBackend}};
    putTimes(peer, row.peer);
    peer["extra_bytes"] = orNull(row.peerExtraBytes);
    return peer;
}

Json document(const Row& row, int32_t threads)
{
    return {{"kind", "case"},
            {"id", row.id},
            {"what", row.what},
            {"n", row.n},
            {"heads", row.heads},
            {"head_size", row.headSize},
            {"dtype", row.dtype},
            {"threads", row.threads > 0 ? row.threads : threads},
            {"ours", oursOf(row)},
            {"peer", peerOf(row)},
            {"measure", row.measure},
            {"ratio", orNull(row.ratio)},
            {"bar", orNull(row.bar)},
            {"bar_is", row.atMost ? "at most" : "at least"},
            {"judged", row.judged}};
}

} // namespace

Context::Context(const Options& options, const Sink& sink) : options_(options), sink_(sink)
{
    peaks_.threads = options.threads;
}

bool Context::wants(const std::string& id) const
{
    return options_.only.empty() || std::find(options_.only.begin(), options_.only.end(), id) != options_.only.end();
}

RoundLimits Context::limits() const
{
    if (options_.quick)
        return {1, 3, 0, std::min(5.0, options_.mostSeconds), 0.002};
    RoundLimits limits;
    limits.mostSeconds = options_.mostSeconds;
    return limits;
}

void Context::add(const Row& row)
{
    Row whole = row;
    if (!whole.ratio && !whole.ours.empty() && !whole.peer.empty())
        whole.ratio = whole.peer.median() / whole.ours.median();
    Json line = document(whole, threads());
    const bool known = whole.ratio && whole.bar && std::isfinite(*whole.ratio);
    const bool met = known && (whole.atMost ? *whole.ratio <= *whole.bar : *whole.ratio >= *whole.bar);
    line["verdict"] = !known ? "not run" : met ? "met" : "missed";
    if (!known)
        line["reason"] = whole.note.empty() ? "there is no number to hold against the bar" : whole.note;
    else if (!whole.note.empty())
        line["note"] = whole.note;
    send(line);
}

void Context::notRun(Row row, const std::string& reason)
{
    row.ratio.reset();
    Json line = document(row, threads());
    line["verdict"] = "not run";
    line["reason"] = reason;
    send(line);
}

void Context::progress(const std::string& what) { send({{"kind", "progress"}, {"what", what}}); }

void Context::guard(const std::string& id, const std::string& what, const std::function<void()>& body)
{
    if (!wants(id))
        return;
    progress(id + " " + what);
    Row row;
    row.id = id;
    row.what = what;
    try {
        body();
    } catch (const c10::Error& error) {
        notRun(row, error.what_without_backtrace());
    } catch (const std::exception& error) {
        notRun(row, error.what());
    }
}

bool Context::fits(double bytes) const { return bytes < 0.8 * double(availableMemoryBytes()); }

int64_t countedPeak(const std::function<void()>& body)
{
    const int64_t before = memoryState().current;
    resetMemoryPeak();
    body();
    return std::max<int64_t>(0, memoryState().peak - before);
}

} // namespace megagraph::runtime::bench
