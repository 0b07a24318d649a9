// SPDX-License-Identifier: Apache-2.0
#include "core/event.h"
#include "tests/ui/fixture.h"
#include "ui/pages/run_page.h"

#include <QFile>
#include <QPlainTextEdit>

#include <gtest/gtest.h>

namespace megagraph::ui {
namespace {

std::vector<Json> events()
{
    const auto at = [](Json fields) {
        Json all{{"utc", "2026-01-05T10:11:12.345Z"}, {"mono_s", 0.1}, {"attempt", 1}};
        all.update(fields);
        return all;
    };
    return {at({{"kind", "run.created"}, {"journal_version", 1}, {"id", "20260105-101112-a1b2c3"}}),
            at({{"kind", "preflight"}, {"check", "C4"}, {"verdict", "warn"}, {"got", "1.9 GiB"}, {"expected", "2.0 GiB"}, {"hint", "close programs"}}),
            at({{"kind", "attempt.start"}, {"world", 2}, {"resume_step", 0}}),
            at({{"kind", "rank.ready"}, {"rank", 0}, {"base_bytes", 1000}}),
            at({{"kind", "run.state"}, {"from", "starting"}, {"to", "running"}, {"reason", ""}}),
            at({{"kind", "eval"}, {"step", 1}, {"split", "valid"}, {"metric", "accuracy"}, {"value", 0.25}}),
            at({{"kind", "eval"}, {"step", 2}, {"split", "valid"}, {"metric", "accuracy"}, {"value", 0.5}}),
            at({{"kind", "best"}, {"step", 2}, {"valid", 0.5}, {"test", 0.45}, {"train_loss", 1.2}}),
            at({{"kind", "checkpoint.committed"}, {"step", 2}, {"bytes", 4096}})};
}

std::vector<Json> samples()
{
    Json memory{{"kind", "memory"}, {"rank", 0}, {"allocated_bytes", 500}, {"peak_bytes", 900}};
    for (int c = 0; c < kMemoryCategories; ++c)
        memory[std::string(memoryCategoryName(MemoryCategory(c))) + "_bytes"] = 10 * (c + 1);
    return {{{"kind", "step"}, {"step_from", 0}, {"step_to", 3}, {"loss", {2.0, 1.5, "nan"}}, {"lr", {0.1, 0.1, 0.1}}, {"step_s", {0.2, 0.04, 0.05}}}, memory};
}

Json status(const std::string& state, int64_t step)
{
    return {{"state", state}, {"step", step}, {"steps", 80}, {"loss", 1.5}, {"step_s", 0.05}, {"eta_s", 3.0}, {"last_commit_step", 2}, {"journal_seq", 9}, {"utc", "2026-01-05T10:11:13.000Z"}};
}

TEST(RunRecord, GathersSeriesMemoryChecksAndCheckpoints)
{
    RunRecord record;
    for (const Json& event : events())
        record.applyEvent(event);
    for (const Json& sample : samples())
        record.applySample(sample);
    EXPECT_EQ(record.status.state, "running");
    EXPECT_EQ(record.loss.step, (std::vector<double>{0, 1, 2}));
    EXPECT_EQ(record.loss.value[1], 1.5);
    EXPECT_TRUE(std::isnan(record.loss.value[2])) << "a value that is not finite is a gap, not a point";
    EXPECT_EQ(record.measuredStepMs(), 50.0);
    EXPECT_EQ(record.validMetric.value.back(), 0.5);
    EXPECT_EQ(record.bestStep, 2);
    ASSERT_EQ(record.preflight.size(), 1u);
    EXPECT_EQ(record.preflight[0].verdict, "warn");
    ASSERT_EQ(record.ranks.size(), 1u);
    EXPECT_EQ(record.ranks[0].categories[size_t(MemoryCategory::Gradients)], 20);
    EXPECT_EQ(record.ranks[0].peakBytes, 900);
    ASSERT_EQ(record.checkpoints.size(), 1u);
}

TEST(RunRecord, DropsRepeatedStepsOfAnEarlierAttempt)
{
    RunRecord record;
    for (const Json& sample : samples())
        record.applySample(sample);
    record.applyEvent({{"kind", "attempt.start"}, {"attempt", 2}, {"world", 2}, {"resume_step", 1}});
    EXPECT_EQ(record.loss.step, std::vector<double>{0});
    record.applySample({{"kind", "step"}, {"step_from", 1}, {"step_to", 2}, {"loss", {1.4}}, {"step_s", {0.04}}});
    EXPECT_EQ(record.loss.value, (std::vector<double>{2.0, 1.4}));
}

TEST(RunRecord, SkipsAndCountsKindsItDoesNotKnow)
{
    RunRecord record;
    record.applyEvent({{"kind", "something.new"}, {"x", 1}});
    record.applySample({{"kind", "gpu"}});
    EXPECT_EQ(record.unknownLines, 2);
}

class RunPageTest : public ::testing::Test {
  protected:
    RunPageTest() : session_(home_.options()) {}
    void watch(const QString& id)
    {
        session_.attach(id);
        ASSERT_TRUE(eventually([this] { return session_.run()->loaded(); })) << session_.run()->record().problem;
    }
    Home home_;
    Session session_;
};

TEST_F(RunPageTest, ShowsARunFromItsDirectoryAlone)
{
    const QString id = home_.writeRun(QStringLiteral("20260105-101112-a1b2c3"), events(), samples(), status("finished", 80));
    RunPage page(session_);
    page.resize(1150, 720);
    page.show();
    watch(id);
    QStringList texts;
    for (const QLabel* label : page.findChildren<QLabel*>())
        if (label->isVisibleTo(&page))
            texts << label->text();
    const std::string all = texts.join(QStringLiteral(" | ")).toStdString();
    EXPECT_TRUE(texts.contains(QStringLiteral("step 80 of 80"))) << all;
    EXPECT_TRUE(texts.contains(QStringLiteral("50.0\u00A0%"))) << all;
    EXPECT_TRUE(texts.contains(QStringLiteral("50.0\u00A0ms"))) << all;
    const auto* log = page.findChild<QPlainTextEdit*>();
    EXPECT_TRUE(log->toPlainText().contains(QStringLiteral("second <b>line</b>"))) << "markup is shown, not obeyed";
}

TEST_F(RunPageTest, CallsARunLostWhenItsSupervisorIsGone)
{
    watch(home_.writeRun(QStringLiteral("20260105-101112-000001"), events(), samples(), status("running", 3)));
    ASSERT_TRUE(eventually([this] { return session_.run()->record().status.state == "lost"; })) << session_.run()->record().status.state;
    EXPECT_TRUE(session_.run()->record().isFinal());
}

TEST_F(RunPageTest, ReadsWhatIsAppendedWhileItWatches)
{
    const QString id = home_.writeRun(QStringLiteral("20260105-101112-000002"), events(), samples(), status("running", 3));
    watch(id);
    const size_t before = session_.run()->record().loss.step.size();
    QFile metrics(home_.path() + QStringLiteral("/runs/") + id + QStringLiteral("/metrics.jsonl"));
    ASSERT_TRUE(metrics.open(QIODevice::Append));
    metrics.write(encodeLine({{"kind", "step"}, {"step_from", 3}, {"step_to", 4}, {"loss", {1.1}}, {"step_s", {0.05}}}).c_str());
    metrics.close();
    EXPECT_TRUE(eventually([&] { return session_.run()->record().loss.step.size() == before + 1; }));
}

TEST_F(RunPageTest, SaysSoWhenTheRunDirectoryIsGone)
{
    watch(QStringLiteral("20990101-000000-ffffff"));
    EXPECT_NE(session_.run()->record().problem.find("not found"), std::string::npos);
}

} // namespace
} // namespace megagraph::ui
