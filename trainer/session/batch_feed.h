// Copies batches from a reader to the data variables of a plan.
//
// With a device, the feed can have a double buffer: it copies the next batch, or the next part of a
// batch, while the device computes the current one. A separate stream copies from pinned host
// memory to a second buffer in device memory. The step itself only copies from the second buffer to
// the variables.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "kernels/exec/plan.h"
#include "trainer/config/job_device.h"
#include "trainer/ps/next_batch_hint.h"
#include "trainer/reader/prefetch.h"

namespace tandem {
class JobConfig;
}  // namespace tandem

namespace tandem::trainer {

// Copies the batches of one reader. Not thread-safe.
class BatchFeed {
 public:
  // `config` determines whether the feed has a double buffer, and how many batches of the plan one
  // batch of `reader` contains. `reader` must read `dataset` into place.batch_memory. All arguments
  // but `config` must outlive the feed. Errors: those of BindFields.
  static StatusOr<std::unique_ptr<BatchFeed>> Make(const JobConfig& config, const exec::Plan& plan,
                                                   const reader::Dataset& dataset,
                                                   reader::Prefetcher& reader,
                                                   const JobDevice& place);
  // Blocks until the copy in progress has ended.
  ~BatchFeed();
  BatchFeed(const BatchFeed&) = delete;
  BatchFeed& operator=(const BatchFeed&) = delete;

  Status Reset(const reader::ReadRange& range);  // resets the reader like Prefetcher::Reset
  // Returns the next batch like Prefetcher::Next.
  StatusOr<const reader::Batch*> Next(Time deadline);
  // Reads the next batch early. Returns whether the following Next() returns immediately. Blocks
  // until then, but not longer than until `deadline`. The current batch becomes invalid.
  bool Await(Time deadline);
  // Makes part `part` of the current batch, the result of the last Next(), the input of the plan's
  // next run. The current batch is invalid after the Bring of its last part.
  Status Bring(int part);
  // Returns the values of the next batch if the reader has this batch ready. The caller must call
  // LookAhead after the last Bring of the current batch. Empty: the next batch is not ready, or a
  // batch has several parts.
  NextBatchHint LookAhead();
  int64_t bytes() const { return bytes_; }  // number of bytes copied since the construction

 private:
  // Part number `part` of a batch.
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

  // The host addresses and sizes in bytes of the fields of a piece, one entry for each field.
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
  const std::vector<Tensor> inputs_;  // the plan's data variables, one for each field
  const JobDevice& place_;
  const int parts_;
  const reader::Batch* batch_ = nullptr;
  int64_t bytes_ = 0;
  // The following members are used if the feed has a double buffer.
  std::unique_ptr<SideStream> side_;  // stream of the copies; nullptr: no double buffer
  Buffer room_;                       // device memory with a second buffer for each variable
  std::vector<std::byte*> beside_;    // addresses in room_, one for each field
  std::optional<Piece> staged_;  // the piece in room_, or the piece that is being copied to room_
  Source source_;                // host addresses and sizes of staged_
  // The result of an early read, which the following Next() returns.
  std::optional<StatusOr<const reader::Batch*>> next_;
};

}  // namespace tandem::trainer
