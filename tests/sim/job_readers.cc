// The readers of a simulated job: programs that follow tables, and replicas of servers. Injects
// faults into them, and compares their rows with those of the servers.
#include "pserver/shard/checkpoint_calls.h"
#include "tests/sim/sim_job.h"

namespace tandem::pserver {

using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

// Describes the first difference of the rows of a reader; "": there is none.
std::string DifferenceOf(const RowMap& found, const RowMap& expected) {
  for (const auto& [id, weights] : expected) {
    const auto row = found.find(id);
    if (row == found.end()) return absl::StrFormat("lacks row %d", id);
    if (row->second != weights) return absl::StrFormat("has other weights of row %d", id);
  }
  for (const auto& [id, weights] : found) {
    if (!expected.contains(id)) return absl::StrFormat("has row %d, which does not exist", id);
  }
  return "";
}

RowMap RowsOfAll(const std::vector<ShardSnapshot>& images, const std::string& table) {
  RowMap all;
  for (const ShardSnapshot& image : images) all.merge(WeightsOf(image, table));
  return all;
}

}  // namespace

// Half of the followers ask the replicas if there are some.
void SimJob::MakeReaders(const SimServerOptions& options) {
  std::vector<SimAddress*> of_replicas;
  for (size_t i = 0; i < calls_.size(); ++i) {
    for (int r = 0; r < plan_.replicas; ++r) {
      SimServerOptions made = options;
      made.group = {.member = kFirstReplica + r, .replica = true};
      made.group.network = &network_;
      made.group.address = calls_[i];
      replicas_.push_back(
          std::make_unique<SimServer>(static_cast<int>(i), std::move(made), world_));
      of_replicas.push_back(replicas_.back().get());
    }
  }
  for (const ps::PsTable& table : ledger_.Tables()) {
    for (int f = 0; f < plan_.followers; ++f) {
      SimFollower::Options made{.job = kSimJob, .table = table.variable};
      made.stores_together =
          plan_.standbys == 0 && plan_.power && plan_.wal_sync != WalSync::kAlways;
      made.node = kFirstFollowerNode + static_cast<int>(followers_.size());
      const bool replicas = !of_replicas.empty() && f % 2 == 0;
      made.servers = replicas ? of_replicas : calls_;
      for (size_t i = 0; i < made.servers.size(); ++i) {
        made.addresses.push_back(absl::StrFormat("reader-%d", i));
      }
      made.log_history = [servers = made.servers](size_t i) {
        SimServer* const server = servers[i]->Listener();
        return server == nullptr ? 0 : server->log_term().history;
      };
      followers_.push_back(std::make_unique<SimFollower>(std::move(made), world_, network_));
    }
  }
}

void SimJob::StartReaders() {
  for (const auto& replica : replicas_) StartReplica(*replica);
  for (const auto& follower : followers_) {
    world_.After(Pause(400), [f = follower.get()] {
      if (!f->alive()) f->Start();
    });
  }
}

void SimJob::StartReplica(SimServer& replica) {
  if (replica.alive()) return;
  ++report_.replicas;
  const Status status = replica.Start();
  if (!status.ok()) Fail("a replica does not start: " + ToString(status));
}

SimServer* SimJob::ServerOf(int index) {
  if (!groups_.empty()) return groups_[static_cast<size_t>(index)]->primary();
  SimServer& server = *servers_[static_cast<size_t>(index)];
  return server.alive() ? &server : nullptr;
}

void SimJob::HarmReader() {
  SimFollower& follower = *followers_[world_.Below(followers_.size())];
  const auto server = static_cast<int>(world_.Below(calls_.size()));
  SimServer* const replica =
      replicas_.empty() ? nullptr : replicas_[world_.Below(replicas_.size())].get();
  switch (world_.Below(10)) {
    case 0:
    case 1:
      follower.Kill();
      world_.After(Pause(300), [&follower] {
        if (!follower.alive()) follower.Start();
      });
      return;
    case 2: {
      const uint64_t trainers = world_.Chance(0.5) ? static_cast<uint64_t>(plan_.trainers) : 0;
      const int node = trainers != 0
                           ? kFirstTrainerNode + static_cast<int>(world_.Below(trainers))
                           : kFirstFollowerNode + static_cast<int>(world_.Below(followers_.size()));
      ++report_.cuts;
      const Time until = world_.Now() + Pause(500);
      if (world_.Chance(0.5)) return network_.CutOneWay(node, server, until);
      return network_.CutOneWay(server, node, until);
    }
    case 3: {
      SimServer* const at = ServerOf(server);
      if (at == nullptr || at->paused()) return;
      ++report_.jumps;
      return at->JumpClock(Pause(5000));
    }
    case 4:
    case 5:
      if (replica == nullptr || !replica->alive()) return;
      if (world_.Chance(0.3)) {
        replica->LoseDisk();
      } else {
        replica->Kill(world_.Chance(0.5));
      }
      world_.After(Pause(300), [this, replica] { StartReplica(*replica); });
      return;
    case 6: {
      SimServer* const at = ServerOf(server);
      if (replica == nullptr || at == nullptr) return;
      ++report_.cuts;
      const Time until = world_.Now() + Pause(1000);
      if (world_.Chance(0.5)) return network_.CutOneWay(replica->node(), at->node(), until);
      return network_.CutOneWay(at->node(), replica->node(), until);
    }
    case 7:
      if (replica != nullptr && replica->alive()) {
        replica->disk().FullUntil(world_.Now() + Pause(300));
      }
      return;
    default: {  // a server stops for some time, and continues
      // A stopped server does not sync its log. A loss of power could then destroy the pushes of
      // more than one interval.
      const bool syncs_late = plan_.power && plan_.wal_sync == WalSync::kInterval;
      SimServer* const at = groups_.empty() && !syncs_late ? ServerOf(server) : nullptr;
      if (at == nullptr || at->paused()) return;
      ++report_.pauses;
      at->Pause();
      world_.After(Pause(3000), [at, life = at->lives()] {
        if (at->lives() == life && at->paused()) at->Continue();
      });
    }
  }
}

