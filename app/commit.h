// SPDX-License-Identifier: Apache-2.0
// The commit that this build was made from. One small source file knows it, so that a commit rebuilds nothing else.
#pragma once

namespace megagraph::app {

/// "1a2b3c4d5e6f", with "+" when tracked files had changes; "" when the source is no git checkout.
const char* buildCommit();

} // namespace megagraph::app
