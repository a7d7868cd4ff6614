#include "trainer/ps/async_communicator.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/require.h"
#include "common/base/step_number.h"
#include "common/threads/runner.h"

namespace tandem::trainer {
namespace {

void AddTo(std::vector<float>& sum, const std::vector<float>& more) {
  TD_REQUIRE(more.size() == sum.size());
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += more[i];
}

// Returns the first push that has fewer than `max` steps in its field `steps`. If there is no such
// push, appends an empty push with the version of `first`.
GradientSet& OpenPush(std::vector<GradientSet>& pushes, int max, int GradientSet::*steps,
                      const GradientSet& first) {
  for (GradientSet& push : pushes) {
    if (push.*steps < max) return push;
  }
  return pushes.emplace_back(GradientSet{
      .version = first.version, .dense_steps = 0, .row_steps = 0, .values = {}, .rows = {}});
}

}  // namespace

void MergeRows(const RowSet& more, RowSet* sum) {
  TD_REQUIRE(more.dim == sum->dim && more.counts == sum->counts);
  RowSet merged{{}, {}, sum->dim, sum->counts};
  const auto dim = static_cast<size_t>(sum->dim);
  const auto append = [&](const RowSet& from, size_t i) {
    merged.ids.push_back(from.ids[i]);
    const float* values = from.values.data() + i * dim;
    merged.values.insert(merged.values.end(), values, values + dim);
  };
  size_t a = 0, b = 0;
  while (a < sum->ids.size() || b < more.ids.size()) {
    if (b == more.ids.size() || (a < sum->ids.size() && sum->ids[a] < more.ids[b])) {
      append(*sum, a++);
    } else if (a == sum->ids.size() || more.ids[b] < sum->ids[a]) {
      append(more, b++);
    } else {
      append(*sum, a++);
      float* const to = merged.values.data() + merged.values.size() - dim;
      for (size_t c = 0; c < dim; ++c) to[c] += more.values[b * dim + c];
      ++b;
    }
  }
  DCHECK_EQ(merged.values.size(), merged.ids.size() * dim);
  *sum = std::move(merged);
}

AsyncCommunicator::AsyncCommunicator(AsyncOptions options, std::vector<int64_t> sizes,
                                     Exchange exchange)
    : options_(options),
      sizes_(std::move(sizes)),
      exchange_(std::move(exchange)),
      queue_(static_cast<size_t>(options.queue_max)),
      spare_(static_cast<size_t>(options.queue_max)),
      fresh_(Empty()) {
  TD_REQUIRE(options_.senders > 0 && options_.queue_max > 0 && options_.merge_max > 0);
  for (int i = 0; i < options_.senders; ++i) {
    senders_.emplace_back([this, i] {
      SetThreadName("sender-" + std::to_string(i));
      SendLoop();
    });
  }
  if (options_.recv_thread) {
    receiver_ = std::thread([this] {
      SetThreadName("receiver");
      ReceiveLoop();
    });
  }
}

AsyncCommunicator::~AsyncCommunicator() {
  queue_.Clear();
  Stop();
}

ValueSets AsyncCommunicator::Empty() const {
  ValueSets values;
  for (const int64_t n : sizes_) values.emplace_back(static_cast<size_t>(n));
  return values;
}

Status AsyncCommunicator::Send(uint64_t step, float learning_rate,
                               std::span<const float* const> gradients, std::vector<RowSet> rows,
                               int64_t event_time_ms) {
  TD_REQUIRE(gradients.size() == sizes_.size());
  uint64_t version = 0;
  {
    MutexLock lock(mu_);
    TD_RETURN_IF_ERROR(status_);
    version = used_;
  }
  std::optional<GradientSet> set = spare_.Pop(SteadyNow());
  if (!set) set = GradientSet{.values = Empty()};
  set->step = step;
  set->version = version;
  set->learning_rate = learning_rate;
  set->event_time_ms = event_time_ms;
  set->dense_steps = set->row_steps = 1;
  set->rows = std::move(rows);
  for (size_t i = 0; i < sizes_.size(); ++i) {
    std::copy_n(gradients[i], sizes_[i], set->values[i].begin());
  }
  switch (queue_.Push(*std::move(set), SteadyNow() + options_.timeout)) {
    case PushResult::kOk:
      return OkStatus();
    case PushResult::kFull:
      return DeadlineExceeded(
          "step %d: %d steps still wait in the send queue (send_queue_size) after %s [TD4025]; "
          "hint: look for a slow or stopped pserver with tandem status LOG_DIR",
          DisplayStep(step), options_.queue_max, FormatDuration(options_.timeout));
    case PushResult::kClosed:
      break;
  }
  MutexLock lock(mu_);
  return status_.ok() ? Cancelled("the push was not sent, because sending has stopped") : status_;
}

bool AsyncCommunicator::Receive(std::span<float* const> params) {
  TD_REQUIRE(params.size() == sizes_.size());
  MutexLock lock(mu_);
  if (!std::exchange(has_fresh_, false)) return false;
  used_ = version_;
  for (size_t i = 0; i < sizes_.size(); ++i) std::copy_n(fresh_[i].begin(), sizes_[i], params[i]);
  return true;
}

void AsyncCommunicator::Merge(GradientSet step, std::vector<GradientSet>* pushes) {
  if (!sizes_.empty()) {
    GradientSet& dense =
        OpenPush(*pushes, options_.dense_merge_max, &GradientSet::dense_steps, step);
    if (dense.dense_steps++ == 0) {
      std::swap(dense.values, step.values);
    } else {
      for (size_t i = 0; i < sizes_.size(); ++i) AddTo(dense.values[i], step.values[i]);
    }
    dense.step = step.step;
    dense.learning_rate = step.learning_rate;
    dense.event_time_ms = std::max(dense.event_time_ms, step.event_time_ms);
  }
  if (!step.rows.empty()) {
    GradientSet& rows = OpenPush(*pushes, options_.rows_merge_max, &GradientSet::row_steps, step);
    if (rows.row_steps++ == 0) {
      rows.rows = std::move(step.rows);
    } else {
      DCHECK_EQ(rows.rows.size(), step.rows.size());
      for (size_t i = 0; i < rows.rows.size(); ++i) MergeRows(step.rows[i], &rows.rows[i]);
    }
    rows.step = step.step;
    rows.learning_rate = step.learning_rate;
    rows.event_time_ms = std::max(rows.event_time_ms, step.event_time_ms);
  }
  if (!step.values.empty()) (void)spare_.TryPush(std::move(step));
}

int AsyncCommunicator::Take(std::vector<GradientSet>* pushes) {
  constexpr Duration kWait = std::chrono::milliseconds(10);
  pushes->clear();
  int taken = 0, waits = 0;
  for (auto next = queue_.Pop(Time::max()); next;) {
    Merge(*std::move(next), pushes);
    if (++taken == options_.merge_max) break;
    while (true) {
      const bool patient = waits < options_.merge_waits;
      next = queue_.Pop(SteadyNow() + (patient ? kWait : Duration::zero()));
      if (next || !patient || queue_.closed()) break;
      ++waits;
    }
  }
  for (GradientSet& push : *pushes) Average(&push);
  return taken;
}

void AsyncCommunicator::Average(GradientSet* push) const {
  if (options_.sum) return;
  const auto divide = [](std::span<float> values, int steps) {
    if (steps <= 1) return;
    const float share = 1.0f / static_cast<float>(steps);
    for (float& v : values) v *= share;
  };
  for (std::vector<float>& values : push->values) divide(values, push->dense_steps);
  for (RowSet& rows : push->rows) {
    const auto dim = static_cast<size_t>(rows.dim), counts = static_cast<size_t>(rows.counts);
    for (size_t i = 0; i < rows.ids.size(); ++i) {
      divide(std::span(rows.values).subspan(i * dim + counts, dim - counts), push->row_steps);
    }
  }
}

bool AsyncCommunicator::WantsPull() {
  if (sent_ < options_.sent_before_recv) return false;
  sent_ = 0;
  return true;
}

void AsyncCommunicator::Arrived(const StatusOr<uint64_t>& version, ValueSets* pulled) {
  bool failed = false;
  {
    MutexLock lock(mu_);
    if (!version.ok()) {
      failed = status_.ok();
      if (failed) status_ = version.status();
    } else if (pulled != nullptr && *version >= version_) {
      version_ = *version;
      std::swap(fresh_, *pulled);
      has_fresh_ = true;
    }
    sent_cv_.NotifyAll();
  }
  if (failed) queue_.Close();
}

void AsyncCommunicator::SendLoop() {
  ValueSets pulled = Empty();
  std::vector<GradientSet> pushes;
  while (const int steps = Take(&pushes)) {
    bool pull = false;
    {
      MutexLock lock(mu_);
      if (!status_.ok()) continue;  // after an error, the sender only removes steps from the queue
      if (!options_.recv_thread) {
        sent_ += steps;
        pull = WantsPull();
      }
    }
    for (GradientSet& push : pushes) {
      ValueSets* const with = pull && &push == &pushes.back() ? &pulled : nullptr;
      const StatusOr<uint64_t> version = exchange_(&push, with);
      Arrived(version, with);
      if (!version.ok()) break;
      if (!push.values.empty()) (void)spare_.TryPush(std::move(push));
    }
    if (options_.recv_thread) {
      MutexLock lock(mu_);
      sent_ += steps;
      sent_cv_.NotifyAll();
    }
  }
}

void AsyncCommunicator::ReceiveLoop() {
  ValueSets pulled = Empty();
  while (true) {
    {
      MutexLock lock(mu_);
      while (!ending_ && status_.ok() && sent_ < options_.sent_before_recv) {
        (void)sent_cv_.WaitUntil(mu_, Time::max());
      }
      if (ending_ || !status_.ok()) return;
      sent_ = 0;
    }
    Arrived(exchange_(nullptr, &pulled), &pulled);
  }
}

void AsyncCommunicator::Stop() {
  queue_.Close();
  for (std::thread& sender : senders_) sender.join();
  senders_.clear();
  {
    MutexLock lock(mu_);
    ending_ = true;
    sent_cv_.NotifyAll();
  }
  if (receiver_.joinable()) receiver_.join();
}

Status AsyncCommunicator::Finish() {
  Stop();
  MutexLock lock(mu_);
  return status_;
}

}  // namespace tandem::trainer
