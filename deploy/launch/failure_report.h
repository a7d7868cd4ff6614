// How a failed job is told: what failed first, with the last lines it wrote.
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
  bool stuck = false;   // did not end when told to, and was killed for that
  double silent_s = 0;  // it was killed after this time without an answer; 0: it was not
  double after_s = 0;   // since the start of the job
  std::string time;     // wall clock, UTC, ISO 8601
  std::string log_file;
  std::vector<std::string> last_lines;
};

// The exit code of the job: that of its first failure, 128 + signal when a signal ended it; a
// pserver that ended too early, or did not end when told to, counts as 1; a process that did not
// answer as a lost peer.
int JobExitCode(const Failure& failure);

// Lines for the terminal, each ended. `others`: what became of the rest, one text each.
std::string FailureText(const std::string& job, const Failure& failure,
                        const std::vector<std::string>& others, const std::string& error_file);

// {"job", "role", "rank", "host", "pid", "exit_code" or "signal", "time", "after_s", "log_file",
// "last_lines", "others"} as one JSON object.
Status WriteErrorFile(const std::string& path, const std::string& job, const Failure& failure,
                      const std::vector<std::string>& others);

}  // namespace tandem::deploy
