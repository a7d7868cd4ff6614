#include "deploy/launch/hosts/job_director.h"

#include <signal.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/base/require.h"

namespace tandem::deploy {

using Report = JobReport::Kind;
using Kind = JobOrder::Kind;

JobDirector::JobDirector(Settings settings)
    : settings_(std::move(settings)),
      servers_(settings_.members, settings_.group),
      scaling_(settings_.retire_max) {
  TD_REQUIRE(!settings_.host_of.empty());
  TD_REQUIRE(settings_.ranks_least >= 0 && settings_.max_restarts >= 0);
  for (size_t rank = 0; rank < size(); ++rank) {
    running_.insert(static_cast<int>(rank));
    members_.insert(static_cast<int>(rank));
  }
  world_ = {
      .kind = Kind::kWorld, .version = kFirstWorld, .members = {members_.begin(), members_.end()}};
}

void JobDirector::Take(int host, const JobReport& report, Time now) {
  switch (report.kind) {
    case Report::kEnded:
      return TakeEnded(host, report.ended, now);
    case Report::kUnresponsive:
      // Records the process as the first failure now, because other processes may fail without it
      // before its host notices its end.
      if (report.ended.empty() || ending_ || elastic()) return;
      if (!MayRestart(report.ended[0].can_return)) Fail(report.ended[0].failure);
      return;
    case Report::kReady:
      if (IsOf(host, report.number)) Admit(report.number);
      return;
    case Report::kWait:
      return TakeWait(host, report);
    case Report::kSignal:
      TakeSignal(host, report.number);
      return FinishIfDone();
    case Report::kLeave:
      return Release(host, report.number);
    case Report::kStartLost:
      return StartLost({});
    case Report::kNotStarted:
      if (IsOf(host, report.number)) running_.erase(report.number);
      if (!ending_) FailFor(report.process, host, report.text, "process");
      return FinishIfDone();
    case Report::kEvent:
      Note(report.event.c_str(), report.process, report.text, "");
      orders_.back().except = host;
      return;
    case Report::kMember: {
      const MemberNews& news = report.member;
      if (ending_ || finished_ || !servers_.IsOn(host, news.server, news.member)) return;
      return Add(servers_.Take(news));
    }
    case Report::kPromote:
      return Promote(report.number);
    case Report::kScale:
      return Scale(report.number, now);
  }
}

void JobDirector::TakeWait(int host, const JobReport& report) {
  const NamedProcess& whom = report.wait.whom;
  JobOrder order{.kind = Kind::kWait, .wait = report.wait};
  if (whom.kind == "pserver" && servers_.Has(whom.number, 0)) {
    // While a standby of the pserver is missing, pushes to the pserver wait for the standby. Such a
    // wait is no reason to kill the pserver. ServerGroups kills members that do not reply.
    if (!servers_.IsWhole(whom.number)) return;
    const int at = servers_.PrimaryHost(whom.number);
    return at < 0 ? void() : Order(std::move(order), at);
  }
  const std::vector<int>& hosts =
      whom.kind == "pserver" ? settings_.pserver_hosts : settings_.host_of;
  auto number = static_cast<size_t>(whom.number);
  if (whom.kind == "caller") number /= static_cast<size_t>(settings_.callers_per_worker);
  if (number >= hosts.size() || hosts[number] == host) return;
  Order(std::move(order), hosts[number]);
}

void JobDirector::Promote(int server) {
  const std::string name = absl::StrFormat("pserver %d", server);
  std::string obstacle;
  if (ending_) {
    obstacle = "the job is stopping";
  } else if (finished_ || Over()) {
    obstacle = "the job is ending";
  } else {
    obstacle = servers_.ObstacleToPromotion(server, restarts_, settings_.max_restarts);
  }
  if (obstacle.empty()) return Add(servers_.Promote(server));
  Note("not promoted", name, obstacle,
       absl::StrFormat("tandem promote: %s keeps its primary: %s", name, obstacle));
}

void JobDirector::Scale(int target, Time now) {
  const auto most = static_cast<int>(size());
  if (!elastic() || ending_ || Over() || target < settings_.ranks_least || target > most) return;
  RankScaling::Change change = scaling_.SetTarget(target, most, running_, members_, now);
  bool changed = false;
  for (const int rank : change.retire) {
    const bool member = members_.erase(rank) > 0;
    changed = changed || member;
    // A rank that is not in the world may end at once.
    if (!member && scaling_.Dismiss(rank)) Dismiss(rank, SIGTERM);
  }
  if (changed) PublishWorld();
  if (!change.start.empty()) StartLost(std::move(change.start));
}

void JobDirector::StartLost(std::vector<int> ranks) {
  running_.insert(ranks.begin(), ranks.end());
  Order({.kind = Kind::kStartLost, .members = std::move(ranks)});
}

void JobDirector::Dismiss(int rank, int signal) {
  Order({.kind = Kind::kEnd, .process = absl::StrFormat("trainer %d", rank), .number = signal},
        HostOf(rank));
}

void JobDirector::ReleaseRetired(std::vector<ProcessEnd>& ended) {
  std::vector<int> start;
  std::erase_if(ended, [&](const ProcessEnd& process) {
    if (process.rank < 0 || !scaling_.IsRetired(process.rank)) return false;
    running_.erase(process.rank);
    start = scaling_.OnEnded(process.rank, static_cast<int>(size()), running_);
    const std::string text = absl::StrFormat("scaled down: %s", LeftText(Left()));
    Note("left", process.name, text, process.name + " " + text);
    return true;
  });
  if (!start.empty() && !ending_ && !Over()) StartLost(std::move(start));
}

void JobDirector::TakeSignal(int host, int signal) {
  if (signal <= 0) return;
  // A scheduler sends its signal to each host. Only a second signal to the same host is a request
  // to kill the job.
  const bool again = !signalled_.insert(host).second;
  if (ending_by_signal_ && !again) return;
  ending_ = ending_by_signal_ = true;
  Order({.kind = Kind::kSignal, .number = signal});
  orders_.back().except = host;
}

void JobDirector::Release(int host, int signal) {
  if (ending_ || signal <= 0 || lost_hosts_.contains(host)) return;
  const int left = static_cast<int>(std::ranges::count_if(
      members_, [&](int rank) { return HostOf(rank) != host && running_.contains(rank); }));
  if (!elastic() || !Enough(left)) {  // the job cannot continue without this host
    TakeSignal(host, signal);
    orders_.back().except = AddressedOrder::kAll;
    return FinishIfDone();
  }
  lost_hosts_.insert(host);
  std::erase_if(running_, RanksOf(host));
  std::erase_if(members_, RanksOf(host));
  const std::string name = absl::StrFormat("host %d", host);
  Note("left", name, LeftText(left), absl::StrFormat("%s leaves: %s", name, LeftText(left)));
  PublishWorld();
  Order({.kind = Kind::kRelease, .number = signal}, host);
  FinishIfDone();
}

void JobDirector::HostLeft(int host) {
  std::erase_if(running_, RanksOf(host));
  FinishIfDone();
}

bool JobDirector::IsOf(int host, int rank) const {
  return rank >= 0 && static_cast<size_t>(rank) < size() && HostOf(rank) == host;
}

void JobDirector::TakeEnded(int host, std::vector<ProcessEnd> ended, Time now) {
  if (lost_hosts_.contains(host)) return;  // the host has left the job
  std::erase_if(ended, [&](const ProcessEnd& process) {
    return process.rank >= 0 && !IsOf(host, process.rank);
  });
  ReleaseRetired(ended);
  for (const ProcessEnd& process : ended) {
    if (process.rank < 0) continue;
    running_.erase(process.rank);
    if (process.done && !std::exchange(any_done_, true) && settings_.ranks_return) {
      Order({.kind = Kind::kOver});
    }
  }
  if (!ending_) {
    for (const ProcessEnd& process : ended) {
      if (finished_ || !servers_.IsOn(host, process.server, process.server_member)) continue;
      Add(servers_.OnEnded(process.server, process.server_member));
    }
    LoseRanks(host, ended);
    for (size_t i = 0; i < ended.size();) {
      if (!ended[i].lost || !MayRestart(ended[i].can_return)) {
        ++i;
        continue;
      }
      Restart(host, ended[i], /*member=*/true);
      ended.erase(ended.begin() + static_cast<ptrdiff_t>(i));
    }
    LoseRanks(host, ended);  // handles the killed ranks that were not restarted
    Blame(ended, now);
  }
  FinishIfDone();
}

int JobDirector::Left() const {
  return static_cast<int>(
      std::ranges::count_if(members_, [this](int rank) { return running_.contains(rank); }));
}

bool JobDirector::Enough(int left) const {
  return left > 0 && (Over() || left >= settings_.ranks_least);
}

std::string JobDirector::LeftText(int left) const {
  return Enough(left) ? absl::StrFormat("%d of %d ranks continue", left, size())
                      : absl::StrFormat("only %d of %d ranks are left, but the job needs %d", left,
                                        size(), settings_.ranks_least);
}

void JobDirector::LoseRanks(int host, std::vector<ProcessEnd>& ended) {
  if (!elastic() || ended.empty()) return;
  const int left = Left();
  const bool enough = Enough(left);
  bool changed = Over();
  for (size_t i = 0; i < ended.size();) {
    const ProcessEnd process = ended[i];
    const bool member = process.rank >= 0 && members_.contains(process.rank);
    const bool lost = process.killed && (enough || !MayRestart(process.can_return));
    if (process.rank < 0 || (member && !lost)) {
      ++i;
      continue;
    }
    const std::string then = member ? LeftText(left) : "before it joined";
    Note("lost", process.name, then,
         absl::StrFormat("%s: %s: %s", process.name, process.failure.exit.Text(), then));
    if (member && !enough) return;
    changed = changed || member;
    members_.erase(process.rank);
    ended.erase(ended.begin() + static_cast<ptrdiff_t>(i));
    if (process.killed && MayRestart(process.can_return)) Restart(host, process, /*member=*/false);
  }
  if (changed) PublishWorld();
}

void JobDirector::Restart(int host, const ProcessEnd& process, bool member) {
  TD_REQUIRE(restarts_ < settings_.max_restarts);
  ++restarts_;
  if (process.rank >= 0) running_.insert(process.rank);
  Order({.kind = Kind::kRestart, .process = process.name, .number = restarts_, .member = member},
        host);
}

void JobDirector::Blame(const std::vector<ProcessEnd>& ended, Time now) {
  const ProcessEnd* culprit = nullptr;
  for (const ProcessEnd& process : ended) {
    if (!process.failed) continue;
    if (culprit == nullptr ||
        (IsConsequence(culprit->failure.exit) && !IsConsequence(process.failure.exit))) {
      culprit = &process;
    }
  }
  if (culprit == nullptr) return;
  if (!IsConsequence(culprit->failure.exit) || settings_.patience == Duration::zero()) {
    return Fail(culprit->failure);
  }
  if (held_) return;
  held_ = culprit->failure;
  held_until_ = now + settings_.patience;
}

void JobDirector::Step(Time now) {
  if (ending_) return;
  if (!finished_) Add(servers_.Step(now));
  for (const int rank : scaling_.TakeOverdue(now)) Dismiss(rank, SIGKILL);
  for (const auto& [host, awaited] : awaited_) {
    if (now < awaited.until) continue;
    return FailFor(awaited.name, host,
                   absl::StrFormat("no tandemrun has replaced it within %.0f s",
                                   Seconds(settings_.replaced_within)));
  }
  if (held_ && now >= held_until_) Fail(*held_);
}

Time JobDirector::wakeup() const {
  if (!orders_.empty()) return Time();
  Time at = Time::max();
  if (ending_) return at;
  if (held_) at = held_until_;
  if (!finished_) at = std::min({at, servers_.wakeup(), scaling_.wakeup()});
  for (const auto& [host, awaited] : awaited_) at = std::min(at, awaited.until);
  return at;
}

void JobDirector::Admit(int rank) {
  if (scaling_.Dismiss(rank)) return Dismiss(rank, SIGTERM);
  if (!elastic() || members_.contains(rank) || ending_ || held_ || Over()) return;
  if (scaling_.IsRetired(rank)) return;
  running_.insert(rank);  // the user may have started it (kStartLost)
  members_.insert(rank);
  scaling_.OnJoined(rank);
  const std::string name = absl::StrFormat("trainer %d", rank);
  const std::string text = absl::StrFormat("joined: %d of %d ranks", Left(), size());
  Note("joined", name, text, name + " " + text);
  PublishWorld();
}

void JobDirector::LoseHost(int host, const std::string& name, const std::string& why, Time now) {
  lost_hosts_.insert(host);
  const bool only_copy = HasOnlyCopy(host);
  const int members = servers_.MembersOn(host);
  const bool trainers = std::erase_if(running_, RanksOf(host)) > 0;
  if (ending_ || (!trainers && !only_copy && members == 0 && !elastic())) return FinishIfDone();
  if (!finished_) Add(servers_.LoseHost(host));
  if (!trainers && !only_copy && members > 0 && servers_.CanAcknowledge()) {
    const std::string text = absl::StrFormat(
        "%s; its pservers continue on other hosts, and a tandemrun may replace the host", why);
    return Note("lost", name, text, absl::StrFormat("%s is lost: %s", name, text));
  }
  if (!elastic() || only_copy || members > 0) {
    // The processes of the host return with a host that replaces it.
    if (TrainersReturn() && MayRestart(/*can_return=*/!only_copy)) {
      ++restarts_;
      awaited_[host] = {name, now + settings_.replaced_within};
      const std::string text = absl::StrFormat(
          "%s; its %s wait for a tandemrun that replaces it (restart %d of %d)", why,
          members > 0 ? "processes" : "trainers", restarts_, settings_.max_restarts);
      return Note("lost", name, text, absl::StrFormat("%s is lost: %s", name, text));
    }
    return FailFor(name, host, why);
  }
  const int left = Left();
  const std::string text = absl::StrFormat("%s; %s", why, LeftText(left));
  Note("lost", name, text, absl::StrFormat("%s is lost: %s", name, text));
  if (!Enough(left)) return FailFor(name, host, text);
  std::erase_if(members_, RanksOf(host));
  PublishWorld();
  FinishIfDone();
}

bool JobDirector::HasOnlyCopy(int host) const {
  return servers_.empty() && std::ranges::count(settings_.pserver_hosts, host) > 0;
}

bool JobDirector::MayReplace(int host) const {
  return lost_hosts_.contains(host) && !ending_ && !finished_ && !Over() && TrainersReturn();
}

bool JobDirector::NeedsAddress(int host) const { return servers_.MembersOn(host) > 0; }

void JobDirector::AddHost(int host, const std::string& name) {
  TD_REQUIRE(MayReplace(host));
  lost_hosts_.erase(host);
  awaited_.erase(host);
  int ranks = 0;
  for (size_t rank = 0; rank < size(); ++rank) {
    if (settings_.host_of[rank] != host) continue;
    running_.insert(static_cast<int>(rank));
    ++ranks;
  }
  const int members = servers_.MembersOn(host);
  const std::string text = absl::StrFormat("replaces the lost host; it starts %d %s%s",
                                           ranks + members, members > 0 ? "process" : "trainer",
                                           ranks + members == 1 ? ""
                                           : members > 0        ? "es"
                                                                : "s");
  Note("joined", name, text, name + " " + text);
  if (elastic()) Order(world_, host);
}

void JobDirector::Fail(const Failure& failure) {
  if (ending_) return;
  ending_ = true;
  Order({.kind = Kind::kFailed, .failure = failure});
  FinishIfDone();
}

void JobDirector::FailFor(const std::string& name, int host, const std::string& why,
                          const char* role) {
  Failure failure;
  failure.role = role;
  failure.rank = host;
  failure.host = name;
  failure.exit.code = kExitLostPeer;
  failure.text = why;
  Fail(failure);
}

void JobDirector::PublishWorld() {
  TD_REQUIRE(elastic());
  ++world_.version;
  world_.over = Over();
  world_.members.clear();
  std::ranges::copy_if(members_, std::back_inserter(world_.members),
                       [this](int rank) { return running_.contains(rank); });
  Order(world_);
}

void JobDirector::FinishIfDone() {
  if (finished_ || !running_.empty()) return;
  if (!ending_ && !awaited_.empty()) return;   // the trainers of a lost host return
  if (!ending_ && held_) return Fail(*held_);  // no process is left that could name another cause
  finished_ = true;
  Order({.kind = Kind::kFinish});
}

void JobDirector::Note(const char* event, const std::string& process, const std::string& text,
                       const std::string& shown) {
  Order({.kind = Kind::kNote, .process = process, .event = event, .text = text, .shown = shown});
}

}  // namespace tandem::deploy
