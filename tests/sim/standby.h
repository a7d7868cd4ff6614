// The standby or replica in a simulated process. On a fiber, it copies the log of the primary of
// its server ("follows" the primary). A standby can become the primary. A replica answers readers.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "pserver/follower_state.h"
#include "pserver/replication/log_follower.h"
#include "pserver/replication/state_history.h"
#include "tests/sim/process.h"
#include "tests/sim/server.h"

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace tandem::pserver {

// A standby or a replica: the product's state of a follower, and its calls to the primary. Not
// thread-safe.
class SimStandby final : public PrimaryCalls {
 public:
  // The process `life` owns the standby. `node`: node of the network between members.
  SimStandby(SimServer::Life& life, int node);
  ~SimStandby() override;

  Status Recover() { return state_.Recover(); }  // restores the state from the disk
  void Start();                                  // REQUIRES: Recover returned OK.
  // Follows member `primary` of the server, or its address if this is a replica. REQUIRES: Start
  // was called, and the standby follows no primary.
  void Follow(int primary = -1);
  StandbyState::Position position() const { return state_.position(); }
  // Returns the position in the log after the last complete step, like Standby::progress.
  StandbyState::Position reported() const { return progress_.position; }
  // Stops following the primary, then calls `then`. The state does not change until Follow.
  void Stop(std::function<void()> then);
  void Kill();  // called when the process has died
  void Pause() { process_->Pause(); }
  void Continue() { process_->Continue(); }
  // Promote begins the term `term` as the primary. Begin begins the first term of the server.
  // REQUIRES: the standby does not follow a primary any more. Errors: those of FollowerState.
  Status Promote(uint64_t term, Replication replication) {
    return state_.Promote(term, progress_.primary_last, replication);
  }
  Status Begin() { return state_.Begin(); }
  // Waits until the process has written its log (FollowerParts).
  Status AwaitLogged();

  // ---- Replicas (pserver/replica.cc) ------------------------------------------------------------
  bool listens() const { return listens_; }  // whether the replica answers readers
  ReplicaHistory* history() { return &history_; }

  Status FetchLog(const FetchLogRequest& request, Duration timeout, FetchLogReply* reply) override;
  Status FetchCheckpoint(const FetchCheckpointRequest& request, Duration timeout,
                         FetchCheckpointReply* reply) override;
  bool stopped() const override { return stop_; }

 private:
  struct OneCall;
  void Run();  // the body of the fiber
  void StopServing();
  void OnStep();
  void Rest();  // waits for the pause in LogFollower::Options, but at most until Stop is called
  Status Call(rpc::PserverCall call, const google::protobuf::Message& request, Duration timeout,
              google::protobuf::Message* reply);

  SimServer::Life& life_;
  const int node_;
  std::shared_ptr<SimProcess> process_;  // one for each call of Follow
  FollowerState state_;
  LogFollower::Progress progress_;
  ReplicaHistory history_;
  bool listens_ = false;
  int primary_ = -1;  // the followed member; -1: a replica follows the server's address
  bool stop_ = false, ended_ = true;
  std::function<void()> then_;
  std::shared_ptr<OneCall> call_;  // the call or pause in progress; null: none
};

}  // namespace tandem::pserver
