// A dataset: numbered samples that can be copied into batches. Which samples go into which batch is
// the sampler's business (sampler.h), when that happens the prefetcher's (prefetch.h); a format
// implements this interface and nothing else.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/tensor/types.h"

namespace tandem {

// One tensor of every sample. `desc` is that of one sample, without the batch dimension: a batch is
// [batch, desc.shape...]. `name` is the data variable of the program that it feeds.
struct SampleField {
  std::string name;
  TensorDesc desc;
  int64_t limit = 0;  // i64: values are in [0, limit); 0: not known
  // Samples are shorter than `desc`, or as long, and a batch begins with all of them: where each
  // lies another field says. Other fields are of a batch's parts too; this one of the batch alone.
  bool packed = false;
};

// Thread-safe: constant once opened.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual uint32_t size() const = 0;  // samples, at least 1
  virtual const std::vector<SampleField>& fields() const = 0;

  // Writes sample ids[i] to position i of the batch of every field. `out[f]` is host memory of the
  // caller with room for ids.size() samples of fields()[f], back to back.
  // OUT_OF_RANGE for an id >= size(); DATA_LOSS, naming file and offset, when a sample that is read
  // late turns out damaged. On failure the contents of `out` are undefined.
  virtual Status Fill(std::span<const uint32_t> ids, std::span<void* const> out) const = 0;

  // The same for an epoch: of datasets whose samples change from epoch to epoch.
  virtual Status FillEpoch(uint64_t /*epoch*/, std::span<const uint32_t> ids,
                           std::span<void* const> out) const {
    return Fill(ids, out);
  }

  // Bytes of field `f` in a batch of so many samples that Fill has written to `filled`; what is
  // behind them means nothing.
  virtual size_t BytesOf(size_t f, size_t samples, std::span<void* const> /*filled*/) const {
    return samples * fields()[f].desc.bytes();
  }

  // One line about where the samples come from, for the log.
  virtual std::string Describe() const = 0;
};

// What is there of a job's data.
struct TrainAndTest {
  std::unique_ptr<Dataset> train, test;  // test: where there are test data
  std::vector<std::string> warnings;     // the first bad records: "file:line: why"
};

}  // namespace tandem
