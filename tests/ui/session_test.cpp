// SPDX-License-Identifier: Apache-2.0
#include "tests/ui/fixture.h"

#include "core/json.h"
#include "ui/session/project_file.h"

#include <QFileInfo>
#include <QSignalSpy>

#include <gtest/gtest.h>

namespace megagraph::ui {
namespace {

TEST(Lane, DropsTheResultOfAnOlderTaskWhenTheLatestWins)
{
    Lane lane(QStringLiteral("test"), Lane::Order::LatestWins);
    QObject receiver;
    QList<int> delivered;
    for (int i = 0; i < 5; ++i)
        lane.post(&receiver, [i](std::stop_token) { return i; }, [&](int value) { delivered << value; });
    ASSERT_TRUE(eventually([&] { return !lane.busy(); }));
    EXPECT_EQ(delivered, QList<int>{4});
}

TEST(Lane, DeliversInOrderAndNotToADeadReceiver)
{
    Lane lane(QStringLiteral("test"), Lane::Order::InOrder);
    QObject alive;
    auto dead = std::make_unique<QObject>();
    QList<int> delivered;
    for (int i = 0; i < 3; ++i)
        lane.post(&alive, [i](std::stop_token) { return i; }, [&](int value) { delivered << value; });
    lane.post(dead.get(), [](std::stop_token) { return 9; }, [&](int value) { delivered << value; });
    dead.reset();
    ASSERT_TRUE(eventually([&] { return !lane.busy(); }));
    EXPECT_EQ(delivered, (QList<int>{0, 1, 2}));
}

TEST(ShellLine, QuotesWhatAShellWouldRead)
{
    EXPECT_EQ(shellLine({QStringLiteral("megagraph"), QStringLiteral("plan"), QStringLiteral("a b"), QStringLiteral("it's"), QString()}).toStdString(),
              "megagraph plan 'a b' 'it'\\''s' ''");
}

TEST(Session, SelectsByPlanIdAndKeepsItAcrossTables)
{
    Home home;
    Session session(home.options());
    session.setTable(exampleTable());
    ASSERT_NE(session.focusRow(), nullptr);
    EXPECT_EQ(session.focusRow()->plan.name, "E+2B+H:r2 | m1 fp32 fused lists") << "the picked plan is in focus at first";
    const uint64_t other = session.table()->rows[1].id;
    session.setFocus(other);
    session.togglePin(other);
    auto table = std::make_shared<planner::PlanTable>(*exampleTable());
    std::reverse(table->rows.begin(), table->rows.end());
    table->picked = 0;
    session.setTable(table);
    EXPECT_EQ(session.focus(), other);
    EXPECT_EQ(session.pinLetter(other).toStdString(), "A");
    EXPECT_EQ(session.focusRow()->plan.name, "E+2B+H:d2 | m2 fp32 fused lists");
}

TEST(Session, PinsAtMostEightPlansAndSaysSo)
{
    Home home;
    Session session(home.options());
    QStringList said;
    QObject::connect(&session, &Session::noticed, [&](const Notice& notice) { said << notice.text; });
    for (uint64_t id = 1; id <= 9; ++id)
        session.togglePin(id);
    EXPECT_EQ(session.pinLetter(8).toStdString(), "H");
    EXPECT_TRUE(session.pinLetter(9).isEmpty());
    EXPECT_EQ(said.size(), 1);
}

TEST(Session, NamesPicksOnlyAmongPlansThatFitAndRun)
{
    Home home;
    Session session(home.options());
    session.setTable(exampleTable());
    const auto picks = session.picks();
    ASSERT_EQ(picks.size(), 4u);
    EXPECT_EQ(session.rowOf(picks[0].id)->plan.name, "E+2B+H:r2 | m1 fp32 fused lists");
    for (const auto& pick : picks)
        EXPECT_TRUE(session.rowOf(pick.id)->feasible) << pick.name.toStdString();
}

TEST(Session, SaysWhatIsMissingBeforeThereIsAProject)
{
    Home home;
    Session session(home.options());
    session.replan();
    EXPECT_EQ(session.planState().phase, PlanPhase::Missing);
    EXPECT_TRUE(session.planState().text.contains(QStringLiteral("sample")));
}

TEST(Session, WritesAProjectThatOpensAgainWithTheSameScenario)
{
    Home home;
    const QString path = home.path() + QStringLiteral("/projects/p/p.megagraph");
    {
        Session session(home.options());
        session.newProject(path, QStringLiteral("sample"), QStringLiteral("graphormer-sample"));
        session.setRanks(4);
        session.setBudget(int64_t(1) << 30);
        session.saveProject();
        ASSERT_TRUE(eventually([&] { return QFileInfo::exists(path); }));
        ASSERT_TRUE(eventually([&] { return loadProject(path.toStdString()).ok() && loadProject(path.toStdString())->scenario.constraints.ranks == 4; }));
    }
    Session again(home.options());
    again.openProject(path);
    ASSERT_TRUE(eventually([&] { return again.hasProject(); })) << again.projectProblem().toStdString();
    EXPECT_EQ(again.scenario().dataset.toStdString(), "sample");
    EXPECT_EQ(again.scenario().constraints.ranks, 4);
    EXPECT_EQ(again.scenario().constraints.budgetBytes, int64_t(1) << 30);
    EXPECT_EQ(shellLine(again.planCommand()).toStdString(),
              "megagraph plan --data sample --model graphormer-sample --ranks 4 --budget 1073741824 --json");
}

TEST(Session, LeavesABrokenProjectUntouchedAndNamesTheFault)
{
    Home home;
    home.write(QStringLiteral("bad.megagraph"), "{\"format\":\"megagraph.project\",\"version\":1,\"dataset\":3}");
    Session session(home.options());
    session.openProject(home.path() + QStringLiteral("/bad.megagraph"));
    ASSERT_TRUE(eventually([&] { return !session.projectProblem().isEmpty(); }));
    EXPECT_TRUE(session.projectProblem().contains(QStringLiteral("dataset"))) << session.projectProblem().toStdString();
    EXPECT_FALSE(session.hasProject());
}

TEST(Session, ExplainsAJobThatCannotStart)
{
    Home home;
    Session session(home.options()); // no program
    session.checkMachine();
    ASSERT_TRUE(eventually([&] { return !session.checkingMachine(); }));
    EXPECT_TRUE(session.machineProblem().contains(QStringLiteral("program not found")));
}

TEST(JobRunner, ReadsProgressLinesAndTheDocument)
{
    Home home;
    JobRunner jobs(QStringLiteral("/bin/sh"), home.path());
    QString progress, output;
    std::optional<Json> document;
    Job* job = jobs.start(QStringLiteral("scripted"), {QStringLiteral("-c"), QStringLiteral("echo '{\"what\":\"rows\",\"done\":3,\"total\":7}' >&2; echo '{\"a\":1}'")},
                          [&](const Job& ended) {
                              document = ended.document();
                              progress = QStringLiteral("%1 %2/%3").arg(ended.progressText()).arg(ended.done()).arg(ended.total());
                          });
    ASSERT_NE(job, nullptr);
    ASSERT_TRUE(eventually([&] { return jobs.running().isEmpty(); }));
    EXPECT_EQ(progress.toStdString(), "rows 3/7");
    ASSERT_TRUE(document.has_value());
    EXPECT_EQ((*document)["a"], 1);
}

TEST(JobRunner, TakesTheMessageOfAnErrorDocumentAndTheCode)
{
    Home home;
    JobRunner jobs(QStringLiteral("/bin/sh"), home.path());
    QString message;
    int code = 0;
    jobs.start(QStringLiteral("scripted"), {QStringLiteral("-c"), QStringLiteral("echo '{\"error\":{\"code\":\"NotFound\",\"message\":\"cora: no such data set\"}}'; exit 4")},
               [&](const Job& ended) {
                   message = ended.message();
                   code = ended.exitCode();
               });
    ASSERT_TRUE(eventually([&] { return jobs.running().isEmpty(); }));
    EXPECT_EQ(message.toStdString(), "cora: no such data set");
    EXPECT_EQ(code, 4);
}

TEST(JobRunner, CancelsAChildThatIgnoresThePoliteRequest)
{
    Home home;
    JobRunner jobs(QStringLiteral("/bin/sh"), home.path());
    Job::State state = Job::State::Running;
    Job* job = jobs.start(QStringLiteral("stubborn"), {QStringLiteral("-c"), QStringLiteral("trap '' TERM; while :; do sleep 0.1; done")},
                          [&](const Job& ended) { state = ended.state(); });
    job->cancel();
    ASSERT_TRUE(eventually([&] { return jobs.running().isEmpty(); }));
    EXPECT_EQ(state, Job::State::Cancelled);
}

} // namespace
} // namespace megagraph::ui
