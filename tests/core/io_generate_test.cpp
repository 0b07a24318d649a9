// SPDX-License-Identifier: Apache-2.0
// Generators: counts, hash constants, and that the sample needs its graph (data design, section 10).
#include "core/io/dataset.h"
#include "core/io/generate.h"
#include "tests/core/io_support.h"

#include <cmath>
#include <numeric>

namespace megagraph::test {
namespace {

Result<ImportReport> generated(const Scratch& scratch, const std::string& name, const GenerateOptions& options)
{
    ImportOptions store;
    store.name = name;
    const ImportRun run{store, {}, {}};
    auto graph = generateGraph(options);
    if (!graph)
        return graph.error();
    return storeGraph(std::move(*graph), run, scratch.home());
}

using Matrix = std::vector<std::vector<double>>;

Matrix denseRows(const Dataset& set)
{
    const auto width = static_cast<size_t>(set.spec().featureWidth);
    Matrix rows(static_cast<size_t>(set.nodes()), std::vector<double>(width + 1, 1.0)); // last column: constant
    for (size_t i = 0; i < rows.size(); ++i)
        for (size_t f = 0; f < width; ++f)
            rows[i][f] = set.denseFeatures()[i * width + f];
    return rows;
}

/// Mean over a node and its neighbours.
Matrix smoothed(const Dataset& set, const Matrix& rows)
{
    Matrix out = rows;
    for (size_t i = 0; i < rows.size(); ++i) {
        for (int64_t e = set.indptr()[i]; e < set.indptr()[i + 1]; ++e)
            for (size_t f = 0; f < rows[i].size(); ++f)
                out[i][f] += rows[static_cast<size_t>(set.indices()[static_cast<size_t>(e)])][f];
        for (double& value : out[i])
            value /= static_cast<double>(set.indptr()[i + 1] - set.indptr()[i] + 1);
    }
    return out;
}

/// Solves A x = b for symmetric positive A by elimination, for all right sides.
void solve(Matrix& a, Matrix& b)
{
    const size_t n = a.size();
    for (size_t k = 0; k < n; ++k)
        for (size_t i = k + 1; i < n; ++i) {
            const double factor = a[i][k] / a[k][k];
            for (size_t j = k; j < n; ++j)
                a[i][j] -= factor * a[k][j];
            for (size_t j = 0; j < b[i].size(); ++j)
                b[i][j] -= factor * b[k][j];
        }
    for (size_t k = n; k-- > 0;)
        for (size_t j = 0; j < b[k].size(); ++j) {
            for (size_t i = k + 1; i < n; ++i)
                b[k][j] -= a[k][i] * b[i][j];
            b[k][j] /= a[k][k];
        }
}

/// Test accuracy of ridge regression onto one-hot classes, fitted on the training part.
double linearAccuracy(const Dataset& set, const Matrix& rows)
{
    const size_t width = rows[0].size(), classes = set.spec().classes.size();
    Matrix gram(width, std::vector<double>(width, 0)), right(width, std::vector<double>(classes, 0));
    const auto bits = *set.split("");
    for (size_t i = 0; i < rows.size(); ++i) {
        if (!(bits[i] & 1))
            continue;
        for (size_t f = 0; f < width; ++f) {
            right[f][static_cast<size_t>(set.classLabels()[i])] += rows[i][f];
            for (size_t g = 0; g < width; ++g)
                gram[f][g] += rows[i][f] * rows[i][g];
        }
    }
    for (size_t f = 0; f < width; ++f)
        gram[f][f] += 1.0;
    solve(gram, right);
    int64_t hit = 0, all = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
        if (!(bits[i] & 4))
            continue;
        std::vector<double> score(classes, 0);
        for (size_t f = 0; f < width; ++f)
            for (size_t c = 0; c < classes; ++c)
                score[c] += rows[i][f] * right[f][c];
        hit += std::max_element(score.begin(), score.end()) - score.begin() == set.classLabels()[i];
        ++all;
    }
    return static_cast<double>(hit) / static_cast<double>(all);
}

TEST(Community, SampleNeedsItsGraph)
{
    const Scratch scratch;
    double low = 1, high = 0, lowest = 1;
    for (uint64_t seed = 0; seed < 10; ++seed) {
        GenerateOptions options;
        options.seed = seed;
        const auto made = generated(scratch, "s" + std::to_string(seed), options);
        ASSERT_TRUE(made.ok()) << made.error().message;
        const auto set = Dataset::open(made->folder);
        ASSERT_TRUE(set.ok());
        const Matrix rows = denseRows(*set);
        const double plain = linearAccuracy(*set, rows), twice = linearAccuracy(*set, smoothed(*set, smoothed(*set, rows)));
        std::cout << "seed " << seed << ": linear on features " << plain << ", on twice-smoothed features " << twice << "\n";
        EXPECT_GE(plain, 0.35) << "seed " << seed;
        EXPECT_LE(plain, 0.52) << "seed " << seed;
        EXPECT_GE(twice, 0.90) << "seed " << seed;
        low = std::min(low, plain);
        high = std::max(high, plain);
        lowest = std::min(lowest, twice);
    }
    std::cout << "ten seeds: features " << low << ".." << high << ", smoothed at least " << lowest << "\n";
}

TEST(Community, SampleHasTheStatedShape)
{
    const Scratch scratch;
    const auto made = generated(scratch, "sample", {});
    ASSERT_TRUE(made.ok()) << made.error().message;
    const DatasetSpec& spec = made->spec;
    EXPECT_EQ(spec.nodes, 2003);
    EXPECT_EQ(spec.undirectedEdges, 2003 * 6);
    EXPECT_EQ(spec.isolatedNodes, 20);
    EXPECT_EQ(spec.classes.size(), 7u);
    EXPECT_EQ(spec.featureWidth, 32);
    EXPECT_EQ(spec.nodes - spec.labelledItems, 100);
    EXPECT_EQ(spec.splits[0].name, "random:60/20/20:0");
    EXPECT_EQ(spec.splits[0].none, 100);
    EXPECT_NEAR(static_cast<double>(spec.splits[0].train), 0.6 * 1903, 7);
    EXPECT_GE(made->document["largest_degree"].get<int64_t>(), 60); // heavy tail: five times the mean
    const auto set = Dataset::open(made->folder);
    ASSERT_TRUE(set.ok());
    int64_t inside = 0, known = 0;
    for (size_t r = 0; r < static_cast<size_t>(set->nodes()); ++r)
        for (int64_t e = set->indptr()[r]; e < set->indptr()[r + 1]; ++e) {
            const int32_t a = set->classLabels()[r], b = set->classLabels()[static_cast<size_t>(set->indices()[static_cast<size_t>(e)])];
            known += a >= 0 && b >= 0;
            inside += a >= 0 && a == b;
        }
    EXPECT_NEAR(static_cast<double>(inside) / static_cast<double>(known), 0.6, 0.06);
}

TEST(Community, SampleHasTheSameHashOnEveryMachine)
{
    const Scratch scratch;
    const auto made = generated(scratch, "sample", {});
    ASSERT_TRUE(made.ok()) << made.error().message;
    EXPECT_EQ(made->spec.contentHash, "fc6bff3e91e9a9ed47ddedc4fc82bf77c8efe6ce6d17a2dd547ec4944e98bd5c");
    EXPECT_EQ(made->spec.structureHash, "6b217623c55e0ef37bd0ae398715de6584ad9de8f69932e0acb0686178b7dfc0");
    GenerateOptions other;
    other.seed = 1;
    const auto again = generated(scratch, "other", other);
    ASSERT_TRUE(again.ok());
    EXPECT_NE(again->spec.structureHash, made->spec.structureHash);
}

TEST(OtherKinds, HaveTheCountsOfTheirDefinition)
{
    const Scratch scratch;
    GenerateOptions grid{.kind = "grid", .communities = 4, .rows = 5, .columns = 7};
    EXPECT_EQ(generated(scratch, "grid", grid)->spec.undirectedEdges, 5 * 6 + 4 * 7);
    grid.torus = true;
    EXPECT_EQ(generated(scratch, "torus", grid)->spec.undirectedEdges, 2 * 35);
    const auto path = generated(scratch, "path", {.kind = "path", .nodes = 100});
    EXPECT_EQ(path->spec.undirectedEdges, 99);
    EXPECT_EQ(path->spec.components, 1);
    EXPECT_EQ(path->spec.classes.size(), 7u);
    const auto star = generated(scratch, "star", {.kind = "star", .leaves = 10000});
    EXPECT_EQ(star->spec.nodes, 10001);
    EXPECT_EQ(star->document["largest_degree"], 10000);
    EXPECT_EQ(star->spec.classes, (std::vector<std::string>{"0", "1"}));
    const auto rmat = generated(scratch, "rmat", {.kind = "rmat", .scale = 10});
    EXPECT_EQ(rmat->spec.nodes, 1024);
    EXPECT_EQ(rmat->document["lines"], 16 * 1024);
    EXPECT_GT(rmat->document["repeated_lines"].get<int64_t>(), 100);
    EXPECT_GT(rmat->document["largest_degree"].get<int64_t>(), 200); // mean is below 32
}

TEST(OtherKinds, StarLabelsAreTheParityOfTheFeature)
{
    const Scratch scratch;
    const auto set = Dataset::open(generated(scratch, "star", {.kind = "star", .leaves = 50})->folder);
    ASSERT_TRUE(set.ok());
    ASSERT_EQ(set->denseFeatures().size(), 51u);
    for (size_t i = 0; i < 51; ++i)
        EXPECT_EQ(static_cast<int32_t>(set->denseFeatures()[i]) % 2, set->classLabels()[i]);
}

TEST(OtherKinds, BadOptionsNameOptionValueAndRange)
{
    const auto refused = [](GenerateOptions options, const char* piece) {
        const auto result = generateGraph(options);
        ASSERT_FALSE(result.ok());
        EXPECT_EQ(result.error().code, ErrorCode::Usage);
        EXPECT_NE(result.error().message.find(piece), std::string::npos) << result.error().message;
    };
    refused({.kind = "ring"}, "got ring, expected one of community");
    refused({.nodes = 5}, "--nodes: out of range, got 5");
    refused({.communities = 1}, "--communities");
    refused({.inside = 101}, "--inside");
    refused({.kind = "rmat", .scale = 60}, "--scale");
}

} // namespace
} // namespace megagraph::test
