#include "deploy/cli/job/launch_job.h"

#include <stdlib.h>

#include <filesystem>

#include "common/os/files.h"
#include "deploy/launch/job_files.h"
#include "deploy/launch/launch_plan.h"
#include "deploy/launch/options/launch_options.h"
#include "deploy/launch/supervisor.h"

namespace tandem::deploy {

StatusOr<int> RunJob(const JobLaunch& launch) {
  std::error_code error;
  std::filesystem::create_directories(launch.dir, error);
  if (error) return FileError(launch.dir, "cannot be made", error.value());
  std::vector<std::string> line = launch.launch_args;
  line.insert(line.end(), {launch.job_file, "--log_dir=" + launch.dir + "/log"});
  if (launch.quiet) line.push_back("--quiet");
  if (!launch.pserver_bin.empty()) line.push_back("--pserver_bin=" + launch.pserver_bin);
  if (!launch.trainer_bin.empty()) line.push_back("--trainer_bin=" + launch.trainer_bin);
  line.insert(line.end(), {"--", "--result_json=" + launch.ResultFile()});
  line.insert(line.end(), launch.trainer_args.begin(), launch.trainer_args.end());
  TD_ASSIGN_OR_RETURN(const ParsedArgs parsed, ParseLaunchArgs(line));
  TD_ASSIGN_OR_RETURN(LaunchOptions options, MakeLaunchOptions(parsed, ProgramDir()));
  const Environment env = WithoutRanks(CurrentEnvironment());
  TD_ASSIGN_OR_RETURN(const LaunchPlan plan, MakeLaunchPlan(options, env));
  // The secrets exist until this object is destroyed, after the job has ended.
  TD_ASSIGN_OR_RETURN(const HeldSecrets secrets, PrepareFiles(plan));
  Supervisor::Options supervisor_options;
  supervisor_options.env = env;
  supervisor_options.grace_s = options.supervision.grace_s;
  supervisor_options.max_restarts = options.supervision.max_restarts;
  supervisor_options.quiet = launch.quiet;
  supervisor_options.only_stderr = launch.only_stderr;
  supervisor_options.name = launch.name;
  Supervisor supervisor(plan, supervisor_options);
  return supervisor.Run();
}

WorkDir::~WorkDir() {
  std::error_code error;
  if (temporary_) std::filesystem::remove_all(path_, error);
}

Status WorkDir::Open(const std::string& dir, const std::string& name) {
  std::error_code error;
  if (dir.empty()) {
    std::string pattern =
        std::filesystem::temp_directory_path(error) / ("tandem-" + name + "-XXXXXX");
    if (mkdtemp(pattern.data()) == nullptr) {
      return FileError(pattern, "cannot create a temporary directory of this name", errno);
    }
    temporary_ = true;
    path_ = pattern;
    return OkStatus();
  }
  path_ = std::filesystem::absolute(dir, error);
  std::filesystem::create_directories(path_, error);
  if (error) return FileError(path_, "cannot be made", error.value());
  return OkStatus();
}

}  // namespace tandem::deploy
