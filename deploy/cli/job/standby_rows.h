// The standbys of a job's pservers, as their primaries reported them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tandem {
class StatusReply;
}  // namespace tandem

namespace tandem::deploy {

struct StandbyRow {
  int member = 0;  // number among the members of the pserver
  // Standby state: "following", "fetching the checkpoint", "does not reply", or "not connected
  // yet", which means that the standby has made no request to this primary.
  std::string state;
  bool connected = false;  // the standby has made a request to this primary
  bool current = false;    // the standby has a state of this term, so that its lag is known
  // Log entries that the primary has written and the standby has not stored, and their bytes.
  uint64_t lag_entries = 0, lag_bytes = 0;
  // Age of the oldest of these entries (StandbyStatus.lag_seconds); 0: there is none.
  double lag_seconds = 0;
  double silent_seconds = 0;  // seconds since the last request of the standby

  // Returns whether the standby replies, and has the state of the primary except for the entries of
  // the last two seconds. In the first two seconds of a primary it may lack older entries.
  bool Follows() const;
  // Returns a sentence about a standby of pserver `server` that has sent nothing or lags for more
  // than five seconds, or has not connected yet; nullopt: it is none of these.
  std::optional<std::string> SlowText(int server) const;
};

// Returns the sentence about a standby or replica `name` that lags.
std::string LagText(const std::string& name, double seconds, uint64_t entries);

// Returns the standbys of a pserver by their numbers. `members`: the numbers of its members
// (MembersOf), which may be empty. Empty: the pserver has no standbys.
std::vector<StandbyRow> StandbysOf(const StatusReply& reply, const std::vector<int>& members);

}  // namespace tandem::deploy
