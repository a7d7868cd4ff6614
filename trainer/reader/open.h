// The data of a job: from its configuration (proto/job.proto) to datasets, of which there is one
// list of formats, and to readers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trainer/reader/dataset.h"
#include "trainer/reader/prefetch.h"

namespace tandem {

class DataConfig;
class JobConfig;

struct OpenedData {
  std::unique_ptr<Dataset> train, test;
  std::vector<std::string> warnings;
};

// "mnist", "csv", ...: what data.format may be.
std::vector<std::string> DataFormats();

// `job_dir`: where relative paths begin. The test data is opened only `with_test`.
// INVALID_ARGUMENT for a format that there is not, with the nearest one.
StatusOr<OpenedData> OpenData(const DataConfig& config, const std::string& job_dir, bool with_test);

// Whose part of each global batch is read.
struct ReadShare {
  int64_t global_batch = 0;
  int ranks = 1, rank = 0;
};

// Reads `dataset` as the job says: shuffled or not, ahead or not. `dataset` and `device` must
// outlive it.
StatusOr<std::unique_ptr<Prefetcher>> OpenReader(const JobConfig& config, const Dataset& dataset,
                                                 const ReadShare& share, Device& device);

}  // namespace tandem
