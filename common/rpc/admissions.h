// Limits the number of connections of a server, in total and per caller. Callers without a proven
// identity ("strangers") get a small part only. So they cannot exhaust the descriptors of the
// process or displace other callers.
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
  // Limit for all callers together. The other descriptors are for files, logs and sockets that this
  // process opens itself.
  size_t connections_max = 4096;
  size_t strangers_max = 1024;
  size_t strangers_per_source_max = 32;  // a TLS connection takes about 150 kB
  // New connections of one source that gRPC accepts. A caller that proves its identity does not
  // count.
  double begun_burst = 16, begun_per_second = 4;
  // When an unproven connection ends, it costs its source up to this number of further connections.
  // The cost is the full number after frames that no honest client sends. Otherwise it is
  // proportional to the budget that the connection used.
  // A refused flood of calls takes about 5 ms of a core, so one flood per second uses less than 1
  // %.
  double offence_cost = 7;
  // The debt limit of a source, in connections: the next connection then waits (1 + debt_max) / 4
  // s.
  double debt_max = 3;
  StrangerLimits strangers;
  Duration stranger_lifetime = std::chrono::seconds(60);
  // False: callers cannot prove an identity, so each caller counts as trusted once gRPC has its
  // connection.
  bool callers_prove = false;
};

// Sets connections_max to half of the descriptor limit, and the other limits to fit into it.
AdmissionLimits LimitsForThisProcess();

// Thread-safe. Owned by a shared_ptr; each connection holds a copy of it.
class Admissions : public std::enable_shared_from_this<Admissions> {
 public:
  explicit Admissions(AdmissionLimits limits);

  // Counts the connection. If the server is full, it ends the oldest stranger's connection to make
  // room.
  // Returns null if there is no stranger; the caller must then close the descriptor.
  std::shared_ptr<Connection> Admit(int fd, const std::string& peer, const std::string& source,
                                    Time now);
  // Returns whether gRPC may accept the connection now. If not, call again later.
  bool MayBegin(Connection& connection, Time now);
  // Records that the connection's caller proved its identity. Does nothing if the connection is
  // closed.
  void Prove(const std::string& peer, Standing standing);
  void Prove(Connection& connection, Standing standing);
  // Ends connections of strangers that are older than stranger_lifetime, and forgets idle sources.
  void Expire(Time now);
  // Ends the oldest stranger's connection. Returns false if there is none.
  bool EndOldestStranger();

  const AdmissionLimits& limits() const { return limits_; }
  size_t connections() const;
  size_t strangers() const;
  // Number of connections that were ended or refused because the server was full.
  uint64_t turned_away() const;

 private:
  struct Source {
    size_t strangers = 0;
    TokenBucket begun;
    std::shared_ptr<StrangerBudget> budget;
  };
  using Strangers = std::list<std::shared_ptr<Connection>>;  // oldest first

  void Closed(Connection& connection);
  Source& SourceOf(const std::string& name) TD_REQUIRES(mu_);
  // Removes the connection from the list of strangers. Returns false if it is not in the list.
  bool TakeOff(Connection& connection) TD_REQUIRES(mu_);
  // `source` null: any source. The connection counts until its descriptor is closed.
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
