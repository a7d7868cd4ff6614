// A standby server: follows a primary, stores and applies its log, and can become the primary.
#pragma once

#include <memory>
#include <string>

#include "common/base/endpoint.h"
#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "pserver/follower_gauges.h"
#include "pserver/pserver.h"
#include "pserver/replication/log_follower.h"

namespace tandem::pserver {

class FollowerState;

// One running standby. Thread-safe, except that Follow, Hold, Promote and Begin must not overlap.
// It listens nowhere before its promotion.
class Standby {
 public:
  // Restores the state in `options.data_dir` if there is one. The standby follows no server before
  // Follow. `options`: the options for the time after a promotion; `durability` must be kLogged and
  // `standbys` at least 1. `metrics` must outlive the standby.
  static StatusOr<std::unique_ptr<Standby>> Start(PserverOptions options, Metrics& metrics);
  ~Standby();  // calls Hold

  LogFollower::Progress progress() const;
  // Follows the server at `primary`, which need not be reachable yet, instead of another one.
  // `incarnation` must be higher than in
  // all earlier calls of any process of this member to the same server process. INVALID_ARGUMENT,
  // PERMISSION_DENIED: as for LogFollower::Start; FAILED_PRECONDITION: the standby was promoted.
  Status Follow(const Endpoint& primary, uint64_t incarnation);
  // Stops following. From then on the state does not change, so the standby acknowledges no entry.
  void Hold();
  // Stops following, and serves as the primary of `term`. The caller must know that
  // - no other server is or becomes the primary of this or a later term,
  // - of the standbys that a majority needs, none has a later term or more entries, and
  // - none of them follows the old primary any more: with two standbys, the old primary and one
  //   standby are a majority, and would acknowledge further pushes.
  // FAILED_PRECONDITION: `term` is not higher than the term of the state, or the standby has no
  // state or an incomplete one. The standby then follows no more.
  StatusOr<std::unique_ptr<Pserver>> Promote(uint64_t term);
  // Stops following, and serves as the first primary of a new history. The caller must know that no
  // member of the server has a state. FAILED_PRECONDITION: this standby has a state. The standby
  // then follows no more.
  StatusOr<std::unique_ptr<Pserver>> Begin();

 private:
  Standby(PserverOptions options, Metrics& metrics);

  const PserverOptions options_;
  Metrics& metrics_;
  FollowerGauges gauges_;
  Counter& promotions_;
  std::unique_ptr<ServerParts> parts_;
  std::unique_ptr<FollowerState> state_;
  mutable Mutex mu_;
  std::shared_ptr<LogFollower> follower_ TD_GUARDED_BY(mu_);  // null: it follows no server
  LogFollower::Progress held_ TD_GUARDED_BY(mu_);             // the progress without a follower
};

}  // namespace tandem::pserver
