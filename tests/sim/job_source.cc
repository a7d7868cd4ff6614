// Trainers of a simulated job that read a stream, and operators that restore the job while it runs.
#include "pserver/client/moves/global_snapshot.h"
#include "tests/sim/sim_job.h"

namespace tandem::pserver {

using std::chrono::milliseconds;
using std::chrono::seconds;

// The records of a step are the pushes of this step by all trainers.
int64_t SimJob::SlotOfRecord(uint64_t record) const {
  const auto trainers = static_cast<uint64_t>(plan_.trainers);
  return ledger_.SlotOf(static_cast<int>(record % trainers), record / trainers);
}

StatusOr<SimJob::Push> SimJob::NextPush(const reader::StreamDataset* stream, int rank,
                                        uint64_t step) const {
  if (stream == nullptr) return Push{rank, step};
  TD_ASSIGN_OR_RETURN(const int64_t slot, source_->Read(*stream, rank, step));
  return Push{static_cast<int>(slot / plan_.steps), static_cast<uint64_t>(slot % plan_.steps)};
}

bool SimJob::CuttersRun() const {
  return std::any_of(cutters_.begin(), cutters_.end(),
                     [](const auto& c) { return !c->dead() && !c->ended(); });
}

bool SimJob::Rewinds() const {
  return std::any_of(operators_.begin(), operators_.end(),
                     [](const auto& o) { return !o->ended(); });
}

// Restores the newest global snapshot of all servers. Trainers push meanwhile, although an operator
// should stop them first.
void SimJob::StartOperator() {
  if (CuttersRun() || Rewinds()) return;
  const auto process = std::make_shared<SimProcess>(
      world_, kFirstOperatorNode + static_cast<int>(operators_.size()));
  world_.Note("operator");
  operators_.push_back(process);
  process->Start([this, weak = std::weak_ptr(process)] {
    const auto self = weak.lock();
    const Status status = RunOperator(self);
    if (self->dead()) return;
    world_.Note(status.ok() ? "restored" : "not restored");
    if (!status.ok() && status.code() != StatusCode::kNotFound) {
      Fail("the operator restores nothing: " + ToString(status));
    }
  });
}

Status SimJob::RunOperator(const std::shared_ptr<SimProcess>& process) {
  SimCarrier carrier(process, network_, calls_, /*retries=*/0);
  uint64_t number = 0;
  const Time end = world_.Now() + seconds(100);
  while (true) {
    ps::GlobalSnapshotCoordinator restorer(carrier, addresses_,
                                           {.job = kSimJob,
                                            .call_timeout = seconds(1),
                                            .write_timeout = seconds(2),
                                            .lease = milliseconds(300)});
    // The operator repeats the restore of one snapshot until all servers have it.
    if (number == 0) {
      const auto found = restorer.Find();
      if (found.ok()) {
        for (const ps::FoundGlobalSnapshot& f : *found) {
          if (f.whole) number = f.number;
        }
        if (number == 0) return NotFound("no snapshot");
        ++report_.rewinds;
        ledger_.Rewind();
      }
    }
    Status status = Unavailable("servers do not reply");
    if (number != 0) status = restorer.Restore(number).status();
    if (process->dead()) return Cancelled("the process is dead");
    ledger_.Rewind();
    if (status.ok()) break;
    if (world_.Now() > end) return status;
    (void)process->MakeEvent()->WaitUntil(world_.Now() + milliseconds(50));
  }
  // The job continues with all trainers.
  for (int rank = 0; rank < plan_.trainers; ++rank) {
    Trainer& t = trainers_[static_cast<size_t>(rank)];
    if (!std::exchange(t.done, false)) continue;
    StartTrainer(rank);
  }
  return OkStatus();
}

}  // namespace tandem::pserver
