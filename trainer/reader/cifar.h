// CIFAR-10 in its binary version: data_batch_1.bin to data_batch_5.bin and test_batch.bin. A record
// has one byte for the label and 3 planes (red, green, blue) of 32x32 bytes. Source:
// https://www.cs.toronto.edu/~kriz/cifar.html
#pragma once

#include <memory>
#include <string>

#include "trainer/reader/input/dataset.h"

namespace tandem::reader {

struct Cifar10Options {
  std::string dir;
  bool train = true;         // true: the training files; false: test_batch.bin
  uint32_t samples_max = 0;  // number of samples to use, from the first on; 0: all
};

// Opens CIFAR-10. The fields are "img" f32 [3, 32, 32] and "label" i64 [1] in [0, 10). A pixel
// becomes (pixel / 255 - mean) / stddev, with mean and stddev of each colour over the 50,000
// training images. The dataset keeps the files in memory (154 MB). NOT_FOUND: a file is absent; the
// message names the file. DATA_LOSS: a file is empty, its size is not a whole number of records, or
// a label is above 9; the message names file and offset.
StatusOr<std::unique_ptr<Dataset>> OpenCifar10(const Cifar10Options& options);

}  // namespace tandem::reader
