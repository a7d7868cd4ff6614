#include "deploy/cli/job/global_snapshot.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <random>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "deploy/cli/console.h"
#include "deploy/cli/job/job_channels.h"
#include "deploy/launch/job_record.h"
#include "pserver/client/moves/global_snapshot.h"

namespace tandem::deploy {
namespace {

using Json = nlohmann::ordered_json;

void Print(const ps::GlobalSnapshotReport& report, bool as_json) {
  Json servers = Json::array();
  for (const ps::ServerSnapshot& s : report.servers) {
    servers.push_back({{"pserver", s.server},
                       {"address", s.address},
                       {"version", s.version},
                       {"bytes", s.bytes},
                       {"held_seconds", Seconds(s.held)}});
    if (as_json) continue;
    std::printf("pserver %d (%s): version %llu\n", s.server, s.address.c_str(),
                static_cast<unsigned long long>(s.version));
  }
  const Json all = {{"snapshot", report.number},
                    // Former name of the JSON field "snapshot" until version 0.2.
                    {"cut", report.number},

                    {"held_seconds_max", Seconds(report.held())},
                    {"pservers", std::move(servers)}};
  if (as_json) std::puts(all.dump(2).c_str());
}

// Returns "version 1000", or "versions 990 to 1000" if the versions differ. The versions differ in
// a_sync mode, because each server counts only the pushes that it applies.
std::string VersionsOf(const std::vector<ps::ServerSnapshot>& servers) {
  uint64_t lowest = UINT64_MAX, highest = 0;
  for (const ps::ServerSnapshot& s : servers) {
    lowest = std::min(lowest, s.version);
    highest = std::max(highest, s.version);
  }
  if (lowest >= highest) return absl::StrFormat("version %d", highest);
  return absl::StrFormat("versions %d to %d", lowest, highest);
}

ps::GlobalSnapshotOptions OptionsFor(const JobAccess& access) {
  std::random_device random;
  return {.job = access.job,
          .call_timeout = access.timeout,
          .drained = access.drained,
          .taker = (uint64_t{random()} << 32 | random()) | 1};
}

// Adds an event for `tandem events` to the log directory of the job.
void Note(const JobAccess& access, const char* event, const std::string& text) {
  NoteEvent(access, {"", event, "", 0, text});
}

}  // namespace

Status SaveGlobalSnapshot(const ParsedArgs& args) {
  TD_ASSIGN_OR_RETURN(const bool as_json, WantsJson(args));
  TD_ASSIGN_OR_RETURN(const JobAccess access, FindPservers(args));
  TD_ASSIGN_OR_RETURN(const JobChannels job, ConnectPservers(access));
  ps::GlobalSnapshotCoordinator coordinator(*job.carrier, job.addresses, OptionsFor(access));
  const StatusOr<ps::GlobalSnapshotReport> report = coordinator.Take();
  if (!report.ok()) {
    Note(access, "no snapshot", ToString(report.status()));
    return Annotate(report.status(), "no snapshot");
  }
  const std::string said = absl::StrFormat(
      "snapshot %d (%s) of %d pservers written; new pushes waited for %.1f ms", report->number,
      VersionsOf(report->servers), report->servers.size(), Seconds(report->held()) * 1e3);
  Note(access, "snapshot", said);
  Print(*report, as_json);
  if (!as_json) std::printf("%s\n", said.c_str());
  return OkStatus();
}

Status RestoreGlobalSnapshot(const ParsedArgs& args) {
  TD_ASSIGN_OR_RETURN(const bool as_json, WantsJson(args));
  uint64_t number = 0;  // number of the global snapshot; 0: the newest
  const std::string asked = args.Get("snapshot");
  if (asked != "true" && (!absl::SimpleAtoi(asked, &number) || number == 0)) {
    return InvalidArgument(
        "--snapshot=%s: expected the number of a snapshot [TD1004]; hint: run tandem restore "
        "--list to see the snapshots",
        asked);
  }
  TD_ASSIGN_OR_RETURN(const JobAccess access, FindPservers(args));
  TD_ASSIGN_OR_RETURN(const JobChannels job, ConnectPservers(access));
  ps::GlobalSnapshotCoordinator coordinator(*job.carrier, job.addresses, OptionsFor(access));
  TD_ASSIGN_OR_RETURN(const ps::GlobalSnapshotReport report, coordinator.Restore(number));
  const std::string said =
      absl::StrFormat("restored snapshot %d (%s) on %d pservers", report.number,
                      VersionsOf(report.servers), report.servers.size());
  Note(access, "restored", said);
  Print(report, as_json);
  if (!as_json) std::printf("%s\n", said.c_str());
  return OkStatus();
}

Status ListGlobalSnapshots(const ParsedArgs& args) {
  TD_ASSIGN_OR_RETURN(const bool as_json, WantsJson(args));
  TD_ASSIGN_OR_RETURN(const JobAccess access, FindPservers(args));
  TD_ASSIGN_OR_RETURN(const JobChannels job, ConnectPservers(access));
  ps::GlobalSnapshotCoordinator coordinator(*job.carrier, job.addresses, OptionsFor(access));
  TD_ASSIGN_OR_RETURN(const std::vector<ps::FoundGlobalSnapshot> found, coordinator.Find());
  Json all = Json::array();
  std::vector<std::vector<std::string>> rows = {{"SNAPSHOT", "VERSION", "PSERVERS", ""}};
  for (const ps::FoundGlobalSnapshot& one : found) {
    std::vector<int> servers;
    for (const ps::ServerSnapshot& s : one.servers) servers.push_back(s.server);
    std::vector<uint64_t> versions;
    for (const ps::ServerSnapshot& s : one.servers) versions.push_back(s.version);
    all.push_back(
        {{"snapshot", one.number},
         {"cut", one.number},  // former name of the JSON field "snapshot" until version 0.2
         {"whole", one.whole},
         {"pservers", servers},
         {"versions", versions}});
    rows.push_back({std::to_string(one.number), VersionsOf(one.servers),
                    absl::StrJoin(servers, " "),
                    one.whole ? "" : "not on all pservers: cannot be restored"});
  }
  std::fputs((as_json ? all.dump(2) + "\n" : TableText(rows)).c_str(), stdout);
  return OkStatus();
}

}  // namespace tandem::deploy
