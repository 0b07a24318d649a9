// SPDX-License-Identifier: Apache-2.0
// Positional encodings against dense solvers and dense matrix powers.
#include "core/random.h"
#include "kernels/encodings.h"

#include <Eigen/Dense>
#include <gtest/gtest.h>
#include <set>

namespace megagraph::kernels {
namespace {

using Edges = std::vector<std::pair<int32_t, int32_t>>;

Csr graphOf(int64_t nodes, const Edges& edges)
{
    std::vector<std::set<int32_t>> rows(static_cast<size_t>(nodes));
    for (const auto& [a, b] : edges) {
        rows[size_t(a)].insert(b);
        rows[size_t(b)].insert(a);
    }
    Csr out;
    out.indptr.push_back(0);
    for (const auto& row : rows) {
        out.indices.insert(out.indices.end(), row.begin(), row.end());
        out.indptr.push_back(int64_t(out.indices.size()));
    }
    return out;
}

/// Two components of different size, ten isolated nodes, one hub.
Csr someGraph(int64_t nodes, uint64_t seed)
{
    Edges edges;
    const int64_t first = nodes * 2 / 3, second = nodes - 10 - first;
    for (int64_t i = 1; i < first; ++i) {
        edges.push_back({int32_t(i), int32_t(drawBelow(seed, 1, uint64_t(i), uint64_t(i)))});
        edges.push_back({int32_t(i), int32_t((i * 17 + 5) % first)});
    }
    for (int64_t i = 1; i < second; ++i) {
        edges.push_back({int32_t(first + i), int32_t(first + int64_t(drawBelow(seed, 2, uint64_t(i), uint64_t(i))))});
        edges.push_back({int32_t(first), int32_t(first + i)});
    }
    std::erase_if(edges, [](const auto& e) { return e.first == e.second; });
    return graphOf(nodes, edges);
}

Eigen::MatrixXd laplacian(const Csr& graph)
{
    const int64_t n = graph.view().nodes;
    Eigen::MatrixXd out = Eigen::MatrixXd::Zero(n, n);
    for (int64_t v = 0; v < n; ++v) {
        const double dv = double(graph.indptr[size_t(v) + 1] - graph.indptr[size_t(v)]);
        out(v, v) = dv > 0 ? 1 : 0;
        for (int64_t e = graph.indptr[size_t(v)]; e < graph.indptr[size_t(v) + 1]; ++e) {
            const int64_t u = graph.indices[size_t(e)];
            out(v, u) -= 1 / std::sqrt(dv * double(graph.indptr[size_t(u) + 1] - graph.indptr[size_t(u)]));
        }
    }
    return out;
}

Eigen::MatrixXd columns(const LaplacianVectors& vectors)
{
    const int64_t n = int64_t(vectors.values.size()) / vectors.vectors;
    Eigen::MatrixXd out(n, vectors.vectors);
    for (int64_t v = 0; v < n; ++v)
        for (int64_t c = 0; c < vectors.vectors; ++c)
            out(v, c) = vectors.values[size_t(v * vectors.vectors + c)];
    return out;
}

TEST(LaplacianVectors, EqualTheSmallestNonZeroPairsOfADenseSolver)
{
    for (const int64_t n : {60, 700}) { // dense path and iteration
        const Csr graph = someGraph(n, 7);
        LaplacianOptions options;
        options.vectors = 8;
        const auto got = laplacianVectors(graph.view(), options, SerialFor(), {}, {});
        ASSERT_TRUE(got.ok()) << got.error().message;
        const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(laplacian(graph));
        const int64_t zeros = 2 + 10; // two components with edges, ten isolated nodes
        const Eigen::MatrixXd vectors = columns(*got);
        for (int64_t i = 0; i < 8; ++i) {
            EXPECT_NEAR(got->eigenvalues[size_t(i)], solver.eigenvalues()[zeros + i], 1e-8);
            EXPECT_LE(got->residuals[size_t(i)], 1e-5);
            EXPECT_NEAR(vectors.col(i).norm(), 1, 1e-5);
        }
        // subspace of all eight: robust against repeated values
        const Eigen::MatrixXd expected = solver.eigenvectors().middleCols(zeros, 8);
        const double gap = solver.eigenvalues()[zeros + 8] - solver.eigenvalues()[zeros + 7];
        if (gap > 1e-6) {
            const Eigen::MatrixXd overlap = expected.transpose() * vectors;
            EXPECT_NEAR((overlap.transpose() * overlap).trace(), 8, 1e-4);
        }
    }
}

TEST(LaplacianVectors, FindEveryCopyOfARepeatedEigenvalue)
{
    Edges edges; // five equal paths: every eigenvalue five times
    for (int32_t part = 0; part < 5; ++part)
        for (int32_t i = 0; i + 1 < 80; ++i)
            edges.push_back({part * 80 + i, part * 80 + i + 1});
    LaplacianOptions options;
    options.vectors = 7;
    const auto got = laplacianVectors(graphOf(400, edges).view(), options, SerialFor(), {}, {});
    ASSERT_TRUE(got.ok()) << got.error().message;
    for (int i = 1; i < 5; ++i)
        EXPECT_NEAR(got->eigenvalues[0], got->eigenvalues[size_t(i)], 1e-7);
    EXPECT_GT(got->eigenvalues[5], got->eigenvalues[0] + 1e-4);
    EXPECT_NEAR(got->eigenvalues[5], got->eigenvalues[6], 1e-7);
    EXPECT_TRUE(got->notUnique[0]);
}

TEST(LaplacianVectors, PadWithZerosAndLeaveIsolatedNodesAtZero)
{
    LaplacianOptions options;
    options.vectors = 6;
    const auto small = laplacianVectors(graphOf(5, {{0, 1}, {1, 2}}).view(), options, SerialFor(), {}, {});
    ASSERT_TRUE(small.ok());
    const Eigen::MatrixXd vectors = columns(*small);
    EXPECT_NEAR(vectors.leftCols(2).norm(), std::sqrt(2.0), 1e-6); // a path of three has two non-zero eigenvalues
    EXPECT_EQ(vectors.rightCols(4).norm(), 0);
    EXPECT_EQ(vectors.bottomRows(2).norm(), 0);
    const auto none = laplacianVectors(graphOf(4, {}).view(), options, SerialFor(), {}, {});
    ASSERT_TRUE(none.ok());
    EXPECT_EQ(columns(*none).norm(), 0);
}

TEST(LaplacianVectors, KeepTheirSignWhenNodesAreRenumbered)
{
    const Csr graph = someGraph(500, 3);
    std::vector<int32_t> order(500);
    for (int32_t t = 0; t < 500; ++t)
        order[size_t(t)] = int32_t((int64_t(t) * 171 + 4) % 500); // 171 and 500 share no factor
    LaplacianOptions options;
    options.vectors = 5;
    const auto plain = laplacianVectors(graph.view(), options, SerialFor(), {}, {});
    options.ids = order;
    const auto moved = laplacianVectors(permute(graph.view(), order).view(), options, ForkJoinFor(2), {}, {});
    ASSERT_TRUE(plain.ok() && moved.ok());
    const Eigen::MatrixXd a = columns(*plain), b = columns(*moved);
    for (int64_t c = 0; c < 5; ++c) {
        if (plain->notUnique[size_t(c)])
            continue;
        double difference = 0;
        for (int64_t t = 0; t < 500; ++t)
            difference += std::pow(b(t, c) - a(order[size_t(t)], c), 2);
        EXPECT_LT(std::sqrt(difference), 1e-3) << "column " << c;
    }
}

/// Largest angle between the spaces of two sets of orthonormal columns, as a sine.
double spaceAngle(const Eigen::MatrixXd& a, const Eigen::MatrixXd& b)
{
    const Eigen::VectorXd cosines = (a.transpose() * b).jacobiSvd().singularValues();
    return std::sqrt(std::max(0.0, 1 - cosines.minCoeff() * cosines.minCoeff()));
}

TEST(LaplacianVectors, SpanTheSameSpacesAfterRenumbering)
{
    // five equal paths (every eigenvalue five times) beside a long one, whose eigenvalues are single
    const int64_t paths = 5 * 60, n = paths + 403; // 703 = 19 * 37
    Edges edges;
    for (int32_t part = 0; part < 5; ++part) {
        for (int32_t i = 0; i + 1 < 60; ++i)
            edges.push_back({part * 60 + i, part * 60 + i + 1});
    }
    for (int64_t i = 1; i < n - paths; ++i)
        edges.push_back({int32_t(paths + i), int32_t(paths + i - 1)});
    edges.push_back({int32_t(paths + 20), int32_t(paths + 60)}); // no symmetry left
    const Csr graph = graphOf(n, edges);
    std::vector<int32_t> order(static_cast<size_t>(n));
    for (int64_t t = 0; t < n; ++t)
        order[size_t(t)] = int32_t((t * 150 + 4) % n); // 150 and 703 share no factor
    LaplacianOptions options;
    options.vectors = 14;
    const auto plain = laplacianVectors(graph.view(), options, SerialFor(), {}, {});
    options.ids = order;
    options.seed = 77; // another start vector, too
    const auto moved = laplacianVectors(permute(graph.view(), order).view(), options, ForkJoinFor(2), {}, {});
    ASSERT_TRUE(plain.ok() && moved.ok());
    const Eigen::MatrixXd a = columns(*plain), turned = columns(*moved);
    Eigen::MatrixXd b(n, 14);
    for (int64_t t = 0; t < n; ++t)
        b.row(order[size_t(t)]) = turned.row(t);
    int spaces = 0, single = 0;
    for (int64_t first = 0; first < 14;) {
        int64_t last = first + 1;
        while (last < 14 && plain->eigenvalues[size_t(last)] - plain->eigenvalues[size_t(last) - 1] < 1e-6)
            ++last;
        const int64_t size = last - first;
        if (last == 14 && plain->notUnique[13])
            break; // the space goes on behind the fourteenth vector
        EXPECT_LT(spaceAngle(a.middleCols(first, size), b.middleCols(first, size)), 2e-3) << "columns " << first << " to " << last - 1;
        EXPECT_NEAR(moved->eigenvalues[size_t(first)], plain->eigenvalues[size_t(first)], 1e-8);
        EXPECT_EQ(plain->notUnique[size_t(first)], size > 1);
        if (size == 1) {
            EXPECT_LT((a.col(first) - b.col(first)).norm(), 1e-3) << "the sign rule follows the ids";
        }
        spaces += size > 1;
        single += size == 1;
        first = last;
    }
    EXPECT_GT(spaces, 0);
    EXPECT_GT(single, 0);
}

TEST(LaplacianVectors, StopWhenAskedAndRefuseANegativeCount)
{
    std::stop_source source;
    source.request_stop();
    LaplacianOptions options;
    EXPECT_EQ(laplacianVectors(someGraph(400, 1).view(), options, SerialFor(), {}, source.get_token()).error().code, ErrorCode::Cancelled);
    options.vectors = -1;
    EXPECT_EQ(laplacianVectors(someGraph(400, 1).view(), options, SerialFor(), {}, {}).error().code, ErrorCode::InvalidInput);
}

TEST(WalkReturn, EqualsPowersOfTheTransitionMatrix)
{
    const Csr graph = someGraph(150, 5);
    const int64_t n = 150, steps = 7;
    Eigen::MatrixXd step = Eigen::MatrixXd::Zero(n, n);
    for (int64_t v = 0; v < n; ++v)
        for (int64_t e = graph.indptr[size_t(v)]; e < graph.indptr[size_t(v) + 1]; ++e)
            step(v, graph.indices[size_t(e)]) = 1.0 / double(graph.indptr[size_t(v) + 1] - graph.indptr[size_t(v)]);
    const auto got = randomWalkReturn(graph.view(), steps, 1, 1000, 2e12, ForkJoinFor(2), {}, {});
    const auto sampled = randomWalkReturn(graph.view(), steps, 1, 4000, 0, ForkJoinFor(2), {}, {});
    ASSERT_TRUE(got.ok() && sampled.ok());
    EXPECT_TRUE(got->standardError.empty());
    Eigen::MatrixXd power = Eigen::MatrixXd::Identity(n, n);
    int64_t outside = 0;
    for (int64_t t = 0; t < steps; ++t) {
        power = power * step;
        for (int64_t v = 0; v < n; ++v) {
            const size_t at = size_t(v * steps + t);
            EXPECT_NEAR(got->values[at], power(v, v), 1e-6);
            const double deviation = std::sqrt(power(v, v) * (1 - power(v, v)) / 4000);
            outside += std::abs(sampled->values[at] - power(v, v)) > 4 * deviation + 1e-7;
        }
    }
    EXPECT_LE(outside, 2); // 1,050 values, 4 sigma
}

TEST(Degrees, ClampAtTheLastBucket)
{
    Edges hub;
    for (int32_t i = 1; i <= 10000; ++i)
        hub.push_back({0, i});
    const auto degrees = clampedDegrees(graphOf(10002, hub).view());
    EXPECT_EQ(degrees[0], 511);
    EXPECT_EQ(degrees[1], 1);
    EXPECT_EQ(degrees[10001], 0);
}

} // namespace
} // namespace megagraph::kernels
