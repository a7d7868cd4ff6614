// Rules that say which of several numbered states to keep, by number and by time.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace tandem {

// A state that may be kept.
struct KeptState {
  uint64_t number = 0;  // later states have higher numbers
  int64_t time_us = 0;  // time of the state, in microseconds of Unix time; 0: unknown
};

// The rules. A state is kept if at least one rule keeps it. The rules are those of the backup
// program restic.
struct KeepRules {
  int last = 2;    // keeps this many states with the highest numbers, at least 1
  int hourly = 0;  // keeps the newest state of each of the last `hourly` hours (UTC) with a state
  int daily = 0;   // the same with days (UTC)
  friend bool operator==(const KeepRules&, const KeepRules&) = default;
};

// Parses "3" or "last=3,hourly=24,daily=7" (each part is optional). INVALID_ARGUMENT: the text has
// another form; the message has the text.
StatusOr<KeepRules> ParseKeepRules(const std::string& text);
// Returns the numbers of the states that the rules keep. States of unknown time are kept by `last`
// only.
std::set<uint64_t> Kept(const KeepRules& rules, std::vector<KeptState> states);

}  // namespace tandem
