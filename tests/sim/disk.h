// The disk of a simulated server: what outlives its process, and what of it outlives a loss of
// power. Storage is what a process sees of it.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "pserver/storage/storage.h"
#include "tests/sim/world.h"

namespace tandem {

// Not thread-safe.
class SimDisk {
 public:
  // `forget_previous`: a mistake on purpose, checkpoints lack what ShardSnapshot::has_previous
  // tells of.
  SimDisk(SimWorld& world, bool forget_previous)
      : world_(world), forget_previous_(forget_previous) {}

  // For a process, until it dies: Revoke. After that nothing of it reaches the disk.
  std::unique_ptr<Storage> Open();
  void Revoke();
  // Of what was not synced some first part is still there, perhaps nothing.
  void LosePower();
  // The process dies in its next operation but `operations`: before its effect or behind it.
  void DieIn(uint64_t operations, std::function<void()> kill);
  void FullUntil(Time when) { full_until_ = when; }
  const std::map<uint64_t, ShardSnapshot>& cuts() const { return cuts_; }  // by number

  // A PushRequest that somebody sent: what the log leaves to its sender (LogEntry::Kind::kOrder).
  void Sent(const std::string& request);

  // A checkpoint, and every entry of the log since, whether or not a later checkpoint dropped it:
  // the recorded order. Entries that were lost with the power are not there.
  const std::optional<ShardSnapshot>& base() const { return base_; }
  std::vector<LogEntry> History() const;

 private:
  class Session;
  friend class Session;
  // OK: the operation, which writes or only syncs, takes place. Then `End` says whether its process
  // lives to see it.
  Status Begin(uint64_t session, bool writes = true);
  Status End(uint64_t session);

  SimWorld& world_;
  const bool forget_previous_;
  uint64_t session_ = 0;  // that may write; 0: none
  uint64_t sessions_ = 0;
  Time full_until_ = Time::min();
  std::optional<uint64_t> operations_left_;
  bool die_behind_ = false;
  std::function<void()> kill_;

  std::optional<ShardSnapshot> base_, checkpoint_;
  std::map<uint64_t, ShardSnapshot> cuts_;   // by number; synced when they are written
  std::map<uint64_t, std::string> log_;      // by number, as log_record.h writes entries
  std::map<uint64_t, std::string> history_;  // the same, none dropped
  // By trainer, incarnation and sequence, as entries of a log.
  std::map<std::tuple<int, uint64_t, uint64_t>, std::string> sent_;
  uint64_t synced_ = 0;  // entries up to this one survive everything
};

}  // namespace tandem
