// Records that are tf.train.Example messages (proto/example.proto), in tfrecord or recordio files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/reader/record_files.h"

namespace tandem {

// A feature of every record, as a field of the samples.
struct ExampleFeature {
  enum Kind : uint8_t { kFloat, kInt64, kBytes };
  std::string name;           // in the records
  std::string field;          // data variable of the program; empty: name
  Kind kind = kFloat;         // kFloat: f32; kInt64: i64; kBytes: f32, each byte times `scale`
  std::vector<int64_t> dims;  // of a sample; as many values as their product
  int64_t limit = 0;          // kInt64: values are in [0, limit); 0: any
  float scale = 1;            // kBytes
};

struct ExampleOptions {
  RecordFiles files;  // reading.threads is not used
  std::vector<ExampleFeature> features;
};

// Every record is read, checked and found again by its place in its file: samples are read when
// they are asked for. A bad record is one whose checksum is wrong, or which has not all features in
// the kind and number that is said. DATA_LOSS for more bad records than reading.bad_records_max (of
// a file), and for damage behind which nothing can be found; INVALID_ARGUMENT for options out of
// range.
StatusOr<TrainAndTest> OpenExamples(const ExampleOptions& options);

// The sample `id` of `data` as such a message, its fields as features: f32 as FloatList, others as
// Int64List. Errors of Dataset::Fill().
StatusOr<std::string> ExampleOf(const Dataset& data, uint32_t id);

// The features of a message, one a line: "label: int64 [1] 7"; at most `values_max` values of each.
// DATA_LOSS when it is none.
StatusOr<std::string> DescribeExample(std::string_view record, size_t values_max);

}  // namespace tandem
