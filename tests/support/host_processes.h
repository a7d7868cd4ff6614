// Runs programs on emulated hosts (tests/support/emulated_hosts.h), as a user does on machines.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/os/fd.h"
#include "tests/support/emulated_hosts.h"
#include "tests/support/process_test_util.h"

namespace tandem {

// Starts programs on hosts, and finds all processes of a host. A process belongs to the host on
// which it was started, also after its parent has ended.
//
// Not thread-safe. The thread that calls Start must live until the programs have ended, because the
// kernel kills them when this thread ends. `hosts` must outlive this object.
class HostProcesses {
 public:
  explicit HostProcesses(const EmulatedHosts& hosts);
  ~HostProcesses();  // kills all processes of all hosts
  HostProcesses(const HostProcesses&) = delete;
  HostProcesses& operator=(const HostProcesses&) = delete;

  // Starts a program on a host, also after EmulatedHosts::Start. Arguments: see ChildProcess.
  // PERMISSION_DENIED: this process may not enter the host.
  StatusOr<std::unique_ptr<ChildProcess>> Start(int host, const std::string& program,
                                                const std::vector<std::string>& args,
                                                const std::map<std::string, std::string>& env,
                                                const std::string& output_file);
  // Returns the ids of all running processes of a host, in no particular order.
  std::vector<pid_t> On(int host) const;
  // Returns one line with id and command per running process of a host; "": no process.
  std::string ListOf(int host) const;
  // Waits until no process runs on any host. Returns false if `seconds_max` seconds pass before.
  bool WaitForNone(int seconds_max) const;
  // Kills all processes of a host, and waits for their ends. Returns false if a process still runs
  // after 10 s.
  bool KillAll(int host) const;

 private:
  const EmulatedHosts& hosts_;
  Fd own_space_;  // the network namespace of the thread that created this object
};

}  // namespace tandem
