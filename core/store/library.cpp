// SPDX-License-Identifier: Apache-2.0
#include "core/store/library.h"

#include "core/places.h"
#include "core/store/database.h"
#include "core/store/rows.h"
#include "core/units.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fmt/format.h>
#include <sys/stat.h>
#include <tuple>

namespace megagraph {

using store::Database;
using store::Statement;
using store::Transaction;

struct Library::State {
    std::string home;
    Database database;
};

namespace {

std::string libraryPath(const std::string& home)
{
    return home + "/library.db";
}

/// Ids and hashes name files below the home, so they must be plain.
Result<Ok> checkFileName(const char* thing, const std::string& name)
{
    const bool plain = std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '_'; });
    if (!plain || name.empty() || name.size() > 128)
        return Error{ErrorCode::InvalidInput,
                     fmt::format("{}: not an id, got \"{}\", expected 1 to 128 letters, digits, - and _", thing, name.substr(0, 140))};
    return Ok{};
}

/// Runs `work` in one transaction.
template <class Work> Result<Ok> inTransaction(const Database& database, Work&& work)
{
    MEGAGRAPH_TRY(Transaction transaction, Transaction::begin(database));
    MEGAGRAPH_TRY(std::ignore, work());
    return transaction.commit();
}

/// Calls `take` for each row of a query.
template <class Take> Result<Ok> forEachRow(const Database& database, const char* sql, Take&& take)
{
    MEGAGRAPH_TRY(Statement statement, database.prepare(sql));
    while (true) {
        MEGAGRAPH_TRY(const bool row, statement.step());
        if (!row)
            return Ok{};
        take(statement);
    }
}

RunRow runRow(const Statement& s)
{
    RunRow r;
    std::string* texts[] = {&r.id, &r.path, &r.kind, &r.name, &r.state, &r.created, &r.ended, &r.plan, &r.dataset, &r.model};
    int column = 0;
    for (std::string* text : texts)
        *text = s.text(column++);
    for (int64_t* number : {&r.world, &r.attempts, &r.lastStep, &r.lastCommit})
        *number = s.integer(column++);
    r.bestMetric = s.real(column++);
    r.stepS = s.real(column++);
    r.peakBytes = s.integer(column++);
    r.predictedStepS = s.real(column++);
    r.predictedPeakBytes = s.integer(column++);
    r.cause = s.text(column++);
    r.journalSeq = s.integer(column);
    return r;
}

} // namespace

Library::Library(std::unique_ptr<State> state) : state_(std::move(state)) {}
Library::Library(Library&&) noexcept = default;
Library& Library::operator=(Library&&) noexcept = default;
Library::~Library() = default;

Result<Library> Library::open(const std::string& home)
{
    MEGAGRAPH_TRY(std::ignore, makeFolders(home));
    MEGAGRAPH_TRY(Database database, Database::open(libraryPath(home)));
    return Library(std::make_unique<State>(State{home, std::move(database)}));
}

Result<int64_t> Library::repair(const std::string& home, std::vector<std::string>* skipped)
{
    auto library = open(home);
    if (!library && library.error().code != ErrorCode::Corrupt)
        return library.error();
    // a damaged page may hide until it is read, so a rebuild that fails on one starts again with an empty file
    if (library) {
        auto rows = library->rebuild(skipped);
        if (rows || rows.error().code != ErrorCode::Corrupt)
            return rows;
        library = rows.error();
    }
    const std::string path = libraryPath(home);
    std::string stamp = utcNow();
    std::erase_if(stamp, [](char c) { return c == ':' || c == '.'; });
    for (const char* suffix : {"", "-wal", "-shm", "-journal"}) {
        const std::string from = path + suffix, to = path + ".aside-" + stamp + suffix;
        if (std::rename(from.c_str(), to.c_str()) != 0 && errno != ENOENT)
            return Error{ErrorCode::Io, fmt::format("library: {}: cannot move aside: {}", from, std::strerror(errno))};
    }
    if (skipped != nullptr)
        skipped->push_back(fmt::format("library: {}: could not be read and was moved to {}.aside-{}", path, path, stamp));
    MEGAGRAPH_TRY(Library fresh, open(home));
    return fresh.rebuild(skipped);
}

