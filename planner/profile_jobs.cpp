// SPDX-License-Identifier: Apache-2.0
#include "core/plan_check.h"
#include "planner/predict.h"
#include "planner/profiling.h"
#include "planner/space.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace megagraph::planner {

namespace {

/// Collects jobs without repeats, in the order of their use.
class JobList {
  public:
    void add(const char* kind, std::map<std::string, std::string> key, std::map<std::string, double> x)
    {
        ProfileJob job;
        job.kind = kind;
        job.key = std::move(key);
        job.x = std::move(x);
        if (std::find(jobs_.begin(), jobs_.end(), job) == jobs_.end())
            jobs_.push_back(std::move(job));
    }
    /// Four tenths of the time are dealt out evenly to repeats; the rest is for building layers, warm-up and points that take longer.
    std::vector<ProfileJob> take(double seconds)
    {
        for (ProfileJob& job : jobs_)
            job.seconds = std::clamp(0.4 * seconds / double(jobs_.size()), 0.05, 1.0);
        return std::move(jobs_);
    }

  private:
    std::vector<ProfileJob> jobs_;
};

/// Sizes of sequences: the largest, the one at two thirds and the smallest, without those within 10 % of a larger one.
std::set<int64_t> sequenceSizes(const Problem& problem)
{
    std::vector<int64_t> tokens;
    for (const SequenceStats& sequence : planSequences(problem))
        tokens.push_back(sequence.tokens);
    std::sort(tokens.begin(), tokens.end());
    std::set<int64_t> sizes;
    for (const int64_t n : {tokens.back(), tokens[tokens.size() * 2 / 3], tokens.front()})
        if (sizes.empty() || double(n) < 0.9 * double(*sizes.begin()))
            sizes.insert(n);
    return sizes;
}

struct Setting { Exchange exchange; int64_t contexts, busy; AttentionPath attention; Recompute recompute; };

/// The different ways in which plans of the grid run a block, full use of the ranks first.
std::vector<Setting> settingsOf(const Problem& problem)
{
    std::vector<Setting> all;
    for (const Candidate& candidate : planCandidates(problem)) {
        const StagePlan& stage = candidate.plan.stages.front();
        if (!checkPlan(candidate.plan, problem.dataset).ok() || !forbiddenBy(problem.constraints, candidate.plan).empty())
            continue;
        all.push_back({stage.exchange, stage.ring, candidate.plan.world(), candidate.plan.attention, stage.recompute});
    }
    std::stable_sort(all.begin(), all.end(), [](const Setting& a, const Setting& b) {
        const auto rank = [](const Setting& s) { return std::pair(s.attention != AttentionPath::Fused, s.recompute != Recompute::None); };
        return rank(a) < rank(b);
    });
    return all;
}

void addLayers(const Problem& problem, JobList& jobs)
{
    for (const Setting& s : settingsOf(problem)) {
        const int64_t together = s.contexts > 1 ? s.contexts : s.busy;
        for (const int64_t n : sequenceSizes(problem)) {
            // a map of classes and scores per head beyond the budget would only end in out of memory
            const double map = 3.0 * double(n) * double(n) * double(problem.model.heads) * 4;
            if (s.attention == AttentionPath::Materialised && map > double(usableBytes(problem, 0)))
                continue;
            jobs.add("layer", {{"layer", "block"}, {"recompute", recomputeName(s.recompute)}, {"attention", attentionPathName(s.attention)},
                               {"exchange", exchangeName(s.exchange)}, {"ranks", std::to_string(together)}}, {{"n", double(n)}});
            if (s.recompute == Recompute::None)
                jobs.add("memory", {{"what", "sequence"}, {"attention", attentionPathName(s.attention)},
                                    {"exchange", exchangeName(s.exchange)}, {"ranks", std::to_string(together)}}, {{"n", double(n)}});
        }
    }
}

void addEnds(const Problem& problem, JobList& jobs)
{
    for (const Setting& s : settingsOf(problem))
        for (const int64_t n : sequenceSizes(problem))
            for (const char* layer : {"embed", "head"})
                jobs.add("layer", {{"layer", layer}, {"exchange", exchangeName(s.exchange)},
                                   {"ranks", std::to_string(s.contexts > 1 ? s.contexts : s.busy)}}, {{"n", double(n)}});
}

void addStep(const Problem& problem, int64_t parameters, JobList& jobs)
{
    std::set<int64_t> worlds;
    for (const Setting& s : settingsOf(problem))
        worlds.insert(s.busy);
    for (const int64_t ranks : worlds) {
        const std::string count = std::to_string(ranks);
        if (ranks > 1)
            jobs.add("collective", {{"op", "all_reduce"}, {"ranks", count}}, {{"bytes", 4.0 * double(parameters)}});
        jobs.add("optimizer", {{"ranks", count}}, {{"parameters", double(parameters)}});
        jobs.add("host", {{"ranks", count}}, {});
    }
}

void addLinks(const Problem& problem, JobList& jobs)
{
    const auto ranks = int64_t(problem.cluster.devices().size());
    if (ranks < 2)
        return;
    for (const double bytes : {1024.0, 65536.0, 4194304.0})
        for (const char* op : {"all_reduce", "all_gather", "reduce_scatter"})
            jobs.add("collective", {{"op", op}, {"ranks", std::to_string(ranks)}}, {{"bytes", bytes}});
    if (attentionKind(problem.model) == AttentionKind::Dense)
        for (const double bytes : {1024.0, 65536.0, 4194304.0})
            jobs.add("p2p", {{"op", "ring"}, {"ranks", std::to_string(ranks)}}, {{"bytes", bytes}});
}

} // namespace

std::vector<ProfileJob> quickProfileJobs(const Problem& problem, double seconds)
{
    JobList jobs;
    jobs.add("memory", {{"what", "base"}}, {});
    auto layout = modelLayout(problem.model, problem.dataset);
    const int64_t parameters = layout.ok() ? parameterCount(*layout) : 0;
    addEnds(problem, jobs);
    addStep(problem, parameters, jobs);
    addLinks(problem, jobs);
    jobs.add("memory", {{"what", "state"}}, {});
    addLayers(problem, jobs); // last: blocks take longest, the dense baseline most of all
    return jobs.take(seconds);
}

std::vector<ProfileHole> profileHoles(const std::vector<ProfileJob>& jobs, const std::vector<ProfilePoint>& points)
{
    std::vector<ProfileHole> holes;
    for (const ProfileJob& job : jobs) {
        std::string status = "not reached";
        bool found = false;
        for (const ProfilePoint& point : points) {
            bool same = point.kind == job.kind;
            for (const auto& [name, value] : job.key) {
                const auto at = point.key.find(name);
                same = same && at != point.key.end() && at->second == value;
            }
            for (const auto& [name, value] : job.x) {
                const auto at = point.x.find(name);
                same = same && at != point.x.end() && std::abs(at->second - value) <= 0.05 * std::abs(value) + 1;
            }
            if (!same)
                continue;
            if (point.status == "ok" || point.status == "unstable")
                found = true;
            else
                status = point.status == "oom" ? "out of memory" : point.status;
        }
        if (!found && job.kind != "memory")
            holes.push_back({job.kind, job.key, status, job.seconds});
    }
    return holes;
}

} // namespace megagraph::planner
