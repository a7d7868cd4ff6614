#include "deploy/cli/cut.h"

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "deploy/cli/console.h"
#include "deploy/cli/job_carrier.h"
#include "deploy/launch/job_record.h"
#include "pserver/client/cutter.h"

namespace tandem::deploy {
namespace {

using Json = nlohmann::ordered_json;

void Print(const CutReport& report, bool as_json) {
  Json servers = Json::array();
  for (const ServerCut& s : report.servers) {
    servers.push_back({{"pserver", s.server},
                       {"address", s.address},
                       {"version", s.version},
                       {"bytes", s.bytes},
                       {"held_seconds", Seconds(s.held)}});
    if (as_json) continue;
    std::printf("pserver %d (%s): version %llu\n", s.server, s.address.c_str(),
                static_cast<unsigned long long>(s.version));
  }
  const Json all = {{"cut", report.cut},
                    {"held_seconds_max", Seconds(report.held())},
                    {"pservers", std::move(servers)}};
  if (as_json) std::puts(all.dump(2).c_str());
}

// In the log folder of a job of tandemrun, for `tandem events`.
void Note(const JobAccess& access, const char* event, const std::string& text) {
  NoteEvent(access, {"", event, "", 0, text});
}

}  // namespace

Status SaveCut(const ParsedArgs& args) {
  TD_ASSIGN_OR_RETURN(const bool as_json, WantsJson(args));
  TD_ASSIGN_OR_RETURN(const JobAccess access, FindPservers(args));
  TD_ASSIGN_OR_RETURN(const JobCarrier job, ConnectPservers(access));
  Cutter cutter(*job.carrier, job.addresses,
                {.job = access.job, .call_timeout = access.timeout, .drained = access.drained});
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const StatusOr<CutReport> report = cutter.Take(
      static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(now).count()));
  if (!report.ok()) {
    Note(access, "no cut", ToString(report.status()));
    return Annotate(report.status(), "no cut");
  }
  const std::string said =
      absl::StrFormat("cut %d over %d pservers; new pushes were held for %.1f ms", report->cut,
                      report->servers.size(), Seconds(report->held()) * 1e3);
  Note(access, "cut", said);
  Print(*report, as_json);
  if (!as_json) std::printf("%s\n", said.c_str());
  return OkStatus();
}

Status RestoreCut(const ParsedArgs& args) {
  TD_ASSIGN_OR_RETURN(const bool as_json, WantsJson(args));
  TD_ASSIGN_OR_RETURN(const JobAccess access, FindPservers(args));
  TD_ASSIGN_OR_RETURN(const JobCarrier job, ConnectPservers(access));
  Cutter cutter(*job.carrier, job.addresses,
                {.job = access.job, .call_timeout = access.timeout, .drained = access.drained});
  TD_ASSIGN_OR_RETURN(const CutReport report, cutter.Restore());
  const std::string said =
      absl::StrFormat("went back to cut %d on %d pservers", report.cut, report.servers.size());
  Note(access, "restored", said);
  Print(report, as_json);
  if (!as_json) std::printf("%s\n", said.c_str());
  return OkStatus();
}

}  // namespace tandem::deploy
