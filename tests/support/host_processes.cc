#include "tests/support/host_processes.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "common/base/check.h"

namespace tandem {
namespace {

constexpr int kKillSecondsMax = 10;

}  // namespace

HostProcesses::HostProcesses(const EmulatedHosts& hosts)
    : hosts_(hosts), own_space_(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC)) {
  CHECK(own_space_.valid()) << ErrnoText(errno);
}

HostProcesses::~HostProcesses() {
  for (int host = 0; host < hosts_.size(); ++host) KillAll(host);
}

StatusOr<std::unique_ptr<ChildProcess>> HostProcesses::Start(
    int host, const std::string& program, const std::vector<std::string>& args,
    const std::map<std::string, std::string>& env, const std::string& output_file) {
  // The program setpriv replaces itself by `program`, which keeps the process id.
  std::vector<std::string> words = {"--pdeathsig", "KILL", "--", BinPath(program)};
  words.insert(words.end(), args.begin(), args.end());
  TD_RETURN_IF_ERROR(hosts_.Enter(host));
  auto started = std::make_unique<ChildProcess>("/usr/bin/setpriv", words, env, output_file);
  CHECK(::setns(own_space_.get(), CLONE_NEWNET) == 0) << ErrnoText(errno);
  return started;
}

std::vector<pid_t> HostProcesses::On(int host) const {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const pid_t pid = std::stoi(name);
    if (hosts_.Has(host, pid)) found.push_back(pid);
  }
  return found;
}

std::string HostProcesses::ListOf(int host) const {
  std::string list;
  for (const pid_t pid : On(host)) {
    std::string command = ReadWholeFile(absl::StrFormat("/proc/%d/cmdline", pid));
    std::replace(command.begin(), command.end(), '\0', ' ');
    list += absl::StrFormat("%d %s\n", pid, command);
  }
  return list;
}

bool HostProcesses::WaitForNone(int seconds_max) const {
  return WaitUntil(
      [this] {
        for (int host = 0; host < hosts_.size(); ++host) {
          if (!On(host).empty()) return false;
        }
        return true;
      },
      seconds_max);
}

bool HostProcesses::KillAll(int host) const {
  // A process may start another one while its host's processes are listed.
  return WaitUntil(
      [this, host] {
        const std::vector<pid_t> running = On(host);
        for (const pid_t pid : running) ::kill(pid, SIGKILL);
        return running.empty();
      },
      kKillSecondsMax);
}

}  // namespace tandem
