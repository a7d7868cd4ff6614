// Opens the data of a job: converts its configuration (proto/job.proto) to datasets and readers.
// The list of formats is in this file's source.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trainer/reader/input/dataset.h"
#include "trainer/reader/prefetch.h"

namespace tandem {
class DataConfig;
class JobConfig;
}  // namespace tandem

namespace tandem::reader {

struct ImageListOptions;

// The values of data.format: "mnist", "csv", ...
std::vector<std::string> DataFormats();

// Names of the sample fields of the job's format, in order; empty: unknown format.
std::vector<std::string> FieldNames(const DataConfig& config);

// Checks that the job names test data. INVALID_ARGUMENT: a field is not set; the message names it.
Status CheckTestData(const DataConfig& config);

// `job_dir`: base of the job's relative paths. The test data is opened only with `with_test`.
// `raw_images`: format "images" returns pixels, and the program makes the samples
// (trainer/job/sample_images.h). INVALID_ARGUMENT: unknown format; the message has the nearest one.
StatusOr<TrainAndTest> OpenData(const DataConfig& config, const std::string& job_dir,
                                bool with_test, bool raw_images = false);

// The options of the training samples of format "images" in directory `dir`. INVALID_ARGUMENT: mean
// or stddev does not have one value per channel.
StatusOr<ImageListOptions> ImageOptionsOf(const DataConfig& config, const std::string& dir);

// The part of each global batch that one rank reads.
struct ReadShare {
  int64_t global_batch = 0;
  int ranks = 1, rank = 0;
};

// Opens a reader of `dataset` with the job's settings for shuffling and prefetching. `dataset` and
// `device` must outlive it.
StatusOr<std::unique_ptr<Prefetcher>> OpenReader(const JobConfig& config, const Dataset& dataset,
                                                 const ReadShare& share, Device& device);

}  // namespace tandem::reader
