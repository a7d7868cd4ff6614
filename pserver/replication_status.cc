#include "pserver/replication_status.h"

#include <algorithm>

#include "absl/strings/str_format.h"

namespace tandem::pserver {

void AddStandbys(const LogTerm& term, const std::vector<StandbyInfo>& standbys,
                 http::StatusDocument* document) {
  document->facts.emplace_back("role", "primary");
  document->facts.emplace_back("term", std::to_string(term.number));
  http::StatusTable table{
      "standbys", {"member", "state", "lag in entries", "lag in bytes", "lag", "silent for"}, {}};
  for (const StandbyInfo& s : standbys) {
    const char* const state = s.current ? "following" : "fetching the checkpoint";
    table.rows.push_back({std::to_string(s.member), state,
                          s.current ? std::to_string(s.lag_entries) : "-",
                          s.current ? std::to_string(s.lag_bytes) : "-",
                          s.current ? absl::StrFormat("%.1f s", Seconds(s.lag_time)) : "-",
                          absl::StrFormat("%.1f s", Seconds(s.silent))});
  }
  document->tables.push_back(std::move(table));
}

http::StatusDocument StatusOfStandby(const PserverOptions& options,
                                     const LogFollower::Progress& progress) {
  const StandbyState::Position& at = progress.position;
  http::StatusDocument document;
  document.title = absl::StrFormat("tandem-pserver %d of job %s, member %d", options.index,
                                   options.job, options.member);
  document.ready = at.has_state && progress.heard != Time() && progress.status.ok();
  const uint64_t lag = progress.primary_last - std::min(progress.primary_last, at.last);
  document.facts = {
      {"role", "standby"},
      {"state", at.has_state ? "following" : "waiting for the checkpoint of the primary"},
      {"term", std::to_string(at.term.number)},
      {"stored log entries", std::to_string(at.last)},
      {"lag in entries", progress.heard == Time() ? "-" : std::to_string(lag)},
      {"last reply of the primary",
       progress.heard == Time()
           ? "-"
           : absl::StrFormat("%.1f s ago", Seconds(SteadyNow() - progress.heard))},
  };
  if (!progress.status.ok()) document.facts.emplace_back("error", ToString(progress.status));
  return document;
}

}  // namespace tandem::pserver
