// Limits the number of connections of a server, in total and per source address. Callers that are
// not trusted yet ("strangers") get only a small part of the connections. So strangers cannot
// exhaust the descriptors of the process or displace trusted callers.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/rpc/connection.h"
#include "common/rpc/stranger_budget.h"
#include "common/rpc/token_bucket.h"

namespace tandem::rpc {

struct AdmissionLimits {
  // Maximum number of connections of all callers together. The process needs its other descriptors
  // for files, logs and its own sockets.
  size_t connections_max = 4096;
  size_t strangers_max = 1024;  // maximum number of strangers' connections
  // Maximum number of readers' connections (Standing::kReader), so that readers leave room for the
  // job.
  size_t readers_max = 1024;
  // Maximum number of strangers' connections from one source. A TLS connection needs about 150 kB
  // of memory.
  size_t strangers_per_source_max = 32;
  // Rate limit of the connections of one source that gRPC takes over: a token bucket with one token
  // per connection. A connection returns its token when its caller becomes trusted.
  double begun_burst = 16, begun_per_second = 4;
  // Number of further tokens that a source loses when one of its connections ends after frames that
  // no honest client sends. When a connection of a stranger ends otherwise, the source loses this
  // number times Connection::spent(). Reason for the default: the rejection of a flood of calls
  // needs about 5 ms of CPU time, so one flood per second uses less than 1 % of a core.
  double offence_cost = 7;
  // Maximum debt of a source in tokens. A source with the maximum debt waits (1 + debt_max) /
  // begun_per_second seconds for its next connection.
  double debt_max = 3;
  StrangerLimits strangers;
  // Maximum age of a connection on which the server has accepted no call.
  Duration stranger_lifetime = std::chrono::seconds(60);
  // false: callers cannot prove an identity, so MayBegin makes each caller trusted.
  bool callers_prove = false;
};

// Returns limits for this process: connections_max is half of the descriptor limit, up to 32768.
// The limits of strangers' connections are at most half of connections_max.
AdmissionLimits LimitsForThisProcess();

// Counts and limits the connections of a server. Thread-safe. It must be owned by a shared_ptr,
// because each connection holds a reference to it.
class Admissions : public std::enable_shared_from_this<Admissions> {
 public:
  explicit Admissions(AdmissionLimits limits);

  // Adds a stranger's connection. If a limit is reached, first ends the oldest connection to which
  // the limit applies: of all strangers, or of the strangers of `source`. Returns null if the
  // server has too many connections of trusted callers, or too many ended connections that are
  // still open. The caller must then close `fd`.
  std::shared_ptr<Connection> Admit(int fd, const std::string& peer, const std::string& source,
                                    Time now);
  // Returns whether gRPC may take over the connection now. If false, the caller asks again later.
  bool MayBegin(Connection& connection, Time now);
  // Raise the standing of a connection to `standing`, after the caller of the connection has proven
  // its identity. Have no effect if `standing` is not higher than before, or if `peer` has no open
  // connection. End the connection of a reader if there are too many.
  void Prove(const std::string& peer, Standing standing);
  void Prove(Connection& connection, Standing standing);
  // Ends connections of Standing::kStranger that are older than stranger_lifetime. Removes sources
  // without strangers whose token bucket is full.
  void Expire(Time now);
  // Ends the oldest stranger's connection. Returns false if there is no such connection.
  bool EndOldestStranger();

  const AdmissionLimits& limits() const { return limits_; }
  size_t connections() const;
  size_t strangers() const;
  // Returns the number of connections that Admit and EndOldestStranger ended or rejected.
  uint64_t turned_away() const;

 private:
  struct Source {
    size_t strangers = 0;
    TokenBucket begun;
    std::shared_ptr<StrangerBudget> budget;
  };
  // Connections whose callers are not trusted, the oldest first.
  using Strangers = std::list<std::shared_ptr<Connection>>;

  void Closed(Connection& connection);
  Source& SourceOf(const std::string& name) TD_REQUIRES(mu_);
  // Removes the connection from strangers_. Returns false if the connection is not in strangers_.
  bool TakeOff(Connection& connection) TD_REQUIRES(mu_);
  // Ends the oldest stranger's connection of `source`, or of all sources if `source` is null.
  // Returns false if there is no such connection. An ended connection counts until its descriptor
  // is closed.
  bool EndOldest(const std::string* source) TD_REQUIRES(mu_);

  const AdmissionLimits limits_;
  mutable Mutex mu_;
  std::unordered_map<std::string, Source> sources_ TD_GUARDED_BY(mu_);
  std::unordered_map<std::string, std::weak_ptr<Connection>> by_peer_ TD_GUARDED_BY(mu_);
  Strangers strangers_ TD_GUARDED_BY(mu_);
  std::unordered_map<const Connection*, Strangers::iterator> place_ TD_GUARDED_BY(mu_);
  size_t connections_ TD_GUARDED_BY(mu_) = 0;
  size_t readers_ TD_GUARDED_BY(mu_) = 0;
  uint64_t turned_away_ TD_GUARDED_BY(mu_) = 0;
};

}  // namespace tandem::rpc
