// A read replica: follows a server and answers reads from its copy of the state.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "common/base/endpoint.h"
#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "pserver/follower_gauges.h"
#include "pserver/pserver.h"
#include "pserver/replication/log_follower.h"
#include "pserver/replication/state_history.h"

namespace tandem::pserver {

class FollowerState;
class ServerFront;

// One running replica. Thread-safe. It answers pulls of observers, PullTable, PullState and
// GetStatus. Each reply has the state between two updates, and only updates that no promotion of a
// standby can take back. The primary does not wait for a replica.
//
// A replica listens from the moment at which it first has all entries of its primary. When it has
// been away for so long that it must fetch the checkpoint again, or when the primary restores a
// checkpoint, it closes its connections until it has the new state.
class Replica {
 public:
  // Restores the state in `options.data_dir` if there is one, then follows the server at `primary`,
  // which need not be reachable yet. `options.durability` must be kLogged, and `standbys` 0.
  // `metrics` must outlive the replica. options.on_failure is also called if the replica cannot
  // listen.
  // `on_listening`: called each time the replica begins to listen, on any thread; null: not called.
  using OnListening = std::function<void(const ServerFront&)>;
  static StatusOr<std::unique_ptr<Replica>> Start(PserverOptions options, const Endpoint& primary,
                                                  Metrics& metrics,
                                                  OnListening on_listening = nullptr);
  ~Replica();  // stops the replica immediately

  LogFollower::Progress progress() const;
  // Returns the address at which the replica listens; nullopt: it does not listen now.
  std::optional<Endpoint> endpoint() const;
  // Returns the address for Redis clients; nullopt: the replica does not answer them now.
  std::optional<Endpoint> resp_endpoint() const;

 private:
  Replica(PserverOptions options, Metrics& metrics);
  void StopServing();
  // Starts to listen if the replica has all entries. Called after each step of the follower.
  void OnStep(const LogFollower::Progress& progress);

  PserverOptions options_;
  Metrics& metrics_;
  FollowerGauges gauges_;
  ReplicaHistory history_;
  OnListening on_listening_;
  std::unique_ptr<ServerParts> parts_;
  std::unique_ptr<FollowerState> state_;
  mutable Mutex mu_;
  std::unique_ptr<ServerFront> front_ TD_GUARDED_BY(mu_);  // null: the replica does not listen
  LogFollower::Progress progress_ TD_GUARDED_BY(mu_);
  bool failed_ = false;  // the replica could not listen; only the follower's thread uses it
  std::unique_ptr<LogFollower> follower_;
};

}  // namespace tandem::pserver
