// SPDX-License-Identifier: Apache-2.0
// A supervisor in a process of its own, for tests that kill it: supervised HOME WORKER SOURCE STEPS | HOME WORKER --resume RUN.
// Prints the run's id and folder once it exists; its exit code is the run's.
#include "tests/launch/run_fixture.h"

#include <cstdio>

int main(int argc, char** argv)
{
    if (argc < 5)
        return 2;
    megagraph::launch::SupervisorOptions options;
    options.home = argv[1];
    options.workerProgram = argv[2];
    options.stopGraceS = 5;
    options.onReady = [](const std::string& id, const std::string& folder) {
        std::printf("%s %s\n", id.c_str(), folder.c_str());
        std::fflush(stdout);
    };
    megagraph::RunSpec spec;
    megagraph::Plan plan;
    megagraph::DatasetSpec dataset;
    if (std::string(argv[3]) == "--resume") {
        options.resumeRun = argv[4];
    } else {
        dataset = megagraph::launch::testDataset();
        plan = megagraph::launch::testPlan(2);
        spec = megagraph::launch::testRun(std::strtoll(argv[4], nullptr, 10));
    }
    const auto outcome = megagraph::launch::supervise(spec, plan, dataset, options);
    if (!outcome.ok()) {
        std::fprintf(stderr, "%s\n", outcome.error().message.c_str());
        return megagraph::exitCode(outcome.error().code);
    }
    return outcome->exitCode;
}
