// A simulated parameter server. It uses the product's shard, log, checkpoints and calls. Events of
// a SimWorld replace the threads, and a SimDisk replaces the disk.
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
  bool forget_previous = false;  // see SimDisk
  bool replayable = false;       // trainers keep their pushes
  uint64_t keep_bytes_max = 0;
};

// Not thread-safe. The disk outlives a process that dies.
class SimServer {
 public:
  using Answer = std::function<void(const Status&, std::string)>;

  // `index`: number of the server in the job.
  SimServer(int index, SimServerOptions options, SimWorld& world);
  ~SimServer();

  // Fails if the state cannot be loaded, or is older than a version that a trainer has received.
  Status Start();
  // SIGKILL, alone or with a power loss of the machine. No operation of the process is completed.
  void Kill(bool power);
  bool alive() const { return life_ != nullptr; }
  // Handles a request. `answer` is called at most once; it is not called if the process dies first.
  void Handle(rpc::PserverCall call, const std::string& request, Answer answer);

  Shard& shard();  // REQUIRES: alive
  // Restores a global snapshot. REQUIRES: alive, no call in progress.
  Status Restore(uint64_t snapshot);
  SimDisk& disk() { return disk_; }
  // A wrong reply that the server gave; "": none.
  const std::string& wrong() const { return wrong_; }
  // Calls `told` when the process dies, as a broken connection would inform callers that wait for a
  // reply.
  void OnDeath(std::function<void()> told) { mourners_.push_back(std::move(told)); }

 private:
  struct Life;
  bool Grows();  // whether the reported version only grows

  const int index_;
  const SimServerOptions options_;
  SimWorld& world_;
  SimDisk disk_;
  uint64_t lives_ = 0;
  std::string wrong_;
  uint64_t told_ = 0;           // highest version in any reply to a push or pull
  std::shared_ptr<Life> life_;  // null: no process
  std::vector<std::function<void()>> mourners_;
};

}  // namespace tandem::pserver
