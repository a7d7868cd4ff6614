// Formats of data files, for tests that hand damaged files to every reader.
#pragma once

#include <string>
#include <vector>

#include "trainer/reader/record_files.h"

namespace tandem {

inline constexpr int64_t kFormatBadMax = 3;  // bad_records_max of every reader here

struct ReaderFormat {
  const char* name;
  std::string valid;                // a file
  std::vector<const char*> pieces;  // that mutations put in
  StatusOr<TrainAndTest> (*open)(const std::string& path);
};

// criteo, libsvm, csv; tfrecord and recordio with messages whose features are x and label.
std::vector<ReaderFormat> ReaderFormats();
// REQUIRES: there is one.
ReaderFormat ReaderFormatOf(const std::string& name);

// A message as those in the files of records.
std::string ValidExample();

// What a dataset gave that it must not give: "" when every sample is read and within the limits of
// its fields.
std::string FaultOf(const Dataset& data);

}  // namespace tandem
