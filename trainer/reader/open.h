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
struct ImageListOptions;

// "mnist", "csv", ...: what data.format may be.
std::vector<std::string> DataFormats();

// Names of the fields that samples of the job's format have, in their order; empty for a format
// that there is not.
std::vector<std::string> FieldNames(const DataConfig& config);

// Whether the job names data to evaluate on. INVALID_ARGUMENT naming the field that is not set.
Status CheckTestData(const DataConfig& config);

// `job_dir`: where relative paths of the job begin. The test data is opened only `with_test`.
// `raw_images`: of format "images" pixels, of which the program makes the samples
// (trainer/job/sample_images.h). INVALID_ARGUMENT for a format that there is not, with the nearest
// one.
StatusOr<TrainAndTest> OpenData(const DataConfig& config, const std::string& job_dir,
                                bool with_test, bool raw_images = false);

// The training samples of format "images" in folder `dir`. INVALID_ARGUMENT for a mean or stddev
// that is not one value a channel.
StatusOr<ImageListOptions> ImageOptionsOf(const DataConfig& config, const std::string& dir);

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
