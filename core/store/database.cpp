// SPDX-License-Identifier: Apache-2.0
#include "core/store/database.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <tuple>
#include <unistd.h>
#include <utility>

namespace megagraph::store {

namespace {

// Step k brings version k to k + 1. Steps are never edited after a release; new ones are added.
constexpr const char* kMigrations[] = {
    // 1: what the library indexes
    R"sql(
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL);
INSERT INTO meta VALUES('min_reader', '1');
CREATE TABLE datasets(name TEXT PRIMARY KEY, hash TEXT NOT NULL, path TEXT NOT NULL, nodes INTEGER NOT NULL, edges INTEGER NOT NULL,
    document TEXT NOT NULL);
CREATE TABLE plans(hash TEXT PRIMARY KEY, name TEXT NOT NULL, dataset TEXT NOT NULL, model TEXT NOT NULL, cluster TEXT NOT NULL,
    document TEXT NOT NULL);
CREATE TABLE certificates(plan TEXT NOT NULL, dataset TEXT NOT NULL, result TEXT NOT NULL, document TEXT NOT NULL,
    PRIMARY KEY(plan, dataset));
CREATE TABLE runs(id TEXT PRIMARY KEY, path TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, state TEXT NOT NULL,
    created TEXT NOT NULL, ended TEXT NOT NULL, plan TEXT NOT NULL, dataset TEXT NOT NULL, model TEXT NOT NULL,
    world INTEGER NOT NULL, attempts INTEGER NOT NULL, last_step INTEGER NOT NULL, last_commit INTEGER NOT NULL,
    best_metric REAL NOT NULL, step_s REAL NOT NULL, peak_bytes INTEGER NOT NULL, predicted_step_s REAL NOT NULL,
    predicted_peak_bytes INTEGER NOT NULL, cause TEXT NOT NULL, journal_seq INTEGER NOT NULL);
CREATE TABLE checkpoints(run TEXT NOT NULL REFERENCES runs(id) ON DELETE CASCADE, step INTEGER NOT NULL, path TEXT NOT NULL,
    bytes INTEGER NOT NULL, tainted INTEGER NOT NULL, PRIMARY KEY(run, step));
CREATE INDEX runs_created ON runs(created);
)sql",
    // 2: measurements and what was predicted from them
    R"sql(
CREATE TABLE fingerprint(id TEXT PRIMARY KEY, device_kind TEXT, device_name TEXT, device_count INTEGER, memory_bytes INTEGER,
    driver TEXT, cuda TEXT, nccl TEXT, libtorch TEXT, cpu_model TEXT, threads_per_slot INTEGER, product_version TEXT,
    json TEXT NOT NULL);
CREATE TABLE profile(id TEXT PRIMARY KEY, fingerprint_id TEXT NOT NULL REFERENCES fingerprint(id), created_utc TEXT NOT NULL,
    level TEXT NOT NULL, model_signature TEXT NOT NULL, dataset_key TEXT NOT NULL, seconds REAL NOT NULL, note TEXT NOT NULL,
    fingerprint_json TEXT NOT NULL);
CREATE TABLE profile_point(id INTEGER PRIMARY KEY, profile_id TEXT NOT NULL REFERENCES profile(id) ON DELETE CASCADE,
    kind TEXT NOT NULL, key_json TEXT NOT NULL, x_json TEXT NOT NULL, dtype TEXT NOT NULL, median_ns INTEGER NOT NULL,
    mad_ns INTEGER NOT NULL, repeats INTEGER NOT NULL, saved_bytes INTEGER NOT NULL, peak_bytes INTEGER NOT NULL,
    clock_mhz INTEGER NOT NULL, status TEXT NOT NULL);
CREATE TABLE profile_repeat(point_id INTEGER NOT NULL REFERENCES profile_point(id) ON DELETE CASCADE, i INTEGER NOT NULL,
    value_ns INTEGER NOT NULL, PRIMARY KEY(point_id, i)) WITHOUT ROWID;
CREATE TABLE profile_constant(profile_id TEXT NOT NULL REFERENCES profile(id) ON DELETE CASCADE, name TEXT NOT NULL,
    value REAL NOT NULL, unit TEXT NOT NULL, provenance TEXT NOT NULL);
CREATE TABLE profile_hole(profile_id TEXT NOT NULL REFERENCES profile(id) ON DELETE CASCADE, kind TEXT NOT NULL,
    key_json TEXT NOT NULL, reason TEXT NOT NULL, est_seconds REAL NOT NULL);
CREATE TABLE prediction(run_id TEXT PRIMARY KEY, plan_hash TEXT NOT NULL, profile_id TEXT NOT NULL, calibration_id TEXT NOT NULL,
    step_ns INTEGER NOT NULL, lo_ns INTEGER NOT NULL, hi_ns INTEGER NOT NULL, terms_json TEXT NOT NULL,
    per_rank_bytes_json TEXT NOT NULL);
CREATE TABLE observation(run_id TEXT PRIMARY KEY, plan_hash TEXT NOT NULL, fingerprint_id TEXT NOT NULL, steps INTEGER NOT NULL,
    step_ns_median INTEGER NOT NULL, step_ns_p95 INTEGER NOT NULL, terms_json TEXT NOT NULL, per_rank_bytes_json TEXT NOT NULL);
CREATE TABLE graph_stats(key TEXT PRIMARY KEY, dataset_id TEXT NOT NULL, created_utc TEXT NOT NULL, blob TEXT NOT NULL);
CREATE INDEX profile_match ON profile(fingerprint_id, model_signature, dataset_key, created_utc);
CREATE INDEX profile_point_of ON profile_point(profile_id);
)sql"};

