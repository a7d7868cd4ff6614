// The standby in a simulated process. On a fiber, the standby copies the log of the primary of its
// server ("follows" the primary). The standby can become the primary. The steps are those of
// pserver/standby.cc.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "pserver/replication/log_fetcher.h"
#include "tests/sim/process.h"
#include "tests/sim/server.h"

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace tandem::pserver {

// The state of a standby and its calls to the primary. Not thread-safe.
class SimStandby final : public StandbyState, public PrimaryCalls {
 public:
  // The process `life` owns the standby. `node`: node of the network between members.
  SimStandby(SimServer::Life& life, int node);
  ~SimStandby() override;

  Status Recover();  // restores the state from the disk
  void Start();      // starts to follow the primary. REQUIRES: Recover returned OK.
  // Returns the position in the log after the last complete step, like Standby::progress.
  Position reported() const { return reported_; }
  // Stops following the primary, then calls `then`. From then on the state does not change.
  void Stop(std::function<void()> then);
  void Kill();  // called when the process has died
  void Pause() { process_->Pause(); }
  void Continue() { process_->Continue(); }
  // Promote begins the term `term` as the primary. Begin begins the first term of the server.
  // REQUIRES: the standby does not follow a primary any more. Errors: those of Standby::Promote and
  // Standby::Begin.
  Status Promote(uint64_t term);
  Status Begin();

  Position position() const override { return position_; }
  Status Append(std::vector<LogEntry> entries) override;
  Status SetTerm(const LogTerm& term) override;
  Status SetComplete() override;
  StatusOr<std::string> NewValuesFile() override;
  Status Install(const std::string& record, const std::string& path, const LogTerm& term) override;

  Status FetchLog(const FetchLogRequest& request, Duration timeout, FetchLogReply* reply) override;
  Status FetchCheckpoint(const FetchCheckpointRequest& request, Duration timeout,
                         FetchCheckpointReply* reply) override;
  bool stopped() const override { return stop_; }

 private:
  struct OneCall;
  void Follow();
  void Rest();  // waits for the pause in LogFollower::Options, but at most until Stop is called
  Status Call(rpc::PserverCall call, const google::protobuf::Message& request, Duration timeout,
              google::protobuf::Message* reply);

  SimServer::Life& life_;
  const std::shared_ptr<SimProcess> process_;
  Position position_, reported_;
  bool started_ = false, stop_ = false, ended_ = false;
  std::function<void()> then_;
  std::shared_ptr<OneCall> call_;  // the call or pause in progress; null: none
};

}  // namespace tandem::pserver
