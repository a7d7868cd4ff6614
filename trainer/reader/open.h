// The data of a job: from DataConfig (proto/job.proto) to datasets. The one list of formats.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trainer/reader/dataset.h"

namespace tandem {

class DataConfig;

struct OpenedData {
  std::unique_ptr<Dataset> train, test;
  std::vector<std::string> warnings;
};

// "mnist", "csv", ...: what data.format may be.
std::vector<std::string> DataFormats();

// `job_dir`: where relative paths begin. The test data is opened only `with_test`.
// INVALID_ARGUMENT for a format that there is not, with the nearest one.
StatusOr<OpenedData> OpenData(const DataConfig& config, const std::string& job_dir, bool with_test);

}  // namespace tandem
