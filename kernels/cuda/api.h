// SPDX-License-Identifier: Apache-2.0
// The C table of functions of libmegagraph_cuda.so, reached through one exported symbol, megagraphCudaTable. Plain C structs;
// every pointer inside them points into device memory unless its comment says host. Arguments are those of kernels/attention.h
// and kernels/edge_attention.h.
// Streams and memory: each function only queues work on `stream` (a cudaStream_t, null = default stream) and never
// synchronises or allocates. All memory it was given must stay alive and unchanged until that work is done; the workspace may
// then be used again. Calls on different streams share nothing if their workspaces differ.
// Errors: 0 = queued; else a MegagraphCudaCode, with the reason in error->text. Nothing is queued after a refusal of arguments.
// Limits: d_h <= 128, heads <= 4,096, 27 hops (32 codes), compute capability 8.0 and later.
#pragma once

#include <cstdint>

#ifdef __cplusplus
extern "C" {
#endif

enum { MegagraphCudaVersion = 2 };
enum MegagraphCudaCode {
    MegagraphCudaOk = 0,
    MegagraphCudaInvalidInput = 1,
    MegagraphCudaUnsupported = 2,
    MegagraphCudaInternal = 3, // a launch failed; the text is CUDA's
};
typedef struct {
    int32_t code;
    char text[252]; // "op: place: what is wrong, got X, expected Y; what to do."
} MegagraphCudaError;

enum MegagraphCudaType { MegagraphCudaFloat = 0, MegagraphCudaBf16 = 1 };

/// [rows, heads, dim], dim contiguous, strides in elements.
typedef struct {
    void* data;
    int64_t rows;
    int32_t heads, dim;
    int64_t rowStride, headStride;
    int32_t type; // MegagraphCudaType
    int32_t reserved;
} MegagraphCudaView;

/// As AttentionShape without kvSplits: sums of dq follow key order.
typedef struct {
    int64_t queries, keys;
    int64_t queryOffset, keyOffset;
    int32_t heads, dim, headOffset;
    int32_t reserved;
    double scale;
} MegagraphCudaShape;

/// Where the codes of near pairs are; both grids are 64 x 64 and start at the first query and the first key.
enum MegagraphCudaPolicy { MegagraphCudaNoTiles = 0, MegagraphCudaPlanes = 1, MegagraphCudaLists = 2 };

/// Policy `planes`: tile t is 64 w words, plane-major: words[(t w + p) 64 + row], bit c of a word = bit p of the code of
/// (row, column c). Codes 0..K are classes, K+1 (and above) is a base pair; w = ceil(log2(K + 2)).
/// t = tileFirst[query block] + key block - keyBlockBegin[query block]; both null: t = query block * keyBlocks + key block.
/// A key block outside [keyBlockBegin, keyBlockEnd) of its query block has base pairs only.
/// kinds: 2 bits per (query block, key block) as the map of TileListsView, rows of kindStride bytes; null = every tile Dense.
/// A Const tile is stored as planes, too (its class is the code of its pair (0, 0)).
typedef struct {
    const uint64_t* words;
    const uint8_t* kinds;
    const int64_t* tileFirst;                         // [query blocks] or null
    const int32_t *keyBlockBegin, *keyBlockEnd;       // [query blocks] or null
    int64_t keyBlocks, kindStride;
    int32_t planes; // w
    int32_t reserved;
} MegagraphCudaPlanesView;

/// TileListsView (kernels/types.h) with device pointers.
typedef struct {
    const uint8_t* map;
    const uint32_t* rank;
    const int64_t* tileStart;
    const uint32_t* offsets;
    const int64_t* blockStart;
    const uint16_t* entries;
    int64_t queryBlocks, keyBlocks, mapStride, rankStride;
} MegagraphCudaListsView;

/// EdgeTile and EdgeValues (kernels/types.h) with device pointers. values [heads, edges], null = off; gradient [heads, edges]
/// is read by the backward pass alone, += dS at the pairs, null = not wanted.
typedef struct {
    uint32_t keyBlock, count;
    int64_t first;
} MegagraphCudaEdgeTile;
typedef struct {
    const int64_t* blockStart; // [queryBlocks + 1]
    const MegagraphCudaEdgeTile* tiles;
    const uint16_t* positions; // [edges]
    int64_t queryBlocks, keyBlocks, edges;
    const float* values;
    float* gradient;
} MegagraphCudaEdgeValues;

/// As Bias (kernels/types.h). table [heads, classes] is b' = b - b[far]; null = no learned bias.
typedef struct {
    int32_t hops, classes; // K, B = K + 4
    const float* table;
    const int32_t *queryComponent, *keyComponent; // [queries], [keys]; null = one component
    const int32_t *querySegment, *keySegment;     // null = one segment
    int32_t policy;                               // MegagraphCudaPolicy
    int32_t reserved;
    MegagraphCudaPlanesView planes;
    MegagraphCudaListsView lists;
    MegagraphCudaEdgeValues edges; // independent of table and policy
} MegagraphCudaBias;

/// As Dropout (kernels/types.h).
typedef struct {
    double p;
    uint64_t seed, step;
    uint32_t item, layer, site;
    uint32_t reserved;
} MegagraphCudaDropout;

/// As AttentionState: m, l [heads, queries] (m in log2 units), acc [queries, heads, dim], fp32.
typedef struct {
    float *m, *l, *acc;
} MegagraphCudaState;

/// As EdgeGraph (kernels/edge_attention.h), plus the bias of an entry: entryClass [entries] with table [heads, classes], or
/// entryBias [heads, entries], or gt != 0 with or without u [entries, heads, dim] (contiguous, the type of q); else none. Self
/// pairs have class selfClass (-1: no bias) and no entryBias; with u they must be stored entries.
typedef struct {
    int64_t rows, keys, entries;
    const int64_t* indptr;             // [rows + 1]
    const int32_t* indices;            // [entries]
    const int64_t* transposedIndptr;   // [keys + 1], backward only
    const int32_t* transposedRows;     // [entries], backward only
    const int64_t* transposedEntries;  // [entries], backward only
    int32_t selfKey, selfClass;
    int32_t classes, headOffset;                // headOffset: global number of the first head, for dropout
    int64_t selfOffset, queryOffset, keyOffset;
    const int32_t* keyNumbers;                  // [keys] global numbers of halo keys for dropout; null: keyOffset + key
    const uint8_t* entryClass;
    const float* table;
    const float* entryBias;
    const void* u;
    int32_t gt, reserved;
} MegagraphCudaEdgeGraph;

/// What backward reads and writes for the entry bias; each may be null. table [heads, classes] fp64 += (no bin is closed: sparse
/// attention has no far pairs), entryBias [heads, entries] fp32 written. With u: ds [entries, heads, dim] in the type of q, the
/// gradient of the s that left forward, is read, and u (its gradient, same shape, fp32) written.
typedef struct {
    double* table;
    float* entryBias;
    const void* ds;
    float* u;
} MegagraphCudaEdgeBiasGradient;

typedef struct {
    int32_t version;
    int32_t size; // sizeof(MegagraphCudaTable): a reader must not look behind it

    /// Bytes of packHeads' result: ceil(rows / 128) * 128 rows per head, d_h rounded up to 32, 64 or 128, bf16.
    int64_t (*packedBytes)(int64_t rows, int32_t heads, int32_t dim);
    /// x -> 64-row x 64-column bf16 panels in the 128-byte swizzle, zero padded (kernels/cuda/pack.cuh).
    int32_t (*packHeads)(const MegagraphCudaView* x, void* packed, void* stream, MegagraphCudaError* error);

    /// Workspaces, 256-byte aligned.
    int64_t (*attentionForwardWorkspace)(const MegagraphCudaShape* shape);
    int64_t (*attentionBackwardWorkspace)(const MegagraphCudaShape* shape, int32_t classes);
    /// o (fp32 or bf16), lse [heads, queries] natural log. A row without keys: o = 0, lse = -inf.
    int32_t (*attentionForward)(const MegagraphCudaShape* shape, const MegagraphCudaView* q, const MegagraphCudaView* k,
                                const MegagraphCudaView* v, const MegagraphCudaBias* bias, const MegagraphCudaDropout* dropout,
                                const MegagraphCudaView* o, float* lse, void* workspace, int64_t workspaceBytes, void* stream,
                                MegagraphCudaError* error);
    /// One key interval of a ring step; first != 0 initialises the state.
    int32_t (*attentionPartial)(const MegagraphCudaShape* shape, const MegagraphCudaView* q, const MegagraphCudaView* k,
                                const MegagraphCudaView* v, const MegagraphCudaBias* bias, const MegagraphCudaDropout* dropout,
                                int32_t first, const MegagraphCudaState* state, void* workspace, int64_t workspaceBytes,
                                void* stream, MegagraphCudaError* error);
    /// a <- a combined with b.
    int32_t (*attentionCombine)(int64_t queries, int32_t heads, int32_t dim, const MegagraphCudaState* a,
                                const MegagraphCudaState* b, void* stream, MegagraphCudaError* error);
    int32_t (*attentionFinish)(const MegagraphCudaState* state, const MegagraphCudaView* o, float* lse, void* stream,
                               MegagraphCudaError* error);
    /// delta [heads, queries] = row sums of dO o.
    int32_t (*attentionDelta)(const MegagraphCudaView* o, const MegagraphCudaView* dO, float* delta, void* stream,
                              MegagraphCudaError* error);
    /// dq [queries, heads, dim], dk, dv [keys, heads, dim] fp32 contiguous, +=. tablePartials [heads, classes] fp64 += (null:
    /// frozen), far bin left open. Same bits for the same arguments.
    int32_t (*attentionBackward)(const MegagraphCudaShape* shape, const MegagraphCudaView* q, const MegagraphCudaView* k,
                                 const MegagraphCudaView* v, const MegagraphCudaView* dO, const float* lse, const float* delta,
                                 const MegagraphCudaBias* bias, const MegagraphCudaDropout* dropout, float* dq, float* dk,
                                 float* dv, double* tablePartials, void* workspace, int64_t workspaceBytes, void* stream,
                                 MegagraphCudaError* error);
    /// db [heads, classes] fp32 from summed [heads, classes] fp64; the far bin becomes minus the sum of the others. Once.
    int32_t (*closeFarBin)(int32_t heads, int32_t hops, const double* summed, float* db, void* stream, MegagraphCudaError* error);

    int64_t (*edgeAttentionForwardWorkspace)(const MegagraphCudaEdgeGraph* graph, int32_t heads, int32_t dim);
    int64_t (*edgeAttentionBackwardWorkspace)(const MegagraphCudaEdgeGraph* graph, int32_t heads, int32_t dim);
    /// o (fp32 or bf16), lse [heads, rows]. s [entries, heads, dim] in the type of q, GT with u only, may be null.
    int32_t (*edgeAttentionForward)(const MegagraphCudaEdgeGraph* graph, double scale, const MegagraphCudaView* q,
                                    const MegagraphCudaView* k, const MegagraphCudaView* v, const MegagraphCudaDropout* dropout,
                                    const MegagraphCudaView* o, float* lse, void* s, void* workspace, int64_t workspaceBytes,
                                    void* stream, MegagraphCudaError* error);
    /// The same rows over one interval of their keys; first != 0 initialises the state. States join by attentionCombine.
    int32_t (*edgeAttentionPartial)(const MegagraphCudaEdgeGraph* graph, double scale, const MegagraphCudaView* q,
                                    const MegagraphCudaView* k, const MegagraphCudaView* v, const MegagraphCudaDropout* dropout,
                                    int32_t first, const MegagraphCudaState* state, void* s, void* workspace,
                                    int64_t workspaceBytes, void* stream, MegagraphCudaError* error);
    /// o, lse from the whole state; adds GT's 1e-6, once.
    int32_t (*edgeAttentionFinish)(int32_t gt, const MegagraphCudaState* state, const MegagraphCudaView* o, float* lse,
                                   void* stream, MegagraphCudaError* error);
    /// dq [rows, heads, dim], dk, dv [keys, heads, dim] fp32 contiguous, written.
    int32_t (*edgeAttentionBackward)(const MegagraphCudaEdgeGraph* graph, double scale, const MegagraphCudaView* q,
                                     const MegagraphCudaView* k, const MegagraphCudaView* v, const MegagraphCudaView* dO,
                                     const float* lse, const float* delta, const MegagraphCudaDropout* dropout, float* dq,
                                     float* dk, float* dv, const MegagraphCudaEdgeBiasGradient* biasGradient, void* workspace,
                                     int64_t workspaceBytes, void* stream, MegagraphCudaError* error);

    /// Which dense forward runs from now on in this process, for tests and benchmarks: 0 best for the device (default),
    /// 80 the mma.sync path, 90 the wgmma path. Unsupported if the device or the build lacks it.
    int32_t (*forceDensePath)(int32_t path, MegagraphCudaError* error);
} MegagraphCudaTable;

/// The table of `version`, or null if this module has no such version. The only exported symbol.
__attribute__((visibility("default"))) const MegagraphCudaTable* megagraphCudaTable(int32_t version);

#ifdef __cplusplus
}
#endif
