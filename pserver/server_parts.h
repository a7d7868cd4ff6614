// The parts of a server that need no network: stores, shard, and the threads that write. A primary
// and a standby have the same parts.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/base/metrics.h"
#include "common/shm_rpc/shm_rpc_server.h"
#include "common/threads/fork_join.h"
#include "common/threads/runner.h"
#include "kernels/exec/backend.h"
#include "pserver/disk/checkpoint_throttle.h"
#include "pserver/follower_state.h"
#include "pserver/pserver.h"
#include "pserver/replication/log_source.h"
#include "pserver/replication/term_keeper.h"
#include "pserver/shard/durable_shard.h"
#include "pserver/storage/group_commit_log.h"
#include "pserver/storage/storage.h"
#include "pserver/tables/rows/cold_rows.h"

namespace tandem::pserver {

// Not thread-safe, except for the objects that the accessors return.
class ServerParts final : public FollowerParts {
 public:
  // Opens the stores and makes the shard, which is empty until Recover. `metrics` must outlive the
  // parts. INVALID_ARGUMENT: the options contradict each other, or the device is not available.
  static StatusOr<std::unique_ptr<ServerParts>> Open(const PserverOptions& options,
                                                     Metrics& metrics);
  ~ServerParts() override;  // calls End

  StatusOr<uint64_t> Recover() override;
  Status MakeEmptyShard() override;
  Status AwaitLogged() override;
  Status BeginReplication(LogTerm term, std::optional<LogSource::Predecessor> predecessor) override;
  Status ResumeReplication() override;
  // Closes the shard and fails the calls whose changes could not be written. No call waits after
  // End.
  void End();

  DurableShard& durable() override { return *durable_; }
  Storage* storage() override { return storage_.get(); }  // null: there is no data directory
  LogSource* source() { return source_.get(); }           // null: durability is not kLogged
  RealClock& clock() { return clock_; }
  uint64_t incarnation() const { return incarnation_; }
  const std::optional<shm_rpc::ServerMemory>& shm_memory() const { return shm_memory_; }

 private:
  ServerParts(const PserverOptions& options, Metrics& metrics);
  Status OpenPlace();
  Status OpenStores();
  Status OpenColdStore();
  void MakeShard();
  void EndShard();
  TermKeeper::Log Log();
  void OnWritten(std::span<const LogEntry> entries);
  // Runs `work` on the writer thread and waits for its end. Runs `work` on the calling thread if
  // the queue of the writer thread is full.
  void Aside(const std::function<void()>& work);

  const PserverOptions options_;
  const uint64_t incarnation_;  // a random number
  Metrics& metrics_;
  // Shared memory for clients on this host; nullopt: none.
  std::optional<shm_rpc::ServerMemory> shm_memory_;
  RealClock clock_;
  CpuDevice device_;
  exec::Backend backend_ = exec::Backend::Cpu();
  std::optional<exec::Backend> slice_backend_;  // set if slices are on another device
  std::unique_ptr<Device> slice_device_;        // set together with slice_backend_
  CheckpointThrottle pace_{
      {[this] { return durable_ == nullptr ? 0 : durable_->shard().pushes(); }, {}}};
  // Set when the shutdown begins. A second pending request makes the writers of checkpoints stop
  // their pauses.
  std::optional<CheckpointThrottle::Wish> hurry_;
  std::unique_ptr<Storage> storage_;
  std::unique_ptr<ColdStore> cold_;        // null: all rows of tables are in memory
  std::unique_ptr<ForkJoin> row_workers_;  // threads for updates; used only under the shard's lock
  std::unique_ptr<LogSource> source_;
  std::unique_ptr<TermKeeper> terms_;  // set together with source_
  std::unique_ptr<DurableShard> durable_;
  std::unique_ptr<LogFlushThread> log_driver_;  // null: durability is none
  std::unique_ptr<ThreadPool> writer_;          // one thread; runs the functions passed to Aside()
  std::unique_ptr<ThreadPool> saver_;           // one thread, with a queue of one snapshot
};

}  // namespace tandem::pserver
