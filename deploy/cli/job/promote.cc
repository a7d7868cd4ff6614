// Implements `tandem promote`, which makes a standby of a pserver its new primary.
#include <poll.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "deploy/cli/commands.h"
#include "deploy/cli/console.h"
#include "deploy/cli/job/job_access.h"
#include "deploy/cli/job/standby_rows.h"
#include "deploy/launch/rank_reports.h"
#include "proto/pserver.pb.h"

namespace tandem::deploy {
namespace {

// Maximum time for which the command waits until enough standbys have all log entries that the
// primary had at the first look.
constexpr Duration kCatchUpMax = std::chrono::seconds(3);
constexpr int kPollMs = 10;  // time between two status requests to the server, in ms
// Time limit for one reply of the new primary. The limit is short, because a primary that has just
// started may not read its connections yet; the command then tries again.
constexpr Duration kLookTimeout = std::chrono::seconds(1);

struct Promotion {
  int server = 0;
  int seconds_max = 0;  // time limit in seconds until the new primary must serve
  bool as_json = false;
  uint64_t term = 0;  // term of the primary before the promotion
  int member = 0;     // member that was the primary before the promotion
};

// Returns the number of the pserver, and removes it from the arguments.
StatusOr<int> TakeServer(ParsedArgs& args) {
  int server = -1;
  const bool given = !args.positional.empty();
  if (given && absl::SimpleAtoi(args.positional.back(), &server) && server >= 0) {
    args.positional.pop_back();
    return server;
  }
  return InvalidArgument(
      "the number of the pserver is missing%s [TD1007]; hint: run tandem promote LOG_DIR N",
      given ? absl::StrFormat(": got \"%s\"", args.positional.back()) : "");
}

// Returns how a standby stands to its primary, for a message.
std::string LackText(const StandbyRow& standby) {
  std::string text = absl::StrFormat("member %d: %s", standby.member, standby.state);
  if (!standby.current) return text;
  return absl::StrFormat("%s, lacks %d log entries of %d bytes and %.1f s", text,
                         standby.lag_entries, standby.lag_bytes, standby.lag_seconds);
}

// The standbys of a server that have all log entries which its primary had at the first look.
// Trainers may push without a pause, so that a standby never has all entries at once.
struct CompleteStandbys {
  // The process of the primary, and the end of the first look at it.
  uint64_t incarnation = 0;
  Time first;
  std::set<int> members;  // numbers of these standbys
  std::string lags;       // the state of each standby at the last look
};

// Reads the term and the primary of the server into `what`. Adds the standbys to `complete` that
// lack only log entries written since the first look, and removes the standbys that do not follow
// the primary any more (StandbyRow::Follows). A standby that follows but still copies older entries
// is not added, because it may lack acknowledged pushes.
Status FindComplete(const JobAccess& access, const std::vector<int>& members, Promotion& what,
                    CompleteStandbys& complete) {
  const Time asked = SteadyNow();
  StatusReply reply;
  TD_RETURN_IF_ERROR(ServerAccess(access, static_cast<size_t>(what.server)).GetStatus(&reply));
  if (reply.term() != what.term || reply.server_incarnation() != complete.incarnation) {
    complete = {reply.server_incarnation(), SteadyNow(), {}, ""};
  }
  what.term = reply.term();
  what.member = static_cast<int>(reply.member());
  complete.lags.clear();
  for (const StandbyRow& standby : StandbysOf(reply, members)) {
    absl::StrAppend(&complete.lags, complete.lags.empty() ? "" : "; ", LackText(standby));
    if (!standby.Follows()) {
      complete.members.erase(standby.member);
    } else if (standby.lag_entries == 0 || standby.lag_seconds < Seconds(asked - complete.first)) {
      complete.members.insert(standby.member);
    }
  }
  return OkStatus();
}

// Checks that enough standbys of the server have its complete state. Waits for them for up to
// kCatchUpMax. Stores the present term and primary of the server in `what`.
Status CheckStandbys(const JobAccess& access, Promotion& what) {
  const auto servers = static_cast<int>(access.pservers.size());
  if (what.server >= servers) {
    return InvalidArgument("there is no pserver %d: the job has %d pservers [TD1004]", what.server,
                           servers);
  }
  const std::vector<int> members = MembersOf(access, what.server);
  if (members.empty()) {
    return FailedPrecondition(
        "pserver %d has no standbys [TD4028]; hint: start the job with tandemrun --standbys=1",
        what.server);
  }
  // Any `needed` complete members together have all acknowledged pushes (server_group.h).
  const size_t needed = members.size() - members.size() / 2;
  CompleteStandbys complete;
  const Time deadline = SteadyNow() + kCatchUpMax;
  while (true) {
    TD_RETURN_IF_ERROR(FindComplete(access, members, what, complete));
    if (complete.members.size() >= needed) return OkStatus();
    if (SteadyNow() >= deadline) break;
    poll(nullptr, 0, kPollMs);
  }
  return FailedPrecondition(
      "pserver %d has %d standbys that follow its primary, but a promotion needs %d (%s) [TD4032]; "
      "hint: run tandem status %s, and try again when the standbys follow",
      what.server, complete.members.size(), needed, complete.lags, access.dir);
}

// Reads the events of the job after the first `before` events. Returns an error if one of them says
// that tandemrun has refused to promote a standby of this server.
Status CheckAccepted(const JobAccess& access, int server, size_t before) {
  const StatusOr<std::vector<JobEvent>> events = ReadEvents(access.dir);
  const std::string name = absl::StrFormat("pserver %d", server);
  for (size_t i = before; events.ok() && i < events->size(); ++i) {
    const JobEvent& e = (*events)[i];
    if (e.event == "replaced" && absl::StartsWith(e.process, name + " ")) return OkStatus();
    if (e.event != "not promoted" || e.process != name) continue;
    return FailedPrecondition("%s keeps its primary: %s [TD4032]; hint: run tandem events %s", name,
                              e.text, access.dir);
  }
  return OkStatus();
}

// Waits until a primary with a later term than `what.term` serves, and returns its status.
StatusOr<StatusReply> AwaitPrimary(const JobAccess& access, const Promotion& what, size_t before) {
  JobAccess quick = access;
  quick.timeout = std::min(access.timeout, kLookTimeout);
  const Time deadline = SteadyNow() + std::chrono::seconds(what.seconds_max);
  while (true) {
    StatusReply reply;
    const Status answer = ServerAccess(quick, static_cast<size_t>(what.server)).GetStatus(&reply);
    if (answer.ok() && reply.term() > what.term) return reply;
    TD_RETURN_IF_ERROR(CheckAccepted(access, what.server, before));
    TD_RETURN_IF_ERROR(CheckRunsHere(access.dir, *access.record));
    if (SteadyNow() >= deadline) {
      return DeadlineExceeded(
          "pserver %d has no new primary after %d s [TD4032]; hint: run tandem events %s",
          what.server, what.seconds_max, access.dir);
    }
    poll(nullptr, 0, kPollMs);
  }
}

Status Promote(const ParsedArgs& given) {
  ParsedArgs args = given;
  Promotion what;
  TD_ASSIGN_OR_RETURN(what.as_json, WantsJson(args));
  TD_ASSIGN_OR_RETURN(what.seconds_max, args.GetInt("wait_s", 30, 1, 86400));
  TD_ASSIGN_OR_RETURN(what.server, TakeServer(args));
  TD_ASSIGN_OR_RETURN(const JobAccess access, FindPservers(args));
  TD_RETURN_IF_ERROR(CheckRunsHere(access.dir, *access.record));
  TD_RETURN_IF_ERROR(CheckStandbys(access, what));
  TD_ASSIGN_OR_RETURN(const std::vector<JobEvent> events, ReadEvents(access.dir));
  const Time began = SteadyNow();
  TD_RETURN_IF_ERROR(RequestPromotion(access.dir + "/silent", what.server));
  TD_ASSIGN_OR_RETURN(const StatusReply now, AwaitPrimary(access, what, events.size()));
  const double seconds = Seconds(SteadyNow() - began);
  const auto member = static_cast<int>(now.member());
  if (member == what.member) {
    return Unavailable(
        "pserver %d: member %d was restarted and is the primary again (term %d) [TD4032]; hint: "
        "run tandem status %s, and try again when the standbys follow",
        what.server, member, now.term(), access.dir);
  }
  if (what.as_json) {
    const nlohmann::ordered_json json = {{"pserver", what.server},
                                         {"member", member},
                                         {"previous_member", what.member},
                                         {"term", now.term()},
                                         {"seconds", seconds}};
    std::puts(json.dump(2).c_str());
    return OkStatus();
  }
  std::printf("pserver %d: member %d is the primary (term %llu), after %.1f s\n", what.server,
              member, static_cast<unsigned long long>(now.term()), seconds);
  return OkStatus();
}

}  // namespace

int RunPromote(const Args& args) {
  return RunBody(
      "promote",
      "tandem promote [LOG_DIR] N: makes a standby of pserver N its primary, while trainers "
      "continue.\ntandemrun ends the present primary and restarts it as a standby, which is one "
      "of\n--max_restarts. No acknowledged push is lost. The job must run on this host.\n",
      {{"wait_s", "", "N", "time limit for the promotion (default 30)"},
       {"timeout_s", "", "N", "time limit for one reply of the pserver (default 5)"},
       kOutputFlag},
      args, Promote);
}

}  // namespace tandem::deploy
