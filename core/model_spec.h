// SPDX-License-Identifier: Apache-2.0
// model.json ("megagraph.model", version 1): the model, its training recipe and, for presets, the published number.
// Leaf keys are unique in the whole document, so `--set KEY=VALUE` needs no path. Field names equal the JSON keys in
// camelCase. Values only.
#pragma once

#include "core/json.h"
#include "core/result.h"

#include <cstdint>
#include <string>
#include <vector>

namespace megagraph {

enum class Architecture { Graphormer, GtSparse, Sgformer };      // "graphormer" "gt_sparse" "sgformer"
enum class AttentionKind { Dense, Edges, Linear };               // of an architecture
enum class NormPlace { Pre, Post };                              // "pre" "post"
enum class LinearInit { Uniform, Graphormer };                   // "uniform" "graphormer"
enum class TableInit { Normal, Decay };                          // "normal" "decay"
enum class EdgeEncoding { None, Hop1 };                          // "none" "hop1"
enum class Neighbours { Edges, None };                           // "edges" "none" (the canary's control)
enum class GcnNorm { None, Batch };                              // "none" "batch"
enum class OptimizerKind { AdamW, Sgd };                         // "adamw" "sgd"
enum class ScheduleKind { Constant, Linear, Cosine };            // "constant" "linear" "cosine"
enum class Loss { CrossEntropy, Bce, L1, Mse };                  // "cross_entropy" "bce" "l1" "mse"
enum class Metric { Accuracy, Auc, Mae, Rmse };                  // "accuracy" "auc" "mae" "rmse"
enum class SequenceMode { Full, Clusters, Packs };               // "full" "clusters" "packs"

struct ModelSpec {
    std::string name, note;
    // architecture
    Architecture kind = Architecture::Graphormer;
    int64_t blocks = 2, width = 64, ffnWidth = 64, heads = 8; // L, d, f, H; d % H == 0
    NormPlace norm = NormPlace::Pre;
    LinearInit linearInit = LinearInit::Uniform;
    bool graphToken = false;
    // encodings
    int64_t hops = 3; // K; B = K + 4 bias classes
    bool degreeEncoding = true;
    TableInit tableInit = TableInit::Decay;
    EdgeEncoding edgeEncoding = EdgeEncoding::None;
    bool scaleFeatures = false; // rows of x scaled to sum 1
    Neighbours neighbours = Neighbours::Edges;
    // sgformer
    int64_t gcnLayers = 2;
    GcnNorm gcnNorm = GcnNorm::None;
    bool gcnResidual = false;
    double gcnWeight = 0.85; // gamma: share of the GCN branch
    // sparse
    bool selfLoops = true;
    // dropout rates in [0, 1)
    double inputDropout = 0, attentionDropout = 0, ffnDropout = 0, residualDropout = 0, gcnDropout = 0;
    // optimizer
    OptimizerKind optimizerKind = OptimizerKind::AdamW;
    double learningRate = 1e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
    double weightDecay = 0, weightDecayGcn = 0; // second value: parameter group "GCN branch and W_c" of SGFormer
    bool l2 = false;                            // decay added to the gradient instead of decoupled
    double clipNorm = 0;                        // 0 = off
    // schedule
    ScheduleKind scheduleKind = ScheduleKind::Constant;
    int64_t warmupSteps = 0;
    double minLearningRate = 0;
    // training
    int64_t steps = 100;
    Loss loss = Loss::CrossEntropy;
    Metric metric = Metric::Accuracy;
    int64_t evalEvery = 1;
    int64_t patience = 0; // steps without a better validation metric; 0 = off
    SequenceMode sequenceMode = SequenceMode::Full;
    int64_t sequenceTokens = 0; // clusters: tokens aimed at per sequence; 0 = all
    // published (presets only; value 0 and protocol "" when there is none)
    double publishedValue = 0, publishedSpread = 0;
    std::string publishedProtocol, publishedBand;
};

AttentionKind attentionKind(const ModelSpec& spec);
inline int64_t headWidth(const ModelSpec& spec) { return spec.kind == Architecture::Sgformer ? spec.width : spec.width / spec.heads; }
inline int64_t biasClasses(const ModelSpec& spec) { return spec.hops + 4; }
const char* lossName(Loss loss);
const char* metricName(Metric metric);
const char* architectureName(Architecture kind);
/// Larger is better for accuracy and AUC, smaller for MAE and RMSE.
bool metricBetter(Metric metric, double a, double b);

/// Reads a model that is part of another document; faults go to the reader.
void readModel(ObjectReader& reader, ModelSpec& spec);
Result<ModelSpec> modelFromJson(const Json& value, const std::string& file);
Json modelToJson(const ModelSpec& spec);
/// Names of the presets in `resources`/models, sorted.
std::vector<std::string> modelPresets(const std::string& resources);
/// A preset name of resources/models or a path to a model.json. NotFound lists the presets and the nearest name.
Result<ModelSpec> loadModel(const std::string& nameOrPath, const std::string& resources);
/// `--set KEY=VALUE`: one leaf key. With `shapesFixed` (a plan exists) keys that change a shape are refused by name.
Result<ModelSpec> setModelValue(const ModelSpec& spec, const std::string& assignment, bool shapesFixed);
/// Hash (8 hex digits) of the keys that change a shape or a kernel: what a profile must match.
std::string modelSignature(const ModelSpec& spec);

} // namespace megagraph
