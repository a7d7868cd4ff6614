// Reads batches ahead on a thread of its own, so that a step finds its data ready.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "common/base/bounded_queue.h"
#include "common/base/status.h"
#include "common/tensor/tensor.h"
#include "trainer/reader/dataset.h"
#include "trainer/reader/sampler.h"

namespace tandem {

// One rank's part of a global batch, in host memory.
struct Batch {
  uint64_t epoch = 0;
  uint64_t step = 0;  // in its epoch, from 0
  bool last_of_epoch = false;
  uint32_t real_samples = 0;   // the first so many are no padding
  double weight = 1;           // Sampler::Weight
  std::vector<Tensor> fields;  // as Dataset::fields(), each [batch, sample dims...]
};

struct ReadRange {
  uint64_t epoch = 0;      // where to begin
  uint64_t step = 0;       // in that epoch; may be steps_per_epoch(): the next epoch's first
  uint64_t epoch_end = 1;  // the first epoch that is not read
};

enum class ReadMode : uint8_t {
  kAhead,     // by a thread of its own, up to the capacity of the queue
  kOnDemand,  // in Next()
  // Ahead, but Next() leaves the first batch where it is and gives it again and again: what steps
  // cost without reading.
  kRepeat
};

// A queue of at most `capacity` batches between a reading thread and one consumer. Memory for
// capacity + 2 batches is taken once; nothing is allocated per batch.
// The consumer's calls come from one thread; queue_size() and stats() from any.
class Prefetcher {
 public:
  struct Stats {
    uint64_t batches = 0;     // handed out
    uint64_t ready = 0;       // of these: those that were there before they were asked for
    double wait_seconds = 0;  // the consumer waited in Next()
    double fill_seconds = 0;  // the reading thread filled batches
  };

  // `dataset` and `device` (which gives host memory) must outlive the prefetcher. The thread starts
  // with the first Reset(). INVALID_ARGUMENT unless capacity is 1 .. 65536.
  // `parts`: a batch is as many batches of the dataset, one behind the other, where a field of it
  // is packed: each with its places from its own begin on. REQUIRES: at least 1.
  static StatusOr<std::unique_ptr<Prefetcher>> Make(const Dataset& dataset, const Sampler& sampler,
                                                    int32_t capacity, Device& device,
                                                    ReadMode mode = ReadMode::kAhead,
                                                    int parts = 1);
  // Stops the thread after the batch it is filling; waits for no consumer.
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // Throws away what was read ahead and starts reading at `range`. May be called at any time, also
  // after an error or the end. Batches handed out before become invalid.
  Status Reset(const ReadRange& range);

  // The next batch in order, valid until the next call of Next() or Reset(); nullptr at the end of
  // the range, again and again. The error of the dataset once the batches before it are consumed,
  // again and again until Reset(). DEADLINE_EXCEEDED when nothing came; then Next() may be called
  // again. FAILED_PRECONDITION before the first Reset().
  StatusOr<const Batch*> Next(Time deadline);

  // Batches that are ready; one that waits for room in a full queue is not counted.
  uint32_t queue_size() const { return std::min(queued_.load(), static_cast<uint32_t>(capacity_)); }
  int32_t capacity() const { return capacity_; }
  uint32_t batch() const { return sampler_.batch(); }  // samples of a step on this rank
  uint64_t steps_per_epoch() const { return sampler_.steps_per_epoch(); }
  Stats stats() const;

 private:
  struct Item {
    Batch* batch = nullptr;  // nullptr: the end, or the error
    Status status;
  };

  Prefetcher(const Dataset& dataset, const Sampler& sampler, int32_t capacity, ReadMode mode,
             uint32_t parts)
      : dataset_(dataset), sampler_(sampler), capacity_(capacity), mode_(mode), parts_(parts) {}

  void Stop();
  void ReadLoop(ReadRange range);
  // False when the queue was closed.
  bool Read(uint64_t epoch, uint64_t step);
  Status Fill(uint64_t epoch, uint64_t step, Batch& batch);
  StatusOr<const Batch*> ReadNow();
  bool Push(Item item);

  const Dataset& dataset_;
  Sampler sampler_;  // the reading thread's while it runs
  const int32_t capacity_;
  const ReadMode mode_;
  const uint32_t parts_;
  std::vector<std::unique_ptr<Batch>> batches_;
  Batch* handed_out_ = nullptr;  // the consumer's
  bool finished_ = false;
  Status error_;
  ReadRange left_;  // with kOnDemand: what is still to be read
  // New ones at every Reset(): a closed queue does not open again.
  std::unique_ptr<BoundedQueue<Item>> ready_;
  std::unique_ptr<BoundedQueue<Batch*>> free_;
  std::thread thread_;
  std::atomic<uint32_t> queued_{0};
  std::atomic<uint64_t> taken_{0}, ready_count_{0};
  std::atomic<int64_t> wait_nanos_{0}, fill_nanos_{0};
};

}  // namespace tandem
