// Formats of data files, for tests that give damaged files to every reader.
#pragma once

#include <string>
#include <vector>

#include "trainer/reader/input/record_files.h"

namespace tandem {

inline constexpr int64_t kFormatBadMax = 3;  // bad_records_max of every reader in these tests

struct ReaderFormat {
  const char* name;
  std::string valid;                // a file of this format
  std::vector<const char*> pieces;  // fragments that mutations insert
  StatusOr<reader::TrainAndTest> (*open)(const std::string& path);
};

// The formats criteo, libsvm and csv; and tfrecord and recordio, whose messages have the features x
// and label.
std::vector<ReaderFormat> ReaderFormats();
// REQUIRES: the format exists.
ReaderFormat ReaderFormatOf(const std::string& name);

// A message like those in the tfrecord and recordio files.
std::string ValidExample();

// Reads every sample of `data` and checks the limits of its fields. Returns "" or the first fault.
std::string FaultOf(const reader::Dataset& data);

}  // namespace tandem
