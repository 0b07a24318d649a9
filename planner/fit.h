// SPDX-License-Identifier: Apache-2.0
// Fits of measured points (planner design, section 4): monotone log-log interpolation and relative non-negative least squares.
// Pure, deterministic.
#pragma once

#include "planner/problem.h"

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace megagraph::planner {

/// Piecewise linear in (log x, log y) through points made monotone by pooling adjacent violators. Below the smallest x: its
/// value. Above the largest: the last slope clamped to [0.9, 1.1] (links; other terms extrapolate with their own formula).
class Curve {
  public:
    Curve() = default;
    /// Points with x or y <= 0 are dropped; equal x keep their mean.
    explicit Curve(std::vector<std::pair<double, double>> points);
    bool empty() const { return x_.empty(); }
    size_t size() const { return x_.size(); }
    double at(double x) const;
    /// Measured at a point (within 0.5 %), Interpolated between points, Extrapolated outside. Assumed when empty.
    Provenance originAt(double x) const;
    /// Distance from the nearest measured x in powers of two; 0 on a point or inside the range.
    double octavesOutside(double x) const;
    /// Relative error of each inner point predicted from the others: median and 90th percentile; 0 with fewer than 3 points.
    std::pair<double, double> leaveOneOut() const;

  private:
    std::vector<double> x_, y_; // ascending
};

/// Minimises sum(((row . b - y) / y)^2) over b >= 0. rows: n x k row-major, y > 0. Active set (Lawson and Hanson 1974), k <= 12.
std::vector<double> relativeNnls(std::span<const double> rows, std::span<const double> y, int k);

/// Half-width of a number of this origin: measured max(1 %, standard error), interpolated max(2 %, p90), extrapolated
/// max(10 %, p90 (1 + octaves)), transferred 25 %, assumed 50 %.
double halfWidthOf(Provenance origin, double standardError, double p90, double octaves);
Estimate estimateOf(double value, Provenance origin, double standardError = 0, double p90 = 0, double octaves = 0);

} // namespace megagraph::planner