Error failure(sqlite3* handle, const std::string& path, int code)
{
    const std::string what = handle != nullptr ? sqlite3_errmsg(handle) : sqlite3_errstr(code);
    switch (code & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return {ErrorCode::Corrupt,
                fmt::format("library: {}: damaged or not a database ({}), left untouched; run `megagraph library rebuild`, which "
                            "moves it aside and reads runs, plans and profiles again",
                            path, what)};
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return {ErrorCode::Io, fmt::format("library: {}: in use by another program for more than 5 s; try again", path)};
    case SQLITE_FULL: return {ErrorCode::Io, fmt::format("library: {}: disk full; free some space", path)};
    case SQLITE_CONSTRAINT: return {ErrorCode::InvalidInput, fmt::format("library: {}: {}", path, what)};
    case SQLITE_ERROR:
    case SQLITE_MISUSE: return {ErrorCode::Internal, fmt::format("library: {}: {}", path, what)};
    default: return {ErrorCode::Io, fmt::format("library: {}: {}", path, what)};
    }
}

Result<int64_t> pragmaNumber(sqlite3* handle, const std::string& path, const char* sql)
{
    sqlite3_stmt* raw = nullptr;
    if (const int code = sqlite3_prepare_v2(handle, sql, -1, &raw, nullptr); code != SQLITE_OK)
        return failure(handle, path, code);
    Statement statement(raw, path);
    MEGAGRAPH_TRY(const bool row, statement.step());
    return row ? statement.integer(0) : 0;
}

/// Who wrote the file, read without write access so that a foreign file stays as it is. Ok: empty, or a library that this
/// program may migrate.
Result<Ok> checkIdentity(const std::string& path)
{
    sqlite3* raw = nullptr;
    const int code = sqlite3_open_v2(path.c_str(), &raw, SQLITE_OPEN_READONLY, nullptr);
    const std::unique_ptr<sqlite3, int (*)(sqlite3*)> handle(raw, sqlite3_close);
    if (code != SQLITE_OK)
        return failure(raw, path, code);
    sqlite3_busy_timeout(raw, 5000);
    MEGAGRAPH_TRY(const int64_t application, pragmaNumber(raw, path, "PRAGMA application_id"));
    MEGAGRAPH_TRY(const int64_t version, pragmaNumber(raw, path, "PRAGMA user_version"));
    MEGAGRAPH_TRY(const int64_t tables, pragmaNumber(raw, path, "SELECT count(*) FROM sqlite_master"));
    if (application != kApplicationId && (application != 0 || version != 0 || tables != 0))
        return Error{ErrorCode::Corrupt,
                     fmt::format("library: {}: a database of another application (application id {}, expected {}), left untouched; "
                                 "move it away",
                                 path, application, kApplicationId)};
    if (version > schemaVersion())
        return Error{ErrorCode::VersionMismatch,
                     fmt::format("library: {}: written by a newer version, got schema {}, expected at most {}, left untouched; update "
                                 "MegaGraph Studio",
                                 path, version, schemaVersion())};
    return Ok{};
}

/// Network file systems cannot share the memory map that WAL needs.
bool onNetwork(const std::string& path)
{
    struct statfs info {};
    if (::statfs(path.c_str(), &info) != 0)
        return false;
    constexpr int64_t kNfs = 0x6969, kSmb = 0x517B, kSmb2 = 0xFE534D42, kCifs = 0xFF534D42, kFuse = 0x65735546, kAfs = 0x5346414F;
    const auto kind = static_cast<int64_t>(info.f_type) & 0xFFFFFFFF;
    return kind == kNfs || kind == kSmb || kind == kSmb2 || kind == kCifs || kind == kFuse || kind == kAfs;
}

