// SPDX-License-Identifier: Apache-2.0
#include "planner/plan_table.h"

#include "planner/space.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <tuple>

namespace megagraph::planner {

namespace {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

template <TimeTerm term> double termMs(const PlanRow& row)
{
    return row.predicted ? double(row.terms[size_t(term)]) / 1e6 : kNone;
}

template <MemoryCategory category> double categoryGiB(const PlanRow& row)
{
    return row.predicted ? double(row.worst[size_t(category)]) / kGiB : kNone;
}

template <int origin> double originShare(const PlanRow& row)
{
    return row.predicted ? 100.0 * double(row.share[origin]) : kNone;
}

std::string digits(double value)
{
    if (std::isnan(value))
        return "-";
    const double size = std::abs(value);
    return size >= 1000 ? fmt::format("{:.0f}", value) : size >= 100 ? fmt::format("{:.1f}", value)
         : size >= 1 ? fmt::format("{:.2f}", value) : fmt::format("{:.4f}", value);
}

/// A column whose text is its number; whole numbers without a unit are counts.
template <auto Read> Column number(const char* name, const char* header, const char* unit)
{
    Column column;
    column.name = name;
    column.header = header;
    column.unit = unit;
    column.number = Read;
    if (*unit)
        column.text = [](const PlanRow& row) { return digits(Read(row)); };
    else
        column.text = [](const PlanRow& row) {
            const double value = Read(row);
            return value == std::floor(value) ? fmt::format("{:.0f}", value) : digits(value);
        };
    return column;
}

Column word(const char* name, const char* header, std::string (*read)(const PlanRow&), bool stageKnob)
{
    Column column;
    column.name = name;
    column.header = header;
    column.numeric = false;
    column.stageKnob = stageKnob;
    column.text = read;
    return column;
}

template <auto Read> Column countKnob(const char* name, const char* header)
{
    Column column = number<Read>(name, header, "");
    column.stageKnob = true;
    return column;
}

const StagePlan& firstStage(const PlanRow& row)
{
    static const StagePlan none;
    return row.plan.stages.empty() ? none : row.plan.stages.front();
}

void addKnobs(std::vector<Column>& all)
{
    all.push_back(word("name", "Plan", [](const PlanRow& r) { return r.plan.name; }, false));
    all.push_back(word("baseline", "Baseline", [](const PlanRow& r) { return r.baseline; }, false));
    all.push_back(word("mode", "Sequence", [](const PlanRow& r) { return knobValue(r.plan, "mode"); }, false));
    all.push_back(number<([](const PlanRow& r) { return double(r.plan.tokens); })>("tokens", "Tokens", ""));
    all.push_back(number<([](const PlanRow& r) { return double(r.plan.microBatches); })>("micro_batches", "Micro-batches", ""));
    all.push_back(word("schedule", "Schedule", [](const PlanRow& r) { return knobValue(r.plan, "schedule"); }, false));
    all.push_back(number<([](const PlanRow& r) { return double(r.plan.chunks); })>("chunks", "Chunks", ""));
    all.push_back(number<([](const PlanRow& r) { return double(r.plan.stages.size()); })>("stages", "Stages", ""));
    all.push_back(number<([](const PlanRow& r) { return double(r.plan.world()); })>("ranks", "Ranks", ""));
    all.push_back(word("precision", "Precision", [](const PlanRow& r) { return knobValue(r.plan, "precision"); }, false));
    all.push_back(word("attention", "Attention", [](const PlanRow& r) { return knobValue(r.plan, "attention"); }, false));
    all.push_back(word("bias", "Bias", [](const PlanRow& r) { return knobValue(r.plan, "bias"); }, false));
    all.push_back(word("order", "Order", [](const PlanRow& r) { return r.plan.order; }, false));
    all.push_back(countKnob<([](const PlanRow& r) { return double(firstStage(r).replicas); })>("replicas", "Replicas"));
    all.push_back(countKnob<([](const PlanRow& r) { return double(firstStage(r).ulysses); })>("ulysses", "Ulysses"));
    all.push_back(countKnob<([](const PlanRow& r) { return double(firstStage(r).ring); })>("ring", "Context ranks"));
    all.push_back(word("exchange", "Exchange", [](const PlanRow& r) { return knobValue(r.plan, "exchange"); }, true));
    all.push_back(word("zero", "ZeRO", [](const PlanRow& r) { return knobValue(r.plan, "zero"); }, true));
    all.push_back(word("recompute", "Recompute", [](const PlanRow& r) { return knobValue(r.plan, "recompute"); }, true));
    all.push_back(word("device_type", "Device", [](const PlanRow& r) { return knobValue(r.plan, "device_type"); }, true));
}

void addMetrics(std::vector<Column>& all)
{
    all.push_back(number<([](const PlanRow& r) { return r.predicted ? double(r.stepNs) / 1e6 : kNone; })>("step_ms", "Step time", "ms"));
    all.push_back(number<([](const PlanRow& r) { return r.predicted ? double(r.stepLoNs) / 1e6 : kNone; })>("step_lo_ms", "Step, low", "ms"));
    all.push_back(number<([](const PlanRow& r) { return r.predicted ? double(r.stepHiNs) / 1e6 : kNone; })>("step_hi_ms", "Step, high", "ms"));
    all.push_back(number<([](const PlanRow& r) { return r.predicted ? double(r.stepNs) / 1e9 : kNone; })>("epoch_s", "Epoch", "s"));
    all.push_back(number<([](const PlanRow& r) { return r.predicted ? double(r.peakBytes) / kGiB : kNone; })>("peak_gib", "Peak memory", "GiB"));
    all.push_back(number<([](const PlanRow& r) { return r.predicted ? double(r.budgetBytes - r.peakBytes) / kGiB : kNone; })>("headroom_gib", "Headroom", "GiB"));
    all.push_back(number<([](const PlanRow& r) { return r.predicted ? 100 * r.pFit : kNone; })>("p_fit", "P(fit)", "%"));
    all.push_back(number<termMs<TimeTerm::Exchange>>("comm_ms", "Communication", "ms"));
    all.push_back(number<([](const PlanRow& r) {
        return r.predicted && r.stepNs > 0 ? 100 * double(r.terms[size_t(TimeTerm::Bubble)]) / double(r.stepNs) : kNone;
    })>("bubble", "Bubble", "%"));
    all.push_back(number<([](const PlanRow& r) { return r.predicted ? double(r.movedBytes) / kGiB : kNone; })>("moved_gib", "Moved per step", "GiB"));
    all.push_back(number<([](const PlanRow& r) {
        return r.predicted && r.stepNs > 0 ? double(r.tokensPerStep) * 1e9 / double(r.stepNs) : kNone;
    })>("tokens_per_s", "Tokens", "1/s"));
    all.push_back(number<([](const PlanRow& r) {
        return r.predicted && r.stepNs > 0 ? double(r.edgesPerStep) * 1e9 / double(r.stepNs) : kNone;
    })>("edges_per_s", "Edges", "1/s"));
    all.push_back(number<([](const PlanRow& r) { return r.predicted ? r.imbalance : kNone; })>("imbalance", "Imbalance", ""));
    all.push_back(number<([](const PlanRow& r) { return r.predicted ? 100 * r.keptEdges : kNone; })>("kept_edges", "Kept edges", "%"));
    all.push_back(number<([](const PlanRow& r) { return r.predicted ? r.halo : kNone; })>("halo", "Halo", ""));
    all.push_back(number<([](const PlanRow& r) { return double(r.mechanisms); })>("mechanisms", "Mechanisms", ""));
}

void addParts(std::vector<Column>& all)
{
    all.push_back(number<categoryGiB<MemoryCategory::Weights>>("weights_gib", "Weights", "GiB"));
    all.push_back(number<categoryGiB<MemoryCategory::Gradients>>("gradients_gib", "Gradients", "GiB"));
    all.push_back(number<categoryGiB<MemoryCategory::Optimizer>>("optimizer_gib", "Optimizer", "GiB"));
    all.push_back(number<categoryGiB<MemoryCategory::NodeTable>>("node_table_gib", "Node table", "GiB"));
    all.push_back(number<categoryGiB<MemoryCategory::Activations>>("activations_gib", "Activations", "GiB"));
    all.push_back(number<categoryGiB<MemoryCategory::Workspace>>("workspace_gib", "Workspace", "GiB"));
    all.push_back(number<categoryGiB<MemoryCategory::Topology>>("topology_gib", "Topology", "GiB"));
    all.push_back(number<categoryGiB<MemoryCategory::Buffers>>("buffers_gib", "Buffers", "GiB"));
    all.push_back(number<categoryGiB<MemoryCategory::Base>>("base_gib", "Base", "GiB"));
    all.push_back(number<categoryGiB<MemoryCategory::Slack>>("slack_gib", "Slack", "GiB"));
    all.push_back(number<termMs<TimeTerm::Attention>>("attention_ms", "Attention", "ms"));
    all.push_back(number<termMs<TimeTerm::Block>>("block_ms", "Block", "ms"));
    all.push_back(number<termMs<TimeTerm::EmbedHead>>("embed_head_ms", "Embed and head", "ms"));
    all.push_back(number<termMs<TimeTerm::Distance>>("distance_ms", "Distances", "ms"));
    all.push_back(number<termMs<TimeTerm::Exchange>>("exchange_ms", "Exchange", "ms"));
    all.push_back(number<termMs<TimeTerm::Bubble>>("bubble_ms", "Waiting", "ms"));
    all.push_back(number<termMs<TimeTerm::Update>>("update_ms", "Update", "ms"));
    all.push_back(number<termMs<TimeTerm::Host>>("host_ms", "Host", "ms"));
    all.push_back(number<originShare<0>>("measured", "Measured", "%"));
    all.push_back(number<originShare<1>>("interpolated", "Interpolated", "%"));
    all.push_back(number<originShare<2>>("extrapolated", "Extrapolated", "%"));
    all.push_back(number<originShare<3>>("transferred", "Transferred", "%"));
    all.push_back(number<originShare<4>>("assumed", "Assumed", "%"));
}

std::string yesNo(bool value)
{
    return value ? "yes" : "no";
}

std::vector<Column> makeColumns()
{
    std::vector<Column> all;
    addKnobs(all);
    addMetrics(all);
    addParts(all);
    all.push_back(word("feasible", "Fits", [](const PlanRow& r) { return yesNo(r.feasible); }, false));
    all.push_back(word("front", "Front", [](const PlanRow& r) { return yesNo(r.front); }, false));
    all.push_back(word("why_not", "Why not", [](const PlanRow& r) { return r.whyNot; }, false));
    return all;
}

/// Documents write shares as fractions of 1; tables show per cent.
double documentNumber(const Column& column, const PlanRow& row)
{
    return column.unit == "%" ? column.number(row) / 100 : column.number(row);
}

bool isFlag(const std::string& name)
{
    return name == "feasible" || name == "front";
}

} // namespace

const std::vector<Column>& planColumns()
{
    static const std::vector<Column> columns = makeColumns();
    return columns;
}

const Column* findColumn(const std::string& name)
{
    for (const Column& column : planColumns())
        if (column.name == name)
            return &column;
    return nullptr;
}

void markFront(std::vector<PlanRow>& rows)
{
    std::vector<size_t> order;
    for (size_t i = 0; i < rows.size(); ++i) {
        rows[i].front = false;
        if (rows[i].feasible)
            order.push_back(i);
    }
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
        return std::tuple(rows[a].stepNs, rows[a].peakBytes) < std::tuple(rows[b].stepNs, rows[b].peakBytes);
    });
    int64_t least = std::numeric_limits<int64_t>::max(), stepOfLeast = -1;
    for (const size_t i : order) { // equal plans are all on the front
        const bool tie = rows[i].peakBytes == least && rows[i].stepNs == stepOfLeast;
        if (rows[i].peakBytes < least || tie) {
            rows[i].front = true;
            least = rows[i].peakBytes;
            stepOfLeast = rows[i].stepNs;
        }
    }
}

