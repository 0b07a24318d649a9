// SPDX-License-Identifier: Apache-2.0
// library.db: an index of data sets, profiles, plans, runs (runs design, section 8). One writer thread per process; open,
// use and close on one thread. Run directories, plans/*.json and profiles/*.json are the truth; rebuild() reads them.
// Rollback journal below SQLite 3.51.3, WAL from there on; synchronous FULL; migrations by user_version.
#pragma once

#include "core/dataset_spec.h"
#include "core/graph_stats.h"
#include "core/plan.h"
#include "core/profile.h"
#include "core/result.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace megagraph {

struct RunRow {
    std::string id, path, kind, name, state, created, ended, plan, dataset, model;
    int64_t world = 0, attempts = 0, lastStep = 0, lastCommit = 0, peakBytes = 0, predictedPeakBytes = 0, journalSeq = 0;
    double bestMetric = 0, stepS = 0, predictedStepS = 0;
    std::string cause;
};
struct ProfileRow { std::string id, createdUtc, level, modelSignature, datasetKey, fingerprintId, note; double seconds = 0; int64_t points = 0; };
struct DatasetRow { std::string hash, name, path; int64_t nodes = 0, edges = 0; };
struct PlanRow { std::string hash, name, dataset, model; };

/// A run's row from its folder: run.json, status, plan.json, result.json. What `rebuild` writes; also for lists without a library.
Result<RunRow> readRunRow(const std::string& runFolder);

class Library {
  public:
    /// Opens or creates `home`/library.db (folder 0700, file 0600). VersionMismatch (newer), Corrupt, Io.
    static Result<Library> open(const std::string& home);
    /// `megagraph library rebuild`: moves a library that cannot be read aside as one set with its side files (never a newer
    /// one), opens, and rebuilds. Returns rows written; `skipped` gets one message per file that could not be read.
    static Result<int64_t> repair(const std::string& home, std::vector<std::string>* skipped = nullptr);
    Library(Library&&) noexcept;
    Library& operator=(Library&&) noexcept;
    ~Library();

    Result<Ok> saveProfile(const Profile& profile); ///< also writes profiles/<id>.json
    Result<Profile> profile(const std::string& idOrPrefix) const;
    Result<std::vector<ProfileRow>> profiles() const; ///< newest first
    /// Newest profile with this fingerprint id, threads, model signature and data set key; nullopt when there is none.
    Result<std::optional<Profile>> matchingProfile(const Fingerprint& fingerprint, const std::string& modelSignature,
                                                   const std::string& datasetKey) const;
    Result<Ok> savePlan(const Plan& plan); ///< also writes plans/<hash>.json
    Result<std::vector<PlanRow>> plans() const;
    Result<Ok> saveDataset(const DatasetSpec& spec, const std::string& path);
    Result<std::vector<DatasetRow>> datasets() const;
    Result<Ok> saveRun(const RunRow& row); ///< insert or replace
    Result<std::vector<RunRow>> runs() const; ///< newest first
    Result<Ok> savePrediction(const std::string& runId, const Plan& plan);
    Result<Ok> saveObservation(const std::string& runId, const std::string& planHash, const std::string& fingerprintId,
                               int64_t steps, int64_t stepNsMedian, int64_t stepNsP95, const std::string& perRankJson);
    Result<Ok> saveCertificate(const std::string& planHash, const std::string& datasetHash, const std::string& verdict,
                               const std::string& document);
    /// Graph statistics by cache key (data set structure, order, seed, hops); nullopt when there are none.
    Result<Ok> saveGraphStats(const std::string& key, const GraphStats& stats);
    Result<std::optional<GraphStats>> graphStats(const std::string& key) const;
    /// Reads runs/, plans/, profiles/, datasets/ of the home; returns rows written. One transaction: all or nothing. A file
    /// that cannot be read is skipped and named in `skipped`.
    Result<int64_t> rebuild(std::vector<std::string>* skipped = nullptr);

  private:
    struct State;
    explicit Library(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

} // namespace megagraph
