// SPDX-License-Identifier: Apache-2.0
// Stored results of the attention cases: one file per case and one manifest with the SHA-256 of each.
// File, little-endian: "MGGOLD01", uint32 arrays; per array: char name[8] (zero padded), int64 rows, int32 width, int32 stored;
// int32 row numbers [stored], ascending; float values [stored, width]; double signed sums [width].
// Short arrays are stored whole, long ones by rows at block borders and at random. The signed sums take every row, each
// with a random sign, so an error in a row that is not stored shows as well: its expected square is that of the array's error.
// manifest.json: format megagraph.kernel_goldens, version 1, cases [{id, what, file, bytes, sha256}].
// Readers refuse sizes that do not fit the file before they allocate. Pure but for the named files.
#pragma once

#include "core/result.h"
#include "tests/gpu/golden_cases.h"

#include <string>
#include <vector>

namespace megagraph::kernels::goldens {

struct StoredArray {
    std::string name;
    int64_t rows = 0;
    int32_t width = 0;
    std::vector<int32_t> storedRows;
    std::vector<float> values; // [storedRows, width]
    std::vector<double> sums;  // [width]
};
using Golden = std::vector<StoredArray>;

/// Signed sums over the rows; infinite values count 0 (they must agree in place, see `errorOf`).
std::vector<double> signedSums(int64_t rows, int64_t width, const std::vector<double>& values);

Golden goldenOf(const std::vector<Array>& arrays);
std::string encode(const Golden& golden);
Result<Golden> decode(const std::string& file, std::string_view bytes);

/// Writes every case and the manifest into `folder`.
Result<Ok> writeGoldens(const std::string& folder);

struct ManifestEntry {
    std::string id, file, sha256;
    int64_t bytes = 0;
};
/// Reads the manifest and compares size and hash of every file with it.
Result<std::vector<ManifestEntry>> checkedManifest(const std::string& folder);
Result<Golden> readGolden(const std::string& folder, const ManifestEntry& entry);

/// Relative L2 error of `got` against the stored rows and against the signed sums, the larger one. `floor`: the norm counts at
/// least as much. Infinity where infinities differ in place or sign, or a NaN stands.
double errorOf(const StoredArray& golden, const std::vector<double>& got, double floor = 0);
const StoredArray* arrayNamed(const Golden& golden, std::string_view name);

} // namespace megagraph::kernels::goldens
