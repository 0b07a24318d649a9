// SPDX-License-Identifier: Apache-2.0
// Trains one rank: executes the plan's actions (core/schedule) step by step, reports events, evaluates, writes checkpoints,
// stops with all ranks at the same step. Torch exceptions pass through to worker main. One thread.
#pragma once

#include "core/io/dataset.h"
#include "core/plan.h"
#include "core/run_spec.h"
#include "core/schedule.h"
#include "runtime/checkpoint/training_state.h"
#include "runtime/comm.h"
#include "runtime/evaluation.h"
#include "runtime/model.h"
#include "runtime/optimizer.h"
#include "runtime/report.h"
#include "runtime/work_set.h"

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace megagraph::runtime {

/// What every mode of a worker has after start-up; references outlive the modes.
struct WorkerContext {
    const RunSpec& run;
    const Plan& plan;
    const Dataset& dataset;
    std::string home, runFolder;
    int64_t rank = 0, attempt = 1, resumeStep = -1; // -1: fresh
    RankRole role;
    Groups& groups;
    Reporter& reporter;
    Commands& commands;
};

enum WorkerExit : int {
    kExitDone = 0,
    kExitStopped = 10,
    kExitPeer = 20,
    kExitMismatch = 21,
    kExitInput = 22,
    kExitMemory = 23,
    kExitNonFinite = 24,
    kExitCheckpoint = 25,
    kExitInternal = 70,
};

/// Sees the summed gradients of each step before clipping (verify). `loss` is the mean over the step's items.
class StepObserver {
  public:
    virtual ~StepObserver() = default;
    virtual void onStep(int64_t step, double loss, const FlatGradients& gradients) = 0;
    /// Joined into done.result.
    virtual Json result() const { return Json::object(); }
};

/// Forward and backward passes of one step over this rank's micro-batches, and the sum over ranks. Used by trainer and profiler.
class StepRunner {
  public:
    StepRunner(const WorkerContext& context, WorkSet& work, GraphModel& model, FlatGradients& gradients);

    struct Outcome {
        double lossSum = 0, items = 0;
        int commands = 0; ///< Commands::Bit of rank 0, known to all ranks
        double reduceSeconds = 0, commSeconds = 0;
    };
    /// Zeroes gradients, runs all actions but the update. `commands`: bits that rank 0 adds.
    Outcome run(int64_t step, int commands);

  private:
    void forward(int64_t step, int64_t microBatch, double items);
    double itemsOf(int64_t step);

    const WorkerContext& context_;
    WorkSet& work_;
    GraphModel& model_;
    FlatGradients& gradients_;
    std::vector<Action> actions_;
    std::unordered_map<int64_t, at::Tensor> live_; // loss of micro-batches between forward and backward
    double lossSum_ = 0;
};

/// Numbers behind the gradients in the one all-reduce of a step.
enum StepScalar : int64_t { kScalarLoss, kScalarStop, kScalarCheckpoint, kScalarTerminate, kStepScalars };

class Trainer {
  public:
    Trainer(WorkerContext& context, StepObserver* observer);
    /// Trains to the end; returns the worker's exit code. `done` or `error` has been reported.
    int run();

  private:
    struct Ending { std::string reason = "steps"; int exitCode = kExitDone; };

    Result<Ok> start();
    Ending loop();
    int fail(const Error& error, int code);
    bool trainStep(int64_t step);           ///< false: not finite, no update
    void evaluateAfter(int64_t step);
    Result<Ok> checkpoint();
    void reportNonFinite(int64_t step, double loss);
    void reportStep(int64_t step, double loss, double rate, double norm, double items, double seconds);
    void flushSteps();
    void reportRank(bool force);
    void reportDone(const Ending& ending);
    int commandsOfRank0();
    bool wantsCheckpoint(int64_t step) const;

    WorkerContext& context_;
    StepObserver* observer_;
    std::unique_ptr<GraphModel> model_;
    std::unique_ptr<WorkSet> work_;
    std::unique_ptr<FlatGradients> gradients_;
    std::unique_ptr<Optimizer> optimizer_;
    std::unique_ptr<StepRunner> runner_;
    TrainingScalars scalars_;
    int64_t totalSteps_ = 0;  // of the schedule
    double startedAt_ = 0, lastCheckpointAt_ = 0, lastRankAt_ = 0, lastFlushAt_ = 0;
    int64_t savedStep_ = -1;
    int commands_ = 0;        // known to all ranks after the last step
    Evaluation lastEvaluation_;
    double finalTest_ = 0;
    std::vector<double> stepSeconds_;

    struct StepLines {
        int64_t from = 0;
        std::vector<double> loss, rate, norm, seconds;
        std::vector<int64_t> items;
    } lines_;
    struct RankSums { double compute = 0, wait = 0, host = 0; int64_t bytesBefore = 0; double waitBefore = 0; } sums_;
};

/// Fields of the `memory` sample and of done: bytes per category at the peak, base included.
Json memoryFields();

} // namespace megagraph::runtime
