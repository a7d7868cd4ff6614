// A job started, and waited for, by a subcommand: what tandemrun does, with the job's files in one
// folder.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "deploy/launch/flag_table.h"

namespace tandem::deploy {

struct JobLaunch {
  const char* name = "tandem";  // in front of messages
  std::string job_file;
  std::string dir;  // is made; logs go to DIR/log, the result to DIR/result.json
  std::vector<std::string> launch_args;   // of tandemrun: {"--mode=collective", "--nproc=2"}
  std::vector<std::string> trainer_args;  // {"--epochs=3"}
  std::string pserver_bin, trainer_bin;   // empty: beside this program
  bool quiet = false;                     // do not show trainer 0's output
  bool only_stderr = false;               // nothing on stdout

  std::string ResultFile() const { return dir + "/result.json"; }
};

// The exit code of the job; 128 + signal when a signal ended it. The processes are gone then.
StatusOr<int> RunJob(const JobLaunch& launch);

// A folder of a command's own: `dir`, which stays, or with "" a new one below the system's, which
// is removed at the end unless it is kept.
class WorkFolder {
 public:
  WorkFolder() = default;
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  ~WorkFolder();

  // `name`: of the command, for a new one. PERMISSION_DENIED when it cannot be made.
  Status Open(const std::string& dir, const std::string& name);
  void Keep() { temporary_ = false; }
  bool temporary() const { return temporary_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  bool temporary_ = false;
};

}  // namespace tandem::deploy
