// SPDX-License-Identifier: Apache-2.0
#include "tests/ui/fixture.h"

#include "core/event.h"

#include <QCoreApplication>
#include <QDir>
#include <QElapsedTimer>
#include <QFile>
#include <QFileInfo>

#include <gtest/gtest.h>
#include <numeric>

namespace megagraph::ui {
namespace {

constexpr int64_t kMib = 1024 * 1024;

Plan goodPlan()
{
    const auto document = readJsonFile(MEGAGRAPH_TEST_DATA "/good/plan.json");
    EXPECT_TRUE(document.ok());
    auto plan = planFromJson(*document, "plan.json");
    EXPECT_TRUE(plan.ok()) << plan.error().message;
    return *plan;
}

planner::PlanRow row(uint64_t id, const std::string& name, const std::string& baseline, int64_t stepMs, int64_t peakMib)
{
    planner::PlanRow r;
    r.id = id << 32; // ids are shown by their first digits
    r.plan = goodPlan();
    r.plan.name = name;
    r.baseline = baseline;
    r.budgetBytes = 600 * kMib;
    r.predicted = stepMs > 0;
    if (stepMs == 0)
        return r;
    r.stepNs = stepMs * 1000000;
    r.stepLoNs = r.stepNs * 9 / 10;
    r.stepHiNs = r.stepNs * 12 / 10;
    r.terms = {r.stepNs / 2, r.stepNs / 4, r.stepNs / 8, 0, r.stepNs / 16, 0, r.stepNs / 32, 0};
    r.terms[size_t(TimeTerm::Host)] = r.stepNs - std::accumulate(r.terms.begin(), r.terms.end(), int64_t(0));
    r.peakBytes = peakMib * kMib;
    r.worst = {4 * kMib, 4 * kMib, 8 * kMib, 0, peakMib * kMib / 2, 16 * kMib, 3 * kMib, 8 * kMib, 0, 5 * kMib};
    r.worst[size_t(MemoryCategory::Base)] = r.peakBytes - std::accumulate(r.worst.begin(), r.worst.end(), int64_t(0));
    r.plan.prediction.stepNs = r.stepNs;
    r.plan.prediction.stepLoNs = r.stepLoNs;
    r.plan.prediction.stepHiNs = r.stepHiNs;
    r.plan.prediction.terms = r.terms;
    r.plan.prediction.ranks = {{0, r.peakBytes, r.worst}, {1, r.peakBytes, r.worst}};
    r.feasible = r.fits = r.peakBytes <= r.budgetBytes;
    r.pFit = r.feasible ? 0.995 : 0.002;
    r.share = {0.7f, 0.1f, 0, 0, 0.2f};
    r.peakAction = "backward of block 2";
    if (!r.feasible)
        r.whyNot = "rank 0 lacks memory";
    return r;
}

} // namespace

TablePtr exampleTable()
{
    auto table = std::make_shared<planner::PlanTable>();
    table->rows = {row(1, "E+2B+H | m1 fp32 fused lists", "serial", 310, 420),
                   row(2, "E+2B+H:d2 | m2 fp32 fused lists", "data-parallel", 220, 430),
                   row(3, "E+2B+H:d2 z2 | m2 fp32 fused lists", "zero-2", 230, 380),
                   row(4, "E+2B+H:u2 | m1 fp32 fused lists", "ulysses", 0, 0),
                   row(5, "E+2B+H | m1 fp32 materialised", "materialised", 540, 1900),
                   row(6, "E+2B+H:r2 | m1 fp32 fused lists", "", 180, 300),
                   row(7, "E+2B+H:r2 rc=block | m1 fp32 fused lists", "", 240, 260),
                   row(8, "E+2B+H:r2 gather | m1 fp32 fused lists", "", 190, 340)};
    table->rows[2].runnable = table->rows[2].feasible = false;
    table->rows[2].whyNot = "ZeRO above 0 is not executable yet";
    table->rows[3].legal = table->rows[3].feasible = false;
    table->rows[3].whyNot = "3 does not divide 8 heads";
    planner::markFront(table->rows);
    table->count = int64_t(table->rows.size());
    for (const planner::PlanRow& r : table->rows)
        table->feasible += r.feasible;
    table->picked = 5;
    table->certificate = "Fastest of all 8 plans.";
    table->binding = "Nothing binds.";
    return table;
}

Home::Home() = default;

Session::Options Home::options() const
{
    return {folder_.path(), QStringLiteral(MEGAGRAPH_SOURCE_DIR "/resources"), {}, true};
}

void Home::write(const QString& file, const std::string& bytes) const
{
    const QString path = folder_.path() + QLatin1Char('/') + file;
    QDir().mkpath(QFileInfo(path).absolutePath());
    QFile out(path);
    ASSERT_TRUE(out.open(QIODevice::WriteOnly));
    out.write(bytes.data(), qint64(bytes.size()));
}

QString Home::writeRun(const QString& id, const std::vector<Json>& events, const std::vector<Json>& samples, const Json& status) const
{
    const QString folder = QStringLiteral("runs/") + id + QLatin1Char('/');
    Json spec = *readJsonFile(MEGAGRAPH_TEST_DATA "/good/run.json");
    spec["id"] = id.toStdString();
    write(folder + QStringLiteral("run.json"), spec.dump());
    write(folder + QStringLiteral("plan.json"), planToJson(goodPlan()).dump());
    write(folder + QStringLiteral("lock"), "");
    std::string journal, metrics;
    int64_t seq = 0;
    for (const Json& event : events)
        journal += encodeJournalLine(++seq, event);
    for (const Json& sample : samples)
        metrics += encodeLine(sample);
    write(folder + QStringLiteral("journal.jsonl"), journal);
    write(folder + QStringLiteral("metrics.jsonl"), metrics);
    write(folder + QStringLiteral("status.json"), status.dump());
    write(folder + QStringLiteral("logs/r0.a1.log"), "first line\nsecond <b>line</b>\n");
    return id;
}

bool eventually(const std::function<bool()>& ready, int ms)
{
    QElapsedTimer clock;
    clock.start();
    while (!ready()) {
        if (clock.elapsed() > ms)
            return false;
        QCoreApplication::processEvents(QEventLoop::AllEvents | QEventLoop::WaitForMoreEvents, 20);
    }
    return true;
}

} // namespace megagraph::ui
