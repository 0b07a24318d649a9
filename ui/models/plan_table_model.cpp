// SPDX-License-Identifier: Apache-2.0
#include "ui/models/plan_table_model.h"

#include "ui/session/units_text.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace megagraph::ui {
namespace {

// in display order; a name that the planner does not know is left out
const char* const kColumns[] = {"name",      "step_ms",   "peak_gib", "p_fit",   "replicas", "ring",
                                "exchange",  "recompute", "attention", "zero",    "baseline", "why_not"};

QString headerText(const planner::Column& column)
{
    const QString name = QString::fromStdString(column.name);
    if (name == QLatin1String("name"))
        return PlanTableModel::tr("Plan");
    if (name == QLatin1String("step_ms"))
        return PlanTableModel::tr("Step (ms)");
    if (name == QLatin1String("peak_gib"))
        return PlanTableModel::tr("Peak (GiB)");
    if (name == QLatin1String("why_not"))
        return PlanTableModel::tr("Why not");
    return QString::fromStdString(column.header);
}

} // namespace

PlanTableModel::PlanTableModel(Session& session, QObject* parent) : QAbstractTableModel(parent), session_(session)
{
    for (const char* name : kColumns)
        if (const planner::Column* column = planner::findColumn(name))
            columns_.push_back(column);
    sortColumn_ = columnOf(QStringLiteral("step_ms"));
    connect(&session, &Session::tableChanged, this, &PlanTableModel::rebuild);
    connect(&session, &Session::selectionChanged, this, [this] {
        // pins and focus only repaint marks; another filter changes the rows
        std::vector<uint32_t> shown;
        for (size_t i = 0; i < session_.shown().size(); ++i)
            if (session_.shown()[i])
                shown.push_back(uint32_t(i));
        std::vector<uint32_t> ours = rows_;
        std::sort(ours.begin(), ours.end());
        if (shown != ours)
            rebuild();
        else if (!rows_.empty())
            emit dataChanged(index(0, 0), index(int(rows_.size()) - 1, 0), {Qt::DisplayRole, MarkRole});
    });
    rebuild();
}

void PlanTableModel::rebuild()
{
    beginResetModel();
    table_ = session_.table();
    rows_.clear();
    const std::vector<bool>& shown = session_.shown();
    for (size_t i = 0; table_ && i < table_->rows.size(); ++i)
        if (i < shown.size() && shown[i])
            rows_.push_back(uint32_t(i));
    order();
    endResetModel();
}

void PlanTableModel::order()
{
    if (!table_ || sortColumn_ < 1 || sortColumn_ > int(columns_.size()))
        return;
    const planner::Column& column = *columns_[size_t(sortColumn_ - 1)];
    const auto number = [&](uint32_t row) {
        const double value = column.number ? column.number(table_->rows[row]) : std::nan("");
        return std::isnan(value) ? std::numeric_limits<double>::infinity() : value;
    };
    // rows that cannot run have no time worth comparing: they stay behind the others in either order
    const auto dead = [&](uint32_t row) { return !table_->rows[row].legal || table_->rows[row].stepNs <= 0; };
    const bool down = sortOrder_ == Qt::DescendingOrder;
    const auto less = [&](uint32_t a, uint32_t b) {
        if (column.numeric && column.number)
            return down ? number(b) < number(a) : number(a) < number(b);
        const std::string ta = column.text(table_->rows[a]), tb = column.text(table_->rows[b]);
        return down ? tb < ta : ta < tb;
    };
    std::sort(rows_.begin(), rows_.end());
    std::stable_sort(rows_.begin(), rows_.end(), [&](uint32_t a, uint32_t b) {
        return dead(a) != dead(b) ? dead(b) : less(a, b);
    });
}

void PlanTableModel::sort(int column, Qt::SortOrder sortOrder)
{
    emit layoutAboutToBeChanged();
    QList<uint64_t> ids;
    const QModelIndexList old = persistentIndexList();
    for (const QModelIndex& index : old)
        ids << table_->rows[rows_[size_t(index.row())]].id;
    sortColumn_ = column;
    sortOrder_ = sortOrder;
    order();
    QModelIndexList moved;
    for (qsizetype i = 0; i < old.size(); ++i)
        moved << index(rowOfPlan(ids[i]), old[i].column());
    changePersistentIndexList(old, moved);
    emit layoutChanged();
}

int PlanTableModel::rowCount(const QModelIndex& parent) const
{
    return parent.isValid() ? 0 : int(rows_.size());
}

