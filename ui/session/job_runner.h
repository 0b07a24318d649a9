// SPDX-License-Identifier: Apache-2.0
// Child processes that end with the window: `megagraph VERB ... --events`, an argument array, never a shell. GUI thread
// only, nothing waits. Progress comes as JSON lines on stderr, the document on stdout. Cancel: terminate, 2 s, kill.
#pragma once

#include "core/json.h"

#include <QElapsedTimer>
#include <QObject>
#include <QProcess>
#include <QString>
#include <QStringList>

#include <functional>
#include <optional>

namespace megagraph::ui {

class Job : public QObject {
    Q_OBJECT
  public:
    enum class State { Running, Done, Failed, Cancelled };

    int id() const { return id_; }
    const QString& title() const { return title_; }
    const QStringList& arguments() const { return arguments_; }
    State state() const { return state_; }
    const QString& progressText() const { return progress_; }
    int64_t done() const { return done_; }
    int64_t total() const { return total_; }
    double elapsedS() const { return double(clock_.elapsed()) / 1000.0; }
    int exitCode() const { return exitCode_; }
    /// The document of stdout, when it parses.
    const std::optional<Json>& document() const { return document_; }
    QString outputText() const { return QString::fromUtf8(output_); }
    /// One message in the form of core/result; empty unless failed.
    const QString& message() const { return message_; }
    void cancel();

  signals:
    void changed();
    void finished();

  private:
    friend class JobRunner;
    Job(int id, const QString& title, const QStringList& arguments, QObject* parent);
    void start(const QString& program, const QProcessEnvironment& environment);
    void readErrors();
    void takeErrorLine(const QByteArray& line);
    void end(int code, QProcess::ExitStatus status);
    void fail(const QString& message);

    int id_;
    QString title_, progress_, message_, lastErrors_;
    QStringList arguments_;
    State state_ = State::Running;
    bool cancelled_ = false;
    int exitCode_ = 0;
    int64_t done_ = 0, total_ = 0;
    QByteArray output_, errorRest_;
    std::optional<Json> document_;
    QProcess process_;
    QElapsedTimer clock_;
};

class JobRunner : public QObject {
    Q_OBJECT
  public:
    JobRunner(const QString& program, const QString& home, QObject* parent = nullptr);

    bool available() const { return !program_.isEmpty(); }
    const QString& program() const { return program_; }
    /// Starts a job; `done` runs when it ended, in whatever way. The job is deleted after that.
    Job* start(const QString& title, const QStringList& arguments, std::function<void(const Job&)> done);
    const QList<Job*>& running() const { return running_; }
    void cancelAll();

  signals:
    void jobsChanged();

  private:
    QString program_, home_;
    int nextId_ = 1;
    QList<Job*> running_;
};

/// Arguments as one line for a POSIX shell.
QString shellLine(const QStringList& arguments);

} // namespace megagraph::ui
