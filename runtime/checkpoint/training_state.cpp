// SPDX-License-Identifier: Apache-2.0
#include "runtime/checkpoint/training_state.h"

#include "core/event.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tuple>

namespace megagraph::runtime {
namespace {

struct Part { std::string name; at::Tensor tensor; };

// Logical tensors of this model in a fixed order: w, then m and v where the optimizer has them.
std::vector<Part> partsOf(GraphModel& model, const Optimizer& optimizer)
{
    std::vector<Part> parts;
    for (size_t p = 0; p < model.layout().size(); ++p) {
        const std::string& name = model.layout()[p].name;
        parts.push_back({name + "/w", model.parameters()[p].detach()});
        if (optimizer.first(p).defined()) {
            parts.push_back({name + "/m", optimizer.first(p)});
            parts.push_back({name + "/v", optimizer.second(p)});
        }
    }
    return parts;
}

Result<Ok> checkShapes(const CheckpointReader& reader, const std::vector<Part>& parts, const std::string& folder)
{
    for (const Part& part : parts) {
        const std::vector<int64_t>* const shape = reader.shape(part.name);
        const std::vector<int64_t> expected = part.tensor.sizes().vec();
        if (shape == nullptr)
            return Error{ErrorCode::InvalidInput,
                         fmt::format("checkpoint: {}: tensor {} is missing; resume with the model it was written by", folder,
                                     part.name)};
        if (*shape != expected)
            return Error{ErrorCode::InvalidInput,
                         fmt::format("checkpoint: {}: tensor {} has shape [{}], expected [{}]; resume with the model it was "
                                     "written by",
                                     folder, part.name, fmt::join(*shape, ", "), fmt::join(expected, ", "))};
    }
    return Ok{};
}

} // namespace

Json scalarsToJson(const TrainingScalars& scalars, const std::string& optimizerKind, int64_t updates)
{
    return {{"step", scalars.step},
            {"data_cursor", scalars.step},
            {"optimizer", {{"kind", optimizerKind}, {"updates", updates}}},
            {"best",
             {{"step", scalars.bestStep},
              {"valid", numberJson(scalars.bestValid)},
              {"test", numberJson(scalars.bestTest)},
              {"train_loss", numberJson(scalars.bestTrainLoss)}}},
            {"last_loss", numberJson(scalars.lastLoss)}};
}

Result<TrainingScalars> scalarsFromJson(const Json& state, const std::string& file)
{
    const auto has = [](const Json& object, const char* key) { return object.is_object() && object.contains(key); };
    if (!has(state, "step") || !state["step"].is_number_integer() || !has(state, "best") || !has(state["best"], "step") ||
        !state["best"]["step"].is_number_integer())
        return Error{ErrorCode::Corrupt, fmt::format("checkpoint: {}: state: step or best is missing", file)};
    TrainingScalars scalars;
    scalars.step = state["step"].get<int64_t>();
    const Json& best = state["best"];
    scalars.bestStep = best["step"].get<int64_t>();
    scalars.bestValid = numberOf(best.value("valid", Json()));
    scalars.bestTest = numberOf(best.value("test", Json()));
    scalars.bestTrainLoss = numberOf(best.value("train_loss", Json()));
    scalars.lastLoss = numberOf(state.value("last_loss", Json()));
    return scalars;
}

Result<ShardReport> saveTrainingState(const std::string& runFolder, int64_t rank, int64_t attempt, const TrainingScalars& scalars,
                                      GraphModel& model, const Optimizer& optimizer, const std::string& optimizerKind)
{
    std::vector<TensorData> pieces;
    Json state;
    const std::vector<Part> parts = rank == 0 ? partsOf(model, optimizer) : std::vector<Part>{};
    for (const Part& part : parts) {
        TensorData piece;
        piece.slice.tensor = part.name;
        piece.slice.shape = part.tensor.sizes().vec();
        piece.slice.end = part.tensor.numel();
        piece.data = part.tensor.const_data_ptr();
        pieces.push_back(std::move(piece));
    }
    if (rank == 0)
        state = scalarsToJson(scalars, optimizerKind, optimizer.updates());
    const std::string folder = runFolder + "/checkpoints/" + checkpointTempName(scalars.step, attempt);
    return writeShard(folder, rank, scalars.step, std::move(pieces), state);
}

Result<TrainingScalars> loadTrainingState(const std::string& folder, GraphModel& model, Optimizer& optimizer,
                                          const std::string& optimizerKind)
{
    MEGAGRAPH_TRY(CheckpointReader reader, CheckpointReader::open(folder));
    const Json& state = reader.manifest().state;
    MEGAGRAPH_TRY(const TrainingScalars scalars, scalarsFromJson(state, folder));
    const std::string kind = state.contains("optimizer") ? state["optimizer"].value("kind", "") : "";
    if (kind != optimizerKind)
        return Error{ErrorCode::InvalidInput, fmt::format("checkpoint: {}: optimizer is {}, expected {}; resume with the "
                                                          "optimizer it was written by",
                                                          folder, kind, optimizerKind)};
    std::vector<Part> parts = partsOf(model, optimizer);
    MEGAGRAPH_TRY(std::ignore, checkShapes(reader, parts, folder));
    for (Part& part : parts) {
        MEGAGRAPH_TRY(std::ignore, reader.read(part.name, 0, part.tensor.numel(), part.tensor.mutable_data_ptr(),
                                               int64_t(part.tensor.nbytes())));
    }
    optimizer.setUpdates(state["optimizer"].value("updates", int64_t(0)));
    return scalars;
}

} // namespace megagraph::runtime
