// A queue of log entries that the shard applies again, in order, after it has loaded a snapshot
// (durability=replayable). The log stores only the order of pushes. An entry waits in the queue
// until its trainer has retransmitted the values.
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

// The queue of one shard. Not thread-safe (the shard's lock guards it).
class ReplayQueue {
 public:
  struct Change {
    LogEntry entry;
    bool lost = false;  // the entry is a push, and no process has its values any more
  };

  bool empty() const { return changes_.empty(); }
  // Log number of the newest entry. REQUIRES: the queue is not empty.
  uint64_t last_number() const {
    TD_REQUIRE(!changes_.empty());
    return changes_.back().entry.number;
  }
  size_t missing() const { return ids_.size(); }  // number of pushes whose values are missing

  // Adds an entry. `lost`: the values of the entry cannot be retransmitted. REQUIRES: the queue is
  // empty, or the number of the entry is last_number() + 1.
  void Add(LogEntry entry, bool lost);
  // Returns whether the queue has this push and the values of the push are missing.
  bool Misses(const PushHead& head) const;
  // Adds the missing values of a push, in the order of head.slices. Returns the log number of the
  // push. INVALID_ARGUMENT: the step or the learning rate differs from the logged push. REQUIRES:
  // Misses(head).
  StatusOr<uint64_t> Take(const PushHead& head, std::vector<Buffer> values);
  // Marks as lost the missing values of the incarnations of `trainer` below `before_incarnation`.
  void Lose(int trainer, uint64_t before_incarnation);

  // Removes the oldest entry and returns it; nullopt: the values of this entry are missing, or the
  // queue is empty.
  std::optional<Change> Next();

  size_t MissingOf(int trainer, uint64_t incarnation) const;
  // Returns the trainers that must retransmit values, with their numbers of pushes: "trainer 0 (2),
  // trainer 3 (1)".
  std::string Senders() const;

 private:
  // Identifies a push: trainer, incarnation, sequence.
  using PushId = std::tuple<int, uint64_t, uint64_t>;
  static PushId IdOf(const PushHeader& push) {
    return {push.caller.trainer, push.caller.incarnation, push.sequence};
  }
  Change& At(uint64_t number);

  std::deque<Change> changes_;      // log entries in the order of their numbers
  std::map<PushId, uint64_t> ids_;  // by push whose values are missing: its log number
};

}  // namespace tandem::pserver
