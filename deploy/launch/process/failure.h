// How a process of a job failed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "deploy/launch/process/process.h"

namespace tandem::deploy {

struct Failure {
  std::string role;  // role of the process: "pserver" or "trainer"; "host": a whole host was lost
  int rank = 0;
  std::string host;
  int64_t pid = 0;
  ExitState exit;
  bool early = false;  // true: a pserver exited with 0 before the launcher requested its stop
  bool stuck = false;  // true: killed because it did not end after the launcher requested its stop
  // Seconds without a reply after which the process was killed; 0: not killed for this reason.
  double silent_s = 0;
  double after_s = 0;  // seconds since the start of the job
  std::string time;    // wall-clock time in UTC, ISO 8601
  std::string log_file;
  std::vector<std::string> last_lines;
  std::string text;  // why the host is lost; empty: a process failed
};

// Returns whether a process failed only because another process failed or did not reply.
bool IsConsequence(const ExitState& exit);

}  // namespace tandem::deploy