Json rowToJson(const PlanRow& row, bool withRanks)
{
    Json json = Json::object();
    json["id"] = fmt::format("{:08x}", row.id >> 32);
    for (const Column& column : planColumns()) {
        Json value;
        if (isFlag(column.name))
            value = column.text(row) == "yes";
        else if (!column.numeric)
            value = column.text(row);
        else if (const double number = documentNumber(column, row); !std::isnan(number))
            value = number == std::floor(number) && std::abs(number) < 1e15 && column.unit.empty() ? Json(int64_t(number)) : Json(number);
        json[column.name] = column.stageKnob ? Json::array({value}) : value;
    }
    if (withRanks) {
        Json ranks = Json::array();
        for (const RankPrediction& rank : row.plan.prediction.ranks) {
            Json categories = Json::object();
            for (int c = 0; c < kMemoryCategories; ++c)
                categories[memoryCategoryName(MemoryCategory(c))] = rank.categories[size_t(c)];
            ranks.push_back({{"rank", rank.rank}, {"peak_bytes", rank.peakBytes}, {"categories", categories}});
        }
        json["ranks"] = ranks;
    }
    return json;
}

Json tableToJson(const PlanTable& table)
{
    Json json = Json::object();
    json["format"] = "megagraph.plan_table";
    json["version"] = 1;
    json["count"] = table.count;
    json["feasible"] = table.feasible;
    json["picked"] = table.picked >= 0 ? rowToJson(table.rows[size_t(table.picked)], true) : Json();
    json["binding"] = table.binding;
    json["certificate"] = table.certificate;
    json["profile"] = table.profileNote;
    Json plans = Json::array();
    for (const PlanRow& row : table.rows)
        plans.push_back(rowToJson(row));
    json["plans"] = plans;
    return json;
}

namespace {

std::string csvCell(const std::string& text)
{
    if (text.find_first_of(",\"\n") == std::string::npos)
        return text;
    std::string quoted = "\"";
    for (char c : text)
        quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
    return quoted + "\"";
}

} // namespace

std::string tableToCsv(const PlanTable& table)
{
    std::string text = "id";
    for (const Column& column : planColumns())
        text += "," + column.name;
    text += "\n";
    for (const PlanRow& row : table.rows) {
        text += fmt::format("{:08x}", row.id >> 32);
        for (const Column& column : planColumns()) {
            std::string cell;
            if (!column.numeric)
                cell = column.text(row);
            else if (const double number = documentNumber(column, row); !std::isnan(number))
                cell = fmt::format("{}", number);
            text += "," + csvCell(cell);
        }
        text += "\n";
    }
    return text;
}

} // namespace megagraph::planner
