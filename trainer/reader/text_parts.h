// Splits a text in two parts: the beginning for training and the end for tests. Internal to the
// readers that make samples of one text.
#pragma once

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <limits>
#include <string>

#include "common/base/require.h"
#include "trainer/reader/input/dataset.h"

namespace tandem::reader {

// NOT_FOUND, PERMISSION_DENIED.
StatusOr<std::ifstream> OpenTextFile(const std::string& path);

// The number of samples of a dataset with `samples` possible ones. `samples_max`: upper limit; 0:
// none.
inline uint32_t SampleCount(int64_t samples, uint32_t samples_max) {
  const uint32_t most = samples_max > 0 ? samples_max : std::numeric_limits<uint32_t>::max();
  return static_cast<uint32_t>(std::min<int64_t>(samples, most));
}

// A text of `items` items: bytes or words.
class TextParts {
 public:
  // REQUIRES: test_share in (0, 1).
  TextParts(int64_t items, double test_share)
      : items_(items), train_(static_cast<int64_t>(static_cast<double>(items) * (1 - test_share))) {
    TD_REQUIRE(test_share > 0 && test_share < 1);
  }

  int64_t shorter() const { return std::min(train_, items_ - train_); }  // size of the shorter part
  // `make(begin, end, samples_max)` returns a dataset of the items [begin, end).
  template <typename Make>
  TrainAndTest Open(uint32_t samples_max, const Make& make) const {
    return {.train = make(0, train_, samples_max), .test = make(train_, items_, 0), .warnings = {}};
  }

 private:
  int64_t items_, train_;
};

}  // namespace tandem::reader