bool leftoversOf(const std::string& path)
{
    struct stat info {};
    return (::stat((path + "-journal").c_str(), &info) == 0 && info.st_size > 0) || ::stat((path + "-wal").c_str(), &info) == 0;
}

/// Makes the file with mode 0600 before SQLite opens it. False: it was there.
Result<bool> createFile(const std::string& path)
{
    const int descriptor = ::open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (descriptor >= 0) {
        ::close(descriptor);
        return true;
    }
    struct stat info {};
    if (errno == EEXIST && ::lstat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode))
        return false;
    return Error{ErrorCode::Io, fmt::format("library: {}: cannot create: {}", path, errno == EEXIST ? "not a regular file" : std::strerror(errno))};
}

} // namespace

int schemaVersion()
{
    return static_cast<int>(std::size(kMigrations));
}

Statement::Statement(Statement&& other) noexcept
    : statement_(std::exchange(other.statement_, nullptr)), path_(std::move(other.path_)), bound_(other.bound_)
{
}

Statement::~Statement()
{
    sqlite3_finalize(statement_);
}

Statement& Statement::bind(const std::string& value)
{
    sqlite3_bind_text(statement_, ++bound_, value.data(), static_cast<int>(value.size()), SQLITE_TRANSIENT);
    return *this;
}

Statement& Statement::bind(int64_t value)
{
    sqlite3_bind_int64(statement_, ++bound_, value);
    return *this;
}

Statement& Statement::bind(double value)
{
    sqlite3_bind_double(statement_, ++bound_, value);
    return *this;
}

Result<bool> Statement::step()
{
    const int code = sqlite3_step(statement_);
    if (code == SQLITE_ROW)
        return true;
    if (code == SQLITE_DONE)
        return false;
    return failure(sqlite3_db_handle(statement_), path_, code);
}

Result<Ok> Statement::run()
{
    while (true) {
        auto row = step();
        if (!row)
            return row.error();
        if (!*row)
            break;
    }
    sqlite3_reset(statement_);
    sqlite3_clear_bindings(statement_);
    bound_ = 0;
    return Ok{};
}

std::string Statement::text(int column) const
{
    const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
    return bytes == nullptr ? "" : std::string(bytes, static_cast<size_t>(sqlite3_column_bytes(statement_, column)));
}

int64_t Statement::integer(int column) const
{
    return sqlite3_column_int64(statement_, column);
}

double Statement::real(int column) const
{
    return sqlite3_column_double(statement_, column);
}

Database::Database(Database&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)), path_(std::move(other.path_)) {}

Database& Database::operator=(Database&& other) noexcept
{
    std::swap(handle_, other.handle_);
    std::swap(path_, other.path_);
    return *this;
}

Database::~Database()
{
    sqlite3_close(handle_);
}

Result<Database> Database::open(const std::string& path)
{
    MEGAGRAPH_TRY(const bool fresh, createFile(path));
    if (auto known = fresh ? Result<Ok>(Ok{}) : checkIdentity(path); !known)
        return known.error();
    ::chmod(path.c_str(), 0600);
    const bool unclean = !fresh && leftoversOf(path);
    sqlite3* raw = nullptr;
    const int code = sqlite3_open_v2(path.c_str(), &raw, SQLITE_OPEN_READWRITE, nullptr);
    Database database(raw, path);
    if (code != SQLITE_OK)
        return failure(raw, path, code);
    MEGAGRAPH_TRY(std::ignore, database.configure());
    if (unclean) {
        MEGAGRAPH_TRY(Statement check, database.prepare("PRAGMA quick_check(1)"));
        MEGAGRAPH_TRY(const bool row, check.step());
        if (!row || check.text(0) != "ok")
            return failure(raw, path, SQLITE_CORRUPT);
    }
    MEGAGRAPH_TRY(std::ignore, database.chooseJournal(fresh));
    MEGAGRAPH_TRY(std::ignore, database.migrate());
    return database;
}

