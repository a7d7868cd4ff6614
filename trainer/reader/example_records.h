// Records that are tf.train.Example messages (proto/example.proto), in tfrecord or recordio files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/reader/input/record_files.h"

namespace tandem::reader {

// A feature that every record has, as a field of the samples.
struct ExampleFeature {
  enum Kind : uint8_t { kFloat, kInt64, kBytes };
  std::string name;           // in the records
  std::string field;          // data variable of the program; empty: name
  Kind kind = kFloat;         // kFloat: f32; kInt64: i64; kBytes: f32, each byte times `scale`
  std::vector<int64_t> dims;  // per sample; their product is the number of values
  int64_t limit = 0;          // kInt64: values are in [0, limit); 0: any
  float scale = 1;            // kBytes: factor of each byte
};

struct ExampleOptions {
  RecordFiles files;  // reading.threads is unused
  std::vector<ExampleFeature> features;
};

// Opening reads and checks every record, and stores its position. Samples are read on demand. A
// record is bad if its checksum is wrong, or if a feature is missing or has the wrong kind or
// number of values. DATA_LOSS: a file has more than reading.bad_records_max bad records, or damage
// after which no record can be found. INVALID_ARGUMENT: options out of range.
StatusOr<TrainAndTest> OpenExamples(const ExampleOptions& options);

// Encodes sample `id` of `data` as such a message, with its fields as features: f32 as FloatList,
// others as Int64List. Errors: as Dataset::Fill().
StatusOr<std::string> ExampleOf(const Dataset& data, uint32_t id);

// Describes the features of a message, one per line: "label: int64 [1] 7"; at most `values_max`
// values of each. DATA_LOSS: `record` is not such a message.
StatusOr<std::string> DescribeExample(std::string_view record, size_t values_max);

}  // namespace tandem::reader
