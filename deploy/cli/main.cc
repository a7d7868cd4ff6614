// tandem: the tools command.
#include <cstdio>
#include <string>
#include <vector>

#include "deploy/cli/commands.h"
#include "deploy/cli/console.h"

namespace tandem::deploy {
namespace {

// Planned subcommands, so that asking for one is not answered with "did you mean".
constexpr const char* kNotBuilt[] = {"bench", "certs", "export", "graph", "status", "top"};

int UnknownCommand(const std::string& name) {
  for (const char* planned : kNotBuilt) {
    if (name == planned) {
      std::fprintf(stderr, "tandem: error: \"tandem %s\" is not built yet\n", planned);
      return kExitUsage;
    }
  }
  std::vector<std::string> names;
  for (const Command& command : Commands()) names.push_back(command.name);
  std::string hint = HintText(name, names);
  if (hint.empty()) hint = "; hint: tandem help";
  const Status status = InvalidArgument("unknown command \"%s\"%s", name, hint);
  std::fputs(ErrorText("tandem", status).c_str(), stderr);
  return kExitUsage;
}

int Main(const std::vector<std::string>& args) {
  if (args.empty()) {
    RunHelp({});
    return kExitUsage;
  }
  std::string name = args[0];
  if (name == "--help" || name == "-h") name = "help";
  if (name == "--version") name = "version";
  for (const Command& command : Commands()) {
    if (name == command.name) return command.run(Args(args.begin() + 1, args.end()));
  }
  return UnknownCommand(name);
}

}  // namespace

const std::vector<Command>& Commands() {
  static const std::vector<Command> kCommands = {
      {"demo", RunDemo, "train a network on real images in pserver and collective mode"},
      {"knobs", RunKnobs, "list and explain the settings of a job's strategy"},
      {"lint", RunLint, "check job and strategy files"},
      {"doctor", RunDoctor, "check this machine and say what to fix"},
      {"version", RunVersion, "print the version"},
      {"help", RunHelp, "print this"},
  };
  return kCommands;
}

int RunHelp(const Args&) {
  std::printf("usage: tandem COMMAND [ARGUMENTS]    (tandem COMMAND --help tells more)\n\n");
  for (const Command& command : Commands()) {
    std::printf("  %-9s %s\n", command.name, command.summary);
  }
  std::printf("\ntandemrun starts jobs: tandemrun --servers=2 --workers=2 job.pbtxt\n");
  return 0;
}

int RunVersion(const Args&) {
  std::puts("tandem " TANDEM_VERSION);
  return 0;
}

}  // namespace tandem::deploy

int main(int argc, char** argv) {
  return tandem::deploy::Main(std::vector<std::string>(argv + 1, argv + argc));
}
