// SPDX-License-Identifier: Apache-2.0
// One connection to library.db with the rules of the runs design, section 8: version gate, journal mode, migrations in one
// transaction, statements and transactions that clean up after themselves. Used only by core/store. One thread at a time.
#pragma once

#include "core/result.h"

#include <cstdint>
#include <memory>
#include <string>

struct sqlite3;
struct sqlite3_stmt;

namespace megagraph::store {

constexpr int kApplicationId = 0x4D474C42; // "MGLB"
int schemaVersion();                       ///< of this program: number of migration steps

/// A prepared statement. Bind in order with `bind`, then `step` until it answers false.
class Statement {
  public:
    Statement(sqlite3_stmt* statement, std::string path) : statement_(statement), path_(std::move(path)) {}
    Statement(Statement&& other) noexcept;
    Statement& operator=(Statement&&) = delete;
    ~Statement();

    Statement& bind(const std::string& value);
    Statement& bind(int64_t value);
    Statement& bind(double value);
    /// True: a row is there. Corrupt, Io (disk, busy), InvalidInput (constraint).
    Result<bool> step();
    /// Runs it to the end and makes it ready for new values.
    Result<Ok> run();
    std::string text(int column) const;
    int64_t integer(int column) const;
    double real(int column) const;

  private:
    sqlite3_stmt* statement_;
    std::string path_;
    int bound_ = 0;
};

class Database {
  public:
    /// Opens or creates the file, mode 0600, and brings its schema up to date. Untouched and refused: a newer library
    /// (VersionMismatch), another application's file and a damaged one (Corrupt).
    static Result<Database> open(const std::string& path);
    Database(Database&& other) noexcept;
    Database& operator=(Database&& other) noexcept;
    ~Database();

    Result<Statement> prepare(const char* sql) const;
    Result<Ok> execute(const char* sql) const;
    const std::string& path() const { return path_; }
    int64_t lastRowId() const;
    std::string journalMode() const; ///< "truncate" or "wal"

  private:
    Database(sqlite3* handle, std::string path) : handle_(handle), path_(std::move(path)) {}
    Result<Ok> configure() const;
    Result<Ok> chooseJournal(bool fresh) const;
    Result<Ok> migrate() const;
    Result<Ok> backUp(int version) const;

    sqlite3* handle_ = nullptr;
    std::string path_;
};

/// BEGIN IMMEDIATE; rolled back unless committed.
class Transaction {
  public:
    static Result<Transaction> begin(const Database& database);
    Transaction(Transaction&& other) noexcept;
    Transaction& operator=(Transaction&&) = delete;
    ~Transaction();
    Result<Ok> commit();

  private:
    explicit Transaction(const Database& database) : database_(&database) {}
    const Database* database_;
};

} // namespace megagraph::store
