// SPDX-License-Identifier: Apache-2.0
// make_goldens FOLDER: writes the stored results of all cases of golden_cases.cpp, from the fp64 reference, into FOLDER.
#include "tests/gpu/golden_file.h"

#include <cstdio>

int main(int argc, char** argv)
{
    if (argc != 2) {
        std::fprintf(stderr, "usage: make_goldens FOLDER\n");
        return 2;
    }
    const auto done = megagraph::kernels::goldens::writeGoldens(argv[1]);
    if (!done) {
        std::fprintf(stderr, "make_goldens: %s\n", done.error().message.c_str());
        return 1;
    }
    return 0;
}
