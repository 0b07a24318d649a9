// SPDX-License-Identifier: Apache-2.0
#include "ui/session/run_watch.h"

#include <QDir>
#include <QFile>
#include <QFileInfo>
#include <QMap>

namespace megagraph::ui {
namespace {

constexpr int kVisibleMs = 250;
constexpr int kHiddenMs = 2000;
constexpr qint64 kLogPortion = 64 * 1024;

} // namespace

struct RunWatch::Reader {
    explicit Reader(const QString& folder) : path(folder), follower(folder.toStdString()) {}

    QString path;
    RunFollower follower;
    bool documentsRead = false, resultRead = false;
    QString failureRead;
    QMap<QString, qint64> logOffsets;

    RunDelta portion();

  private:
    std::optional<Json> documentOf(const QString& name) const;
    void readDocuments(RunDelta& delta);
    void readLogs(RunDelta& delta);
    void readFailure(RunDelta& delta);
};

std::optional<Json> RunWatch::Reader::documentOf(const QString& name) const
{
    const QString file = path + QLatin1Char('/') + name;
    if (!QFileInfo::exists(file))
        return std::nullopt;
    auto value = readJsonFile(file.toStdString());
    return value ? std::optional<Json>(std::move(*value)) : std::nullopt;
}

void RunWatch::Reader::readDocuments(RunDelta& delta)
{
    if (!documentsRead) {
        const auto spec = documentOf(QStringLiteral("run.json")), plan = documentOf(QStringLiteral("plan.json"));
        if (spec) {
            if (auto read = runFromJson(*spec, "run.json"))
                delta.spec = *read;
            else
                delta.problem = read.error().message;
        }
        if (plan) {
            if (auto read = planFromJson(*plan, "plan.json"))
                delta.plan = *read;
            else
                delta.problem = read.error().message;
        }
        documentsRead = spec && plan;
    }
    if (!resultRead) {
        delta.result = documentOf(QStringLiteral("result.json"));
        delta.certificate = documentOf(QStringLiteral("certificate.json"));
        resultRead = delta.result.has_value();
    }
}

void RunWatch::Reader::readFailure(RunDelta& delta)
{
    const QStringList numbers = QDir(path + QStringLiteral("/failures")).entryList(QDir::Dirs | QDir::NoDotAndDotDot, QDir::Name);
    if (numbers.isEmpty() || numbers.last() == failureRead)
        return;
    delta.failure = documentOf(QStringLiteral("failures/%1/card.json").arg(numbers.last()));
    if (delta.failure)
        failureRead = numbers.last();
}

void RunWatch::Reader::readLogs(RunDelta& delta)
{
    const QFileInfoList files = QDir(path + QStringLiteral("/logs")).entryInfoList({QStringLiteral("*.log")}, QDir::Files, QDir::Name);
    for (const QFileInfo& info : files) {
        qint64& offset = logOffsets[info.fileName()];
        if (info.size() <= offset)
            continue;
        offset = std::max(offset, info.size() - kLogPortion); // a long log starts with its tail
        QFile file(info.filePath());
        if (!file.open(QIODevice::ReadOnly) || !file.seek(offset))
            continue;
        QByteArray bytes = file.read(kLogPortion);
        const qsizetype end = bytes.lastIndexOf('\n') + 1;
        if (end == 0 && bytes.size() < kLogPortion)
            continue; // the line is not complete yet
        if (end > 0)
            bytes.truncate(end);
        offset += bytes.size();
        const std::string name = info.completeBaseName().toStdString();
        for (const QByteArray& line : bytes.split('\n'))
            if (!line.isEmpty())
                delta.log += name + "  " + line.left(4096).toStdString() + "\n";
    }
}

RunDelta RunWatch::Reader::portion()
{
    RunDelta delta;
    if (!QFileInfo::exists(path)) {
        delta.problem = tr("%1: run directory not found; it may have been moved or removed.").arg(path).toStdString();
        return delta;
    }
    readDocuments(delta);
    auto lines = follower.poll();
    if (lines) {
        delta.events = std::move(lines->events);
        delta.samples = std::move(lines->samples);
        delta.more = lines->more;
    } else {
        delta.problem = lines.error().message;
    }
    if (auto status = readRunStatus(path.toStdString()))
        delta.status = *status;
    readFailure(delta);
    readLogs(delta);
    return delta;
}

RunWatch::RunWatch(Lane& lane, const QString& folder, QObject* parent)
    : QObject(parent), lane_(lane), folder_(folder), reader_(std::make_shared<Reader>(folder))
{
    timer_.setSingleShot(true);
    connect(&timer_, &QTimer::timeout, this, &RunWatch::tick);
    tick();
}

QString RunWatch::id() const
{
    return QFileInfo(folder_).fileName();
}

void RunWatch::setVisible(bool visible)
{
    if (visible && !visible_ && timer_.isActive())
        timer_.start(0);
    visible_ = visible;
}

void RunWatch::tick()
{
    if (inFlight_)
        return;
    inFlight_ = true;
    lane_.post(
        this, [reader = reader_](std::stop_token) { return reader->portion(); },
        [this](RunDelta delta) {
            inFlight_ = false;
            record_.apply(delta);
            loaded_ = loaded_ || !delta.more;
            const bool slow = !visible_ || record_.isFinal();
            timer_.start(delta.more ? 0 : slow ? kHiddenMs : kVisibleMs);
            emit changed();
        });
}

void RunWatch::request(const QString& what)
{
    ++stopPresses_;
    lane_.post(
        this,
        [folder = folder_.toStdString(), what = what.toStdString()](std::stop_token) {
            auto id = requestControl(folder, what, "studio");
            return id ? QString() : QString::fromStdString(id.error().message);
        },
        [this](const QString& problem) {
            if (!problem.isEmpty())
                emit failed(problem);
            emit changed();
        });
}

} // namespace megagraph::ui
