// Opens the data of a job: converts the job's configuration (proto/job.proto) to datasets and
// readers. The list of the data formats is in open.cc.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trainer/reader/input/dataset.h"
#include "trainer/reader/input/line_format.h"
#include "trainer/reader/prefetch.h"

namespace tandem {
class DataConfig;
class JobConfig;
}  // namespace tandem

namespace tandem::reader {

struct ImageListOptions;

// Returns the names of all data formats (the values of data.format): "mnist", "csv" and others.
std::vector<std::string> DataFormats();

// Returns the names of the sample fields of the job's format, in order. Empty: the format is
// unknown, or its fields depend on the data file ("table").
std::vector<std::string> FieldNames(const DataConfig& config);

// Checks that the job names test data. INVALID_ARGUMENT: a field with test data is not set; the
// message names this field.
Status CheckTestData(const DataConfig& config);

// Returns the directory of the job's files. `job_dir`: base of a relative data.dir.
std::string DataDir(const DataConfig& config, const std::string& job_dir);

// Makes the format of a stream's records. UNIMPLEMENTED: the job's format has no such lines.
StatusOr<std::unique_ptr<LineFormat>> MakeLineFormat(const DataConfig& config);

// Opens the data of a job without a stream. `job_dir`: base of the job's relative paths.
// `with_test`: also opens the test data, and validation data of a split. `raw_images`: with format
// "images" the samples are pixels, and the program makes the final samples
// (trainer/session/sample_images.h). INVALID_ARGUMENT: the format is unknown; the message has the
// nearest format. UNIMPLEMENTED: the job has a stream.
StatusOr<TrainAndTest> OpenData(const DataConfig& config, const std::string& job_dir,
                                bool with_test, bool raw_images = false);

// Returns the options for training data in format "images" in directory `dir`. INVALID_ARGUMENT:
// mean or stddev does not have one value per channel.
StatusOr<ImageListOptions> ImageOptionsOf(const DataConfig& config, const std::string& dir);

// Returns the character that separates the fields of a line. `field`: name of the setting, for
// messages. INVALID_ARGUMENT: `separator` is not one character, or is a quote or the end of a line.
StatusOr<char> SeparatorOf(const char* field, const std::string& separator);

// The part of each global batch that one rank reads.
struct ReadShare {
  int64_t global_batch = 0;
  int ranks = 1, rank = 0;
};

// Opens a reader of the share `share` of `dataset`, with the job's settings for shuffling and
// prefetching. `dataset` and `device` must outlive the reader.
StatusOr<std::unique_ptr<Prefetcher>> OpenReader(const JobConfig& config, const Dataset& dataset,
                                                 const ReadShare& share, Device& device);

}  // namespace tandem::reader
