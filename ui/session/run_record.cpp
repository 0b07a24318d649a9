// SPDX-License-Identifier: Apache-2.0
#include "ui/session/run_record.h"

#include "core/event.h"
#include "core/units.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace megagraph::ui {
namespace {

constexpr size_t kEventsKept = 2000;
constexpr size_t kLogKept = 256 * 1024;

double real(const Json& line, const char* key, double fallback = 0)
{
    const auto it = line.find(key);
    if (it == line.end() || !(it->is_number() || it->is_string()))
        return fallback;
    return megagraph::numberOf(*it);
}

int64_t whole(const Json& line, const char* key, int64_t fallback = 0)
{
    const auto it = line.find(key);
    return it != line.end() && it->is_number() ? it->get<int64_t>() : fallback;
}

std::string text(const Json& line, const char* key)
{
    const auto it = line.find(key);
    if (it == line.end() || it->is_null())
        return {};
    return it->is_string() ? it->get<std::string>() : it->dump();
}

bool setIfPresent(const Json& line, const std::string& key, int64_t& out)
{
    const auto it = line.find(key);
    if (it == line.end() || !it->is_number())
        return false;
    out = it->get<int64_t>();
    return true;
}

} // namespace

void Series::add(double s, double v)
{
    if (!std::isfinite(v))
        v = std::numeric_limits<double>::quiet_NaN(); // a gap in the curve
    step.push_back(s);
    value.push_back(v);
}

void Series::dropFrom(double s)
{
    while (!step.empty() && step.back() >= s) {
        step.pop_back();
        value.pop_back();
    }
}

RankState& RunRecord::rankState(int64_t rank)
{
    for (RankState& state : ranks)
        if (state.rank == rank)
            return state;
    ranks.push_back({});
    ranks.back().rank = rank;
    std::sort(ranks.begin(), ranks.end(), [](const RankState& a, const RankState& b) { return a.rank < b.rank; });
    return rankState(rank);
}

void RunRecord::note(const Json& event, const std::string& words, bool bad)
{
    if (events.size() >= kEventsKept)
        events.erase(events.begin(), events.begin() + kEventsKept / 4);
    events.push_back({text(event, "utc"), text(event, "kind"), words, bad});
}

void RunRecord::apply(const RunDelta& delta)
{
    if (delta.spec)
        spec = delta.spec;
    if (delta.plan) {
        plan = delta.plan;
        metric = metricName(plan->model.metric);
    }
    for (const Json& event : delta.events)
        applyEvent(event);
    for (const Json& sample : delta.samples)
        applySample(sample);
    if (delta.status)
        status = *delta.status;
    if (delta.result)
        result = delta.result;
    if (delta.certificate)
        certificate = delta.certificate;
    if (delta.failure) {
        const Json& card = *delta.failure;
        FailureCard f;
        f.cause = text(card, "cause");
        f.certainty = text(card, "certainty");
        f.sentence = text(card, "sentence");
        f.rank = whole(card, "rank", -1);
        f.step = whole(card, "step", -1);
        f.lastCommit = whole(card, "last_committed_step", -1);
        if (card.contains("action") && card["action"].is_object()) {
            f.actionText = text(card["action"], "text");
            f.actionCommand = text(card["action"], "command");
        }
        failure = f;
    }
    problem = delta.problem;
    log += delta.log;
    if (log.size() > kLogKept) {
        const size_t cut = log.size() - kLogKept / 2;
        droppedLogBytes += int64_t(cut);
        log.erase(0, cut);
    }
}

