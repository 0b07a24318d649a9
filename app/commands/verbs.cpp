// SPDX-License-Identifier: Apache-2.0
#include "app/commands/command.h"

namespace megagraph::app {

std::vector<AddVerb> allVerbs()
{
    return {
        addDoctor,
        addGenerate,
        addImport,
        addInspect,
        addModel,
        addLibrary,
        addProfile,
        addPlan,
        addTrain,
        addVerify,
        addWatch,
        addStop,
        addRuns,
        addBench,
    };
}

} // namespace megagraph::app
