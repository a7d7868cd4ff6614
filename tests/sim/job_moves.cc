// Moves of row buckets and slices between the servers of a simulated job.
#include "common/tables/row_buckets.h"
#include "pserver/client/moves/bucket_migrator.h"
#include "pserver/shard/migration_calls.h"
#include "tests/sim/sim_job.h"

namespace tandem::pserver {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Starts a process that moves all or some buckets from one server to another. The process may then
// move the buckets back, or drain a server, which leaves the job. If `spared` is not -1, only
// slices move, and server `spared` takes no part in the move.
void SimJob::StartMover(int spared) {
  const auto count = static_cast<uint64_t>(calls_.size());
  const uint64_t spare = count - 1, step = 1 + world_.Below(count - 1);
  const uint64_t first = world_.Chance(0.5) ? spare : world_.Below(count);
  const uint64_t second = (first + step) % count;
  const bool inward = world_.Chance(0.5);
  const auto source = static_cast<int>(inward ? second : first);
  const auto target = static_cast<int>(inward ? first : second);
  if (retired_[first] || retired_[second] || source == spared || target == spared) return;
  const MoverTask task{.source = source,
                       .target = target,
                       .stride = world_.Chance(0.3) ? 1 : 2 + static_cast<int>(world_.Below(6)),
                       .back = world_.Chance(0.4),
                       .retire = world_.Chance(0.5),
                       .slices_alone = spared >= 0};
  // Cuts the trainers off from the server that leaves, so they do not receive the replies to their
  // last pushes.
  if (Retires(task) && world_.Chance(0.7)) {
    for (int r = 0; r < plan_.trainers; ++r) {
      network_.Cut(kFirstTrainerNode + r, task.source, world_.Now() + milliseconds(300));
    }
  }
  const auto node = kFirstMoverNode + static_cast<int>(movers_.size());
  const auto process = std::make_shared<SimProcess>(world_, node);
  world_.Note("mover", static_cast<uint64_t>(source), static_cast<uint64_t>(target));
  ++report_.movers;
  movers_.push_back(process);
  process->Start([this, task, weak = std::weak_ptr(process)] {
    const auto self = weak.lock();
    const Status status = RunMover(self, task);
    if (self->dead()) return;
    world_.Note(status.ok() ? "moved" : "not moved", static_cast<uint64_t>(task.source));
    if (status.ok() && Retires(task)) Retire(task.source);
  });
}

Status SimJob::RunMover(const std::shared_ptr<SimProcess>& process, const MoverTask& task) {
  SimCarrier carrier(process, network_, calls_, plan_.retries);
  ps::BucketMigrator mover(carrier, {addresses_.begin(), addresses_.begin() + plan_.servers},
                           {.job = kSimJob,
                            .call_timeout = seconds(1),
                            .patience = seconds(5),
                            .lease = milliseconds(500)});
  TD_RETURN_IF_ERROR(mover.Add(addresses_.back()));
  const auto count = [this](const ps::MoveProgress&) { ++report_.moved; };
  // The drained server must own buckets before it leaves. If it owns none, it first gets the
  // buckets of the other server.
  if (task.retire && task.stride == 1 && BucketsOf(task.source).empty()) {
    TD_RETURN_IF_ERROR(mover.Run({{task.target, task.source, BucketsOf(task.target)}}, count));
  }
  if (Retires(task)) TD_RETURN_IF_ERROR(mover.Leave(task.source));
  ps::BucketTransfer there{task.source, task.target, BucketsOf(task.source)};
  std::erase_if(there.buckets, [&](int b) {
    return b % task.stride != 0 || (task.slices_alone && b < kRowBuckets);
  });
  TD_RETURN_IF_ERROR(mover.Run({there}, count));
  if (task.back) return mover.Run({{task.target, task.source, there.buckets}}, count);
  if (!task.retire) return OkStatus();
  // As in `tandem drain`, the other servers must learn about earlier moves that only the leaving
  // server knows.
  TD_RETURN_IF_ERROR(mover.AwaitStep());
  return mover.Where().status();
}

std::vector<int> SimJob::BucketsOf(int index) {
  SimServer* const server = ServerOf(index);
  if (server == nullptr) return {};
  const StatusOr<MapAnswer> answer =
      server->shard().migrations().Exchange({kSimJob, 0, 0}, /*observer=*/true, {});
  return answer.ok() ? answer->buckets : std::vector<int>();
}

void SimJob::KillMover() {
  for (const auto& process : movers_) {
    if (process->dead() || process->ended()) continue;
    world_.Note("mover killed", static_cast<uint64_t>(process->node()));
    return process->Kill();
  }
}

// Stops a server for the rest of the job, if it serves no bucket.
void SimJob::Retire(int index) {
  SimServer& server = *servers_[static_cast<size_t>(index)];
  if (!server.alive() || !BucketsOf(index).empty()) return;
  world_.Note("server retired", static_cast<uint64_t>(index));
  ++report_.retired;
  retired_[static_cast<size_t>(index)] = true;
  server.Kill(false);
}

// Collects the knowledge of all servers about moves, and sends the union to all servers.
void SimJob::TellAll() {
  BucketMap all;
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i < calls_.size(); ++i) {
      SimServer* const server = ServerOf(static_cast<int>(i));
      if (server == nullptr) continue;
      const auto answer =
          server->shard().migrations().Exchange({kSimJob, 0, 0}, /*observer=*/true, all);
      if (answer.ok()) all.Learn(answer->map);
    }
  }
}

// Returns "" or a description of the fault. It is a fault if more than one server serves a bucket,
// and, if `settled`, if no server serves a bucket.
std::string SimJob::OwnersAreWrong(bool settled) {
  const int buckets = kRowBuckets + ledger_.slices();
  std::vector<int> owners(static_cast<size_t>(buckets), 0);
  for (size_t i = 0; i < calls_.size(); ++i) {
    for (const int b : BucketsOf(static_cast<int>(i))) ++owners[static_cast<size_t>(b)];
  }
  for (int b = 0; b < buckets; ++b) {
    const int n = owners[static_cast<size_t>(b)];
    if (n > 1 || (settled && n == 0)) return absl::StrFormat("bucket %d is served by %d", b, n);
  }
  return "";
}

}  // namespace tandem::pserver
