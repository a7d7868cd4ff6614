// The part of Shard that handles faulty input: gradients that are not finite or are stale, and
// unresponsive trainers.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "common/base/step_number.h"
#include "common/tensor/finite.h"
#include "pserver/shard/shard.h"

namespace tandem::pserver {
namespace {

// INVALID_ARGUMENT: a value is not finite (the message names the first one).
Status CheckFinite(const PushHead& head, const PushTicket& ticket) {
  for (size_t i = 0; i < head.slices.size(); ++i) {
    const PushHead::Slice& s = head.slices[i];
    if (s.desc.dtype != DType::kF32) continue;  // row ids
    const auto values = Floats(ticket.buffers[i], s.desc.shape.numel());
    const int64_t bad = FirstNotFinite(values);
    if (bad < 0) continue;
    const bool table = s.desc.shape.rank() == 2;
    const int64_t row =
        table ? reinterpret_cast<const int64_t*>(ticket.buffers[i - 1].get())[bad / s.desc.shape[1]]
              : 0;
    return InvalidArgument("trainer %d step %d: gradient of %s, %selement %d is %s",
                           head.caller.trainer, DisplayStep(head.step), s.variable,
                           table ? absl::StrFormat("row %d, ", row) : "",
                           table ? bad % s.desc.shape[1] : s.offset + bad,
                           std::isnan(values[bad]) ? "NaN" : "infinite");
  }
  return OkStatus();
}

}  // namespace

StatusOr<bool> Shard::LookForNonfinite(const PushHead& head, const PushTicket& ticket) {
  if (ticket.duplicate || head.finite || ticket.nonfinite == NonfinitePolicy::kApply) return false;
  const Status found = CheckFinite(head, ticket);
  if (found.ok()) return false;
  if (ticket.nonfinite == NonfinitePolicy::kSkip) {
    LOG_EVERY_T(WARNING, 10.0) << found.message() << "; the push was skipped";
    return true;
  }
  counters_.rejected.Add(1);
  counters_.refused.Add(1);
  return InvalidArgument(
      "%s; the push was rejected [TD4013]; hint: the knob nonfinite_gradients chooses another "
      "policy",
      found.message());
}

PushHead Shard::Emptied(const PushHead& head, PushTicket& ticket) {
  ticket.skipped = true;
  counters_.skipped.Add(1);
  ++trainers_[head.caller.trainer].skipped;
  PushHead emptied = head;
  if (config_.mode != ShardMode::kSync) {
    emptied.slices.clear();
    ticket.slices.clear();
    ticket.buffers.clear();
    return emptied;
  }
  // A step needs every part from every trainer: zeros for slices, no rows for tables.
  for (size_t i = 0; i < emptied.slices.size(); ++i) {
    TensorDesc& desc = emptied.slices[i].desc;
    if (params_->IsTable(ticket.slices[i])) {
      desc.shape = desc.dtype == DType::kI64 ? Shape{0} : Shape{0, desc.shape[1]};
    } else {
      std::memset(ticket.buffers[i].get(), 0, desc.bytes());
    }
  }
  return emptied;
}

// Corrects a gradient that was computed from older parameters to the current ones, to first order.
// g * g approximates the second derivative (Zheng et al., ICML 2017, eq. 10). The log stores the
// result, because it does not contain the pulled values.
Status Shard::Compensate(const PushHead& head, PushTicket& ticket) {
  for (size_t i = 0; i < ticket.slices.size(); ++i) {
    if (params_->IsTable(ticket.slices[i])) continue;
    const int64_t numel = head.slices[i].desc.shape.numel();
    DenseTable& slices = params_->slices();
    TD_ASSIGN_OR_RETURN(Buffer sum, slices.pool().Take(static_cast<size_t>(numel) * sizeof(float)));
    TD_ASSIGN_OR_RETURN(
        const bool changed,
        slices.Compensated(ticket.slices[i], head.caller.trainer, config_.delay_compensation,
                           Floats(ticket.buffers[i], numel), reinterpret_cast<float*>(sum.get())));
    if (changed) ticket.buffers[i] = std::move(sum);
  }
  return OkStatus();
}

Duration Shard::SilenceMax() const { return std::min(config_.step_timeout, config_.lost_after); }

// Only a server that trainers regularly call can declare them lost (pserver 0 has the barriers). In
// sync mode a step needs every trainer, so waiting calls fail instead.
bool Shard::LosesTrainers() const {
  if (config_.mode == ShardMode::kSync || !initialised()) return false;
  if (options_.index == 0 || params_->slices().size() != 0) return true;
  for (int b = 0; b < kRowBuckets; ++b) {
    if (Serves(b)) return true;
  }
  return false;
}

void Shard::LoseSilentTrainers(Time now, Ready& ready) {
  if (!LosesTrainers()) return;
  const std::vector<int> lost = trainers_.LoseSilent(now, config_.lost_after);
  if (lost.empty()) return;
  for (int r : lost) owed_.Lose(r, UINT64_MAX);
  if (const Status again = RunOwed(); !again.ok()) FailAllWaiters(again, ready);
  WakeWaiters(ready);
  barriers_.Wake(ready);
}

}  // namespace tandem::pserver
