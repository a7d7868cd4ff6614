// One child process: started in a process group of its own and killed by the kernel when the
// launcher dies, so that no orphan is left however the launcher ends.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/fd.h"
#include "common/base/status.h"

namespace tandem::deploy {

using Environment = std::map<std::string, std::string>;

// How a process ended.
struct ExitState {
  int code = 0;    // exit code; meaningless when a signal ended it
  int signal = 0;  // 0: it exited by itself

  bool ok() const { return code == 0 && signal == 0; }
  // What a shell would say: the code, or 128 + signal (worth a restart, see ExitCode).
  int AsExitCode() const { return signal != 0 ? 128 + signal : code; }
  std::string Text() const;  // "exit code 3", "killed by SIGSEGV"
};

struct SpawnRequest {
  std::vector<std::string> argv;  // argv[0]: path of the program
  Environment env;                // the whole environment, nothing is inherited
  int stdout_fd = -1;             // not owned, duplicated into the child
  int stderr_fd = -1;
  std::vector<int> inherited;  // the child has them under the same numbers; not owned
};

// Not thread-safe. Start it from the main thread: the kernel's promise to kill the child is tied to
// the life of the thread that started it.
class Process {
 public:
  // NOT_FOUND or PERMISSION_DENIED when the program cannot be executed; the child is gone then.
  static StatusOr<Process> Start(const SpawnRequest& request);

  Process(Process&& other) noexcept;
  Process& operator=(Process&&) = delete;
  ~Process();  // kills the whole group and waits for the child if it still runs

  pid_t pid() const { return pid_; }
  bool running() const { return !state_.has_value(); }
  // Does not block. Collects the child if it has ended; whatever it left in its group is killed.
  const std::optional<ExitState>& Poll();
  // Sends `signal` to the child's group; nothing happens when it has ended.
  void Signal(int signal);

 private:
  explicit Process(pid_t pid) : pid_(pid) {}
  void Collect(int wait_flags);

  pid_t pid_;
  std::optional<ExitState> state_;
};

// "SIGKILL" for 9.
std::string SignalName(int signal);

// The environment of this process. Called by launcher programs only.
Environment CurrentEnvironment();

// Folder of the running program's file: where its sister programs lie.
std::string ProgramFolder();

}  // namespace tandem::deploy
