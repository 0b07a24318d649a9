// SPDX-License-Identifier: Apache-2.0
// Checkpoints of a run (runs design, section 7): `checkpoints/step-000001200/` holds one safetensors file per writing rank
// and manifest.json; while written it is `step-000001200.tmp-aN`. A logical tensor is "PARAMETER/w|m|v" (fp32 master, first and
// second moment); a slice is a flat row-major element range [begin, end) of it. Ranks write shard and sidecar (writeShard), the
// supervisor merges the sidecars, proves that every element is covered exactly once and publishes by rename
// (commitCheckpoint). Readers accept a folder iff its manifest parses, its version is known and all files have the stated size;
// the CRC32C of each 1 MiB block is checked while loading. No Torch here, so a dry run needs none. Calls share nothing;
// a CheckpointReader belongs to one thread.
#pragma once

#include "core/json.h"
#include "core/result.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace megagraph {

constexpr int64_t kChecksumBlock = 1 << 20;

struct TensorSlice {
    std::string tensor; // logical name, "block0.ffn.0.weight/w"
    std::string dtype = "F32";
    std::vector<int64_t> shape; // global shape of the logical tensor
    int64_t begin = 0, end = 0; // flat elements of the logical tensor
    std::string file;           // shard file that holds it
    int64_t offset = 0;         // byte offset in that file
};
struct ShardFile {
    std::string name;
    int64_t bytes = 0;
    std::vector<uint32_t> blockCrc; // CRC32C of each 1 MiB block
};
/// What one rank wrote; `state` (rank 0 only, else null) goes into the manifest.
struct Sidecar {
    int64_t rank = 0, step = 0;
    ShardFile file;
    std::vector<TensorSlice> slices;
    Json state;
};
/// Line of event checkpoint.shard for one file.
struct ShardReport {
    std::string name, sidecar;
    int64_t bytes = 0;
    uint32_t sidecarCrc = 0;
};

struct CheckpointManifest {
    std::string run;
    int64_t attempt = 1, step = 0, parentStep = 0, world = 1;
    uint64_t seed = 1;
    std::string planHash, modelHash, dataHash, buildId, createdUtc;
    bool tainted = false;
    Json state; // of rank 0: {"step", "data_cursor", "optimizer":{..}, "schedule":{..}, "best":{..}, "patience_left", ..}
    std::vector<ShardFile> files;
    std::vector<TensorSlice> slices; // sorted by (tensor, begin)
};

/// One piece to write: slice (file and offset are filled in) and its elements.
struct TensorData { TensorSlice slice; const void* data = nullptr; };

/// "step-000001200"; "step-000001200.tmp-a2".
std::string checkpointName(int64_t step);
std::string checkpointTempName(int64_t step, int64_t attempt);

/// Writes `folder`/rank-0003.safetensors and its sidecar rank-0003.json, both fdatasync'ed; makes `folder` (0700) when missing.
/// A rank without pieces writes an empty shard, so that each rank reports exactly one. Io with file and reason.
Result<ShardReport> writeShard(const std::string& folder, int64_t rank, int64_t step, std::vector<TensorData> pieces,
                               const Json& state);
/// "files" of the checkpoint.shard event and back.
Json shardReportToJson(const ShardReport& report);
Result<ShardReport> shardReportFromJson(const Json& value);

/// Every logical element of every tensor exactly once, same dtype and shape in all slices. Corrupt names tensor and range.
Result<Ok> checkCoverage(std::vector<TensorSlice> slices);

/// Steps 5 and 6 of the commit: merges the sidecars below `runFolder`/checkpoints/<temp name> into manifest.json (temporary
/// file, fsync, rename), checks sizes, sidecar checksums and coverage, removes the sidecars, renames the folder to its final
/// name and syncs the parent. `identity` gives run, attempt, step, world, seed and hashes. The folder is left as it was on error.
Result<CheckpointManifest> commitCheckpoint(const std::string& runFolder, const CheckpointManifest& identity,
                                            const std::vector<ShardReport>& reports);

Json manifestToJson(const CheckpointManifest& manifest);
Result<CheckpointManifest> manifestFromJson(const Json& value, const std::string& file);
/// Reads manifest.json of a checkpoint folder and checks that all files are there with the stated size.
Result<CheckpointManifest> readManifest(const std::string& folder);

/// Committed checkpoints of a run, newest first (compared as numbers). Folders that do not pass readManifest are listed in
/// `damaged` with the reason. An empty list when there is none.
struct CheckpointEntry { int64_t step = 0; std::string folder; int64_t bytes = 0; };
struct CheckpointList {
    std::vector<CheckpointEntry> entries;
    struct Damaged { int64_t step = 0; std::string folder, reason; };
    std::vector<Damaged> damaged;
};
Result<CheckpointList> listCheckpoints(const std::string& runFolder);
/// Newest valid checkpoint, or that of `step` (>= 0). NotFound names what is there.
Result<CheckpointEntry> findCheckpoint(const std::string& runFolder, int64_t step = -1);
/// Removes what crashed commits left behind (`*.tmp-a*` folders); called with the lock held and no worker alive.
void removeUnfinishedCheckpoints(const std::string& runFolder);

/// Reads element ranges of logical tensors, checking each touched block once.
class CheckpointReader {
  public:
    static Result<CheckpointReader> open(const std::string& folder);
    CheckpointReader(CheckpointReader&&) noexcept;
    CheckpointReader& operator=(CheckpointReader&&) noexcept;
    ~CheckpointReader();

    const CheckpointManifest& manifest() const;
    bool has(const std::string& tensor) const;
    /// Global shape; nullptr when there is no such tensor.
    const std::vector<int64_t>* shape(const std::string& tensor) const;
    /// Copies elements [begin, end) of `tensor` (dtype F32, F64, I64 ...: raw bytes) to `out`, whose size in bytes must be
    /// exactly (end - begin) * element size. Corrupt names file and block; NotFound the tensor.
    Result<Ok> read(const std::string& tensor, int64_t begin, int64_t end, void* out, int64_t outBytes);
    /// Checks every block of every file.
    Result<Ok> verify();

  private:
    struct State;
    explicit CheckpointReader(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

} // namespace megagraph
