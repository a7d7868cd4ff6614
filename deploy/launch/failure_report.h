// Reports why a job failed: the first failure, with the last lines of the log of its process.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "deploy/launch/process/failure.h"

namespace tandem::deploy {

// Returns the exit code of the job: the exit code of the process that failed first, or 128 + signal
// if a signal ended this process. 1: a pserver ended too early, or a process did not stop when
// requested. kExitLostPeer: a process was unresponsive.
int JobExitCode(const Failure& failure);

// Returns the report for the terminal, with a line end after each line. `others`: one text about
// each other process.
std::string FailureText(const std::string& job, const Failure& failure,
                        const std::vector<std::string>& others, const std::string& error_file);

// Writes the failure to a file as one JSON object: {"job", "role", "rank", "host", "pid",
// "exit_code" or "signal", "time", "after_s", "log_file", "last_lines", "others"}.
Status WriteErrorFile(const std::string& path, const std::string& job, const Failure& failure,
                      const std::vector<std::string>& others);

}  // namespace tandem::deploy
