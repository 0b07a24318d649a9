// SPDX-License-Identifier: Apache-2.0
// Rows of the library in and out of an open database, without transactions and without files; library.cpp and rebuild.cpp
// share them. One thread at a time.
#pragma once

#include "core/store/database.h"
#include "core/store/library.h"

namespace megagraph::store {

Result<Ok> putProfile(const Database& database, const Profile& profile);
Result<Profile> getProfile(const Database& database, const std::string& id);
Result<Ok> putPlan(const Database& database, const Plan& plan, const std::string& hash);
Result<Ok> putDataset(const Database& database, const DatasetSpec& spec, const std::string& path);
Result<Ok> putRun(const Database& database, const RunRow& row);
Result<Ok> putPrediction(const Database& database, const std::string& runId, const Plan& plan);
Result<Ok> putCertificate(const Database& database, const std::string& plan, const std::string& dataset,
                          const std::string& verdict, const std::string& document);
struct Observation { std::string runId, planHash, fingerprintId; int64_t steps = 0, medianNs = 0, p95Ns = 0; std::string perRankJson; };
Result<Ok> putObservation(const Database& database, const Observation& observation);

/// Reads the files of a home into the database; returns rows written.
Result<int64_t> readHome(const Database& database, const std::string& home, std::vector<std::string>& skipped);

} // namespace megagraph::store
