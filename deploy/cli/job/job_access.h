// How the subcommands reach a running job: its pservers by gRPC, its status pages by HTTP.
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
#include "common/base/status.h"
#include "common/rpc/endpoint.h"
#include "common/rpc/tls_files.h"
#include "deploy/launch/flag_table.h"
#include "deploy/launch/job_record.h"

namespace grpc {
class ChannelCredentials;
}

namespace tandem {
class StatusReply;
}

namespace tandem::deploy {

struct PageAddress {
  std::string role;  // pserver, trainer
  int rank = 0;
  tandem::Endpoint endpoint;
};

struct JobAccess {
  std::string job;     // "": not known, which servers with a secret do not take
  std::string folder;  // tandemrun's logs; "": the job was named by addresses
  std::optional<JobRecord> record;
  std::vector<tandem::Endpoint> pservers;  // with those of the folder's events that came later
  std::set<int> drained;                   // of them; they may be gone
  std::vector<PageAddress> pages;
  std::string secret;  // "": none is proved
  TlsFiles tls;
  bool insecure_allow_network = false;  // what goes over a network may go in the clear
  std::shared_ptr<grpc::ChannelCredentials> credentials;
  Duration timeout = std::chrono::seconds(5);  // for one answer
};

// --pservers, --pages, --job, --secret_file, --tls_dir, --timeout_s, --output; a command adds its
// own.
std::vector<FlagSpec> AccessFlags(std::vector<FlagSpec> more = {});
// From the only positional argument, a log folder of tandemrun (none: log-* here, if it is the only
// one), or from flags. With TLS the certificate is that of the first of these roles that is below
// tandemrun's tls_dir. Errors say what is missing.
StatusOr<JobAccess> FindJob(const ParsedArgs& args, const std::vector<PeerRole>& roles);

// A drained pserver does not answer: it is gone, as it may be.
bool IsGone(const JobAccess& job, size_t server, const Status& answer);

// The same as FindJob of a job with pservers and a known name.
StatusOr<JobAccess> FindPservers(const ParsedArgs& args);

// Adds it to the events of a job that was named by its log folder; warns on stderr where it cannot.
void NoteEvent(const JobAccess& job, const JobEvent& event);

// One pserver's calls for people. Blocking, each with a deadline; errors name the server, and of a
// connection that does not come about they say why.
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

// status.json of a page (common/http/status_page.h).
struct Page {
  bool ready = false;
  double progress = -1;
  std::map<std::string, std::string> facts;
  std::map<std::string, std::vector<std::pair<double, double>>> series;  // NaN: not finite
  std::string Fact(const std::string& name) const;                       // "" without it
};
StatusOr<Page> ReadPage(const tandem::Endpoint& address, Duration timeout);

}  // namespace tandem::deploy
