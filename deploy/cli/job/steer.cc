// The commands save, restore, drain and events, with which an administrator controls a running job.
#include <poll.h>
#include <signal.h>

#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_join.h"
#include "deploy/cli/commands.h"
#include "deploy/cli/console.h"
#include "deploy/cli/job/cut.h"
#include "deploy/cli/job/job_access.h"
#include "deploy/cli/job/rebalance.h"
#include "proto/pserver.pb.h"

namespace tandem::deploy {
namespace {

using Json = nlohmann::ordered_json;

// Calls `act` for each server. `act` returns the text output and adds the same to the JSON. All
// servers are called; the result is the first error.
Status OnEachServer(const ParsedArgs& args,
                    const std::function<StatusOr<std::string>(ServerAccess&, Json*)>& act) {
  TD_ASSIGN_OR_RETURN(const bool as_json, WantsJson(args));
  TD_ASSIGN_OR_RETURN(const JobAccess access, FindPservers(args));
  Status first;
  Json all = Json::array();
  for (size_t i = 0; i < access.pservers.size(); ++i) {
    ServerAccess server(access, i);
    Json facts = {{"pserver", i}};
    StatusOr<std::string> said = act(server, &facts);
    if (IsGone(access, i, said.status())) {
      facts["state"] = "drained, gone";
      said = std::string("was drained, and is gone");
    }
    if (!said.ok()) {
      if (first.ok()) first = said.status();
      continue;
    }
    all.push_back(facts);
    if (!as_json) std::printf("pserver %zu: %s\n", i, said->c_str());
  }
  if (as_json) std::puts(all.dump(2).c_str());
  return first;
}

// The versions of the newest checkpoints of the servers that have parameters.
struct Checkpoints {
  std::set<uint64_t> versions;
  bool sync = false;

