// A simulated parameter server. The server uses the product's shard, log, checkpoints and calls.
// Events of a SimWorld replace threads, and a SimDisk replaces the disk.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/rpc/pserver_call.h"
#include "kernels/exec/backend.h"
#include "pserver/service/tensor_calls.h"
#include "pserver/shard/durable_shard.h"
#include "tests/sim/disk.h"

namespace tandem::pserver {

inline constexpr Duration kSimSyncInterval = std::chrono::milliseconds(100);

struct SimServerOptions {
  std::string job;
  int trainers = 0;
  WalSync wal_sync = WalSync::kAlways;
  uint64_t log_bytes_max = uint64_t{1} << 40;
  uint64_t checkpoint_every_steps = 0;
  bool forget_previous = false;  // injects a bug: see the constructor of SimDisk
  // Whether the log has only the order of pushes. If so, trainers keep their pushes.
  bool replayable = false;
  uint64_t keep_bytes_max = 0;
};

// A server and its disk. The disk survives the death of the process. Not thread-safe.
class SimServer {
 public:
  using Answer = std::function<void(const Status&, std::string)>;

  // `index`: the number of the server in the job.
  SimServer(int index, SimServerOptions options, SimWorld& world);
  ~SimServer();

  // Starts a process, which recovers the state from the disk. Returns the errors of
  // DurableShard::Recover. DATA_LOSS also: no logged push lacks its values, but the recovered
  // version is below the highest version in a reply to a push or a pull. Without wal_sync=always,
  // only replies after the last power loss count.
  Status Start();
  // Simulates SIGKILL. If `power` is true, the machine also loses power. Operations in progress are
  // not completed.
  void Kill(bool power);
  bool alive() const { return life_ != nullptr; }
  // Handles a request. Calls `answer` once with the reply, or never if the process dies first.
  void Handle(rpc::PserverCall call, const std::string& request, Answer answer);

  Shard& shard();  // Returns the shard of the running process. REQUIRES: alive().
  // Restores a global snapshot. REQUIRES: alive(), and no call is in progress.
  Status Restore(uint64_t snapshot);
  SimDisk& disk() { return disk_; }
  // Describes a wrong reply of this server; "": there was none.
  const std::string& wrong() const { return wrong_; }
  // Calls `told` when the process dies. Thus callers that wait for a reply detect the broken
  // connection.
  void OnDeath(std::function<void()> told) { mourners_.push_back(std::move(told)); }

 private:
  struct Life;
  bool Grows();  // whether the version in replies never decreases

  const int index_;
  const SimServerOptions options_;
  SimWorld& world_;
  SimDisk disk_;
  uint64_t lives_ = 0;
  std::string wrong_;
  uint64_t told_ = 0;           // highest version in any reply to a push or a pull
  std::shared_ptr<Life> life_;  // the running process; null: none
  std::vector<std::function<void()>> mourners_;
};

}  // namespace tandem::pserver
