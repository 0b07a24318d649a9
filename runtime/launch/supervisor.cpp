// SPDX-License-Identifier: Apache-2.0
#include "runtime/launch/supervisor.h"

#include "core/checkpoint.h"
#include "core/places.h"
#include "core/units.h"
#include "runtime/launch/run_loop.h"

#include <csignal>
#include <ctime>
#include <filesystem>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <tuple>

namespace megagraph::launch {
namespace {

/// Signals that steer a run are blocked here and read by the loop; everything is put back at the end.
class RunSignals {
  public:
    RunSignals()
    {
        sigemptyset(&set_);
        for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGPIPE})
            sigaddset(&set_, signal);
        pthread_sigmask(SIG_BLOCK, &set_, &before_);
        mask_ = ::umask(077);
    }
    ~RunSignals()
    {
        const timespec now{0, 0};
        while (::sigtimedwait(&set_, nullptr, &now) > 0) { // one that came too late must not end the caller
        }
        pthread_sigmask(SIG_SETMASK, &before_, nullptr);
        ::umask(mask_);
    }
    const sigset_t& set() const { return set_; }

  private:
    sigset_t set_, before_;
    mode_t mask_;
};

/// Reads every block of a checkpoint, so that a damaged one is found before workers are started for it.
Result<Ok> verifyBlocks(const std::string& folder)
{
    MEGAGRAPH_TRY(CheckpointReader reader, CheckpointReader::open(folder));
    return reader.verify();
}

struct Resume { int64_t attempt = 1, step = -1; std::vector<CheckpointList::Damaged> damaged; };

/// The newest checkpoint whose blocks are all right; damaged ones are listed and kept.
Result<Resume> chooseCheckpoint(const RunDirectory& directory, const Journal& journal, int64_t wanted)
{
    Resume resume;
    std::string state;
    for (const Json& line : journal.found().lines) {
        if (line.contains("attempt") && line["attempt"].is_number_integer())
            resume.attempt = std::max(resume.attempt, line["attempt"].get<int64_t>() + 1);
        if (line.value("kind", "") == "run.state")
            state = line.value("to", "");
    }
    const std::string& id = directory.spec.id;
    if (directory.spec.kind != "train")
        return Error{ErrorCode::Unsupported, fmt::format("{}: is a {} run; only training is resumed, start it again", id, directory.spec.kind)};
    if (state == "finished")
        return Error{ErrorCode::Refused, fmt::format("{}: run is finished, nothing is left to resume; start a new one from {}/plan.json", id, directory.folder())};
    MEGAGRAPH_TRY(CheckpointList list, listCheckpoints(directory.folder()));
    resume.damaged = std::move(list.damaged);
    for (const auto& entry : list.entries) {
        if (wanted >= 0 && entry.step != wanted)
            continue;
        const auto sound = verifyBlocks(entry.folder);
        if (sound.ok()) {
            resume.step = entry.step;
            return resume;
        }
        resume.damaged.push_back({entry.step, entry.folder, sound.error().message});
    }
    std::string have;
    for (const auto& damaged : resume.damaged)
        have += fmt::format("; step {} is damaged ({})", damaged.step, damaged.reason);
    return Error{ErrorCode::Refused, fmt::format("{}: no usable checkpoint{}{}; start again: megagraph train --plan {}/plan.json", id,
                                                 wanted >= 0 ? fmt::format(" of step {}", wanted) : "", have, directory.folder())};
}

/// What a killed supervisor could not clean: half-written checkpoints, rendezvous files of former attempts.
void removeLeftFiles(const std::string& folder)
{
    removeUnfinishedCheckpoints(folder);
    std::error_code error;
    std::vector<std::filesystem::path> doomed;
    for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
        if (const std::string name = it->path().filename().string(); name.rfind("store.a", 0) == 0 || name == "status.json.tmp")
            doomed.push_back(it->path());
    for (const auto& path : doomed)
        std::filesystem::remove(path, error);
}

Result<RunOutcome> runAttempt(RunDirectory& directory, const SupervisorOptions& options, const sigset_t& signals)
{
    MEGAGRAPH_TRY(Journal journal, Journal::open(directory.folder()));
    Resume resume;
    if (!options.resumeRun.empty()) {
        MEGAGRAPH_TRY(resume, chooseCheckpoint(directory, journal, options.resumeStep));
        removeLeftFiles(directory.folder());
        for (const auto& damaged : resume.damaged)
            journal.append(Json{{"utc", utcNow()}, {"mono_s", 0.0}, {"attempt", resume.attempt}, {"kind", "checkpoint.damaged"},
                                {"step", damaged.step}, {"file", damaged.folder}, {"got", damaged.reason}});
    }
    if (options.riskOom)
        directory.spec.riskOom = true;
    RunLoop loop(directory, journal, options, signals, resume.attempt, resume.step);
    return loop.run();
}

} // namespace

Result<RunOutcome> supervise(const RunSpec& spec, const Plan& plan, const DatasetSpec& dataset, const SupervisorOptions& options)
{
    const RunSignals signals;
    ::prctl(PR_SET_CHILD_SUBREAPER, 1); // children of a dead worker come to this process and are ended by it
    if (!options.resumeRun.empty()) {
        MEGAGRAPH_TRY(RunDirectory directory, RunDirectory::reopen(options.home, options.resumeRun));
        return runAttempt(directory, options, signals.set());
    }
    RunSpec fresh = spec;
    if (fresh.id.empty())
        fresh.id = newRunId();
    if (fresh.createdUtc.empty())
        fresh.createdUtc = utcNow();
    fresh.world = plan.world();
    fresh.riskOom = fresh.riskOom || options.riskOom;
    if (fresh.buildId.empty())
        fresh.buildId = productVersion();
    fresh.planHash = planHash(plan);
    fresh.dataHash = dataset.contentHash;
    MEGAGRAPH_TRY(RunDirectory directory, RunDirectory::create(options.home, fresh, plan, dataset));
    return runAttempt(directory, options, signals.set());
}

} // namespace megagraph::launch
