#include "pserver/replication_status.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "common/base/require.h"

namespace tandem::pserver {

void AddStandbys(const LogTerm& term, const std::vector<StandbyInfo>& standbys,
                 http::StatusDocument* document) {
  TD_REQUIRE(document != nullptr);
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

namespace {

// Adds what a standby or replica knows about its state and its primary.
void AddProgress(const LogFollower::Progress& progress, http::StatusDocument* document) {
  const StandbyState::Position& at = progress.position;
  const uint64_t lag = progress.primary_last - std::min(progress.primary_last, at.last);
  const auto ago = [](Time when) {
    return when == Time() ? "-" : absl::StrFormat("%.1f s ago", Seconds(SteadyNow() - when));
  };
  document->facts.emplace_back("term", std::to_string(at.term.number));
  document->facts.emplace_back("stored log entries", std::to_string(at.last));
  document->facts.emplace_back("lag in entries",
                               progress.heard == Time() ? "-" : std::to_string(lag));
  document->facts.emplace_back("had all entries", ago(progress.current));
  document->facts.emplace_back("last reply of the primary", ago(progress.heard));
  if (!progress.status.ok()) document->facts.emplace_back("error", ToString(progress.status));
}

}  // namespace

http::StatusDocument StatusOfStandby(const PserverOptions& options,
                                     const LogFollower::Progress& progress) {
  const bool has_state = progress.position.has_state;
  http::StatusDocument document;
  document.title = absl::StrFormat("tandem-pserver %d of job %s, member %d", options.index,
                                   options.job, options.member);
  document.ready = has_state && progress.heard != Time() && progress.status.ok();
  document.facts = {
      {"role", "standby"},
      {"state", has_state ? "following" : "waiting for the checkpoint of the primary"}};
  AddProgress(progress, &document);
  return document;
}

http::StatusDocument StatusOfReplica(const PserverOptions& options,
                                     const LogFollower::Progress& progress, bool listens) {
  http::StatusDocument document;
  document.title =
      absl::StrFormat("tandem-pserver %d of job %s, replica", options.index, options.job);
  document.ready = listens && progress.status.ok();
  document.facts = {{"role", "replica"},
                    {"state", listens ? "serving reads" : "fetching the state of the primary"}};
  AddProgress(progress, &document);
  return document;
}

}  // namespace tandem::pserver
