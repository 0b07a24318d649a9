// SPDX-License-Identifier: Apache-2.0
#include "runtime/launch/figures.h"

#include "core/event.h"

#include <algorithm>

namespace megagraph::launch {
namespace {

constexpr size_t kWarmUpSteps = 5; // caches, pages and the allocator settle in these

int64_t integer(const Json& line, const char* key, int64_t otherwise)
{
    return line.contains(key) && line[key].is_number() ? line[key].get<int64_t>() : otherwise;
}

Json orNull(const Json& from, const char* key)
{
    return from.is_object() && from.contains(key) ? from[key] : Json();
}

} // namespace

void Figures::startAttempt(int64_t resumeStep)
{
    stepS_.clear();
    firstStepAt_ = -1;
    step_ = std::max<int64_t>(0, resumeStep);
}

void Figures::takeStep(const Json& line, double now)
{
    step_ = std::max(step_, integer(line, "step_to", step_));
    if (firstStepAt_ < 0) {
        firstStepAt_ = now;
        firstStep_ = step_;
    }
    if (const Json loss = orNull(line, "loss"); loss.is_array() && !loss.empty()) {
        loss_ = numberOf(loss.back());
        lossKnown_ = true;
    }
    if (const Json seconds = orNull(line, "step_s"); seconds.is_array())
        for (const Json& value : seconds) {
            lastStepS_ = numberOf(value);
            stepS_.push_back(float(lastStepS_));
        }
}

void Figures::take(const Json& line, double now)
{
    const std::string kind = line.value("kind", "");
    const int64_t rank = integer(line, "rank", 0);
    if (kind == "step") {
        takeStep(line, now);
    } else if (kind == "eval") {
        const std::string split = line.value("split", "");
        evaluations_[split] = {line.value("metric", ""), numberOf(orNull(line, "value")), integer(line, "step", 0), true};
    } else if (kind == "best") {
        best_ = line;
        bestStep_ = integer(line, "step", -1);
    } else if (kind == "memory") { // counted peak with base, as in `done`
        peak_[rank] = std::max(peak_[rank], integer(line, "peak_bytes", 0));
    } else if (kind == "oom") { // what was reached when the next tensor did not fit
        peak_[rank] = std::max(peak_[rank], integer(line, "in_use_bytes", 0));
    } else if (kind == "done") {
        if (const int64_t peak = integer(line, "peak_bytes", 0); peak > 0)
            peak_[rank] = peak;
        if (rank == 0) {
            done_ = line;
            step_ = std::max(step_, integer(line, "steps", step_));
            bestStep_ = integer(line, "best_step", bestStep_);
        }
    }
}

double Figures::etaSeconds(int64_t steps, double now) const
{
    const int64_t made = step_ - firstStep_;
    if (firstStepAt_ < 0 || made < 1 || steps <= step_)
        return steps > 0 && steps <= step_ ? 0 : -1;
    return (now - firstStepAt_) / double(made) * double(steps - step_);
}

double Figures::medianStepSeconds() const
{
    const size_t skip = stepS_.size() > kWarmUpSteps ? kWarmUpSteps : 0;
    std::vector<float> sorted(stepS_.begin() + std::ptrdiff_t(skip), stepS_.end());
    if (sorted.empty())
        return 0;
    const auto middle = sorted.begin() + std::ptrdiff_t(sorted.size() / 2);
    std::nth_element(sorted.begin(), middle, sorted.end());
    return double(*middle);
}

const Evaluation& Figures::evaluation(const std::string& split) const
{
    static const Evaluation none;
    const auto found = evaluations_.find(split);
    return found == evaluations_.end() ? none : found->second;
}

Json Figures::result(const RunSpec& spec, const Plan& plan, const std::string& state, const std::string& message) const
{
    const Json final = orNull(done_, "result");
    const auto score = [&](const char* split) {
        if (const Json given = orNull(final, split); given.is_object())
            return given;
        const Evaluation& last = evaluation(split);
        const std::string metric = last.known ? last.metric : metricName(plan.model.metric);
        if (const Json best = orNull(best_, split); best.is_number())
            return Json{{"metric", metric}, {"value", best}};
        return Json{{"metric", metric}, {"value", last.known ? numberJson(last.value) : Json()}};
    };
    Json train = orNull(final, "train");
    if (!train.is_object())
        train = Json{{"loss", lossKnown_ ? numberJson(loss_) : Json()}};
    Json ranks = Json::array();
    for (int64_t rank = 0; rank < spec.world; ++rank) {
        Json predicted, measured;
        for (const auto& prediction : plan.prediction.ranks)
            if (prediction.rank == rank)
                predicted = prediction.peakBytes;
        if (const auto peak = peak_.find(rank); peak != peak_.end())
            measured = peak->second;
        ranks.push_back(Json{{"rank", rank}, {"peak_bytes", {{"predicted", predicted}, {"measured", measured}}}});
    }
    const double median = medianStepSeconds();
    return Json{{"format", "megagraph.run_result"},
                {"version", 1},
                {"run", spec.id},
                {"state", state},
                {"steps", step_},
                {"best_step", bestStep_ >= 0 ? Json(bestStep_) : Json()},
                {"train", train},
                {"valid", score("valid")},
                {"test", score("test")},
                {"step_ms",
                 {{"predicted", plan.prediction.stepNs > 0 ? Json(double(plan.prediction.stepNs) * 1e-6) : Json()},
                  {"measured", median > 0 ? Json(median * 1e3) : Json()}}},
                {"ranks", ranks},
                {"attempts", attempts},
                {"last_commit_step", lastCommit >= 0 ? Json(lastCommit) : Json()},
                {"wall_s", wallS},
                {"message", message}};
}

} // namespace megagraph::launch
