// SPDX-License-Identifier: Apache-2.0
// Columns, filter and documents of the plan table.
#include "tests/planner/support.h"

#include <cmath>
#include <set>

namespace megagraph::planner::testing {
namespace {

int64_t countOf(const PlanTable& table, const std::string& filter)
{
    const auto rows = filterRows(table, filter);
    EXPECT_TRUE(rows.ok()) << filter << ": " << (rows.ok() ? "" : rows.error().message);
    return rows.ok() ? std::count(rows->begin(), rows->end(), true) : -1;
}

TEST(PlanFilter, EqualsARowByRowEvaluator)
{
    const PlanTable table = searched(profiledProblem(2));
    const auto count = [&](const auto& test) { return std::count_if(table.rows.begin(), table.rows.end(), test); };
    EXPECT_EQ(countOf(table, ""), int64_t(table.rows.size()));
    EXPECT_EQ(countOf(table, "feasible"), table.feasible);
    EXPECT_EQ(countOf(table, "feasible = no"), int64_t(table.rows.size()) - table.feasible);
    EXPECT_EQ(countOf(table, "step_ms < 150"), count([](const PlanRow& r) { return r.predicted && r.stepNs < 150 * kMs; }));
    EXPECT_EQ(countOf(table, "step_ms >= 0.139 s and peak_gib < 1"), count([](const PlanRow& r) {
                  return r.predicted && r.stepNs >= 139 * kMs && r.peakBytes < 1024 * kMiB;
              }));
    EXPECT_EQ(countOf(table, "peak_gib <= 140MiB"), count([](const PlanRow& r) { return r.predicted && r.peakBytes <= 140 * kMiB; }));
    EXPECT_EQ(countOf(table, "exchange = ring"), count([](const PlanRow& r) { return r.plan.stages[0].exchange == Exchange::Ring; }));
    EXPECT_EQ(countOf(table, "any.recompute != block and attention = fused"), count([](const PlanRow& r) {
                  return r.plan.stages[0].recompute != Recompute::Block && r.plan.attention == AttentionPath::Fused;
              }));
    EXPECT_EQ(countOf(table, "baseline ~ \"SER\""), 1);
    EXPECT_EQ(countOf(table, "ring = 2"), count([](const PlanRow& r) { return r.plan.stages[0].ring == 2; }));
}

TEST(PlanFilter, NamesPositionAndNearestColumn)
{
    const PlanTable table;
    const auto fault = [&](const std::string& filter) {
        const auto rows = filterRows(table, filter);
        EXPECT_FALSE(rows.ok()) << filter;
        EXPECT_EQ(rows.error().code, ErrorCode::Usage);
        return rows.ok() ? "" : rows.error().message;
    };
    EXPECT_NE(fault("step_mz < 3").find("position 1: no column \"step_mz\"; did you mean \"step_ms\"?"), std::string::npos);
    EXPECT_NE(fault("peek < 3").find("did you mean \"peak_gib\"?"), std::string::npos);
    EXPECT_NE(fault("step_ms < 3 GiB").find("position 13: unit \"GiB\" does not measure step_ms"), std::string::npos);
    EXPECT_NE(fault("step_ms 3").find("expected one of"), std::string::npos);
    EXPECT_NE(fault("step_ms < fast").find("compared with a number"), std::string::npos);
    EXPECT_NE(fault("step_ms < 3 or ring = 2").find("position 13"), std::string::npos);
    EXPECT_NE(fault("exchange < ring").find("holds words"), std::string::npos);
    EXPECT_NE(fault("feasible and").find("missing after \"and\""), std::string::npos);
    EXPECT_NE(fault("name = \"x").find("never closed"), std::string::npos);
    EXPECT_NE(fault(std::string(5000, ' ')).find("4096"), std::string::npos);
}

TEST(PlanTable, ColumnsHaveStableUniqueNamesAndTexts)
{
    std::set<std::string> names;
    PlanRow empty;
    empty.plan.stages.resize(1);
    for (const Column& column : planColumns()) {
        EXPECT_TRUE(names.insert(column.name).second) << column.name;
        ASSERT_NE(column.text, nullptr) << column.name;
        EXPECT_EQ(column.numeric, column.number != nullptr) << column.name;
        EXPECT_FALSE(column.header.empty());
        (void)column.text(empty);
    }
    for (const char* name : {"step_ms", "peak_gib", "feasible", "front", "baseline", "exchange", "replicas", "ring", "ulysses", "zero",
                             "recompute", "attention", "why_not", "comm_ms", "weights_gib", "attention_ms", "measured", "p_fit"})
        EXPECT_NE(findColumn(name), nullptr) << name;
    EXPECT_EQ(findColumn("nothing"), nullptr);
}

TEST(PlanTable, DocumentKeepsTheContract)
{
    const PlanTable table = searched(profiledProblem(2));
    const Json json = tableToJson(table);
    EXPECT_EQ(json["format"], "megagraph.plan_table");
    EXPECT_EQ(json["version"], 1);
    EXPECT_EQ(json["count"], table.count);
    EXPECT_EQ(json["feasible"], table.feasible);
    EXPECT_EQ(json["plans"].size(), table.rows.size());
    EXPECT_TRUE(json["binding"].is_string());
    const Json& picked = json["picked"];
    EXPECT_NEAR(picked["step_ms"].get<double>(), 119, 1e-9);
    ASSERT_EQ(picked["ranks"].size(), 2u);
    EXPECT_EQ(picked["ranks"][1]["rank"], 1);
    int64_t sum = 0;
    for (const auto& [name, bytes] : picked["ranks"][0]["categories"].items())
        sum += bytes.get<int64_t>();
    EXPECT_EQ(sum, picked["ranks"][0]["peak_bytes"].get<int64_t>());
    for (const Json& row : json["plans"]) {
        EXPECT_TRUE(row["feasible"].is_boolean());
        EXPECT_TRUE(row["front"].is_boolean());
        for (const char* knob : {"exchange", "replicas", "ring", "ulysses", "zero", "recompute"})
            EXPECT_TRUE(row[knob].is_array() && row[knob].size() == 1) << knob;
        EXPECT_EQ(row["why_not"].get<std::string>().empty(), row["feasible"].get<bool>());
        EXPECT_TRUE(!row["step_ms"].is_null() || !row["feasible"].get<bool>());
    }
    EXPECT_TRUE(json["plans"][1]["step_ms"].is_null()); // data-parallel on a full graph has no number
    EXPECT_EQ(json["plans"][0]["baseline"], "serial");
}

TEST(PlanTable, CsvHasOneLinePerRowAndQuotesReasons)
{
    const PlanTable table = searched(profiledProblem(2));
    const std::string csv = tableToCsv(table);
    EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), int64_t(table.rows.size()) + 1);
    EXPECT_EQ(csv.rfind("id,name,baseline", 0), 0u);
    EXPECT_NE(csv.find(",\""), std::string::npos);
}

} // namespace
} // namespace megagraph::planner::testing
