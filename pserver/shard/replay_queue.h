// Changes that are made again in their order, behind an image, where of some pushes the log has the
// order alone: their values come again from the trainers that keep them (durability replayable).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "pserver/state/wal.h"

namespace tandem {

// Not thread-safe (the shard's lock guards it).
class ReplayQueue {
 public:
  struct Change {
    LogEntry entry;
    bool lost = false;  // a push of which nobody has the values any more
  };

  bool empty() const { return changes_.empty(); }
  // Number of the newest one. REQUIRES: not empty.
  uint64_t last_number() const { return changes_.back().entry.number; }
  size_t missing() const { return ids_.size(); }  // pushes whose values are waited for

  // REQUIRES: their numbers go up by one. `lost`: nobody is to be asked for its values.
  void Add(LogEntry entry, bool lost);
  // Whether values of this push are waited for.
  bool Misses(const PushHead& head) const;
  // They are here now, in the order of head.slices; gives the push's number. INVALID_ARGUMENT when
  // it was another push. REQUIRES: Misses(head).
  StatusOr<uint64_t> Take(const PushHead& head, std::vector<Buffer> values);
  // Values that older incarnations of `trainer` kept are gone with them.
  void Lose(int trainer, uint64_t before_incarnation);

  // The next change whose turn has come; nothing when its values are missing, or when there is
  // none.
  std::optional<Change> Next();

  size_t MissingOf(int trainer, uint64_t incarnation) const;
  // Who has something to send, for people: "trainer 0 (2), trainer 3 (1)".
  std::string Senders() const;

 private:
  using PushId = std::tuple<int, uint64_t, uint64_t>;  // trainer, incarnation, sequence
  static PushId IdOf(const PushHead& head) {
    return {head.caller.trainer, head.caller.incarnation, head.sequence};
  }
  Change& At(uint64_t number) { return changes_[number - changes_.front().entry.number]; }

  std::deque<Change> changes_;      // in the order of their numbers
  std::map<PushId, uint64_t> ids_;  // numbers of those without values
};

}  // namespace tandem
