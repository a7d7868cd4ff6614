// How many connections a server has, and whose: callers that have not proved who they are get a
// small part, so that they can take neither the descriptors of the process nor the places of
// others.
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
  // Of all callers together. The rest of the descriptors is for files, logs and sockets that this
  // process opens itself.
  size_t connections_max = 4096;
  size_t strangers_max = 1024;
  size_t strangers_per_source_max = 32;  // a TLS connection takes about 150 kB
  // New connections of a source that gRPC takes on. A caller that proves who it is does not count.
  double begun_burst = 16, begun_per_second = 4;
  // A connection that proved nothing costs its source up to so many further ones when it ends: all
  // of them after frames that no honest client sends, else by the budget that it took. A refused
  // flood of calls takes about 5 ms of a core, so one a second stays below 1 %.
  double offence_cost = 7;
  // So many may be missing: the next connection of the source then waits (1 + debt_max) / 4 s.
  double debt_max = 3;
  StrangerLimits strangers;
  Duration stranger_lifetime = std::chrono::seconds(60);
  // False: there is nothing to prove, every caller counts as trusted once gRPC has its connection.
  bool callers_prove = false;
};

// connections_max is half of the limit of descriptors, and the others fit into that.
AdmissionLimits LimitsForThisProcess();

// Thread-safe. Held by a shared_ptr, which each connection has a copy of.
class Admissions : public std::enable_shared_from_this<Admissions> {
 public:
  explicit Admissions(AdmissionLimits limits);

  // Counts the connection. When there is no place, the oldest stranger's is ended for it; null when
  // there is none, and then the caller closes the descriptor.
  std::shared_ptr<Connection> Admit(int fd, const std::string& peer, const std::string& source,
                                    Time now);
  // Whether gRPC may take on the connection now; if not, ask again later.
  bool MayBegin(Connection& connection, Time now);
  // The connection proved who it is. Nothing happens when it is gone.
  void Prove(const std::string& peer, Standing standing);
  void Prove(Connection& connection, Standing standing);
  // Ends strangers that are older than their lifetime, and forgets idle sources.
  void Expire(Time now);
  // Ends the oldest stranger; false when there is none.
  bool EndOldestStranger();

  const AdmissionLimits& limits() const { return limits_; }
  size_t connections() const;
  size_t strangers() const;
  // Connections that were ended or refused for want of a place.
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
  // Takes it off the list of strangers; false when it is not there.
  bool TakeOff(Connection& connection) TD_REQUIRES(mu_);
  // `source` null: any. The connection stays counted until its descriptor is closed.
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
