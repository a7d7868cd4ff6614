// Images that nobody took, for benchmarks and for tests without files: as large and as many as
// wanted, and such that a network can learn their classes.
#pragma once

#include <memory>
#include <string>

#include "trainer/reader/dataset.h"

namespace tandem {

struct SyntheticOptions {
  std::vector<int64_t> image = {3, 224, 224};  // channels, height, width
  int64_t classes = 1000;
  uint32_t samples = 1280;
  uint64_t seed = 1;
  bool train = true;  // test samples are others of the same classes
};

// Fields: "img" f32 [channels, height, width], mean 0, and "label" i64 [1] in [0, classes). Sample
// i is a pure function of (seed, train, i): half the colour of its class (one number a channel),
// half a pattern of its class, and noise of its own with standard deviation 1. INVALID_ARGUMENT for
// sizes out of range.
StatusOr<std::unique_ptr<Dataset>> OpenSynthetic(const SyntheticOptions& options);

}  // namespace tandem
