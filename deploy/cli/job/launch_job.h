// Starts a job from a subcommand and waits for it, like tandemrun, with the job's files in one
// directory.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "deploy/launch/flag_table.h"

namespace tandem::deploy {

struct JobLaunch {
  const char* name = "tandem";  // prefix of messages
  std::string job_file;
  std::string dir;  // created; logs go to DIR/log, the result to DIR/result.json
  std::vector<std::string> launch_args;   // tandemrun's: {"--mode=collective", "--nproc=2"}
  std::vector<std::string> trainer_args;  // {"--epochs=3"}
  std::string pserver_bin, trainer_bin;   // empty: in this program's directory
  bool quiet = false;                     // do not show trainer 0's output
  bool only_stderr = false;               // nothing on stdout

  std::string ResultFile() const { return dir + "/result.json"; }
};

// Returns the exit code of the job; 128 + signal if a signal ended it. All its processes have
// ended.
StatusOr<int> RunJob(const JobLaunch& launch);

// A command's work directory: `dir`, which is kept. With "" it is a new directory in the system's
// temporary directory, removed at the end unless Keep() is called.
class WorkDir {
 public:
  WorkDir() = default;
  WorkDir(const WorkDir&) = delete;
  WorkDir& operator=(const WorkDir&) = delete;
  ~WorkDir();

  // `name`: of the command, for a new directory. PERMISSION_DENIED: it cannot be created.
  Status Open(const std::string& dir, const std::string& name);
  void Keep() { temporary_ = false; }
  bool temporary() const { return temporary_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  bool temporary_ = false;
};

}  // namespace tandem::deploy
