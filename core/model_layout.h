// SPDX-License-Identifier: Apache-2.0
// Parameters of a model from model.json and data set counts: the runtime allocates from this list, the planner counts
// it. Order = layer order; initial values depend on (seed, name, element) only. Pure.
#pragma once

#include "core/dataset_spec.h"
#include "core/model_spec.h"
#include "core/result.h"

#include <cstdint>
#include <string>
#include <vector>

namespace megagraph {

enum class InitKind { Zero, One, LinearUniform, Normal, Glorot, DecayTable, LinearUniformScaled };
enum class ParameterGroup { Main, Gcn };

constexpr int64_t kDegreeRows = 512; // degrees are clamped to 511

struct ParameterSpec {
    std::string name;           // "embed.feature.weight", "block0.attention.query.weight", "head.output.bias", "bias_table"
    std::vector<int64_t> shape; // row-major; Linear weights are [out, in]
    int64_t layer = 0;          // 0 embed, 1..L blocks, L+1 head
    bool tied = false;          // shared by all blocks (bias table)
    InitKind init = InitKind::Zero;
    double initScale = 1.0;     // Normal: sd; LinearUniform: bound 1/sqrt(fanIn) is derived; ..Scaled: times this
    int64_t fanIn = 0;
    bool decayed = true;        // false: biases, norms, bias tables, graph token (SGFormer under l2: none)
    ParameterGroup group = ParameterGroup::Main;

    int64_t elements() const;
};

/// Output width: classes of a classification task (1 for two classes under loss bce), tasks otherwise.
int64_t outputWidth(const ModelSpec& model, const DatasetSpec& dataset);
Result<std::vector<ParameterSpec>> modelLayout(const ModelSpec& model, const DatasetSpec& dataset);
int64_t parameterCount(const std::vector<ParameterSpec>& layout);

} // namespace megagraph
