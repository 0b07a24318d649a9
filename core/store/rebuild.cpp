// SPDX-License-Identifier: Apache-2.0
// Reads the files of a home into the library. Files are the truth; the database is an index of them.
#include "core/follow.h"
#include "core/hash.h"
#include "core/run_spec.h"
#include "core/store/rows.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <tuple>

namespace megagraph {

namespace {

double numberAt(const Json& value, const char* outer, const char* inner)
{
    if (!value.contains(outer) || !value[outer].is_object() || !value[outer].contains(inner) || !value[outer][inner].is_number())
        return 0;
    return value[outer][inner].get<double>();
}

int64_t largestPeak(const Json& result, const char* which)
{
    double most = 0;
    if (result.contains("ranks") && result["ranks"].is_array())
        for (const Json& rank : result["ranks"])
            if (rank.is_object())
                most = std::max(most, numberAt(rank, "peak_bytes", which));
    return static_cast<int64_t>(most);
}

void applyResult(const Json& result, RunRow& row)
{
    row.bestMetric = numberAt(result, "valid", "value");
    row.stepS = numberAt(result, "step_ms", "measured") / 1e3;
    row.peakBytes = largestPeak(result, "measured");
    if (result.contains("steps") && result["steps"].is_number_integer())
        row.lastStep = result["steps"].get<int64_t>();
}

bool isFinal(const std::string& state)
{
    return state == "finished" || state == "stopped" || state == "failed";
}

} // namespace

Result<RunRow> readRunRow(const std::string& runFolder)
{
    MEGAGRAPH_TRY(const Json document, readJsonFile(runFolder + "/run.json"));
    MEGAGRAPH_TRY(const RunSpec spec, runFromJson(document, runFolder + "/run.json"));
    MEGAGRAPH_TRY(const RunStatus status, readRunStatus(runFolder));
    RunRow row;
    row.id = spec.id;
    row.path = runFolder;
    row.kind = spec.kind;
    row.name = spec.name;
    row.state = status.state;
    row.created = spec.createdUtc;
    row.world = spec.world;
    row.plan = spec.planHash;
    row.attempts = status.attempt;
    row.lastStep = status.step;
    row.lastCommit = status.lastCommitStep;
    row.stepS = status.stepS;
    row.cause = status.cause;
    row.journalSeq = status.journalSeq;
    if (const auto plan = readJsonFile(runFolder + "/plan.json"))
        if (const auto parsed = planFromJson(*plan, runFolder + "/plan.json")) {
            row.dataset = parsed->datasetName;
            row.model = parsed->model.name;
            row.predictedStepS = static_cast<double>(parsed->prediction.stepNs) / 1e9;
            for (const RankPrediction& rank : parsed->prediction.ranks)
                row.predictedPeakBytes = std::max(row.predictedPeakBytes, rank.peakBytes);
        }
    if (const auto result = readJsonFile(runFolder + "/result.json"); result && result->is_object())
        applyResult(*result, row);
    if (const auto written = readJsonFile(runFolder + "/status.json"); isFinal(row.state) && written && written->is_object())
        if (written->contains("utc") && (*written)["utc"].is_string())
            row.ended = (*written)["utc"].get<std::string>();
    return row;
}

namespace store {

namespace {

namespace fs = std::filesystem;

/// Entries of a folder in name order; none when it is missing.
std::vector<fs::path> entriesOf(const std::string& folder)
{
    std::vector<fs::path> entries;
    std::error_code fault;
    for (auto it = fs::directory_iterator(folder, fault); !fault && it != fs::directory_iterator(); it.increment(fault))
        entries.push_back(it->path());
    std::sort(entries.begin(), entries.end());
    return entries;
}

class HomeReader {
  public:
    HomeReader(const Database& database, std::string home, std::vector<std::string>& skipped)
        : database_(database), home_(std::move(home)), skipped_(skipped)
    {
    }

    Result<int64_t> read()
    {
        for (const char* table : {"checkpoints", "runs", "certificates", "prediction", "observation", "plans", "datasets", "profile", "fingerprint"}) {
            MEGAGRAPH_TRY(std::ignore, database_.execute(fmt::format("DELETE FROM {}", table).c_str()));
        }
        for (const fs::path& entry : entriesOf(home_ + "/datasets")) {
            MEGAGRAPH_TRY(std::ignore, readDataset(entry));
        }
        for (const fs::path& entry : entriesOf(home_ + "/profiles")) {
            MEGAGRAPH_TRY(std::ignore, readProfile(entry));
        }
        for (const fs::path& entry : entriesOf(home_ + "/plans")) {
            MEGAGRAPH_TRY(std::ignore, readPlan(entry));
        }
        for (const fs::path& entry : entriesOf(home_ + "/runs")) {
            MEGAGRAPH_TRY(std::ignore, readRun(entry.string()));
        }
        return rows_;
    }

