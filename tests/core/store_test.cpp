// SPDX-License-Identifier: Apache-2.0
#include "core/store/database.h"
#include "core/store/library.h"

#include "core/places.h"
#include "core/run_spec.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <thread>

using namespace megagraph;
namespace fs = std::filesystem;

namespace {

const std::string kGood = std::string(MEGAGRAPH_TEST_DATA) + "/good/";

std::string bytesOf(const std::string& path)
{
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

void writeFile(const std::string& path, const std::string& bytes)
{
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
}

/// Runs statements on a file with plain SQLite, as another program would.
void sql(const std::string& path, const std::string& statements)
{
    sqlite3* handle = nullptr;
    ASSERT_EQ(sqlite3_open(path.c_str(), &handle), SQLITE_OK);
    char* fault = nullptr;
    ASSERT_EQ(sqlite3_exec(handle, statements.c_str(), nullptr, nullptr, &fault), SQLITE_OK) << fault;
    sqlite3_close(handle);
}

std::string sqlValue(const std::string& path, const std::string& query)
{
    sqlite3* handle = nullptr;
    std::string value = "?";
    sqlite3_open_v2(path.c_str(), &handle, SQLITE_OPEN_READONLY, nullptr);
    sqlite3_exec(handle, query.c_str(), [](void* out, int, char** texts, char**) {
        *static_cast<std::string*>(out) = texts[0] == nullptr ? "" : texts[0];
        return 0;
    }, &value, nullptr);
    sqlite3_close(handle);
    return value;
}

class Store : public testing::Test {
  protected:
    void SetUp() override
    {
        std::string name = (fs::temp_directory_path() / "megagraph-store-XXXXXX").string();
        home = std::string(::mkdtemp(name.data())) + "/home";
        file = home + "/library.db";
    }
    void TearDown() override { fs::remove_all(fs::path(home).parent_path()); }

    Library open()
    {
        auto library = Library::open(home);
        EXPECT_TRUE(library.ok()) << library.error().message;
        return std::move(*library);
    }

    std::string home, file;
};

Profile goodProfile()
{
    Profile profile = *profileFromJson(*readJsonFile(kGood + "profile.json"), "profile.json");
    profile.id = profileId(profile);
    return profile;
}

Plan goodPlan()
{
    return *planFromJson(*readJsonFile(kGood + "plan.json"), "plan.json");
}

void writeRun(const std::string& home, const std::string& id)
{
    RunSpec run = *runFromJson(*readJsonFile(kGood + "run.json"), "run.json");
    run.id = id;
    run.planHash = planHash(goodPlan());
    const std::string folder = home + "/runs/" + id;
    writeFile(folder + "/run.json", runToJson(run).dump());
    writeFile(folder + "/plan.json", planToJson(goodPlan()).dump());
    writeFile(folder + "/status.json", R"({"state":"finished","step":80,"last_commit_step":60,"attempt":2,"journal_seq":9,"utc":"2026-01-05T10:20:00.000Z"})");
    writeFile(folder + "/result.json",
              R"({"format":"megagraph.run_result","version":1,"run":"x","state":"finished","steps":80,"best_step":70,"train":{"loss":0.5},)"
              R"("valid":{"metric":"accuracy","value":0.79},"test":{"metric":"accuracy","value":0.8},"step_ms":{"predicted":41.0,"measured":44.5},)"
              R"("ranks":[{"rank":0,"peak_bytes":{"predicted":210000000,"measured":205000000}},{"rank":1,"peak_bytes":{"predicted":1,"measured":207000000}}]})");
    writeFile(folder + "/checkpoints/step-000000060/manifest.json", "{}");
    writeFile(folder + "/checkpoints/step-000000060/rank0.safetensors", std::string(1000, 'x'));
    writeFile(folder + "/checkpoints/step-000000080.tmp-a1/manifest.json", "{}");
    writeFile(folder + "/certificate.json", R"({"format":"megagraph.certificate","version":1,"steps":50,"verdict":"same"})");
}

} // namespace

TEST_F(Store, CreatesAPrivateLibraryWithTheJournalOfItsVersion)
{
    const Library library = open();
    struct stat info {};
    ASSERT_EQ(::stat(home.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777u, 0700u);
    ASSERT_EQ(::stat(file.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777u, 0600u);
    EXPECT_EQ(sqlValue(file, "PRAGMA user_version"), std::to_string(store::schemaVersion()));
    EXPECT_EQ(sqlValue(file, "PRAGMA application_id"), std::to_string(store::kApplicationId));
    const bool safeWal = sqlite3_libversion_number() >= 3051003;
    EXPECT_EQ(fs::exists(file + "-wal"), safeWal) << "below 3.51.3 no write-ahead log may exist";
    EXPECT_EQ(store::Database::open(file)->journalMode(), safeWal ? "wal" : "truncate");
}

TEST_F(Store, ProfileRoundTripsExactlyWithRawRepeats)
{
    Profile profile = goodProfile();
    profile.note = "after \"upgrade\"; DROP TABLE profile; --";
    profile.fingerprint.clockMhz = 2712;
    profile.constants.push_back({"third", 1.0 / 3.0, "1", "assumed"});
    profile.points.push_back(profile.points[0]);
    profile.points[1].x = {{"density", 0.1}, {"n", 2708}};
    profile.points[1].repeats = {7, 3, 3, INT64_MAX >> 14};
    profile.points[1].medianNs = 5;
    profile.points[1].savedBytes = -12;
    profile.id = profileId(profile);
    ASSERT_TRUE(open().saveProfile(profile).ok());
    const Library library = open();
    const auto back = library.profile(profile.id);
    ASSERT_TRUE(back.ok()) << back.error().message;
    EXPECT_EQ(canonicalText(profileToJson(*back)), canonicalText(profileToJson(profile)));
    EXPECT_EQ(profileId(*back), profile.id);
    const auto exported = profileFromJson(*readJsonFile(home + "/profiles/" + profile.id + ".json"), "exported");
    ASSERT_TRUE(exported.ok()) << exported.error().message;
    EXPECT_EQ(profileId(*exported), profile.id);
}

TEST_F(Store, SavingAProfileAgainReplacesIt)
{
    Library library = open();
    const Profile profile = goodProfile();
    ASSERT_TRUE(library.saveProfile(profile).ok());
    ASSERT_TRUE(library.saveProfile(profile).ok());
    EXPECT_EQ(library.profiles()->size(), 1u);
    EXPECT_EQ(sqlValue(file, "SELECT count(*) FROM profile_repeat"), "3") << "old repeats must not stay behind";
    EXPECT_EQ(library.profile(profile.id.substr(0, 6))->id, profile.id);
    EXPECT_EQ(library.profile("ffffffffff").error().code, ErrorCode::NotFound);
    EXPECT_EQ(library.profile("%").error().code, ErrorCode::InvalidInput);
    Profile climbing = profile;
    climbing.id = "../../x";
    EXPECT_EQ(library.saveProfile(climbing).error().code, ErrorCode::InvalidInput);
}

TEST_F(Store, AmbiguousPrefixNamesBothProfiles)
{
    Library library = open();
    Profile profile = goodProfile();
    for (const char* id : {"ab12", "ab34"}) {
        profile.id = id;
        ASSERT_TRUE(library.saveProfile(profile).ok());
    }
    const auto found = library.profile("ab");
    ASSERT_FALSE(found.ok());
    EXPECT_NE(found.error().message.find("ab12"), std::string::npos);
    EXPECT_NE(found.error().message.find("ab34"), std::string::npos);
    EXPECT_TRUE(library.profile("ab1").ok());
}

TEST_F(Store, MatchingProfileIsTheNewestOfEqualHardwareModelAndData)
{
    Library library = open();
    Profile old = goodProfile(), recent = old;
    recent.createdUtc = "2026-02-01T00:00:00.000Z";
    recent.seconds = 30;
    recent.id = profileId(recent);
    ASSERT_TRUE(library.saveProfile(recent).ok());
    ASSERT_TRUE(library.saveProfile(old).ok());
    const auto match = library.matchingProfile(old.fingerprint, old.modelSignature, old.datasetKey);
    ASSERT_TRUE(match.ok());
    ASSERT_TRUE(match->has_value());
    EXPECT_EQ((*match)->id, recent.id);
    Fingerprint faster = old.fingerprint;
    faster.clockMhz += 50; // clocks are judged by the caller, not part of the key
    EXPECT_TRUE(library.matchingProfile(faster, old.modelSignature, old.datasetKey)->has_value());
    Fingerprint other = old.fingerprint;
    other.threadsPerSlot = 2;
    EXPECT_FALSE(library.matchingProfile(other, old.modelSignature, old.datasetKey)->has_value());
    EXPECT_FALSE(library.matchingProfile(old.fingerprint, "x", old.datasetKey)->has_value());
    EXPECT_FALSE(library.matchingProfile(old.fingerprint, old.modelSignature, "x")->has_value());
}

TEST_F(Store, RowsOfEveryKindComeBack)
{
    Library library = open();
    const Plan plan = goodPlan();
    ASSERT_TRUE(library.savePlan(plan).ok());
    EXPECT_EQ(library.plans()->at(0).hash, planHash(plan));
    EXPECT_EQ(planHash(*planFromJson(*readJsonFile(home + "/plans/" + planHash(plan) + ".json"), "p")), planHash(plan));
    const DatasetSpec dataset = *datasetFromJson(*readJsonFile(kGood + "dataset.json"), "d");
    ASSERT_TRUE(library.saveDataset(dataset, home + "/datasets/citeseer").ok());
    EXPECT_EQ(library.datasets()->at(0).edges, 4552);
    RunRow run;
    run.id = "20260105-101112-a1b2c3";
    run.created = "2026-01-05";
    run.bestMetric = 0.1 + 0.2;
    run.peakBytes = int64_t(1) << 40;
    run.state = "running";
    ASSERT_TRUE(library.saveRun(run).ok());
    run.state = "finished";
    run.cause = "it's \xC3\xA9";
    ASSERT_TRUE(library.saveRun(run).ok());
    ASSERT_EQ(library.runs()->size(), 1u);
    const RunRow back = library.runs()->at(0);
    EXPECT_EQ(back.state, "finished");
    EXPECT_EQ(back.bestMetric, run.bestMetric);
    EXPECT_EQ(back.peakBytes, run.peakBytes);
    EXPECT_EQ(back.cause, run.cause);
    ASSERT_TRUE(library.savePrediction(run.id, plan).ok());
    ASSERT_TRUE(library.saveObservation(run.id, planHash(plan), "fp", 80, 44500000, 50000000, "[]").ok());
    ASSERT_TRUE(library.saveCertificate(planHash(plan), "hash", "same", "{}").ok());
    EXPECT_EQ(sqlValue(file, "SELECT step_ns FROM prediction"), "41000000");
    EXPECT_EQ(sqlValue(file, "SELECT step_ns_median FROM observation"), "44500000");
    EXPECT_EQ(sqlValue(file, "SELECT result FROM certificates"), "same");
}

TEST_F(Store, GraphStatisticsAreKeptByKey)
{
    Library library = open();
    GraphStats stats;
    stats.nodes = 2708;
    stats.contexts[2] = {{0, 1354, 2708}, {1354, 1354}, {1, 2}, {1, 2, 3, 4}, {1, 2, 3, 4}, {0, 1, 1, 0}};
    ASSERT_TRUE(library.saveGraphStats("key", stats).ok());
    const auto back = library.graphStats("key");
    ASSERT_TRUE(back.ok() && back->has_value());
    EXPECT_EQ(canonicalText(graphStatsToJson(**back)), canonicalText(graphStatsToJson(stats)));
    EXPECT_FALSE(library.graphStats("other")->has_value());
}

TEST_F(Store, NewerLibraryIsRefusedAndUntouched)
{
    { const Library library = open(); }
    sql(file, "PRAGMA user_version=999");
    const std::string before = bytesOf(file);
    const auto library = Library::open(home);
    ASSERT_FALSE(library.ok());
    EXPECT_EQ(library.error().code, ErrorCode::VersionMismatch);
    EXPECT_NE(library.error().message.find("999"), std::string::npos);
    EXPECT_EQ(Library::repair(home).error().code, ErrorCode::VersionMismatch) << "repair must not move a newer library aside";
    EXPECT_EQ(bytesOf(file), before);
}

TEST_F(Store, DatabaseOfAnotherApplicationIsRefusedAndUntouched)
{
    fs::create_directories(home);
    sql(file, "PRAGMA application_id=42; CREATE TABLE songs(name); INSERT INTO songs VALUES('x')");
    const std::string before = bytesOf(file);
    EXPECT_EQ(Library::open(home).error().code, ErrorCode::Corrupt);
    EXPECT_EQ(bytesOf(file), before);
    fs::remove(file);
    sql(file, "CREATE TABLE songs(name)"); // without any id of its own
    EXPECT_EQ(Library::open(home).error().code, ErrorCode::Corrupt);
    EXPECT_EQ(sqlValue(file, "SELECT count(*) FROM sqlite_master"), "1");
}

TEST_F(Store, FileThatIsNoDatabasePointsAtRebuildAndStays)
{
    writeFile(file, "this is not a database, but it is long enough to have a header of one hundred bytes or more, as SQLite reads one.");
    const std::string before = bytesOf(file);
    const auto library = Library::open(home);
    ASSERT_FALSE(library.ok());
    EXPECT_EQ(library.error().code, ErrorCode::Corrupt);
    EXPECT_EQ(exitCode(library.error().code), 7);
    EXPECT_NE(library.error().message.find("megagraph library rebuild"), std::string::npos);
    EXPECT_NE(library.error().message.find(file), std::string::npos);
    EXPECT_EQ(bytesOf(file), before);
}

TEST_F(Store, RepairMovesADamagedLibraryAsideAndReadsTheFilesAgain)
{
    {
        Library library = open();
        for (int i = 0; i < 15; ++i) {
            Profile profile = goodProfile();
            profile.seconds = i;
            profile.id = profileId(profile);
            ASSERT_TRUE(library.saveProfile(profile).ok());
        }
        ASSERT_TRUE(library.savePlan(goodPlan()).ok());
    }
    std::string bytes = bytesOf(file);
    ASSERT_GT(bytes.size(), 40960u);
    std::fill(bytes.begin() + 4096, bytes.end(), 'Z'); // every page but the first
    writeFile(file, bytes);
    std::vector<std::string> notes;
    const auto rows = Library::repair(home, &notes);
    ASSERT_TRUE(rows.ok()) << rows.error().message;
    EXPECT_EQ(*rows, 16);
    ASSERT_EQ(notes.size(), 1u);
    EXPECT_NE(notes[0].find(".aside-"), std::string::npos);
    EXPECT_EQ(open().profiles()->size(), 15u);
    bool kept = false;
    for (const auto& entry : fs::directory_iterator(home))
        kept = kept || (entry.path().string().find(".aside-") != std::string::npos && bytesOf(entry.path().string()) == bytes);
    EXPECT_TRUE(kept) << "the damaged file is moved, never deleted";
}

TEST_F(Store, RebuildReadsRunsPlansProfilesDatasetsAndNamesWhatItSkips)
{
    Library library = open();
    ASSERT_TRUE(library.saveProfile(goodProfile()).ok());
    ASSERT_TRUE(library.savePlan(goodPlan()).ok());
    writeRun(home, "20260105-101112-a1b2c3");
    writeFile(home + "/datasets/citeseer/dataset.json", bytesOf(kGood + "dataset.json"));
    writeFile(home + "/datasets/.tmp-1/dataset.json", "half");
    writeFile(home + "/plans/bad.json", "{");
    writeFile(home + "/runs/20260105-101113-ffffff/run.json", "[]");
    RunRow gone;
    gone.id = "gone";
    ASSERT_TRUE(library.saveRun(gone).ok());
    std::vector<std::string> skipped;
    const auto rows = library.rebuild(&skipped);
    ASSERT_TRUE(rows.ok()) << rows.error().message;
    // profile, plan, data set, run, checkpoint, prediction, observation, certificate
    EXPECT_EQ(*rows, 8);
    ASSERT_EQ(skipped.size(), 2u);
    EXPECT_NE(skipped[0].find("plans/bad.json"), std::string::npos);
    EXPECT_NE(skipped[1].find("20260105-101113-ffffff"), std::string::npos);
    ASSERT_EQ(library.runs()->size(), 1u) << "a row without a folder goes";
    const RunRow run = library.runs()->at(0);
    EXPECT_EQ(run.state, "finished");
    EXPECT_EQ(run.ended, "2026-01-05T10:20:00.000Z");
    EXPECT_EQ(run.dataset, "cora");
    EXPECT_EQ(run.model, "graphormer-cora");
    EXPECT_EQ(run.plan, planHash(goodPlan()));
    EXPECT_EQ(run.lastCommit, 60);
    EXPECT_EQ(run.attempts, 2);
    EXPECT_DOUBLE_EQ(run.bestMetric, 0.79);
    EXPECT_DOUBLE_EQ(run.stepS, 0.0445);
    EXPECT_DOUBLE_EQ(run.predictedStepS, 0.041);
    EXPECT_EQ(run.peakBytes, 207000000);
    EXPECT_EQ(run.predictedPeakBytes, 210000000);
    EXPECT_EQ(sqlValue(file, "SELECT step || ' ' || bytes FROM checkpoints"), "60 1002");
    EXPECT_EQ(sqlValue(file, "SELECT plan FROM certificates WHERE result='same'"), planHash(goodPlan()));
    ASSERT_TRUE(library.rebuild().ok());
    EXPECT_EQ(*library.rebuild(), *rows) << "doing it twice changes nothing";
}

TEST_F(Store, OlderSchemaIsMigratedWithABackup)
{
    { const Library library = open(); }
    // the first schema: drop what the second step adds
    sql(file, "DROP TABLE profile_repeat; DROP TABLE profile_point; DROP TABLE profile_constant; DROP TABLE profile_hole; "
              "DROP TABLE profile; DROP TABLE fingerprint; DROP TABLE prediction; DROP TABLE observation; DROP TABLE graph_stats; "
              "INSERT INTO plans VALUES('h','n','d','m','c','{}'); PRAGMA user_version=1");
    Library library = open();
    EXPECT_EQ(sqlValue(file, "PRAGMA user_version"), std::to_string(store::schemaVersion()));
    EXPECT_EQ(library.plans()->at(0).hash, "h") << "rows survive";
    EXPECT_TRUE(library.saveProfile(goodProfile()).ok());
    EXPECT_EQ(sqlValue(file + ".backup-v1", "PRAGMA user_version"), "1");
    EXPECT_EQ(sqlValue(file + ".backup-v1", "SELECT hash FROM plans"), "h");
    struct stat info {};
    ASSERT_EQ(::stat((file + ".backup-v1").c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777u, 0600u);
}

TEST_F(Store, FailedMigrationLeavesTheOldSchema)
{
    { const Library library = open(); }
    // version 1 by number, but with a table that the second step wants to make: the step must fail and undo all of itself
    sql(file, "DROP TABLE profile_repeat; DROP TABLE profile_point; DROP TABLE profile_constant; DROP TABLE profile_hole; "
              "DROP TABLE profile; DROP TABLE fingerprint; DROP TABLE prediction; DROP TABLE observation; PRAGMA user_version=1");
    EXPECT_FALSE(Library::open(home).ok());
    EXPECT_EQ(sqlValue(file, "PRAGMA user_version"), "1");
    EXPECT_EQ(sqlValue(file, "SELECT count(*) FROM sqlite_master WHERE name='profile'"), "0");
}

TEST_F(Store, FailedWriteChangesNothing)
{
    Library library = open();
    Profile profile = goodProfile();
    profile.constants.push_back({"not a number", std::numeric_limits<double>::quiet_NaN(), "", "measured"}); // NULL in SQLite
    EXPECT_FALSE(library.saveProfile(profile).ok());
    EXPECT_EQ(library.profiles()->size(), 0u);
    EXPECT_EQ(sqlValue(file, "SELECT count(*) FROM profile_point"), "0");
}

TEST_F(Store, TwoProgramsWriteAtTheSameTime)
{
    { const Library library = open(); }
    std::vector<std::thread> writers;
    for (int w = 0; w < 2; ++w)
        writers.emplace_back([this, w] {
            Library library = open();
            for (int i = 0; i < 20; ++i) {
                RunRow row;
                row.id = std::to_string(w) + "-" + std::to_string(i);
                EXPECT_TRUE(library.saveRun(row).ok());
            }
        });
    for (auto& writer : writers)
        writer.join();
    EXPECT_EQ(open().runs()->size(), 40u);
}

TEST_F(Store, HomeThatIsAFileIsAClearError)
{
    writeFile(home, "x");
    const auto library = Library::open(home);
    ASSERT_FALSE(library.ok());
    EXPECT_EQ(library.error().code, ErrorCode::Io);
    EXPECT_NE(library.error().message.find(home), std::string::npos);
}
