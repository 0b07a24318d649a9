// SPDX-License-Identifier: Apache-2.0
#include "ui/session/session.h"

#include "core/hash.h"
#include "core/places.h"
#include "ui/session/project_file.h"
#include "ui/session/units_text.h"

#include <QDir>
#include <QFileInfo>

#include <fmt/format.h>

namespace megagraph::ui {
namespace {

constexpr int kSaveAfterMs = 1000;
constexpr int kReplanAfterMs = 250; // typing a budget is one change, not five
constexpr size_t kRunsListed = 50;
constexpr int kRunsEveryMs = 3000; // while one of the listed runs is alive

struct Library_ { std::vector<DatasetInfo> datasets; QStringList models; std::vector<RunInfo> runs; };

std::string markerFile(const planner::ProblemRequest& request, const DatasetSpec& dataset)
{
    const std::string key = fmt::format("{} {} {}", dataset.contentHash, modelSignature(request.model),
                                        request.cluster.devices().size());
    return request.home + "/cache/studio/" + sha256Hex(key).substr(0, 16);
}

} // namespace

struct Session::PlanOutcome {
    std::optional<Error> error;
    bool needsJob = false; ///< token order and graph statistics are to be made by a child
    TablePtr table;
    std::shared_ptr<const planner::Problem> problem;
};

struct Session::ProjectOutcome { std::optional<Error> error; LoadedProject loaded; };

Session::Session(const Options& options, QObject* parent)
    : QObject(parent), options_(options), io_(QStringLiteral("io"), Lane::Order::InOrder),
      search_(QStringLiteral("search"), Lane::Order::LatestWins), follow_(QStringLiteral("follow"), Lane::Order::InOrder),
      jobs_(options.program, options.home)
{
    saveTimer_.setSingleShot(true);
    saveTimer_.setInterval(kSaveAfterMs);
    connect(&saveTimer_, &QTimer::timeout, this, &Session::saveProject);
    replanTimer_.setSingleShot(true);
    replanTimer_.setInterval(kReplanAfterMs);
    connect(&replanTimer_, &QTimer::timeout, this, &Session::replan);
    runsTimer_.setSingleShot(true);
    runsTimer_.setInterval(kRunsEveryMs);
    connect(&runsTimer_, &QTimer::timeout, this, &Session::refreshLibrary);
    planState_.text = tr("No project is open. Open the sample, or import a graph.");
}

Session::~Session()
{
    if (saveTimer_.isActive())
        saveProject(); // the io lane ends its running task before it goes
    run_.reset();
}

QString Session::projectName() const
{
    return projectPath_.isEmpty() ? QString() : QFileInfo(projectPath_).completeBaseName();
}

// ---- project and scenario ----

void Session::openProject(const QString& path)
{
    opening_ = true;
    projectProblem_.clear();
    emit projectChanged();
    const QString absolute = QFileInfo(path).absoluteFilePath();
    io_.post(
        this,
        [file = absolute.toStdString()](std::stop_token) {
            auto loaded = loadProject(file);
            return loaded ? ProjectOutcome{std::nullopt, *loaded} : ProjectOutcome{loaded.error(), {}};
        },
        [this, absolute](ProjectOutcome outcome) { takeProject(absolute, std::move(outcome)); });
}

void Session::takeProject(const QString& path, ProjectOutcome outcome)
{
    opening_ = false;
    if (outcome.error) {
        projectProblem_ = QString::fromStdString(outcome.error->message);
        notify(NoticeKind::Error, projectProblem_);
        emit projectChanged();
        return;
    }
    saveTimer_.stop();
    projectPath_ = path;
    hasProject_ = true;
    project_ = outcome.loaded.project;
    scenario_ = outcome.loaded.scenario;
    pins_ = {};
    focus_ = 0;
    table_.reset();
    emit projectChanged();
    emit tableChanged();
    refreshLibrary();
    replan();
}

void Session::openSample()
{
    const QString project = options_.home + QStringLiteral("/projects/sample/sample.megagraph");
    const auto open = [this, project] {
        if (QFileInfo::exists(project))
            openProject(project);
        else
            newProject(project, QStringLiteral("sample"), QStringLiteral("graphormer-sample"));
    };
    if (QFileInfo::exists(options_.home + QStringLiteral("/datasets/sample/dataset.json"))) {
        open();
        return;
    }
    opening_ = true;
    emit projectChanged();
    jobs_.start(tr("Generate the sample graph"),
                {QStringLiteral("generate"), QStringLiteral("community"), QStringLiteral("--name"), QStringLiteral("sample"),
                 QStringLiteral("--json"), QStringLiteral("--events")},
                [this, open](const Job& job) {
                    opening_ = false;
                    if (job.state() == Job::State::Done) {
                        open();
                        return;
                    }
                    projectProblem_ = job.state() == Job::State::Cancelled ? QString() : job.message();
                    if (!projectProblem_.isEmpty())
                        notify(NoticeKind::Error, projectProblem_, tr("Retry"), [this] { openSample(); });
                    emit projectChanged();
                });
}

void Session::newProject(const QString& path, const QString& dataset, const QString& model)
{
    projectPath_ = QFileInfo(path).absoluteFilePath();
    hasProject_ = true;
    opening_ = false;
    projectProblem_.clear();
    project_ = {};
    scenario_ = {};
    scenario_.dataset = dataset;
    scenario_.model = model;
    pins_ = {};
    focus_ = 0;
    table_.reset();
    saveProject();
    emit projectChanged();
    emit tableChanged();
    refreshLibrary();
    replan();
}

void Session::scenarioChanged()
{
    if (options_.writes && hasProject_)
        saveTimer_.start();
    emit projectChanged();
    replanTimer_.start();
}

void Session::setDataset(const QString& name)
{
    if (name == scenario_.dataset)
        return;
    scenario_.dataset = name;
    scenarioChanged();
}

void Session::setModel(const QString& nameOrPath)
{
    if (nameOrPath == scenario_.model)
        return;
    scenario_.model = nameOrPath;
    scenarioChanged();
}

void Session::setRanks(int64_t ranks)
{
    if (ranks == scenario_.constraints.ranks)
        return;
    scenario_.constraints.ranks = ranks;
    scenarioChanged();
}

void Session::setBudget(int64_t bytes)
{
    if (bytes == scenario_.constraints.budgetBytes)
        return;
    scenario_.constraints.budgetBytes = bytes;
    scenarioChanged();
}

void Session::saveProject()
{
    saveTimer_.stop();
    if (!options_.writes || !hasProject_)
        return;
    io_.post(
        this,
        [path = projectPath_.toStdString(), project = project_, scenario = scenario_](std::stop_token) {
            auto saved = storeProject(path, project, scenario);
            return saved ? QString() : QString::fromStdString(saved.error().message);
        },
        [this](const QString& problem) {
            if (!problem.isEmpty())
                notify(NoticeKind::Error, problem, tr("Retry"), [this] { saveProject(); });
        });
}

// ---- library ----

void Session::refreshLibrary()
{
    io_.post(
        this,
        [home = options_.home.toStdString(), resources = options_.resources.toStdString()](std::stop_token) {
            return Library_{listDatasets(home), listModels(resources), listRuns(home, kRunsListed)};
        },
        [this](Library_ found) {
            datasets_ = std::move(found.datasets);
            modelPresets_ = std::move(found.models);
            runs_ = std::move(found.runs);
            const bool first = !libraryLoaded_;
            libraryLoaded_ = true;
            const auto alive = std::find_if(runs_.begin(), runs_.end(), [](const RunInfo& run) { return run.alive; });
            if (first && !run_ && alive != runs_.end())
                attach(alive->id); // a run that outlived the last window is found again
            if (alive != runs_.end())
                runsTimer_.start();
            emit libraryChanged();
        });
}

const DatasetInfo* Session::dataset(const QString& name) const
{
    for (const DatasetInfo& info : datasets_)
        if (info.name == name)
            return &info;
    return nullptr;
}

// ---- jobs ----

void Session::checkMachine()
{
    if (checkingMachine_)
        return;
    checkingMachine_ = true;
    machineProblem_.clear();
    emit machineChanged();
    jobs_.start(tr("Check this machine"), {QStringLiteral("doctor"), QStringLiteral("--json")}, [this](const Job& job) {
        checkingMachine_ = false;
        // doctor may end with a code other than 0 and still give its document
        if (job.document() && job.document()->is_object() && !job.document()->contains("error"))
            machine_ = job.document();
        else
            machineProblem_ = job.message().isEmpty() ? tr("The check ended without a document.") : job.message();
        emit machineChanged();
    });
}

void Session::importData(const QString& path, const QString& name)
{
    jobs_.start(tr("Import %1").arg(name),
                {QStringLiteral("import"), path, QStringLiteral("--name"), name, QStringLiteral("--json"),
                 QStringLiteral("--events")},
                [this, path, name](const Job& job) {
                    if (job.state() == Job::State::Cancelled)
                        return;
                    if (job.state() == Job::State::Failed) {
                        notify(NoticeKind::Error, job.message(), tr("Retry"), [this, path, name] { importData(path, name); });
                        return;
                    }
                    notify(NoticeKind::Ok, tr("Imported %1.").arg(name));
                    if (!hasProject_) {
                        const QString model = modelPresets_.contains(QStringLiteral("graphormer-cora"))
                                                  ? QStringLiteral("graphormer-cora")
                                                  : QStringLiteral("graphormer-sample");
                        newProject(options_.home + QStringLiteral("/projects/%1/%1.megagraph").arg(name), name, model);
                    } else {
                        refreshLibrary();
                        setDataset(name);
                    }
                });
}

void Session::measure()
{
    QStringList arguments{QStringLiteral("profile"), QStringLiteral("--quick"),        QStringLiteral("--data"),
                          scenario_.dataset,         QStringLiteral("--model"),        scenario_.model,
                          QStringLiteral("--json"),  QStringLiteral("--events")};
    if (scenario_.constraints.ranks > 0)
        arguments << QStringLiteral("--ranks") << QString::number(scenario_.constraints.ranks);
    jobs_.start(tr("Measure this machine"), arguments, [this](const Job& job) {
        if (job.state() == Job::State::Cancelled)
            return;
        if (job.state() == Job::State::Failed) {
            notify(NoticeKind::Error, job.message(), tr("Retry"), [this] { measure(); });
            return;
        }
        notify(NoticeKind::Ok, tr("Measured. Plans are being predicted again."));
        replan();
    });
}

void Session::verify(const planner::PlanRow& row)
{
    const QString file = planFile(row);
    const uint64_t id = row.id;
    const planner::PlanRow copy = row;
    savePlan(row, file);
    jobs_.start(tr("Prove sameness of %1").arg(QString::fromStdString(row.plan.name)),
                {QStringLiteral("verify"), file, QStringLiteral("--steps"), QStringLiteral("50"), QStringLiteral("--json"),
                 QStringLiteral("--events")},
                [this, id, copy](const Job& job) {
                    if (job.state() == Job::State::Cancelled)
                        return;
                    const bool certificate = job.document() && job.document()->is_object() &&
                                             job.document()->contains("verdict");
                    if (certificate) {
                        certificates_.emplace_back(id, job.document());
                        emit certificateChanged();
                    } else {
                        notify(NoticeKind::Error, job.message(), tr("Retry"), [this, copy] { verify(copy); });
                    }
                    refreshLibrary();
                });
}

const std::optional<Json>& Session::certificate(uint64_t planId) const
{
    static const std::optional<Json> none;
    for (auto it = certificates_.rbegin(); it != certificates_.rend(); ++it)
        if (it->first == planId)
            return it->second;
    return none;
}

// ---- plans ----

void Session::setPlanState(PlanState state)
{
    planState_ = std::move(state);
    emit planStateChanged();
}

void Session::replan()
{
    replanTimer_.stop();
    ++planGeneration_;
    search_.cancel();
    if (planJob_)
        planJob_->cancel();
    if (scenario_.dataset.isEmpty() || scenario_.model.isEmpty()) {
        setPlanState({PlanPhase::Missing,
                      !hasProject_               ? tr("No project is open. Open the sample, or import a graph.")
                      : scenario_.dataset.isEmpty() ? tr("No plans yet: the data set is missing.")
                                                    : tr("No plans yet: the model is missing."),
                      0, 0});
        return;
    }
    search(false);
}

void Session::search(bool afterJob)
{
    setPlanState({PlanPhase::Searching, tr("Searching plans for %1").arg(scenario_.dataset), 0, 0});
    const uint64_t generation = planGeneration_;
    planner::ProblemRequest request;
    request.home = options_.home.toStdString();
    request.resources = options_.resources.toStdString();
    request.dataset = scenario_.dataset.toStdString();
    request.constraints = scenario_.constraints;
    const bool mayUseJob = jobs_.available() && !afterJob;
    search_.post(
        this,
        [this, generation, request, scenario = scenario_, mayUseJob](std::stop_token stop) mutable {
            PlanOutcome outcome;
            const auto fail = [&outcome](const Error& error) {
                outcome.error = error;
                return outcome;
            };
            auto model = loadModel(scenario.model.toStdString(), request.resources);
            if (!model)
                return fail(model.error());
            request.model = *model;
            if (scenario.cluster) {
                request.cluster = *scenario.cluster;
            } else {
                auto cluster = localCluster(scenario.constraints.ranks, scenario.constraints.budgetBytes);
                if (!cluster)
                    return fail(cluster.error());
                request.cluster = *cluster;
            }
            const std::string file = datasetFolder(request.home, request.dataset) + "/dataset.json";
            auto document = readJsonFile(file);
            if (!document)
                return fail(document.error());
            auto dataset = datasetFromJson(*document, file);
            if (!dataset)
                return fail(dataset.error());
            const std::string marker = markerFile(request, *dataset);
            if (mayUseJob && !QFileInfo::exists(QString::fromStdString(marker))) {
                outcome.needsJob = true; // METIS may fault inside; a child takes that
                return outcome;
            }
            // `this` outlives the lane, which is its member; the event is dropped when the search is stale
            const auto progress = [this, generation](const std::string& what, int64_t done, int64_t total) {
                QMetaObject::invokeMethod(
                    this,
                    [this, generation, what, done, total] {
                        if (generation == planGeneration_ && planState_.busy())
                            setPlanState({PlanPhase::Searching, QString::fromStdString(what), done, total});
                    },
                    Qt::QueuedConnection);
            };
            auto problem = planner::assembleProblem(request, progress, stop);
            if (!problem)
                return fail(problem.error());
            auto table = planner::search(*problem, {}, [](int64_t, int64_t) {}, stop);
            if (!table)
                return fail(table.error());
            if (makeFolders(request.home + "/cache/studio"))
                (void)writeFileAtomically(marker, "1\n").ok();
            outcome.table = std::make_shared<const planner::PlanTable>(std::move(*table));
            outcome.problem = std::make_shared<const planner::Problem>(std::move(*problem));
            return outcome;
        },
        [this, afterJob](PlanOutcome outcome) { takeOutcome(std::move(outcome), afterJob); });
}

void Session::prepare()
{
    setPlanState({PlanPhase::Preparing, tr("Ordering the graph and counting what plans need"), 0, 0});
    QStringList arguments = planCommand();
    arguments.removeFirst();
    arguments << QStringLiteral("--events");
    const uint64_t generation = planGeneration_;
    planJob_ = jobs_.start(tr("Prepare %1").arg(scenario_.dataset), arguments, [this, generation](const Job& job) {
        if (generation != planGeneration_)
            return;
        // exit code 1 is an answer (nothing fits): the table is shown all the same
        if (job.state() == Job::State::Cancelled)
            setPlanState({PlanPhase::Failed, tr("Cancelled."), 0, 0});
        else if (job.state() == Job::State::Failed && job.exitCode() != 1)
            setPlanState({PlanPhase::Failed, job.message(), 0, 0});
        else
            search(true);
    });
    connect(planJob_, &Job::changed, this, [this, generation, job = planJob_] {
        if (generation == planGeneration_ && job && !job->progressText().isEmpty())
            setPlanState({PlanPhase::Preparing, job->progressText(), job->done(), job->total()});
    });
}

void Session::takeOutcome(PlanOutcome outcome, bool afterJob)
{
    if (outcome.needsJob && !afterJob) {
        prepare();
        return;
    }
    if (outcome.error) {
        table_.reset();
        problem_.reset();
        emit tableChanged();
        setPlanState({PlanPhase::Failed, QString::fromStdString(outcome.error->message), 0, 0});
        return;
    }
    problem_ = std::move(outcome.problem);
    setTable(std::move(outcome.table));
}

void Session::setTable(TablePtr table)
{
    table_ = std::move(table);
    if (table_ && rowIndexOf(focus_) < 0)
        focus_ = table_->picked >= 0 ? table_->rows[size_t(table_->picked)].id : 0;
    if (table_ && !focus_ && !table_->rows.empty())
        focus_ = table_->rows.front().id;
    for (uint64_t& pin : pins_)
        if (rowIndexOf(pin) < 0)
            pin = 0;
    applyFilter();
    emit tableChanged();
    emit selectionChanged();
    setPlanState({table_ ? PlanPhase::Ready : PlanPhase::Missing, {}, 0, 0});
}

// ---- selection ----

void Session::applyFilter()
{
    filterProblem_.clear();
    if (!table_) {
        shown_.clear();
        return;
    }
    auto rows = planner::filterRows(*table_, filterText_.toStdString());
    if (!rows) {
        filterProblem_ = QString::fromStdString(rows.error().message);
        rows = planner::filterRows(*table_, goodFilter_.toStdString()); // the last good filter stays
    } else {
        goodFilter_ = filterText_;
    }
    shown_ = rows ? *rows : std::vector<bool>(table_->rows.size(), true);
}

void Session::setFilter(const QString& text)
{
    if (text == filterText_)
        return;
    filterText_ = text;
    applyFilter();
    emit selectionChanged();
}

int64_t Session::shownCount() const
{
    return std::count(shown_.begin(), shown_.end(), true);
}

void Session::setFocus(uint64_t id)
{
    if (id == focus_)
        return;
    focus_ = id;
    emit selectionChanged();
}

int64_t Session::rowIndexOf(uint64_t id) const
{
    if (!table_ || id == 0)
        return -1;
    for (size_t i = 0; i < table_->rows.size(); ++i)
        if (table_->rows[i].id == id)
            return int64_t(i);
    return -1;
}

const planner::PlanRow* Session::rowOf(uint64_t id) const
{
    const int64_t index = rowIndexOf(id);
    return index < 0 ? nullptr : &table_->rows[size_t(index)];
}

void Session::togglePin(uint64_t id)
{
    if (id == 0)
        return;
    for (uint64_t& pin : pins_) {
        if (pin == id) {
            pin = 0;
            emit selectionChanged();
            return;
        }
    }
    for (uint64_t& pin : pins_) {
        if (pin == 0) {
            pin = id;
            emit selectionChanged();
            return;
        }
    }
    notify(NoticeKind::Warning, tr("All eight pins are in use; take one off first."));
}

QString Session::pinLetter(uint64_t id) const
{
    for (int i = 0; i < kPins; ++i)
        if (id != 0 && pins_[size_t(i)] == id)
            return QString(QChar(u'A' + i));
    return {};
}

std::vector<Session::Pick> Session::picks() const
{
    std::vector<const planner::PlanRow*> rows;
    if (table_)
        for (const planner::PlanRow& row : table_->rows)
            if (row.legal && row.runnable && row.feasible)
                rows.push_back(&row);
    if (rows.empty())
        return {};
    const auto best = [&rows](auto less) { return *std::min_element(rows.begin(), rows.end(), [&](auto* a, auto* b) { return less(*a, *b); }); };
    using Row = planner::PlanRow;
    const Row* fastest = best([](const Row& a, const Row& b) { return a.stepNs < b.stepNs; });
    std::erase_if(rows, [limit = fastest->stepNs + fastest->stepNs / 4](const Row* r) { return r->stepNs > limit; });
    const Row* safest = best([](const Row& a, const Row& b) {
        return std::tuple(-a.pFit, double(a.peakBytes - a.budgetBytes)) < std::tuple(-b.pFit, double(b.peakBytes - b.budgetBytes));
    });
    const Row* moved = best([](const Row& a, const Row& b) { return std::tuple(a.movedBytes, a.stepNs) < std::tuple(b.movedBytes, b.stepNs); });
    const Row* simplest = best([](const Row& a, const Row& b) { return std::tuple(a.mechanisms, a.stepNs) < std::tuple(b.mechanisms, b.stepNs); });
    return {{tr("Fastest"), tr("%1 per step").arg(timeText(double(fastest->stepNs))), fastest->id},
            {tr("Safest"), tr("P(fit) %1, peak %2").arg(chanceText(safest->pFit), memoryText(double(safest->peakBytes))), safest->id},
            {tr("Least moved"), tr("%1 sent per step").arg(memoryText(double(moved->movedBytes))), moved->id},
            {tr("Simplest"), tr("mechanisms in use: %1").arg(simplest->mechanisms), simplest->id}};
}

// ---- runs ----

void Session::attach(const QString& runId)
{
    if (run_ && run_->id() == runId)
        return;
    run_ = runId.isEmpty() ? nullptr
                           : std::make_unique<RunWatch>(follow_, QString::fromStdString(runFolder(options_.home.toStdString(), runId.toStdString())));
    if (run_) {
        connect(run_.get(), &RunWatch::changed, this, [this, ended = false]() mutable {
            if (run_->record().isFinal() && !ended)
                refreshLibrary();
            ended = run_->record().isFinal();
            emit runUpdated();
        });
        connect(run_.get(), &RunWatch::failed, this, [this](const QString& message) { notify(NoticeKind::Error, message); });
    }
    emit runChanged();
}

QString Session::planFile(const planner::PlanRow& row) const
{
    const QString folder = projectPath_.isEmpty() ? options_.home + QStringLiteral("/projects") : QFileInfo(projectPath_).absolutePath();
    return QStringLiteral("%1/plans/%2.json").arg(folder, QString::fromStdString(fmt::format("{:016x}", row.id)).left(8));
}

void Session::savePlan(const planner::PlanRow& row, const QString& path)
{
    io_.post(
        this,
        [plan = row.plan, file = path.toStdString()](std::stop_token) {
            auto made = makeFolders(QFileInfo(QString::fromStdString(file)).absolutePath().toStdString());
            auto saved = made ? writeFileAtomically(file, planToJson(plan).dump(2) + "\n") : made;
            return saved ? QString() : QString::fromStdString(saved.error().message);
        },
        [this, path](const QString& problem) {
            if (!problem.isEmpty()) {
                notify(NoticeKind::Error, problem);
                return;
            }
            const std::string name = QFileInfo(projectPath_).absoluteDir().relativeFilePath(path).toStdString();
            if (hasProject_ && std::find(project_.plans.begin(), project_.plans.end(), name) == project_.plans.end()) {
                project_.plans.push_back(name);
                saveTimer_.start();
            }
        });
}

void Session::startRun(const planner::PlanRow& row, bool riskOutOfMemory)
{
    if (startingRun_)
        return;
    const QString file = planFile(row);
    savePlan(row, file);
    QStringList arguments{QStringLiteral("train"), QStringLiteral("--plan"), file, QStringLiteral("--detach"), QStringLiteral("--json")};
    if (riskOutOfMemory)
        arguments << QStringLiteral("--risk-oom");
    // behind the plan in the same queue, so the file is there
    startingRun_ = true;
    emit runChanged();
    io_.post(this, [](std::stop_token) { return true; }, [this, arguments](bool) { launch(arguments); });
}

void Session::launch(const QStringList& arguments)
{
    startingRun_ = true;
    emit runChanged();
    jobs_.start(tr("Start the run"), arguments, [this](const Job& job) {
        startingRun_ = false;
        QString id;
        if (job.document() && job.document()->is_object() && job.document()->contains("run"))
            id = QString::fromStdString((*job.document())["run"].get<std::string>());
        if (id.isEmpty()) {
            emit runChanged();
            if (job.state() != Job::State::Cancelled)
                notify(NoticeKind::Error, job.message().isEmpty() ? tr("The run did not start.") : job.message());
            return;
        }
        if (hasProject_) {
            if (std::find(project_.runs.begin(), project_.runs.end(), id.toStdString()) == project_.runs.end())
                project_.runs.push_back(id.toStdString());
            saveTimer_.start();
        }
        if (run_ && run_->id() == id)
            run_.reset(); // a resumed run is read again from its start
        attach(id);
        refreshLibrary();
        emit runStarted();
    });
}

void Session::resumeRun(const QString& runId)
{
    launch({QStringLiteral("train"), QStringLiteral("--resume"), runId, QStringLiteral("--detach"), QStringLiteral("--json")});
}

void Session::stopRun()
{
    if (!run_ || !run_->record().isAlive())
        return;
    static const char* const kLadder[] = {"stop", "terminate", "kill"};
    run_->request(QString::fromLatin1(kLadder[std::min(run_->stopPresses(), 2)]));
}

// ---- command line twins ----

QStringList Session::planCommand() const
{
    QStringList arguments{QStringLiteral("megagraph"), QStringLiteral("plan"), QStringLiteral("--data"), scenario_.dataset,
                          QStringLiteral("--model"), scenario_.model};
    if (scenario_.constraints.ranks > 0)
        arguments << QStringLiteral("--ranks") << QString::number(scenario_.constraints.ranks);
    if (scenario_.constraints.budgetBytes > 0)
        arguments << QStringLiteral("--budget") << QString::number(scenario_.constraints.budgetBytes);
    for (const auto& [knob, values] : scenario_.constraints.allow) {
        QStringList words;
        for (const std::string& value : values)
            words << QString::fromStdString(value);
        arguments << QStringLiteral("--allow") << QString::fromStdString(knob) + QLatin1Char('=') + words.join(QLatin1Char(','));
    }
    return arguments << QStringLiteral("--json");
}

QStringList Session::trainCommand(const planner::PlanRow& row) const
{
    QStringList arguments{QStringLiteral("megagraph"), QStringLiteral("train"), QStringLiteral("--plan"), planFile(row)};
    if (!row.feasible)
        arguments << QStringLiteral("--risk-oom");
    return arguments;
}

void Session::notify(NoticeKind kind, const QString& text, const QString& actionText, std::function<void()> action)
{
    emit noticed({kind, text, actionText, std::move(action), QDateTime::currentDateTime()});
}

} // namespace megagraph::ui
