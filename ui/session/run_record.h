// SPDX-License-Identifier: Apache-2.0
// What the window knows of one run: series, memory and checks gathered from event and sample lines (core/event), in any
// portion sizes. Pure values without Qt objects; one thread at a time. Unknown kinds are counted and skipped.
#pragma once

#include "core/follow.h"
#include "core/json.h"
#include "core/plan.h"
#include "core/run_spec.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace megagraph::ui {

struct Series {
    std::vector<double> step, value;
    void add(double s, double v);
    void dropFrom(double s); ///< a new attempt repeats steps from s on
};

struct RankState {
    int64_t rank = 0, peakBytes = 0, allocatedBytes = 0, baseBytes = 0;
    MemoryBytes categories{};
    double computeS = 0, waitS = 0;
    std::string note; ///< "ready", "exited: ..."
};

struct PreflightRow { std::string check, verdict, got, expected, hint; };
struct EventRow { std::string utc, kind, text; bool bad = false; };
struct FailureCard { std::string cause, certainty, sentence, actionText, actionCommand, evidence; int64_t rank = -1, step = -1, lastCommit = -1; };
struct Checkpoint { int64_t step = 0, bytes = 0; };

/// One portion from the follower, read off the GUI thread.
struct RunDelta {
    std::vector<Json> events, samples;
    std::optional<RunStatus> status;
    std::optional<RunSpec> spec;
    std::optional<Plan> plan;
    std::optional<Json> result, certificate, failure;
    std::string log, problem;
    bool more = false;
};

class RunRecord {
  public:
    void apply(const RunDelta& delta);
    void applyEvent(const Json& event);
    void applySample(const Json& sample);

    bool isFinal() const; ///< finished, stopped, failed or lost
    bool isAlive() const { return status.alive && !isFinal(); }
    double predictedStepMs() const;
    /// Median of the measured step times of the last `window` steps, ms; NaN without steps.
    double measuredStepMs(size_t window = 50) const;

    RunStatus status;
    std::optional<RunSpec> spec;
    std::optional<Plan> plan;
    std::string metric = "accuracy";
    Series loss, learningRate, stepMs, validMetric, testMetric, gradientNorm;
    double bestValid = 0;
    int64_t bestStep = -1;
    std::vector<RankState> ranks;
    std::vector<PreflightRow> preflight;
    std::vector<EventRow> events;
    std::vector<Checkpoint> checkpoints;
    std::optional<FailureCard> failure;
    std::optional<Json> result, certificate, outOfMemory;
    std::string log, problem;
    int64_t unknownLines = 0, droppedLogBytes = 0;

  private:
    RankState& rankState(int64_t rank);
    void note(const Json& event, const std::string& text, bool bad = false);
};

} // namespace megagraph::ui
