// The parts of a job file that the launcher reads: name, mode, and the settings of the pservers.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace tandem::deploy {

enum class LaunchMode { kLocal, kPserver, kCollective, kHybrid };
const char* ModeName(LaunchMode mode);  // the spelling in --mode: "local", ...

// The job file's own name and mode.
struct JobHeader {
  std::string name;
  LaunchMode mode = LaunchMode::kLocal;
};
// NOT_FOUND: no such file. INVALID_ARGUMENT: not a job file; the message is "file:line:col: error:
// ...".
StatusOr<JobHeader> ReadJobHeader(const std::string& path);
// The settings of a job that its servers need.
struct ServerSettings {
  // Trainers per worker from the servers' view: its replicas (cpu_num), or one if they reduce
  // before each push (use_thread_barrier).
  int trainers_per_worker = 1;
  std::vector<std::string> flags;
};
// Reads the settings of this job with these trainer arguments and this environment. Ignores errors
// in an argument; the trainer reports them.
StatusOr<ServerSettings> ReadServerSettings(const std::string& path,
                                            const std::vector<std::string>& args,
                                            const std::map<std::string, std::string>& environment);

}  // namespace tandem::deploy
