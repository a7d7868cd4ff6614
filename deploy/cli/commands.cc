#include "deploy/cli/commands.h"

#include <cstdio>

namespace tandem::deploy {

const std::vector<Command>& Commands() {
  static const std::vector<Command> kCommands = {
      {"demo", RunDemo, "train a network on real images in pserver and collective mode"},
      {"bench", RunBench, "measure what each setting of a strategy does on this machine"},
      {"knobs", RunKnobs, "list and explain the settings of a job's strategy"},
      {"lint", RunLint, "check job and strategy files"},
      {"data", RunData, "show data files and convert them into record files"},
      {"graph", RunGraph, "print or draw the program of a job, before and after each pass"},
      {"certs", RunCerts, "make and show certificates for TLS between trainers and pservers"},
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
