// Copies batches from a reader to the data variables of a plan.
//
// A device can have a double buffer. The next batch, or the next part of one, is then copied while
// the current one is computed. A separate stream copies it from pinned host memory to device memory
// beside the variables. The step itself then only copies inside the device.
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
}  // namespace tandem

namespace tandem::trainer {

// Not thread-safe.
class BatchFeed {
 public:
  // The job says whether there is a double buffer, and how many batches of the plan one batch of
  // `reader` holds. `reader` reads `dataset` into place.batch_memory. All arguments but `config`
  // must outlive the feed. Errors: as BindFields.
  static StatusOr<std::unique_ptr<BatchFeed>> Make(const JobConfig& config, const Plan& plan,
                                                   const reader::Dataset& dataset,
                                                   reader::Prefetcher& reader,
                                                   const JobDevice& place);
  // Waits for the copy in progress.
  ~BatchFeed();
  BatchFeed(const BatchFeed&) = delete;
  BatchFeed& operator=(const BatchFeed&) = delete;

  Status Reset(const reader::ReadRange& range);        // Prefetcher::Reset
  StatusOr<const reader::Batch*> Next(Time deadline);  // Prefetcher::Next
  // Makes part `part` of the batch that Next() returned last the input of the plan's next run. The
  // last part invalidates that batch.
  Status Bring(int part);
  // The batch after the current one, as far as the reader has it ready. Call it after the last
  // Bring of the current batch. Empty if a batch has several parts.
  NextBatchHint LookAhead();
  int64_t bytes() const { return bytes_; }  // bytes copied so far

 private:
  // A part of a batch.
  struct Piece {
    const reader::Batch* batch = nullptr;
    int part = 0;
    bool operator==(const Piece&) const = default;
  };

  BatchFeed(const reader::Dataset& dataset, reader::Prefetcher& reader, std::vector<Tensor> inputs,
            const JobDevice& place, int parts)
      : dataset_(dataset),
        reader_(reader),
        inputs_(std::move(inputs)),
        place_(place),
        parts_(parts) {}

  // Where a piece is in host memory, and its size, by field.
  struct Source {
    std::vector<void*> at;
    std::vector<size_t> bytes;
  };
  Source SourceOf(const Piece& piece) const;
  Status StartCopy(const Piece& piece);
  Status WaitForCopy();
  Status CopyAhead(int part);

  const reader::Dataset& dataset_;
  reader::Prefetcher& reader_;
  const std::vector<Tensor> inputs_;  // the plan's, by field
  const JobDevice& place_;
  const int parts_;
  const reader::Batch* batch_ = nullptr;
  int64_t bytes_ = 0;
  // Used with a double buffer on a device:
  std::unique_ptr<SideStream> side_;                    // nullptr: no double buffer
  Buffer room_;                                         // device memory beside the variables
  std::vector<std::byte*> beside_;                      // addresses in room_, by field
  std::optional<Piece> staged_;                         // the piece copied there or in copy
  Source source_;                                       // location of staged_
  std::optional<StatusOr<const reader::Batch*>> next_;  // read ahead of Next()
};

}  // namespace tandem::trainer
