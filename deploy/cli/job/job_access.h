// The access of subcommands to a running job: to pservers by gRPC, to status pages by HTTP.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/endpoint.h"
#include "common/base/status.h"
#include "common/rpc/credentials/tls_files.h"
#include "deploy/launch/job_record.h"
#include "deploy/launch/options/flag_table.h"

namespace grpc {
class ChannelCredentials;
}

namespace tandem {
class StatusReply;
}  // namespace tandem

namespace tandem {}

namespace tandem::deploy {

struct PageAddress {
  std::string role;  // role of the process: "pserver" or "trainer"
  int rank = 0;
  Endpoint endpoint;
};

// A read replica of a pserver.
struct ReplicaAddress {
  int server = 0, number = 0;  // index of the pserver; number among its replicas, from 0
  Endpoint endpoint;
  std::string redis;  // address for Redis clients; "": none
};

struct JobAccess {
  std::string job;  // name of the job; "": unknown; servers with a secret reject ""
  std::string dir;  // log directory of tandemrun; "": the user named addresses
  std::optional<JobRecord> record;
  std::vector<Endpoint> pservers;  // all pservers, including those that were added later
  std::set<int> drained;           // indices of drained servers in `pservers`; they may have ended
  std::vector<ReplicaAddress> replicas;  // replicas that tandemrun started
  std::vector<PageAddress> pages;
  std::string secret;  // secret of the job; "": the job has no secret
  rpc::TlsFiles tls;
  bool insecure_allow_network = false;  // true: network traffic without encryption is allowed
  std::shared_ptr<grpc::ChannelCredentials> credentials;
  Duration timeout = std::chrono::seconds(5);  // time limit for one reply
};

// Returns the numbers of the members of pserver `server`, which are its primary and its standbys,
// in ascending order. Empty: the pserver has no standbys, or it is unknown whether it has them,
// because the user named one address of the pserver.
std::vector<int> MembersOf(const JobAccess& job, int server);

// Checks that the tandemrun of the job runs on this host. FAILED_PRECONDITION: the job has ended,
// or it runs on another host.
Status CheckRunsHere(const std::string& log_dir, const JobRecord& record);

// Returns the flags by which the user names a job (--pservers, --status_pages, --job,
// --secret_file, --tls_dir, --timeout_s), --output, and then `more`, the command's own flags.
std::vector<FlagSpec> AccessFlags(std::vector<FlagSpec> more = {});
// Finds the job from flags or from the only positional argument, which is a log directory of
// tandemrun. Without both, uses the directory log-* in the working directory if there is exactly
// one. Each of `roles` has a certificate in tandemrun's tls_dir. FindJob chooses the first of these
// certificates that exists. The message of an error says which input is missing.
StatusOr<JobAccess> FindJob(const ParsedArgs& args, const std::vector<rpc::PeerRole>& roles);

// Returns whether `answer` is the failed call to a server that was drained. Such a server may have
// ended, so the failure is not an error of the command.
bool IsGone(const JobAccess& job, size_t server, const Status& answer);

// Like FindJob, but requires that the job has pservers and that its name is known.
StatusOr<JobAccess> FindPservers(const ParsedArgs& args,
                                 const std::vector<rpc::PeerRole>& roles = {rpc::PeerRole::kAdmin});

// Adds an event to the log directory of the job. Does nothing if the user named no log directory.
// Prints a warning on stderr on failure.
void NoteEvent(const JobAccess& job, const JobEvent& event);

// Makes administrative calls to one pserver or replica. Each call blocks until the reply arrives,
// at most for JobAccess::timeout. An error names the server and, if the connection failed, the
// cause.
class ServerAccess {
 public:
  ServerAccess(const JobAccess& job, size_t server);
  ServerAccess(const JobAccess& job, const ReplicaAddress& replica);
  ~ServerAccess();
  ServerAccess(ServerAccess&&) noexcept;

  Status GetStatus(StatusReply* reply);
  // Writes a checkpoint. Returns the version and the bytes of the checkpoint.
  StatusOr<std::pair<uint64_t, uint64_t>> Save(bool delta);
  StatusOr<uint64_t> Restore();  // restores the newest checkpoint and returns its version

 private:
  struct Impl;
  ServerAccess(const JobAccess& job, const Endpoint& endpoint, std::string name);
  std::unique_ptr<Impl> impl_;
};

// The content of status.json of a status page (common/http/status_page.h).
struct Page {
  bool ready = false;
  double progress = -1;
  std::map<std::string, std::string> facts;
  // Curves of the page by name, as points (x, y). A coordinate is NaN if the page reports a value
  // that is not finite.
  std::map<std::string, std::vector<std::pair<double, double>>> series;
  // Returns the text of fact `name`; "": the page does not have this fact.
  std::string Fact(const std::string& name) const;
};
StatusOr<Page> ReadPage(const Endpoint& address, Duration timeout);

}  // namespace tandem::deploy
