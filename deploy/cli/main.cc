// tandem: the tools command.
#include <cstdio>
#include <string>
#include <vector>

#include "deploy/cli/commands.h"
#include "deploy/cli/console.h"

namespace tandem::deploy {
namespace {

// Planned subcommands, so that asking for one is not answered with "did you mean".
constexpr const char* kNotBuilt[] = {"export", "status", "top"};

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

}  // namespace tandem::deploy

int main(int argc, char** argv) {
  return tandem::deploy::Main(std::vector<std::string>(argv + 1, argv + argc));
}