  private:
    Result<Ok> skip(const Error& error)
    {
        skipped_.push_back(error.message);
        return Ok{};
    }

    Result<Ok> count(Result<Ok> written)
    {
        rows_ += written.ok() ? 1 : 0;
        return written;
    }

    Result<Ok> readDataset(const fs::path& folder)
    {
        const std::string file = (folder / "dataset.json").string();
        std::error_code fault;
        if (folder.filename().string().starts_with(".") || !fs::exists(file, fault))
            return Ok{}; // unfinished imports
        const auto value = readJsonFile(file);
        if (!value)
            return skip(value.error());
        const auto spec = datasetFromJson(*value, file);
        return spec ? count(putDataset(database_, *spec, folder.string())) : skip(spec.error());
    }

    Result<Ok> readProfile(const fs::path& file)
    {
        if (file.extension() != ".json")
            return Ok{};
        const auto value = readJsonFile(file.string());
        if (!value)
            return skip(value.error());
        const auto profile = profileFromJson(*value, file.string());
        return profile ? count(putProfile(database_, *profile)) : skip(profile.error());
    }

    Result<Ok> readPlan(const fs::path& file)
    {
        if (file.extension() != ".json")
            return Ok{};
        const auto value = readJsonFile(file.string());
        if (!value)
            return skip(value.error());
        const auto plan = planFromJson(*value, file.string());
        return plan ? count(putPlan(database_, *plan, planHash(*plan))) : skip(plan.error());
    }

    Result<Ok> readRun(const std::string& folder)
    {
        std::error_code fault;
        if (!fs::exists(folder + "/run.json", fault))
            return Ok{};
        const auto row = readRunRow(folder);
        if (!row)
            return skip(row.error());
        MEGAGRAPH_TRY(std::ignore, count(putRun(database_, *row)));
        MEGAGRAPH_TRY(std::ignore, readCheckpoints(*row));
        MEGAGRAPH_TRY(std::ignore, readRunPlan(*row));
        return readCertificate(*row);
    }

    Result<Ok> readCheckpoints(const RunRow& run)
    {
        for (const fs::path& folder : entriesOf(run.path + "/checkpoints")) {
            const std::string name = folder.filename().string();
            std::error_code fault;
            if (!name.starts_with("step-") || name.size() < 6 || name.size() > 20 ||
                name.find_first_not_of("0123456789", 5) != std::string::npos || !fs::exists(folder / "manifest.json", fault))
                continue;
            int64_t bytes = 0;
            for (const fs::path& file : entriesOf(folder.string())) {
                const auto size = fs::is_regular_file(file, fault) ? fs::file_size(file, fault) : 0;
                bytes += fault ? 0 : static_cast<int64_t>(size);
            }
            MEGAGRAPH_TRY(Statement put, database_.prepare("INSERT OR REPLACE INTO checkpoints VALUES(?,?,?,?,0)"));
            MEGAGRAPH_TRY(std::ignore, count(put.bind(run.id).bind(static_cast<int64_t>(std::stoll(name.substr(5)))).bind(folder.string()).bind(bytes).run()));
        }
        return Ok{};
    }

    /// Prediction from the run's plan, observation from its result.
    Result<Ok> readRunPlan(const RunRow& run)
    {
        const std::string file = run.path + "/plan.json";
        const auto value = readJsonFile(file);
        if (!value)
            return Ok{}; // profiling runs have none
        const auto plan = planFromJson(*value, file);
        if (!plan)
            return skip(plan.error());
        MEGAGRAPH_TRY(std::ignore, count(putPrediction(database_, run.id, *plan)));
        const auto result = readJsonFile(run.path + "/result.json");
        if (!result || !result->is_object())
            return Ok{};
        Observation observation{run.id, planHash(*plan), "", run.lastStep, static_cast<int64_t>(run.stepS * 1e9), 0, "[]"};
        if (result->contains("ranks"))
            observation.perRankJson = (*result)["ranks"].dump();
        return count(putObservation(database_, observation));
    }

    Result<Ok> readCertificate(const RunRow& run)
    {
        const auto certificate = readJsonFile(run.path + "/certificate.json");
        if (!certificate || !certificate->is_object() || !certificate->contains("verdict") || !(*certificate)["verdict"].is_string())
            return Ok{};
        return count(putCertificate(database_, run.plan, run.dataset, (*certificate)["verdict"].get<std::string>(), certificate->dump()));
    }

    const Database& database_;
    std::string home_;
    std::vector<std::string>& skipped_;
    int64_t rows_ = 0;
};

} // namespace

Result<int64_t> readHome(const Database& database, const std::string& home, std::vector<std::string>& skipped)
{
    return HomeReader(database, home, skipped).read();
}

} // namespace store

} // namespace megagraph
