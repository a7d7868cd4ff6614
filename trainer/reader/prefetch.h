// Reads batches ahead on a separate thread, so that a training step does not wait for its data.
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

// One rank's part of a global batch in host memory.
struct Batch {
  uint64_t epoch = 0;
  uint64_t step = 0;  // number of the step in its epoch, from 0
  bool last_of_epoch = false;
  uint32_t real_samples = 0;   // number of samples without padding; padding is at the end
  double weight = 1;           // weight of this rank's mean (Sampler::Weight)
  std::vector<Tensor> fields;  // tensors [batch, sample dims...], in the order of fields()
};

struct ReadRange {
  uint64_t epoch = 0;      // number of the first epoch to read
  uint64_t step = 0;       // first step in `epoch`; steps_per_epoch(): the next epoch's first step
  uint64_t epoch_end = 1;  // the epoch after the last one to read
};

enum class ReadMode : uint8_t {
  kAhead,     // a separate thread reads ahead, up to the capacity of the queue
  kOnDemand,  // Next() reads the batch itself, without a thread
  // A separate thread reads one batch, and every Next() returns this batch. Used to measure the
  // duration of steps without reading.
  kRepeat
};

// A queue of at most `capacity` batches between a reading thread and one consumer. Allocates memory
// for capacity + 2 batches at the start, and no memory later. queue_size() and stats() are
// thread-safe. Only one thread, the consumer, may call the other methods.
class Prefetcher {
 public:
  struct Stats {
    uint64_t batches = 0;     // number of batches that Next() has returned
    uint64_t ready = 0;       // batches that were ready when Next() was called
    double wait_seconds = 0;  // seconds for which the consumer waited in Next()
    double fill_seconds = 0;  // seconds that the reading thread needed to fill batches
  };

  // Makes a prefetcher. The reading thread starts with the first Reset(). `dataset` and `device`
  // must outlive the prefetcher; `device` provides host memory. `parts` >= 1: if a field is packed,
  // a batch consists of this number of consecutive batches of the dataset. Positions in the packed
  // field start at 0 in each batch of the dataset. INVALID_ARGUMENT: `capacity` is not in 1 to
  // 65536.
  static StatusOr<std::unique_ptr<Prefetcher>> Make(const Dataset& dataset, const Sampler& sampler,
                                                    int32_t capacity, Device& device,
                                                    ReadMode mode = ReadMode::kAhead,
                                                    int parts = 1);
  // Stops the thread after the batch in progress. Does not wait for the consumer.
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // Discards the batches that were read ahead, and starts to read at the begin of `range`. The
  // consumer may call Reset at any time, also after an error or at the end. All batches that Next()
  // returned become invalid.
  Status Reset(const ReadRange& range);

  // Returns the next batch in order, which is valid until the next call of Next() or Reset().
  // nullptr: the end of the range. Next returns an error of the dataset after the batches before
  // the error. All calls until Reset() return this error, or the end, again. DEADLINE_EXCEEDED: no
  // batch was ready before the deadline; the consumer may call Next() again. FAILED_PRECONDITION:
  // Reset() was not called.
  StatusOr<const Batch*> Next(Time deadline);

  // Returns the number of ready batches in the queue. A batch that waits for space in a full queue
  // is not counted.
  uint32_t queue_size() const { return std::min(queued_.load(), static_cast<uint32_t>(capacity_)); }
  int32_t capacity() const { return capacity_; }
  uint32_t batch() const { return sampler_.batch(); }  // number of samples of a step on this rank
  uint64_t steps_per_epoch() const { return sampler_.steps_per_epoch(); }
  Stats stats() const;

 private:
  struct Item {
    Batch* batch = nullptr;  // nullptr: the end of the range, or the error `status`
    Status status;
  };

  Prefetcher(const Dataset& dataset, const Sampler& sampler, int32_t capacity, ReadMode mode,
             uint32_t parts)
      : dataset_(dataset), sampler_(sampler), capacity_(capacity), mode_(mode), parts_(parts) {}

  void Stop();
  void ReadLoop(ReadRange range);
  // Reads a batch and puts it into the queue. Returns false if the queue is closed or the dataset
  // has an error.
  bool Read(uint64_t epoch, uint64_t step);
  Status Fill(uint64_t epoch, uint64_t step, Batch& batch);
  StatusOr<const Batch*> ReadNow();
  bool Push(Item item);

  const Dataset& dataset_;
  Sampler sampler_;  // used only by the reading thread while it runs
  const int32_t capacity_;
  const ReadMode mode_;
  const uint32_t parts_;
  std::vector<std::unique_ptr<Batch>> batches_;
  Batch* handed_out_ = nullptr;  // the batch that Next() returned last
  bool finished_ = false;
  Status error_;
  ReadRange left_;  // kOnDemand: the part of the range that was not read yet
  // The queues of the current range. Each Reset() makes new queues, because a closed queue cannot
  // be opened again.
  std::unique_ptr<BoundedQueue<Item>> ready_;
  std::unique_ptr<BoundedQueue<Batch*>> free_;
  std::thread thread_;
  std::atomic<uint32_t> queued_{0};
  std::atomic<uint64_t> taken_{0}, ready_count_{0};
  std::atomic<int64_t> wait_nanos_{0}, fill_nanos_{0};
};

}  // namespace tandem::reader
