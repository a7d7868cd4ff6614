#include "pserver/tables/push_filters.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "common/base/require.h"
#include "common/base/step_number.h"
#include "common/tensor/finite.h"

namespace tandem::pserver {

Status CheckFinite(const PushHead& head, const PushTicket& ticket) {
  TD_REQUIRE(ticket.buffers.size() == head.slices.size());
  for (size_t i = 0; i < head.slices.size(); ++i) {
    const PushHead::Slice& s = head.slices[i];
    if (s.desc.dtype != DType::kF32) continue;  // i64: the ids of rows
    const auto values = Floats(ticket.buffers[i], s.desc.shape.numel());
    const int64_t bad = FirstNotFinite(values);
    if (bad < 0) continue;
    const bool table = s.desc.shape.rank() == 2;
    const int64_t row =
        table
            ? reinterpret_cast<const int64_t*>(ticket.buffers[i - 1].data())[bad / s.desc.shape[1]]
            : 0;
    return InvalidArgument("trainer %d step %d: gradient of %s, %selement %d is %s",
                           head.caller.trainer, DisplayStep(head.step), s.variable,
                           table ? absl::StrFormat("row %d, ", row) : "",
                           table ? bad % s.desc.shape[1] : s.offset + bad,
                           std::isnan(values[bad]) ? "NaN" : "infinite");
  }
  return OkStatus();
}

PushHead EmptyPush(const PushHead& head, UpdatePolicy mode, const ShardParams& params,
                   PushTicket& ticket) {
  ticket.skipped = true;
  PushHead emptied = head;
  if (mode != UpdatePolicy::kSync) {
    emptied.slices.clear();
    ticket.slices.clear();
    ticket.buffers.clear();
    return emptied;
  }
  for (size_t i = 0; i < emptied.slices.size(); ++i) {
    TensorDesc& desc = emptied.slices[i].desc;
    if (params.IsTable(ticket.slices[i])) {
      desc.shape = desc.dtype == DType::kI64 ? Shape{0} : Shape{0, desc.shape[1]};
    } else {
      TD_REQUIRE(ticket.buffers[i].owned());
      std::memset(ticket.buffers[i].mutable_data(), 0, desc.bytes());
    }
  }
  return emptied;
}

Status CompensateDelay(const PushHead& head, float compensation, ShardParams& params,
                       PushTicket& ticket) {
  DenseTable& slices = params.slices();
  for (size_t i = 0; i < ticket.slices.size(); ++i) {
    if (params.IsTable(ticket.slices[i])) continue;
    const int64_t numel = head.slices[i].desc.shape.numel();
    TD_ASSIGN_OR_RETURN(Buffer sum, slices.pool().Take(static_cast<size_t>(numel) * sizeof(float)));
    TD_ASSIGN_OR_RETURN(
        const bool changed,
        slices.Compensated(ticket.slices[i], head.caller.trainer, compensation,
                           Floats(ticket.buffers[i], numel), reinterpret_cast<float*>(sum.get())));
    if (changed) ticket.buffers[i] = PushBytes(std::move(sum));
  }
  return OkStatus();
}

}  // namespace tandem::pserver
