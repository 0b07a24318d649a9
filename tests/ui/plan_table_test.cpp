// SPDX-License-Identifier: Apache-2.0
#include "tests/ui/fixture.h"
#include "ui/models/plan_table_model.h"
#include "ui/widgets/trade_off_plot.h"

#include <QAbstractItemModelTester>

#include <gtest/gtest.h>

namespace megagraph::ui {
namespace {

class PlanTable : public ::testing::Test {
  protected:
    PlanTable() : session_(home_.options()), model_(session_), tester_(&model_, QAbstractItemModelTester::FailureReportingMode::Fatal)
    {
        session_.setTable(exampleTable());
    }
    QStringList names() const
    {
        QStringList all;
        for (int row = 0; row < model_.rowCount(); ++row)
            all << QString::fromStdString(model_.planAt(row)->plan.name).section(QStringLiteral(" |"), 0, 0);
        return all;
    }
    Home home_;
    Session session_;
    PlanTableModel model_;
    QAbstractItemModelTester tester_;
};

TEST_F(PlanTable, StartsSortedByStepTimeWithUnpredictedPlansLast)
{
    ASSERT_EQ(model_.rowCount(), 8);
    EXPECT_EQ(names().first().toStdString(), "E+2B+H:r2");
    EXPECT_EQ(names().last().toStdString(), "E+2B+H:u2");
}

TEST_F(PlanTable, SortsByPeakInBothOrdersAndKeepsTheUnpredictedLast)
{
    const int peak = model_.columnOf(QStringLiteral("peak_gib"));
    ASSERT_GT(peak, 0);
    model_.sort(peak, Qt::AscendingOrder);
    EXPECT_EQ(names().first().toStdString(), "E+2B+H:r2 rc=block");
    model_.sort(peak, Qt::DescendingOrder);
    EXPECT_EQ(names().first().toStdString(), "E+2B+H");
    EXPECT_EQ(names().last().toStdString(), "E+2B+H:u2");
}

TEST_F(PlanTable, KeepsPersistentIndexesOnTheirPlanWhenSorted)
{
    const QPersistentModelIndex kept = model_.index(0, 1);
    const qulonglong id = kept.data(PlanTableModel::PlanIdRole).toULongLong();
    model_.sort(model_.columnOf(QStringLiteral("step_ms")), Qt::DescendingOrder);
    EXPECT_EQ(kept.data(PlanTableModel::PlanIdRole).toULongLong(), id);
    EXPECT_NE(kept.row(), 0);
}

TEST_F(PlanTable, ShowsUnitsInTheHeaderAndRightAlignsNumbers)
{
    const int step = model_.columnOf(QStringLiteral("step_ms"));
    EXPECT_EQ(model_.headerData(step, Qt::Horizontal).toString().toStdString(), "Step (ms)");
    EXPECT_EQ(model_.index(0, step).data().toString().toStdString(), "180");
    EXPECT_TRUE(model_.index(0, step).data(Qt::TextAlignmentRole).value<Qt::Alignment>() & Qt::AlignRight);
    EXPECT_TRUE(model_.index(0, step).data(Qt::ToolTipRole).toString().contains(QStringLiteral("162\u2013216")));
}

TEST_F(PlanTable, FollowsTheFilterAndCountsWhatIsLeft)
{
    session_.setFilter(QStringLiteral("step_ms < 200"));
    EXPECT_TRUE(session_.filterProblem().isEmpty()) << session_.filterProblem().toStdString();
    EXPECT_EQ(names().join(QStringLiteral(",")).toStdString(), "E+2B+H:r2,E+2B+H:r2 gather");
    EXPECT_EQ(session_.shownCount(), 2);
}

TEST_F(PlanTable, KeepsTheLastGoodFilterWhenATextDoesNotParse)
{
    session_.setFilter(QStringLiteral("step_ms < 200"));
    session_.setFilter(QStringLiteral("step_ms < 200 and peek_gib <"));
    EXPECT_FALSE(session_.filterProblem().isEmpty());
    EXPECT_EQ(model_.rowCount(), 2);
    session_.setFilter(QString());
    EXPECT_TRUE(session_.filterProblem().isEmpty());
    EXPECT_EQ(model_.rowCount(), 8);
}

TEST_F(PlanTable, ShowsThePinOfAPlanAndReportsTheStateInWords)
{
    const uint64_t id = model_.planAt(0)->id;
    session_.togglePin(id);
    EXPECT_EQ(model_.index(0, 0).data().toString().toStdString(), "A");
    session_.togglePin(id);
    EXPECT_EQ(model_.index(0, 0).data().toString().toStdString(), "");
    EXPECT_EQ(PlanTableModel::stateOf(session_.table()->rows[4]), PlanTableModel::RowState::Infeasible);
    EXPECT_EQ(PlanTableModel::stateOf(session_.table()->rows[2]), PlanTableModel::RowState::NotRunnable);
    EXPECT_EQ(PlanTableModel::stateOf(session_.table()->rows[3]), PlanTableModel::RowState::Illegal);
    EXPECT_EQ(PlanTableModel::stateOf(session_.table()->rows[5]), PlanTableModel::RowState::Front);
}

TEST_F(PlanTable, PlotFindsThePlanUnderThePointerAndSumsItUp)
{
    TradeOffPlot plot(session_);
    plot.resize(600, 420);
    plot.replot();
    for (const planner::PlanRow& row : session_.table()->rows) {
        if (!row.predicted)
            continue;
        EXPECT_EQ(plot.planAt(plot.positionOf(row.id)), row.id) << row.plan.name;
    }
    EXPECT_EQ(plot.planAt({-100, -100}), 0u);
    EXPECT_TRUE(plot.summary().startsWith(QStringLiteral("7 plans, 2 on the front"))) << plot.summary().toStdString();
}

} // namespace
} // namespace megagraph::ui
