#include "deploy/launch/job_hosts.h"

#include <algorithm>
#include <cstdio>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "common/base/require.h"
#include "common/os/files.h"
#include "common/os/own_files.h"
#include "common/rpc/credentials/token.h"
#include "deploy/launch/job_certificates.h"

namespace tandem::deploy {
namespace {

std::string ValueOf(const Environment& env, const char* name) {
  const auto found = env.find(name);
  return found == env.end() ? "" : found->second;
}

int OnHost(const std::vector<ProcessEndpoint>& processes, int host) {
  return static_cast<int>(std::ranges::count_if(
      processes, [host](const ProcessEndpoint& e) { return e.host_number == host; }));
}

// Returns the largest number of processes on a host.
int MostOnOneHost(const LaunchOptions& options) {
  int most = 0;
  for (int host = 0; host < options.hosts.count; ++host) {
    most = std::max(most, OnHost(options.pservers.endpoints, host) +
                              OnHost(options.workers.endpoints, host) +
                              OnHost(options.pservers.standby_endpoints, host));
  }
  return most;
}

// Returns the settings that must be equal on all hosts, in the order of their importance.
std::vector<std::string> Settings(const LaunchOptions& options) {
  std::vector<std::string> settings = {
      absl::StrFormat("--mode=%s", ModeName(options.mode)),
      absl::StrFormat("--hosts=%d:%d", options.hosts.least, options.hosts.count),
      absl::StrFormat("%d trainers", options.workers.endpoints.size()),
      absl::StrFormat("%d pservers", options.pservers.endpoints.size()),
      absl::StrFormat("--standbys=%d", options.pservers.standbys),
      absl::StrFormat("a minimum of %d ranks", options.workers.ranks_least),
      absl::StrFormat("--max_restarts=%d", options.supervision.max_restarts),
      absl::StrFormat("--durability=%s", options.pservers.durability),
      std::string(options.security.make_tls          ? "--tls"
                  : options.security.tls_dir.empty() ? "no TLS"
                                                     : "--tls_dir")};
  return settings;
}

// The file in a host's directory of pservers' data that tells the number of the host.
std::string KeptName(int number, int hosts) {
  return absl::StrFormat("host-%d-of-%d", number, hosts);
}

// Returns the number that this host had in an earlier run of the job, from the name of a file in
// its directory of pservers' data; -1: none, or several, because hosts share the directory.
// FAILED_PRECONDITION: the earlier run had another number of hosts.
StatusOr<int> KeptNumber(const LaunchOptions& options) {
  int kept = -1, kept_of = 0;
  const StatusOr<std::vector<std::string>> names = ListDir(options.pservers.data_dir);
  if (names.status().code() != StatusCode::kNotFound) TD_RETURN_IF_ERROR(names.status());
  for (const std::string& name : names.value_or(std::vector<std::string>())) {
    int number = 0, hosts = 0;
    if (std::sscanf(name.c_str(), "host-%d-of-%d", &number, &hosts) != 2) continue;
    if (number < 0 || number >= hosts || name != KeptName(number, hosts)) continue;
    if (kept >= 0) return -1;
    kept = number;
    kept_of = hosts;
  }
  if (kept < 0 || kept_of == options.hosts.count) return kept;
  return FailedPrecondition(
      "%s has the pservers' data of host %d of %d, but the job has %d hosts [TD3015]; hint: use "
      "--hosts=%d, or an empty --pserver_data_dir",
      options.pservers.data_dir, kept, kept_of, options.hosts.count, kept_of);
}

// Writes the file that KeptNumber finds in a later run.
Status KeepNumber(const LaunchOptions& options, int number) {
  TD_REQUIRE(number >= 0 && number < options.hosts.count);
  TD_RETURN_IF_ERROR(MakeDirs("--pserver_data_dir", options.pservers.data_dir));
  return WriteOwnFile(options.pservers.data_dir + "/" + KeptName(number, options.hosts.count), "");
}

}  // namespace

void Apply(const HostLayout& layout, LaunchOptions& options) {
  TD_REQUIRE(layout.hosts.size() == static_cast<size_t>(options.hosts.count));
  std::vector<int> used(layout.hosts.size(), 0);  // number of ports in use on each host
  for (auto* const processes : {&options.pservers.endpoints, &options.workers.endpoints,
                                &options.pservers.standby_endpoints}) {
    for (ProcessEndpoint& e : *processes) {
      const auto number = static_cast<size_t>(e.host_number);
      const JobHost& host = layout.hosts[number];
      const int first = options.start_port != 0 ? options.start_port : host.first_port;
      e.host = host.address;
      e.port = first + used[number]++;
      e.local = e.host_number == layout.number;
    }
  }
  options.log_dir += absl::StrFormat("/host-%d", layout.number);
  // The ranks meet at rank 0, whose port this layout has. A directory or an etcd serves them too.
  if (options.hosts.names_leader) options.workers.rendezvous.clear();
}

HostLayout ExampleLayout(const LaunchOptions& options) {
  HostLayout layout;
  for (int i = 0; i < options.hosts.count; ++i) {
    const std::string name = absl::StrFormat("host-%d", i);
    layout.hosts.push_back({name, name, 10000});
  }
  return layout;
}

StatusOr<std::unique_ptr<HostGroup>> JoinHosts(const Environment& env, const std::string& version,
                                               bool again, LaunchOptions& options) {
  TD_REQUIRE(options.hosts.several());
  std::string& secret_file = options.security.secret_file;
  if (secret_file.empty()) secret_file = ValueOf(env, "TANDEM_SECRET_FILE");
  if (secret_file.empty()) {
    return InvalidArgument(
        "a job on several hosts needs a secret, but neither --secret_file nor TANDEM_SECRET_FILE "
        "is set [TD6013]; hint: create a secret with openssl rand -hex 32 > job.secret and chmod "
        "600 job.secret, and set --secret_file to a copy of the file on each host");
  }
  HostGroupOptions group;
  TD_ASSIGN_OR_RETURN(group.meeting.secret, rpc::ReadSecretFile(secret_file));
  group.hosts = options.hosts.count;
  group.meeting.job = options.job_name;
  group.meeting.rendezvous = options.hosts.rendezvous;
  group.meeting.listen_host = options.hosts.listen_host;
  group.meeting.etcd =
      collective::EtcdAccessFrom([&env](const char* name) { return ValueOf(env, name); });
  group.version = version;
  group.settings = Settings(options);
  if (!options.pservers.data_dir.empty()) {
    TD_ASSIGN_OR_RETURN(group.kept, KeptNumber(options));
  }
  group.again = again;
  group.numeric = options.pservers.standbys > 0;
  group.ports = MostOnOneHost(options);
  group.silence = options.hosts.timeout;
  if (options.security.make_tls) {
    group.make_certificates = [&options](const std::vector<JobHost>& hosts) {
      std::set<std::string> addresses;
      for (const auto* const list :
           {&options.pservers.endpoints, &options.pservers.standby_endpoints}) {
        for (const ProcessEndpoint& e : *list) {
          addresses.insert(hosts[static_cast<size_t>(e.host_number)].address);
        }
      }
      return MakeJobCertificates(options.job_name, {addresses.begin(), addresses.end()});
    };
  }
  group.progress = [](const std::string& text) {
    std::fprintf(stderr, "tandemrun: %s\n", text.c_str());
  };
  TD_ASSIGN_OR_RETURN(std::unique_ptr<HostGroup> joined, HostGroup::Join(std::move(group)));
  if (!options.pservers.data_dir.empty()) {
    TD_RETURN_IF_ERROR(KeepNumber(options, joined->layout().number));
  }
  Apply(joined->layout(), options);
  return joined;
}

}  // namespace tandem::deploy
