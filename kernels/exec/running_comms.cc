#include "kernels/exec/running_comms.h"

#include <algorithm>

#include "common/base/require.h"

namespace tandem::exec {

RunningComms::RunningComms(CommHandler* handler, std::span<const int> nodes)
    : handler_(handler), comms_(nodes.size()) {
  TD_REQUIRE(handler != nullptr || nodes.empty());
  for (size_t c = 0; c < nodes.size(); ++c) comms_[c].node = nodes[c];
}

RunningComms::Comm& RunningComms::at(int comm) {
  TD_REQUIRE(comm >= 0 && static_cast<size_t>(comm) < comms_.size());
  return comms_[static_cast<size_t>(comm)];
}

void RunningComms::Start(int comm, int64_t step) {
  TD_REQUIRE(comm == started_);
  Comm& c = at(comm);
  c.done.Reset();
  started_ = comm + 1;
  c.began = SteadyNow();
  handler_->Start(c.node, step, &c.done);
}

void RunningComms::Skip(int comm) {
  TD_REQUIRE(comm == started_);
  Comm& c = at(comm);
  c.done.Reset();
  c.done.Complete(OkStatus());
  c.began = c.done.ended();
  started_ = comm + 1;
}

Status RunningComms::Wait(int comm) {
  const Time begin = SteadyNow();
  const Status status = at(comm).done.Wait(begin + handler_->timeout());
  waited_ns_.fetch_add((SteadyNow() - begin).count(), std::memory_order_relaxed);
  return status;
}

void RunningComms::EndIteration() {
  TD_REQUIRE(static_cast<size_t>(started_) == comms_.size());
  started_ = 0;
  Time covered = Time::min();
  for (Comm& c : comms_) {  // communications are visited in the order in which they started
    const Time end = c.done.ended(), from = std::max(c.began, covered);
    if (end > from) on_way_ += Seconds(end - from);
    covered = std::max(covered, end);
  }
}

void RunningComms::Abandon() {
  const Time deadline = SteadyNow() + (handler_ != nullptr ? handler_->timeout() : Duration(0));
  for (int c = 0; c < started_; ++c) (void)at(c).done.Wait(deadline);
  started_ = 0;
}

Time RunningComms::ended(int comm) { return at(comm).done.ended(); }

CommTimes RunningComms::times(int threads) const {
  TD_REQUIRE(threads >= 1);
  return {on_way_, static_cast<double>(waited_ns_.load()) * 1e-9 / threads};
}

}  // namespace tandem::exec
