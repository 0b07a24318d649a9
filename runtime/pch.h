// SPDX-License-Identifier: Apache-2.0
// The only file that includes torch/torch.h (about 8 s per source file without the precompiled form). Keep it short: each
// header adds to a file of hundreds of MB that every build writes.
#pragma once

#include <torch/torch.h>
