#include "pserver/shard/checkpoint_calls.h"

#include <algorithm>
#include <utility>

namespace tandem::pserver {
namespace {

constexpr Duration kPause = std::chrono::microseconds(50);
// Maximum pause after a chunk that took long, such as a slice of many megabytes. On a busy machine,
// a thread that waits for the lock may need this time to wake up.
constexpr Duration kPauseMax = std::chrono::milliseconds(4);

}  // namespace

StatusOr<ShardSnapshot> Shard::Checkpoints::Take(bool delta) {
  Snapshotter::Copy copy;
  {
    MutexLock lock(shard_.mu_);
    TD_RETURN_IF_ERROR(shard_.state_.broken);
    if (!shard_.state_.initialised()) {
      return FailedPrecondition(
          "checkpoint: the parameters of this server are not initialised yet");
    }
    if (delta && !shard_.base_.version()) {
      return FailedPrecondition(
          "a delta needs a full checkpoint as its base, but this server has written no full "
          "checkpoint since its start, its last restore or its last migration; hint: run tandem "
          "save");
    }
    TD_ASSIGN_OR_RETURN(copy, shard_.snapshotter_.Begin(delta, shard_.migrations_.moves()));
  }
  return CopyOf(std::move(copy))();
}

SnapshotFn Shard::Checkpoints::CopyOf(Snapshotter::Copy copy) {
  struct Begun {
    Begun(Shard& s, Snapshotter::Copy c) : shard(s), copy(std::move(c)) {}
    ~Begun() { shard.checkpoints().Abandon(copy); }  // has no effect if the snapshot was finished
    Shard& shard;
    Snapshotter::Copy copy;
  };
  return [begun = std::make_shared<Begun>(shard_, std::move(copy))] {
    return begun->shard.checkpoints().Finish(begun->copy);
  };
}

StatusOr<ShardSnapshot> Shard::Checkpoints::Finish(Snapshotter::Copy& copy) {
  if (copy.number == 0) return std::move(copy.snapshot);
  MutexLock lock(shard_.mu_);
  CondVar turn;  // only for pauses, in which other threads can acquire the lock
  while (true) {
    const Time begin = SteadyNow();
    TD_ASSIGN_OR_RETURN(const bool whole, shard_.snapshotter_.CopyChunk(copy));
    if (whole) return shard_.snapshotter_.Finish(copy);
    const Time now = SteadyNow();
    (void)turn.WaitUntil(shard_.mu_,
                         now + std::clamp<Duration>((now - begin) / 8, kPause, kPauseMax));
  }
}

void Shard::Checkpoints::Abandon(const Snapshotter::Copy& copy) {
  MutexLock lock(shard_.mu_);
  shard_.snapshotter_.Abandon(copy);
}

StatusOr<ShardSnapshot> Shard::Checkpoints::Restore(const SnapshotReader& read,
                                                    const ReplaceRecorder& record) {
  SnapshotLoader loader(shard_.factory_, shard_.options_.index);
  TD_RETURN_IF_ERROR(read(loader));
  ShardSnapshot header = loader.header();
  TD_ASSIGN_OR_RETURN(header.log_number, Replace(loader, record));
  return header;
}

Status Shard::Checkpoints::Restore(const ShardSnapshot& snapshot) {
  if (snapshot.slices.size() != snapshot.config.slices.size()) {
    return DataLoss(
        "the checkpoint contains %d slices, but the configuration in the checkpoint has %d slices",
        snapshot.slices.size(), snapshot.config.slices.size());
  }
  return Restore([&snapshot](SnapshotSink& sink) { return SendChunks(snapshot, sink); }).status();
}

StatusOr<uint64_t> Shard::Checkpoints::Replace(SnapshotLoader& loader,
                                               const ReplaceRecorder& record) {
  const ShardSnapshot& header = loader.header();
  const MoveState moves = header.moves == nullptr ? MoveState() : *header.moves;
  Turn turn(shard_);
  ShardState& state = shard_.state_;
  TD_RETURN_IF_ERROR(shard_.migrations_.CheckRestore(moves, header));
  const uint64_t last = std::max(shard_.replay_.last_number(), header.log_number);
  if (record) TD_RETURN_IF_ERROR(record(last));
  shard_.migrations_.Restore(moves, header);
  const Status back = Aborted(
      "the call failed, because this server was restored from the state of version %d [TD4015]; "
      "hint: restart the trainers",
      header.version);
  shard_.calls_.FailAll(back, turn.ready());
  shard_.OnHoldEnded(shard_.hold_.End(back), turn.ready());
  state.rollbacks += state.params != nullptr;
  state.journal.Resume(last);
  state.SetUp(header.config, loader.TakeParams());
  state.trainers.Restore(header.marks, header.version);
  state.version = header.version;
  state.has_previous = header.has_previous;
  state.event_time_ms = header.event_time_ms;
  state.ShowTables();
  state.storing_first = 0;
  shard_.SetJob(header.config.job);
  shard_.snapshotter_.Reset();
  shard_.base_.OnRestored(header);
  shard_.replay_.Reset();
  shard_.gate_.OnStepEnded();
  shard_.restored_ = shard_.may_change_policy_ = true;
  state.Settle();
  return state.journal.number();
}

void Shard::Checkpoints::Resume(const ShardSnapshot& snapshot) { shard_.base_.Resume(snapshot); }

Status Shard::Checkpoints::Replay(LogEntry entry) {
  Turn turn(shard_);
  TD_RETURN_IF_ERROR(shard_.replay_.Add(std::move(entry), /*lost=*/false));
  return shard_.RunReplay(turn.ready());
}

void Shard::Checkpoints::HearAllTrainers() {
  MutexLock lock(shard_.mu_);
  for (int trainer = 0; trainer < shard_.state_.trainers.size(); ++trainer) {
    shard_.state_.trainers.Hear(trainer);
  }
}

size_t Shard::Checkpoints::missing_pushes() const {
  MutexLock lock(shard_.mu_);
  return shard_.replay_.missing();
}

uint64_t Shard::Checkpoints::settled_number() const {
  MutexLock lock(shard_.mu_);
  return shard_.state_.journal.settled_number();
}

}  // namespace tandem::pserver
