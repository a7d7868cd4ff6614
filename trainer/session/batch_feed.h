// Brings batches from a reader to the data variables of a plan.
//
// On a device with a double buffer the next batch, or the next part of one, is copied while the
// present one is computed: by a stream of its own, out of memory that stays where it is, to memory
// beside the variables. What is then left for a step is a copy inside the device.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "kernels/exec/plan.h"
#include "trainer/job/job_device.h"
#include "trainer/ps/next_batch_hint.h"
#include "trainer/reader/prefetch.h"

namespace tandem {

class JobConfig;

// One thread.
class BatchFeed {
 public:
  // The job says whether there is a double buffer, and how many batches of the plan are in one of
  // `reader`, which reads `dataset` into place.batch_memory. All but `config` must outlive it.
  // INVALID_ARGUMENT as BindFields.
  static StatusOr<std::unique_ptr<BatchFeed>> Make(const JobConfig& config, const Plan& plan,
                                                   const Dataset& dataset, Prefetcher& reader,
                                                   const JobDevice& place);
  // Waits for the copy that is under way.
  ~BatchFeed();
  BatchFeed(const BatchFeed&) = delete;
  BatchFeed& operator=(const BatchFeed&) = delete;

  Status Reset(const ReadRange& range);        // Prefetcher::Reset
  StatusOr<const Batch*> Next(Time deadline);  // Prefetcher::Next
  // Part `part` of the batch that Next() gave last is what the plan's next run reads. The last part
  // invalidates that batch.
  Status Bring(int part);
  // The batch behind the present one, as far as the reader has it ready: behind the last Bring of
  // this one. Empty with several parts.
  NextBatchHint LookAhead();
  int64_t bytes() const { return bytes_; }  // brought until now

 private:
  // A part of a batch.
  struct Piece {
    const Batch* batch = nullptr;
    int part = 0;
    bool operator==(const Piece&) const = default;
  };

  BatchFeed(const Dataset& dataset, Prefetcher& reader, std::vector<Tensor> inputs,
            const JobDevice& place, int parts)
      : dataset_(dataset),
        reader_(reader),
        inputs_(std::move(inputs)),
        place_(place),
        parts_(parts) {}

  // Where a piece lies in host memory, and how long it is, by field.
  struct Source {
    std::vector<void*> at;
    std::vector<size_t> bytes;
  };
  Source SourceOf(const Piece& piece) const;
  Status StartCopy(const Piece& piece);
  Status WaitForCopy();
  Status CopyAhead(int part);

  const Dataset& dataset_;
  Prefetcher& reader_;
  const std::vector<Tensor> inputs_;  // of the plan, by field
  const JobDevice& place_;
  const int parts_;
  const Batch* batch_ = nullptr;
  int64_t bytes_ = 0;
  // With a double buffer on a device:
  std::unique_ptr<SideStream> side_;            // nullptr: none
  Buffer room_;                                 // beside the variables
  std::vector<std::byte*> beside_;              // in it, by field
  std::optional<Piece> staged_;                 // what is copied there, or has been
  Source source_;                               // of it
  std::optional<StatusOr<const Batch*>> next_;  // taken from the reader ahead of Next()
};

}  // namespace tandem
