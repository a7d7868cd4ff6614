#include "trainer/session/batch_feed.h"

#include <utility>

#include "common/base/check.h"
#include "common/base/mutex.h"
#include "common/base/require.h"
#include "proto/job.pb.h"
#include "trainer/session/evaluation/evaluator.h"

namespace tandem::trainer {
namespace {

// The longest duration of a copy, including the wait for the end of the previous step.
constexpr Duration kCopyTimeout = std::chrono::minutes(10);
constexpr Duration kSpin = std::chrono::microseconds(50), kNap = std::chrono::microseconds(50);

}  // namespace

StatusOr<std::unique_ptr<BatchFeed>> BatchFeed::Make(const JobConfig& config,
                                                     const exec::Plan& plan,
                                                     const reader::Dataset& dataset,
                                                     reader::Prefetcher& reader,
                                                     const JobDevice& place) {
  TD_ASSIGN_OR_RETURN(std::vector<Tensor> inputs, BindFields(plan, dataset));
  const DistributedStrategy& strategy = config.strategy();
  std::unique_ptr<BatchFeed> feed(
      new BatchFeed(dataset, reader, std::move(inputs), place, strategy.batch_merge_repeats()));
  const bool ahead = strategy.runtime_flags().use_double_buffer();
  Device& device = *place.device;
  if (device.place().kind == PlaceKind::kCpu || !ahead) return feed;
  size_t bytes = 0;
  std::vector<size_t> begins;
  for (const Tensor& input : feed->inputs_) {
    begins.push_back(bytes);
    bytes += (input.bytes() + Device::kAlignment - 1) / Device::kAlignment * Device::kAlignment;
  }
  TD_ASSIGN_OR_RETURN(feed->room_, device.Allocate(bytes));
  for (const size_t begin : begins) feed->beside_.push_back(feed->room_.get() + begin);
  TD_ASSIGN_OR_RETURN(feed->side_, device.MakeSideStream());
  return feed;
}

BatchFeed::~BatchFeed() { (void)WaitForCopy(); }

Status BatchFeed::Reset(const reader::ReadRange& range) {
  TD_RETURN_IF_ERROR(WaitForCopy());
  staged_.reset();
  next_.reset();
  batch_ = nullptr;
  return reader_.Reset(range);
}

StatusOr<const reader::Batch*> BatchFeed::Next(Time deadline) {
  StatusOr<const reader::Batch*> next = next_ ? *std::exchange(next_, {}) : reader_.Next(deadline);
  batch_ = next.ok() ? *next : nullptr;
  return next;
}

bool BatchFeed::Await(Time deadline) {
  if (next_) return true;
  next_ = reader_.Next(deadline);
  if (next_->status().code() == StatusCode::kDeadlineExceeded) next_.reset();
  return next_.has_value();
}

BatchFeed::Source BatchFeed::SourceOf(const Piece& piece) const {
  Source source;
  size_t samples = 0;
  for (size_t f = 0; f < inputs_.size(); ++f) {
    const size_t bytes = inputs_[f].bytes();
    samples = bytes / dataset_.fields()[f].desc.bytes();
    source.at.push_back(static_cast<std::byte*>(piece.batch->fields[f].data()) +
                        static_cast<size_t>(piece.part) * bytes);
  }
  for (size_t f = 0; f < inputs_.size(); ++f) {
    source.bytes.push_back(dataset_.BytesOf(f, samples, source.at));
  }
  return source;
}

Status BatchFeed::StartCopy(const Piece& piece) {
  TD_REQUIRE(piece.batch != nullptr && beside_.size() == inputs_.size());
  staged_ = piece;
  source_ = SourceOf(piece);
  for (size_t f = 0; f < inputs_.size(); ++f) {
    TD_RETURN_IF_ERROR(place_.backend.StartCopy(*place_.device, side_.get(), beside_[f],
                                                source_.at[f], source_.bytes[f]));
  }
  return OkStatus();
}

Status BatchFeed::WaitForCopy() {
  if (side_ == nullptr) return OkStatus();
  const Time begin = SteadyNow();
  Mutex mu;
  // The wait polls, because a stream does not signal the end of a copy. The condition variable is
  // never notified.
  CondVar nap;
  MutexLock lock(mu);
  while (true) {
    TD_ASSIGN_OR_RETURN(const bool over, side_->Idle());
    if (over) return OkStatus();
    const Time now = SteadyNow();
    if (now > begin + kCopyTimeout) {
      return DeadlineExceeded("the copy of a batch to %s has not ended after %.0f s",
                              ToString(place_.device->place()), Seconds(now - begin));
    }
    if (now > begin + kSpin) nap.WaitUntil(mu, now + kNap);
  }
}

// Starts the copy of the part after part `part` of the current batch. After the last part, starts
// the copy of the next batch if the reader has it ready.
Status BatchFeed::CopyAhead(int part) {
  staged_.reset();
  // Makes the copy stream wait until the previous step no longer uses the second buffer.
  TD_ASSIGN_OR_RETURN(const SideStream::Mark mark, side_->RecordComputeEvent());
  TD_RETURN_IF_ERROR(side_->WaitOn(mark));
  if (part + 1 < parts_) return StartCopy({batch_, part + 1});
  if (reader_.queue_size() == 0) return OkStatus();
  next_ = reader_.Next(SteadyNow() + kCopyTimeout);
  return next_->ok() && **next_ != nullptr ? StartCopy({**next_, 0}) : OkStatus();
}

NextBatchHint BatchFeed::LookAhead() {
  if (parts_ > 1) return {};
  if (!next_ && reader_.queue_size() > 0) next_ = reader_.Next(SteadyNow() + kCopyTimeout);
  if (!next_ || !next_->ok() || **next_ == nullptr) return {};
  DCHECK_EQ(inputs_.size(), (**next_)->fields.size());
  NextBatchHint next;
  for (size_t f = 0; f < inputs_.size(); ++f) {
    next.push_back({.variable = inputs_[f].data(), .values = (**next_)->fields[f].data()});
  }
  return next;
}

Status BatchFeed::Bring(int part) {
  TD_REQUIRE(batch_ != nullptr && part >= 0 && part < parts_);
  const Piece piece = {batch_, part};
  if (side_ == nullptr) {
    const Source source = SourceOf(piece);
    for (size_t f = 0; f < inputs_.size(); ++f) {
      TD_RETURN_IF_ERROR(
          place_.device->CopyFromHost(inputs_[f].data(), source.at[f], source.bytes[f]));
      bytes_ += static_cast<int64_t>(source.bytes[f]);
    }
    return OkStatus();
  }
  if (staged_ != piece) TD_RETURN_IF_ERROR(StartCopy(piece));
  TD_RETURN_IF_ERROR(WaitForCopy());
  for (size_t f = 0; f < inputs_.size(); ++f) {
    TD_RETURN_IF_ERROR(place_.backend.StartCopy(*place_.device, nullptr, inputs_[f].data(),
                                                beside_[f], source_.bytes[f]));
    bytes_ += static_cast<int64_t>(source_.bytes[f]);
  }
  return CopyAhead(part);
}

}  // namespace tandem::trainer
