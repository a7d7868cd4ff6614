// Records which pushes the trainers of a simulated job made, and what the trainers know about the
// fate of each push. From these records the ledger computes the values that the servers must have.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "pserver/client/client.h"
#include "pserver/state/shard_snapshot.h"
#include "tests/sim/disk.h"

namespace tandem::pserver {

inline constexpr int64_t kSimWeights = 8;  // number of weights on each server
inline constexpr int64_t kSimRowDim = 2;

// The records of all trainers. The records outlive the processes of the trainers.
class SimLedger {
 public:
  // `fading`: rules of the table "fading"; "": the job has no such table.
  SimLedger(int servers, int trainers, int steps, const std::string& fading = "");

  // Returns the variables "ledger" [servers, slots] and "weights" [servers, 8]. Initially each
  // server has one row of both variables.
  std::vector<ps::PsVariable> Variables() const;
  int slices() const { return 2 * static_cast<int>(servers_); }
  // Returns the table "rows" (accessor=ctr). Each push has its own row, and adds 1 to the first
  // value, to the shows and to the clicks of this row. All pushes also update a few shared rows.
  // After some pushes, the shows and clicks of a shared row reach the threshold of embedx, and the
  // row gets its remaining values. With `fading`, also returns the table "fading", whose rows are
  // removed if no push updates them for a few versions or seconds of event time.
  std::vector<ps::PsTable> Tables() const;
  bool fading() const { return !fading_.empty(); }
  // Returns the event time of a push in milliseconds; 0: the job has no table "fading".
  int64_t EventTimeOf(uint64_t step) const {
    return fading() ? 1'700'000'000'000 + static_cast<int64_t>(step) * 1000 : 0;
  }
  static int64_t RowOf(int64_t slot) { return (slot + 1) * 1'000'003; }
  // Returns the slot of a row; -1: the row is shared.
  static int64_t SlotOfRow(int64_t id) { return id / 1'000'003 - 1; }
  static int64_t SharedRowOf(uint64_t step) { return 1 + static_cast<int64_t>(step % 3); }
  int64_t servers() const { return servers_; }
  int64_t trainers() const { return trainers_; }
  int64_t slots() const { return static_cast<int64_t>(fate_.size()); }
  int64_t SlotOf(int trainer, uint64_t step) const;

  // Declares that servers went back to a global snapshot, so acknowledged pushes may be lost.
  void Rewind();
  void Begin(int trainer, uint64_t step) { Raise(trainer, step, Fate::kBegun); }
  void Acknowledge(int trainer, uint64_t step, Time now);
  // Declares that some pushes may be lost: those in progress, and those that were acknowledged at
  // `since` or later. Later acknowledgements of these pushes are ignored.
  void Forgive(Time since);
  // Declares that the process of this trainer has ended. A server that loses the pushes that were
  // acknowledged to it may not count them.
  void ForgiveProcess(int trainer);
  // Returns the number of steps whose push this trainer has begun.
  uint64_t begun(int trainer) const;
  // Returns whether the push of a slot may be lost (Forgive).
  bool forgiven(int64_t slot) const { return forgiven_[static_cast<size_t>(slot)]; }

  // Checks the slots and the rows on the servers. Returns "" or a description of the fault. Each
  // server must apply an acknowledged push exactly once, and a push that only began at most once.
  // If `all` is true, each server must apply every push exactly once. Exception: for each trainer,
  // as many pushes may be missing on a server as the server reports lost
  // (TrainerPushState::lost_pushes).
  std::string Check(const std::vector<ShardSnapshot>& images, bool all) const;
  struct MissingPushes {
    uint64_t certain = 0;   // acknowledged pushes
    uint64_t forgiven = 0;  // further ones of processes that have ended (ForgiveProcess)
  };
  // Returns by trainer how many pushes the slots of a server lack.
  std::vector<MissingPushes> Missing(const ShardSnapshot& image) const;
  // Checks a global snapshot that began at `begun`. Returns "" or a description of the fault.
  // Either each server has applied an acknowledged push once, or no server has applied it. Each
  // server must have applied once a push that was acknowledged before `begun`.
  // `repeated`: the pushes of trainers that die are repeated (SimPlan::source). Then a server may
  // have a push that another one gets later. `rewound`: trainers pushed while the job was restored,
  // so a server may lack a push that was acknowledged before.
  std::string CheckCut(const std::vector<ShardSnapshot>& images, Time begun, bool repeated,
                       bool rewound) const;

 private:
  enum class Fate : uint8_t { kNone, kBegun, kAcknowledged };
  // Checks one slot. `spare`: for each trainer, the number of pushes that may still be missing. If
  // the push of the slot is missing, the call decrements this number. Returns "" or a description
  // of the fault.
  std::string CheckSlot(size_t slot, float count, bool all, std::vector<uint64_t>& spare) const;
  void Raise(int trainer, uint64_t step, Fate fate);

  const int64_t servers_, trainers_, steps_;
  const std::string fading_;
  std::vector<Fate> fate_;          // fate of each push, by slot
  std::vector<Time> acknowledged_;  // time of each acknowledgement, by slot
  std::vector<bool> forgiven_;      // whether the push may be lost, by slot
};

// The parameters and gradients in the memory of one trainer.
class SimBatch {
 public:
  SimBatch(uint64_t seed, const SimLedger& ledger);
  // Chooses the rows of the step. The caller calls Begin before Compute.
  void Begin(int trainer, uint64_t step);
  // Computes the gradients of the step. In "ledger", the gradient is -1 in the slot of the push on
  // each server, and 0 in all other slots. The gradient is also -1 for the first value of the row
  // of the push. An update with learning rate 1 thus adds 1. All other gradients depend on trainer,
  // step and the pulled values.
  void Compute(int trainer, uint64_t step);
  std::vector<ps::PsTensor> Parameters();
  std::vector<ps::PsConstTensor> Gradients() const;
  ps::PsRows Rows();
  std::vector<ps::PsConstRows> RowGradients() const;

 private:
  const uint64_t seed_;
  const SimLedger& ledger_;
  std::vector<float> ledger_values_, weights_, ledger_gradient_, weights_gradient_;
  std::vector<int64_t> row_ids_;  // ids of the rows of the current step
  std::vector<float> rows_, row_gradients_;
  std::vector<int64_t> fading_ids_;
  std::vector<float> fading_gradients_;
};

// Returns the weights of the rows of a table on a server, which owns them. A weight that a row does
// not have yet is 0.
std::map<uint64_t, std::vector<float>> WeightsOf(const ShardSnapshot& image,
                                                 const std::string& table);
// Returns the parameters of a server. SlicesOf returns the values of the slices. ParametersOf
// returns the values of the slices, then the id and the values of each row.
std::vector<float> SlicesOf(const ShardSnapshot& image);
std::vector<float> ParametersOf(const ShardSnapshot& image);
// Like ParametersOf, for all servers together. The result has each slice and each row once, with
// the values of the server that owns the slice or the row.
std::vector<float> ParametersOfAll(const std::vector<ShardSnapshot>& images);
// Applies the recorded updates again in a separate loop: p = p - 1 * g. Returns "" if the result
// has the same bits as the snapshot, else a description of the difference.
std::string CheckOrder(const ShardSnapshot& image, const SimDisk& disk);

}  // namespace tandem::pserver
