// Follows the dense variables of a running job, without being one of its trainers
// (docs/internals/change-stream.md).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/codec/tensor_codec.h"
#include "pserver/client/carrier/ps_channel.h"
#include "pserver/client/carrier/reader_options.h"
#include "pserver/client/follow/reply_inbox.h"
#include "pserver/client/follow/server_finder.h"

namespace tandem::ps {

struct VariableFollowOptions {
  std::vector<std::string> variables;  // names of dense variables; empty: all
  // Updates of a server from one of its changes to the next; >= 1. A change may have more.
  uint64_t every = 1;
  // Minimum pause between two requests to a server.
  Duration interval = std::chrono::milliseconds(20);
};

// A server has a new version of its parts of the variables.
struct VariableChange {
  // The version of each server's values, in updates, by the index of the server; 0: the server has
  // no part of the variables, or has no update yet.
  std::vector<uint64_t> versions;
  std::vector<std::string> changed;  // names of the variables whose values are new, ascending
};

// A follower. It learns the address of a pserver that joins the job later from the others. All
// values of one server are of one version of this server; different servers may have different
// versions. The first change has complete values of all variables. A follower that is slow gets the
// newest values, and never holds up training: a server keeps nothing for it. A follower needs no
// token, because each change has all values of a server. Not thread-safe: one thread uses a
// follower.
class VariableFollower {
 public:
  // Connects to the servers of a job: its pservers, or one replica of each. Blocks for at most
  // ReaderOptions::timeout. UNAVAILABLE, DEADLINE_EXCEEDED: a server does not reply.
  // INVALID_ARGUMENT: an address or an option is invalid.
  static StatusOr<std::unique_ptr<VariableFollower>> Connect(
      const std::vector<std::string>& servers, const ReaderOptions& options,
      VariableFollowOptions follow);
  ~VariableFollower();

  // Returns the next change; nullopt: there was none for `timeout`. Blocks. After an error, Next
  // may be called again. Errors:
  // - NOT_FOUND: no server has had a part of a variable for ReaderOptions::timeout.
  // - UNAUTHENTICATED, PERMISSION_DENIED: the secret or the certificate is wrong.
  // - UNAVAILABLE, DEADLINE_EXCEEDED: a server has not replied for ReaderOptions::timeout, and
  // other
  //   servers do not have all variables. The values of a server must arrive in this time.
  // - CANCELLED: ReaderOptions::stop returned true.
  StatusOr<std::optional<VariableChange>> Next(Duration timeout);

  // Returns the values of the variables after the last change that Next returned, by name, flat.
  // The next call of Next changes them.
  const std::map<std::string, std::vector<float>>& variables() const { return values_; }

 private:
  struct Part;
  struct Reply;
  struct Server;

  VariableFollower(const std::vector<std::string>& servers, ReaderOptions options,
                   VariableFollowOptions follow, std::unique_ptr<PsChannel> channel);
  static Status Decode(codec::Fragments bytes, Reply& reply);
  bool IsWanted(const std::string& variable) const;
  void SendRequests();
  void SendRequest(size_t server);
  Time NextRequest() const;
  // Handles the oldest reply. nullopt: there is none, or it has no change for the caller.
  StatusOr<std::optional<VariableChange>> TakeReply();
  Status TakeError(Server& server, const Status& error);
  // Stores the values of a reply. Returns the names of their variables.
  std::vector<std::string> Store(Server& server, std::vector<Part> parts);
  // Returns the name of a variable of which a part is missing; nullopt: all are complete.
  std::optional<std::string> Incomplete() const;
  // Returns the first variable of which no server except `without` has all parts; nullopt: there is
  // none, as after a drain of that server. REQUIRES: the caller has got all variables.
  std::optional<std::string> LackedWithout(const Server* without) const;
  // Looks for servers that joined the job, because all servers have replied and lack a part of
  // `variable`. Returns NOT_FOUND if this has lasted for too long.
  Status FindServers(const std::string& variable);
  // Requests all slices of all servers again, because slices have moved.
  void Forget();
  Status CheckPatience();

  const ReaderOptions options_;
  const VariableFollowOptions follow_;
  const std::unique_ptr<PsChannel> channel_;
  const std::shared_ptr<ReplyInbox<Reply>> inbox_;
  std::vector<std::unique_ptr<Server>> servers_;
  std::map<std::string, std::vector<float>> values_;
  bool complete_ = false;  // the caller has got all variables
  std::optional<Time> incomplete_since_;
  Time next_search_ = Time::min();  // next call of Forget because of a missing part
  ServerFinder finder_;
};

}  // namespace tandem::ps
