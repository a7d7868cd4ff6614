#include "pserver/tables/step_gradients.h"

#include <utility>

#include "common/base/require.h"

namespace tandem::pserver {
namespace {

// Returns the bytes as a buffer. If `bytes` does not own the memory, the buffer refers to memory of
// the message. Such a push completes the step (PushGate), and the step is applied while the message
// exists.
Buffer BufferOf(PushBytes& bytes) {
  if (bytes.owned()) return std::move(bytes).Take();
  return Buffer(Buffer(), const_cast<std::byte*>(bytes.data()));
}

}  // namespace

StepGradients::StepGradients(const DenseTable& slices, const SparseTables& tables, int trainers)
    : slices_(slices),
      tables_(tables),
      trainers_(trainers),
      slice_gradients_(slices.size(), trainers),
      table_gradients_(tables.size(), trainers),
      event_times_(static_cast<size_t>(trainers), 0) {}

bool StepGradients::IsWholeStep(const PushHead& head) const {
  // If this server serves no rows, a step does not use the rows of pushes
  // (ShardParams::ApplyGathered).
  if (tables_.size() != 0 && !tables_.ServesAny()) return false;
  return head.slices.size() == slices_.size() + 2 * tables_.size();
}

bool StepGradients::Has(int index, int trainer) const {
  const int slices = static_cast<int>(slices_.size());
  return index < slices ? slice_gradients_.Has(index, trainer)
                        : table_gradients_.Has(index - slices, trainer);
}

void StepGradients::Gather(const PushHead& head, PushTicket& ticket) {
  TD_REQUIRE(ticket.slices.size() == head.slices.size());
  TD_REQUIRE(ticket.buffers.size() == head.slices.size());
  const int trainer = head.caller.trainer, slices = static_cast<int>(slices_.size());
  for (size_t i = 0; i < ticket.slices.size(); ++i) {
    TD_REQUIRE(ticket.buffers[i].data() != nullptr);
    const int index = ticket.slices[i];
    if (index < slices) {
      slice_gradients_.Put(index, trainer, BufferOf(ticket.buffers[i]));
      continue;
    }
    int64_t& time = event_times_[static_cast<size_t>(trainer)];
    time = std::max(time, head.event_time_ms);
    const auto count = static_cast<size_t>(head.slices[i].desc.shape[0]);
    table_gradients_.Put(index - slices, trainer,
                         {BufferOf(ticket.buffers[i]), BufferOf(ticket.buffers[i + 1]), count});
    ++i;
  }
}

bool StepGradients::GaveAll(int trainer) const {
  TD_REQUIRE(slice_gradients_.items() == slices_.size());
  return slice_gradients_.count(trainer) == slices_.size() &&
         (!tables_.ServesAny() || table_gradients_.count(trainer) == tables_.size());
}

bool StepGradients::GaveNothing(int trainer) const {
  return slice_gradients_.count(trainer) == 0 && table_gradients_.count(trainer) == 0;
}

bool StepGradients::NothingGathered() const {
  for (int trainer = 0; trainer < trainers_; ++trainer) {
    if (!GaveNothing(trainer)) return false;
  }
  return true;
}

std::vector<std::string> StepGradients::Lacks(int trainer) const {
  std::vector<std::string> names;
  for (int i = 0; i < static_cast<int>(slices_.size()); ++i) {
    const std::string& name = slices_.spec(i).variable;
    if (slice_gradients_.Has(i, trainer) || (!names.empty() && names.back() == name)) continue;
    names.push_back(name);
  }
  for (int i = 0; tables_.ServesAny() && i < static_cast<int>(tables_.size()); ++i) {
    if (!table_gradients_.Has(i, trainer)) names.push_back(tables_.table(i).spec().variable);
  }
  return names;
}

void StepGradients::Drop(int trainer) {
  slice_gradients_.Drop(trainer);
  table_gradients_.Drop(trainer);
  event_times_[static_cast<size_t>(trainer)] = 0;
}

int64_t StepGradients::EventTime(std::span<const int> ranks) const {
  int64_t time = 0;
  for (const int rank : ranks) time = std::max(time, event_times_[static_cast<size_t>(rank)]);
  return time;
}

}  // namespace tandem::pserver
