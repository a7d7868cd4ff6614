// Records that are tf.train.Example messages (proto/example.proto), in tfrecord or recordio files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/reader/input/record_files.h"

namespace tandem::reader {

// A feature that every record has. It becomes a field of the samples.
struct ExampleFeature {
  enum Kind : uint8_t { kFloat, kInt64, kBytes };
  std::string name;           // name of the feature in the records
  std::string field;          // data variable of the program; empty: equal to `name`
  Kind kind = kFloat;         // kFloat: f32; kInt64: i64; kBytes: f32, each byte times `scale`
  std::vector<int64_t> dims;  // dimensions in a sample; their product is the number of values
  int64_t limit = 0;          // kInt64: values are in [0, limit); 0: any value
  float scale = 1;            // kBytes: factor of each byte
};

struct ExampleOptions {
  RecordFiles files;  // the files; reading.threads is unused
  std::vector<ExampleFeature> features;
};

// Opens the files: reads and checks every record, and stores the positions of the good records.
// Each sample is read again when a batch needs it. A record is bad if its checksum is wrong, if a
// feature is missing, or if a feature has the wrong kind or number of values. DATA_LOSS: a file has
// more than reading.bad_records_max bad records, or the next record after a damage cannot be found.
// INVALID_ARGUMENT: an option is out of range.
StatusOr<TrainAndTest> OpenExamples(const ExampleOptions& options);

// Encodes sample `id` of `data` as a tf.train.Example. The features are the fields of the sample:
// f32 as FloatList, other types as Int64List. Errors: those of Dataset::Fill().
StatusOr<std::string> ExampleOf(const Dataset& data, uint32_t id);

// Returns a description of the features of a tf.train.Example, one per line: "label: int64 [1] 7".
// The description has at most `values_max` values of each feature. DATA_LOSS: `record` is no
// tf.train.Example.
StatusOr<std::string> DescribeExample(std::string_view record, size_t values_max);

}  // namespace tandem::reader
