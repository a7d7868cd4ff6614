#include "pserver/client/moves/global_snapshot.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_join.h"
#include "common/codec/bucket_map_proto.h"
#include "common/rpc/byte_buffer.h"
#include "proto/pserver.pb.h"

namespace tandem::ps {
namespace {

using rpc::PserverCall;

constexpr Duration kGrace = std::chrono::seconds(2);

void Raise(const google::protobuf::RepeatedField<uint64_t>& told,
           google::protobuf::RepeatedField<uint64_t>* known) {
  while (known->size() < told.size()) known->Add(0);
  for (int i = 0; i < told.size(); ++i) known->Set(i, std::max(known->Get(i), told.Get(i)));
}

void Raise(const CutMarkDef& told, CutMarkDef& known) {
  if (told.incarnation() < known.incarnation()) return;
  if (told.incarnation() > known.incarnation()) {
    known = told;
    return;
  }
  known.set_completed(known.completed() || told.completed());
  Raise(told.sent(), known.mutable_sent());
  Raise(told.ended(), known.mutable_ended());
}

// Adds to `request` which snapshots all servers have. `lists`: the numbers of the snapshots of each
// server, ascending. `abandoned`: those that a server calls abandoned.
void AddWhole(const std::vector<std::vector<uint64_t>>& lists, const std::set<uint64_t>& abandoned,
              TakeCutRequest* request) {
  for (const uint64_t number : CommonNumbers(lists)) {
    request->add_whole(number);
    if (!abandoned.contains(number)) request->set_complete(number);
  }
}

}  // namespace

Duration GlobalSnapshotReport::held() const {
  Duration longest = Duration::zero();
  for (const ServerSnapshot& s : servers) longest = std::max(longest, s.held);
  return longest;
}

uint64_t FoundGlobalSnapshot::bytes() const {
  uint64_t sum = 0;
  for (const ServerSnapshot& s : servers) sum += s.bytes;
  return sum;
}

std::vector<uint64_t> CommonNumbers(const std::vector<std::vector<uint64_t>>& lists) {
  std::vector<uint64_t> common;
  if (lists.empty()) return common;
  for (const uint64_t number : lists[0]) {
    const bool everywhere = std::all_of(lists.begin(), lists.end(), [number](const auto& list) {
      return std::binary_search(list.begin(), list.end(), number);
    });
    if (everywhere) common.push_back(number);
  }
  return common;
}

StatusOr<uint64_t> NumberAt(const std::vector<FoundGlobalSnapshot>& found, int64_t time_us) {
  uint64_t number = 0, oldest = 0;
  for (const FoundGlobalSnapshot& f : found) {
    if (!f.whole || f.time_us == 0) continue;
    if (oldest == 0) oldest = f.number;
    if (f.time_us <= time_us) number = f.number;
  }
  if (number != 0) return number;
  if (oldest == 0) return NotFound("no snapshot with a known time exists on all servers [TD4020]");
  return NotFound(
      "the oldest snapshot, %d, was taken after this time [TD4020]; hint: run tandem snapshots to "
      "see the times",
      oldest);
}

template <typename Request, typename Reply>
Status GlobalSnapshotCoordinator::CallAll(rpc::PserverCall call, const Request& request,
                                          Duration timeout, std::vector<Reply>* replies) {
  struct Waiting {
    std::shared_ptr<PsEvent> ended;
    std::vector<Status> status;
    std::vector<Reply> replies;
    std::atomic<size_t> left;
  };
  const auto all = std::make_shared<Waiting>();
  all->ended = carrier_.MakeEvent();
  all->status.resize(servers_.size());
  all->replies.resize(servers_.size());
  all->left = servers_.size();
  for (size_t i = 0; i < servers_.size(); ++i) {
    carrier_.Call(servers_[i].server, call, rpc::EncodedProto(request), carrier_.Now() + timeout,
                  [all, i](const Status& status, codec::Fragments answer) {
                    all->status[i] =
                        status.ok() ? rpc::ParseMessage(answer, &all->replies[i]) : status;
                    if (all->left.fetch_sub(1) == 1) all->ended->Set();
                  });
  }
  if (!all->ended->WaitUntil(carrier_.Now() + timeout + kGrace)) {
    return Cancelled("a server did not reply to the call %s in time", rpc::NameOf(call));
  }
  for (size_t i = 0; i < servers_.size(); ++i) {
    TD_RETURN_IF_ERROR(
        Annotate(all->status[i], PserverName(servers_[i].server, servers_[i].address)));
  }
  *replies = std::move(all->replies);
  return OkStatus();
}

bool GlobalSnapshotCoordinator::Has(int server) const {
  return std::any_of(servers_.begin(), servers_.end(),
                     [server](const ServedBuckets& s) { return s.server == server; });
}

Status GlobalSnapshotCoordinator::Hold(uint64_t number, std::vector<HoldPushesReply>* held) {
  HoldPushesRequest request;
  request.set_job(options_.job);
  request.set_cut(number);
  request.set_taker(options_.taker);
  request.set_lease_ms(static_cast<uint64_t>(Millis(options_.lease)));
  return CallAll(PserverCall::kHoldPushes, request, options_.call_timeout, held);
}

void GlobalSnapshotCoordinator::Release(uint64_t number) {
  HoldPushesRequest request;
  std::vector<HoldPushesReply> ignored;
  request.set_job(options_.job);
  request.set_cut(number);
  request.set_taker(options_.taker);
  request.set_over(true);
  // If a call fails, the hold on this server ends with the lease.
  const Status released = CallAll(PserverCall::kHoldPushes, request, options_.lease, &ignored);
  LOG_IF(INFO, !released.ok()) << "pushes wait until the snapshot's lease expires: "
                               << ToString(released);
}

Status GlobalSnapshotCoordinator::CheckServers(const BucketMap& map) const {
  for (const auto& [server, address] : map.addresses()) {
    if (!map.OwnsAny(server) || Has(server)) continue;
    return Unavailable("the snapshot failed, because %s joined the job; hint: try again",
                       PserverName(server, address));
  }
  return OkStatus();
}

StatusOr<std::vector<CutMarkDef>> GlobalSnapshotCoordinator::Merge(
    const std::vector<HoldPushesReply>& held) const {
  std::vector<CutMarkDef> marks;
  for (size_t i = 0; i < held.size(); ++i) {
    if (i == 0) marks.assign(held[i].mark().begin(), held[i].mark().end());
    if (held[i].mark_size() != static_cast<int>(marks.size())) {
      return FailedPrecondition(
          "the snapshot failed, because %s has %d trainers, but another server has %d trainers",
          PserverName(servers_[i].server, servers_[i].address), held[i].mark_size(), marks.size());
    }
    for (size_t r = 0; r < marks.size(); ++r) Raise(held[i].mark(static_cast<int>(r)), marks[r]);
  }
  // UNAVAILABLE if a trainer has unfinished pushes to a server that is no longer in the job: the
  // trainer sends these pushes to other servers under other numbers, so the marks do not contain
  // them.
  for (const CutMarkDef& mark : marks) {
    for (int s = 0; s < mark.sent_size() && !mark.completed(); ++s) {
      if (Has(s) || (mark.ended_size() > s && mark.ended(s) >= mark.sent(s))) continue;
      return Unavailable(
          "the snapshot failed, because trainer %d has unfinished pushes to pserver %d, which no "
          "longer has rows; hint: try again",
          mark.trainer_id(), s);
    }
  }
  return marks;
}

StatusOr<GlobalSnapshotReport> GlobalSnapshotCoordinator::TakeHeld(uint64_t number) {
  std::vector<HoldPushesReply> held;
  TD_RETURN_IF_ERROR(Hold(number, &held));
  TD_ASSIGN_OR_RETURN(const std::vector<CutMarkDef> marks, Merge(held));
  BucketMap map;
  TakeCutRequest request;
  std::vector<std::vector<uint64_t>> lists;
  std::set<uint64_t> abandoned;
  for (const HoldPushesReply& reply : held) {
    abandoned.insert(reply.abandoned().begin(), reply.abandoned().end());
    map.Learn(FromProto(reply.map()));
    lists.emplace_back(reply.cut().begin(), reply.cut().end());
    if (reply.has_step()) request.set_step(std::max<uint64_t>(request.step(), reply.step()));
  }
  TD_RETURN_IF_ERROR(CheckServers(map));
  request.set_job(options_.job);
  request.set_cut(number);
  request.set_taker(options_.taker);
  for (const CutMarkDef& mark : marks) *request.add_mark() = mark;
  request.set_map_version(map.version());
  AddWhole(lists, abandoned, &request);
  request.set_time_us(options_.time_us);
  request.set_lease_ms(static_cast<uint64_t>(Millis(options_.lease)));
  std::vector<TakeCutReply> taken;
  TD_RETURN_IF_ERROR(CallAll(PserverCall::kTakeSnapshot, request,
                             options_.lease + options_.write_timeout, &taken));
  GlobalSnapshotReport report{number, {}};
  for (size_t i = 0; i < taken.size(); ++i) {
    report.servers.push_back({servers_[i].server, servers_[i].address, taken[i].version(),
                              taken[i].bytes(), std::chrono::microseconds(taken[i].held_us())});
  }
  return report;
}

// Where also completes unfinished moves. After Where, all servers know the same bucket map.
Status GlobalSnapshotCoordinator::FindServers() {
  BucketMigrator mover(carrier_, addresses_,
                       {.job = options_.job,
                        .call_timeout = options_.call_timeout,
                        .patience = options_.call_timeout,
                        .drained = options_.drained});
  TD_ASSIGN_OR_RETURN(servers_, mover.Where());
  return OkStatus();
}

StatusOr<std::vector<StatusReply>> GlobalSnapshotCoordinator::States() {
  std::vector<StatusReply> states;
  TD_RETURN_IF_ERROR(
      CallAll(PserverCall::kGetStatus, StatusRequest(), options_.call_timeout, &states));
  return states;
}

StatusOr<std::vector<FoundGlobalSnapshot>> GlobalSnapshotCoordinator::Find() {
  TD_RETURN_IF_ERROR(FindServers());
  TD_ASSIGN_OR_RETURN(const std::vector<StatusReply> states, States());
  std::map<uint64_t, FoundGlobalSnapshot> found;
  for (size_t i = 0; i < states.size(); ++i) {
    for (int c = 0; c < states[i].cut_size(); ++c) {
      FoundGlobalSnapshot& snapshot = found[states[i].cut(c)];
      snapshot.number = states[i].cut(c);
      const uint64_t version = c < states[i].cut_version_size() ? states[i].cut_version(c) : 0;
      if (c < states[i].cut_time_us_size()) snapshot.time_us = states[i].cut_time_us(c);
      snapshot.abandoned |= c < states[i].cut_abandoned_size() && states[i].cut_abandoned(c);
      const uint64_t bytes = c < states[i].cut_bytes_size() ? states[i].cut_bytes(c) : 0;
      snapshot.servers.push_back({servers_[i].server, servers_[i].address, version, bytes});
    }
  }
  std::vector<FoundGlobalSnapshot> all;
  for (auto& [number, snapshot] : found) {
    snapshot.whole = snapshot.servers.size() == servers_.size();
    all.push_back(std::move(snapshot));
  }
  return all;
}

StatusOr<GlobalSnapshotReport> GlobalSnapshotCoordinator::Restore(uint64_t number) {
  TD_ASSIGN_OR_RETURN(const std::vector<FoundGlobalSnapshot> found, Find());
  std::vector<std::string> whole;
  RestoreCheckpointRequest request;
  request.set_job(options_.job);
  for (const FoundGlobalSnapshot& f : found) {
    if (!f.whole) continue;
    whole.push_back(std::to_string(f.number));
    if (number == 0 ? !f.abandoned : number == f.number) request.set_cut(f.number);
  }
  if (whole.empty())
    return NotFound("no snapshot exists on all %d servers [TD4020]", servers_.size());
  if (request.cut() == 0) {
    return NotFound(
        "snapshot %d does not exist on all %d servers; these snapshots do: %s [TD4020]; hint: run "
        "tandem restore --list to see the snapshots",
        number, servers_.size(), absl::StrJoin(whole, ", "));
  }
  std::vector<RestoreCheckpointReply> back;
  TD_RETURN_IF_ERROR(
      CallAll(PserverCall::kRestoreCheckpoint, request, options_.write_timeout, &back));
  GlobalSnapshotReport report{request.cut(), {}};
  for (size_t i = 0; i < back.size(); ++i) {
    report.servers.push_back({servers_[i].server, servers_[i].address, back[i].version()});
  }
  return report;
}

StatusOr<uint64_t> GlobalSnapshotCoordinator::NextNumber(const std::vector<StatusReply>& states) {
  uint64_t highest = 0;
  for (const StatusReply& state : states) {
    highest = std::max<uint64_t>(highest, state.last_cut());
    for (const uint64_t number : state.cut()) highest = std::max(highest, number);
  }
  if (highest == UINT64_MAX)
    return FailedPrecondition("the highest snapshot number, %d, is already used [TD4020]", highest);
  return highest + 1;
}

StatusOr<uint64_t> GlobalSnapshotCoordinator::Rebuild(uint64_t step) {
  TD_RETURN_IF_ERROR(FindServers());
  TakeCutRequest request;
  TD_ASSIGN_OR_RETURN(const std::vector<StatusReply> states, States());
  TD_ASSIGN_OR_RETURN(const uint64_t number, NextNumber(states));
  std::vector<std::vector<uint64_t>> lists;
  std::set<uint64_t> abandoned;
  for (const StatusReply& state : states) {
    lists.emplace_back(state.cut().begin(), state.cut().end());
    for (int c = 0; c < std::min(state.cut_size(), state.cut_abandoned_size()); ++c) {
      if (state.cut_abandoned(c)) abandoned.insert(state.cut(c));
    }
  }
  AddWhole(lists, abandoned, &request);
  request.set_job(options_.job);
  request.set_cut(number);
  request.set_taker(options_.taker);
  request.set_time_us(options_.time_us);
  request.set_rebuilt(step);
  std::vector<TakeCutReply> taken;
  TD_RETURN_IF_ERROR(CallAll(PserverCall::kTakeSnapshot, request, options_.write_timeout, &taken));
  for (size_t i = 0; i < taken.size(); ++i) {
    if (taken[i].version() == step) continue;
    return Aborted(
        "pserver %d (%s) took global snapshot %d of step %d at the same time, expected step %d "
        "[TD4020]; hint: run the command again while no other command takes snapshots",
        servers_[i].server, servers_[i].address, number, taken[i].version(), step);
  }
  return number;
}

StatusOr<GlobalSnapshotReport> GlobalSnapshotCoordinator::Take(uint64_t number) {
  TD_RETURN_IF_ERROR(FindServers());
  if (number == 0) {
    TD_ASSIGN_OR_RETURN(const std::vector<StatusReply> states, States());
    TD_ASSIGN_OR_RETURN(number, NextNumber(states));
  }
  StatusOr<GlobalSnapshotReport> report = TakeHeld(number);
  if (!report.ok()) Release(number);
  return report;
}

}  // namespace tandem::ps
