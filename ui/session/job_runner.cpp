// SPDX-License-Identifier: Apache-2.0
#include "ui/session/job_runner.h"

#include <QProcessEnvironment>
#include <QTimer>

#include <csignal>
#include <sys/prctl.h>

namespace megagraph::ui {
namespace {

constexpr int kKillAfterMs = 2000;
constexpr int kErrorsKept = 64 * 1024;
constexpr int kOutputKept = 64 * 1024 * 1024;
constexpr int kLineKept = 1024 * 1024;

// what a child may see of our environment
QProcessEnvironment childEnvironment(const QString& home)
{
    static const char* const kAllowed[] = {"PATH",        "HOME",        "USER",         "LANG",
                                           "TMPDIR",      "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME",
                                           "MEGAGRAPH_RESOURCES", "MEGAGRAPH_SHARED_DATA", "MEGAGRAPH_CPU_KERNELS",
                                           "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH"};
    const QProcessEnvironment ours = QProcessEnvironment::systemEnvironment();
    QProcessEnvironment result;
    for (const char* name : kAllowed) {
        const QString key = QString::fromLatin1(name);
        if (ours.contains(key))
            result.insert(key, ours.value(key));
    }
    result.insert(QStringLiteral("MEGAGRAPH_HOME"), home);
    return result;
}

QString textOf(const Json& line, const char* key)
{
    const auto it = line.find(key);
    return it != line.end() && it->is_string() ? QString::fromStdString(it->get<std::string>()) : QString();
}

int64_t numberOf(const Json& line, const char* key)
{
    const auto it = line.find(key);
    return it != line.end() && it->is_number() ? it->get<int64_t>() : 0;
}

} // namespace

Job::Job(int id, const QString& title, const QStringList& arguments, QObject* parent)
    : QObject(parent), id_(id), title_(title), arguments_(arguments)
{
    clock_.start();
}

void Job::start(const QString& program, const QProcessEnvironment& environment)
{
    process_.setProcessEnvironment(environment);
    // the GUI thread lives as long as the window, so its death is the window's: no job outlives a killed studio
    process_.setChildProcessModifier([] { ::prctl(PR_SET_PDEATHSIG, SIGTERM); });
    process_.setStandardInputFile(QProcess::nullDevice());
    connect(&process_, &QProcess::readyReadStandardOutput, this, [this] {
        output_ += process_.readAllStandardOutput();
        if (output_.size() > kOutputKept)
            output_.truncate(kOutputKept);
    });
    connect(&process_, &QProcess::readyReadStandardError, this, &Job::readErrors);
    connect(&process_, &QProcess::finished, this, &Job::end);
    connect(&process_, &QProcess::errorOccurred, this, [this](QProcess::ProcessError error) {
        if (error == QProcess::FailedToStart)
            fail(tr("%1: cannot be started: %2; build or install the command line program.")
                     .arg(process_.program(), process_.errorString()));
    });
    process_.start(program, arguments_);
}

void Job::readErrors()
{
    errorRest_ += process_.readAllStandardError();
    for (qsizetype at = errorRest_.indexOf('\n'); at >= 0; at = errorRest_.indexOf('\n')) {
        takeErrorLine(errorRest_.left(at));
        errorRest_.remove(0, at + 1);
    }
    if (errorRest_.size() > kLineKept)
        errorRest_.clear();
    emit changed();
}

void Job::takeErrorLine(const QByteArray& line)
{
    const Json value = line.startsWith('{') ? Json::parse(line.constData(), line.constData() + line.size(), nullptr, false)
                                            : Json(Json::value_t::discarded);
    if (!value.is_object()) {
        lastErrors_ += QString::fromUtf8(line) + QLatin1Char('\n');
        lastErrors_ = lastErrors_.right(kErrorsKept);
        return;
    }
    QString text = textOf(value, "what");
    if (text.isEmpty())
        text = textOf(value, "text");
    if (text.isEmpty())
        return;
    progress_ = text;
    done_ = numberOf(value, "done");
    total_ = numberOf(value, "total");
}

void Job::end(int code, QProcess::ExitStatus status)
{
    if (state_ != State::Running)
        return;
    output_ += process_.readAllStandardOutput();
    readErrors();
    exitCode_ = code;
    const Json whole = Json::parse(output_.constData(), output_.constData() + output_.size(), nullptr, false);
    if (!whole.is_discarded())
        document_ = whole;
    if (cancelled_) {
        state_ = State::Cancelled;
        emit finished();
        return;
    }
    if (status == QProcess::NormalExit && code == 0) {
        state_ = State::Done;
        emit finished();
        return;
    }
    QString message;
    if (document_ && document_->is_object() && document_->contains("error") && (*document_)["error"].is_object())
        message = textOf((*document_)["error"], "message");
    if (message.isEmpty())
        message = lastErrors_.trimmed().section(QLatin1Char('\n'), -3);
    if (message.isEmpty())
        message = status == QProcess::CrashExit ? tr("%1: ended by a signal; run it in a shell to see more.").arg(title_)
                                                : tr("%1: ended without a message.").arg(title_);
    fail(message);
}

void Job::fail(const QString& message)
{
    if (state_ != State::Running)
        return;
    state_ = State::Failed;
    message_ = message;
    emit finished();
}

void Job::cancel()
{
    if (state_ != State::Running || cancelled_)
        return;
    cancelled_ = true;
    process_.terminate();
    QTimer::singleShot(kKillAfterMs, this, [this] { process_.kill(); });
    emit changed();
}

JobRunner::JobRunner(const QString& program, const QString& home, QObject* parent)
    : QObject(parent), program_(program), home_(home)
{
}

Job* JobRunner::start(const QString& title, const QStringList& arguments, std::function<void(const Job&)> done)
{
    auto* job = new Job(nextId_++, title, arguments, this);
    running_.append(job);
    connect(job, &Job::changed, this, &JobRunner::jobsChanged);
    connect(job, &Job::finished, this, [this, job, done = std::move(done)] {
        running_.removeOne(job);
        done(*job);
        emit jobsChanged();
        job->deleteLater();
    });
    if (available())
        job->start(program_, childEnvironment(home_));
    else // after the caller has the pointer
        QTimer::singleShot(0, job, [job] {
            job->fail(tr("megagraph: program not found beside the studio or on PATH; exploring works, this needs it."));
        });
    emit jobsChanged();
    return job;
}

void JobRunner::cancelAll()
{
    for (Job* job : std::as_const(running_))
        job->cancel();
}

QString shellLine(const QStringList& arguments)
{
    static const QString kPlain = QStringLiteral("%+,-./:=@_");
    QStringList quoted;
    for (const QString& argument : arguments) {
        bool plain = !argument.isEmpty();
        for (const QChar c : argument)
            plain = plain && ((c.unicode() < 128 && c.isLetterOrNumber()) || kPlain.contains(c));
        QString inner = argument;
        quoted << (plain ? argument
                         : QLatin1Char('\'') + inner.replace(QLatin1Char('\''), QStringLiteral("'\\''")) + QLatin1Char('\''));
    }
    return quoted.join(QLatin1Char(' '));
}

} // namespace megagraph::ui
