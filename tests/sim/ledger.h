// Records what the trainers of a simulated job push and what they know about the fate of each push.
// From these records it computes what the servers must hold.
#pragma once

#include <string>
#include <vector>

#include "common/base/clock.h"
#include "pserver/client/client.h"
#include "pserver/state/shard_snapshot.h"
#include "tests/sim/disk.h"

namespace tandem::pserver {

inline constexpr int64_t kSimWeights = 8;  // on each server
inline constexpr int64_t kSimRowDim = 2;

// The trainers' records, which outlive them.
class SimLedger {
 public:
  SimLedger(int servers, int trainers, int steps);

  // "ledger" [servers, slots] and "weights" [servers, 8]. At first each server has one row of both.
  std::vector<ps::PsVariable> Variables() const;
  int slices() const { return 2 * static_cast<int>(servers_); }
  // Table "rows". Each push has its own row: the first value counts the push, which also counts as
  // one show and one click. All pushes share some other rows, whose shows and clicks extend the row
  // at some time (accessor=ctr).
  std::vector<ps::PsTable> Tables() const;
  static int64_t RowOf(int64_t slot) { return (slot + 1) * 1'000'003; }
  static int64_t SharedRowOf(uint64_t step) { return 1 + static_cast<int64_t>(step % 3); }
  int64_t servers() const { return servers_; }
  int64_t slots() const { return static_cast<int64_t>(fate_.size()); }
  int64_t SlotOf(int trainer, uint64_t step) const;

  void Begin(int trainer, uint64_t step) { Raise(trainer, step, Fate::kBegun); }
  void Acknowledge(int trainer, uint64_t step, Time now);
  // Pushes acknowledged since `since`, or now in progress, may be lost or not, whatever is known
  // about them later.
  void Forgive(Time since);
  // Number of steps whose push this trainer has begun.
  uint64_t begun(int trainer) const;

  // Checks the ledger on the servers; returns "" or the fault. A push counts once on each server if
  // it was acknowledged (`all`: always), and at most once if it was begun. Each trainer may lack as
  // many pushes as the servers report lost (TrainerPushState::lost_pushes).
  std::string Check(const std::vector<ShardSnapshot>& images, bool all) const;
  // Checks a global snapshot that was begun at `begun`; returns "" or the fault. A push that is
  // acknowledged by now counts once on each server or on none. A push acknowledged before `begun`
  // counts once.
  std::string CheckCut(const std::vector<ShardSnapshot>& images, Time begun) const;

 private:
  enum class Fate : uint8_t { kNone, kBegun, kAcknowledged };
  // `spare`: by trainer, the number of pushes that may still be missing.
  std::string CheckSlot(size_t slot, float count, bool all, std::vector<uint64_t>& spare) const;
  void Raise(int trainer, uint64_t step, Fate fate);

  const int64_t servers_, trainers_, steps_;
  std::vector<Fate> fate_;          // by slot
  std::vector<Time> acknowledged_;  // by slot
  std::vector<bool> forgiven_;      // by slot
};

// Parameters and gradients in the memory of a trainer.
class SimBatch {
 public:
  SimBatch(uint64_t seed, const SimLedger& ledger);
  // Chooses the rows of the step.
  void Begin(int trainer, uint64_t step);
  // Computes the gradients of the current step: 1 in the slot of the push; other numbers depend on
  // trainer, step and the pulled weights.
  void Compute(int trainer, uint64_t step);
  std::vector<ps::PsTensor> Parameters();
  std::vector<ps::PsConstTensor> Gradients() const;
  ps::PsRows Rows();
  ps::PsConstRows RowGradients() const;

 private:
  const uint64_t seed_;
  const SimLedger& ledger_;
  std::vector<float> ledger_values_, weights_, ledger_gradient_, weights_gradient_;
  std::vector<int64_t> row_ids_;  // ids of the current step's rows
  std::vector<float> rows_, row_gradients_;
};

// All parameters of a server: slices in their order, then rows with their ids.
std::vector<float> SlicesOf(const ShardSnapshot& image);
std::vector<float> ParametersOf(const ShardSnapshot& image);
// Slices, then rows with their ids, from whichever server serves them.
std::vector<float> ParametersOfAll(const std::vector<ShardSnapshot>& images);
// Applies the recorded updates again in a separate loop: p = p - 1 * g. Returns "" if the snapshot
// has these bits.
std::string CheckOrder(const ShardSnapshot& image, const SimDisk& disk);

}  // namespace tandem::pserver
