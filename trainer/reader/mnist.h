// MNIST and datasets with the same layout (Fashion-MNIST, KMNIST): four idx files in one directory,
//   train-images-idx3-ubyte  train-labels-idx1-ubyte  t10k-images-idx3-ubyte t10k-labels-idx1-ubyte
// each plain or with the suffix .gz. If both forms of a file exist, the plain file is used.
#pragma once

#include <memory>
#include <string>

#include "trainer/reader/input/dataset.h"

namespace tandem::reader {

struct MnistOptions {
  std::string dir;
  bool train = true;         // true: the training files; false: the test files (t10k-*)
  uint32_t samples_max = 0;  // number of samples to use, from the first on; 0: all
  uint32_t classes = 10;     // number of classes; labels are 0 to classes - 1
  // Type of "img". f32: (pixel / 255 - mean) / stddev. u8: the unchanged pixel.
  DType image_dtype = DType::kF32;
  // The defaults are the mean and standard deviation of the 60,000 training images of Fashion-MNIST
  // after division by 255. With mean 0 and stddev 1 the pixels are in [0, 1].
  float mean = 0.2860f;
  float stddev = 0.3530f;
};

// Opens the dataset. The fields are "img" [1, rows, columns] (image_dtype) and "label" [1] (i64).
// The dataset keeps the unpacked files in memory (47 MB for 60,000 images). NOT_FOUND: the
// directory or a file is absent; the message has a hint. DATA_LOSS: a file is damaged, images and
// labels differ in number, a label is not below `classes`, or there are no samples. The message
// names file and offset.
StatusOr<std::unique_ptr<Dataset>> OpenMnist(const MnistOptions& options);

}  // namespace tandem::reader
