#include "trainer/reader/prefetch.h"

#include <algorithm>
#include <array>
#include <utility>

#include "common/base/check.h"
#include "common/base/require.h"
#include "common/threads/runner.h"

namespace tandem::reader {
namespace {

constexpr int32_t kCapacityMax = 65536;
// Longest single wait of the reading thread. If the queue is closed, the wait ends immediately.
constexpr Duration kPatience = std::chrono::seconds(10);

}  // namespace

StatusOr<std::unique_ptr<Prefetcher>> Prefetcher::Make(const Dataset& dataset,
                                                       const Sampler& sampler, int32_t capacity,
                                                       Device& device, ReadMode mode, int parts) {
  if (capacity < 1 || capacity > kCapacityMax) {
    return InvalidArgument("queue_capacity is %d batches, expected 1 to %d [TD1104]", capacity,
                           kCapacityMax);
  }
  CHECK_GE(parts, 1);
  const bool packed = std::any_of(dataset.fields().begin(), dataset.fields().end(),
                                  [](const SampleField& field) { return field.packed; });
  std::unique_ptr<Prefetcher> out(
      new Prefetcher(dataset, sampler, capacity, mode, packed ? static_cast<uint32_t>(parts) : 1));
  // One batch is being filled, `capacity` batches are in the queue, and the consumer uses one
  // batch.
  const int32_t count = mode == ReadMode::kOnDemand ? 1 : capacity + 2;
  for (int32_t i = 0; i < count; ++i) {
    auto batch = std::make_unique<Batch>();
    for (const SampleField& field : dataset.fields()) {
      std::vector<int64_t> dims = {sampler.batch()};
      dims.insert(dims.end(), field.desc.shape.dims().begin(), field.desc.shape.dims().end());
      TD_ASSIGN_OR_RETURN(const Shape shape, ParseShape(dims));
      TD_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Make({field.desc.dtype, shape}, device));
      CHECK(tensor.place().kind == PlaceKind::kCpu) << "batches are read into host memory";
      batch->fields.push_back(std::move(tensor));
    }
    out->batches_.push_back(std::move(batch));
  }
  return out;
}

Prefetcher::~Prefetcher() { Stop(); }

void Prefetcher::Stop() {
  if (!thread_.joinable()) return;
  free_->Close();
  ready_->Close();
  dataset_.EndWaits();
  thread_.join();
  dataset_.AllowWaits();
}

Status Prefetcher::Reset(const ReadRange& range) {
  if (range.step > sampler_.steps_per_epoch()) {
    return InvalidArgument(
        "step %d of epoch %d does not exist: an epoch has only %d steps; hint: resume with the "
        "batch size of the checkpoint",
        range.step, range.epoch, sampler_.steps_per_epoch());
  }
  Stop();
  handed_out_ = nullptr;
  finished_ = false;
  error_ = OkStatus();
  queued_ = 0;
  left_ = range;
  ready_ = std::make_unique<BoundedQueue<Item>>(static_cast<size_t>(capacity_));
  free_ = std::make_unique<BoundedQueue<Batch*>>(batches_.size());
  for (auto& batch : batches_) {
    Batch* pointer = batch.get();
    CHECK(free_->TryPush(std::move(pointer)) == PushResult::kOk);
  }
  if (mode_ == ReadMode::kOnDemand) return OkStatus();
  thread_ = std::thread([this, range] { ReadLoop(range); });
  return OkStatus();
}

bool Prefetcher::Push(Item item) {
  const bool is_batch = item.batch != nullptr;
  if (is_batch) ++queued_;  // counts the batch before the consumer can see it
  for (;;) {
    switch (ready_->Push(std::move(item), SteadyNow() + kPatience)) {
      case PushResult::kOk:
        return true;
      case PushResult::kFull:
        continue;
      case PushResult::kClosed:
        return false;
    }
  }
}

bool Prefetcher::Read(uint64_t epoch, uint64_t step) {
  std::optional<Batch*> slot;
  while (!(slot = free_->Pop(SteadyNow() + kPatience)).has_value()) {
    if (free_->closed()) return false;
  }
  if (free_->closed()) return false;  // after Stop() the thread fills no more batches
  Status status = Fill(epoch, step, **slot);
  if (status.ok()) return Push({*slot, OkStatus()});
  Push({nullptr, std::move(status)});
  return false;
}

