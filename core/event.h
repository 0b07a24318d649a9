// SPDX-License-Identifier: Apache-2.0
// Event and sample lines: one JSON object per line, UTF-8, at most 16 KiB (runs design, sections 2 and 3). Pure.
//
// A worker writes lines {"kind":...,fields} on its report pipe (descriptor 3) without seq, utc, mono_s, attempt, rank or crc;
// the supervisor adds them. Lines of a worker:
//   rank.ready       {"torch","build","backend","load_s","rss_bytes","base_bytes"}      before the first collective
//   mesh.formed      {"groups","took_s"}
//   beat             {"phase","step","action","progress","rss_bytes"}                   each second, own thread
//   step    (rank 0) {"step_from","step_to","loss":[],"lr":[],"grad_norm":[],"item_count":[],"step_s":[]}  covers [from, to)
//   rank             {"step","compute_s","comm_wait_s","data_s","host_s","comm_bytes"}  sums since the last line
//   memory           {"weights_bytes",...,"base_bytes","allocated_bytes","peak_bytes"}   peaks since start of training
//   eval    (rank 0) {"step","split","metric","value","item_count","loss"}
//   best    (rank 0) {"step","valid","test","train_loss"}                               a better validation value was reached
//   checkpoint.begin {"step","bytes"}
//   checkpoint.shard {"step","folder","files":[{"name","bytes","sidecar","sidecar_crc32c"}],"blocked_s","write_s"}  every rank
//   oom              {"step","phase","layer","op","tensor","category","requested_bytes","in_use_bytes","budget_bytes",
//                     "categories":{..}}
//   nonfinite        {"step","where","layer","tensor"}
//   profile_point    {"point":{..profile.json point..}}      profile_constant {"name","value","unit"}
//   verify.step (rank 0) {"step","loss_rel","gradient_rel","parameter"}
//   error            {"code","message","exit_code"}          written before a non-zero exit
//   done             {"steps","best_step","reason","result":{..}}   reason: steps | patience | stopped; result on rank 0 only:
//                    {"train":{"loss"},"valid":{"metric","value"},"test":{"metric","value"},"step_ms","final_test"}
//                    every rank also: "peak_bytes" (counted + base), "categories":{..peak per category..}
// Commands on the command pipe (descriptor 4): {"do":"stop"} {"do":"terminate"} {"do":"checkpoint"}
//   {"do":"committed","step":S} {"do":"abandon","step":S}; its end of file is the lifeline (exit 86).
#pragma once

#include "core/json.h"
#include "core/result.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace megagraph {

constexpr size_t kMaxEventLine = 16 * 1024;

/// One line (with newline) of a journal: adds "seq" in front and "crc" last: CRC32C, 8 hex digits, over all bytes before
/// `,"crc":`. Keys keep their order.
std::string encodeJournalLine(int64_t seq, const Json& fields);
/// Checks length, newline, crc; returns the object with seq. Corrupt with what was wrong.
Result<Json> decodeJournalLine(std::string_view line);
/// One sample or report line without checksum. Non-finite numbers become "nan", "inf", "-inf".
std::string encodeLine(const Json& fields);
Result<Json> decodeLine(std::string_view line);
/// Reads a number that may be one of the strings "nan", "inf", "-inf".
double numberOf(const Json& value);
/// A JSON value for a double, non-finite as its string.
Json numberJson(double value);

} // namespace megagraph
