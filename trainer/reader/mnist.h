// MNIST and the datasets in its layout (Fashion-MNIST, KMNIST): four idx files in one folder,
//   train-images-idx3-ubyte  train-labels-idx1-ubyte  t10k-images-idx3-ubyte t10k-labels-idx1-ubyte
// each plain or with .gz behind the name (the plain one is taken where both are there).
#pragma once

#include <memory>
#include <string>

#include "trainer/reader/dataset.h"

namespace tandem {

struct MnistOptions {
  std::string dir;
  bool train = true;         // else the test files (t10k-*)
  uint32_t samples_max = 0;  // the first so many samples; 0: all
  uint32_t classes = 10;     // labels are 0 .. classes-1
  // f32: (pixel / 255 - mean) / stddev; u8: the pixel as it is.
  DType image_dtype = DType::kF32;
  // Mean and standard deviation of the 60,000 training images of Fashion-MNIST after division by
  // 255; mean 0 and stddev 1 leave pixels in [0, 1].
  float mean = 0.2860f;
  float stddev = 0.3530f;
};

// Fields: "img" [1, rows, columns] (image_dtype) and "label" [1] (i64). The files are unpacked into
// memory (47 MB for 60,000 images).
// NOT_FOUND with what to do when the folder or a file is absent; DATA_LOSS naming file and offset
// when one is damaged, when images and labels differ in number, for a label >= classes, for no
// samples.
StatusOr<std::unique_ptr<Dataset>> OpenMnist(const MnistOptions& options);

}  // namespace tandem
