// A dataset: numbered samples that can be copied into batches. The sampler (sampler.h) assigns
// samples to batches; the prefetcher (prefetch.h) decides when to read. A format implements only
// this interface.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/tensor/types.h"

namespace tandem::reader {

// One tensor of every sample. `desc` describes one sample, without the batch dimension: a batch is
// [batch, desc.shape...]. `name` is the program's data variable for this field.
struct SampleField {
  std::string name;
  TensorDesc desc;
  int64_t limit = 0;  // i64: values are in [0, limit); 0: unknown
  // Samples may be shorter than `desc`, and a batch stores them without gaps at its start. Another
  // field has the position of each sample. A packed field belongs to the whole batch; other fields
  // can be split into parts.
  bool packed = false;
};

// Immutable once opened, so thread-safe.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual uint32_t size() const = 0;  // number of samples, at least 1
  virtual const std::vector<SampleField>& fields() const = 0;

  // Writes sample ids[i] to position i of the batch of every field. `out[f]` is the caller's host
  // memory for ids.size() consecutive samples of fields()[f]. OUT_OF_RANGE: an id is >= size().
  // DATA_LOSS: a sample that is read now is damaged; the message names file and offset. After an
  // error the contents of `out` are undefined.
  virtual Status Fill(std::span<const uint32_t> ids, std::span<void* const> out) const = 0;

  // Like Fill, for one epoch of datasets with samples that change between epochs.
  virtual Status FillEpoch(uint64_t /*epoch*/, std::span<const uint32_t> ids,
                           std::span<void* const> out) const {
    return Fill(ids, out);
  }

  // Bytes of field `f` in a batch of `samples` samples that Fill has written to `filled`; later
  // bytes are undefined.
  virtual size_t BytesOf(size_t f, size_t samples, std::span<void* const> /*filled*/) const {
    return samples * fields()[f].desc.bytes();
  }

  // One line for the log about the source of the samples.
  virtual std::string Describe() const = 0;
};

// The data of a job.
struct TrainAndTest {
  std::unique_ptr<Dataset> train, test;  // test: null without test data
  std::vector<std::string> warnings;     // the first bad records: "file:line: why"
};

}  // namespace tandem::reader