Result<Ok> Database::configure() const
{
    sqlite3_busy_timeout(handle_, 5000);
    sqlite3_db_config(handle_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
    sqlite3_db_config(handle_, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0, nullptr);
    sqlite3_db_config(handle_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
    return execute("PRAGMA foreign_keys=ON; PRAGMA cell_size_check=ON; PRAGMA mmap_size=0; PRAGMA synchronous=FULL;");
}

/// Older SQLite can lose data in WAL mode when a checkpoint races with a reset, hence the version gate.
Result<Ok> Database::chooseJournal(bool fresh) const
{
    constexpr int kSafeWal = 3051003;
    const bool wal = sqlite3_libversion_number() >= kSafeWal && !onNetwork(path_);
    if (wal && fresh)
        return execute("PRAGMA journal_mode=WAL");
    if (wal && journalMode() == "wal")
        return Ok{};
    MEGAGRAPH_TRY(std::ignore, execute("PRAGMA journal_mode=TRUNCATE"));
    if (journalMode() == "wal") // another program holds the file, so the mode could not change: read, never write
        return execute("PRAGMA query_only=ON");
    return Ok{};
}

Result<Ok> Database::backUp(int version) const
{
    struct stat file {};
    struct statvfs disk {};
    if (::stat(path_.c_str(), &file) == 0 && ::statvfs(path_.c_str(), &disk) == 0) {
        const uint64_t left = uint64_t(disk.f_bavail) * disk.f_frsize;
        if (left / 2 < static_cast<uint64_t>(file.st_size))
            return Error{ErrorCode::Io, fmt::format("library: {}: too little space to migrate, got {} bytes free, expected {}; free some space",
                                                    path_, left, 2 * static_cast<uint64_t>(file.st_size))};
    }
    const std::string copy = fmt::format("{}.backup-v{}", path_, version);
    ::unlink(copy.c_str());
    MEGAGRAPH_TRY(Statement vacuum, prepare("VACUUM INTO ?1"));
    MEGAGRAPH_TRY(std::ignore, vacuum.bind(copy).run());
    ::chmod(copy.c_str(), 0600);
    sqlite3* raw = nullptr;
    const int code = sqlite3_open_v2(copy.c_str(), &raw, SQLITE_OPEN_READONLY, nullptr);
    const Database checked(raw, copy);
    if (code != SQLITE_OK)
        return failure(raw, copy, code);
    MEGAGRAPH_TRY(Statement check, checked.prepare("PRAGMA quick_check(1)"));
    MEGAGRAPH_TRY(const bool row, check.step());
    return row && check.text(0) == "ok" ? Result<Ok>(Ok{}) : Result<Ok>(failure(nullptr, copy, SQLITE_CORRUPT));
}

Result<Ok> Database::migrate() const
{
    MEGAGRAPH_TRY(const int64_t before, pragmaNumber(handle_, path_, "PRAGMA user_version"));
    if (before == schemaVersion())
        return Ok{};
    if (before > 0) {
        MEGAGRAPH_TRY(std::ignore, backUp(static_cast<int>(before)));
    }
    MEGAGRAPH_TRY(Transaction transaction, Transaction::begin(*this));
    // another process may have migrated while this one waited for the lock
    MEGAGRAPH_TRY(const int64_t version, pragmaNumber(handle_, path_, "PRAGMA user_version"));
    for (int64_t step = version; step < schemaVersion(); ++step) {
        MEGAGRAPH_TRY(std::ignore, execute(kMigrations[step]));
    }
    const std::string stamp = fmt::format("PRAGMA application_id={}; PRAGMA user_version={};", kApplicationId, schemaVersion());
    MEGAGRAPH_TRY(std::ignore, execute(stamp.c_str()));
    return transaction.commit();
}

Result<Statement> Database::prepare(const char* sql) const
{
    sqlite3_stmt* statement = nullptr;
    const int code = sqlite3_prepare_v2(handle_, sql, -1, &statement, nullptr);
    if (code != SQLITE_OK)
        return failure(handle_, path_, code);
    return Statement(statement, path_);
}

Result<Ok> Database::execute(const char* sql) const
{
    const int code = sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr);
    if (code != SQLITE_OK)
        return failure(handle_, path_, code);
    return Ok{};
}

int64_t Database::lastRowId() const
{
    return sqlite3_last_insert_rowid(handle_);
}

std::string Database::journalMode() const
{
    auto statement = prepare("PRAGMA journal_mode");
    if (!statement || !statement->step().ok())
        return "";
    return statement->text(0);
}

Result<Transaction> Transaction::begin(const Database& database)
{
    MEGAGRAPH_TRY(std::ignore, database.execute("BEGIN IMMEDIATE"));
    return Transaction(database);
}

Transaction::Transaction(Transaction&& other) noexcept : database_(std::exchange(other.database_, nullptr)) {}

Transaction::~Transaction()
{
    if (database_ != nullptr && !database_->execute("ROLLBACK").ok()) {
        // SQLite already rolled back by itself (full disk, damaged file); the fault was reported by the failing statement
    }
}

Result<Ok> Transaction::commit()
{
    MEGAGRAPH_TRY(std::ignore, database_->execute("COMMIT"));
    database_ = nullptr;
    return Ok{};
}

} // namespace megagraph::store
