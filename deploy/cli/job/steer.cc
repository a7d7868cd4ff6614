// Implements the commands save, restore, drain and events, which control a running job.
#include <poll.h>
#include <signal.h>

#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_join.h"
#include "deploy/cli/commands.h"
#include "deploy/cli/console.h"
#include "deploy/cli/job/global_snapshot.h"
#include "deploy/cli/job/job_access.h"
#include "deploy/cli/job/rebalance.h"
#include "proto/pserver.pb.h"

namespace tandem::deploy {
namespace {

using Json = nlohmann::ordered_json;

// Calls `act` for each server, even after an error, and returns the first error. `act` returns a
// text about its server for the output, and adds the same data to the JSON object.
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
      said = std::string("was drained and has ended");
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
  // Returns whether the checkpoints are from different steps. A sync job cannot resume from such
  // checkpoints.
  bool Apart() const { return sync && versions.size() > 1; }
};

Status Save(const ParsedArgs& args) {
  if (args.Has("snapshot") && args.Has("mode")) {
    return InvalidArgument(
        "--mode has no effect with --snapshot, because snapshots are always complete [TD1005]; "
        "hint: remove --mode");
  }
  if (args.Has("snapshot")) return SaveGlobalSnapshot(args);
  if (args.Has("every_s")) {
    return InvalidArgument(
        "--every_s has no effect without --snapshot [TD1005]; hint: pservers write checkpoints "
        "repeatedly with --checkpoint_every_steps");
  }
  const std::string mode = args.Get("mode", "full");
  if (mode != "full" && mode != "base" && mode != "delta") {
    return InvalidArgument("--mode=%s: expected full (or its synonym base) or delta [TD1006]",
                           mode);
  }
  const bool delta = mode == "delta";
  TD_ASSIGN_OR_RETURN(const bool as_json, WantsJson(args));
  Checkpoints written;
  const auto save = [delta, &written](ServerAccess& server, Json* facts) -> StatusOr<std::string> {
    TD_ASSIGN_OR_RETURN(const auto saved, server.Save(delta));
    (*facts)["version"] = saved.first;
    (*facts)["bytes"] = saved.second;
    StatusReply reply;
    if (server.GetStatus(&reply).ok()) written.Add(reply);
    return absl::StrFormat("version %d written, %d bytes", saved.first, saved.second);
  };
  TD_RETURN_IF_ERROR(OnEachServer(args, save));
  // JSON output has no warning, because a program compares the versions itself.
  if (written.Apart() && !as_json) {
    std::fprintf(
        stderr,
        "note: the checkpoints are of different steps, but tandem restore needs one step; hint: "
        "save while no trainer pushes, or start the pservers with --checkpoint_every_steps\n");
  }
  return OkStatus();
}

// Checks that all servers can be restored to the same step. The caller makes this check before it
// restores the first server, because the job could not continue if only some servers were restored.
Status CheckAllCanGoBack(const ParsedArgs& args) {
  TD_ASSIGN_OR_RETURN(const JobAccess access, FindPservers(args));
  Checkpoints found;
  for (size_t i = 0; i < access.pservers.size(); ++i) {
    StatusReply reply;
    const Status answer = ServerAccess(access, i).GetStatus(&reply);
    if (IsGone(access, i, answer)) continue;
    TD_RETURN_IF_ERROR(Annotate(answer, "the pservers were not restored"));
    found.Add(reply);
  }
  if (!found.Apart()) return OkStatus();
  return FailedPrecondition(
      "the pservers were not restored: sync mode needs checkpoints of one version, but the "
      "pservers have checkpoints of versions %s [TD7012]; hint: run tandem save while no trainer "
      "pushes, or start the pservers with --checkpoint_every_steps",
      absl::StrJoin(found.versions, " and "));
}

Status Restore(const ParsedArgs& args) {
  if (args.Has("snapshot") && args.Has("list")) {
    return InvalidArgument(
        "--list and --snapshot exclude each other [TD1005]; hint: use one of them");
  }
  if (args.Has("at") && args.Get("snapshot", "true") != "true") {
    return InvalidArgument(
        "--at and --snapshot=N exclude each other [TD1005]; hint: use one of them");
  }
  if (args.Has("step") && (args.Has("at") || args.Has("snapshot"))) {
    return InvalidArgument("--step excludes --at and --snapshot [TD1005]; hint: use one of them");
  }
  if (args.Has("list")) return ListGlobalSnapshots(args);
  if (args.Has("snapshot") || args.Has("at") || args.Has("step"))
    return RestoreGlobalSnapshot(args);
  TD_RETURN_IF_ERROR(CheckAllCanGoBack(args));
  return OnEachServer(args, [](ServerAccess& server, Json* facts) -> StatusOr<std::string> {
    TD_ASSIGN_OR_RETURN(const uint64_t version, server.Restore());
    (*facts)["version"] = version;
    return absl::StrFormat("restored version %d", version);
  });
}

StatusOr<std::string> Dir(const ParsedArgs& args) {
  TD_RETURN_IF_ERROR(TakesAtMost(1, args));
  if (!args.positional.empty()) return JobDirOf(args.positional[0]);
  return InvalidArgument(
      "the log directory of the job is missing [TD1007]; hint: name the --log_dir of tandemrun, by "
      "default log-JOB");
}

Status Drain(const ParsedArgs& args) {
  if (args.Has("pserver") && args.Has("wait_s")) {
    return InvalidArgument("--wait_s has no effect with --pserver [TD1005]; hint: remove --wait_s");
  }
  if (args.Has("pserver")) return DrainPserver(args);
  for (const FlagSpec& flag : AccessFlags()) {
    if (!args.Has(flag.name) || flag.name == std::string_view(kOutputFlag.name)) continue;
    return InvalidArgument(
        "%s has no effect without --pserver=N [TD1005]; hint: remove %s to stop the whole job, or "
        "add --pserver=N",
        args.flags.at(flag.name).spelled, args.flags.at(flag.name).spelled);
  }
  TD_ASSIGN_OR_RETURN(const bool as_json, WantsJson(args));
  TD_ASSIGN_OR_RETURN(const std::string dir, Dir(args));
  TD_ASSIGN_OR_RETURN(const int seconds, args.GetInt("wait_s", 60, 0, 86400));
  TD_ASSIGN_OR_RETURN(const JobRecord record, ReadJobRecord(dir));
  TD_RETURN_IF_ERROR(CheckRunsHere(dir, record));
  TD_RETURN_IF_ERROR(SignalLauncher(record, SIGTERM));
  const auto say = [&](const char* text, bool over) {
    const Json json = {{"job", record.job}, {"over", over}};
    if (!as_json) std::printf("job %s: %s\n", record.job.c_str(), text);
    if (as_json && (over || seconds == 0)) std::puts(json.dump(2).c_str());
    std::fflush(stdout);
  };
  say("stopping; trainers finish their step and write a checkpoint if checkpoint.dir is set",
      false);
  const Time deadline = SteadyNow() + std::chrono::seconds(seconds);
  while (LauncherRuns(record)) {
    if (SteadyNow() >= deadline) {
      if (seconds == 0) return OkStatus();
      return DeadlineExceeded(
          "job %s has not ended within %d s [TD7006]; hint: run tandem events %s, or kill process "
          "%d to end the job now",
          record.job, seconds, dir, record.launcher_pid);
    }
    poll(nullptr, 0, 50);
  }
  say("over", true);
  return OkStatus();
}

Status Events(const ParsedArgs& args) {
  TD_ASSIGN_OR_RETURN(const bool as_json, WantsJson(args));
  TD_ASSIGN_OR_RETURN(const std::string dir, Dir(args));
  TD_ASSIGN_OR_RETURN(const std::vector<JobEvent> events, ReadEvents(dir));
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
  const StatusOr<JobRecord> record = ReadJobRecord(dir);
  const Status over = record.ok() ? CheckNotGone(dir, *record, events) : OkStatus();
  if (!over.ok()) std::fputs(("note: " + ToString(over) + "\n").c_str(), stderr);
  return OkStatus();
}

}  // namespace

