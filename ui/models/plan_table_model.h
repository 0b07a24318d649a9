// SPDX-License-Identifier: Apache-2.0
// The shown plans as a table: a permutation of rows over the immutable plan table, sorted here because a proxy model
// would compare through QVariant. Thin: no files, no processes. GUI thread.
#pragma once

#include "ui/session/session.h"

#include <QAbstractTableModel>

namespace megagraph::ui {

class PlanTableModel : public QAbstractTableModel {
    Q_OBJECT
  public:
    enum ExtraRole { PlanIdRole = Qt::UserRole + 1, MarkRole, StateRole };
    enum class RowState { Front, Feasible, Infeasible, NotRunnable, Illegal };

    explicit PlanTableModel(Session& session, QObject* parent = nullptr);

    int rowCount(const QModelIndex& parent = {}) const override;
    int columnCount(const QModelIndex& parent = {}) const override;
    QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override;
    QVariant headerData(int section, Qt::Orientation orientation, int role = Qt::DisplayRole) const override;
    void sort(int column, Qt::SortOrder order = Qt::AscendingOrder) override;

    /// Table row of a plan id, -1 when it is not shown.
    int rowOfPlan(uint64_t id) const;
    const planner::PlanRow* planAt(int row) const;
    static RowState stateOf(const planner::PlanRow& row);
    static QString stateText(RowState state);
    /// Column of a stable name ("step_ms"), -1 when absent.
    int columnOf(const QString& name) const;

  private:
    void rebuild();
    void order();
    QString cellText(const planner::PlanRow& row, int column) const;

    Session& session_;
    TablePtr table_;
    std::vector<const planner::Column*> columns_; // behind the mark column
    std::vector<uint32_t> rows_;
    int sortColumn_ = -1;
    Qt::SortOrder sortOrder_ = Qt::AscendingOrder;
};

} // namespace megagraph::ui
