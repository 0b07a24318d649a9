// SPDX-License-Identifier: Apache-2.0
// make_primitives FILE: writes the emulation's results of all primitives.
#include "core/json.h"
#include "tests/gpu/primitives_on_cpu.h"

#include <cstdio>

int main(int argc, char** argv)
{
    using namespace megagraph::kernels::goldens;
    if (argc != 2) {
        std::fprintf(stderr, "usage: make_primitives FILE\n");
        return 2;
    }
    const auto done = megagraph::writeFileAtomically(argv[1], encodeWords(emulatePrimitives()));
    if (!done) {
        std::fprintf(stderr, "make_primitives: %s\n", done.error().message.c_str());
        return 1;
    }
    return 0;
}
