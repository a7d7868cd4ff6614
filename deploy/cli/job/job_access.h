// Access of the subcommands to a running job: its pservers by gRPC, its status pages by HTTP.
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
#include "deploy/launch/flag_table.h"
#include "deploy/launch/job_record.h"

namespace grpc {
class ChannelCredentials;
}

namespace tandem {
class StatusReply;
}  // namespace tandem

namespace tandem {}

namespace tandem::deploy {

struct PageAddress {
  std::string role;  // pserver, trainer
  int rank = 0;
  Endpoint endpoint;
};

struct JobAccess {
  std::string job;  // "": unknown; servers with a secret reject that
  std::string dir;  // tandemrun's log directory; "": the user gave addresses
  std::optional<JobRecord> record;
  std::vector<Endpoint> pservers;  // includes those that the directory's events added later
  std::set<int> drained;           // indices in pservers; they may have ended
  std::vector<PageAddress> pages;
  std::string secret;  // "": no secret is proved
  rpc::TlsFiles tls;
  bool insecure_allow_network = false;  // network traffic may be unencrypted
  std::shared_ptr<grpc::ChannelCredentials> credentials;
  Duration timeout = std::chrono::seconds(5);  // for one reply
};

// --pservers, --status_pages, --job, --secret_file, --tls_dir, --timeout_s, --output, and a
// command's own flags in `more`.
std::vector<FlagSpec> AccessFlags(std::vector<FlagSpec> more = {});
// Finds the job from flags, or from the only positional argument, a log directory of tandemrun.
// Without both it uses log-* in the working directory, if there is only one. With TLS the
// certificate is the first of these roles' that exists in tandemrun's tls_dir. An error says which
// input is missing.
StatusOr<JobAccess> FindJob(const ParsedArgs& args, const std::vector<rpc::PeerRole>& roles);

// Whether the server failed to reply because it was drained, which is no error.
bool IsGone(const JobAccess& job, size_t server, const Status& answer);

// Like FindJob, but requires pservers and a known job name.
StatusOr<JobAccess> FindPservers(const ParsedArgs& args);

// Adds the event if the user named the job by its log directory; on failure prints a warning on
// stderr.
void NoteEvent(const JobAccess& job, const JobEvent& event);

// The administrative calls to one pserver. They block, with a deadline each. An error names the
// server, and for a failed connection also the cause.
class ServerAccess {
 public:
  ServerAccess(const JobAccess& job, size_t server);
  ~ServerAccess();
  ServerAccess(ServerAccess&&) noexcept;

  Status GetStatus(StatusReply* reply);
  StatusOr<std::pair<uint64_t, uint64_t>> Save(bool delta);  // version, bytes
  StatusOr<uint64_t> Restore();                              // version

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The status.json of a page (common/http/status_page.h).
struct Page {
  bool ready = false;
  double progress = -1;
  std::map<std::string, std::string> facts;
  std::map<std::string, std::vector<std::pair<double, double>>> series;  // NaN: not finite
  std::string Fact(const std::string& name) const;                       // "": no such fact
};
StatusOr<Page> ReadPage(const Endpoint& address, Duration timeout);

}  // namespace tandem::deploy
