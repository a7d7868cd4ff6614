// Reports a failed job: the first failure, with the last lines of its log.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "deploy/launch/launch_plan.h"

namespace tandem::deploy {

struct Failure {
  std::string role;  // pserver, trainer
  int rank = 0;
  std::string host;
  int64_t pid = 0;
  ExitState exit;
  bool early = false;   // a pserver that ended with 0 before it was told to
  bool stuck = false;   // killed because it did not end when told to
  double silent_s = 0;  // killed after this time without a reply; 0: not for this reason
  double after_s = 0;   // since the start of the job
  std::string time;     // wall clock, UTC, ISO 8601
  std::string log_file;
  std::vector<std::string> last_lines;
};

// The exit code of the job: that of its first failure, or 128 + signal if a signal ended it. A
// pserver that ended too early, or not when told to, counts as 1. An unresponsive process counts as
// a lost peer.
int JobExitCode(const Failure& failure);

// Lines for the terminal, each with a line end. `others`: the end of each other process, one text
// each.
std::string FailureText(const std::string& job, const Failure& failure,
                        const std::vector<std::string>& others, const std::string& error_file);

// Writes one JSON object: {"job", "role", "rank", "host", "pid", "exit_code" or "signal", "time",
// "after_s", "log_file", "last_lines", "others"}.
Status WriteErrorFile(const std::string& path, const std::string& job, const Failure& failure,
                      const std::vector<std::string>& others);

}  // namespace tandem::deploy
