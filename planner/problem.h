// SPDX-License-Identifier: Apache-2.0
// What the planner plans for, and numbers that carry their origin (planner design, 3.1). Pure values.
#pragma once

#include "core/cluster_spec.h"
#include "core/dataset_spec.h"
#include "core/graph_stats.h"
#include "core/model_spec.h"
#include "core/plan.h"
#include "core/profile.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

namespace megagraph::planner {

enum class Provenance { Measured, Interpolated, Extrapolated, Transferred, Assumed }; // worst last
const char* provenanceName(Provenance p);

/// A value with its relative 90 % half-width and the share of it that comes from each kind of origin.
struct Estimate {
    int64_t value = 0; // ns or bytes
    double halfWidth = 0;
    Provenance worst = Provenance::Measured;
    std::array<float, 5> share{1, 0, 0, 0, 0};
};
Estimate operator+(const Estimate& a, const Estimate& b);
Estimate larger(const Estimate& a, const Estimate& b);
Estimate scaled(const Estimate& a, double factor);

struct Problem {
    DatasetSpec dataset;
    ModelSpec model;
    ClusterSpec cluster;
    ConstraintsSpec constraints;
    GraphStats stats;
    std::optional<Profile> profile; // nullopt: hardware presets, every number `assumed`
    std::string match = "none";     // "exact" "stale" "other" "none"
    std::string resources;          // folder of presets (cpu-slot.json)
};

} // namespace megagraph::planner
