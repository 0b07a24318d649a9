// SPDX-License-Identifier: Apache-2.0
// Profiling mode of real workers: every kind of job is answered, with raw repeats and exact bytes.
#include "tests/runtime/worker_fixture.h"

#include "core/profile.h"

#include <algorithm>

namespace megagraph::test {
namespace {

ProfileJob job(const std::string& kind, std::map<std::string, std::string> key, std::map<std::string, double> x)
{
    ProfileJob job;
    job.kind = kind;
    job.key = std::move(key);
    job.x = std::move(x);
    job.seconds = 0.02;
    return job;
}

std::vector<ProfilePoint> pointsOf(const WorkerHome& home, const std::string& id)
{
    std::vector<ProfilePoint> points;
    for (const Json& line : home.lines(id, 0, "profile_point")) {
        auto point = profilePointFromJson(line["point"], "line", "point");
        EXPECT_TRUE(point.ok()) << (point.ok() ? "" : point.error().message);
        if (point.ok())
            points.push_back(*point);
    }
    return points;
}

TEST(WorkerProfile, AnswersEveryKindOfJobOnTwoRanks)
{
    const WorkerHome home;
    RunSpec run = home.run(1, 2, "profile");
    const std::vector<ProfileJob> one{
        job("memory", {{"what", "base"}}, {}),
        job("memory", {{"what", "state"}}, {}),
        job("memory", {{"what", "sequence"}, {"attention", "fused"}, {"exchange", "ring"}, {"ranks", "2"}}, {{"n", 150}}),
        job("collective", {{"op", "all_reduce"}, {"ranks", "2"}}, {{"bytes", 4096}}),
        job("collective", {{"op", "all_gather"}, {"ranks", "2"}}, {{"bytes", 4096}}),
        job("collective", {{"op", "reduce_scatter"}, {"ranks", "2"}}, {{"bytes", 4096}}),
        job("p2p", {{"op", "ring"}, {"ranks", "2"}}, {{"bytes", 4096}}),
        job("optimizer", {{"ranks", "1"}}, {{"parameters", 1000}}),
        job("host", {{"ranks", "2"}}, {})};
    const std::vector<ProfileJob> two{
        job("layer", {{"layer", "embed"}, {"exchange", "none"}, {"ranks", "2"}}, {{"n", 100}}),
        job("layer", {{"layer", "head"}, {"exchange", "none"}, {"ranks", "1"}}, {{"n", 100}}),
        job("layer", {{"layer", "block"}, {"recompute", "none"}, {"attention", "fused"}, {"exchange", "none"}, {"ranks", "1"}}, {{"n", 150}}),
        job("layer", {{"layer", "block"}, {"recompute", "block"}, {"attention", "fused"}, {"exchange", "ring"}, {"ranks", "2"}}, {{"n", 203}}),
        job("layer", {{"layer", "block"}, {"recompute", "none"}, {"attention", "materialised"}, {"exchange", "gather"}, {"ranks", "2"}}, {{"n", 203}}),
        job("attention", {{"path", "fused"}, {"bias", "lists"}}, {{"n_q", 64}, {"n_k", 200}}),
        job("attention", {{"path", "materialised"}, {"bias", "lists"}}, {{"n_q", 64}, {"n_k", 200}}),
        job("attention", {{"path", "edges"}, {"bias", "none"}}, {{"n_q", 64}, {"n_k", 200}}),
        job("attention", {{"path", "linear"}, {"bias", "none"}}, {{"n_q", 64}, {"n_k", 64}})};
    run.profileJobs = one;
    run.profileJobs.insert(run.profileJobs.end(), two.begin(), two.end());
    home.write("p", run, home.plan(WorkerHome::model(), 1, 2, Exchange::Ring));
    ASSERT_EQ(home.runAll("p", 2), (std::vector<int>{0, 0}));
    const auto points = pointsOf(home, "p");
    EXPECT_EQ(points.size(), one.size() + 2 * two.size());
    for (const ProfilePoint& point : points) {
        EXPECT_TRUE(point.status == "ok" || point.status == "unstable") << point.kind << " " << point.status;
        if (point.kind == "memory")
            EXPECT_GT(point.savedBytes, 0);
        else
            EXPECT_FALSE(point.repeats.empty()) << point.kind;
    }
    const auto saved = [&](const char* recompute, const char* exchange) {
        for (const ProfilePoint& p : points)
            if (p.kind == "layer" && p.key.at("layer") == "block" && p.key.at("recompute") == recompute &&
                p.key.at("exchange") == exchange && p.key.at("phase") == "forward")
                return p.savedBytes;
        return int64_t(-1);
    };
    EXPECT_GT(saved("none", "none"), 0);
    EXPECT_GT(saved("block", "ring"), 0);
    EXPECT_LT(saved("block", "ring"), saved("none", "gather")); // recomputation keeps less
    const auto constants = home.lines("p", 0, "profile_constant");
    ASSERT_EQ(constants.size(), 1u);
    EXPECT_EQ(constants[0]["name"], "process_base_bytes");
}

TEST(WorkerProfile, AJobThatDoesNotFitIsAPointOfItsOwnAndTheRestGoesOn)
{
    const WorkerHome home;
    ModelSpec model = WorkerHome::model();
    model.width = 64;
    model.heads = 32; // 5 MB a map of scores: the base of two processes differs by up to 1 MB
    RunSpec run = home.run(1, 1, "profile");
    run.profileJobs = {job("memory", {{"what", "base"}}, {})};
    home.write("probe", run, home.plan(model, 1, 1, Exchange::None));
    ASSERT_EQ(home.runAll("probe", 1), std::vector<int>{0});
    const auto base = int64_t(home.lines("probe", 0, "profile_constant").at(0)["value"].get<double>());
    run.profileJobs = {
        job("layer", {{"layer", "block"}, {"recompute", "none"}, {"attention", "materialised"}, {"exchange", "none"}, {"ranks", "1"}}, {{"n", 203}}),
        job("optimizer", {{"ranks", "1"}}, {{"parameters", 1000}})};
    home.write("small", run, home.plan(model, 1, 1, Exchange::None, base + (int64_t(8) << 20)));
    ASSERT_EQ(home.runAll("small", 1), std::vector<int>{0});
    const auto points = pointsOf(home, "small");
    ASSERT_EQ(points.size(), 2u);
    EXPECT_EQ(points[0].status, "oom");
    EXPECT_NE(points[1].status, "oom");
}

} // namespace
} // namespace megagraph::test
