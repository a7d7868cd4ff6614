// A simulated stream of records. Each record is one push of the ledger. The trainers read it by the
// product's StreamDataset: a step says which records it has.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "tests/sim/process.h"
#include "tests/sim/world.h"
#include "trainer/reader/stream/stream_dataset.h"

namespace tandem::pserver {

// The records arrive one after the other while the job runs. Not thread-safe.
class SimSource {
 public:
  // A step has one record for each trainer. `slot_of`: returns the slot in the ledger of record
  // `number`.
  SimSource(SimWorld& world, int trainers, int steps,
            std::function<int64_t(uint64_t number)> slot_of)
      : world_(world), trainers_(trainers), steps_(steps), slot_of_(std::move(slot_of)) {}

  void Start();  // lets the records arrive
  uint64_t arrived() const { return arrived_; }
  // Opens the stream for a process of a trainer. The source must outlive the stream.
  std::unique_ptr<reader::StreamDataset> Open(const std::shared_ptr<SimProcess>& process) const;
  // Returns the slot of the record that trainer `rank` has in step `step`. Blocks until all records
  // of the step have arrived. CANCELLED: the process is dead.
  StatusOr<int64_t> Read(const reader::StreamDataset& stream, int rank, uint64_t step) const;

 private:
  class Log;

  SimWorld& world_;
  const int trainers_, steps_;
  const std::function<int64_t(uint64_t)> slot_of_;
  uint64_t arrived_ = 0;  // number of records
};

}  // namespace tandem::pserver
