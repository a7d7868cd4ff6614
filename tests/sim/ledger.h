// What trainers of a simulated job push, what became of it as they know, and what must therefore be
// on the servers.
#pragma once

#include <string>
#include <vector>

#include "common/base/clock.h"
#include "pserver/client/client.h"
#include "pserver/state/shard_types.h"
#include "tests/sim/disk.h"

namespace tandem {

inline constexpr int64_t kSimWeights = 8;  // on each server
inline constexpr int64_t kSimRowDim = 2;

// The trainers' own book: outlives them.
class SimLedger {
 public:
  SimLedger(int servers, int trainers, int steps);

  // "ledger" [servers, slots] and "weights" [servers, 8]: a row on each server, at first.
  std::vector<PsVariable> Variables() const;
  int slices() const { return 2 * static_cast<int>(servers_); }
  // "rows": one for each push, of which the first number counts it and which is shown and clicked
  // once, and some that all share, whose shows and clicks extend them one day (accessor=ctr).
  std::vector<PsTable> Tables() const;
  static int64_t RowOf(int64_t slot) { return (slot + 1) * 1'000'003; }
  static int64_t SharedRowOf(uint64_t step) { return 1 + static_cast<int64_t>(step % 3); }
  int64_t servers() const { return servers_; }
  int64_t slots() const { return static_cast<int64_t>(fate_.size()); }
  int64_t SlotOf(int trainer, uint64_t step) const;

  void Begin(int trainer, uint64_t step) { Raise(trainer, step, Fate::kBegun); }
  void Acknowledge(int trainer, uint64_t step, Time now);
  // What was acknowledged since then, or is under way now, may be gone or not, whatever is heard
  // of it later.
  void Forgive(Time since);
  // Steps of which this trainer began the push.
  uint64_t begun(int trainer) const;

  // What is wrong with the ledger on the servers; "": nothing. A push counts once on each when it
  // was acknowledged (`all`: in any case), once or not at all when it was begun. Of a trainer so
  // many may lack as the server says that it lost (TrainerPushState::lost_pushes).
  std::string Check(const std::vector<ShardSnapshot>& images, bool all) const;
  // What is wrong with a cut over all servers that was begun then: a push that was acknowledged, by
  // now, counts once on each of them or on none; before the cut was begun, once.
  std::string CheckCut(const std::vector<ShardSnapshot>& images, Time begun) const;

 private:
  enum class Fate : uint8_t { kNone, kBegun, kAcknowledged };
  // `spare`: by trainer, pushes that may lack.
  std::string CheckSlot(size_t slot, float count, bool all, std::vector<uint64_t>& spare) const;
  void Raise(int trainer, uint64_t step, Fate fate);

  const int64_t servers_, trainers_, steps_;
  std::vector<Fate> fate_;          // by slot
  std::vector<Time> acknowledged_;  // by slot
  std::vector<bool> forgiven_;      // by slot
};

// Parameters and gradients in a trainer's memory.
class SimBatch {
 public:
  SimBatch(uint64_t seed, const SimLedger& ledger);
  // Which rows the step needs.
  void Begin(int trainer, uint64_t step);
  // Gradients of the step begun last: 1 in the slot of the push, and numbers that depend on
  // trainer, step and the weights as they were pulled.
  void Compute(int trainer, uint64_t step);
  std::vector<PsTensor> Parameters();
  std::vector<PsConstTensor> Gradients() const;
  PsRows Rows();
  PsConstRows RowGradients() const;

 private:
  const uint64_t seed_;
  const SimLedger& ledger_;
  std::vector<float> ledger_values_, weights_, ledger_gradient_, weights_gradient_;
  std::vector<int64_t> row_ids_;  // of the step
  std::vector<float> rows_, row_gradients_;
};

// All parameters of a server: slices in their order; and rows with their ids.
std::vector<float> SlicesOf(const ShardSnapshot& image);
std::vector<float> ParametersOf(const ShardSnapshot& image);
// Slices, and rows with their ids, wherever they are served.
std::vector<float> ParametersOfAll(const std::vector<ShardSnapshot>& images);
// Makes the recorded updates once more, by a loop of its own: p = p - 1 * g. "" when the image has
// these bits.
std::string CheckOrder(const ShardSnapshot& image, const SimDisk& disk);

}  // namespace tandem
