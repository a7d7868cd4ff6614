#include "pserver/shard/push_gate.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "common/base/require.h"
#include "common/base/step_number.h"

namespace tandem::pserver {
namespace {

// Highest event time of a push: the end of the year 9999 in milliseconds of Unix time. A higher
// time is probably in microseconds.
constexpr int64_t kEventTimeMax = 253'402'300'799'999;

}  // namespace

StatusOr<PushTicket> PushGate::Admit(const PushHead& head,
                                     std::span<const void* const> in_place) const {
  TD_REQUIRE(in_place.empty() || in_place.size() == head.slices.size());
  PushTicket ticket;
  if (replay_.Misses(head)) {
    ticket.verdict = PushVerdict::kReplayed;
  } else {
    TD_ASSIGN_OR_RETURN(ticket.verdict, Check(head));
    if (ticket.verdict == PushVerdict::kDuplicate) return ticket;
    TD_ASSIGN_OR_RETURN(ticket.slices, state_.params->FindPush(head, migrations_.moves()));
  }
  ticket.nonfinite = state_.config.nonfinite;
  // A push that may be skipped is copied: EmptyPush writes zeros over its values, and the memory of
  // the received message must not be written.
  const bool waits =
      state_.sync() && (!CompletesStep(head) || ticket.nonfinite == NonfinitePolicy::kSkip);
  const bool needed_later =
      waits || state_.journal.stores_values() || ticket.verdict == PushVerdict::kReplayed;
  for (size_t i = 0; i < head.slices.size(); ++i) {
    const TensorDesc& desc = head.slices[i].desc;
    if (!needed_later && !in_place.empty() && in_place[i] != nullptr && desc.dtype == DType::kF32) {
      ticket.buffers.push_back(PushBytes::InMessage(in_place[i]));
      continue;
    }
    TD_ASSIGN_OR_RETURN(Buffer buffer, state_.params->slices().pool().Take(desc.bytes()));
    ticket.buffers.emplace_back(std::move(buffer));
  }
  TD_REQUIRE(ticket.buffers.size() == head.slices.size());
  return ticket;
}

Status PushGate::Recheck(const PushHead& head, PushTicket& ticket) const {
  if (ticket.verdict == PushVerdict::kReplayed && replay_.Misses(head)) return OkStatus();
  TD_ASSIGN_OR_RETURN(ticket.verdict, Check(head));
  if (ticket.verdict == PushVerdict::kDuplicate) return OkStatus();
  TD_ASSIGN_OR_RETURN(ticket.slices, state_.params->FindPush(head, migrations_.moves()));
  return OkStatus();
}

StatusOr<PushVerdict> PushGate::Check(const PushHead& head) const {
  if (!state_.initialised()) {
    return FailedPrecondition("a push arrived before all initial parameters (%d of %d slices)",
                              state_.params->progress().count(), state_.params->progress().size());
  }
  TD_ASSIGN_OR_RETURN(const PushVerdict seen, CheckSequence(head));
  if (seen == PushVerdict::kDuplicate) return seen;
  if (!state_.journal.replaying()) TD_RETURN_IF_ERROR(CheckTime(head));
  const TrainerRegistry::Trainer& t = state_.trainers[head.caller.trainer];
  if (t.completed) {
    return FailedPrecondition("trainer %d pushes, but this trainer has already completed the job",
                              head.caller.trainer);
  }
  // The older incarnation of the trainer completed this step on this server. The new incarnation
  // repeats the push because other servers still need it, so the push counts as a duplicate here.
  if (state_.sync() && head.step + 1 == state_.version && t.adopted == state_.version) {
    return PushVerdict::kDuplicate;
  }
  if (head.once && t.rolled_back) {
    return FailedPrecondition(
        "trainer %d pushes for step %d, but this server was restored to step %d of this trainer "
        "[TD4015]; hint: restart the trainers",
        head.caller.trainer, DisplayStep(head.step), t.once_steps);
  }
  if (head.once && state_.options.replication == Replication::kAsync) {
    return FailedPrecondition(
        "--replication=async of the pserver does not support streams, because it may lose steps "
        "[TD4038]; hint: use --replication=quorum");
  }
  // An older incarnation of the trainer has pushed this step to this server. The new incarnation
  // repeats the step because other servers still need it.
  if (head.once && !state_.sync() && head.step < t.once_adopted) return PushVerdict::kDuplicate;
  TD_RETURN_IF_ERROR(CheckStep(head));
  return PushVerdict::kNew;
}

StatusOr<PushVerdict> PushGate::CheckSequence(const PushHead& head) const {
  const TrainerRegistry::Trainer& t = state_.trainers[head.caller.trainer];
  switch (t.taken.Look(head.sequence)) {
    case SequenceWindow::Seen::kTaken:
      return PushVerdict::kDuplicate;
    case SequenceWindow::Seen::kTooOld:
      return FailedPrecondition(
          "trainer %d: push %d is too old: this server no longer knows whether it accepted the "
          "push; the newest push is %d",
          head.caller.trainer, head.sequence, t.taken.highest());
    case SequenceWindow::Seen::kNew:
      break;
  }
  if (head.origin_server == 0) return PushVerdict::kNew;
  TD_ASSIGN_OR_RETURN(const bool taken, migrations_.TakenElsewhere(head));
  return taken ? PushVerdict::kDuplicate : PushVerdict::kNew;
}

Status PushGate::CheckTime(const PushHead& head) const {
  // If the step is complete, the push has no effect any more, so the current owner of its rows does
  // not matter.
  const bool past = state_.sync() && head.step < state_.version;
  if (!past) TD_RETURN_IF_ERROR(migrations_.CheckGeneration(head));
  TD_RETURN_IF_ERROR(migrations_.CheckStepHeld(head));
  TD_RETURN_IF_ERROR(hold_.Admits(head));
  return state_.journal.Ready(ValueBytes(head));
}

Status PushGate::CheckStep(const PushHead& head) const {
  if (!std::isfinite(head.learning_rate)) {
    return InvalidArgument("trainer %d step %d: the learning rate is not finite [TD4013]",
                           head.caller.trainer, DisplayStep(head.step));
  }
  if (head.event_time_ms < 0 || head.event_time_ms > kEventTimeMax) {
    return InvalidArgument(
        "trainer %d step %d: event time %d is out of range, expected milliseconds of Unix time up "
        "to %d [TD1104]; hint: convert the time to milliseconds",
        head.caller.trainer, DisplayStep(head.step), head.event_time_ms, kEventTimeMax);
  }
  if (!state_.sync()) return OkStatus();
  if (head.step != state_.version) {
    return FailedPrecondition(
        "trainer %d pushes for step %d, but this server is at step %d%s [TD4015]; hint: restart "
        "the trainers",
        head.caller.trainer, DisplayStep(head.step), DisplayStep(state_.version),
        head.step < state_.version ? " (the push is stale)" : " (was it restored?)");
  }
  return CheckRate(head);
}

Status PushGate::CheckRate(const PushHead& head) const {
  if (!step_rate_ || std::bit_cast<uint32_t>(step_rate_->learning_rate) ==
                         std::bit_cast<uint32_t>(head.learning_rate)) {
    return OkStatus();
  }
  return InvalidArgument("step %d: trainer %d sends learning rate %.9g, but trainer %d sent %.9g",
                         DisplayStep(head.step), head.caller.trainer, head.learning_rate,
                         step_rate_->trainer, step_rate_->learning_rate);
}

bool PushGate::CompletesStep(const PushHead& head) const {
  for (int r = 0; r < state_.trainers.size(); ++r) {
    const bool missing = !state_.trainers[r].completed && !state_.params->step().GaveAll(r);
    if (missing && r != head.caller.trainer) return false;
  }
  return state_.params->step().IsWholeStep(head);
}

Status PushGate::OwnValuesIfStepWaits(const PushHead& head, PushTicket& ticket) const {
  if (!state_.sync() || CompletesStep(head)) return OkStatus();
  for (size_t i = 0; i < ticket.buffers.size(); ++i) {
    PushBytes& values = ticket.buffers[i];
    if (values.owned()) continue;
    const size_t bytes = head.slices[i].desc.bytes();
    TD_ASSIGN_OR_RETURN(Buffer copy, state_.params->slices().pool().Take(bytes));
    std::memcpy(copy.get(), values.data(), bytes);
    values = PushBytes(std::move(copy));
  }
  return OkStatus();
}

void PushGate::OnAccepted(const PushHead& head) {
  if (!state_.sync() || step_rate_) return;
  step_rate_ = {.trainer = head.caller.trainer, .learning_rate = head.learning_rate};
}

void PushGate::OnReplaced(int trainer) {
  if (step_rate_ && step_rate_->trainer == trainer) step_rate_.reset();
}

float PushGate::step_rate() const {
  TD_REQUIRE(step_rate_.has_value());
  return step_rate_->learning_rate;
}

}  // namespace tandem::pserver
