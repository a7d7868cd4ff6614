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

// Returns a line for each class of a directory of images, with the number of its images, and the
// lines of DescribeImageSizes(). Errors: those of ListImageFolder()
// (trainer/reader/images/image_folder.h).
StatusOr<std::vector<std::string>> DescribeImages(const std::string& directory);
// Returns a line with the sizes of the images in the job's directory, and lines about unreadable
// images. Empty: the job's data are no directory of images. Errors: those of DescribeImages().
StatusOr<std::vector<std::string>> DescribeImageSizes(const DataConfig& config,
                                                      const std::string& job_dir);

}  // namespace tandem::reader
