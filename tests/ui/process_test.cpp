// SPDX-License-Identifier: Apache-2.0
// The studio's session with the real programs: from an empty home to a run that outlives the window.
#include "tests/ui/fixture.h"

#include <QFileInfo>

#include <gtest/gtest.h>

namespace megagraph::ui {
namespace {

TEST(StudioProcess, RunOutlivesTheWindowAndIsFoundAgain)
{
    const QString program = QStringLiteral(MEGAGRAPH_BIN_DIR "/megagraph");
    if (!QFileInfo::exists(program) || !QFileInfo::exists(QStringLiteral(MEGAGRAPH_BIN_DIR "/megagraph-worker")))
        GTEST_SKIP() << "megagraph and megagraph-worker are not built";
    Home home;
    Session::Options options = home.options();
    options.program = program;
    QString id;
    {
        Session session(options);
        QStringList problems;
        QObject::connect(&session, &Session::noticed, [&](const Notice& notice) { problems << notice.text; });
        session.openSample();
        ASSERT_TRUE(eventually([&] { return session.planState().phase == PlanPhase::Ready; }, 90000))
            << session.planState().text.toStdString() << problems.join(QLatin1Char('|')).toStdString();
        ASSERT_NE(session.focusRow(), nullptr);
        session.startRun(*session.focusRow(), false);
        ASSERT_TRUE(eventually([&] { return session.run() && session.run()->record().status.state == "running"; }, 60000))
            << problems.join(QLatin1Char('|')).toStdString();
        id = session.run()->id();
    }
    const std::string folder = (home.path() + QStringLiteral("/runs/") + id).toStdString();
    const auto after = readRunStatus(folder);
    ASSERT_TRUE(after.ok());
    EXPECT_TRUE(after->alive || after->state == "finished") << after->state << ": the run goes on without the window";
    Session again(options);
    again.refreshLibrary();
    ASSERT_TRUE(eventually([&] { return again.libraryLoaded(); }, 20000));
    if (!again.run())
        again.attach(id); // it was quick enough to finish before
    EXPECT_EQ(again.run()->id().toStdString(), id.toStdString());
    ASSERT_TRUE(eventually([&] { return again.run()->loaded(); }, 20000));
    again.stopRun();
    EXPECT_TRUE(eventually([&] { return again.run()->record().isFinal(); }, 60000)) << again.run()->record().status.state;
    EXPECT_TRUE(again.run()->record().status.state == "stopped" || again.run()->record().status.state == "finished")
        << again.run()->record().status.state;
    EXPECT_FALSE(again.run()->record().loss.step.empty());
}

} // namespace
} // namespace megagraph::ui
