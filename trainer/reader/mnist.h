// MNIST and datasets with the same layout (Fashion-MNIST, KMNIST): four idx files in one directory,
//   train-images-idx3-ubyte  train-labels-idx1-ubyte  t10k-images-idx3-ubyte t10k-labels-idx1-ubyte
// each plain or with the suffix .gz (if both exist, the plain one is used).
#pragma once

#include <memory>
#include <string>

#include "trainer/reader/input/dataset.h"

namespace tandem::reader {

struct MnistOptions {
  std::string dir;
  bool train = true;         // false: the test files (t10k-*)
  uint32_t samples_max = 0;  // uses only the first samples_max samples; 0: all
  uint32_t classes = 10;     // labels are 0 .. classes-1
  // f32: (pixel / 255 - mean) / stddev; u8: the unchanged pixel.
  DType image_dtype = DType::kF32;
  // Mean and standard deviation of the 60,000 training images of Fashion-MNIST after division by
  // 255. With mean 0 and stddev 1 pixels stay in [0, 1].
  float mean = 0.2860f;
  float stddev = 0.3530f;
};

// Fields: "img" [1, rows, columns] (image_dtype) and "label" [1] (i64). The files are unpacked into
// memory (47 MB for 60,000 images). NOT_FOUND: the directory or a file is absent; the message has a
// hint. DATA_LOSS, naming file and offset: a file is damaged, images and labels differ in number, a
// label is >= classes, or there are no samples.
StatusOr<std::unique_ptr<Dataset>> OpenMnist(const MnistOptions& options);

}  // namespace tandem::reader
