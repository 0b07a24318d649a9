// SPDX-License-Identifier: Apache-2.0
#include "app/commands/command.h"

namespace megagraph::app {

std::vector<AddVerb> allVerbs()
{
    return {
        addDoctor,
        addProfile,
        addPlan,
    };
}

} // namespace megagraph::app
