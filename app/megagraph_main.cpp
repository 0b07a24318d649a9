// SPDX-License-Identifier: Apache-2.0
// `megagraph`: one verb per file in app/commands. Exit codes are those of core/result.h for every verb.
#include "app/commands/command.h"
#include "core/places.h"

#include <csignal>
#include <cstdio>
#include <thread>

namespace megagraph::app {
namespace {

/// Ctrl-C and TERM are taken by one thread that asks the verb to stop; a second one ends the process at once.
/// Verbs that supervise a run take the signals themselves (runtime/launch) and never reach this thread.
class Interrupt {
  public:
    Interrupt()
    {
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGINT);
        sigaddset(&set, SIGTERM);
        sigaddset(&set, SIGUSR2);
        pthread_sigmask(SIG_BLOCK, &set, nullptr);
        thread_ = std::thread([this, set] {
            for (int taken = 0;;) {
                int signal = 0;
                if (sigwait(&set, &signal) != 0 || signal == SIGUSR2)
                    return;
                if (++taken > 1)
                    _exit(exitCode(ErrorCode::Cancelled));
                source_.request_stop();
            }
        });
    }
    ~Interrupt()
    {
        pthread_kill(thread_.native_handle(), SIGUSR2);
        thread_.join();
    }
    std::stop_token token() const { return source_.get_token(); }

  private:
    std::stop_source source_;
    std::thread thread_;
};

int run(int argc, char** argv)
{
    CLI::App root{"MegaGraph: train large graph transformers with the parallel plan that fits", "megagraph"};
    root.set_version_flag("--version", std::string("megagraph ") + productVersion());
    root.require_subcommand(1);
    root.footer("First steps:\n"
                "  megagraph generate community --name sample\n"
                "  megagraph profile --quick --data sample --model graphormer-sample\n"
                "  megagraph plan --data sample --model graphormer-sample --out plan.json\n"
                "  megagraph train --plan plan.json");
    Invocation invocation;
    std::vector<Verb> verbs;
    for (const auto add : allVerbs())
        verbs.push_back(add(root, invocation));
    try {
        root.parse(argc, argv);
    } catch (const CLI::Success& help) {
        return root.exit(help);
    } catch (const CLI::ParseError& fault) {
        root.exit(fault);
        return exitCode(ErrorCode::Usage);
    }
    for (const Verb& verb : verbs) {
        if (!verb.app->parsed())
            continue;
        if (verb.supervises && verb.supervises())
            return verb.run();
        const Interrupt interrupt;
        invocation.stop = interrupt.token();
        return verb.run();
    }
    return exitCode(ErrorCode::Usage);
}

} // namespace
} // namespace megagraph::app

int main(int argc, char** argv)
{
    return megagraph::app::run(argc, argv);
}
