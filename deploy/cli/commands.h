// The subcommands of `tandem`. Each Run function receives the arguments after the subcommand's
// name, and returns the exit code (common/base/status.h).
#pragma once

#include <string>
#include <vector>

namespace tandem::deploy {

using Args = std::vector<std::string>;

int RunBench(const Args& args);
int RunBisect(const Args& args);
int RunCerts(const Args& args);
int RunCompletion(const Args& args);
int RunData(const Args& args);
int RunDemo(const Args& args);
int RunDoctor(const Args& args);
int RunDrain(const Args& args);
int RunEvents(const Args& args);
int RunExplain(const Args& args);
int RunExport(const Args& args);
int RunGraph(const Args& args);
int RunHelp(const Args& args);
int RunImport(const Args& args);
int RunKnobs(const Args& args);
int RunLint(const Args& args);
int RunPlan(const Args& args);
int RunProfile(const Args& args);
int RunPromote(const Args& args);
int RunFollow(const Args& args);
int RunRead(const Args& args);
int RunRebalance(const Args& args);
int RunRestore(const Args& args);
int RunRows(const Args& args);
int RunSave(const Args& args);
int RunScale(const Args& args);
int RunServe(const Args& args);
int RunSnapshots(const Args& args);
int RunStatus(const Args& args);
int RunSteps(const Args& args);
int RunTop(const Args& args);
int RunVars(const Args& args);
int RunVersion(const Args& args);

struct Command {
  const char* name;
  int (*run)(const Args& args);
  const char* summary;
};

// Returns all subcommands, in the order of the help text.
const std::vector<Command>& Commands();

}  // namespace tandem::deploy
