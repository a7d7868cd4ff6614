// A simulated parameter server: the product's shard, log, checkpoints and calls, with events of a
// SimWorld in place of threads, and a SimDisk.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/exec/backend.h"
#include "pserver/service/tensor_calls.h"
#include "pserver/shard/durable_shard.h"
#include "tests/sim/disk.h"

namespace tandem {

inline constexpr Duration kSimSyncInterval = std::chrono::milliseconds(100);

struct SimServerOptions {
  std::string job;
  int trainers = 0;
  WalSync wal_sync = WalSync::kAlways;
  uint64_t log_bytes_max = uint64_t{1} << 40;
  uint64_t checkpoint_every_steps = 0;
  ShardBug bug = ShardBug::kNone;
  bool forget_previous = false;  // SimDisk's
  bool replayable = false;       // trainers keep what they push
  uint64_t keep_bytes_max = 0;
};

// Not thread-safe. A process that dies leaves its disk.
class SimServer {
 public:
  using Answer = std::function<void(const Status&, std::string)>;

  // `index`: which server of the job.
  SimServer(int index, SimServerOptions options, SimWorld& world);
  ~SimServer();

  // What is said when the state cannot be taken up, or lies behind a version that somebody was
  // told.
  Status Start();
  // SIGKILL, or with the power of the machine. Nothing that the process began is finished.
  void Kill(bool power);
  bool alive() const { return life_ != nullptr; }
  // A request has come. `answer` is called at most once: not when the process dies first.
  void Handle(const std::string& method, const std::string& request, Answer answer);

  Shard& shard();  // REQUIRES: alive
  // Goes back to a cut. REQUIRES: alive, and nobody calls.
  Status Restore(uint64_t cut);
  SimDisk& disk() { return disk_; }
  // What it told that it must not; "": nothing.
  const std::string& wrong() const { return wrong_; }
  // Those who wait for an answer of this process when it dies are told so, as a broken connection
  // does.
  void OnDeath(std::function<void()> told) { mourners_.push_back(std::move(told)); }

 private:
  struct Life;
  bool Grows();  // what it tells of its version

  const int index_;
  const SimServerOptions options_;
  SimWorld& world_;
  SimDisk disk_;
  uint64_t lives_ = 0;
  std::string wrong_;
  uint64_t told_ = 0;           // the highest version in any answer to a push or pull
  std::shared_ptr<Life> life_;  // null: no process
  std::vector<std::function<void()>> mourners_;
};

}  // namespace tandem