Status Prefetcher::Fill(uint64_t epoch, uint64_t step, Batch& batch) {
  TD_REQUIRE(step < sampler_.steps_per_epoch());
  const Time start = SteadyNow();
  batch.epoch = epoch;
  batch.step = step;
  batch.last_of_epoch = step + 1 == sampler_.steps_per_epoch();
  batch.real_samples = sampler_.RealSamples(step);
  batch.weight = sampler_.Weight(step);
  std::array<void*, 16> out;
  CHECK_LE(batch.fields.size(), out.size());
  const std::span<const uint32_t> ids = sampler_.Batch(epoch, step);
  Status status;
  for (uint32_t part = 0; part < parts_ && status.ok(); ++part) {
    const BatchShare share = ShareOf(sampler_.batch(), part, parts_);
    for (size_t f = 0; f < batch.fields.size(); ++f) {
      out[f] = static_cast<std::byte*>(batch.fields[f].data()) +
               share.first * dataset_.fields()[f].desc.bytes();
    }
    status = dataset_.FillEpoch(epoch, ids.subspan(share.first, share.size),
                                {out.data(), batch.fields.size()});
  }
  fill_nanos_ += (SteadyNow() - start).count();
  return status;
}

void Prefetcher::ReadLoop(ReadRange range) {
  SetThreadName("reader");
  for (uint64_t epoch = range.epoch; epoch < range.epoch_end; ++epoch) {
    const uint64_t first = epoch == range.epoch ? range.step : 0;
    for (uint64_t step = first; step < sampler_.steps_per_epoch(); ++step) {
      if (!Read(epoch, step)) return;
    }
  }
  Push({});
}

StatusOr<const Batch*> Prefetcher::ReadNow() {
  if (left_.step >= sampler_.steps_per_epoch()) {
    ++left_.epoch;
    left_.step = 0;
  }
  finished_ = left_.epoch >= left_.epoch_end;
  if (finished_) return nullptr;
  const Time start = SteadyNow();
  error_ = Fill(left_.epoch, left_.step++, *batches_[0]);
  wait_nanos_ += (SteadyNow() - start).count();
  if (!error_.ok()) return error_;
  ++taken_;
  return batches_[0].get();
}

StatusOr<const Batch*> Prefetcher::Next(Time deadline) {
  if (ready_ == nullptr) return FailedPrecondition("the reader is not started; call Reset() first");
  if (mode_ == ReadMode::kRepeat && handed_out_ != nullptr) {
    ++taken_;
    ++ready_count_;
    return handed_out_;
  }
  if (handed_out_ != nullptr) {
    free_->TryPush(std::move(handed_out_));  // never fails: the queue has space for all batches
    handed_out_ = nullptr;
  }
  if (!error_.ok()) return error_;
  if (finished_) return nullptr;
  if (mode_ == ReadMode::kOnDemand) return ReadNow();
  const Time start = SteadyNow();
  if (queued_ > 0) ++ready_count_;
  std::optional<Item> item = ready_->Pop(deadline);
  const Duration waited = SteadyNow() - start;
  wait_nanos_ += waited.count();
  if (!item.has_value()) {
    return DeadlineExceeded(
        "no batch arrived within %s, because the reader is too slow (queue_capacity %d) [TD2008]; "
        "hint: raise data.reader_threads",
        FormatDuration(waited), capacity_);
  }
  if (item->batch == nullptr) {
    finished_ = true;
    error_ = std::move(item->status);
    if (!error_.ok()) return error_;
    return nullptr;
  }
  --queued_;
  ++taken_;
  handed_out_ = item->batch;
  return handed_out_;
}

Prefetcher::Stats Prefetcher::stats() const {
  return {taken_.load(), ready_count_.load(), static_cast<double>(wait_nanos_.load()) * 1e-9,
          static_cast<double>(fill_nanos_.load()) * 1e-9};
}

}  // namespace tandem::reader
