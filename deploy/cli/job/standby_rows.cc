#include "deploy/cli/job/standby_rows.h"

#include <map>
#include <utility>

#include "absl/strings/str_format.h"
#include "proto/pserver.pb.h"

namespace tandem::deploy {
namespace {

// A standby makes at least one request per second to its primary. If it has made no request for
// kSlowSeconds, it counts as unresponsive. If it lacks log entries that are older than
// kSlowSeconds, it counts as lagging.
constexpr double kSlowSeconds = 5;
// The limit for the same two times of a standby that may become the primary.
constexpr double kFollowsSeconds = 2;

StandbyRow RowOf(const StandbyStatus& status) {
  StandbyRow row;
  row.member = static_cast<int>(status.member());
  row.connected = true;
  row.current = status.current();
  row.lag_entries = status.lag_entries();
  row.lag_bytes = status.lag_bytes();
  row.lag_seconds = status.lag_seconds();
  row.silent_seconds = status.silent_seconds();
  row.state = row.silent_seconds > kSlowSeconds ? "does not reply"
              : row.current                     ? "following"
                                                : "fetching the checkpoint";
  return row;
}

}  // namespace

bool StandbyRow::Follows() const {
  return current && silent_seconds <= kFollowsSeconds && lag_seconds <= kFollowsSeconds;
}

std::optional<std::string> StandbyRow::SlowText(int server) const {
  const std::string name = absl::StrFormat("standby %d of pserver %d", member, server);
  if (!connected) return name + " has not connected to its primary";
  if (silent_seconds > kSlowSeconds) {
    return absl::StrFormat("%s has sent nothing for %.0f s", name, silent_seconds);
  }
  if (lag_seconds > kSlowSeconds) {
    return LagText(name, lag_seconds, lag_entries);
  }
  return std::nullopt;
}

std::string LagText(const std::string& name, double seconds, uint64_t entries) {
  return absl::StrFormat("%s lags by %.0f s and %d log entries", name, seconds, entries);
}

std::vector<StandbyRow> StandbysOf(const StatusReply& reply, const std::vector<int>& members) {
  if (reply.term() == 0) return {};
  std::map<int, StandbyRow> rows;
  for (const int member : members) {
    if (member == static_cast<int>(reply.member())) continue;
    rows[member].member = member;
    rows[member].state = "not connected yet";
  }
  for (const StandbyStatus& status : reply.standby()) {
    rows[static_cast<int>(status.member())] = RowOf(status);
  }
  std::vector<StandbyRow> sorted;
  for (auto& [member, row] : rows) sorted.push_back(std::move(row));
  return sorted;
}

}  // namespace tandem::deploy
