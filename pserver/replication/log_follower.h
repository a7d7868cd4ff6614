// The standby's side of replication: a thread that fetches the checkpoint and the write-ahead log
// of a primary.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "common/base/clock.h"
#include "common/base/endpoint.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/rpc/channel.h"
#include "pserver/replication/log_fetcher.h"

namespace tandem::pserver {

// Follows one primary on a separate thread. Thread-safe.
class LogFollower {
 public:
  struct Progress {
    StandbyState::Position position;
    uint64_t primary_last = 0;  // number of the primary's last entry in its newest reply
    Time heard;                 // time of the newest reply; Time(): there was none
    // Receive time of the newest reply after which the state had all entries of the primary.
    // Time(): there was no such reply since the start, or since a fetched checkpoint replaced the
    // state.
    Time current;
    Status status;  // result of the newest request

    // Records a reply of the primary, whose last entry is `last`.
    void OnReply(uint64_t last, Time now);
    // Records the end of a request, after which the state has this position.
    void OnEnd(const StandbyState::Position& now, const Status& result);
  };
  struct Options {
    std::string job;
    int member = 1;            // number of this standby among its server's members, from 0
    uint64_t incarnation = 0;  // increases at each start of the standby
    Endpoint primary;
    std::string secret;  // the job's secret; "": there is none
    rpc::TlsFiles tls;
    bool insecure_allow_network = false;
    Duration wait = std::chrono::seconds(1);  // maximum time for which the primary holds a request
    Duration pause = std::chrono::milliseconds(100);  // pause after a failed request
    bool replica = false;                             // true: a replica, which has no number
    // Called after each request, on the thread of the follower; null: not called.
    std::function<void(const Progress&)> on_step;
  };

  // `state` must outlive the follower. INVALID_ARGUMENT, PERMISSION_DENIED: the primary's address
  // cannot be used without TLS, or a certificate is invalid.
  static StatusOr<std::unique_ptr<LogFollower>> Start(Options options, StandbyState& state);
  ~LogFollower();  // calls Stop

  Progress progress() const;
  // Makes no further request, waits up to `grace` for the reply to the present one, then cancels it
  // and joins the thread. The state then does not change any more. A reply may be all that the
  // state lacks to be complete.
  void Stop(Duration grace = Duration::zero());

 private:
  struct Connection;
  LogFollower(Options options, StandbyState& state, std::unique_ptr<Connection> connection);
  void Loop();
  bool stopped() const;
  void OnReply(uint64_t primary_last);
  Progress Record(const Status& status);  // records the end of a request; returns the progress

  const Options options_;
  StandbyState& state_;
  const std::unique_ptr<Connection> connection_;
  mutable Mutex mu_;
  CondVar stop_changed_;
  bool stop_ TD_GUARDED_BY(mu_) = false;
  bool ended_ TD_GUARDED_BY(mu_) = false;  // true: the thread makes no request any more
  Progress progress_ TD_GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace tandem::pserver