int PlanTableModel::columnCount(const QModelIndex& parent) const
{
    return parent.isValid() ? 0 : int(columns_.size()) + 1;
}

const planner::PlanRow* PlanTableModel::planAt(int row) const
{
    return table_ && row >= 0 && row < int(rows_.size()) ? &table_->rows[rows_[size_t(row)]] : nullptr;
}

int PlanTableModel::rowOfPlan(uint64_t id) const
{
    for (size_t i = 0; table_ && i < rows_.size(); ++i)
        if (table_->rows[rows_[i]].id == id)
            return int(i);
    return -1;
}

int PlanTableModel::columnOf(const QString& name) const
{
    for (size_t i = 0; i < columns_.size(); ++i)
        if (columns_[i]->name == name.toStdString())
            return int(i) + 1;
    return -1;
}

PlanTableModel::RowState PlanTableModel::stateOf(const planner::PlanRow& row)
{
    if (!row.legal)
        return RowState::Illegal;
    if (!row.runnable)
        return RowState::NotRunnable;
    if (!row.feasible)
        return RowState::Infeasible;
    return row.front ? RowState::Front : RowState::Feasible;
}

QString PlanTableModel::stateText(RowState state)
{
    switch (state) {
    case RowState::Front: return tr("on the front");
    case RowState::Feasible: return tr("fits, dominated");
    case RowState::Infeasible: return tr("does not fit");
    case RowState::NotRunnable: return tr("this version cannot run it");
    case RowState::Illegal: break;
    }
    return tr("not legal");
}

QString PlanTableModel::cellText(const planner::PlanRow& row, int column) const
{
    const planner::Column& c = *columns_[size_t(column - 1)];
    const bool predicted = row.stepNs > 0;
    if (c.name == "step_ms")
        return predicted ? significantText(double(row.stepNs) / 1e6) : QStringLiteral("\u2013");
    if (c.name == "peak_gib")
        return row.peakBytes > 0 ? gibText(double(row.peakBytes)) : QStringLiteral("\u2013");
    if (c.name == "p_fit")
        return predicted ? chanceText(row.pFit) : QStringLiteral("\u2013");
    return c.text ? QString::fromStdString(c.text(row)) : QString();
}

QVariant PlanTableModel::data(const QModelIndex& index, int role) const
{
    const planner::PlanRow* row = planAt(index.row());
    if (!row || index.column() < 0 || index.column() > int(columns_.size()))
        return {};
    const RowState state = stateOf(*row);
    if (role == PlanIdRole)
        return QVariant::fromValue<qulonglong>(row->id);
    if (role == StateRole)
        return int(state);
    if (role == MarkRole)
        return session_.pinLetter(row->id);
    if (index.column() == 0) {
        if (role == Qt::DisplayRole)
            return session_.pinLetter(row->id);
        if (role == Qt::ToolTipRole || role == Qt::AccessibleTextRole)
            return stateText(state);
        return {};
    }
    const planner::Column& column = *columns_[size_t(index.column() - 1)];
    switch (role) {
    case Qt::DisplayRole: return cellText(*row, index.column());
    case Qt::TextAlignmentRole:
        return QVariant::fromValue(Qt::Alignment(Qt::AlignVCenter | (column.numeric ? Qt::AlignRight : Qt::AlignLeft)));
    case Qt::ToolTipRole:
        if (column.name == "step_ms")
            return intervalText(row->stepNs, row->stepLoNs, row->stepHiNs);
        if (column.name == "peak_gib")
            return tr("%1 of %2, counted").arg(memoryText(double(row->peakBytes)), memoryText(double(row->budgetBytes)));
        return column.text ? QString::fromStdString(column.text(*row)) : QString();
    default: return {};
    }
}

QVariant PlanTableModel::headerData(int section, Qt::Orientation orientation, int role) const
{
    if (orientation != Qt::Horizontal || section < 0 || section > int(columns_.size()))
        return {};
    if (section == 0)
        return role == Qt::ToolTipRole ? QVariant(tr("State of the plan, and its pin")) : QVariant();
    const planner::Column& column = *columns_[size_t(section - 1)];
    if (role == Qt::DisplayRole)
        return headerText(column);
    if (role == Qt::ToolTipRole)
        return tr("Filter name: %1").arg(QString::fromStdString(column.name));
    if (role == Qt::TextAlignmentRole)
        return QVariant::fromValue(Qt::Alignment(Qt::AlignVCenter | (column.numeric ? Qt::AlignRight : Qt::AlignLeft)));
    return {};
}

} // namespace megagraph::ui
