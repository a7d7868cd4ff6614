// One child process in its own process group. The kernel kills the child when the launcher ends, so
// no process of the job outlives the launcher.
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

// How a process ended.
struct ExitState {
  int code = 0;    // exit code; not meaningful if a signal ended the process
  int signal = 0;  // signal that ended the process; 0: the process exited by itself

  bool ok() const { return code == 0 && signal == 0; }
  // Returns the exit code that a shell would report: the exit code of the process, or 128 + signal.
  // A code of 128 or more means that a restart may help (ExitCode, common/base/status.h).
  int AsExitCode() const { return signal != 0 ? 128 + signal : code; }
  std::string Text() const;  // returns a text such as "exit code 3" or "killed by SIGSEGV"
};

struct SpawnRequest {
  std::vector<std::string> argv;  // arguments; argv[0] is the path of the program
  Environment env;                // all environment variables of the child; it inherits none
  int stdout_fd = -1;             // descriptor for stdout; not owned, duplicated into the child
  int stderr_fd = -1;
  // Descriptors that the child inherits with the same numbers; not owned.
  std::vector<int> inherited;
};

// A child process. Not thread-safe. The main thread must start it, because the kernel kills the
// child when the thread that started the child ends.
class Process {
 public:
  // Starts the program. NOT_FOUND or PERMISSION_DENIED: the program cannot be executed; the child
  // has ended.
  static StatusOr<Process> Start(const SpawnRequest& request);

  Process(Process&& other) noexcept;
  Process& operator=(Process&&) = delete;
  ~Process();  // kills the whole process group; if the child is running, waits for its end

  pid_t pid() const { return pid_; }
  bool running() const { return !state_.has_value(); }
  // Exit state of the child; nullopt: the child is running.
  const std::optional<ExitState>& state() const { return state_; }
  // Checks without blocking whether the child has ended. If the child has ended, reaps it and kills
  // the other processes of its group. Returns state().
  const std::optional<ExitState>& Poll();
  // Sends `signal` to the child's process group. Does nothing if the child has ended.
  void Signal(int signal);

 private:
  explicit Process(pid_t pid) : pid_(pid) {}
  void Collect(int wait_flags);

  pid_t pid_;
  std::optional<ExitState> state_;
};

// Returns the name of a signal, such as "SIGKILL" for 9.
std::string SignalName(int signal);

// Returns the environment of this process. Only launcher programs call this function.
Environment CurrentEnvironment();

// Returns the directory of the running program, which also contains Tandem's other programs.
std::string ProgramDir();

}  // namespace tandem::deploy
