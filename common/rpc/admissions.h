// Limits the number of connections of a server, in total and per caller. Callers without a proven
// identity ("strangers") get only a small part of the connections. So strangers cannot exhaust the
// descriptors of the process or displace other callers.
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
  size_t strangers_max = 1024;
  // Maximum number of strangers' connections from one source. One with TLS takes about 150 kB.
  size_t strangers_per_source_max = 32;
  // Rate limit for new connections of one source. Callers that prove their identity do not count.
  double begun_burst = 16, begun_per_second = 4;
  // When an unproven connection ends, its source may open fewer connections: `offence_cost` fewer
  // after frames that no honest client sends. Otherwise the cost is proportional to the part of the
  // budget that the connection used. To refuse a flood of calls takes about 5 ms of a core, so one
  // flood per second uses less than 1 % of a core.
  double offence_cost = 7;
  // Maximum debt of a source, in connections. A source with the maximum debt waits (1 + debt_max) /
  // 4 s for its next connection.
  double debt_max = 3;
  StrangerLimits strangers;
  Duration stranger_lifetime = std::chrono::seconds(60);
  // False: callers have no means to prove an identity, so each caller is trusted once gRPC has it.
  bool callers_prove = false;
};

// Returns limits for this process: connections_max is half of the descriptor limit, and the other
// limits are adapted to it.
AdmissionLimits LimitsForThisProcess();

// Counts and limits the connections of a server. Thread-safe. It must be owned by a shared_ptr,
// because each connection holds a reference to it.
class Admissions : public std::enable_shared_from_this<Admissions> {
 public:
  explicit Admissions(AdmissionLimits limits);

  // Adds a connection to the count. If the server is full, ends the oldest stranger's connection to
  // make room. Returns null if it is full of other callers; the caller must then close `fd`.
  std::shared_ptr<Connection> Admit(int fd, const std::string& peer, const std::string& source,
                                    Time now);
  // Returns whether gRPC may accept the connection now. If not, the caller asks again later.
  bool MayBegin(Connection& connection, Time now);
  // Records that the connection's caller proved its identity. No effect if it is closed.
  void Prove(const std::string& peer, Standing standing);
  void Prove(Connection& connection, Standing standing);
  // Ends strangers' connections that are older than stranger_lifetime. Removes sources without
  // connections and debt.
  void Expire(Time now);
  // Ends the oldest stranger's connection. Returns false if there is none.
  bool EndOldestStranger();

  const AdmissionLimits& limits() const { return limits_; }
  size_t connections() const;
  size_t strangers() const;
  // Returns the number of connections that were ended or refused because the server was full.
  uint64_t turned_away() const;

 private:
  struct Source {
    size_t strangers = 0;
    TokenBucket begun;
    std::shared_ptr<StrangerBudget> budget;
  };
  // A list of strangers' connections, the oldest first.
  using Strangers = std::list<std::shared_ptr<Connection>>;

  void Closed(Connection& connection);
  Source& SourceOf(const std::string& name) TD_REQUIRES(mu_);
  // Removes the connection from the list of strangers. Returns false if it is not in the list.
  bool TakeOff(Connection& connection) TD_REQUIRES(mu_);
  // Ends the oldest stranger's connection of `source`; null: of any source. The connection is
  // counted until its descriptor is closed.
  bool EndOldest(const std::string* source) TD_REQUIRES(mu_);

  const AdmissionLimits limits_;
  mutable Mutex mu_;
  std::unordered_map<std::string, Source> sources_ TD_GUARDED_BY(mu_);
  std::unordered_map<std::string, std::weak_ptr<Connection>> by_peer_ TD_GUARDED_BY(mu_);
  Strangers strangers_ TD_GUARDED_BY(mu_);
  std::unordered_map<const Connection*, Strangers::iterator> place_ TD_GUARDED_BY(mu_);
  size_t connections_ TD_GUARDED_BY(mu_) = 0;
  uint64_t turned_away_ TD_GUARDED_BY(mu_) = 0;
};

}  // namespace tandem::rpc
