// Runs the program tandemrun. Shell scripts replace tandem-trainer and tandem-pserver.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "deploy/launch/process/process.h"

namespace tandem::deploy {

inline constexpr auto kWaitMax = std::chrono::minutes(2);

class LauncherTest : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  // Writes an executable shell script and returns its path. In scripts, $D is the directory of the
  // test.
  std::string Script(const std::string& name, const std::string& body);
  // Starts tandemrun with the two scripts, the test's job file and `args`.
  void Launch(const std::vector<std::string>& args);
  // Starts a program of build/bin with flags that name the two scripts.
  void StartProgram(const std::string& name, const std::vector<std::string>& args);
  // Waits for the end of the started program. Returns its exit code, or 128 + signal. After
  // kWaitMax, fails the test and returns -1.
  int WaitForLauncher();
  // Waits until `done` returns true, and returns true. Returns false after kWaitMax. Calls `done`
  // every 5 ms.
  bool WaitUntil(const std::function<bool()>& done);

  std::string Read(const std::string& name) const;  // returns "" if the file does not exist
  bool Exists(const std::string& name) const;
  std::string Out() const { return Read("out"); }
  std::string Err() const { return Read("err"); }
  // Returns whether all processes have ended whose pids are in these files of the test's directory.
  // Returns false if a file is empty.
  bool AllGone(const std::vector<std::string>& pid_files);

  // The script of a pserver that serves until it is stopped.
  static constexpr char kGoodServer[] =
      "echo serving\n"
      "trap 'echo stopped; exit 0' TERM\n"
      "mkfifo $D/never.$TANDEM_SERVER_INDEX\n"
      "echo $$ > $D/server.$TANDEM_SERVER_INDEX.pid\n"
      "while true; do read -t 1 line <> $D/never.$TANDEM_SERVER_INDEX; done\n";
  // The script function `await`: waits until the file $1 of the test's directory is not empty.
  static constexpr char kAwait[] =
      "await() { while [ ! -s $D/$1 ]; do read -t 0.01 < <(:); done; true; }\n";
  // The script of a trainer that never ends. The script is a single process, so its pid in
  // trainer.RANK.pid is enough to find it.
  static constexpr char kWaitForEver[] = "echo $$ > $D/trainer.$RANK.pid; exec sleep 1000\n";

  std::string dir_;
  std::string server_script_, trainer_script_;
  int stdout_fd_ = -1;  // standard output of the program; -1: the file "out"
  std::unique_ptr<deploy::Process> launcher_;
};

}  // namespace tandem::deploy
