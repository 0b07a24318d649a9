// SPDX-License-Identifier: Apache-2.0
// The one owner of shared state: project, scenario (data set, model, ranks, budget), plan table, selection, jobs, the
// followed run. GUI thread only; all reading, planning and writing happens on lanes or in children, and arrives here as
// values. Pages never know each other; they meet here.
#pragma once

#include "core/dataset_spec.h"
#include "core/follow.h"
#include "core/run_spec.h"
#include "planner/search.h"
#include "ui/session/job_runner.h"
#include "ui/session/lane.h"
#include "ui/session/run_watch.h"

#include <QDateTime>
#include <QObject>
#include <QString>
#include <QStringList>
#include <QTimer>

#include <array>
#include <memory>
#include <optional>
#include <vector>

namespace megagraph::ui {

using TablePtr = std::shared_ptr<const planner::PlanTable>;
constexpr int kPins = 8;

enum class PlanPhase { Missing, Preparing, Searching, Ready, Failed };
struct PlanState {
    PlanPhase phase = PlanPhase::Missing;
    QString text; ///< what is missing, what is going on, or the error
    int64_t done = 0, total = 0;
    bool busy() const { return phase == PlanPhase::Preparing || phase == PlanPhase::Searching; }
};

/// What the search needs; also what "Copy as command" writes.
struct Scenario {
    QString dataset, model;
    ConstraintsSpec constraints; ///< ranks 0 = min(2, cores), budget 0 = 80 % of available memory / ranks
    std::optional<ClusterSpec> cluster; ///< nullopt = this machine
};

struct DatasetInfo { QString name; DatasetSpec spec; };
struct RunInfo { QString id, folder, kind, name, state; int64_t step = 0, steps = 0; double etaS = 0; bool alive = false; };

enum class NoticeKind { Info, Ok, Warning, Error };
struct Notice { NoticeKind kind = NoticeKind::Info; QString text, actionText; std::function<void()> action; QDateTime when; };

class Session : public QObject {
    Q_OBJECT
  public:
    struct Options {
        QString home, resources, program; ///< program: the `megagraph` binary, "" = none
        bool writes = true;               ///< false when rendering: projects are not saved
    };
    explicit Session(const Options& options, QObject* parent = nullptr);
    ~Session() override;

    // project and scenario
    const QString& home() const { return options_.home; }
    const QString& projectPath() const { return projectPath_; }
    QString projectName() const;
    bool hasProject() const { return hasProject_; }
    const ProjectSpec& project() const { return project_; }
    const Scenario& scenario() const { return scenario_; }
    void openProject(const QString& path);
    void openSample(); ///< generates the data set when it is absent, then opens its project
    void newProject(const QString& path, const QString& dataset, const QString& model);
    void setDataset(const QString& name);
    void setModel(const QString& nameOrPath);
    void setRanks(int64_t ranks);
    void setBudget(int64_t bytes);
    void saveProject();
    const QString& projectProblem() const { return projectProblem_; }
    bool opening() const { return opening_; }

    // library
    const std::vector<DatasetInfo>& datasets() const { return datasets_; }
    const QStringList& modelPresets() const { return modelPresets_; }
    const std::vector<RunInfo>& runs() const { return runs_; }
    bool libraryLoaded() const { return libraryLoaded_; }
    void refreshLibrary();
    const DatasetInfo* dataset(const QString& name) const;

    // jobs
    JobRunner& jobs() { return jobs_; }
    void checkMachine();
    bool checkingMachine() const { return checkingMachine_; }
    const std::optional<Json>& machine() const { return machine_; }
    const QString& machineProblem() const { return machineProblem_; }
    void importData(const QString& path, const QString& name);
    void measure();
    void verify(const planner::PlanRow& row);
    const std::optional<Json>& certificate(uint64_t planId) const;

    // plans
    const PlanState& planState() const { return planState_; }
    TablePtr table() const { return table_; }
    std::shared_ptr<const planner::Problem> problem() const { return problem_; }
    void replan();
    /// A table made elsewhere (tests, pictures).
    void setTable(TablePtr table);

    // selection: truth is text and plan ids, rows are a cache
    const QString& filterText() const { return filterText_; }
    const QString& filterProblem() const { return filterProblem_; }
    const std::vector<bool>& shown() const { return shown_; }
    int64_t shownCount() const;
    void setFilter(const QString& text);
    uint64_t focus() const { return focus_; }
    void setFocus(uint64_t id);
    const planner::PlanRow* focusRow() const { return rowOf(focus_); }
    const planner::PlanRow* rowOf(uint64_t id) const;
    int64_t rowIndexOf(uint64_t id) const;
    void togglePin(uint64_t id);
    QString pinLetter(uint64_t id) const; ///< "A" to "H", or ""
    const std::array<uint64_t, kPins>& pins() const { return pins_; }
    /// Named picks over feasible, executable rows: fastest, safest, least memory, simplest.
    struct Pick { QString name, reason; uint64_t id = 0; };
    std::vector<Pick> picks() const;

    // runs
    RunWatch* run() const { return run_.get(); }
    void attach(const QString& runId);
    void startRun(const planner::PlanRow& row, bool riskOutOfMemory);
    bool startingRun() const { return startingRun_; }
    void stopRun();
    void resumeRun(const QString& runId);
    void savePlan(const planner::PlanRow& row, const QString& path);

    // command line twins
    QStringList planCommand() const;
    QStringList trainCommand(const planner::PlanRow& row) const;
    QString planFile(const planner::PlanRow& row) const;

    void notify(NoticeKind kind, const QString& text, const QString& actionText = {}, std::function<void()> action = {});

  signals:
    void projectChanged();
    void libraryChanged();
    void machineChanged();
    void planStateChanged();
    void tableChanged();
    void selectionChanged();
    void runChanged();         ///< another run is followed
    void runUpdated();         ///< the followed run has news
    void runStarted();         ///< a new run is followed: show it
    void certificateChanged();
    void noticed(const megagraph::ui::Notice& notice);

  private:
    struct PlanOutcome;
    struct ProjectOutcome;
    void scenarioChanged();
    void search(bool afterJob);
    void prepare();
    void takeOutcome(PlanOutcome outcome, bool afterJob);
    void setPlanState(PlanState state);
    void applyFilter();
    void takeProject(const QString& path, ProjectOutcome outcome);
    void launch(const QStringList& arguments);
    std::string baseFolder() const;

    Options options_;
    Lane io_, search_, follow_;
    JobRunner jobs_;

    QString projectPath_, projectProblem_;
    bool hasProject_ = false, opening_ = false;
    ProjectSpec project_;
    Scenario scenario_;
    QTimer saveTimer_, replanTimer_, runsTimer_;

    std::vector<DatasetInfo> datasets_;
    QStringList modelPresets_;
    std::vector<RunInfo> runs_;
    bool libraryLoaded_ = false;

    std::optional<Json> machine_;
    QString machineProblem_;
    bool checkingMachine_ = false;

    PlanState planState_;
    QPointer<Job> planJob_;
    TablePtr table_;
    std::shared_ptr<const planner::Problem> problem_;
    uint64_t planGeneration_ = 0;

    QString filterText_, filterProblem_, goodFilter_;
    std::vector<bool> shown_;
    uint64_t focus_ = 0;
    std::array<uint64_t, kPins> pins_{};
    std::vector<std::pair<uint64_t, std::optional<Json>>> certificates_;

    std::unique_ptr<RunWatch> run_;
    bool startingRun_ = false;
};

} // namespace megagraph::ui
