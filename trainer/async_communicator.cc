#include "trainer/async_communicator.h"

#include <algorithm>
#include <utility>

#include "common/base/runner.h"

namespace tandem {

void MergeRows(const RowSet& more, RowSet* sum) {
  RowSet merged{{}, {}, sum->dim};
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
                               std::span<const float* const> gradients, std::vector<RowSet> rows) {
  {
    MutexLock lock(mu_);
    TD_RETURN_IF_ERROR(status_);
  }
  std::optional<GradientSet> set = spare_.Pop(SteadyNow());
  if (!set) set = GradientSet{.values = Empty()};
  set->step = step;
  set->learning_rate = learning_rate;
  set->steps = 1;
  set->rows = std::move(rows);
  for (size_t i = 0; i < sizes_.size(); ++i) {
    std::copy_n(gradients[i], sizes_[i], set->values[i].begin());
  }
  switch (queue_.Push(*std::move(set), SteadyNow() + options_.timeout)) {
    case PushResult::kOk:
      return OkStatus();
    case PushResult::kFull:
      return DeadlineExceeded("step %d: %d steps wait to be sent (send_queue_size), for %s", step,
                              options_.queue_max, FormatDuration(options_.timeout));
    case PushResult::kClosed:
      break;
  }
  MutexLock lock(mu_);
  return status_.ok() ? Cancelled("nothing is sent any more") : status_;
}

bool AsyncCommunicator::Receive(std::span<float* const> params) {
  MutexLock lock(mu_);
  if (!std::exchange(has_fresh_, false)) return false;
  for (size_t i = 0; i < sizes_.size(); ++i) std::copy_n(fresh_[i].begin(), sizes_[i], params[i]);
  return true;
}

bool AsyncCommunicator::Take(GradientSet* set) {
  constexpr Duration kWait = std::chrono::milliseconds(10);
  std::optional<GradientSet> first = queue_.Pop(Time::max());
  if (!first) return false;
  *set = *std::move(first);
  for (int waits = 0; set->steps < options_.merge_max;) {
    const bool patient = waits < options_.merge_waits;
    std::optional<GradientSet> next =
        queue_.Pop(SteadyNow() + (patient ? kWait : Duration::zero()));
    if (!next) {
      if (queue_.closed() || !patient) break;
      ++waits;
      continue;
    }
    for (size_t i = 0; i < sizes_.size(); ++i) {
      float* const sum = set->values[i].data();
      const float* const more = next->values[i].data();
      for (int64_t e = 0; e < sizes_[i]; ++e) sum[e] += more[e];
    }
    for (size_t i = 0; i < set->rows.size(); ++i) MergeRows(next->rows[i], &set->rows[i]);
    set->step = next->step;
    set->learning_rate = next->learning_rate;
    ++set->steps;
    (void)spare_.TryPush(*std::move(next));
  }
  if (options_.sum || set->steps == 1) return true;
  const float share = 1.0f / static_cast<float>(set->steps);
  for (std::vector<float>& values : set->values) {
    for (float& v : values) v *= share;
  }
  for (RowSet& rows : set->rows) {
    for (float& v : rows.values) v *= share;
  }
  return true;
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
  for (GradientSet set; Take(&set);) {
    bool pull = false;
    {
      MutexLock lock(mu_);
      if (!status_.ok()) continue;  // the queue is emptied
      if (!options_.recv_thread) {
        sent_ += set.steps;
        pull = WantsPull();
      }
    }
    Arrived(exchange_(&set, pull ? &pulled : nullptr), pull ? &pulled : nullptr);
    if (options_.recv_thread) {
      MutexLock lock(mu_);
      sent_ += set.steps;
      sent_cv_.NotifyAll();
    }
    (void)spare_.TryPush(std::move(set));
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

}  // namespace tandem
