#include "deploy/cli/commands.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "deploy/cli/console.h"

namespace tandem::deploy {

const std::vector<Command>& Commands() {
  static const std::vector<Command> kCommands = {
      {"demo", RunDemo, "train a network on real images in pserver and collective mode"},
      {"bench", RunBench, "measure what each setting of a strategy does on this machine"},
      {"knobs", RunKnobs, "list and explain the settings of a job's strategy"},
      {"lint", RunLint, "check job and strategy files"},
      {"data", RunData, "show data files and convert them into record files"},
      {"export", RunExport, "write a checkpoint for NumPy, as safetensors, or as an ONNX model"},
      {"import", RunImport, "convert an ONNX model into a program to train"},
      {"graph", RunGraph, "print or draw the program of a job, before and after each pass"},
      {"plan", RunPlan,
       "predict and measure each way of reducing a job's gradients, or simulate it"},
      {"profile", RunProfile, "merge the timelines of a job's processes"},
      {"status", RunStatus, "show the pservers and trainers of a running job, and the slow ones"},
      {"top", RunTop, "show the status repeatedly, with updates per second"},
      {"vars", RunVars, "list the variables of a job's pservers and their servers"},
      {"read", RunRead, "show rows and dense variables of a job's pservers or their replicas"},
      {"follow", RunFollow, "print the changes of a table while a job trains it"},
      {"steps", RunSteps, "show loss, metric and speed of a running job's last steps"},
      {"save", RunSave, "write checkpoints of a job's pservers"},
      {"restore", RunRestore, "restore a job's pservers from their checkpoints"},
      {"serve", RunServe, "answer requests for predictions of a model"},
      {"snapshots", RunSnapshots, "list the kept states of all pservers of a job"},
      {"rows", RunRows, "show the pushes that made a row of a table, from the logs of pservers"},
      {"bisect", RunBisect, "find the push that damaged a model, in the logs of pservers"},
      {"scale", RunScale, "show or change the numbers of workers and pservers of a running job"},
      {"rebalance", RunRebalance,
       "distribute rows and slices evenly over a running job's pservers"},
      {"promote", RunPromote, "make a standby of a pserver its primary"},
      {"drain", RunDrain, "stop a job that tandemrun started on this host, or empty one pserver"},
      {"events", RunEvents, "show the process events of a job: start, exit, restart, loss"},
      {"certs", RunCerts, "create and show certificates for TLS between trainers and pservers"},
      {"explain", RunExplain, "explain an error code, its causes and what to do"},
      {"doctor", RunDoctor, "check this machine for problems"},
      {"completion", RunCompletion, "print the completion of commands and flags for bash or zsh"},
      {"version", RunVersion, "print the version"},
      {"help", RunHelp, "print this"},
  };
  return kCommands;
}

namespace {

Status Help(const ParsedArgs& args) {
  TD_RETURN_IF_ERROR(TakesAtMost(0, args));
  TD_ASSIGN_OR_RETURN(const bool as_json, WantsJson(args));
  if (as_json) {
    auto all = nlohmann::ordered_json::array();
    for (const Command& command : Commands()) {
      all.push_back({{"command", command.name}, {"summary", command.summary}});
    }
    std::puts(all.dump(2).c_str());
    return OkStatus();
  }
  std::printf("usage: tandem COMMAND [ARGUMENTS]    (tandem COMMAND --help shows details)\n\n");
  for (const Command& command : Commands()) {
    std::printf("  %-10s %s\n", command.name, command.summary);
  }
  std::printf("\ntandemrun starts jobs: tandemrun --servers=2 --workers=2 job.pbtxt\n");
  return OkStatus();
}

Status Version(const ParsedArgs& args) {
  TD_RETURN_IF_ERROR(TakesAtMost(0, args));
  TD_ASSIGN_OR_RETURN(const bool as_json, WantsJson(args));
  std::puts(as_json ? "{\"version\": \"" TANDEM_VERSION "\"}" : "tandem " TANDEM_VERSION);
  return OkStatus();
}

}  // namespace

int RunHelp(const Args& args) {
  return RunBody("help", "tandem help    lists the commands\n", {kOutputFlag}, args, Help);
}

int RunVersion(const Args& args) {
  return RunBody("version", "tandem version    prints the version\n", {kOutputFlag}, args, Version);
}

}  // namespace tandem::deploy
