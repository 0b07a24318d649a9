// SPDX-License-Identifier: Apache-2.0
// A big case as one file for the peers' script: tensors are drawn there, structure comes from here.
// File, little-endian: int64 length of a JSON text, the text, then the arrays it names, each at a multiple of 64 bytes from the
// start of the file. JSON: format megagraph.gpu_case, version 1, tokens, heads, head_size, hops, classes, lists {query_blocks,
// key_blocks, map_stride, rank_stride}, arrays [{name, type, count, offset}]; names: table (as learned, [heads, classes]), map,
// rank, tile_start, offsets, block_start, entries (TileListsView), component, indptr, indices, transposed_indptr,
// transposed_rows, transposed_entries, near_row, near_column, near_class (every pair within K hops, by row).
#pragma once

#include "core/result.h"
#include "tests/gpu/big_case.h"

#include <string>

namespace megagraph::kernels::goldens {

Result<Ok> exportCase(const BigCase& c, const std::string& path, const ParallelFor& parallel);

} // namespace megagraph::kernels::goldens
