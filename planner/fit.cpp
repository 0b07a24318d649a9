// SPDX-License-Identifier: Apache-2.0
#include "planner/fit.h"

#include <cmath>

namespace megagraph::planner {

namespace {

constexpr double kSamePoint = 0.005;

/// Pools adjacent violators so that y never falls.
void makeMonotone(std::vector<double>& y)
{
    std::vector<std::pair<double, int>> pools; // mean, count
    for (double value : y) {
        pools.emplace_back(value, 1);
        while (pools.size() > 1 && pools[pools.size() - 2].first > pools.back().first) {
            const auto [b, nb] = pools.back();
            pools.pop_back();
            auto& [a, na] = pools.back();
            a = (a * na + b * nb) / (na + nb);
            na += nb;
        }
    }
    size_t i = 0;
    for (const auto& [mean, count] : pools)
        for (int k = 0; k < count; ++k)
            y[i++] = mean;
}

double logInterpolate(double x, double x0, double y0, double x1, double y1)
{
    const double t = (std::log(x) - std::log(x0)) / (std::log(x1) - std::log(x0));
    return std::exp(std::log(y0) + t * (std::log(y1) - std::log(y0)));
}

} // namespace

Curve::Curve(std::vector<std::pair<double, double>> points)
{
    std::erase_if(points, [](const auto& p) { return !(p.first > 0) || !(p.second > 0); });
    std::stable_sort(points.begin(), points.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (size_t i = 0; i < points.size();) {
        size_t end = i;
        double sum = 0;
        while (end < points.size() && points[end].first == points[i].first)
            sum += points[end++].second;
        x_.push_back(points[i].first);
        y_.push_back(sum / double(end - i));
        i = end;
    }
    makeMonotone(y_);
}

double Curve::at(double x) const
{
    if (x_.empty())
        return 0;
    if (x <= x_.front() || x_.size() == 1)
        return x <= x_.front() ? y_.front() : y_.front() * x / x_.front();
    if (x > x_.back()) {
        const size_t n = x_.size();
        const double slope = std::log(y_[n - 1] / y_[n - 2]) / std::log(x_[n - 1] / x_[n - 2]);
        return y_.back() * std::pow(x / x_.back(), std::clamp(slope, 0.9, 1.1));
    }
    const auto above = std::lower_bound(x_.begin(), x_.end(), x) - x_.begin();
    const auto i = static_cast<size_t>(above);
    if (x_[i] == x)
        return y_[i];
    return logInterpolate(x, x_[i - 1], y_[i - 1], x_[i], y_[i]);
}

Provenance Curve::originAt(double x) const
{
    if (x_.empty())
        return Provenance::Assumed;
    for (double known : x_)
        if (std::abs(x - known) <= kSamePoint * known)
            return Provenance::Measured;
    return x > x_.front() && x < x_.back() ? Provenance::Interpolated : Provenance::Extrapolated;
}

double Curve::octavesOutside(double x) const
{
    if (x_.empty() || x <= 0)
        return 0;
    if (x < x_.front())
        return std::log2(x_.front() / x);
    return x > x_.back() ? std::log2(x / x_.back()) : 0;
}

std::pair<double, double> Curve::leaveOneOut() const
{
    std::vector<double> errors;
    for (size_t i = 1; i + 1 < x_.size(); ++i)
        errors.push_back(std::abs(logInterpolate(x_[i], x_[i - 1], y_[i - 1], x_[i + 1], y_[i + 1]) / y_[i] - 1));
    if (errors.empty())
        return {0, 0};
    std::sort(errors.begin(), errors.end());
    const auto rank = static_cast<size_t>(std::ceil(0.9 * double(errors.size())));
    return {errors[errors.size() / 2], errors[std::min(rank, errors.size()) - 1]};
}

namespace {

/// Unconstrained least squares on the columns in `passive` by Cholesky of the normal equations with a tiny ridge.
std::vector<double> solvePassive(const std::vector<double>& normal, const std::vector<double>& right, const std::vector<int>& passive, int k)
{
    const auto p = passive.size();
    std::vector<double> l(p * p, 0), z(p, 0);
    for (size_t i = 0; i < p; ++i) {
        for (size_t j = 0; j <= i; ++j) {
            double sum = normal[size_t(passive[i]) * size_t(k) + size_t(passive[j])];
            if (i == j)
                sum *= 1 + 1e-12;
            for (size_t t = 0; t < j; ++t)
                sum -= l[i * p + t] * l[j * p + t];
            l[i * p + j] = i == j ? std::sqrt(std::max(sum, 1e-300)) : sum / l[j * p + j];
        }
    }
    for (size_t i = 0; i < p; ++i) {
        double sum = right[size_t(passive[i])];
        for (size_t t = 0; t < i; ++t)
            sum -= l[i * p + t] * z[t];
        z[i] = sum / l[i * p + i];
    }
    for (size_t i = p; i-- > 0;) {
        for (size_t t = i + 1; t < p; ++t)
            z[i] -= l[t * p + i] * z[t];
        z[i] /= l[i * p + i];
    }
    return z;
}

} // namespace

std::vector<double> relativeNnls(std::span<const double> rows, std::span<const double> y, int k)
{
    const size_t n = y.size(), columns = size_t(k);
    std::vector<double> scale(columns, 0), normal(columns * columns, 0), right(columns, 0);
    for (size_t i = 0; i < n; ++i)
        for (size_t c = 0; c < columns; ++c)
            scale[c] = std::max(scale[c], std::abs(rows[i * columns + c] / y[i]));
    for (double& s : scale)
        s = s > 0 ? 1 / s : 0; // columns scaled to largest entry 1, so that one tolerance serves all
    for (size_t i = 0; i < n; ++i)
        for (size_t a = 0; a < columns; ++a) {
            const double va = rows[i * columns + a] / y[i] * scale[a];
            right[a] += va;
            for (size_t b = 0; b < columns; ++b)
                normal[a * columns + b] += va * rows[i * columns + b] / y[i] * scale[b];
        }
    std::vector<double> beta(columns, 0);
    std::vector<int> passive;
    const auto gradient = [&](size_t c) {
        double g = right[c];
        for (size_t b = 0; b < columns; ++b)
            g -= normal[c * columns + b] * beta[b];
        return g;
    };
    for (int guard = 0; guard < 10 * k + 10; ++guard) {
        int best = -1;
        for (int c = 0; c < k; ++c)
            if (std::find(passive.begin(), passive.end(), c) == passive.end() && gradient(size_t(c)) > 1e-10 &&
                (best < 0 || gradient(size_t(c)) > gradient(size_t(best))))
                best = c;
        if (best < 0)
            break;
        passive.push_back(best);
        for (;;) {
            const auto z = solvePassive(normal, right, passive, k);
            double step = 1;
            for (size_t i = 0; i < passive.size(); ++i) {
                const double b = beta[size_t(passive[i])];
                if (z[i] <= 0 && b - z[i] > 0)
                    step = std::min(step, b / (b - z[i]));
            }
            for (size_t i = 0; i < passive.size(); ++i)
                beta[size_t(passive[i])] += step * (z[i] - beta[size_t(passive[i])]);
            const bool inside = step >= 1;
            std::erase_if(passive, [&](int c) {
                const bool out = beta[size_t(c)] <= 1e-15;
                if (out)
                    beta[size_t(c)] = 0;
                return out;
            });
            if (inside || passive.empty())
                break;
        }
    }
    for (size_t c = 0; c < columns; ++c)
        beta[c] *= scale[c];
    return beta;
}

double halfWidthOf(Provenance origin, double standardError, double p90, double octaves)
{
    switch (origin) {
    case Provenance::Measured: return std::max(0.01, 1.645 * standardError);
    case Provenance::Interpolated: return std::max(0.02, p90);
    case Provenance::Extrapolated: return std::max(0.10, p90 * (1 + octaves));
    case Provenance::Transferred: return 0.25;
    case Provenance::Assumed: return 0.50;
    }
    return 0.50;
}

Estimate estimateOf(double value, Provenance origin, double standardError, double p90, double octaves)
{
    Estimate estimate;
    estimate.value = int64_t(std::llround(std::max(0.0, value)));
    estimate.halfWidth = halfWidthOf(origin, standardError, p90, octaves);
    estimate.worst = origin;
    estimate.share = {};
    estimate.share[size_t(origin)] = 1;
    return estimate;
}

} // namespace megagraph::planner
