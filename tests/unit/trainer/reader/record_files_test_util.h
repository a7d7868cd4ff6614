// Helpers for tests that open readers of record files.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "tests/unit/trainer/test_files.h"
#include "trainer/reader/input/record_files.h"

namespace tandem::reader {

// A fixture for a reader of files. T is the type of the reader's options, which has a member
// `files`.
template <typename T, StatusOr<TrainAndTest> (*kOpen)(const T&)>
class RecordFilesTest : public testing::Test {
 protected:
  // Returns options with one training file whose content is `train`.
  T OptionsFor(const std::string& train) {
    trainer::WriteFile(dir_ / "train", train);
    T options;
    options.files.train = {dir_ / "train"};
    return options;
  }
  static std::string Error(const T& options) {
    return std::string(kOpen(options).status().message());
  }

  TempDir dir_;
};

}  // namespace tandem::reader
