// The standby in a simulated process: follows the primary of its server on a fiber, and can become
// the primary. The steps are those of pserver/standby.cc.
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

// Not thread-safe.
class SimStandby final : public StandbyState, public PrimaryCalls {
 public:
  // The process `life` owns the standby. `node`: node of the network between members.
  SimStandby(SimServer::Life& life, int node);
  ~SimStandby() override;

  Status Recover();  // restores the stored state
  void Start();      // follows the primary. REQUIRES: Recover returned OK.
  // Position after the last complete step, as Standby::progress has it.
  Position reported() const { return reported_; }
  // Ends following, then calls `then`. The state does not change any more.
  void Stop(std::function<void()> then);
  void Kill();  // the process has died
  void Pause() { process_->Pause(); }
  void Continue() { process_->Continue(); }
  // Begins a term as the primary. REQUIRES: following has ended. Errors: as Standby::Promote and
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
  void Rest();  // waits for the pause of LogFollower::Options, or until Stop
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
