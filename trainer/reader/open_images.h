// Opens the images of a job, and describes directories of images.
#pragma once

#include <string>
#include <vector>

#include "trainer/reader/input/dataset.h"

namespace tandem {
class DataConfig;
}  // namespace tandem

namespace tandem::reader {

// Opens image lists or a directory of images; see OpenData(). `raw`: see ImageListOptions::raw.
StatusOr<TrainAndTest> OpenJobImages(const DataConfig& config, const std::string& dir,
                                     bool with_test, bool raw);

// Returns a line for each class of a directory of images, with the number of its images, a line
// with the sizes of the images, and lines about unreadable images. Errors: those of
// ListImageFolder() (trainer/reader/images/image_folder.h).
StatusOr<std::vector<std::string>> DescribeImages(const std::string& directory);

struct DescribedData {
  TrainAndTest data;
  // Lines about the sizes of the images as of DescribeImages(). Empty: the data are no directory of
  // images.
  std::vector<std::string> image_sizes;
};
// Opens the data of a job with its test data as OpenData() does, and reads the sizes of the images.
StatusOr<DescribedData> OpenDescribed(const DataConfig& config, const std::string& job_dir);

}  // namespace tandem::reader
