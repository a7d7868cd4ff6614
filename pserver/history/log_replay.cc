#include "pserver/history/log_replay.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "common/base/require.h"

namespace tandem::pserver {
namespace {

// Returns whether the entry can change which rows or slices the server serves.
bool IsMove(const LogRecord& record) {
  const auto* const move = std::get_if<MoveRecord>(&record);
  return move != nullptr && (std::holds_alternative<MoveReleasedRecord>(*move) ||
                             std::holds_alternative<MoveLearnedRecord>(*move));
}

}  // namespace

PushFacts FactsOf(const ScannedEntry& scanned, const PushRecord& push) {
  return {.entry = scanned.entry.number,
          .time_us = scanned.time_us,
          .trainer = push.head.caller.trainer,
          .incarnation = push.head.caller.incarnation,
          .sequence = push.head.sequence,
          .step = push.head.step,
          .learning_rate = push.head.learning_rate};
}

Status LogReplay::Run(Observer& observer, uint64_t first, uint64_t end) {
  TD_REQUIRE(replay_ == nullptr);
  end_ = end;
  TD_ASSIGN_OR_RETURN(states_, reader_.States());
  bool ended = false;
  const Status scanned = reader_.ScanLog(first, [&](ScannedEntry entry) -> Status {
    ended = entry.entry.number >= end_;
    TD_RETURN_IF_ERROR(Take(observer, std::move(entry)));
    ended = ended || observer.Done();
    return ended ? Cancelled("the replay has reached its end") : OkStatus();
  });
  return ended && scanned.code() == StatusCode::kCancelled ? OkStatus() : scanned;
}

Status LogReplay::Load(Observer& observer, const StoreReader::State& state) {
  TD_REQUIRE(replay_ == nullptr);
  return LoadAt(observer, state, state.log_number);
}

Status LogReplay::Take(Observer& observer, ScannedEntry scanned) {
  const uint64_t number = scanned.entry.number;
  if (scanned.restored) {
    replay_.reset();
    waiting_.clear();
  }
  if (replay_ == nullptr) TD_RETURN_IF_ERROR(BeginAt(observer, scanned));
  if (number >= end_ || observer.Done()) return OkStatus();
  observer.OnEntry(scanned, replay_ != nullptr);
  if (replay_ == nullptr) return OkStatus();
  if (const auto* const push = std::get_if<PushRecord>(&scanned.entry.record)) {
    waiting_.push_back({FactsOf(scanned, *push), *push});
  }
  // The server drops the gradients that an older incarnation of the trainer pushed for the step.
  if (const auto* const adopt = std::get_if<AdoptRecord>(&scanned.entry.record)) {
    std::erase_if(waiting_, [&caller = adopt->caller](const ReplayedPush& p) {
      return p.facts.trainer == caller.trainer && p.facts.incarnation < caller.incarnation;
    });
  }
  const bool move = IsMove(scanned.entry.record);
  const uint64_t before = replay_->version();
  TD_RETURN_IF_ERROR(replay_->Add(std::move(scanned.entry)));
  if (replay_->version() != before) TD_RETURN_IF_ERROR(Complete(observer, number));
  return move ? observer.OnMove(number, *replay_) : OkStatus();
}

Status LogReplay::BeginAt(Observer& observer, const ScannedEntry& next) {
  const uint64_t number = next.entry.number - 1;
  for (const StoreReader::State& state : states_) {
    const bool fits = next.restored ? (state.number == 0 && state.log_number == number) ||
                                          (state.number != 0 && state.number == next.restored_from)
                                    : state.log_number == number;
    if (fits) return LoadAt(observer, state, number);
  }
  return OkStatus();
}

Status LogReplay::LoadAt(Observer& observer, const StoreReader::State& state, uint64_t number) {
  auto replay = std::make_unique<StateReplay>(server_, backend_, device_);
  TD_RETURN_IF_ERROR(
      replay->Begin([&](SnapshotSink& sink) { return reader_.Read(state, sink); }, number));
  replay_ = std::move(replay);
  sync_ = replay_->config().mode == UpdatePolicy::kSync;
  return observer.OnState(state, number + 1, *replay_);
}

Status LogReplay::Complete(Observer& observer, uint64_t entry) {
  TD_REQUIRE(replay_ != nullptr);
  const uint64_t version = replay_->version();
  const auto next = std::stable_partition(
      waiting_.begin(), waiting_.end(),
      [&](const ReplayedPush& p) { return !sync_ || p.facts.step < version; });
  const std::vector<ReplayedPush> done(waiting_.begin(), next);
  waiting_.erase(waiting_.begin(), next);
  return observer.OnUpdate(done, entry, *replay_);
}

}  // namespace tandem::pserver
