// Reads batches ahead on a separate thread, so that a step does not wait for its data.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "common/base/status.h"
#include "common/tensor/tensor.h"
#include "common/threads/bounded_queue.h"
#include "trainer/reader/input/dataset.h"
#include "trainer/reader/input/sampler.h"

namespace tandem::reader {

// One rank's part of a global batch, in host memory.
struct Batch {
  uint64_t epoch = 0;
  uint64_t step = 0;  // in its epoch, from 0
  bool last_of_epoch = false;
  uint32_t real_samples = 0;   // the other samples, at the end, are padding
  double weight = 1;           // see Sampler::Weight
  std::vector<Tensor> fields;  // in the order of Dataset::fields(), each [batch, sample dims...]
};

struct ReadRange {
  uint64_t epoch = 0;  // first epoch
  uint64_t step = 0;   // first step in that epoch; steps_per_epoch() means the next epoch's first
  uint64_t epoch_end = 1;  // the first epoch after the range
};

enum class ReadMode : uint8_t {
  kAhead,     // on a separate thread, up to the capacity of the queue
  kOnDemand,  // in Next()
  // Ahead, but Next() returns the first batch again and again: measures steps without reading.
  kRepeat
};

// A queue of at most `capacity` batches between a reading thread and one consumer. It allocates
// memory for capacity + 2 batches once, and nothing per batch. Only one thread may make the
// consumer's calls; queue_size() and stats() are thread-safe.
class Prefetcher {
 public:
  struct Stats {
    uint64_t batches = 0;     // returned by Next()
    uint64_t ready = 0;       // batches that were ready when Next() was called
    double wait_seconds = 0;  // waits of the consumer in Next()
    double fill_seconds = 0;  // reading thread's time to fill batches
  };

  // `dataset` and `device` (which provides host memory) must outlive the prefetcher. The thread
  // starts with the first Reset(). INVALID_ARGUMENT: capacity is not in 1 .. 65536. `parts`: if a
  // field is packed, a batch consists of this number of consecutive batches of the dataset, each
  // with positions from its own start. REQUIRES: parts >= 1.
  static StatusOr<std::unique_ptr<Prefetcher>> Make(const Dataset& dataset, const Sampler& sampler,
                                                    int32_t capacity, Device& device,
                                                    ReadMode mode = ReadMode::kAhead,
                                                    int parts = 1);
  // Stops the thread after the batch in progress; does not wait for a consumer.
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // Discards the batches read ahead and starts to read at `range`. May be called at any time, also
  // after an error or the end. Invalidates batches returned before.
  Status Reset(const ReadRange& range);

  // Returns the next batch in order, valid until the next call of Next() or Reset(); nullptr at the
  // end of the range. An error of the dataset is returned after the batches before it. The end and
  // the error are returned repeatedly until Reset(). DEADLINE_EXCEEDED: no batch is ready in time;
  // Next() may be called again. FAILED_PRECONDITION: no Reset() yet.
  StatusOr<const Batch*> Next(Time deadline);

  // The number of ready batches, without one that waits for space in a full queue.
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
  // False: the queue is closed.
  bool Read(uint64_t epoch, uint64_t step);
  Status Fill(uint64_t epoch, uint64_t step, Batch& batch);
  StatusOr<const Batch*> ReadNow();
  bool Push(Item item);

  const Dataset& dataset_;
  Sampler sampler_;  // owned by the reading thread while it runs
  const int32_t capacity_;
  const ReadMode mode_;
  const uint32_t parts_;
  std::vector<std::unique_ptr<Batch>> batches_;
  Batch* handed_out_ = nullptr;  // held by the consumer
  bool finished_ = false;
  Status error_;
  ReadRange left_;  // kOnDemand: the part still to read
  // Each Reset() makes new queues, because a closed queue cannot be reopened.
  std::unique_ptr<BoundedQueue<Item>> ready_;
  std::unique_ptr<BoundedQueue<Batch*>> free_;
  std::thread thread_;
  std::atomic<uint32_t> queued_{0};
  std::atomic<uint64_t> taken_{0}, ready_count_{0};
  std::atomic<int64_t> wait_nanos_{0}, fill_nanos_{0};
};

}  // namespace tandem::reader
