#include "deploy/cli/job/global_snapshot.h"

#include <poll.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>
#include <random>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "common/base/require.h"
#include "deploy/cli/commands.h"
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

constexpr int64_t kSecond = 1000 * 1000;  // microseconds

int64_t NowUs() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

// Returns a time in UTC, such as "2026-11-28T20:00:00Z"; "-": unknown.
std::string TimeText(int64_t time_us) {
  if (time_us <= 0) return "-";
  const time_t seconds = time_us / kSecond;
  tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32];
  strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

// Parses the form of TimeText, also without seconds, or with a space instead of the T. Returns the
// last microsecond of the named second or minute.
StatusOr<int64_t> ParseTime(const std::string& text) {
  std::string plain = text;
  if (plain.size() > 10 && plain[10] == ' ') plain[10] = 'T';
  if (plain.ends_with('Z')) plain.pop_back();
  const bool minutes = plain.size() == 16;
  tm parts{};
  const char* const end =
      strptime(plain.c_str(), minutes ? "%Y-%m-%dT%H:%M" : "%Y-%m-%dT%H:%M:%S", &parts);
  if (end == nullptr || *end != '\0' || plain.size() < 16) {
    return InvalidArgument(
        "--at=%s: expected a time in UTC, such as \"2026-11-28 20:00\" [TD1004]; hint: run tandem "
        "snapshots to see the times of the snapshots",
        text);
  }
  return (int64_t{timegm(&parts)} + (minutes ? 60 : 1)) * kSecond - 1;
}

ps::GlobalSnapshotOptions OptionsFor(const JobAccess& access) {
  std::random_device random;
  return {.job = access.job,
          .call_timeout = access.timeout,
          .drained = access.drained,
          .taker = (uint64_t{random()} << 32 | random()) | 1,
          .time_us = NowUs()};
}

// Adds an event for `tandem events` to the log directory of the job.
void Note(const JobAccess& access, const char* event, const std::string& text) {
  NoteEvent(access, {"", event, "", 0, text});
}

}  // namespace

namespace {

Status SaveOnce(const JobAccess& access, bool as_json) {
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
  std::fflush(stdout);
  return OkStatus();
}

// Returns whether the job has ended. A job without a log directory never ends.
bool IsOver(const JobAccess& access) {
  return access.record && !CheckNotOver(access.dir, *access.record).ok();
}

// Takes a snapshot every `seconds` until the job ends. A failed snapshot is reported, and the next
// one follows at its time.
Status SaveRepeatedly(const JobAccess& access, int seconds, bool as_json) {
  if (!access.record) {
    return InvalidArgument(
        "--every_s needs the log directory of the job, which says when the job ends [TD1007]; "
        "hint: run tandem save --snapshot --every_s=N LOG_DIR");
  }
  TD_REQUIRE(seconds > 0);
  Time next = SteadyNow();
  while (!IsOver(access)) {
    if (SteadyNow() < next) {
      poll(nullptr, 0, 100);
      continue;
    }
    next = NextSnapshotTime(next, std::chrono::seconds(seconds), SteadyNow());
    const Status saved = SaveOnce(access, as_json);
    if (!saved.ok()) std::fprintf(stderr, "warning: %s\n", ToString(saved).c_str());
  }
  return OkStatus();
}

}  // namespace

Time NextSnapshotTime(Time due, Duration every, Time now) {
  TD_REQUIRE(every > Duration::zero() && due <= now);
  return due + every * ((now - due) / every + 1);
}

Status SaveGlobalSnapshot(const ParsedArgs& args) {
  TD_ASSIGN_OR_RETURN(const bool as_json, WantsJson(args));
  TD_ASSIGN_OR_RETURN(const JobAccess access, FindPservers(args));
  if (!args.Has("every_s")) return SaveOnce(access, as_json);
  TD_ASSIGN_OR_RETURN(const int seconds, args.GetInt("every_s", 0, 1, 366 * 86400));
  return SaveRepeatedly(access, seconds, as_json);
}

Status RestoreGlobalSnapshot(const ParsedArgs& args) {
  TD_ASSIGN_OR_RETURN(const bool as_json, WantsJson(args));
  uint64_t number = 0;  // number of the global snapshot; 0: the newest
  const std::string asked = args.Get("snapshot", "true");
  if (asked != "true" && (!absl::SimpleAtoi(asked, &number) || number == 0)) {
    return InvalidArgument(
        "--snapshot=%s: expected the number of a snapshot [TD1004]; hint: run tandem restore "
        "--list to see the snapshots",
        asked);
  }
  int64_t time_us = 0;
  if (args.Has("at")) {
    TD_ASSIGN_OR_RETURN(time_us, ParseTime(args.Get("at")));
  }
  uint64_t step = 0;
  if (args.Has("step") && !absl::SimpleAtoi(args.Get("step"), &step)) {
    return InvalidArgument("--step=%s: expected the number of a step [TD1004]", args.Get("step"));
  }
  TD_ASSIGN_OR_RETURN(const JobAccess access, FindPservers(args));
  TD_ASSIGN_OR_RETURN(const JobChannels job, ConnectPservers(access));
  ps::GlobalSnapshotCoordinator coordinator(*job.carrier, job.addresses, OptionsFor(access));
  if (args.Has("at")) {
    TD_ASSIGN_OR_RETURN(const std::vector<ps::FoundGlobalSnapshot> found, coordinator.Find());
    const StatusOr<uint64_t> at = ps::NumberAt(found, time_us);
    if (!at.ok()) return Annotate(at.status(), "--at=" + args.Get("at"));
    number = *at;
  }
  if (args.Has("step")) {
    TD_ASSIGN_OR_RETURN(number, coordinator.Rebuild(step));
  }
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
  std::vector<std::vector<std::string>> rows = {
      {"SNAPSHOT", "TIME", "VERSION", "BYTES", "PSERVERS", ""}};
  for (const ps::FoundGlobalSnapshot& one : found) {
    std::vector<int> servers;
    for (const ps::ServerSnapshot& s : one.servers) servers.push_back(s.server);
    std::vector<uint64_t> versions;
    const std::string time = TimeText(one.time_us);
    for (const ps::ServerSnapshot& s : one.servers) versions.push_back(s.version);
    all.push_back(
        {{"snapshot", one.number},
         {"cut", one.number},  // former name of the JSON field "snapshot" until version 0.2
         {"whole", one.whole},
         {"abandoned", one.abandoned},
         {"time", time == "-" ? "" : time},
         {"bytes", one.bytes()},
         {"pservers", servers},
         {"versions", versions}});
    rows.push_back({std::to_string(one.number), time, VersionsOf(one.servers),
                    std::to_string(one.bytes()), absl::StrJoin(servers, " "),
                    !one.whole      ? "not on all pservers: cannot be restored"
                    : one.abandoned ? "abandoned: the job was restored to an earlier state"
                                    : ""});
  }
  std::fputs((as_json ? all.dump(2) + "\n" : TableText(rows)).c_str(), stdout);
  return OkStatus();
}

int RunSnapshots(const Args& args) {
  return RunBody("snapshots",
                 "tandem snapshots [LOG_DIR]: the global snapshots on the disks of the pservers, "
                 "with the\ntime (UTC), the version (in sync mode: the step) and the bytes of "
                 "each. tandem save\n--snapshot takes one, tandem restore --snapshot=N or "
                 "--at=TIME restores one, and the rules of\ntandemrun --snapshot_keep decide which "
                 "are kept.\n",
                 AccessFlags(), args, ListGlobalSnapshots);
}

}  // namespace tandem::deploy
