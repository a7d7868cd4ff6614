// Keeps a network of emulated hosts (tests/support/emulated_hosts.h) for a test in Python:
//   tandem-pod-network HOSTS
// Prints one JSON object per host and line: the address of the host and the file of its network
// namespace, for nsenter --net=FILE. Then obeys one command per line of standard input:
//   fault HOST none|from|to|both
// and prints "done" after each command. The network exists until standard input ends.
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/emulated_hosts.h"

namespace tandem {
namespace {

constexpr int kExitUnavailable = 77;

// Obeys one command. Returns false if the command is malformed.
bool Obey(const std::string& command, EmulatedHosts& hosts) {
  static const std::map<std::string, LinkFault> faults = {{"none", LinkFault::kNone},
                                                          {"from", LinkFault::kFromHost},
                                                          {"to", LinkFault::kToHost},
                                                          {"both", LinkFault::kBoth}};
  std::istringstream words(command);
  std::string verb, fault;
  int host = -1;
  words >> verb >> host >> fault;
  if (verb != "fault" || host < 0 || host >= hosts.size() || faults.count(fault) == 0) return false;
  hosts.SetFault(host, faults.at(fault));
  return true;
}

int Run(int count) {
  const auto hosts = EmulatedHosts::Create(count, {});
  if (!hosts.ok()) {
    std::cerr << "no emulated hosts here: " << hosts.status().message() << "\n";
    return kExitUnavailable;
  }
  for (int host = 0; host < count; ++host) {
    const nlohmann::json line = {
        {"address", EmulatedHosts::Address(host)},
        {"space", absl::StrFormat("/proc/%d/fd/%d", ::getpid(), (*hosts)->space(host))}};
    std::cout << line.dump() << std::endl;
  }
  (*hosts)->Start();
  std::string command;
  while (std::getline(std::cin, command)) {
    if (!Obey(command, **hosts)) {
      std::cerr << "malformed command: " << command << "\n";
      return 2;
    }
    std::cout << "done" << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) {
  const int hosts = argc == 2 ? std::atoi(argv[1]) : 0;
  if (hosts < 1) {
    std::cerr << "usage: tandem-pod-network HOSTS\n";
    return 2;
  }
  return tandem::Run(hosts);
}
