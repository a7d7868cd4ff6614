// Runs a job for a subcommand, as tandemrun does. All files of the job are in one directory.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "deploy/launch/options/flag_table.h"

namespace tandem::deploy {

struct JobLaunch {
  const char* name = "tandem";  // first word of messages to the user
  std::string job_file;
  // Directory DIR, created if missing; logs are in DIR/log, the result in DIR/result.json.
  std::string dir;
  std::vector<std::string> launch_args;   // for tandemrun, such as {"--mode=collective"}
  std::vector<std::string> trainer_args;  // arguments of the trainers, such as {"--epochs=3"}
  std::string pserver_bin, trainer_bin;   // program paths; empty: in this program's directory
  bool quiet = false;                     // true: do not show the output of trainer 0
  bool only_stderr = false;               // true: print nothing on stdout

  std::string ResultFile() const { return dir + "/result.json"; }
};

// Runs the job to its end. Returns its exit code, or 128 + signal if a signal ended it.
StatusOr<int> RunJob(const JobLaunch& launch);

// The work directory of a command. It is a directory that the user names, or a new temporary
// directory. The destructor removes a temporary directory unless Keep() was called.
class WorkDir {
 public:
  WorkDir() = default;
  WorkDir(const WorkDir&) = delete;
  WorkDir& operator=(const WorkDir&) = delete;
  ~WorkDir();

  // Opens the directory `dir`, or creates a temporary directory if `dir` is "". The temporary
  // directory's name contains `name`, the name of the command. PERMISSION_DENIED: the directory
  // cannot be created.
  Status Open(const std::string& dir, const std::string& name);
  void Keep() { temporary_ = false; }
  bool temporary() const { return temporary_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  bool temporary_ = false;
};

}  // namespace tandem::deploy
