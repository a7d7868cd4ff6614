// tandem: the command-line program with the tools for jobs.
#include <cstdio>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/base/error_text.h"
#include "common/os/core_limit.h"
#include "common/os/host_limits.h"
#include "common/rpc/grpc_log.h"
#include "deploy/cli/commands.h"
#include "deploy/cli/console.h"

namespace tandem::deploy {
namespace {

int UnknownCommand(const std::string& name) {
  std::vector<std::string> names;
  for (const Command& command : Commands()) names.push_back(command.name);
  std::string hint = HintText(name, names);
  if (hint.empty()) hint = "; hint: run tandem help";
  const Status status = InvalidArgument("unknown command \"%s\" [TD1001]%s", name, hint);
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
  tandem::NameHostLimits("tandem");
  FLAGS_logtostderr = true;
  google::InitGoogleLogging("tandem");
  tandem::rpc::InstallGrpcLog();
  // Core dumps are disabled, because this process reads and makes secrets and keys.
  tandem::LimitCoreDumps(false);
  return tandem::deploy::Main(std::vector<std::string>(argv + 1, argv + argc));
}
