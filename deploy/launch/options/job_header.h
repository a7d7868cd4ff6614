// The parts of a job file that the launcher reads: name, mode, and the settings of the pservers.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace tandem::deploy {

enum class LaunchMode { kLocal, kPserver, kCollective, kHybrid };
const char* ModeName(LaunchMode mode);  // value of --mode for this mode, such as "local"

// The name and mode that a job file contains.
struct JobHeader {
  std::string name;
  LaunchMode mode = LaunchMode::kLocal;
};
// Reads the name and mode from a job file. NOT_FOUND: there is no such file. INVALID_ARGUMENT: the
// file is not a job file; the message is "file:line:col: error: ...".
StatusOr<JobHeader> ReadJobHeader(const std::string& path);
// Returns whether `path` names a script in Python, which each trainer runs instead of a job.
bool IsScript(const std::string& path);
// Returns the header of a script: the name of the file without ".py". NOT_FOUND: there is no such
// file.
StatusOr<JobHeader> ReadScriptHeader(const std::string& path);
// The settings of a job that its pservers need.
struct ServerSettings {
  // The number of trainers per worker, as the pservers count them: the number of the worker's
  // replicas (cpu_num), or 1 if the replicas reduce their gradients before each push
  // (use_thread_barrier).
  int trainers_per_worker = 1;
  std::vector<std::string> flags;
};
// Reads the settings from the job file, the trainer arguments and the environment. Ignores errors
// in the arguments, because the trainer reports them.
StatusOr<ServerSettings> ReadServerSettings(const std::string& path,
                                            const std::vector<std::string>& args,
                                            const std::map<std::string, std::string>& environment);

// Returns whether the job writes checkpoints, from which a later run continues: its field
// checkpoint.dir is set in the job file, the trainer arguments or the environment.
StatusOr<bool> WritesCheckpoints(const std::string& path, const std::vector<std::string>& args,
                                 const std::map<std::string, std::string>& environment);

}  // namespace tandem::deploy
