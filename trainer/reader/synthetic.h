// Generated images, for benchmarks and for tests without files. The options determine the size and
// the number of the images. A network can learn the classes of the images.
#pragma once

#include <memory>
#include <string>

#include "trainer/reader/input/dataset.h"

namespace tandem::reader {

struct SyntheticOptions {
  std::vector<int64_t> image = {3, 224, 224};  // dimensions of an image: channels, height, width
  int64_t classes = 1000;
  uint32_t samples = 1280;
  uint64_t seed = 1;
  bool train = true;  // true: training samples; false: test samples of the same classes
};

// Makes the dataset. The fields are "img" f32 [channels, height, width], mean 0, and "label" i64
// [1] in [0, classes). Sample i is a pure function of (seed, train, i). An image is a sum: half the
// colour of its class (one number per channel), half the pattern of its class, and its own noise
// with standard deviation 1. INVALID_ARGUMENT: a size is out of range.
StatusOr<std::unique_ptr<Dataset>> OpenSynthetic(const SyntheticOptions& options);

}  // namespace tandem::reader
