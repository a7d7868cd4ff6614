// One child process in its own process group. The kernel kills it when the launcher dies, so no
// orphan remains.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/os/fd.h"

namespace tandem::deploy {

using Environment = std::map<std::string, std::string>;

// The exit status of a process.
struct ExitState {
  int code = 0;    // exit code; meaningless if a signal ended it
  int signal = 0;  // 0: it exited by itself

  bool ok() const { return code == 0 && signal == 0; }
  // The exit code that a shell would report: the code, or 128 + signal (worth a restart, see
  // ExitCode).
  int AsExitCode() const { return signal != 0 ? 128 + signal : code; }
  std::string Text() const;  // "exit code 3", "killed by SIGSEGV"
};

struct SpawnRequest {
  std::vector<std::string> argv;  // argv[0]: path of the program
  Environment env;                // the whole environment; the child inherits no variables
  int stdout_fd = -1;             // not owned, duplicated into the child
  int stderr_fd = -1;
  std::vector<int> inherited;  // inherited with the same numbers; not owned
};

// Not thread-safe. Start it from the main thread: the kernel kills the child when the thread that
// started it ends.
class Process {
 public:
  // NOT_FOUND or PERMISSION_DENIED: the program cannot be executed; the child has then ended.
  static StatusOr<Process> Start(const SpawnRequest& request);

  Process(Process&& other) noexcept;
  Process& operator=(Process&&) = delete;
  ~Process();  // kills the whole group and waits for the child if it still runs

  pid_t pid() const { return pid_; }
  bool running() const { return !state_.has_value(); }
  const std::optional<ExitState>& state() const { return state_; }  // nullopt: running
  // Does not block. Reaps the child if it has ended, and kills the rest of its group.
  const std::optional<ExitState>& Poll();
  // Sends `signal` to the child's group; does nothing if the child has ended.
  void Signal(int signal);

 private:
  explicit Process(pid_t pid) : pid_(pid) {}
  void Collect(int wait_flags);

  pid_t pid_;
  std::optional<ExitState> state_;
};

// The signal's name: "SIGKILL" for 9.
std::string SignalName(int signal);

// The environment of this process. For launcher programs only.
Environment CurrentEnvironment();

// Directory of the running program's file, which also has its companion programs.
std::string ProgramDir();

}  // namespace tandem::deploy
