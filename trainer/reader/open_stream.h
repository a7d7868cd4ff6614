// Opens the stream of a job (DataConfig.stream).
#pragma once

#include <string>

#include "common/base/status.h"
#include "trainer/reader/input/dataset.h"
#include "trainer/reader/input/record_log.h"

namespace tandem {
class DataConfig;
}  // namespace tandem

namespace tandem::reader {

// The rank that reads a stream.
struct StreamRank {
  LogShare share;
  // true: all ranks begin a step together, so a rank waits for the records of all ranks.
  bool together = true;
};

// Returns whether a job with a stream names test files.
bool NamesTestFiles(const DataConfig& config);

// Opens the stream, and the test files if the job names some and `with_test` is true. The training
// data are a StreamDataset. Does not wait for records. `job_dir`: base of the job's relative paths.
// NOT_FOUND: the directory of the stream does not exist. INVALID_ARGUMENT: a setting of Kafka is
// wrong. UNIMPLEMENTED: the format has no streams.
StatusOr<TrainAndTest> OpenStream(const DataConfig& config, const std::string& job_dir,
                                  bool with_test, const StreamRank& rank);

}  // namespace tandem::reader
