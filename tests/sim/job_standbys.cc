// The part of SimJob for servers with standbys: injects faults into the members of the servers, and
// checks the members.
#include <algorithm>
#include <tuple>

#include "pserver/shard/checkpoint_calls.h"
#include "tests/sim/sim_job.h"

namespace tandem::pserver {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

// Size in bytes of a checkpoint's file with values, such that a standby fetches the file in three
// parts.
constexpr uint64_t kLargeBytes = (uint64_t{8} << 20) + 16;

using Mark =
    std::tuple<int, uint64_t, bool, uint64_t, std::array<uint64_t, SequenceWindow::kWords>>;
std::vector<Mark> MarksOf(const ShardSnapshot& image) {
  std::vector<Mark> marks;
  for (const TrainerPushState& m : image.marks) {
    marks.emplace_back(m.trainer, m.incarnation, m.completed, m.applied.highest(),
                       m.applied.words());
  }
  return marks;
}

// Compares the states of a primary and of its standby. Returns "" if they are equal, otherwise a
// text about the first difference.
std::string DifferenceOf(const ShardSnapshot& primary, const ShardSnapshot& standby) {
  if (primary.version != standby.version || primary.log_number != standby.log_number) {
    return absl::StrFormat("version %d and entry %d, expected version %d and entry %d",
                           standby.version, standby.log_number, primary.version,
                           primary.log_number);
  }
  if (ParametersOf(primary) != ParametersOf(standby)) return "other parameters";
  return MarksOf(primary) == MarksOf(standby) ? "" : "other marks of pushes";
}

// Returns whether no bucket has ever moved to the server.
bool IsUnused(SimGroup& group) {
  SimServer* const primary = group.primary();
  return primary != nullptr && !primary->shard().Info().initialised;
}

}  // namespace

void SimJob::MakeGroups(SimServerOptions options) {
  options.group.standbys = plan_.standbys;
  if (plan_.large_checkpoints) options.checkpoints->bytes = kLargeBytes;
  for (int i = 0; i < plan_.servers + plan_.moves; ++i) {
    groups_.push_back(
        std::make_unique<SimGroup>(i, options, plan_.deaths_while_damaged, world_, network_));
    addresses_.push_back(absl::StrFormat("server-%d", i));
    calls_.push_back(groups_.back().get());
  }
}

// Kills all members and replicas. Then runs the events of the present time, which destroy the
// objects of the killed processes.
void SimJob::EndMembers() {
  for (const auto& replica : replicas_) {
    if (replica->alive()) replica->Kill(false);
  }
  for (const auto& group : groups_) {
    for (int m = 0; m < group->members(); ++m) {
      if (group->member(m).alive()) group->member(m).Kill(false);
    }
  }
  if (!groups_.empty() || !replicas_.empty()) world_.RunUntil([] { return false; }, world_.Now());
}

void SimJob::CutMembers(SimGroup& group) {
  const auto count = static_cast<uint64_t>(group.members());
  const uint64_t first = world_.Below(count);
  const uint64_t second = (first + 1 + world_.Below(count - 1)) % count;
  const int a = group.member(static_cast<int>(first)).node();
  const int b = group.member(static_cast<int>(second)).node();
  world_.Note("members cut", static_cast<uint64_t>(a), static_cast<uint64_t>(b));
  ++report_.cuts;
  const Time until = world_.Now() + Pause(2000);
  world_.Chance(0.5) ? network_.Cut(a, b, until) : network_.CutOneWay(a, b, until);
}

void SimJob::PauseMember(SimGroup& group) {
  ++report_.pauses;
  // The launcher kills a member that has been paused for more than about 6 s.
  const Duration pause = world_.Chance(0.3) ? seconds(20) : Pause(3000);
  if (world_.Chance(0.5)) {
    return group.Pause(static_cast<int>(world_.Below(static_cast<uint64_t>(group.members()))),
                       pause);
  }
  // Pauses the primary, in most cases, and lets the launcher promote the standby. The old primary
  // then continues although it is not the primary any more.
  for (int m = 0; m < group.members(); ++m) {
    const bool paused = &group.member(m) == group.primary() && world_.Chance(0.7);
    if (paused) group.Pause(m, Pause(600));
  }
  group.LoseContact(Pause(3000));
}

