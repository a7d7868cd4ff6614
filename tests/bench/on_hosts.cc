// Runs one rank of a job on each of several emulated hosts (tests/support/emulated_hosts.h):
//   tandem-on-hosts --hosts=4 --mbit=100 --logs=DIR -- PROGRAM ARGUMENT...
// Each rank gets TANDEM_RANK, TANDEM_SIZE and TANDEM_RENDEZVOUS. Its output goes to DIR/rank.R.log.
// Prints one JSON object: exit code and sent bytes of IP packets of each rank.
#include <fcntl.h>
#include <gflags/gflags.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>

#include "common/base/check.h"
#include "tests/support/emulated_hosts.h"

DEFINE_int32(hosts, 4, "number of hosts, each with one rank");
DEFINE_double(mbit, 100, "rate of the link of each host, in 10^6 bits per second");
DEFINE_string(logs, ".", "directory for the outputs of the ranks");

namespace tandem::bench {
namespace {

constexpr int kPort = 4700, kExitNotStarted = 127;

// Replaces the calling process by rank `rank` of the program. Returns only after an error.
Status Become(const EmulatedHosts& hosts, int rank, char** command) {
  TD_RETURN_IF_ERROR(hosts.Enter(rank));
  const std::string log = absl::StrFormat("%s/rank.%d.log", FLAGS_logs, rank);
  const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (out < 0) return Unavailable("cannot write %s: %s", log, ErrnoText(errno));
  ::dup2(out, STDOUT_FILENO);
  ::dup2(out, STDERR_FILENO);
  const std::string rendezvous = absl::StrFormat("%s:%d", EmulatedHosts::Address(0), kPort);
  ::setenv("TANDEM_RANK", std::to_string(rank).c_str(), 1);
  ::setenv("TANDEM_SIZE", std::to_string(hosts.size()).c_str(), 1);
  ::setenv("TANDEM_RENDEZVOUS", rendezvous.c_str(), 1);
  ::setenv("TANDEM_LISTEN_HOST", EmulatedHosts::Address(rank).c_str(), 1);
  ::execvp(command[0], command);
  return Unavailable("cannot run %s: %s", command[0], ErrnoText(errno));
}

StatusOr<int> Run(char** command) {
  HostLink link;
  link.bytes_per_second = FLAGS_mbit * 1e6 / 8;
  link.mtu = 1500;
  TD_ASSIGN_OR_RETURN(const auto hosts, EmulatedHosts::Create(FLAGS_hosts, link));
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < hosts->size(); ++rank) {
    const pid_t child = ::fork();
    if (child == 0) {
      std::cerr << ToString(Become(*hosts, rank, command)) << "\n";
      ::_exit(kExitNotStarted);
    }
    if (child < 0) return Unavailable("cannot start rank %d: %s", rank, ErrnoText(errno));
    ranks.push_back(child);
  }
  hosts->Start();
  nlohmann::json report;
  int worst = 0;
  for (const pid_t rank : ranks) {
    int status = 0;
    ::waitpid(rank, &status, 0);
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    worst = std::max(worst, code);
    report["exit_codes"].push_back(code);
  }
  for (int host = 0; host < hosts->size(); ++host) {
    report["bytes_sent"].push_back(hosts->bytes_sent(host));
  }
  std::cout << report.dump() << "\n";
  return worst;
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  if (argc < 2) {
    std::cerr << "usage: tandem-on-hosts [FLAGS] -- PROGRAM ARGUMENT...\n";
    return 2;
  }
  const tandem::StatusOr<int> worst = tandem::bench::Run(argv + 1);
  if (!worst.ok()) std::cerr << tandem::ToString(worst.status()) << "\n";
  return worst.ok() ? *worst : 1;
}
