#include "deploy/launch/options/host_options.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "collective/rendezvous/rendezvous_url.h"
#include "common/base/require.h"

namespace tandem::deploy {
namespace {

// Rejects flags that concern several hosts only.
Status CheckOneHost(const ParsedArgs& args) {
  for (const char* name : {"listen_host", "host_timeout_s"}) {
    if (!args.Has(name)) continue;
    return InvalidArgument("--%s has no effect on a single host [TD1005]; hint: set --hosts=N",
                           name);
  }
  return OkStatus();
}

// Rejects flags that name processes of other hosts, or that need all processes on one host.
Status CheckOthers(const ParsedArgs& args) {
  for (const char* name : {"ips", "gpus", "heter_workers", "replicas"}) {
    if (!args.Has(name)) continue;
    return Unimplemented("--hosts=%s together with --%s is not implemented [TD1109]",
                         args.Get("hosts"), name);
  }
  for (const char* name : {"servers", "workers"}) {
    if (args.Get(name).find_first_not_of("0123456789") == std::string::npos) continue;
    return InvalidArgument(
        "--%s=%s names addresses, but --hosts=%s spreads the processes over the hosts [TD1005]; "
        "hint: use a number for --%s, or omit --hosts",
        name, args.Get(name), args.Get("hosts"), name);
  }
  return OkStatus();
}

}  // namespace

std::vector<FlagSpec> HostFlags() {
  return {
      {"hosts", "", "N|MIN:MAX|LIST",
       "number of hosts: run the same command on each; the tandemruns meet at --rendezvous, and "
       "the one there leads; MIN:MAX (elastic) continues without lost hosts while at least MIN "
       "run; a list of names is --ips"},
      {"listen_host", "", "ADDRESS",
       "address of this host for the other hosts (default: that of its connection to the "
       "rendezvous)"},
      {"host_timeout_s", "", "SECONDS",
       "time without a message of a host's tandemrun after which the host is lost (default 5)"},
  };
}

bool HostsAreCounted(const ParsedArgs& args) {
  const std::string text = args.Get("hosts");
  return !text.empty() && text.find_first_not_of("0123456789:") == std::string::npos;
}

StatusOr<HostOptions> MakeHostOptions(const ParsedArgs& args) {
  HostOptions options;
  if (!HostsAreCounted(args)) {
    TD_RETURN_IF_ERROR(CheckOneHost(args));
    return options;
  }
  const std::string text = args.Get("hosts");
  const size_t colon = text.find(':');
  const std::string least = text.substr(0, colon);
  const std::string most = colon == std::string::npos ? least : text.substr(colon + 1);
  if (!absl::SimpleAtoi(least, &options.least) || !absl::SimpleAtoi(most, &options.count) ||
      options.least < 1 || options.count < options.least || options.count > kHostsMax) {
    return InvalidArgument(
        "--hosts: expected N or MIN:MAX with 1 <= MIN <= MAX <= %d, or a list of names, got \"%s\" "
        "[TD1004]",
        kHostsMax, text);
  }
  TD_ASSIGN_OR_RETURN(const int seconds, args.GetInt("host_timeout_s", 5, 1, 3600));
  options.timeout = std::chrono::seconds(seconds);
  options.listen_host = args.Get("listen_host");
  options.rendezvous = args.Get("rendezvous");
  if (!options.several()) {
    TD_RETURN_IF_ERROR(CheckOneHost(args));
    return options;
  }
  TD_RETURN_IF_ERROR(CheckOthers(args));
  if (options.rendezvous.empty()) {
    return InvalidArgument(
        "--hosts=%s needs --rendezvous, at which the hosts meet [TD1007]; hint: set "
        "--rendezvous=tcp://HOST:PORT with one of the hosts and a free port of it",
        text);
  }
  const StatusOr<collective::RendezvousUrl> url =
      collective::ParseRendezvousUrl(options.rendezvous);
  TD_RETURN_IF_ERROR(Annotate(url.status(), "--rendezvous"));
  options.names_leader = url->kind == collective::RendezvousUrl::Kind::kTcp;
  return options;
}

StatusOr<std::vector<ProcessEndpoint>> SpreadStandbys(
    int hosts, int standbys, const std::vector<ProcessEndpoint>& pservers) {
  TD_REQUIRE(hosts > 1 && standbys > 0);
  if (standbys >= hosts) {
    return InvalidArgument(
        "--standbys=%d needs %d hosts, because the members of a pserver never share a host "
        "[TD1005]; hint: use --standbys=%d",
        standbys, standbys + 1, hosts - 1);
  }
  std::vector<ProcessEndpoint> endpoints;
  for (const ProcessEndpoint& pserver : pservers) {
    for (int m = 1; m <= standbys; ++m) {
      endpoints.push_back(pserver);
      endpoints.back().host_number = (pserver.host_number + m) % hosts;
    }
  }
  return endpoints;
}

void Spread(int hosts, std::vector<ProcessEndpoint>& processes) {
  TD_REQUIRE(hosts > 0);
  const size_t count = processes.size();
  for (size_t i = 0; i < count; ++i) {
    processes[i].host_number = static_cast<int>(i * static_cast<size_t>(hosts) / count);
  }
}

}  // namespace tandem::deploy
