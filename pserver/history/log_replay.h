// Replays the kept log of one server, beside the server, and shows each update to an observer.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/tensor/device.h"
#include "kernels/exec/backend.h"
#include "pserver/rocksdb/store_reader.h"
#include "pserver/shard/state_replay.h"

namespace tandem::pserver {

// The identity of a logged push.
struct PushFacts {
  uint64_t entry = 0;   // number of the log entry
  int64_t time_us = 0;  // microseconds of Unix time; 0: unknown
  int trainer = 0;
  uint64_t incarnation = 0, sequence = 0;
  uint64_t step = 0;  // the step of the trainer, from 0
  float learning_rate = 0;
};
PushFacts FactsOf(const ScannedEntry& scanned, const PushRecord& push);

struct ReplayedPush {
  PushFacts facts;
  PushRecord record;  // shares the values with the log entry
};

// Reads the log in its order. From the first entry that follows a stored state on, applies each
// entry to this state. After a restore, continues from the restored state; if this state is no
// longer stored, the values are unknown until the next stored state. Not thread-safe.
class LogReplay {
 public:
  // Receives what the replay does. An error ends the replay.
  class Observer {
   public:
    virtual ~Observer() = default;
    // A stored state was loaded. `next`: number of the first log entry after it.
    virtual Status OnState(const StoreReader::State& /*state*/, uint64_t /*next*/,
                           StateReplay& /*replay*/) {
      return OkStatus();
    }
    // Called before an entry is applied. `replayed`: the values are known, so it will be applied.
    virtual void OnEntry(const ScannedEntry& /*entry*/, bool /*replayed*/) {}
    // `pushes` are in the parameters now: one push, or in sync mode all pushes of a step. `entry`:
    // number of the entry that completed the update.
    virtual Status OnUpdate(std::span<const ReplayedPush> pushes, uint64_t entry,
                            StateReplay& replay) = 0;
    // The server serves other rows or slices than before the entry.
    virtual Status OnMove(uint64_t /*entry*/, StateReplay& /*replay*/) { return OkStatus(); }
    // true: the replay ends after this entry.
    virtual bool Done() const { return false; }
  };

  // `reader` must outlive this object. `server`: index of the server.
  LogReplay(const StoreReader& reader, int server) : reader_(reader), server_(server) {}

  // Reads the entries from `first` on, without the entries from `end` on. If values are known
  // before entry `end`, state() has them. Needs the memory for the whole state of the server.
  // Blocks. Called once. DATA_LOSS: the log or a state is damaged. FAILED_PRECONDITION: the log has
  // no values.
  Status Run(Observer& observer, uint64_t first, uint64_t end = UINT64_MAX);
  // Loads a state without log entries. Called instead of Run.
  Status Load(Observer& observer, const StoreReader::State& state);
  // Null: the values are not known.
  StateReplay* state() { return replay_.get(); }

 private:
  Status Take(Observer& observer, ScannedEntry scanned);
  // Loads the state before an entry if it is stored. After a restore, only the restored snapshot or
  // the checkpoint are this state for sure.
  Status BeginAt(Observer& observer, const ScannedEntry& next);
  Status LoadAt(Observer& observer, const StoreReader::State& state, uint64_t number);
  Status Complete(Observer& observer, uint64_t entry);

  const StoreReader& reader_;
  const int server_;
  CpuDevice device_;
  exec::Backend backend_ = exec::Backend::Cpu();
  uint64_t end_ = UINT64_MAX;
  std::vector<StoreReader::State> states_;
  std::unique_ptr<StateReplay> replay_;
  bool sync_ = false;
  std::vector<ReplayedPush> waiting_;  // pushes that are not in the parameters yet
};

}  // namespace tandem::pserver
