// SPDX-License-Identifier: Apache-2.0
#include "core/result.h"

#include <cstdio>
#include <cstdlib>

namespace megagraph {

const char* errorCodeName(ErrorCode code)
{
    switch (code) {
    case ErrorCode::InvalidInput: return "InvalidInput";
    case ErrorCode::NotFound: return "NotFound";
    case ErrorCode::Unsupported: return "Unsupported";
    case ErrorCode::Infeasible: return "Infeasible";
    case ErrorCode::Io: return "Io";
    case ErrorCode::Corrupt: return "Corrupt";
    case ErrorCode::VersionMismatch: return "VersionMismatch";
    case ErrorCode::Cancelled: return "Cancelled";
    case ErrorCode::Timeout: return "Timeout";
    case ErrorCode::RankFailed: return "RankFailed";
    case ErrorCode::OutOfMemory: return "OutOfMemory";
    case ErrorCode::Internal: return "Internal";
    case ErrorCode::Usage: return "Usage";
    case ErrorCode::Refused: return "Refused";
    }
    return "Internal";
}

int exitCode(ErrorCode code)
{
    switch (code) {
    case ErrorCode::Infeasible: return 1;
    case ErrorCode::Usage: return 2;
    case ErrorCode::InvalidInput: return 3;
    case ErrorCode::NotFound: return 4;
    case ErrorCode::Unsupported: return 5;
    case ErrorCode::Io: return 6;
    case ErrorCode::Corrupt: return 7;
    case ErrorCode::VersionMismatch: return 8;
    case ErrorCode::Timeout: return 9;
    case ErrorCode::Cancelled: return 10;
    case ErrorCode::Refused: return 11;
    case ErrorCode::RankFailed:
    case ErrorCode::OutOfMemory:
    case ErrorCode::Internal: return 12;
    }
    return 12;
}

void checkFailed(const char* file, int line, const char* expression, const std::string& values)
{
    std::fprintf(stderr, "%s:%d: internal check failed: %s (%s)\n", file, line, expression, values.c_str());
    std::abort();
}

} // namespace megagraph
