// Queue of log entries to re-apply in order after loading a snapshot (durability=replayable). The
// log stores only the order of pushes. An entry waits in the queue until its trainer has
// retransmitted the values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "common/base/require.h"
#include "pserver/state/wal.h"

namespace tandem::pserver {

// Not thread-safe (the shard's lock guards it).
class ReplayQueue {
 public:
  struct Change {
    LogEntry entry;
    bool lost = false;  // a push with values that no process has any more
  };

  bool empty() const { return changes_.empty(); }
  // Number of the newest entry. REQUIRES: not empty.
  uint64_t last_number() const {
    TD_REQUIRE(!changes_.empty());
    return changes_.back().entry.number;
  }
  size_t missing() const { return ids_.size(); }  // pushes whose values are missing

  // REQUIRES: numbers increase by one. `lost`: the values cannot be retransmitted.
  void Add(LogEntry entry, bool lost);
  // Whether the values of this push are missing.
  bool Misses(const PushHead& head) const;
  // Adds the values of a push, in the order of head.slices; returns its number. INVALID_ARGUMENT:
  // the push differs from the logged one. REQUIRES: Misses(head).
  StatusOr<uint64_t> Take(const PushHead& head, std::vector<Buffer> values);
  // Marks the missing values of older incarnations of `trainer` as lost.
  void Lose(int trainer, uint64_t before_incarnation);

  // Returns the next entry; nullopt: its values are missing, or there is none.
  std::optional<Change> Next();

  size_t MissingOf(int trainer, uint64_t incarnation) const;
  // The trainers that must retransmit, as text: "trainer 0 (2), trainer 3 (1)".
  std::string Senders() const;

 private:
  using PushId = std::tuple<int, uint64_t, uint64_t>;  // trainer, incarnation, sequence
  static PushId IdOf(const PushHeader& push) {
    return {push.caller.trainer, push.caller.incarnation, push.sequence};
  }
  Change& At(uint64_t number);

  std::deque<Change> changes_;      // in the order of their numbers
  std::map<PushId, uint64_t> ids_;  // numbers of entries without values
};

}  // namespace tandem::pserver
