// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/layout.h"

#include "kernels/cuda/api.h"

#include <cstddef>

namespace megagraph::kernels::goldens {

Json apiLayout()
{
    Json structs;
#define MEGAGRAPH_FIELD(type, field) structs[#type]["size"] = sizeof(type), structs[#type]["fields"][#field] = offsetof(type, field)
    MEGAGRAPH_FIELD(MegagraphCudaError, code);
    MEGAGRAPH_FIELD(MegagraphCudaError, text);
    MEGAGRAPH_FIELD(MegagraphCudaView, data);
    MEGAGRAPH_FIELD(MegagraphCudaView, rows);
    MEGAGRAPH_FIELD(MegagraphCudaView, heads);
    MEGAGRAPH_FIELD(MegagraphCudaView, dim);
    MEGAGRAPH_FIELD(MegagraphCudaView, rowStride);
    MEGAGRAPH_FIELD(MegagraphCudaView, headStride);
    MEGAGRAPH_FIELD(MegagraphCudaView, type);
    MEGAGRAPH_FIELD(MegagraphCudaView, reserved);
    MEGAGRAPH_FIELD(MegagraphCudaShape, queries);
    MEGAGRAPH_FIELD(MegagraphCudaShape, keys);
    MEGAGRAPH_FIELD(MegagraphCudaShape, queryOffset);
    MEGAGRAPH_FIELD(MegagraphCudaShape, keyOffset);
    MEGAGRAPH_FIELD(MegagraphCudaShape, heads);
    MEGAGRAPH_FIELD(MegagraphCudaShape, dim);
    MEGAGRAPH_FIELD(MegagraphCudaShape, headOffset);
    MEGAGRAPH_FIELD(MegagraphCudaShape, reserved);
    MEGAGRAPH_FIELD(MegagraphCudaShape, scale);
    MEGAGRAPH_FIELD(MegagraphCudaPlanesView, words);
    MEGAGRAPH_FIELD(MegagraphCudaPlanesView, kinds);
    MEGAGRAPH_FIELD(MegagraphCudaPlanesView, tileFirst);
    MEGAGRAPH_FIELD(MegagraphCudaPlanesView, keyBlockBegin);
    MEGAGRAPH_FIELD(MegagraphCudaPlanesView, keyBlockEnd);
    MEGAGRAPH_FIELD(MegagraphCudaPlanesView, keyBlocks);
    MEGAGRAPH_FIELD(MegagraphCudaPlanesView, kindStride);
    MEGAGRAPH_FIELD(MegagraphCudaPlanesView, planes);
    MEGAGRAPH_FIELD(MegagraphCudaPlanesView, reserved);
    MEGAGRAPH_FIELD(MegagraphCudaListsView, map);
    MEGAGRAPH_FIELD(MegagraphCudaListsView, rank);
    MEGAGRAPH_FIELD(MegagraphCudaListsView, tileStart);
    MEGAGRAPH_FIELD(MegagraphCudaListsView, offsets);
    MEGAGRAPH_FIELD(MegagraphCudaListsView, blockStart);
    MEGAGRAPH_FIELD(MegagraphCudaListsView, entries);
    MEGAGRAPH_FIELD(MegagraphCudaListsView, queryBlocks);
    MEGAGRAPH_FIELD(MegagraphCudaListsView, keyBlocks);
    MEGAGRAPH_FIELD(MegagraphCudaListsView, mapStride);
    MEGAGRAPH_FIELD(MegagraphCudaListsView, rankStride);
    MEGAGRAPH_FIELD(MegagraphCudaBias, hops);
    MEGAGRAPH_FIELD(MegagraphCudaBias, classes);
    MEGAGRAPH_FIELD(MegagraphCudaBias, table);
    MEGAGRAPH_FIELD(MegagraphCudaBias, queryComponent);
    MEGAGRAPH_FIELD(MegagraphCudaBias, keyComponent);
    MEGAGRAPH_FIELD(MegagraphCudaBias, querySegment);
    MEGAGRAPH_FIELD(MegagraphCudaBias, keySegment);
    MEGAGRAPH_FIELD(MegagraphCudaBias, policy);
    MEGAGRAPH_FIELD(MegagraphCudaBias, reserved);
    MEGAGRAPH_FIELD(MegagraphCudaBias, planes);
    MEGAGRAPH_FIELD(MegagraphCudaBias, lists);
    MEGAGRAPH_FIELD(MegagraphCudaDropout, p);
    MEGAGRAPH_FIELD(MegagraphCudaDropout, seed);
    MEGAGRAPH_FIELD(MegagraphCudaDropout, step);
    MEGAGRAPH_FIELD(MegagraphCudaDropout, item);
    MEGAGRAPH_FIELD(MegagraphCudaDropout, layer);
    MEGAGRAPH_FIELD(MegagraphCudaDropout, site);
    MEGAGRAPH_FIELD(MegagraphCudaDropout, reserved);
    MEGAGRAPH_FIELD(MegagraphCudaState, m);
    MEGAGRAPH_FIELD(MegagraphCudaState, l);
    MEGAGRAPH_FIELD(MegagraphCudaState, acc);
    MEGAGRAPH_FIELD(MegagraphCudaEdgeGraph, rows);
    MEGAGRAPH_FIELD(MegagraphCudaEdgeGraph, keys);
    MEGAGRAPH_FIELD(MegagraphCudaEdgeGraph, entries);
    MEGAGRAPH_FIELD(MegagraphCudaEdgeGraph, indptr);
    MEGAGRAPH_FIELD(MegagraphCudaEdgeGraph, indices);
    MEGAGRAPH_FIELD(MegagraphCudaEdgeGraph, transposedIndptr);
    MEGAGRAPH_FIELD(MegagraphCudaEdgeGraph, transposedRows);
    MEGAGRAPH_FIELD(MegagraphCudaEdgeGraph, transposedEntries);
    MEGAGRAPH_FIELD(MegagraphCudaEdgeGraph, selfKey);
    MEGAGRAPH_FIELD(MegagraphCudaEdgeGraph, selfClass);
    MEGAGRAPH_FIELD(MegagraphCudaEdgeGraph, classes);
    MEGAGRAPH_FIELD(MegagraphCudaEdgeGraph, headOffset);
    MEGAGRAPH_FIELD(MegagraphCudaEdgeGraph, selfOffset);
    MEGAGRAPH_FIELD(MegagraphCudaEdgeGraph, queryOffset);
    MEGAGRAPH_FIELD(MegagraphCudaEdgeGraph, keyOffset);
    MEGAGRAPH_FIELD(MegagraphCudaEdgeGraph, keyNumbers);
    MEGAGRAPH_FIELD(MegagraphCudaEdgeGraph, entryClass);
    MEGAGRAPH_FIELD(MegagraphCudaEdgeGraph, table);
    MEGAGRAPH_FIELD(MegagraphCudaEdgeGraph, entryBias);
    MEGAGRAPH_FIELD(MegagraphCudaEdgeBiasGradient, table);
    MEGAGRAPH_FIELD(MegagraphCudaEdgeBiasGradient, entryBias);
    MEGAGRAPH_FIELD(MegagraphCudaTable, version);
    MEGAGRAPH_FIELD(MegagraphCudaTable, size);
    MEGAGRAPH_FIELD(MegagraphCudaTable, packedBytes);
    MEGAGRAPH_FIELD(MegagraphCudaTable, packHeads);
    MEGAGRAPH_FIELD(MegagraphCudaTable, attentionForwardWorkspace);
    MEGAGRAPH_FIELD(MegagraphCudaTable, attentionBackwardWorkspace);
    MEGAGRAPH_FIELD(MegagraphCudaTable, attentionForward);
    MEGAGRAPH_FIELD(MegagraphCudaTable, attentionPartial);
    MEGAGRAPH_FIELD(MegagraphCudaTable, attentionCombine);
    MEGAGRAPH_FIELD(MegagraphCudaTable, attentionFinish);
    MEGAGRAPH_FIELD(MegagraphCudaTable, attentionDelta);
    MEGAGRAPH_FIELD(MegagraphCudaTable, attentionBackward);
    MEGAGRAPH_FIELD(MegagraphCudaTable, closeFarBin);
    MEGAGRAPH_FIELD(MegagraphCudaTable, edgeAttentionForwardWorkspace);
    MEGAGRAPH_FIELD(MegagraphCudaTable, edgeAttentionBackwardWorkspace);
    MEGAGRAPH_FIELD(MegagraphCudaTable, edgeAttentionForward);
    MEGAGRAPH_FIELD(MegagraphCudaTable, edgeAttentionBackward);
    MEGAGRAPH_FIELD(MegagraphCudaTable, forceDensePath);
#undef MEGAGRAPH_FIELD
    return {{"version", int(MegagraphCudaVersion)}, {"structs", structs}};
}

} // namespace megagraph::kernels::goldens
