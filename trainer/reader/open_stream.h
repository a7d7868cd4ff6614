// Opens the stream of a job (DataConfig.stream).
#pragma once

#include <string>

#include "common/base/status.h"
#include "trainer/reader/input/dataset.h"
#include "trainer/reader/stream/record_log.h"

namespace tandem {
class DataConfig;
}  // namespace tandem

namespace tandem::reader {

// Returns whether a job with a stream names test files.
bool NamesTestFiles(const DataConfig& config);

// Opens the stream, and the test files if the job names some and `with_test` is true. The training
// data are a StreamDataset. Does not wait for records. `job_dir`: base of the job's relative paths.
// NOT_FOUND: the directory does not exist. UNIMPLEMENTED: the format has no streams.
StatusOr<TrainAndTest> OpenStream(const DataConfig& config, const std::string& job_dir,
                                  bool with_test, const LogShare& share);

}  // namespace tandem::reader
