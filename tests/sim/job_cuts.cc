// Global snapshots of a simulated job. The processes that take the snapshots may die.
#include "pserver/client/moves/global_snapshot.h"
#include "pserver/shard/checkpoint_calls.h"
#include "pserver/state/bucket_move.h"
#include "tests/sim/sim_job.h"

namespace tandem::pserver {

using std::chrono::milliseconds;
using std::chrono::seconds;

void SimJob::StartCutter() {
  const uint64_t number = cuts_.size() + 1;
  const auto node = kFirstCutterNode + static_cast<int>(cutters_.size());
  const auto process = std::make_shared<SimProcess>(world_, node);
  cuts_[number].begun = world_.Now();
  world_.Note("cutter", number);
  cutters_.push_back(process);
  process->Start([this, number, weak = std::weak_ptr(process)] {
    const auto self = weak.lock();
    const Status status = RunCutter(self, number);
    if (self->dead()) return;
    world_.Note(status.ok() ? "cut taken" : "no cut", number);
  });
}

Status SimJob::RunCutter(const std::shared_ptr<SimProcess>& process, uint64_t number) {
  SimCarrier carrier(process, network_, calls_, plan_.retries);
  ps::GlobalSnapshotCoordinator cutter(carrier,
                                       {addresses_.begin(), addresses_.begin() + plan_.servers},
                                       {.job = kSimJob,
                                        .call_timeout = seconds(1),
                                        .write_timeout = seconds(2),
                                        .lease = milliseconds(300)});
  TD_ASSIGN_OR_RETURN(const ps::GlobalSnapshotReport report, cutter.Take(number));
  ++report_.cuts_taken;
  for (const ps::ServerSnapshot& s : report.servers) {
    SimServer* const server = ServerOf(static_cast<size_t>(s.server));
    if (server == nullptr) {  // the primary has been killed since its reply
      cuts_[number] = {.begun = cuts_[number].begun, .servers = {}, .images = {}};
      return OkStatus();
    }
    const auto& cuts = server->disk().cuts();
    const auto image = cuts.find(number);
    if (image == cuts.end()) {
      // If the reply about this snapshot was delayed, the server may already have replaced this
      // snapshot by a newer one.
      if (groups_.empty() && cuts.upper_bound(number) == cuts.end()) {
        Fail(absl::StrFormat("cut %d is not on the disk of server %d", number, s.server));
      }
      cuts_[number] = {.begun = cuts_[number].begun, .servers = {}, .images = {}};
      return OkStatus();
    }
    cuts_[number].servers.push_back(s.server);
    cuts_[number].images.push_back(image->second);
  }
  return OkStatus();
}

void SimJob::KillCutter() {
  for (const auto& process : cutters_) {
    if (process->dead() || process->ended()) continue;
    world_.Note("cutter killed", static_cast<uint64_t>(process->node()));
    return process->Kill();
  }
}

// Checks all global snapshots. All servers of a global snapshot have an acknowledged push, or no
// server has it. If the push was acknowledged before the snapshot began, all servers have it.
void SimJob::CheckCuts() {
  CheckVersions();
  const bool gone = std::find(retired_.begin(), retired_.end(), true) != retired_.end();
  uint64_t newest = 0;
  for (auto& [number, cut] : cuts_) {
    // If the coordinator of a snapshot died, the test has no record of the servers' replies. The
    // snapshot may be complete nevertheless.
    std::vector<ShardSnapshot> images = cut.images;
    bool everywhere = !gone;
    const size_t servers = groups_.empty() ? servers_.size() : groups_.size();
    for (size_t i = 0; i < servers && everywhere; ++i) {
      SimServer& server = *ServerOf(i);
      if (!server.shard().Info().initialised) continue;
      const auto& cuts = server.disk().cuts();
      everywhere = cuts.contains(number);
      if (everywhere && cut.servers.empty()) images.push_back(cuts.at(number));
    }
    if (everywhere) newest = number;
    if (cut.servers.empty() && !everywhere) continue;
    const std::string wrong =
        ledger_.CheckCut(images, cut.begun, plan_.source, report_.rewinds != 0);
    if (!wrong.empty()) return Fail(absl::StrFormat("cut %d: %s", number, wrong));
  }
  if (newest != 0 && groups_.empty()) CheckRestore(newest);
  if (!groups_.empty()) CheckCutsOfMembers();
}

SimServer* SimJob::ServerOf(size_t index) {
  return groups_.empty() ? servers_[index].get() : groups_[index]->primary();
}

// Each member that has a complete snapshot must have the state that the primary of that time had.
void SimJob::CheckCutsOfMembers() {
  for (const auto& [number, cut] : cuts_) {
    for (size_t c = 0; c < cut.servers.size(); ++c) {
      SimGroup& group = *groups_[static_cast<size_t>(cut.servers[c])];
      for (int m = 0; m < group.members(); ++m) {
        const auto& cuts = group.member(m).disk().cuts();
        const auto found = cuts.find(number);
        if (found == cuts.end()) continue;
        ++report_.member_cuts;
        if (ParametersOf(found->second) == ParametersOf(cut.images[c])) continue;
        return Fail(absl::StrFormat("member %d of server %d has another state in cut %d", m,
                                    cut.servers[c], number));
      }
    }
  }
}

// Restores a global snapshot. Either all servers restore the snapshot, or all servers reject the
// snapshot because rows moved after it.
void SimJob::CheckRestore(uint64_t number) {
  size_t back = 0;
  std::string refused;  // the reason why a server rejected the restore; "": all servers restored
  // Sends the knowledge about moves to all servers again, because restarted servers have lost it.
  // GlobalSnapshotCoordinator::Restore does the same.
  TellAll();
  for (size_t i = 0; i < servers_.size(); ++i) {
    SimServer& server = *servers_[i];
    if (!server.shard().Info().initialised) continue;
    const Status status = server.Restore(number);
    if (status.code() == StatusCode::kFailedPrecondition) {
      refused = absl::StrFormat("server %d: %s", i, ToString(status));
      continue;
    }
    if (!status.ok()) return Fail("restore: " + ToString(status));
    ++back;
    const StatusOr<ShardSnapshot> image = server.shard().checkpoints().Take();
    const ShardSnapshot& cut = server.disk().cuts().at(number);
    if (!image.ok() || ParametersOf(*image) != ParametersOf(cut)) {
      return Fail(absl::StrFormat("server %d did not go back to cut %d", i, number));
    }
  }
  report_.restored += back != 0;
  if (back != 0 && !refused.empty()) {
    return Fail(absl::StrFormat("%d servers go back to cut %d, but %s", back, number, refused));
  }
  std::vector<ShardSnapshot> images;
  for (const auto& server : servers_) {
    if (server->shard().Info().initialised) {
      images.push_back(*server->shard().checkpoints().Take());
    }
  }
  AwaitReaders(images);
}

}  // namespace tandem::pserver
