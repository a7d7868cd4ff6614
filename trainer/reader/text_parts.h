// Divides a text into two parts: its beginning for training, its end for tests. Internal to the
// readers that make samples from one text.
#pragma once

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <limits>
#include <string>

#include "common/base/require.h"
#include "trainer/reader/input/dataset.h"

namespace tandem::reader {

// Opens the file. NOT_FOUND: the file does not exist. PERMISSION_DENIED: this process may not read
// the file.
StatusOr<std::ifstream> OpenTextFile(const std::string& path);
// Returns the rest of the open file `path`. DATA_LOSS: the file cannot be read to its end.
StatusOr<std::string> ReadToEnd(const std::string& path, std::ifstream& file);

// Returns the number of samples that a dataset uses of its `samples` possible samples.
// `samples_max`: upper limit; 0: there is no limit.
inline uint32_t SampleCount(int64_t samples, uint32_t samples_max) {
  const uint32_t most = samples_max > 0 ? samples_max : std::numeric_limits<uint32_t>::max();
  return static_cast<uint32_t>(std::min<int64_t>(samples, most));
}

// The two parts of a text of `items` items. An item is a byte or a word.
class TextParts {
 public:
  // REQUIRES: 0 < test_share < 1.
  TextParts(int64_t items, double test_share)
      : items_(items), train_(static_cast<int64_t>(static_cast<double>(items) * (1 - test_share))) {
    TD_REQUIRE(test_share > 0 && test_share < 1);
  }

  // Returns the number of items of the shorter part.
  int64_t shorter() const { return std::min(train_, items_ - train_); }
  // Makes the datasets of both parts. `make(begin, end, samples_max)` must return a dataset of the
  // items [begin, end).
  template <typename Make>
  TrainAndTest Open(uint32_t samples_max, const Make& make) const {
    return {.train = make(0, train_, samples_max), .test = make(train_, items_, 0), .warnings = {}};
  }

 private:
  int64_t items_, train_;
};

}  // namespace tandem::reader
