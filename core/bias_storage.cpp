// SPDX-License-Identifier: Apache-2.0
#include "core/bias_storage.h"

#include <algorithm>

namespace megagraph {
namespace {

constexpr int64_t kTile = 64;

int64_t blocks(int64_t tokens)
{
    return (tokens + kTile - 1) / kTile;
}

} // namespace

int32_t biasPlanes(int64_t hops)
{
    int32_t planes = 1;
    while ((int64_t(1) << planes) < hops + 2)
        ++planes;
    return planes;
}

int64_t listBytes(int64_t rows, int64_t keys, int64_t hops, const ListCounts& counts)
{
    const int64_t queryBlocks = blocks(rows), keyBlocks = blocks(keys);
    const int64_t map = queryBlocks * ((keyBlocks + 3) / 4), rank = 4 * queryBlocks * ((keyBlocks + 255) / 256);
    const int64_t entries = 2 * (counts.listPairs + counts.listTiles) + 512 * biasPlanes(hops) * counts.denseTiles;
    return entries + 4 * counts.touchedTiles + map + rank + 2 * 8 * (queryBlocks + 1);
}

int64_t listBytesEstimate(int64_t rows, int64_t keys, int64_t nearPairs, int64_t touchedTiles)
{
    const double area = double(rows) * double(keys);
    return 2 * nearPairs + 4 * touchedTiles + int64_t(area / 16384 + area / 262144) + rows / 8;
}

int64_t planeBytes(int64_t rows, int64_t keys, int64_t hops)
{
    return 512 * biasPlanes(hops) * blocks(rows) * blocks(keys);
}

int64_t packPlaneBytes(int64_t rows, int64_t hops, int64_t tiles)
{
    return 512 * biasPlanes(hops) * tiles + 16 * blocks(rows);
}

int64_t stripBytes(int64_t nodes, int64_t hops)
{
    const int64_t planes = biasPlanes(hops);
    return 64 * planes * nodes + 64 * std::max<int64_t>(3, planes) * (nodes + kTile) + 8 * blocks(nodes) + 8 * nodes;
}

int64_t edgeTileBytes(int64_t rows, int64_t edges, int64_t touchedTiles, int64_t heads)
{
    return 2 * edges + 16 * touchedTiles + 8 * (blocks(rows) + 1) + 4 * heads * edges;
}

BiasPolicy chooseBiasPolicy(const BiasChoice& choice)
{
    if (choice.packTiles >= 0)
        return BiasPolicy::Planes;
    if (choice.hops <= 2)
        return BiasPolicy::Lists;
    const int64_t planes = planeBytes(choice.rows, choice.keys, choice.hops);
    const int64_t lists = listBytesEstimate(choice.rows, choice.keys, choice.nearPairs, choice.touchedTiles);
    const double fewPairs = double(biasPlanes(choice.hops)) * double(choice.rows) * double(choice.keys) / 16;
    if (choice.hops <= kMostListHops && double(choice.nearPairs) < fewPairs && lists <= choice.budgetBytes)
        return BiasPolicy::Lists;
    return planes <= choice.budgetBytes ? BiasPolicy::Planes : BiasPolicy::Strips;
}

} // namespace megagraph
