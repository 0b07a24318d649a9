// SPDX-License-Identifier: Apache-2.0
// Files under `home`/cache, keyed by content: a kind name, an algorithm version and everything the result depends on. An
// unreadable or damaged entry counts as absent and is rebuilt. Written beside and renamed.
#pragma once

#include "core/result.h"

#include <optional>
#include <string>
#include <vector>

namespace megagraph::kernels {

/// Path of the entry: home/cache/<kind>-<first 24 hex digits of SHA-256 of the joined parts>.bin
std::string cachePath(const std::string& home, const std::string& kind, const std::vector<std::string>& keyParts);
/// Payload, or nullopt when absent or when its checksum is wrong.
std::optional<std::string> readCache(const std::string& path);
Result<Ok> writeCache(const std::string& path, const std::string& payload);

} // namespace megagraph::kernels