void RunRecord::applyEvent(const Json& event)
{
    const std::string kind = text(event, "kind");
    if (kind == "run.created") {
        note(event, fmt::format("run {} created", text(event, "id")));
    } else if (kind == "run.state") {
        status.state = text(event, "to");
        const std::string reason = text(event, "reason");
        note(event, fmt::format("{} -> {}{}", text(event, "from"), status.state, reason.empty() ? "" : ": " + reason));
    } else if (kind == "run.end") {
        status.state = text(event, "state");
        note(event, fmt::format("{} after {} steps, {:.1f} s", status.state, whole(event, "steps"), real(event, "wall_s")));
    } else if (kind == "preflight") {
        PreflightRow row{text(event, "check"), text(event, "verdict"), text(event, "got"), text(event, "expected"),
                         text(event, "hint")};
        const auto same = std::find_if(preflight.begin(), preflight.end(),
                                       [&](const PreflightRow& r) { return r.check == row.check; });
        if (same != preflight.end())
            *same = row; // the check of a later attempt
        else
            preflight.push_back(row);
        note(event, fmt::format("{} {}: got {}, expected {}", row.check, row.verdict, row.got, row.expected),
             row.verdict == "refuse");
    } else if (kind == "attempt.start") {
        const auto resume = double(whole(event, "resume_step"));
        for (Series* series : {&loss, &learningRate, &stepMs, &validMetric, &testMetric, &gradientNorm})
            series->dropFrom(resume);
        failure.reset();
        note(event, fmt::format("attempt {} of {} ranks from step {}", whole(event, "attempt", 1), whole(event, "world"),
                                whole(event, "resume_step")));
    } else if (kind == "rank.started" || kind == "rank.ready") {
        RankState& state = rankState(whole(event, "rank"));
        state.note = kind == "rank.ready" ? "ready" : "started";
        setIfPresent(event, "base_bytes", state.baseBytes);
        note(event, fmt::format("rank {} {}", state.rank, state.note));
    } else if (kind == "rank.exit") {
        RankState& state = rankState(whole(event, "rank"));
        state.note = "exited: " + text(event, "class");
        const std::string exitClass = text(event, "class");
        note(event, fmt::format("rank {} ended: {}, code {}", state.rank, exitClass, whole(event, "code")),
             exitClass != "done" && exitClass != "stopped");
    } else if (kind == "eval") {
        const double value = real(event, "value");
        const std::string split = text(event, "split");
        if (!text(event, "metric").empty())
            metric = text(event, "metric");
        if (split == "valid")
            validMetric.add(double(whole(event, "step")), value);
        else if (split == "test")
            testMetric.add(double(whole(event, "step")), value);
    } else if (kind == "best") {
        bestStep = whole(event, "step");
        bestValid = real(event, "valid");
    } else if (kind == "checkpoint.committed") {
        checkpoints.push_back({whole(event, "step"), whole(event, "bytes")});
        status.lastCommitStep = whole(event, "step");
        note(event, fmt::format("checkpoint at step {} committed, {}", whole(event, "step"), bytesText(whole(event, "bytes"))));
    } else if (kind == "oom") {
        outOfMemory = event;
        note(event, fmt::format("rank {} out of memory: {} asked for {}, in use {}, budget {}", whole(event, "rank"),
                                text(event, "tensor"), bytesText(whole(event, "requested_bytes")),
                                bytesText(whole(event, "in_use_bytes")), bytesText(whole(event, "budget_bytes"))),
             true);
    } else if (kind == "failure") {
        if (!failure)
            failure = FailureCard{};
        failure->cause = text(event, "cause");
        failure->sentence = text(event, "sentence");
        note(event, failure->sentence, true);
    } else if (kind == "nonfinite") {
        note(event, fmt::format("not a finite number at step {} in {} {}", whole(event, "step"), text(event, "layer"),
                                text(event, "tensor")),
             true);
    } else if (kind == "control") {
        note(event, fmt::format("{} asked by {}", text(event, "do"), text(event, "by")));
    } else if (kind == "mesh.formed") {
        note(event, fmt::format("groups formed in {:.2f} s", real(event, "took_s")));
    } else {
        ++unknownLines;
        note(event, "");
    }
}

void RunRecord::applySample(const Json& sample)
{
    const std::string kind = text(sample, "kind");
    if (kind == "step") {
        const auto from = whole(sample, "step_from");
        const auto take = [&](const char* key, Series& into, double factor) {
            const auto it = sample.find(key);
            if (it == sample.end() || !it->is_array())
                return;
            for (size_t i = 0; i < it->size(); ++i)
                into.add(double(from + int64_t(i)), megagraph::numberOf((*it)[i]) * factor);
        };
        take("loss", loss, 1);
        take("lr", learningRate, 1);
        take("grad_norm", gradientNorm, 1);
        take("step_s", stepMs, 1000);
        status.step = std::max(status.step, whole(sample, "step_to"));
    } else if (kind == "memory") {
        RankState& state = rankState(whole(sample, "rank"));
        for (int c = 0; c < kMemoryCategories; ++c)
            setIfPresent(sample, fmt::format("{}_bytes", memoryCategoryName(MemoryCategory(c))), state.categories[size_t(c)]);
        setIfPresent(sample, "allocated_bytes", state.allocatedBytes);
        int64_t peak = 0;
        if (setIfPresent(sample, "peak_bytes", peak))
            state.peakBytes = std::max(state.peakBytes, peak);
        state.baseBytes = std::max(state.baseBytes, state.categories[size_t(MemoryCategory::Base)]);
    } else if (kind == "rank") {
        RankState& state = rankState(whole(sample, "rank"));
        state.computeS += real(sample, "compute_s");
        state.waitS += real(sample, "comm_wait_s");
    } else if (kind != "beat") {
        ++unknownLines;
    }
}

bool RunRecord::isFinal() const
{
    return status.state == "finished" || status.state == "stopped" || status.state == "failed" || status.state == "lost";
}

double RunRecord::predictedStepMs() const
{
    return plan && plan->prediction.stepNs > 0 ? double(plan->prediction.stepNs) / 1e6
                                               : std::numeric_limits<double>::quiet_NaN();
}

double RunRecord::measuredStepMs(size_t window) const
{
    std::vector<double> tail;
    for (size_t i = stepMs.value.size() > window ? stepMs.value.size() - window : 0; i < stepMs.value.size(); ++i)
        if (std::isfinite(stepMs.value[i]))
            tail.push_back(stepMs.value[i]);
    if (tail.empty())
        return std::numeric_limits<double>::quiet_NaN();
    std::nth_element(tail.begin(), tail.begin() + long(tail.size() / 2), tail.end());
    return tail[tail.size() / 2];
}

} // namespace megagraph::ui