int RunSave(const Args& args) {
  return RunBody(
      "save",
      "tandem save [LOG_DIR]: pservers write checkpoints into their --data_dir.\nA delta contains "
      "the table rows that changed after the last full checkpoint (its base),\nand replaces an "
      "older delta; tandem restore reads both.\nIn a_sync modes the servers' checkpoints are of "
      "different times. --snapshot writes one consistent\nsnapshot of all servers: it contains "
      "each acknowledged push completely or not at all. It is kept as the\nrules of tandemrun "
      "--snapshot_keep say (tandem snapshots lists them).\n",
      AccessFlags(
          {{"mode", "", "MODE", "full (default; also: base) or delta"},
           {"snapshot", "cut", "",
            "write one consistent snapshot of all servers, in addition to their checkpoints"},
           {"every_s", "", "N", "with --snapshot: repeat every N seconds until the job ends"}}),
      args, Save);
}

int RunRestore(const Args& args) {
  return RunBody(
      "restore",
      "tandem restore [LOG_DIR]: restores the pservers from their last checkpoints.\nIn sync mode "
      "the servers then reject running trainers, because their step differs.\n",
      AccessFlags(
          {{"snapshot", "cut", "[=N]",
            "restore snapshot N (save --snapshot); without N the newest one that all servers have"},
           {"at", "", "TIME",
            "restore the newest snapshot of this time in UTC or before, such as "
            "2026-11-28T20:00:00Z"},
           {"step", "", "N",
            "sync mode: restore the state after step N from an older state and the logs of the "
            "pservers (tandemrun --log_keep_mb)"},
           {"list", "", "", "list the snapshots without restoring one (tandem snapshots)"}}),
      args, Restore);
}

int RunDrain(const Args& args) {
  return RunBody(
      "drain",
      "tandem drain LOG_DIR: stops a job that tandemrun started on this host: trainers finish "
      "their\nstep and write a checkpoint if checkpoint.dir is set; without it nothing is "
      "saved\ntandem drain [LOG_DIR] --pserver=N: moves the rows and slices of one pserver to the "
      "others,\nwhile trainers continue; the pserver then receives no more rows and can be "
      "stopped\n",
      AccessFlags(
          {{"wait_s", "", "N", "time limit for the end of the job (default 60; 0: do not wait)"},
           {"pserver", "", "N", "pserver whose rows and slices move to the others"}}),
      args, Drain);
}

int RunEvents(const Args& args) {
  return RunBody(
      "events",
      "tandem events LOG_DIR: process events of a job on this host: start, exit, restart, loss\n",
      {kOutputFlag}, args, Events);
}

}  // namespace tandem::deploy