// Destroys the disk of a standby. Kills the primary as soon as the standby has stored a checkpoint
// on its new disk. At this time the standby does not have all log entries yet.
void SimJob::HarmRepair(SimGroup& group, int member) {
  if (group.primary() == nullptr || &group.member(member) == group.primary()) return;
  group.Kill(member, SimGroup::Loss::kDisk);
  const auto look = [this, &group, member, until = world_.Now() + seconds(1)](auto self) -> void {
    if (world_.Now() > until) return;
    if (!group.member(member).disk().base()) {
      return world_.After(microseconds(100), [self] { self(self); });
    }
    for (int m = 0; m < group.members(); ++m) {
      if (&group.member(m) == group.primary()) return group.Kill(m, SimGroup::Loss::kNone);
    }
  };
  look(look);
}

// Injects one random fault into a random server with standbys, a trainer or the network.
void SimJob::HarmGroup() {
  // With async replication, a snapshot may lack acknowledged pushes that were lost before.
  const bool cuts = plan_.cuts && plan_.replication == Replication::kQuorum;
  if (cuts && world_.Chance(0.3)) StartCutter();
  if (cuts && world_.Chance(0.1)) KillCutter();
  if (plan_.moves && world_.Chance(0.4)) return StartMover();
  if (plan_.moves && world_.Chance(0.1)) return KillMover();
  if (const std::string wrong = OwnersAreWrong(/*settled=*/false); !wrong.empty()) Fail(wrong);
  SimGroup& group = *groups_[world_.Below(groups_.size())];
  const int rank = static_cast<int>(world_.Below(static_cast<uint64_t>(plan_.trainers)));
  int member = static_cast<int>(world_.Below(static_cast<uint64_t>(group.members())));
  // Prefers the primary as the member that has the fault.
  for (int m = 0; m < group.members(); ++m) {
    if (&group.member(m) == group.primary() && world_.Chance(0.4)) member = m;
  }
  using Loss = SimGroup::Loss;
  const Loss loss = world_.Chance(0.4)   ? Loss::kDisk
                    : world_.Chance(0.4) ? Loss::kPower
                                         : Loss::kNone;
  switch (world_.Below(14)) {
    case 0:
    case 1:
    case 2:
      return group.Kill(member, loss);
    case 3:
      if (plan_.deaths_while_damaged) return HarmRepair(group, member);
      return group.KillSoon(member, loss);
    case 4:
      return group.KillSoon(member, loss);
    case 5:  // kills all members of the server
      for (int m = 0; m < group.members(); ++m) group.Kill(m, m == member ? loss : Loss::kNone);
      return;
    case 6:
      return group.Restart(world_.Chance(0.5));
    case 7:
    case 8:
      return PauseMember(group);
    case 9:
    case 10:
      return CutMembers(group);
    case 11:
      ++report_.cuts;
      return network_.Cut(kFirstTrainerNode + rank, static_cast<int>(world_.Below(groups_.size())),
                          world_.Now() + Pause(500));
    case 12:
      // The pushes of a dead trainer that a server has lost are not counted.
      if (plan_.replication == Replication::kAsync) return group.Kill(member, Loss::kDisk);
      if (world_.Chance(0.5)) return PauseTrainer(rank);
      return KillTrainer(rank);
    default:
      if (world_.Chance(0.5)) {
        return group.FillDisk(member, Pause(300));
      }
      if (SimServer* const primary = group.primary(); primary != nullptr) {
        primary->Handle(rpc::PserverCall::kSaveCheckpoint, "", [](auto&&...) {});
      }
  }
}

// Waits until all members of all servers have the state of their primary. Also stops waiting for a
// server in which a fault was found.
bool SimJob::AwaitGroups() {
  const auto whole = [this] {
    return std::all_of(groups_.begin(), groups_.end(), [](const auto& group) {
      return !group->wrong().empty() || IsUnused(*group) || group->whole();
    });
  };
  if (world_.RunUntil(whole, world_.Now() + seconds(120))) return true;
  Fail("a server does not become whole again");
  return false;
}

