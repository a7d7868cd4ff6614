#include "tests/unit/deploy/launcher_fixture.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <iterator>

namespace tandem::deploy {

void LauncherTest::SetUp() {
  char name[] = "/tmp/tandem_launch_XXXXXX";
  dir_ = mkdtemp(name);
  std::ofstream(dir_ + "/job.pbtxt") << "name: \"fake\"\n";
  // The orphans of a killed launcher become children of this process. Thus this process can
  // distinguish dead orphans from running ones.
  prctl(PR_SET_CHILD_SUBREAPER, 1);
}

void LauncherTest::TearDown() {
  launcher_.reset();
  std::filesystem::remove_all(dir_);
}

std::string LauncherTest::Script(const std::string& name, const std::string& body) {
  const std::string path = dir_ + "/" + name;
  std::ofstream(path) << "#!/bin/bash\nD=" << dir_ << "\n" << kAwait << body << "\n";
  chmod(path.c_str(), 0755);
  return path;
}

void LauncherTest::Launch(const std::vector<std::string>& args) {
  std::vector<std::string> all = {"--log_dir=" + dir_ + "/log"};
  if (!server_script_.empty()) all.push_back("--pserver_bin=" + server_script_);
  if (!trainer_script_.empty()) all.push_back("--trainer_bin=" + trainer_script_);
  all.push_back(dir_ + "/job.pbtxt");
  all.insert(all.end(), args.begin(), args.end());
  StartProgram("tandemrun", all);
}

void LauncherTest::StartProgram(const std::string& name, const std::vector<std::string>& args) {
  const char* bin = getenv("TANDEM_BIN_DIR");
  deploy::SpawnRequest request;
  request.argv = {(bin != nullptr ? bin : deploy::ProgramDir() + "/../bin") + "/" + name};
  request.argv.insert(request.argv.end(), args.begin(), args.end());
  request.env = deploy::CurrentEnvironment();
  const Fd out(open((dir_ + "/out").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  const Fd err(open((dir_ + "/err").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  request.stdout_fd = stdout_fd_ >= 0 ? stdout_fd_ : out.get();
  request.stderr_fd = err.get();
  auto started = deploy::Process::Start(request);
  ASSERT_TRUE(started.ok()) << started.status();
  launcher_ = std::make_unique<deploy::Process>(std::move(*started));
}

int LauncherTest::WaitForLauncher() {
  if (!WaitUntil([this] { return launcher_->Poll().has_value(); })) {
    ADD_FAILURE() << "the program did not end\n" << Err();
    return -1;
  }
  return launcher_->Poll()->AsExitCode();
}

bool LauncherTest::WaitUntil(const std::function<bool()>& done) {
  const Time deadline = SteadyNow() + kWaitMax;
  while (!done()) {
    if (SteadyNow() > deadline) return false;
    poll(nullptr, 0, 5);
  }
  return true;
}

std::string LauncherTest::Read(const std::string& name) const {
  std::ifstream file(dir_ + "/" + name, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
}

bool LauncherTest::Exists(const std::string& name) const {
  return std::filesystem::exists(dir_ + "/" + name);
}

bool LauncherTest::AllGone(const std::vector<std::string>& pid_files) {
  for (const std::string& file : pid_files) {
    const std::string text = Read(file);
    if (text.empty()) return false;
    const pid_t pid = std::stoi(text);
    waitpid(pid, nullptr, WNOHANG);  // reaps the process if it has become a child of this process
    if (kill(pid, 0) == 0) return false;
  }
  return true;
}

}  // namespace tandem::deploy