Result<Ok> Library::saveProfile(const Profile& given)
{
    Profile profile = given;
    if (profile.id.empty())
        profile.id = profileId(profile);
    MEGAGRAPH_TRY(std::ignore, checkFileName("profile", profile.id));
    const std::string folder = state_->home + "/profiles";
    MEGAGRAPH_TRY(std::ignore, makeFolders(folder));
    MEGAGRAPH_TRY(std::ignore, writeFileAtomically(folder + "/" + profile.id + ".json", profileToJson(profile).dump(1) + "\n"));
    return inTransaction(state_->database, [&] { return store::putProfile(state_->database, profile); });
}

Result<Profile> Library::profile(const std::string& idOrPrefix) const
{
    MEGAGRAPH_TRY(std::ignore, checkFileName("profile", idOrPrefix));
    MEGAGRAPH_TRY(Statement found, state_->database.prepare("SELECT id FROM profile WHERE substr(id, 1, length(?1)) = ?1 ORDER BY id=?1 DESC, id LIMIT 2"));
    MEGAGRAPH_TRY(const bool any, found.bind(idOrPrefix).step());
    if (!any)
        return Error{ErrorCode::NotFound, fmt::format("profile \"{}\": no such profile in {}", idOrPrefix, state_->database.path())};
    const std::string id = found.text(0);
    MEGAGRAPH_TRY(const bool second, found.step());
    if (second && id != idOrPrefix)
        return Error{ErrorCode::InvalidInput, fmt::format("profile \"{}\": several profiles begin so, e.g. {} and {}; give more digits",
                                                          idOrPrefix, id, found.text(0))};
    return store::getProfile(state_->database, id);
}

Result<std::vector<ProfileRow>> Library::profiles() const
{
    std::vector<ProfileRow> rows;
    MEGAGRAPH_TRY(std::ignore,
                  forEachRow(state_->database,
                             "SELECT id, created_utc, level, model_signature, dataset_key, fingerprint_id, note, seconds, "
                             "(SELECT count(*) FROM profile_point WHERE profile_id=profile.id) FROM profile ORDER BY created_utc DESC, id",
                             [&](const Statement& s) {
                                 rows.push_back({s.text(0), s.text(1), s.text(2), s.text(3), s.text(4), s.text(5), s.text(6), s.real(7), s.integer(8)});
                             }));
    return rows;
}

Result<std::optional<Profile>> Library::matchingProfile(const Fingerprint& fingerprint, const std::string& modelSignature,
                                                        const std::string& datasetKey) const
{
    // the fingerprint's id covers the threads per slot
    MEGAGRAPH_TRY(Statement found, state_->database.prepare("SELECT id FROM profile WHERE fingerprint_id=? AND model_signature=? AND dataset_key=? "
                                                            "ORDER BY created_utc DESC, rowid DESC LIMIT 1"));
    MEGAGRAPH_TRY(const bool any, found.bind(fingerprint.id()).bind(modelSignature).bind(datasetKey).step());
    if (!any)
        return std::optional<Profile>();
    MEGAGRAPH_TRY(Profile profile, store::getProfile(state_->database, found.text(0)));
    return std::optional<Profile>(std::move(profile));
}

Result<Ok> Library::savePlan(const Plan& plan)
{
    const std::string hash = planHash(plan), folder = state_->home + "/plans";
    MEGAGRAPH_TRY(std::ignore, makeFolders(folder));
    MEGAGRAPH_TRY(std::ignore, writeFileAtomically(folder + "/" + hash + ".json", planToJson(plan).dump(1) + "\n"));
    return inTransaction(state_->database, [&] { return store::putPlan(state_->database, plan, hash); });
}

Result<std::vector<PlanRow>> Library::plans() const
{
    std::vector<PlanRow> rows;
    MEGAGRAPH_TRY(std::ignore, forEachRow(state_->database, "SELECT hash, name, dataset, model FROM plans ORDER BY dataset, name, hash",
                                          [&](const Statement& s) { rows.push_back({s.text(0), s.text(1), s.text(2), s.text(3)}); }));
    return rows;
}

