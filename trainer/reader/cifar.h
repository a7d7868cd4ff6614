// CIFAR-10 in its binary version: data_batch_1.bin to data_batch_5.bin and test_batch.bin, records
// of one byte label and 3 planes (red, green, blue) of 32x32 bytes.
// Source: https://www.cs.toronto.edu/~kriz/cifar.html
#pragma once

#include <memory>
#include <string>

#include "trainer/reader/dataset.h"

namespace tandem {

struct Cifar10Options {
  std::string dir;
  bool train = true;         // else test_batch.bin
  uint32_t samples_max = 0;  // the first so many samples; 0: all
};

// Fields: "img" f32 [3, 32, 32], (pixel / 255 - mean) / stddev with mean and stddev of each colour
// over the 50,000 training images, and "label" i64 [1] in [0, 10). The files are held in memory
// (154 MB). NOT_FOUND naming the file that is absent; DATA_LOSS naming file and offset for one that
// is no whole number of records, or empty, and for a label above 9.
StatusOr<std::unique_ptr<Dataset>> OpenCifar10(const Cifar10Options& options);

}  // namespace tandem