// Waits until each follower has the rows of the servers, and each replica has the state of its
// server.
void SimJob::AwaitReaders(const std::vector<ShardSnapshot>& images) {
  if (followers_.empty() || !report_.failure.empty()) return;
  for (const auto& replica : replicas_) StartReplica(*replica);
  for (const auto& follower : followers_) {
    if (!follower->alive()) follower->Start();
  }
  std::map<std::string, RowMap> expected;
  for (const ps::PsTable& table : ledger_.Tables()) {
    expected[table.variable] = RowsOfAll(images, table.variable);
  }
  const auto reached = [&] {
    return std::all_of(followers_.begin(), followers_.end(),
                       [&](const auto& f) { return f->rows() == expected.at(f->table()); });
  };
  world_.RunUntil(reached, world_.Now() + seconds(60));
  for (size_t f = 0; f < followers_.size(); ++f) {
    const std::string& table = followers_[f]->table();
    const std::string wrong = DifferenceOf(followers_[f]->rows(), expected[table]);
    if (!wrong.empty()) return Fail(absl::StrFormat("follower %d of %s %s", f, table, wrong));
  }
  CheckReplicas();
  if (report_.restored != 0 || report_.rewinds != 0) return;
  // Nothing that a reader has seen is taken back.
  for (const auto& follower : followers_) {
    if (follower->table() != "rows") continue;
    for (const uint64_t id : follower->seen()) {
      const int64_t slot = SimLedger::SlotOfRow(static_cast<int64_t>(id));
      if (expected["rows"].contains(id) || slot < 0 || ledger_.forgiven(slot)) continue;
      return Fail(absl::StrFormat("row %d was sent to a follower, but does not exist", id));
    }
  }
}

void SimJob::CheckReplicas() {
  for (const auto& replica : replicas_) {
    SimServer* const server = ServerOf(replica->index());
    const bool retired = groups_.empty() && retired_[static_cast<size_t>(replica->index())];
    if (retired || server == nullptr || !server->shard().Info().initialised) continue;
    const auto same = [&] {
      return replica->alive() && replica->stored() >= server->stored() &&
             replica->log_term() == server->log_term();
    };
    if (!world_.RunUntil(same, world_.Now() + seconds(60))) {
      return Fail(absl::StrFormat("the replica of server %d stays behind", replica->index()));
    }
    const StatusOr<ShardSnapshot> image = server->shard().checkpoints().Take();
    const StatusOr<ShardSnapshot> copy = replica->shard().checkpoints().Take();
    if (!image.ok() || !copy.ok()) return Fail("a replica has no state");
    if (image->version == copy->version && ParametersOf(*image) == ParametersOf(*copy)) continue;
    return Fail(absl::StrFormat("the replica of server %d has another state", replica->index()));
  }
}

// Compares the rows of the followers with those of the global snapshots, if a follower had all
// changes of a server up to the last log entry of the snapshot.
void SimJob::CheckVersions() {
  // With wal_sync=interval or after a restore, two states of a server may have one number.
  if (plan_.power && plan_.wal_sync != WalSync::kAlways) return;
  if (report_.rewinds != 0) return;
  for (const auto& [number, cut] : cuts_) {
    for (size_t i = 0; i < cut.servers.size(); ++i) {
      for (const auto& follower : followers_) {
        const auto& versions = follower->states(static_cast<size_t>(cut.servers[i]));
        const auto version = versions.find(cut.images[i].log_number);
        if (version == versions.end()) continue;
        RowMap expected = WeightsOf(cut.images[i], follower->table());
        std::erase_if(expected, [&](const auto& row) {
          return !version->second.held[static_cast<size_t>(RowBucket(row.first))];
        });
        ++report_.compared;
        const std::string wrong = DifferenceOf(version->second.rows, expected);
        if (wrong.empty()) continue;
        return Fail(absl::StrFormat(
            "a follower of %s %s at version %d of server %d, which is in "
            "cut %d",
            follower->table(), wrong, cut.images[i].version, cut.servers[i], number));
      }
    }
  }
}

void SimJob::CountReaders() {
  for (const auto& f : followers_) {
    report_.follows += f->starts();
    report_.continued += f->continued();
    report_.changes += f->changes();
    report_.tombstones += f->removed();
    report_.snapshots += f->snapshots();
  }
}

}  // namespace tandem::pserver
