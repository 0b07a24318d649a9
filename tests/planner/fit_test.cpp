// SPDX-License-Identifier: Apache-2.0
#include "core/random.h"
#include "planner/fit.h"

#include <gtest/gtest.h>

#include <cmath>

namespace megagraph::planner {
namespace {

TEST(Fit, RelativeNnlsRecoversKnownCoefficients)
{
    const std::vector<double> truth{5000, 0.25, 0.003};
    std::vector<double> rows, y;
    for (const double n : {10.0, 100.0, 1000.0, 10000.0, 50000.0}) {
        rows.insert(rows.end(), {1, n, n * n});
        y.push_back(truth[0] + truth[1] * n + truth[2] * n * n);
    }
    const auto found = relativeNnls(rows, y, 3);
    for (size_t i = 0; i < 3; ++i)
        EXPECT_NEAR(found[i] / truth[i], 1, 1e-5) << i;
}

TEST(Fit, RelativeNnlsNeverGivesNegativeCoefficients)
{
    for (uint64_t seed = 0; seed < 50; ++seed) {
        std::vector<double> rows, y;
        for (uint64_t i = 0; i < 8; ++i) {
            for (uint64_t c = 0; c < 4; ++c)
                rows.push_back(drawUniform(seed, i, c) + 0.1);
            y.push_back(drawUniform(seed, 100 + i, 0) + 0.1);
        }
        const auto found = relativeNnls(rows, y, 4);
        double error = 0, zero = double(y.size());
        for (size_t i = 0; i < y.size(); ++i) {
            double fit = 0;
            for (size_t c = 0; c < 4; ++c) {
                EXPECT_GE(found[c], 0);
                fit += rows[i * 4 + c] * found[c];
            }
            error += (fit / y[i] - 1) * (fit / y[i] - 1);
        }
        EXPECT_LT(error, zero) << seed; // better than no model at all
        for (size_t c = 0; c < 4; ++c)  // no single coefficient can be moved to gain
            for (const double step : {0.99, 1.01}) {
                auto moved = found;
                moved[c] = moved[c] * step + (moved[c] == 0 ? 1e-3 * (step - 0.99) : 0);
                double other = 0;
                for (size_t i = 0; i < y.size(); ++i) {
                    double fit = 0;
                    for (size_t k = 0; k < 4; ++k)
                        fit += rows[i * 4 + k] * moved[k];
                    other += (fit / y[i] - 1) * (fit / y[i] - 1);
                }
                EXPECT_GE(other, error * (1 - 1e-9)) << seed << " " << c;
            }
    }
}

TEST(Fit, CurveGoesThroughItsPointsAndIsStraightInLogLog)
{
    const Curve curve({{1024, 10}, {4096, 40}, {65536, 640}});
    EXPECT_DOUBLE_EQ(curve.at(4096), 40);
    EXPECT_NEAR(curve.at(2048), 20, 1e-9);
    EXPECT_DOUBLE_EQ(curve.at(10), 10); // below the smallest: its time
    EXPECT_NEAR(curve.at(131072), 1280, 1e-6);
    EXPECT_EQ(curve.originAt(4096), Provenance::Measured);
    EXPECT_EQ(curve.originAt(5000), Provenance::Interpolated);
    EXPECT_EQ(curve.originAt(1e9), Provenance::Extrapolated);
    EXPECT_NEAR(curve.leaveOneOut().second, 0, 1e-9);
}

TEST(Fit, CurveIsMonotoneAlsoOnNoisyPoints)
{
    const Curve curve({{1, 10}, {2, 8}, {4, 30}, {8, 29}, {16, 60}});
    double before = 0;
    for (double x = 0.5; x < 40; x *= 1.1) {
        EXPECT_GE(curve.at(x), before);
        before = curve.at(x);
    }
    EXPECT_GT(curve.leaveOneOut().second, 0);
}

TEST(Fit, SlopeBeyondTheLastPointIsClamped)
{
    const Curve flat({{1000, 100}, {2000, 100}});
    EXPECT_NEAR(flat.at(4000), 100 * std::pow(2, 0.9), 1e-9);
    const Curve steep({{1000, 100}, {2000, 1000}});
    EXPECT_NEAR(steep.at(4000), 1000 * std::pow(2, 1.1), 1e-9);
}

TEST(Estimate, SumsKeepSharesAndHalfWidths)
{
    const Estimate a = estimateOf(300, Provenance::Measured, 0.02), b = estimateOf(100, Provenance::Assumed);
    const Estimate sum = a + b;
    EXPECT_EQ(sum.value, 400);
    EXPECT_EQ(sum.worst, Provenance::Assumed);
    EXPECT_FLOAT_EQ(sum.share[0], 0.75f);
    EXPECT_FLOAT_EQ(sum.share[4], 0.25f);
    EXPECT_NEAR(sum.halfWidth, 0.75 * 0.0329 + 0.25 * 0.5, 1e-9);
    EXPECT_EQ(larger(a, b).value, 300);
}

} // namespace
} // namespace megagraph::planner
