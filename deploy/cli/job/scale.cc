// Implements `tandem scale`, which changes the numbers of workers and pservers of a running job.
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/os/files.h"
#include "common/os/own_files.h"
#include "deploy/cli/commands.h"
#include "deploy/cli/console.h"
#include "deploy/cli/job/job_access.h"
#include "deploy/cli/job/rebalance.h"
#include "deploy/launch/job_scale.h"
#include "deploy/launch/rank_reports.h"
#include "proto/pserver.pb.h"

namespace tandem::deploy {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kScalePollMs = 20;  // time between two looks at the job, in ms
// Time limit for one reply of a pserver that starts. The limit is short, because the pserver may
// not read its connections yet; the command then tries again.
constexpr Duration kStartLookTimeout = std::chrono::seconds(1);

struct Scaling {
  std::string dir;
  JobRecord record;
  int workers = -1, pservers = -1;  // requested numbers; -1: no change
  int seconds_max = 0;
  Time deadline{};
  bool as_json = false;
  size_t events = 0;  // number of events before the request
};

void Say(const Scaling& what, const std::string& text) {
  if (what.as_json) return;
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
}

std::string LimitsText(const ScaleSide& side, const char* flag) {
  if (side.obstacle != ScaleObstacle::kNone) return "fixed";
  return absl::StrFormat("%d to %d: %s=N", side.least, side.most, flag);
}

Json ToJson(const ScaleSide& side) {
  return {{"now", side.now},
          {"desired", side.desired},
          {"min", side.least},
          {"max", side.most},
          {"fixed", side.obstacle != ScaleObstacle::kNone}};
}

Status CheckLimits(const ScaleSide& side, const std::string& spelled, int number) {
  if (side.Accepts(number)) return OkStatus();
  return InvalidArgument("%s=%d: the job allows %d to %d [TD1004]", spelled, number, side.least,
                         side.most);
}

Status CheckWorkers(const Scaling& what, const ScaleSide& side) {
  switch (side.obstacle) {
    case ScaleObstacle::kNone:
      return CheckLimits(side, "--workers", what.workers);
    case ScaleObstacle::kNotElastic:
      return FailedPrecondition(
          "job %s is not elastic: its %d workers cannot change [TD7017]; hint: start the job with "
          "tandemrun --nproc=MIN:MAX",
          what.record.job, side.now);
    default:
      return Unimplemented(
          "--workers is not implemented for a job on several hosts [TD1109]; hint: end a tandemrun "
          "with SIGTERM, or start another one (tandemrun --hosts=MIN:MAX)");
  }
}

Status CheckPservers(const Scaling& what, const ScaleSide& side) {
  switch (side.obstacle) {
    case ScaleObstacle::kNone:
      if (what.pservers < side.least) {
        return InvalidArgument(
            "--servers=%d: the job began with %d pservers, which trainers and commands that start "
            "later need; it allows %d to %d [TD1004]; hint: move the rows of a pserver away with "
            "tandem drain --pserver=N",
            what.pservers, side.least, side.least, side.most);
      }
      return CheckLimits(side, "--servers", what.pservers);
    case ScaleObstacle::kNoPservers:
      return FailedPrecondition(
          "job %s has no pservers: --servers has no effect [TD7004]; hint: use --workers",
          what.record.job);
    case ScaleObstacle::kStandbys:
      return Unimplemented(
          "--servers is not implemented for pservers with standbys or replicas [TD1109]; hint: "
          "start a pserver by hand, and run tandem rebalance --add");
    case ScaleObstacle::kNotDurable:
      return FailedPrecondition(
          "rows of job %s cannot move, because its pservers have no durable state [TD7017]; hint: "
          "start the job with tandemrun --durability=logged --pserver_data_dir=DIR",
          what.record.job);
    default:
      return Unimplemented(
          "--servers is not implemented for a job on several hosts [TD1109]; hint: start a pserver "
          "by hand, and run tandem rebalance --add");
  }
}

// Returns an error if tandemrun has refused a part of the request.
Status CheckAccepted(const Scaling& what) {
  const StatusOr<std::vector<JobEvent>> events = ReadEvents(what.dir);
  for (size_t i = what.events; events.ok() && i < events->size(); ++i) {
    const JobEvent& e = (*events)[i];
    if (e.event != "not added" && e.event != "not ended") continue;
    return FailedPrecondition("%s was %s: %s [TD7018]; hint: run tandem events %s", e.process,
                              e.event, e.text, what.dir);
  }
  return OkStatus();
}

// Waits until `reached` returns true for the numbers of the job, and returns these numbers.
StatusOr<ScaleState> Await(const Scaling& what, const std::string& goal,
                           const std::function<bool(const ScaleState&)>& reached) {
  while (true) {
    TD_ASSIGN_OR_RETURN(const ScaleState now, ReadScaleState(what.dir));
    if (reached(now)) return now;
    TD_RETURN_IF_ERROR(CheckAccepted(what));
    TD_RETURN_IF_ERROR(CheckNotOver(what.dir, what.record));
    TD_RETURN_IF_ERROR(CheckRunsHere(what.dir, what.record));
    if (SteadyNow() >= what.deadline) {
      return DeadlineExceeded(
          "job %s does not have %s after %d s: it has %d workers (%d more start or end) and %d "
          "pservers [TD7018]; hint: run tandem events %s, and repeat the command",
          what.record.job, goal, what.seconds_max, now.workers.now, now.changing, now.pservers.now,
          what.dir);
    }
    poll(nullptr, 0, kScalePollMs);
  }
}

Status Request(const Scaling& what, ScaleRequest::What kind, int number) {
  return RequestScale(what.dir + "/silent", {kind, number});
}

StatusOr<JobAccess> AccessOf(const Scaling& what) {
  ParsedArgs args;
  args.positional.push_back(what.dir);
  return FindPservers(args);
}

// Waits for a reply of a pserver, and for its parameters if `with_parameters`. Returns whether the
// pserver has parameters or the settings of the job. It gets them with its first rows or slices.
StatusOr<bool> AwaitReply(const Scaling& what, int rank, const std::string& address,
                          bool with_parameters) {
  TD_ASSIGN_OR_RETURN(JobAccess access, AccessOf(what));
  const auto index = static_cast<size_t>(rank);
  if (!address.empty()) {
    TD_ASSIGN_OR_RETURN(const Endpoint endpoint, ParseEndpoint(address));
    access.pservers.resize(std::max(access.pservers.size(), index + 1));
    access.pservers[index] = endpoint;
  }
  access.timeout = kStartLookTimeout;
  StatusReply reply;
  const std::string goal =
      absl::StrCat(with_parameters ? "parameters on" : "a reply of", " pserver ", rank);
  const auto replied = [&](const ScaleState&) {
    return ServerAccess(access, index).GetStatus(&reply).ok() &&
           (reply.initialised() || !with_parameters);
  };
  TD_RETURN_IF_ERROR(Await(what, goal, replied).status());
  return reply.configured() && reply.initialised();
}

Rebalancing Moves(const Scaling& what) {
  Rebalancing moves;
  moves.silent = what.as_json;
  moves.deadline = what.deadline;
  return moves;
}

Status AddPservers(const Scaling& what, const ScaleSide& before) {
  const int number = what.pservers;
  if (number > before.now) {
    Say(what, absl::StrFormat("starting %s",
                              Counted(static_cast<size_t>(number - before.now), "pserver")));
  }
  TD_RETURN_IF_ERROR(Request(what, ScaleRequest::What::kPservers, number));
  TD_ASSIGN_OR_RETURN(const ScaleState now,
                      Await(what, Counted(static_cast<size_t>(number), "pserver"),
                            [number](const ScaleState& s) { return s.pservers.now == number; }));
  if (now.added.empty()) return OkStatus();
  TD_RETURN_IF_ERROR(AwaitReply(what, 0, "", /*with_parameters=*/true).status());
  Rebalancing moves = Moves(what);
  TD_ASSIGN_OR_RETURN(JobAccess access, AccessOf(what));
  for (const auto& [rank, address] : now.added) {
    TD_ASSIGN_OR_RETURN(const bool known, AwaitReply(what, rank, address, false));
    moves.added.push_back(address);
    // A pserver without the settings of the job gets them as a new one, even if an interrupted
    // command has added it before.
    const auto index = static_cast<size_t>(rank);
    if (!known && index < access.pservers.size()) access.pservers.resize(index);
  }
  Say(what, absl::StrCat("moving rows and slices to ", absl::StrJoin(moves.added, ", ")));
  return Rebalance(access, moves);
}

Status RemovePservers(const Scaling& what, const ScaleSide& before) {
  const int number = what.pservers;
  for (int rank = before.now - 1; rank >= number; --rank) {
    TD_ASSIGN_OR_RETURN(const JobAccess access, AccessOf(what));
    // A pserver that an interrupted command has started may not have joined the job.
    if (static_cast<size_t>(rank) >= access.pservers.size()) continue;
    TD_ASSIGN_OR_RETURN(const bool known, AwaitReply(what, rank, "", false));
    if (!known) {  // it got no rows, so it has nothing to give away
      NoteEvent(access, {"", "drained", absl::StrFormat("pserver %d", rank), 0, "it had no rows"});
      continue;
    }
    Say(what, absl::StrFormat("moving rows and slices away from pserver %d", rank));
    Rebalancing moves = Moves(what);
    moves.drained = rank;
    TD_RETURN_IF_ERROR(Rebalance(access, moves));
  }
  Say(what, "ending the pservers without rows");
  TD_RETURN_IF_ERROR(Request(what, ScaleRequest::What::kPservers, number));
  return Await(what, Counted(static_cast<size_t>(number), "pserver"),
               [number](const ScaleState& s) { return s.pservers.now == number; })
      .status();
}

Status ScaleWorkers(const Scaling& what, const ScaleSide& before) {
  const int number = what.workers;
  if (number != before.now) {
    Say(what,
        absl::StrFormat("%s %s", number > before.now ? "starting" : "ending",
                        Counted(static_cast<size_t>(std::abs(number - before.now)), "worker")));
  }
  TD_RETURN_IF_ERROR(Request(what, ScaleRequest::What::kWorkers, number));
  return Await(what, Counted(static_cast<size_t>(number), "worker"),
               [number](const ScaleState& s) {
                 return s.workers.now == number && s.changing == 0 && s.workers.desired == number;
               })
      .status();
}

// Prints the numbers of the job before and after the command.
void PrintChange(const Scaling& what, const ScaleState& before, const ScaleState& after,
                 double seconds) {
  if (what.as_json) {
    const Json json = {{"workers", ToJson(after.workers)},
                       {"pservers", ToJson(after.pservers)},
                       {"workers_before", before.workers.now},
                       {"pservers_before", before.pservers.now},
                       {"seconds", seconds}};
    std::puts(json.dump(2).c_str());
    return;
  }
  std::vector<std::string> changes;
  const auto add = [&changes](const char* name, int from, int to) {
    changes.push_back(absl::StrFormat("%s %d → %d", name, from, to));
  };
  if (what.workers >= 0) add("workers", before.workers.now, after.workers.now);
  if (what.pservers >= 0) add("servers", before.pservers.now, after.pservers.now);
  std::printf("%s, took %.1f s\n", absl::StrJoin(changes, ", ").c_str(), seconds);
}

void PrintNumbers(const Scaling& what, const ScaleState& now) {
  if (what.as_json) {
    const Json json = {{"job", what.record.job},
                       {"workers", ToJson(now.workers)},
                       {"pservers", ToJson(now.pservers)}};
    std::puts(json.dump(2).c_str());
    return;
  }
  std::vector<std::vector<std::string>> rows = {{"", "NOW", "DESIRED", "LIMITS"}};
  const auto add = [&rows](const char* name, const ScaleSide& side, const char* flag) {
    rows.push_back(
        {name, std::to_string(side.now), std::to_string(side.desired), LimitsText(side, flag)});
  };
  add("workers", now.workers, "--workers");
  add("servers", now.pservers, "--servers");
  std::fputs(TableText(rows).c_str(), stdout);
}

// Locks the job against another `tandem scale`, until the returned file is closed.
StatusOr<Fd> Lock(const Scaling& what) {
  const std::string path = what.dir + "/scale.lock";
  TD_ASSIGN_OR_RETURN(Fd file, OpenOwnFile(path, O_RDWR | O_CREAT, OwnRule::kUser));
  if (flock(file.get(), LOCK_EX | LOCK_NB) == 0) return file;
  if (errno != EWOULDBLOCK) return FileError(path, "cannot be locked", errno);
  return Unavailable(
      "another tandem scale changes job %s [TD7018]; hint: wait until the other command has ended",
      what.record.job);
}

StatusOr<Scaling> ReadArguments(const ParsedArgs& args) {
  Scaling what;
  TD_RETURN_IF_ERROR(TakesAtMost(1, args));
  TD_ASSIGN_OR_RETURN(what.as_json, WantsJson(args));
  TD_ASSIGN_OR_RETURN(what.seconds_max, args.GetInt("wait_s", 60, 1, 86400));
  TD_ASSIGN_OR_RETURN(what.workers, args.GetInt("workers", -1, 1, 1024));
  TD_ASSIGN_OR_RETURN(what.pservers, args.GetInt("servers", -1, 1, 1024));
  if (args.positional.empty()) {
    return InvalidArgument(
        "the log directory of the job is missing [TD1007]; hint: name the --log_dir of tandemrun, "
        "by default log-JOB");
  }
  what.dir = JobDirOf(args.positional[0]);
  TD_ASSIGN_OR_RETURN(what.record, ReadJobRecord(what.dir));
  return what;
}

Status Scale(const ParsedArgs& args) {
  TD_ASSIGN_OR_RETURN(Scaling what, ReadArguments(args));
  TD_RETURN_IF_ERROR(CheckRunsHere(what.dir, what.record));
  const Time began = SteadyNow();
  what.deadline = began + std::chrono::seconds(what.seconds_max);
  TD_ASSIGN_OR_RETURN(const ScaleState before, ReadScaleState(what.dir));
  if (what.workers < 0 && what.pservers < 0) {
    PrintNumbers(what, before);
    return OkStatus();
  }
  if (what.workers >= 0) TD_RETURN_IF_ERROR(CheckWorkers(what, before.workers));
  if (what.pservers >= 0) TD_RETURN_IF_ERROR(CheckPservers(what, before.pservers));
  TD_ASSIGN_OR_RETURN(const Fd lock, Lock(what));
  TD_ASSIGN_OR_RETURN(const std::vector<JobEvent> events, ReadEvents(what.dir));
  what.events = events.size();
  if (what.pservers >= 0) {
    const ScaleSide& side = before.pservers;
    TD_RETURN_IF_ERROR(what.pservers < side.now ? RemovePservers(what, side)
                                                : AddPservers(what, side));
  }
  if (what.workers >= 0) TD_RETURN_IF_ERROR(ScaleWorkers(what, before.workers));
  TD_ASSIGN_OR_RETURN(const ScaleState after, ReadScaleState(what.dir));
  PrintChange(what, before, after, Seconds(SteadyNow() - began));
  return OkStatus();
}

}  // namespace

int RunScale(const Args& args) {
  return RunBody(
      "scale",
      "tandem scale LOG_DIR: prints the numbers of workers and pservers of a running job, and "
      "their "
      "limits\n"
      "tandem scale LOG_DIR --workers=N --servers=M: changes them, while the others continue. The "
      "newest\nworkers end first, after their step. A new pserver gets its share of "
      "the rows; a pserver that\nends gives its rows to the others before. The job must run on "
      "this host.\n",
      {{"workers", "", "N", "number of workers of an elastic job (tandemrun --nproc=MIN:MAX)"},
       {"servers", "", "M", "number of pservers, at least the number at the start of the job"},
       {"wait_s", "", "N", "time limit for the change (default 60)"},
       kOutputFlag},
      args, Scale);
}

}  // namespace tandem::deploy