  void Add(const StatusReply& server) {
    if (server.slice().empty() && server.buckets() == 0) return;
    versions.insert(server.checkpoint_version());
    sync |= server.mode() == UPDATE_MODE_SYNC;
  }
  // The job cannot resume from different steps.
  bool Apart() const { return sync && versions.size() > 1; }
};

Status Save(const ParsedArgs& args) {
  if (args.Has("cut") && args.Has("mode")) {
    return InvalidArgument(
        "--cut writes whole states beside the checkpoints: it has no --mode [TD1005]");
  }
  if (args.Has("cut")) return SaveCut(args);
  const std::string mode = args.Get("mode", "full");
  if (mode != "full" && mode != "base" && mode != "delta") {
    return InvalidArgument("--mode=%s: expected full, base (the same) or delta [TD1006]", mode);
  }
  const bool delta = mode == "delta";
  TD_ASSIGN_OR_RETURN(const bool as_json, WantsJson(args));
  Checkpoints written;
  const auto save = [delta, &written](ServerAccess& server, Json* facts) -> StatusOr<std::string> {
    TD_ASSIGN_OR_RETURN(const ServerAccess::SavedCheckpoint saved, server.Save(delta));
    (*facts)["version"] = saved.version;
    (*facts)["bytes"] = saved.bytes;
    StatusReply reply;
    if (server.GetStatus(&reply).ok()) written.Add(reply);
    return absl::StrFormat("version %d written, %d bytes", saved.version, saved.bytes);
  };
  TD_RETURN_IF_ERROR(OnEachServer(args, save));
  if (written.Apart() && !as_json) {  // a program compares the versions itself
    std::fprintf(stderr,
                 "note: these are of steps that differ, and tandem restore needs one: save while "
                 "nobody trains, or start pservers with --checkpoint_every_steps\n");
  }
  return OkStatus();
}

// Checks all servers before the first one is restored. If one server cannot be restored, or only to
// another step, the job cannot continue.
Status CheckAllCanGoBack(const ParsedArgs& args) {
  TD_ASSIGN_OR_RETURN(const JobAccess access, FindPservers(args));
  Checkpoints found;
  for (size_t i = 0; i < access.pservers.size(); ++i) {
    StatusReply reply;
    const Status answer = ServerAccess(access, i).GetStatus(&reply);
    if (IsGone(access, i, answer)) continue;
    TD_RETURN_IF_ERROR(Annotate(answer, "no pserver went back"));
    found.Add(reply);
  }
  if (!found.Apart()) return OkStatus();
  return FailedPrecondition(
      "no pserver went back: in sync mode their checkpoints must be of one step, and these are of "
      "versions %s [TD7012]; hint: tandem save while nobody trains, or --checkpoint_every_steps of "
      "the pservers",
      absl::StrJoin(found.versions, " and "));
}

Status Restore(const ParsedArgs& args) {
  if (args.Has("cut") && args.Has("list")) {
    return InvalidArgument(
        "--list shows cuts, and --cut goes back to one [TD1005]; hint: one of "
        "the two");
  }
  if (args.Has("list")) return ListCuts(args);
  if (args.Has("cut")) return RestoreCut(args);
  TD_RETURN_IF_ERROR(CheckAllCanGoBack(args));
  return OnEachServer(args, [](ServerAccess& server, Json* facts) -> StatusOr<std::string> {
    TD_ASSIGN_OR_RETURN(const uint64_t version, server.Restore());
    (*facts)["version"] = version;
    return absl::StrFormat("went back to version %d", version);
  });
}

StatusOr<std::string> Folder(const ParsedArgs& args) {
  TD_RETURN_IF_ERROR(TakesAtMost(1, args));
  if (!args.positional.empty()) return args.positional[0];
  return InvalidArgument(
      "the log folder of a job is missing [TD1007]; hint: what tandemrun was given as "
      "--log_dir, else log-JOB");
}

Status Drain(const ParsedArgs& args) {
  if (args.Has("pserver") && args.Has("wait_s")) {
    return InvalidArgument(
        "--wait_s is for a job's end; with --pserver all rows are waited for [TD1005]");
  }
  if (args.Has("pserver")) return DrainPserver(args);
  for (const FlagSpec& flag : AccessFlags()) {
    if (!args.Has(flag.name) || flag.name == std::string_view(kOutputFlag.name)) continue;
    return InvalidArgument(
        "%s goes with --pserver=N; a job is stopped by its log folder alone [TD1005]",
        args.flags.at(flag.name).spelled);
  }
  TD_ASSIGN_OR_RETURN(const bool as_json, WantsJson(args));
  TD_ASSIGN_OR_RETURN(const std::string folder, Folder(args));
  TD_ASSIGN_OR_RETURN(const int seconds, args.GetInt("wait_s", 60, 0, 86400));
  TD_ASSIGN_OR_RETURN(const JobRecord record, ReadJobRecord(folder));
  if (!LauncherRuns(record)) {
    TD_RETURN_IF_ERROR(CheckNotOver(folder, record));
    return FailedPrecondition(
        "job %s of %s is over, or was started on another host [TD7003]; hint: tandem events %s",
        record.job, folder, folder);
  }
  TD_RETURN_IF_ERROR(SignalLauncher(record, SIGTERM));
  const auto say = [&](const char* text, bool over) {
    const Json json = {{"job", record.job}, {"over", over}};
    if (!as_json) std::printf("job %s: %s\n", record.job.c_str(), text);
    if (as_json && (over || seconds == 0)) std::puts(json.dump(2).c_str());
    std::fflush(stdout);
  };
  say("told to stop; trainers finish their step, and save a checkpoint where checkpoint.dir is "
      "set; "
      "without it nothing is saved",
      false);
  const Time deadline = SteadyNow() + std::chrono::seconds(seconds);
  while (LauncherRuns(record)) {
    if (SteadyNow() >= deadline) {
      if (seconds == 0) return OkStatus();
      return DeadlineExceeded(
          "job %s has not ended within %d s [TD7006]; hint: tandem events %s, or kill %d "
          "to end it at once",
          record.job, seconds, folder, record.launcher_pid);
    }
    poll(nullptr, 0, 50);
  }
  say("over", true);
  return OkStatus();
}

Status Events(const ParsedArgs& args) {
  TD_ASSIGN_OR_RETURN(const bool as_json, WantsJson(args));
  TD_ASSIGN_OR_RETURN(const std::string folder, Folder(args));
  TD_ASSIGN_OR_RETURN(const std::vector<JobEvent> events, ReadEvents(folder));
  Json all = Json::array();
  std::vector<std::vector<std::string>> rows = {{"TIME", "EVENT", "PROCESS", "PID", ""}};
  for (const JobEvent& e : events) {
    all.push_back({{"time", e.time},
                   {"event", e.event},
                   {"process", e.process},
                   {"pid", e.pid},
                   {"text", e.text}});
    rows.push_back({e.time, e.event, e.process.empty() ? "job" : e.process,
                    e.pid == 0 ? "-" : std::to_string(e.pid), e.text});
  }
  std::fputs((as_json ? all.dump(2) + "\n" : TableText(rows)).c_str(), stdout);
  const StatusOr<JobRecord> record = ReadJobRecord(folder);
  const Status over = record.ok() ? CheckNotGone(folder, *record, events) : OkStatus();
  if (!over.ok()) std::fputs(("note: " + ToString(over) + "\n").c_str(), stderr);
  return OkStatus();
}

}  // namespace

int RunSave(const Args& args) {
  return RunBody(
      "save",
      "tandem save [LOG_FOLDER]: pservers write checkpoints into their --data_dir.\n"
      "A delta holds of tables the rows that changed since the last full checkpoint (its "
      "base),\nand takes the place of an older delta; tandem restore reads both.\n"
      "In a_sync modes each server's checkpoint is of a moment of its own. A cut is one state of\n"
      "all servers: of each push that was acknowledged it has all or nothing.\n",
      AccessFlags({{"mode", "", "MODE", "full (default; also: base) or delta"},
                   {"cut", "", "", "one state of all servers, beside their checkpoints"}}),
      args, Save);
}

int RunRestore(const Args& args) {
  return RunBody(
      "restore",
      "tandem restore [LOG_FOLDER]: pservers go back to the checkpoints that they wrote "
      "last.\nIn sync mode trainers that go on are refused: their step is not the servers' any "
      "more.\n",
      AccessFlags({{"cut", "", "[=N]",
                    "to cut N (save --cut); without N to the newest that all of them have"},
                   {"list", "", "", "show the cuts that they have, and go back to none"}}),
      args, Restore);
}

int RunDrain(const Args& args) {
  return RunBody(
      "drain",
      "tandem drain LOG_FOLDER: stops a job that tandemrun started on this host: trainers\n"
      "finish their step and save a checkpoint where checkpoint.dir is set; without it nothing is\n"
      "saved\n"
      "tandem drain [LOG_FOLDER] --pserver=N: moves the rows and slices of one pserver to the "
      "others,\n"
      "while trainers go on; from then on it takes none, of whomever, and may be stopped for "
      "good\n",
      AccessFlags({{"wait_s", "", "N", "how long to wait for its end (default 60; 0: not at all)"},
                   {"pserver", "", "N", "the pserver whose rows and slices go to the others"}}),
      args, Drain);
}

int RunEvents(const Args& args) {
  return RunBody("events",
                 "tandem events LOG_FOLDER: what became of the processes of a job on this host\n",
                 {kOutputFlag}, args, Events);
}

}  // namespace tandem::deploy
