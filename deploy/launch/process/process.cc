#include "deploy/launch/process/process.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "common/base/require.h"
#include "common/os/host_limits.h"

namespace tandem::deploy {
namespace {

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (const std::string& s : strings) pointers.push_back(const_cast<char*>(s.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// Replaces the child by the program of `request`. BecomeProgram runs between fork and exec, so it
// makes only async-signal-safe calls. Returns errno on failure.
int BecomeProgram(const SpawnRequest& request, pid_t parent, char* const* argv, char* const* envp) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // If the launcher ended before the prctl call, the kernel does not kill this child. The child
  // then has another parent.
  if (getppid() != parent) return ESRCH;
  for (const int s : {SIGPIPE, SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGWINCH}) signal(s, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);

  const int null = open("/dev/null", O_RDONLY);
  if (null < 0 || dup2(null, STDIN_FILENO) < 0) return errno;
  if (request.stdout_fd >= 0 && dup2(request.stdout_fd, STDOUT_FILENO) < 0) return errno;
  if (request.stderr_fd >= 0 && dup2(request.stderr_fd, STDERR_FILENO) < 0) return errno;
  if (null > STDERR_FILENO) close(null);
  for (const int fd : request.inherited) {
    if (fcntl(fd, F_SETFD, 0) != 0) return errno;
  }
  execve(argv[0], argv, envp);
  return errno;
}

Status CannotStart(const std::string& program, int error) {
  const std::string text = "cannot start " + program + ": " + ErrnoText(error);
  if (error == ENOENT) return NotFound("%s", text);
  if (error == EACCES)
    return PermissionDenied(
        "a program of the job is not executable: %s [TD7001]; hint: make the file executable with "
        "chmod +x",
        text);
  return SystemError("cannot start " + program, error);
}

}  // namespace

std::string SignalName(int signal) {
  const char* name = sigabbrev_np(signal);
  return name == nullptr ? "signal " + std::to_string(signal) : std::string("SIG") + name;
}

std::string ExitState::Text() const {
  if (signal != 0) return "killed by " + SignalName(signal);
  return "exit code " + std::to_string(code);
}

StatusOr<Process> Process::Start(const SpawnRequest& request) {
  TD_REQUIRE(request.argv.size() > 0);
  std::vector<std::string> env;
  for (const auto& [name, value] : request.env) env.push_back(name + "=" + value);
  const std::vector<char*> argv = Pointers(request.argv), envp = Pointers(env);
  // A pipe that transfers the errno of a failed exec to the parent. A successful exec closes the
  // pipe.
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) return SystemError("cannot create a pipe", errno);
  Fd read_end(report[0]), write_end(report[1]);

  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return SystemError("cannot create a process for " + request.argv[0], errno);
  if (pid == 0) {
    const int error = BecomeProgram(request, parent, argv.data(), envp.data());
    [[maybe_unused]] const ssize_t n = write(report[1], &error, sizeof(error));
    _exit(127);
  }
  setpgid(pid, pid);  // both parent and child call setpgid, so that neither waits for the other
  Process process(pid);
  write_end.Reset();
  int error = 0;
  ssize_t n;
  do {
    n = read(read_end.get(), &error, sizeof(error));
  } while (n < 0 && errno == EINTR);
  if (n == sizeof(error)) return CannotStart(request.argv[0], error);
  return process;
}

Process::Process(Process&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), state_(other.state_) {}

Process::~Process() {
  if (pid_ < 0 || state_) return;
  Signal(SIGKILL);
  Collect(WEXITED);  // Collect does not block for long, because the process was killed
}

const std::optional<ExitState>& Process::Poll() {
  if (!state_) Collect(WEXITED | WNOHANG);
  return state_;
}

void Process::Collect(int wait_flags) {
  siginfo_t info{};
  int result;
  // Detects the end first and reaps the process later, because the number of its process group
  // cannot be reused before the process is reaped.
  do {
    result = waitid(P_PID, static_cast<id_t>(pid_), &info, wait_flags | WNOWAIT);
  } while (result != 0 && errno == EINTR);
  if (result != 0 || info.si_pid != pid_) return;
  kill(-pid_, SIGKILL);
  waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED);
  ExitState state;
  (info.si_code == CLD_EXITED ? state.code : state.signal) = info.si_status;
  state_ = state;
}

void Process::Signal(int signal) {
  TD_REQUIRE(signal > 0);
  if (pid_ > 0 && !state_) kill(-pid_, signal);
}

Environment CurrentEnvironment() {
  Environment env;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const size_t equals = text.find('=');
    if (equals != std::string::npos) env[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return env;
}

std::string ProgramDir() {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "." : path.parent_path().string();
}

}  // namespace tandem::deploy
