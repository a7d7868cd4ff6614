// The times at which the entries of a log were written, by number, in a bounded memory.
#pragma once

#include <cstdint>
#include <deque>

#include "common/base/clock.h"

namespace tandem::pserver {

// Not thread-safe: LogSource guards it.
class WriteTimes {
 public:
  // Begins with an empty log.
  explicit WriteTimes(Time now) { Begin(0, now); }

  // Forgets all times. Entries up to `last` were written at or before `now`.
  void Begin(uint64_t last, Time now);
  // Notes that entry `first` and later entries are written at or after `now`. Keeps at most one
  // time per 100 ms and 1000 times, and forgets the oldest ones except Begin's. REQUIRES: `first`
  // is not lower than before. Ignores a `now` before the last time.
  void Add(uint64_t first, Time now);
  // Returns the latest known time before which entry `number`, written after Begin, was not
  // written. Returns the time of Begin for an older entry.
  Time Earliest(uint64_t number) const;

 private:
  struct Mark {
    uint64_t first = 0;  // this entry and later ones were written at or after `time`
    Time time;
  };
  std::deque<Mark> marks_;  // ascending by `first` and `time`
};

}  // namespace tandem::pserver