std::string SimJob::CheckMembers(SimGroup& group) {
  if (IsUnused(group)) return "";
  const StatusOr<ShardSnapshot> image = group.primary()->shard().checkpoints().Take();
  if (!image.ok()) return ToString(image.status());
  for (int m = 0; m < group.members(); ++m) {
    if (&group.member(m) == group.primary()) continue;
    const StatusOr<ShardSnapshot> other = group.member(m).shard().checkpoints().Take();
    if (!other.ok()) return ToString(other.status());
    const std::string difference = DifferenceOf(*image, *other);
    if (!difference.empty()) return absl::StrFormat("the standby %d has %s", m, difference);
  }
  return "";
}

// All members must have the same state. Then each group loses the disk of its primary, or all its
// processes, and must come back with this state.
void SimJob::CheckGroups() {
  const bool sync = plan_.mode == UpdatePolicy::kSync;
  if (!AwaitGroups()) return;
  std::vector<std::vector<float>> before;
  for (size_t i = 0; i < groups_.size(); ++i) {
    SimGroup& group = *groups_[i];
    if (!group.wrong().empty()) return Fail(group.wrong());
    const std::string wrong = CheckMembers(group);
    if (!wrong.empty()) return Fail(absl::StrFormat("server %d: %s", i, wrong));
    before.push_back(IsUnused(group)
                         ? std::vector<float>()
                         : ParametersOf(*group.primary()->shard().checkpoints().Take()));
  }
  for (const auto& group : groups_) {
    if (IsUnused(*group)) continue;
    if (world_.Chance(0.5)) {
      group->Restart(/*power=*/true);
      continue;
    }
    for (int m = 0; m < group->members(); ++m) {
      if (&group->member(m) == group->primary()) {
        group->Kill(m, SimGroup::Loss::kDisk);
        break;
      }
    }
  }
  world_.RunUntil([] { return false; }, world_.Now() + seconds(2));
  if (!AwaitGroups()) return;
  std::vector<ShardSnapshot> images;
  for (size_t i = 0; i < groups_.size(); ++i) {
    SimGroup& group = *groups_[i];
    const auto& counts = group.counts();
    report_.server_deaths += counts.deaths;
    report_.disks += counts.disks;
    report_.promotions += counts.promotions;
    report_.stale += counts.stale;
    report_.hangs += counts.hangs;
    if (!group.wrong().empty()) return Fail(group.wrong());
    const std::string wrong = CheckMembers(group);
    if (!wrong.empty()) return Fail(absl::StrFormat("server %d: %s", i, wrong));
    if (IsUnused(group)) continue;
    images.push_back(*group.primary()->shard().checkpoints().Take());
    // The marks in a snapshot are those of the last update. A trainer may have completed later.
    const ShardInfo info = group.primary()->shard().Info();
    for (TrainerPushState& mark : images.back().marks) {
      mark.lost_pushes = info.trainers[static_cast<size_t>(mark.trainer)].lost_pushes;
    }
    if (ParametersOf(images.back()) != before[i]) {
      return Fail(absl::StrFormat("server %d comes back with other parameters than it had", i));
    }
    const std::string order = sync ? "" : CheckOrder(images.back(), group.primary()->disk());
    if (!order.empty()) return Fail(absl::StrFormat("server %d: %s", i, order));
  }
  report_.parameters = ParametersOfAll(images);
  if (report_.failure.empty())
    report_.failure = ledger_.Check(images, /*all=*/sync || plan_.source);
  if (report_.failure.empty() && plan_.replication == Replication::kAsync) CheckLost(images);
  AwaitReaders(images);
}

// With async replication, the servers must count exactly the acknowledged pushes that they lack.
// Those of a process that has ended may be missing in the count.
void SimJob::CheckLost(const std::vector<ShardSnapshot>& images) {
  for (size_t i = 0; i < images.size() && report_.failure.empty(); ++i) {
    const std::vector<SimLedger::MissingPushes> missing = ledger_.Missing(images[i]);
    for (const TrainerPushState& mark : images[i].marks) {
      report_.lost += mark.lost_pushes;
      const auto [certain, forgiven] = missing[static_cast<size_t>(mark.trainer)];
      if (mark.lost_pushes >= certain && mark.lost_pushes <= certain + forgiven) continue;
      Fail(absl::StrFormat(
          "server %d lacks %d acknowledged pushes of trainer %d and %d of its ended processes, but "
          "counted %d",
          i, certain, mark.trainer, forgiven, mark.lost_pushes));
    }
  }
}

}  // namespace tandem::pserver
