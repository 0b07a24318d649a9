// SPDX-License-Identifier: Apache-2.0
#include "ui/session/project_file.h"

#include "core/places.h"

#include <QDir>
#include <QFile>
#include <QFileInfo>

namespace megagraph::ui {
namespace {

std::string beside(const std::string& project, const std::string& name)
{
    const QFileInfo info(QString::fromStdString(project));
    return QDir::cleanPath(info.absoluteDir().absoluteFilePath(QString::fromStdString(name))).toStdString();
}

std::string constraintsName(const std::string& project)
{
    return QFileInfo(QString::fromStdString(project)).completeBaseName().toStdString() + ".constraints.json";
}

} // namespace

Result<LoadedProject> loadProject(const std::string& path)
{
    MEGAGRAPH_TRY(const Json document, readJsonFile(path));
    LoadedProject loaded;
    MEGAGRAPH_TRY(loaded.project, projectFromJson(document, path));
    const ProjectSpec& project = loaded.project;
    loaded.scenario.dataset = QString::fromStdString(project.dataset);
    // a model is a preset name, or a file beside the project
    const std::string modelFile = project.model.empty() ? std::string() : beside(path, project.model);
    const bool isFile = !modelFile.empty() && QFileInfo(QString::fromStdString(modelFile)).isFile();
    loaded.scenario.model = QString::fromStdString(isFile ? modelFile : project.model);
    if (!project.constraints.empty()) {
        MEGAGRAPH_TRY(const Json value, readJsonFile(beside(path, project.constraints)));
        MEGAGRAPH_TRY(loaded.scenario.constraints, constraintsFromJson(value, project.constraints));
    }
    if (!project.clusters.empty()) {
        const size_t active = size_t(std::clamp<int64_t>(project.activeCluster, 0, int64_t(project.clusters.size()) - 1));
        MEGAGRAPH_TRY(const Json value, readJsonFile(beside(path, project.clusters[active])));
        MEGAGRAPH_TRY(loaded.scenario.cluster, clusterFromJson(value, project.clusters[active]));
    }
    return loaded;
}

Result<Ok> storeProject(const std::string& path, ProjectSpec project, const Scenario& scenario)
{
    MEGAGRAPH_TRY(std::ignore, makeFolders(QFileInfo(QString::fromStdString(path)).absolutePath().toStdString()));
    project.dataset = scenario.dataset.toStdString();
    const QFileInfo model(scenario.model);
    project.model = model.isAbsolute()
                        ? QFileInfo(QString::fromStdString(path)).absoluteDir().relativeFilePath(scenario.model).toStdString()
                        : scenario.model.toStdString();
    if (project.constraints.empty())
        project.constraints = constraintsName(path);
    MEGAGRAPH_TRY(std::ignore, writeFileAtomically(beside(path, project.constraints),
                                                   constraintsToJson(scenario.constraints).dump(2) + "\n"));
    const QString file = QString::fromStdString(path);
    if (QFileInfo::exists(file)) {
        QFile::remove(file + QStringLiteral(".bak"));
        QFile::copy(file, file + QStringLiteral(".bak"));
    }
    return writeFileAtomically(path, projectToJson(project).dump(2) + "\n");
}

std::vector<DatasetInfo> listDatasets(const std::string& home)
{
    std::vector<DatasetInfo> found;
    const QDir folder(QString::fromStdString(home) + QStringLiteral("/datasets"));
    for (const QString& name : folder.entryList(QDir::Dirs | QDir::NoDotAndDotDot, QDir::Name)) {
        const QString file = folder.filePath(name) + QStringLiteral("/dataset.json");
        if (!QFileInfo::exists(file))
            continue;
        const auto document = readJsonFile(file.toStdString());
        if (!document)
            continue;
        if (auto spec = datasetFromJson(*document, file.toStdString()))
            found.push_back({name, *spec});
    }
    return found;
}

std::vector<RunInfo> listRuns(const std::string& home, size_t limit)
{
    std::vector<RunInfo> found;
    const QDir folder(QString::fromStdString(home) + QStringLiteral("/runs"));
    // ids start with the date, so the last name is the newest run
    const QStringList names = folder.entryList(QDir::Dirs | QDir::NoDotAndDotDot, QDir::Name | QDir::Reversed);
    for (const QString& name : names) {
        if (found.size() >= limit)
            break;
        const QString path = folder.filePath(name);
        const auto status = readRunStatus(path.toStdString());
        if (!status)
            continue;
        found.push_back({name, path, QString::fromStdString(status->kind), QString::fromStdString(status->name),
                         QString::fromStdString(status->state), status->step, status->steps, status->etaS, status->alive});
    }
    return found;
}

QStringList listModels(const std::string& resources)
{
    QStringList names;
    const QDir folder(QString::fromStdString(resources) + QStringLiteral("/models"));
    for (const QString& file : folder.entryList({QStringLiteral("*.json")}, QDir::Files, QDir::Name))
        names << QFileInfo(file).completeBaseName();
    return names;
}

} // namespace megagraph::ui
