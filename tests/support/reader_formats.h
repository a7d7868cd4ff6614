// Data files of several formats. Tests damage these files and give them to the readers.
#pragma once

#include <string>
#include <vector>

#include "trainer/reader/input/record_files.h"

namespace tandem {

// Value of bad_records_max for every reader in these tests.
inline constexpr int64_t kFormatBadMax = 3;

struct ReaderFormat {
  const char* name;
  std::string valid;                // content of a valid file of this format
  std::vector<const char*> pieces;  // fragments that mutations insert into a file
  StatusOr<reader::TrainAndTest> (*open)(const std::string& path);
};

// Returns the formats criteo, libsvm, csv, tfrecord and recordio. The messages in tfrecord and
// recordio files have the features x and label.
std::vector<ReaderFormat> ReaderFormats();
// Returns the format `name`. REQUIRES: the format exists.
ReaderFormat ReaderFormatOf(const std::string& name);

// Returns a message like those in the tfrecord and recordio files.
std::string ValidExample();

// Reads every sample of `data` and checks that its values are in range. Returns "", or a
// description of the first fault.
std::string FaultOf(const reader::Dataset& data);

}  // namespace tandem
