// SPDX-License-Identifier: Apache-2.0
#include "core/store/rows.h"

#include <fmt/format.h>
#include <tuple>

namespace megagraph::store {

namespace {

template <class... Values> Result<Ok> write(const Database& database, const char* sql, const Values&... values)
{
    MEGAGRAPH_TRY(Statement statement, database.prepare(sql));
    (statement.bind(values), ...);
    return statement.run();
}

Result<Ok> putPoints(const Database& database, const Profile& profile)
{
    MEGAGRAPH_TRY(Statement point, database.prepare("INSERT INTO profile_point(profile_id, kind, key_json, x_json, dtype, median_ns, mad_ns, "
                                                    "repeats, saved_bytes, peak_bytes, clock_mhz, status) VALUES(?,?,?,?,?,?,?,?,?,?,?,?)"));
    MEGAGRAPH_TRY(Statement repeat, database.prepare("INSERT INTO profile_repeat VALUES(?,?,?)"));
    for (const ProfilePoint& p : profile.points) {
        MEGAGRAPH_TRY(std::ignore, point.bind(profile.id).bind(p.kind).bind(canonicalText(Json(p.key))).bind(canonicalText(Json(p.x)))
                                       .bind(p.dtype).bind(p.medianNs).bind(p.madNs).bind(static_cast<int64_t>(p.repeats.size()))
                                       .bind(p.savedBytes).bind(p.peakBytes).bind(p.clockMhz).bind(p.status).run());
        const int64_t id = database.lastRowId();
        for (size_t i = 0; i < p.repeats.size(); ++i) {
            MEGAGRAPH_TRY(std::ignore, repeat.bind(id).bind(static_cast<int64_t>(i)).bind(p.repeats[i]).run());
        }
    }
    return Ok{};
}

Result<Json> jsonColumn(const Statement& row, int column, const Database& database)
{
    auto value = parseJson(row.text(column), database.path());
    if (!value)
        return Error{ErrorCode::Corrupt, fmt::format("library: {}; run `megagraph library rebuild`", value.error().message)};
    return value;
}

Result<Ok> getPoints(const Database& database, Profile& profile)
{
    MEGAGRAPH_TRY(Statement point, database.prepare("SELECT id, kind, key_json, x_json, dtype, median_ns, mad_ns, saved_bytes, peak_bytes, "
                                                    "clock_mhz, status FROM profile_point WHERE profile_id=? ORDER BY id"));
    point.bind(profile.id);
    while (true) {
        MEGAGRAPH_TRY(const bool row, point.step());
        if (!row)
            return Ok{};
        ProfilePoint& p = profile.points.emplace_back();
        p.kind = point.text(1);
        MEGAGRAPH_TRY(const Json key, jsonColumn(point, 2, database));
        MEGAGRAPH_TRY(const Json sizes, jsonColumn(point, 3, database));
        for (const auto& [name, value] : key.items())
            p.key[name] = value.is_string() ? value.get<std::string>() : value.dump();
        for (const auto& [name, value] : sizes.items())
            p.x[name] = value.is_number() ? value.get<double>() : 0;
        p.dtype = point.text(4);
        p.medianNs = point.integer(5);
        p.madNs = point.integer(6);
        p.savedBytes = point.integer(7);
        p.peakBytes = point.integer(8);
        p.clockMhz = point.integer(9);
        p.status = point.text(10);
        MEGAGRAPH_TRY(Statement repeat, database.prepare("SELECT value_ns FROM profile_repeat WHERE point_id=? ORDER BY i"));
        repeat.bind(point.integer(0));
        while (true) {
            MEGAGRAPH_TRY(const bool more, repeat.step());
            if (!more)
                break;
            p.repeats.push_back(repeat.integer(0));
        }
    }
}

Result<Ok> getSmallParts(const Database& database, Profile& profile)
{
    MEGAGRAPH_TRY(Statement constant, database.prepare("SELECT name, value, unit, provenance FROM profile_constant WHERE profile_id=? ORDER BY rowid"));
    constant.bind(profile.id);
    while (true) {
        MEGAGRAPH_TRY(const bool row, constant.step());
        if (!row)
            break;
        profile.constants.push_back({constant.text(0), constant.real(1), constant.text(2), constant.text(3)});
    }
    MEGAGRAPH_TRY(Statement hole, database.prepare("SELECT kind, key_json, reason, est_seconds FROM profile_hole WHERE profile_id=? ORDER BY rowid"));
    hole.bind(profile.id);
    while (true) {
        MEGAGRAPH_TRY(const bool row, hole.step());
        if (!row)
            return Ok{};
        MEGAGRAPH_TRY(const Json key, jsonColumn(hole, 1, database));
        ProfileHole& h = profile.holes.emplace_back();
        h.kind = hole.text(0);
        for (const auto& [name, value] : key.items())
            h.key[name] = value.is_string() ? value.get<std::string>() : value.dump();
        h.reason = hole.text(2);
        h.estSeconds = hole.real(3);
    }
}

std::string planText(const Plan& plan)
{
    return planToJson(plan).dump();
}

} // namespace

Result<Ok> putProfile(const Database& database, const Profile& profile)
{
    const Fingerprint& f = profile.fingerprint;
    // fields outside the fingerprint's id (clock, budget) differ between profiles of one fingerprint: kept with the profile
    const std::string fingerprint = profileToJson(profile)["fingerprint"].dump();
    MEGAGRAPH_TRY(std::ignore, write(database, "INSERT OR IGNORE INTO fingerprint VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?)", f.id(), f.deviceKind,
                                     f.deviceName, f.deviceCount, f.memoryBytes, f.driver, f.cuda, f.nccl, f.libtorch, f.cpuModel,
                                     f.threadsPerSlot, f.productVersion, fingerprint));
    MEGAGRAPH_TRY(std::ignore, write(database, "DELETE FROM profile WHERE id=?", profile.id)); // parts go by cascade
    MEGAGRAPH_TRY(std::ignore, write(database, "INSERT INTO profile VALUES(?,?,?,?,?,?,?,?,?)", profile.id, f.id(), profile.createdUtc,
                                     profile.level, profile.modelSignature, profile.datasetKey, profile.seconds, profile.note, fingerprint));
    MEGAGRAPH_TRY(std::ignore, putPoints(database, profile));
    for (const ProfileConstant& c : profile.constants) {
        MEGAGRAPH_TRY(std::ignore, write(database, "INSERT INTO profile_constant VALUES(?,?,?,?,?)", profile.id, c.name, c.value, c.unit, c.provenance));
    }
    for (const ProfileHole& h : profile.holes) {
        MEGAGRAPH_TRY(std::ignore, write(database, "INSERT INTO profile_hole VALUES(?,?,?,?,?)", profile.id, h.kind,
                                         canonicalText(Json(h.key)), h.reason, h.estSeconds));
    }
    return Ok{};
}

Result<Profile> getProfile(const Database& database, const std::string& id)
{
    MEGAGRAPH_TRY(Statement row, database.prepare("SELECT created_utc, level, model_signature, dataset_key, seconds, note, fingerprint_json "
                                                  "FROM profile WHERE id=?"));
    MEGAGRAPH_TRY(const bool found, row.bind(id).step());
    if (!found)
        return Error{ErrorCode::NotFound, fmt::format("profile \"{}\": no such profile in {}", id, database.path())};
    Profile profile;
    profile.id = id;
    MEGAGRAPH_TRY(const Json fingerprint, jsonColumn(row, 6, database));
    Json document = profileToJson(profile); // one reader for fingerprints: that of the document
    document["fingerprint"] = fingerprint;
    auto parsed = profileFromJson(document, database.path());
    if (!parsed)
        return Error{ErrorCode::Corrupt, fmt::format("library: {}; run `megagraph library rebuild`", parsed.error().message)};
    profile.fingerprint = parsed->fingerprint;
    profile.createdUtc = row.text(0);
    profile.level = row.text(1);
    profile.modelSignature = row.text(2);
    profile.datasetKey = row.text(3);
    profile.seconds = row.real(4);
    profile.note = row.text(5);
    MEGAGRAPH_TRY(std::ignore, getPoints(database, profile));
    MEGAGRAPH_TRY(std::ignore, getSmallParts(database, profile));
    return profile;
}

Result<Ok> putPlan(const Database& database, const Plan& plan, const std::string& hash)
{
    return write(database, "INSERT OR REPLACE INTO plans VALUES(?,?,?,?,?,?)", hash, plan.name, plan.datasetName, plan.model.name,
                 plan.cluster.name, planText(plan));
}

Result<Ok> putDataset(const Database& database, const DatasetSpec& spec, const std::string& path)
{
    return write(database, "INSERT OR REPLACE INTO datasets VALUES(?,?,?,?,?,?)", spec.name, spec.contentHash, path, spec.nodes,
                 spec.undirectedEdges, datasetToJson(spec).dump());
}

Result<Ok> putRun(const Database& database, const RunRow& r)
{
    // an upsert, not REPLACE: replacing would delete the run's checkpoints by cascade
    return write(database,
                 "INSERT INTO runs(id, path, kind, name, state, created, ended, plan, dataset, model, world, attempts, last_step, last_commit, "
                 "best_metric, step_s, peak_bytes, predicted_step_s, predicted_peak_bytes, cause, journal_seq) "
                 "VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT(id) DO UPDATE SET path=excluded.path, kind=excluded.kind, "
                 "name=excluded.name, state=excluded.state, created=excluded.created, ended=excluded.ended, plan=excluded.plan, "
                 "dataset=excluded.dataset, model=excluded.model, world=excluded.world, attempts=excluded.attempts, "
                 "last_step=excluded.last_step, last_commit=excluded.last_commit, best_metric=excluded.best_metric, step_s=excluded.step_s, "
                 "peak_bytes=excluded.peak_bytes, predicted_step_s=excluded.predicted_step_s, "
                 "predicted_peak_bytes=excluded.predicted_peak_bytes, cause=excluded.cause, journal_seq=excluded.journal_seq",
                 r.id, r.path, r.kind, r.name, r.state, r.created, r.ended, r.plan, r.dataset, r.model, r.world, r.attempts, r.lastStep,
                 r.lastCommit, r.bestMetric, r.stepS, r.peakBytes, r.predictedStepS, r.predictedPeakBytes, r.cause, r.journalSeq);
}

Result<Ok> putPrediction(const Database& database, const std::string& runId, const Plan& plan)
{
    const Json prediction = planToJson(plan)["prediction"];
    return write(database, "INSERT OR REPLACE INTO prediction VALUES(?,?,?,?,?,?,?,?,?)", runId, planHash(plan), plan.prediction.profileId,
                 std::string(), plan.prediction.stepNs, plan.prediction.stepLoNs, plan.prediction.stepHiNs, prediction["terms"].dump(),
                 prediction["ranks"].dump());
}

Result<Ok> putCertificate(const Database& database, const std::string& plan, const std::string& dataset, const std::string& verdict,
                          const std::string& document)
{
    return write(database, "INSERT OR REPLACE INTO certificates VALUES(?,?,?,?)", plan, dataset, verdict, document);
}

Result<Ok> putObservation(const Database& database, const Observation& o)
{
    return write(database, "INSERT OR REPLACE INTO observation VALUES(?,?,?,?,?,?,?,?)", o.runId, o.planHash, o.fingerprintId, o.steps,
                 o.medianNs, o.p95Ns, std::string("{}"), o.perRankJson);
}

} // namespace megagraph::store