Result<Ok> Library::saveDataset(const DatasetSpec& spec, const std::string& path)
{
    return inTransaction(state_->database, [&] { return store::putDataset(state_->database, spec, path); });
}

Result<std::vector<DatasetRow>> Library::datasets() const
{
    std::vector<DatasetRow> rows;
    MEGAGRAPH_TRY(std::ignore,
                  forEachRow(state_->database, "SELECT hash, name, path, nodes, edges FROM datasets ORDER BY name",
                             [&](const Statement& s) { rows.push_back({s.text(0), s.text(1), s.text(2), s.integer(3), s.integer(4)}); }));
    return rows;
}

Result<Ok> Library::saveRun(const RunRow& row)
{
    return inTransaction(state_->database, [&] { return store::putRun(state_->database, row); });
}

Result<std::vector<RunRow>> Library::runs() const
{
    std::vector<RunRow> rows;
    MEGAGRAPH_TRY(std::ignore,
                  forEachRow(state_->database,
                             "SELECT id, path, kind, name, state, created, ended, plan, dataset, model, world, attempts, last_step, last_commit, "
                             "best_metric, step_s, peak_bytes, predicted_step_s, predicted_peak_bytes, cause, journal_seq FROM runs "
                             "ORDER BY created DESC, id DESC",
                             [&](const Statement& s) { rows.push_back(runRow(s)); }));
    return rows;
}

Result<Ok> Library::savePrediction(const std::string& runId, const Plan& plan)
{
    return inTransaction(state_->database, [&] { return store::putPrediction(state_->database, runId, plan); });
}

Result<Ok> Library::saveObservation(const std::string& runId, const std::string& planHash, const std::string& fingerprintId, int64_t steps,
                                    int64_t stepNsMedian, int64_t stepNsP95, const std::string& perRankJson)
{
    return inTransaction(state_->database, [&] {
        return store::putObservation(state_->database, {runId, planHash, fingerprintId, steps, stepNsMedian, stepNsP95, perRankJson});
    });
}

Result<Ok> Library::saveCertificate(const std::string& planHash, const std::string& datasetHash, const std::string& verdict,
                                    const std::string& document)
{
    return inTransaction(state_->database,
                         [&] { return store::putCertificate(state_->database, planHash, datasetHash, verdict, document); });
}

Result<Ok> Library::saveGraphStats(const std::string& key, const GraphStats& stats)
{
    return inTransaction(state_->database, [&]() -> Result<Ok> {
        MEGAGRAPH_TRY(Statement put, state_->database.prepare("INSERT OR REPLACE INTO graph_stats VALUES(?,?,?,?)"));
        return put.bind(key).bind(stats.datasetHash).bind(utcNow()).bind(graphStatsToJson(stats).dump()).run();
    });
}

Result<std::optional<GraphStats>> Library::graphStats(const std::string& key) const
{
    MEGAGRAPH_TRY(Statement found, state_->database.prepare("SELECT blob FROM graph_stats WHERE key=?"));
    MEGAGRAPH_TRY(const bool any, found.bind(key).step());
    if (!any)
        return std::optional<GraphStats>();
    const std::string place = state_->database.path() + ": graph_stats " + key;
    MEGAGRAPH_TRY(const Json value, parseJson(found.text(0), place));
    MEGAGRAPH_TRY(GraphStats stats, graphStatsFromJson(value, place));
    return std::optional<GraphStats>(std::move(stats));
}

Result<int64_t> Library::rebuild(std::vector<std::string>* skipped)
{
    std::vector<std::string> ignored;
    MEGAGRAPH_TRY(Transaction transaction, Transaction::begin(state_->database));
    MEGAGRAPH_TRY(const int64_t rows, store::readHome(state_->database, state_->home, skipped == nullptr ? ignored : *skipped));
    MEGAGRAPH_TRY(std::ignore, transaction.commit());
    return rows;
}

} // namespace megagraph
