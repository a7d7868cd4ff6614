// A dataset: numbered samples that can be copied into batches. The sampler (sampler.h) assigns
// samples to batches. The prefetcher (prefetch.h) decides when samples are read. A data format
// implements only the interface of this file.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/tensor/types.h"

namespace tandem::reader {

// One tensor that every sample has. `desc` describes the tensor of one sample; in a batch it is
// [batch, desc.shape...]. `name`: the program's data variable for this field.
struct SampleField {
  std::string name;
  TensorDesc desc;
  int64_t limit = 0;  // type i64: values are in [0, limit); 0: the limit is unknown
  // True: the field is packed. Its samples may be shorter than `desc`, and a batch stores them
  // without gaps at its start. Another field contains the position of each sample. A packed field
  // can be used only for a whole batch. Other fields can be divided into parts of a batch.
  bool packed = false;
};

// A set of samples. Immutable after it is opened, and therefore thread-safe.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual uint32_t size() const = 0;  // returns the number of samples, at least 1
  virtual const std::vector<SampleField>& fields() const = 0;

  // Copies the sample ids[i] to position i of every field. `out[f]`: host memory of the caller for
  // ids.size() consecutive samples of fields()[f]. OUT_OF_RANGE: an id is not below size().
  // DATA_LOSS: a sample that is read from a file is damaged; the message names file and offset.
  // After an error the content of `out` is undefined.
  virtual Status Fill(std::span<const uint32_t> ids, std::span<void* const> out) const = 0;

  // Copies samples like Fill, for epoch `epoch`. The result differs from the result of Fill only
  // for datasets whose samples change between epochs.
  virtual Status FillEpoch(uint64_t /*epoch*/, std::span<const uint32_t> ids,
                           std::span<void* const> out) const {
    return Fill(ids, out);
  }

  // Makes all calls of FillEpoch that wait for records end with CANCELLED, now and until the next
  // call of AllowWaits. Only streams wait.
  virtual void EndWaits() const {}
  virtual void AllowWaits() const {}

  // Returns the number of bytes that field `f` has in a batch of `samples` samples. `filled`: the
  // memory to which Fill has written this batch. Further bytes of the field are undefined.
  virtual size_t BytesOf(size_t f, size_t samples, std::span<void* const> /*filled*/) const {
    return samples * fields()[f].desc.bytes();
  }

  // Returns one line for the log that says where the samples come from.
  virtual std::string Describe() const = 0;
};

// Copies all samples of `dataset` in order, as Dataset::Fill.
Status FillAll(const Dataset& dataset, std::span<void* const> out);

// The training data and the test data of a job.
struct TrainAndTest {
  std::unique_ptr<Dataset> train, test;  // `test` is null if there is no test data
  // Validation rows of a format that splits data; null: there are none, or they are `test`.
  std::unique_ptr<Dataset> validation;
  std::vector<std::string> warnings;  // texts about the first bad records: "file:line: why"
  std::vector<std::string> notes;     // texts about files without an effect
  // Format "table": a line for each column. Images of a directory: a line for each class.
  std::vector<std::string> columns;
  std::vector<std::string> classes;  // images of a directory: names of the classes, by label
};

}  // namespace tandem::reader
